#include "scheduler/start_times.hpp"

#include <doctest/doctest.h>

#include "offers.hpp"

using namespace gf;
using std::chrono::minutes;
using std::chrono::seconds;

namespace {

StartRecord after(std::initializer_list<int> took) {
    StartRecord record{.key = start_key(StartPhase::boot, "vastai", "")};
    for (const int s : took) record = observed(std::move(record), seconds{s}, test::kNow);
    return record;
}

}  // namespace

TEST_CASE("the prior gives way to what was seen") {
    struct Row {
        std::vector<int> seen;
        int typical, worst;  // whole seconds
    };
    const Row table[] = {{{}, 180, 1200},
                         {{60}, 140, 1200},          // two parts of 180, one of 60
                         {{60, 60}, 120, 1200},
                         {{60, 60, 60}, 108, 60},    // three times: the prior's worst says nothing any more
                         {{60, 1500}, 480, 1500},    // worse than the prior's worst
                         {{10, 20, 30, 1000}, 76, 1000}};
    for (const auto& row : table) {
        StartRecord record;
        for (const int s : row.seen) record = observed(std::move(record), seconds{s}, test::kNow);
        const auto time = boot_time(row.seen.empty() ? nullptr : &record);
        CAPTURE(row.seen.size());
        CHECK(std::chrono::floor<seconds>(time.typical) == seconds{row.typical});
        CHECK(time.worst == seconds{row.worst});
        CHECK(time.seen == static_cast<int>(row.seen.size()));
    }
}

TEST_CASE("a record keeps the newest sixteen, and no negative time") {
    StartRecord record = after({1000});
    for (int i = 0; i < 16; ++i) record = observed(std::move(record), seconds{10}, test::kNow);
    CHECK(record.times.size() == kStartTimesKept);
    CHECK(boot_time(&record).worst == seconds{10});
    CHECK(observed({}, seconds{-5}, test::kNow).times == std::vector<Millis>{Millis{0}});
    CHECK(record.at == test::kNow);
}

TEST_CASE("only images are told apart by image") {
    CHECK(start_key(StartPhase::boot, "vastai", "x:1") == "boot/vastai");
    CHECK(start_key(StartPhase::image, "vastai", "x:1") == "image/vastai/x:1");
    CHECK(start_key(StartPhase::restore, "runpod", "x:1") == "restore/runpod");
    CHECK(image_time(nullptr, false).typical == Millis{0});
    CHECK(image_time(nullptr, true).typical == minutes{3});
}

TEST_CASE("a restore goes by the size and the line") {
    CHECK(restore_time(nullptr, Bytes{0}, 1000).typical == Millis{0});
    CHECK(restore_time(nullptr, Bytes{5 * kGB}, 1000).typical == seconds{40});
    CHECK(restore_time(nullptr, Bytes{5 * kGB}, 1000).worst == seconds{160});
    CHECK(restore_time(nullptr, Bytes{5 * kGB}, std::nullopt).typical == seconds{200});
    CHECK(restore_time(nullptr, Bytes{kGB}, 0.0).typical > minutes{60});
    // Seen: ten seconds per GB, three times.
    StartRecord record;
    for (int i = 0; i < 3; ++i) record = observed(std::move(record), *per_gb(seconds{20}, Bytes{2 * kGB}), test::kNow);
    const auto time = restore_time(&record, Bytes{4 * kGB}, 1000);
    CHECK(time.typical == Millis{(8'000 * 2 + 10'000 * 3) * 4 / 5});
    CHECK(time.worst == seconds{40});
    CHECK(!per_gb(seconds{1}, Bytes{1000}).has_value());
    CHECK(!per_gb(seconds{-1}, Bytes{kGB}).has_value());
    CHECK(per_gb(seconds{30}, Bytes{3 * kGB}) == Millis{10'000});
    // Beyond all sense stays a number.
    CHECK(restore_time(nullptr, Bytes{INT64_MAX}, 1.0).typical <= std::chrono::hours{24 * 30});
}
