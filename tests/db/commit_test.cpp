// One batch is one transaction; a row that is not as the core believes ends the process before anything is kept.
#include <doctest/doctest.h>

#include "tests/db/child_process.hpp"
#include "tests/db/sample_rows.hpp"

using namespace gf;
using namespace gf::test;

namespace {

/// A job with one task and one live attempt on one machine.
struct World {
    explicit World(std::uint64_t seed)
        : samples(seed), job(samples.job()), task(samples.task(job)), machine(samples.machine(task)),
          attempt(samples.attempt(task, 1)) {
        attempt.machine = machine.id;
    }
    [[nodiscard]] std::vector<RowChange> rows() const {
        return {PutJob{job, {}}, PutTask{task, {}}, PutMachine{machine, {}}, PutAttempt{attempt, {}}};
    }
    Samples samples;
    JobRecord job;
    TaskRecord task;
    MachineRecord machine;
    AttemptRecord attempt;
};

/// Commits `bad` to a store file that holds the world, in a child that must abort saying `words`; nothing of the batch
/// may be left.
void expect_abort(World& world, std::vector<RowChange> bad, const std::vector<std::string>& words) {
    const TempFolder folder;
    const auto path = folder.file("store.db");
    {
        auto store = open(path);
        commit(*store, world.rows());
    }
    bad.insert(bad.begin(), PutMeta{"first of the batch", "x"});
    const auto end = run_child([&] {
        auto store = open_sqlite_store(path);
        (void)(*store)->commit(bad);
    });
    CHECK(end.aborted);
    for (const auto& word : words) CHECK_MESSAGE(end.stderr_text.find(word) != std::string::npos, end.stderr_text);
    auto store = open(path);
    CHECK_FALSE(store->meta("first of the batch")->has_value());
}

}  // namespace

TEST_CASE("rows of one batch may refer to each other in any order") {
    World w(1);
    auto rows = w.rows();
    std::reverse(rows.begin(), rows.end());
    auto store = open();
    commit(*store, rows);
    CHECK(same(**store->reader().attempt(w.attempt.id), w.attempt));
}

TEST_CASE("event numbers grow by one, a batch tells its last, and go on after a restart") {
    Samples s(2);
    const TempFolder folder;
    const auto path = folder.file("store.db");
    {
        auto store = open(path);
        CHECK(commit(*store, {}) == 0);
        CHECK(commit(*store, {PutMeta{"a", "b"}}) == 0);
        CHECK(commit(*store, {AddEvent{s.event({})}, PutMeta{"a", "c"}, AddEvent{s.event({})}}) == 2);
    }
    auto store = open(path);
    CHECK(commit(*store, {AddEvent{s.event({})}}) == 3);
    const auto events = *store->reader().events({}, 0, 10);
    REQUIRE(events.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) CHECK(events[i].seq == static_cast<std::int64_t>(i + 1));
}

TEST_CASE("a guarded update that finds another state aborts and names table, id and both states") {
    struct Case {
        const char* table;
        std::string id;
        RowChange change;
        const char* expected;
        const char* found;
    };
    World w(3);
    auto job = w.job;
    job.state = JobState::running;
    auto task = w.task;
    task.state = TaskState::running;
    auto attempt = w.attempt;
    attempt.state = AttemptState::running;
    auto machine = w.machine;
    machine.state = MachineState::ready;
    const std::vector<Case> cases{
        {"jobs", job.id.get(), PutJob{job, JobState::starting}, "starting", "queued"},
        {"tasks", task.id.get(), PutTask{task, TaskState::assigned}, "assigned", "waiting"},
        {"attempts", attempt.id.get(), PutAttempt{attempt, AttemptState::running}, "running", "leased"},
        {"machines", machine.id.get(), PutMachine{machine, MachineState::booting}, "booting", "requested"},
    };
    for (const auto& c : cases) {
        CAPTURE(c.table);
        expect_abort(w, {c.change},
                     {std::string(c.table) + " " + c.id, std::string("expected state '") + c.expected + "'",
                      std::string("found state '") + c.found + "'"});
    }
}

TEST_CASE("a guarded update of a row that does not exist aborts") {
    World w(4);
    expect_abort(w, {PutJob{w.samples.job(JobState::running), JobState::queued}}, {"jobs job_", "no such row"});
    expect_abort(w, {SetCheckpointState{w.task.id, 7, CheckpointState::pruned, ""}}, {w.task.id.get(), "generation 7"});
}

TEST_CASE("the schema refuses what would break a promise, and the process ends") {
    World w(5);
    auto& s = w.samples;
    auto second_tag = s.machine();
    second_tag.tag = w.machine.tag;
    auto ended_without_end = s.job(JobState::failed);
    ended_without_end.ended_at.reset();
    auto end_without_final = s.job();
    end_without_final.ended_at = Instant{};
    auto ended_without_cause = s.attempt(w.task, 2, AttemptState::ended);
    ended_without_cause.cause.reset();
    auto gone_without_time = s.machine(MachineState::gone);
    gone_without_time.gone_at.reset();
    auto first_alert = s.alert();
    auto second_alert = s.alert();
    first_alert.cleared_at.reset();
    second_alert.cleared_at.reset();
    second_alert.dedupe = first_alert.dedupe;
    const auto key = s.idempotency(w.job);

    struct Case {
        const char* what;
        std::vector<RowChange> rows;
        const char* says;
    };
    const std::vector<Case> cases{
        {"two live attempts of one task", {PutAttempt{s.attempt(w.task, 2), {}}}, "UNIQUE"},
        {"an attempt number used twice", {PutAttempt{s.attempt(w.task, 1, AttemptState::ended), {}}}, "UNIQUE"},
        {"a tag used twice", {PutMachine{second_tag, {}}}, "machines.tag"},
        {"a job inserted twice", {PutJob{w.job, {}}}, "jobs.id"},
        {"a generation committed twice",
         {PutCheckpoint{s.checkpoint(w.task, 1)}, PutCheckpoint{s.checkpoint(w.task, 1)}},
         "checkpoints.task"},
        {"a final job without an end", {PutJob{ended_without_end, {}}}, "CHECK"},
        {"an end without a final state", {PutJob{end_without_final, {}}}, "CHECK"},
        {"an ended attempt without a cause", {PutAttempt{ended_without_cause, {}}}, "CHECK"},
        {"a gone machine without a time", {PutMachine{gone_without_time, {}}}, "CHECK"},
        {"a task of no job", {PutTask{s.task(s.job()), {}}}, "FOREIGN KEY"},
        {"two open alerts under one key", {PutAlert{first_alert}, PutAlert{second_alert}}, "alerts.dedupe"},
        {"one idempotency key for two jobs", {AddIdempotency{key}, AddIdempotency{key}}, "idempotency"},
    };
    for (const auto& c : cases) {
        CAPTURE(c.what);
        expect_abort(w, c.rows, {"store invariant broken", c.says});
    }
}

TEST_CASE("ending the old attempt and leasing the next one fit in one batch") {
    World w(6);
    auto store = open();
    commit(*store, w.rows());
    auto old = w.attempt;
    old.state = AttemptState::ended;
    settle(old);
    commit(*store, {PutAttempt{old, AttemptState::leased}, PutAttempt{w.samples.attempt(w.task, 2), {}}});
    CHECK(store->load_live()->attempts.size() == 1);
    CHECK(store->load_live()->attempts.front().number == 2);
}
