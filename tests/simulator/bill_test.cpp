#include "simulator/bill.hpp"

#include <doctest/doctest.h>

using namespace gf;
using namespace gf::sim;

namespace {
Instant at(std::int64_t seconds) {
    return instant_of(seconds * 1000);
}
}  // namespace

TEST_CASE("a bill adds up per line, to the micro-dollar") {
    struct Row {
        std::int64_t gpu_per_hour, disk_per_month, seconds, gpu_micros, disk_micros;
    };
    const Row rows[] = {
        {690'000, 0, 3600, 690'000, 0},
        {690'000, 0, 1, 192, 0},                   // 191.67, to the nearest
        {0, 9'000'000, 720 * 3600, 0, 9'000'000},  // a month of 60 GB at $0.15
        {370'000, 9'000'000, 3600, 370'000, 12'500},
    };
    for (const auto& row : rows) {
        Bill bill(at(0));
        bill.accrue(at(row.seconds), {row.gpu_per_hour, row.disk_per_month});
        CHECK(bill.gpu().micros == row.gpu_micros);
        CHECK(bill.disk().micros == row.disk_micros);
        CHECK(bill.total().micros == row.gpu_micros + row.disk_micros);
    }
}

TEST_CASE("many small slices cost what one long one costs") {
    Bill slices(at(0));
    for (int i = 1; i <= 3600; ++i) slices.accrue(at(i), {690'000, 3'000'000});
    Bill whole(at(0));
    whole.accrue(at(3600), {690'000, 3'000'000});
    CHECK(slices.total() == whole.total());
    CHECK(slices.spans().size() == 1);
}

TEST_CASE("a changed rate opens a new span and the past keeps its price") {
    Bill bill(at(0));
    bill.accrue(at(3600), {400'000, 0});
    bill.accrue(at(7200), {800'000, 0});
    CHECK(bill.gpu().micros == 1'200'000);
    REQUIRE(bill.spans().size() == 2);
    CHECK(bill.within(at(3600), at(5400)).gpu.micros == 400'000);
    CHECK(bill.within(at(0), at(3600)).gpu.micros == 400'000);
    CHECK(bill.within(at(9000), at(9900)).gpu.micros == 0);
}

TEST_CASE("time that is over is not billed twice") {
    Bill bill(at(100));
    bill.accrue(at(200), {3'600'000, 0});
    bill.accrue(at(150), {3'600'000, 0});
    bill.accrue(at(200), {3'600'000, 0});
    CHECK(bill.gpu().micros == 100'000);
}

TEST_CASE("a bill in steps charges each that has begun, whole, at the rate it began with") {
    const auto start = gf::instant_of(1'000'000'000);
    const auto at = [&](std::int64_t ms) { return start + gf::Millis{ms}; };
    const Rates rate{.gpu_micros_per_hour = 6'000'000, .disk_micros_per_month = 0};
    const Rates dearer{.gpu_micros_per_hour = 12'000'000, .disk_micros_per_month = 0};
    Bill minutes(start, gf::Millis{60'000});
    minutes.accrue(at(90'000), {});
    CHECK(minutes.total().micros == 0);
    minutes.accrue(at(90'000), rate);  // it begins here: a minute is charged at once
    CHECK(minutes.total().micros == 100'000);
    minutes.accrue(at(150'000), rate);
    CHECK(minutes.total().micros == 100'000);
    minutes.accrue(at(150'001), rate);
    CHECK(minutes.total().micros == 200'000);
    minutes.accrue(at(210'000), dearer);  // the second minute began before the price rose
    CHECK(minutes.total().micros == 200'000);
    minutes.accrue(at(270'000), dearer);
    CHECK(minutes.total().micros == 400'000);
    CHECK(minutes.steps() == 3);
    minutes.accrue(at(1'000'000), {});
    minutes.accrue(at(1'000'001), rate);  // a new minute after a pause
    CHECK(minutes.total().micros == 500'000);
    minutes.accrue(at(1'000'000 + 3'600'000), rate);
    CHECK(minutes.total().micros == 400'000 + 60 * 100'000);
    Bill hours(start, gf::Millis{3'600'000});
    hours.accrue(start, rate);
    CHECK(hours.total().micros == 6'000'000);
    hours.accrue(at(100LL * 24 * 3'600'000), rate);
    CHECK(hours.steps() == 2'400);
    CHECK(hours.total().micros == 2'400 * std::int64_t{6'000'000});
}
