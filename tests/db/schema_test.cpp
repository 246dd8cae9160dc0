// The schema against the vocabulary, against its own history, and against a million rows.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "db/migrations.hpp"
#include "db/sqlite_store.hpp"
#include "tests/db/sample_rows.hpp"

using namespace gf;
using namespace gf::test;

namespace {

std::vector<std::string> texts(db::Connection& connection, const std::string& sql) {
    sqlite3_stmt* statement = nullptr;
    REQUIRE(sqlite3_prepare_v2(connection.handle(), sql.c_str(), -1, &statement, nullptr) == SQLITE_OK);
    std::vector<std::string> out;
    while (sqlite3_step(statement) == SQLITE_ROW)
        for (int i = 0; i < sqlite3_column_count(statement); ++i)
            if (const auto* value = sqlite3_column_text(statement, i))
                out.emplace_back(reinterpret_cast<const char*>(value));
    sqlite3_finalize(statement);
    return out;
}

/// The words of `column IN ('a', 'b', …)` in the CREATE statement of `table`.
std::vector<std::string> listed(const std::string& create, const std::string& column) {
    std::smatch found;
    REQUIRE(std::regex_search(create, found, std::regex("CHECK \\(" + column + " IN \\(([^)]*)\\)")));
    std::vector<std::string> words;
    const std::string list = found[1];
    const std::regex word("'([^']*)'");
    for (std::sregex_iterator it(list.begin(), list.end(), word), end; it != end; ++it) words.push_back((*it)[1]);
    return words;
}

template <class E>
std::vector<std::string> names(bool (*only)(E) = nullptr) {
    std::vector<std::string> out;
    for (const auto& [value, name] : EnumNames<E>::table)
        if (only == nullptr || only(value)) out.emplace_back(name);
    return out;
}

std::string create_of(db::Connection& connection, const std::string& name) {
    return texts(connection, "SELECT sql FROM sqlite_schema WHERE name = '" + name + "'").at(0);
}

std::vector<std::string> whole_schema(db::Connection& connection) {
    return texts(connection, "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name");
}

std::string stored(const std::string& name) {
    std::ifstream file(std::string(GF_STORED) + "/" + name);
    REQUIRE(file.is_open());
    std::ostringstream all;
    all << file.rdbuf();
    return all.str();
}

}  // namespace

TEST_CASE("each list of states in the schema is exactly the enum table") {
    db::SqliteStore store(":memory:");
    auto& c = store.connection();
    const auto is = [&](const std::string& table, const std::string& column, const std::vector<std::string>& enums) {
        CAPTURE(table);
        CAPTURE(column);
        CHECK(listed(create_of(c, table), column) == enums);
    };
    is("jobs", "state", names<JobState>());
    is("jobs", "kind", names<JobKind>());
    is("tasks", "state", names<TaskState>());
    is("attempts", "state", names<AttemptState>());
    is("attempts", "cause", names<Cause>());
    is("machines", "state", names<MachineState>());
    is("machines", "call", names<CallKind>());
    is("checkpoints", "state", names<CheckpointState>());
    is("tokens", "role", names<Role>());
    CHECK(create_of(c, "jobs").find("state NOT IN ('succeeded', 'failed', 'cancelled')") != std::string::npos);
    CHECK(names<JobState>([](JobState s) { return is_final(s); }) ==
          std::vector<std::string>{"succeeded", "failed", "cancelled"});
    auto tally = texts(c, "SELECT state FROM job_tally");
    auto states = names<JobState>();
    std::sort(tally.begin(), tally.end());
    std::sort(states.begin(), states.end());
    CHECK(tally == states);
}

TEST_CASE("every table is STRICT and the foreign keys are checked") {
    db::SqliteStore store(":memory:");
    auto& c = store.connection();
    for (const auto& sql : texts(c, "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"))
        CHECK_MESSAGE(sql.find("STRICT") != std::string::npos, sql);
    CHECK(c.number("PRAGMA foreign_keys") == 1);
}

TEST_CASE("migrations are numbered from one without gaps, and a fresh store has the last number") {
    int expected = 0;
    for (const auto& migration : db::migrations()) CHECK(migration.number == ++expected);
    db::SqliteStore store(":memory:");
    CHECK(store.connection().number("PRAGMA user_version") == expected);
}

TEST_CASE("a store of the first schema is brought up to date, keeps its rows, and ends with the fresh schema") {
    const TempFolder folder;
    const auto path = folder.file("old.db");
    {
        db::Connection old(path);
        old.run(stored("schema_0001.sql").c_str());
    }
    db::SqliteStore migrated(path);
    db::SqliteStore fresh(":memory:");
    CHECK(whole_schema(migrated.connection()) == whole_schema(fresh.connection()));
    CHECK(texts(migrated.connection(), "PRAGMA foreign_key_check").empty());
    const auto jobs = *migrated.reader().jobs({});
    REQUIRE(jobs.size() == 2);
    CHECK(jobs.back().name == "Обучение №1 it's");
    const auto live = *migrated.load_live();
    CHECK(live.machines.size() == 1);
    CHECK(live.machines.front().offer.gpu.canonical == "RTX 4090");
    CHECK(live.attempts.size() == 1);
    CHECK(live.ledgers.size() == 1);
    CHECK(live.queued_jobs == 1);
    CHECK(migrated.reader().events({}, 0, 10)->size() == 2);
}

