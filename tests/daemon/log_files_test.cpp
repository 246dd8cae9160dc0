#include "daemon/gateway/log_files.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "tests/daemon/support/temporary_folder.hpp"

namespace gf::gateway {
namespace {

const JobId kJob{"job_00000000000000000000000001"};
const AttemptId kAttempt{"att_00000000000000000000000001"};
constexpr std::int64_t kPlenty = 1 << 20;

struct Bench {
    test::TemporaryFolder folder;
    LogFiles logs{folder.path(), kPlenty};
    [[nodiscard]] std::string path(const char* extension = ".log") const {
        return folder / ("logs/" + kJob.get() + "/" + kAttempt.get() + extension);
    }
    [[nodiscard]] std::string text() const { return test::read_file(path()); }
    std::int64_t append(std::int64_t offset, std::string_view bytes) { return logs.append(kJob, kAttempt, offset, bytes).value(); }
    std::int64_t skip(std::int64_t offset, std::int64_t count) { return logs.skip(kJob, kAttempt, offset, count).value(); }
};

TEST_CASE("bytes sent twice are there once, and a gap is refused") {
    Bench b;
    CHECK(b.append(0, "hello ") == 6);
    CHECK(b.append(0, "hello ") == 6);
    CHECK(b.append(3, "lo world") == 11);
    CHECK(b.text() == "hello world");
    CHECK(b.append(20, "later") == 11);  // send from 11
    CHECK(b.append(0, "") == 11);        // only asking
    CHECK(b.text() == "hello world");
}

TEST_CASE("the file's length is the truth after a restart") {
    Bench b;
    b.append(0, "hello");
    LogFiles again(b.folder.path(), kPlenty);
    CHECK(again.append(kJob, kAttempt, 0, "").value() == 5);
    CHECK(again.append(kJob, kAttempt, 5, "!").value() == 6);
    CHECK(b.text() == "hello!");
}

TEST_CASE("dropped bytes count in the offsets and show as a mark") {
    Bench b;
    b.append(0, "head");
    CHECK(b.skip(4, 1000) == 1004);
    CHECK(b.skip(4, 1000) == 1004);  // told twice
    CHECK(b.append(1004, "tail") == 1008);
    CHECK(b.text() == "head" + LogFiles::mark(1000) + "tail");
    LogFiles again(b.folder.path(), kPlenty);
    CHECK(again.append(kJob, kAttempt, 0, "").value() == 1008);
    CHECK(again.skip(kJob, kAttempt, 1008, 50).value() == 1058);
    CHECK(again.append(kJob, kAttempt, 1058, "end").value() == 1061);
    CHECK(b.text() == "head" + LogFiles::mark(1000) + "tail" + LogFiles::mark(50) + "end");
}

TEST_CASE("gaps that follow one another are one mark") {
    Bench b;
    b.append(0, "a");
    b.skip(1, 10);
    CHECK(b.skip(11, 5) == 16);
    CHECK(b.text() == "a" + LogFiles::mark(15));
    LogFiles again(b.folder.path(), kPlenty);
    CHECK(again.append(kJob, kAttempt, 0, "").value() == 16);
}

TEST_CASE("a crash at any point of writing a gap is made good") {
    // The bytes, the record and the mark reach the disk in this order; every prefix of that is what a crash can leave.
    const std::string mark = LogFiles::mark(100);
    for (std::size_t cut = 0; cut <= mark.size(); ++cut) {
        CAPTURE(cut);
        Bench b;
        test::write_file(b.path(), "head" + mark.substr(0, cut));
        test::write_file(b.path(".gaps"), "4 100\n");
        CHECK(b.append(0, "") == 104);
        CHECK(b.append(104, "tail") == 108);
        CHECK(b.text() == "head" + mark + "tail");
    }
}

TEST_CASE("half a record is no record") {
    Bench b;
    test::write_file(b.path(), "head");
    test::write_file(b.path(".gaps"), "4 10");
    CHECK(b.append(0, "") == 4);
    CHECK(b.skip(4, 77) == 81);
    LogFiles again(b.folder.path(), kPlenty);
    CHECK(again.append(kJob, kAttempt, 0, "").value() == 81);
}

TEST_CASE("a job that writes beyond its quota keeps its head and a mark, and its agent is never stuck") {
    test::TemporaryFolder folder;
    LogFiles logs(folder.path(), 1000);
    const std::string piece(300, 'x');
    for (std::int64_t offset = 0; offset < 30'000; offset += 300)
        REQUIRE(logs.append(kJob, kAttempt, offset, piece).value() == offset + 300);
    const auto text = test::read_file(folder / ("logs/" + kJob.get() + "/" + kAttempt.get() + ".log"));
    CHECK(text == std::string(1000, 'x') + LogFiles::mark(29'000));
    // The quota is the job's, not the attempt's, also after a restart.
    const AttemptId second{"att_00000000000000000000000002"};
    LogFiles again(folder.path(), 1000);
    // But no attempt is without a word: its first 1/64 is kept, up to twice the quota in all.
    const auto text_of = [&](const AttemptId& attempt) { return test::read_file(folder / ("logs/" + kJob.get() + "/" + attempt.get() + ".log")); };
    CHECK(again.append(kJob, second, 0, "why it failed, and more").value() == 23);
    CHECK(text_of(second) == "why it failed, " + LogFiles::mark(8));
    CHECK(again.room(kJob) == 15);
    CHECK(LogFiles(folder.path(), 16'000).room(kJob) > 13'000);
    int kept = 0;
    for (int n = 10; n < 99; ++n) {
        const AttemptId next{"att_000000000000000000000000" + std::to_string(n)};
        REQUIRE(again.append(kJob, next, 0, "fifteen letters").has_value());
        kept += text_of(next).starts_with("fifteen letters") ? 1 : 0;
    }
    CHECK(kept > 55);
    CHECK(kept < 70);
}

TEST_CASE("what a lost machine had not sent is marked as that") {
    Bench b;
    b.append(0, "hello");
    CHECK_FALSE(b.logs.lost(kJob, kAttempt, 5).value());
    CHECK(b.text() == "hello");
    CHECK(b.logs.lost(kJob, kAttempt, 1005).value());
    CHECK(b.text() == "hello" + LogFiles::mark(1000, LogFiles::Why::machine_lost));
    CHECK(LogFiles::mark(1000, LogFiles::Why::machine_lost).size() == LogFiles::mark(0).size());
    CHECK_FALSE(b.logs.lost(kJob, kAttempt, 1005).value());
    // A crash between record and mark is made good with the same words.
    test::write_file(b.path(), "hello");
    LogFiles again(b.folder.path(), kPlenty);
    CHECK(again.append(kJob, kAttempt, 0, "").value() == 1005);
    CHECK(b.text() == "hello" + LogFiles::mark(1000, LogFiles::Why::machine_lost));
}

TEST_CASE("writers at the same time lose and double nothing") {
    Bench b;
    std::vector<std::thread> writers;
    for (int w = 0; w < 4; ++w)
        writers.emplace_back([&b] {
            // All send the same 200 bytes in small steps, as two connections of one agent could.
            for (std::int64_t at = 0; at < 200;) {
                const char byte = static_cast<char>('a' + at % 26);
                const auto acked = b.logs.append(kJob, kAttempt, at, std::string_view(&byte, 1));
                at = acked.value();
            }
        });
    for (auto& writer : writers) writer.join();
    std::string expected;
    for (int i = 0; i < 200; ++i) expected += static_cast<char>('a' + i % 26);
    CHECK(b.text() == expected);
}

TEST_CASE("more logs than are kept open each go on where they were") {
    test::TemporaryFolder folder;
    LogFiles logs(folder.path(), kPlenty);
    const auto attempt = [](int n) { return AttemptId{"att_" + std::string(26 - std::to_string(n).size(), '0') + std::to_string(n)}; };
    const int count = static_cast<int>(LogFiles::kOpenMax) + 20;
    for (int n = 0; n < count; ++n) REQUIRE(logs.append(kJob, attempt(n), 0, "one").value() == 3);
    for (int n = 0; n < count; ++n) REQUIRE(logs.append(kJob, attempt(n), 3, "two").value() == 6);
}

}  // namespace
}  // namespace gf::gateway
