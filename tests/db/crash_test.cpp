// kill -9 of the writer at moments that nobody chose: whatever it acknowledged is on the disk, whole.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstring>

#include "db/sqlite_store.hpp"
#include "tests/db/child_process.hpp"
#include "tests/db/sample_rows.hpp"

using namespace gf;
using namespace gf::test;

namespace {

/// Commits jobs, each with its task and event, in batches of one to five, and tells the total after each commit.
void commit_for_ever(const std::string& path, std::uint64_t seed, int write_fd) {
    Samples s(seed);
    auto store = open_sqlite_store(path);
    if (!store) ::_exit(3);
    std::int64_t acknowledged = 0;
    for (;;) {
        std::vector<RowChange> rows;
        const auto jobs = 1 + s.entropy().below(5);
        for (std::uint64_t i = 0; i < jobs; ++i) {
            auto job = s.job();
            job.id = JobId{"job_" + std::to_string(seed) + "_" + std::to_string(acknowledged + static_cast<std::int64_t>(i))};
            auto task = s.task(job);
            task.id = TaskId{"tsk_" + job.id.get()};
            rows.emplace_back(PutJob{job, {}});
            rows.emplace_back(PutTask{task, {}});
            rows.emplace_back(AddEvent{s.event(job.id)});
        }
        if (!(*store)->commit(rows)) ::_exit(4);
        acknowledged += static_cast<std::int64_t>(jobs);
        if (::write(write_fd, &acknowledged, sizeof acknowledged) != sizeof acknowledged) ::_exit(5);
        if (s.entropy().below(20) == 0) (*store)->checkpoint_wal();
    }
}

std::int64_t last_of(const std::string& bytes) {
    std::int64_t value = 0;
    const auto whole = bytes.size() / sizeof value;
    if (whole > 0) std::memcpy(&value, bytes.data() + (whole - 1) * sizeof value, sizeof value);
    return value;
}

}  // namespace

TEST_CASE("every acknowledged commit survives kill -9 of the writer, and no commit is half there") {
    constexpr int kKills = 25;
    const TempFolder folder(true);
    const auto path = folder.file("store.db");
    { auto store = open(path); }
    Entropy entropy(99);
    std::int64_t acknowledged_total = 0;
    for (std::uint64_t seed = 1; seed <= kKills; ++seed) {
        CAPTURE(seed);
        const auto child = start_child([&](int fd) { commit_for_ever(path, seed, fd); });
        // Waiting for a number of acknowledgements, not for a time, makes the kill fall anywhere without a sleep.
        std::string heard(sizeof(std::int64_t) * (1 + entropy.below(30)), '\0');
        std::size_t got = 0;
        while (got < heard.size()) {
            const auto n = ::read(child.read_fd, heard.data() + got, heard.size() - got);
            REQUIRE(n > 0);
            got += static_cast<std::size_t>(n);
        }
        const auto late = kill_child(child);
        const auto acknowledged = std::max(last_of(heard), last_of(late));
        acknowledged_total += acknowledged;

        db::SqliteStore store(path);
        for (std::int64_t i = 0; i < acknowledged; ++i) {
            const JobId id{"job_" + std::to_string(seed) + "_" + std::to_string(i)};
            REQUIRE(store.reader().job(id)->has_value());
            REQUIRE(store.reader().tasks(id)->size() == 1);
            REQUIRE(store.reader().events(id, 0, 5)->size() == 1);
        }
        auto& c = store.connection();
        CHECK(c.number("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'") == 0);
        CHECK(c.number("SELECT count(*) FROM pragma_foreign_key_check") == 0);
        CHECK(c.number("SELECT (SELECT count(*) FROM jobs) = (SELECT count(*) FROM events)") == 1);
        CHECK(store.load_live()->queued_jobs == c.number("SELECT count(*) FROM jobs"));
    }
    CHECK(acknowledged_total > kKills);
}
