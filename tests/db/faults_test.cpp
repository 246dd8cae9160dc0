// Full disks, failing disks, locks of other processes and readers that stay: nothing acknowledged is lost, nothing refused
// is half kept, and the store goes on when the trouble is over.
#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "db/sqlite_store.hpp"
#include "tests/db/child_process.hpp"
#include "tests/db/failing_vfs.hpp"
#include "tests/db/sample_rows.hpp"

using namespace gf;
using namespace gf::test;

namespace {

constexpr std::size_t kMegabyte = 1'000'000;

std::vector<RowChange> job_with_task(Samples& s) {
    const auto job = s.job();
    return {PutJob{job, {}}, PutTask{s.task(job), {}}, AddEvent{s.event(job.id)}};
}

/// About `bytes` of events.
std::vector<RowChange> bulk(Samples& s, std::size_t bytes) {
    std::vector<RowChange> rows;
    for (std::size_t written = 0; written < bytes; written += 50'000) {
        auto event = s.event({});
        event.detail.assign(50'000, 'x');
        rows.push_back(AddEvent{event});
    }
    return rows;
}

std::size_t jobs_in(Store& store) { return store.reader().jobs({.limit = 1000})->size(); }

std::int64_t size_of(const std::string& file) {
    std::error_code missing;
    const auto size = std::filesystem::file_size(file, missing);
    return missing ? 0 : static_cast<std::int64_t>(size);
}

}  // namespace

TEST_CASE("whichever write or sync fails, a commit is all there or not at all, and the next one succeeds") {
    struct Fault {
        int code;
        ErrorKind kind;
    };
    for (const auto& fault : {Fault{SQLITE_FULL, ErrorKind::full}, Fault{SQLITE_IOERR_WRITE, ErrorKind::io},
                              Fault{SQLITE_IOERR_FSYNC, ErrorKind::io}}) {
        CAPTURE(fault.code);
        int points = 0;
        for (int nth = 1; nth < 200; ++nth) {
            CAPTURE(nth);
            FailingVfs disk;
            const TempFolder folder(true);
            const auto path = folder.file("store.db");
            Samples s(static_cast<std::uint64_t>(nth));
            {
                auto store = open(path);
                commit(*store, job_with_task(s));
                const auto before = *store->load_live();

                auto second = job_with_task(s);
                for (auto& row : bulk(s, 100'000)) second.push_back(row);
                disk.fail_at(nth, fault.code);
                const auto tried = store->commit(second);
                const bool hit = disk.failed();
                disk.heal();
                if (!hit) {
                    CHECK(tried.has_value());
                    CHECK(points > 10);
                    nth = 200;  // every point of this commit has been tried
                    continue;
                }
                ++points;
                REQUIRE_FALSE(tried.has_value());
                CHECK(tried.error().kind == fault.kind);
                CHECK(jobs_in(*store) == 1);
                CHECK(store->load_live()->last_commit == before.last_commit);
                CHECK(commit(*store, second) > 1);
                CHECK(jobs_in(*store) == 2);
            }
            db::SqliteStore again(path);
            CHECK(jobs_in(again) == 2);
            CHECK(again.connection().number("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'") == 0);
        }
    }
}

TEST_CASE("a disk that fails while the log is moved costs nothing that was committed") {
    for (int nth = 1; nth < 200; ++nth) {
        CAPTURE(nth);
        FailingVfs disk;
        const TempFolder folder(true);
        const auto path = folder.file("store.db");
        Samples s(3);
        bool hit = false;
        {
            auto store = open(path);
            commit(*store, job_with_task(s));
            commit(*store, bulk(s, 200'000));
            disk.fail_at(nth, SQLITE_FULL);
            store->checkpoint_wal();
            hit = disk.failed();
            disk.heal();
            commit(*store, job_with_task(s));
        }
        CHECK(jobs_in(*open(path)) == 2);
        if (!hit) break;
        CHECK(nth < 199);
    }
}

TEST_CASE("a full disk is reported as such, reads go on, and work goes on when there is room again") {
    const TempFolder folder;
    db::SqliteStore store(folder.file("store.db"));
    Samples s(1);
    commit(store, job_with_task(s));
    const auto pages = store.connection().number("PRAGMA page_count");
    store.connection().run(("PRAGMA max_page_count = " + std::to_string(pages + 4)).c_str());
    const auto refused = store.commit(bulk(s, kMegabyte));
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().kind == ErrorKind::full);
    CHECK(jobs_in(store) == 1);
    CHECK(store.load_live()->queued_jobs == 1);
    store.connection().run("PRAGMA max_page_count = 1000000");
    CHECK(commit(store, bulk(s, kMegabyte)) > 1);
}

TEST_CASE("a write lock of another process gives a retryable error and no row, again and again") {
    const TempFolder folder;
    const auto path = folder.file("store.db");
    db::SqliteStore store(path);
    CHECK(store.connection().number("PRAGMA busy_timeout") == 5000);
    sqlite3_busy_timeout(store.connection().handle(), 1);
    db::Connection other(path);
    Samples s(2);
    std::size_t stored = 0;
    for (int i = 0; i < 300; ++i) {
        if (i % 100 == 50) other.run("BEGIN IMMEDIATE");
        if (i % 100 == 80) other.run("ROLLBACK");
        const auto result = store.commit(job_with_task(s));
        const bool locked = i % 100 >= 50 && i % 100 < 80;
        CHECK(result.has_value() == !locked);
        if (result) {
            ++stored;
            continue;
        }
        CHECK(result.error().kind == ErrorKind::busy);
        CHECK(result.error().retry_after.has_value());
    }
    CHECK(jobs_in(store) == stored);
}

TEST_CASE("the write-ahead log stays bounded under steady commits that leave no idle moment") {
    const TempFolder folder;
    const auto path = folder.file("store.db");
    auto store = open(path);
    Samples s(4);
    std::int64_t largest = 0;
    for (int i = 0; i < 120; ++i) {
        commit(*store, bulk(s, kMegabyte));
        largest = std::max(largest, size_of(path + "-wal"));
    }
    CHECK(largest < 60 * static_cast<std::int64_t>(kMegabyte));
}

TEST_CASE("a reader that keeps its snapshot lets the log grow, and it is used again from its start once the reader leaves") {
    const TempFolder folder;
    const auto path = folder.file("store.db");
    auto store = open(path);
    Samples s(5);
    commit(*store, job_with_task(s));
    auto outside = std::make_unique<db::Connection>(path);
    outside->run("BEGIN");
    CHECK(outside->number("SELECT count(*) FROM jobs") == 1);
    const auto write = [&](int megabytes) {
        for (int i = 0; i < megabytes; ++i) {
            commit(*store, bulk(s, kMegabyte));
            store->checkpoint_wal();
        }
    };
    write(20);
    commit(*store, job_with_task(s));
    CHECK(outside->number("SELECT count(*) FROM jobs") == 1);
    const auto grown = size_of(path + "-wal");
    CHECK(grown > 15 * static_cast<std::int64_t>(kMegabyte));
    outside.reset();
    store->checkpoint_wal();
    write(60);
    CHECK(size_of(path + "-wal") <= grown);
    CHECK(jobs_in(*store) == 2);
}

TEST_CASE("a log that a long reader has made very long is cut once the reader leaves") {
    const TempFolder folder;
    const auto path = folder.file("store.db");
    auto store = open(path);
    Samples s(8);
    commit(*store, job_with_task(s));
    auto outside = std::make_unique<db::Connection>(path);
    outside->run("BEGIN");
    CHECK(outside->number("SELECT count(*) FROM jobs") == 1);
    constexpr std::int64_t cut_above = 160 * static_cast<std::int64_t>(kMegabyte);
    for (int i = 0; i < 300 && size_of(path + "-wal") < cut_above + 10'000'000; ++i) commit(*store, bulk(s, kMegabyte));
    CHECK(size_of(path + "-wal") > cut_above);
    outside.reset();
    store->checkpoint_wal();
    CHECK(size_of(path + "-wal") == 0);
}

TEST_CASE("another connection's reader sees each commit once it is acknowledged") {
    const TempFolder folder;
    db::SqliteStore store(folder.file("store.db"));
    auto reader = *store.open_reader();
    Samples s(6);
    for (std::size_t i = 1; i <= 20; ++i) {
        commit(store, job_with_task(s));
        CHECK(reader->jobs({.limit = 100})->size() == i);
    }
}

TEST_CASE("another process that comes and goes leaves the log in use alone, also after readers were opened here") {
    const TempFolder folder;
    const auto path = folder.file("store.db");
    // The visitor is forked before this process has opened anything: SQLite keeps what it knows of locks in memory, and a
    // process forked later would take the locks of this one for its own.
    std::array<int, 2> go{};
    REQUIRE(::pipe(go.data()) == 0);
    const auto visitor = start_child([&](int write_fd) {
        char byte = 0;
        if (::read(go[0], &byte, 1) != 1) ::_exit(2);
        {
            db::Connection visit(path);
            byte = visit.number("SELECT count(*) FROM jobs") == 2 ? 'y' : 'n';
        }
        if (::write(write_fd, &byte, 1) != 1) ::_exit(3);
    });
    Samples s(7);
    auto store = open(path);
    commit(*store, job_with_task(s));
    auto reader = *store->open_reader();
    commit(*store, job_with_task(s));

    // A process that closes the last connection takes the log away with it; our locks must tell it that it is not the last.
    REQUIRE(::write(go[1], "g", 1) == 1);
    char saw = 0;
    CHECK(::read(visitor.read_fd, &saw, 1) == 1);
    CHECK(saw == 'y');
    (void)kill_child(visitor);
    ::close(go[0]);
    ::close(go[1]);
    CHECK(size_of(path + "-wal") > 0);

    commit(*store, job_with_task(s));
    CHECK(reader->jobs({.limit = 10})->size() == 3);
    // What a process would find that starts after this one was killed.
    const TempFolder copy;
    for (const char* part : {"", "-wal"}) std::filesystem::copy_file(path + part, copy.file("store.db") + part);
    CHECK(jobs_in(*open(copy.file("store.db"))) == 3);
}