TEST_CASE("a store of a newer schema is refused untouched") {
    const TempFolder folder;
    const auto path = folder.file("newer.db");
    { db::SqliteStore store(path); store.connection().run("PRAGMA user_version = 9999"); }
    const auto refused = open_sqlite_store(path);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().kind == ErrorKind::conflict);
    CHECK(refused.error().message.find("9999") != std::string::npos);
    CHECK(refused.error().message.find(path) != std::string::npos);
}

TEST_CASE("another program's database and a file that is none are refused with the path") {
    const TempFolder folder;
    const auto other = folder.file("other.db");
    { db::Connection c(other); c.run("CREATE TABLE t (a); PRAGMA user_version = 1"); }
    const auto text_file = folder.file("text.db");
    { std::ofstream file(text_file); file << std::string(4096, 'x'); }
    for (const auto& path : {other, text_file, folder.path().string()}) {
        CAPTURE(path);
        const auto refused = open_sqlite_store(path);
        REQUIRE_FALSE(refused.has_value());
        CHECK(refused.error().kind == ErrorKind::io);
        CHECK(refused.error().message.find(path) != std::string::npos);
    }
    db::Connection still_there(other);
    CHECK(still_there.number("SELECT count(*) FROM t") == 0);
}

TEST_CASE("the store's files are readable by their owner only, also in a folder that it had to make") {
    const TempFolder folder;
    const auto inner = folder.path() / "data";
    const auto path = (inner / "store.db").string();
    Samples s(1);
    auto store = open(path);
    commit(*store, {PutJob{s.job(), {}}});
    const auto mode = [](const std::string& file) {
        struct stat st{};
        REQUIRE(::stat(file.c_str(), &st) == 0);
        return st.st_mode & 0777U;
    };
    CHECK(mode(inner.string()) == 0700);
    CHECK(mode(path) == 0600);
    CHECK(mode(path + "-wal") == 0600);
    CHECK(mode(path + "-shm") == 0600);
}

TEST_CASE("no statement walks a table that grows without end, or sorts a page") {
    db::SqliteStore store(":memory:");
    auto& r = store.reader();
    const Instant now{};
    const JobId job{"job_x"};
    for (unsigned filters = 0; filters < 16; ++filters) {
        JobFilter filter;
        if ((filters & 1) != 0) filter.state = JobState::queued;
        if ((filters & 2) != 0) filter.kind = JobKind::training;
        if ((filters & 4) != 0) filter.project = "p";
        if ((filters & 8) != 0) filter.cursor = "job_y";
        (void)r.jobs(filter);
    }
    (void)r.job(job); (void)r.tasks(job); (void)r.attempts(job); (void)r.attempt(AttemptId{"a"});
    (void)r.checkpoints(job); (void)r.newest_checkpoint(TaskId{"t"}, 0); (void)r.outputs(job);
    (void)r.events(job, 0, 1); (void)r.events({}, 0, 1); (void)r.machines(true, "", 1); (void)r.machines(false, "", 1);
    (void)r.machine(MachineId{"m"}); (void)r.ledger(job, now, now); (void)r.ledger({}, now, now);
    (void)r.reservations(job); (void)r.decision(job); (void)r.alerts(true, 1); (void)r.alerts(false, 1);
    (void)r.idempotency("p", "k"); (void)r.token_by_hash("h"); (void)r.job_counts();
    Samples samples(5);
    for (int i = 0; i < 3; ++i) {
        const auto waiting = samples.job(JobState::queued);
        auto task = samples.task(waiting, TaskState::waiting);
        task.not_before.reset();
        commit(store, {PutJob{waiting, {}}, PutTask{task, {}}});
    }
    for (QueueCursor at;;) {
        const auto page = *r.queue(at, 1, now);
        if (!page.next) break;
        at = *page.next;
    }
    (void)store.load_live();
    (void)store.prune(now, {});

    // Sorting what one job has, or what is live, is fine; sorting a page means that the whole table was read for it.
    const std::regex sorts_few("WHERE job = |job IN \\(|id IN \\(|until_at|max\\(number\\)|attempts_one_live");
    int statements = 0;
    auto& c = store.connection();
    std::vector<std::string> all;
    for (auto* s = sqlite3_next_stmt(c.handle(), nullptr); s != nullptr; s = sqlite3_next_stmt(c.handle(), s))
        all.emplace_back(sqlite3_sql(s));
    for (const auto& sql : all) {
        if (!std::regex_search(sql, std::regex("^(SELECT|DELETE|UPDATE)"))) continue;
        if (sql.find("EXISTS") != std::string::npos) continue;  // stops at the first row
        ++statements;
        std::string plan;
        for (const auto& line : texts(c, "EXPLAIN QUERY PLAN " + sql)) plan += line + "\n";
        CAPTURE(sql);
        CAPTURE(plan);
        // A walk along an index or the key in order is a page; it ends at its LIMIT.
        std::istringstream lines(plan);
        for (std::string line; std::getline(lines, line);) {
            if (line.find("SCAN") == std::string::npos) continue;
            // Read whole: the core bounds the first two, people the third.
            if (line == "SCAN host_marks" || line == "SCAN learned" || line == "SCAN secrets") continue;
            const bool ordered = line.find("USING") != std::string::npos || line == "SCAN events";
            const bool bounded = sql.find("LIMIT") != std::string::npos || line.find("machines_live") != std::string::npos ||
                                 line.find("reservations_open") != std::string::npos ||
                                 line.find("attempts_one_live") != std::string::npos;
            CHECK((ordered && bounded));
        }
        if (plan.find("USE TEMP B-TREE") != std::string::npos) CHECK(std::regex_search(sql, sorts_few));
    }
    CHECK(statements > 40);
}
