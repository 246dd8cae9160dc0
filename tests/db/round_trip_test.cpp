#include <doctest/doctest.h>

#include "tests/db/sample_rows.hpp"

using namespace gf;
using namespace gf::test;

namespace {

constexpr int kSeeds = 60;

/// Runs `check` with random rows against a store in memory, and against a file that is closed and opened in between.
template <class Check>
void with_stores(Check check) {
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
        CAPTURE(seed);
        Samples samples(seed);
        auto store = open();
        check(samples, [&]() -> Store& { return *store; });
    }
    const TempFolder folder;
    Samples samples(kSeeds + 1);
    std::unique_ptr<Store> store;
    check(samples, [&]() -> Store& {
        store.reset();
        store = open(folder.file("store.db"));
        return *store;
    });
}

}  // namespace

TEST_CASE("a job comes back equal after insert and after update") {
    with_stores([](Samples& s, auto store) {
        auto row = s.job();
        commit(store(), {PutJob{row, {}}});
        CHECK(same(**store().reader().job(row.id), row));

        auto changed = s.job(JobState::failed);
        changed.id = row.id;
        changed.name = row.name;
        changed.kind = row.kind;
        changed.project = row.project;
        changed.spec = row.spec;
        changed.spec_is_yaml = row.spec_is_yaml;
        changed.principal = row.principal;
        changed.local_allowed = row.local_allowed;
        changed.created_at = row.created_at;
        commit(store(), {PutJob{changed, JobState::queued}});
        CHECK(same(**store().reader().job(row.id), changed));
    });
}

TEST_CASE("a job's spec survives updates that do not carry it") {
    Samples s(1);
    auto store = open();
    auto row = s.job();
    row.spec = "name: kept";
    commit(*store, {PutJob{row, {}}});
    row.spec.clear();
    commit(*store, {PutJob{row, JobState::queued}});
    CHECK((*store->reader().job(row.id))->spec == "name: kept");
}

TEST_CASE("a task comes back equal after insert and after update") {
    with_stores([](Samples& s, auto store) {
        const auto job = s.job();
        auto row = s.task(job);
        commit(store(), {PutJob{job, {}}, PutTask{row, {}}});
        CHECK(same(*store().reader().tasks(job.id), {row}));

        auto changed = s.task(job, TaskState::running);
        changed.id = row.id;
        changed.created_at = row.created_at;
        commit(store(), {PutTask{changed, TaskState::waiting}});
        CHECK(same(*store().reader().tasks(job.id), {changed}));
    });
}

TEST_CASE("an attempt comes back equal after insert and after update") {
    with_stores([](Samples& s, auto store) {
        const auto job = s.job();
        const auto task = s.task(job);
        const auto machine = s.machine(task);
        auto row = s.attempt(task, 1);
        row.machine = machine.id;
        commit(store(), {PutJob{job, {}}, PutTask{task, {}}, PutMachine{machine, {}}, PutAttempt{row, {}}});
        CHECK(same(**store().reader().attempt(row.id), row));

        auto changed = s.attempt(task, 1, AttemptState::ended);
        changed.id = row.id;
        changed.created_at = row.created_at;
        commit(store(), {PutAttempt{changed, AttemptState::leased}});
        CHECK(same(*store().reader().attempts(job.id), {changed}));
    });
}

TEST_CASE("a machine comes back equal, its offer and every absent figure included") {
    with_stores([](Samples& s, auto store) {
        auto row = s.machine();
        commit(store(), {PutMachine{row, {}}});
        CHECK(same(**store().reader().machine(row.id), row));

        auto changed = s.machine(MachineState::gone);
        changed.id = row.id;
        changed.watch = true;
        commit(store(), {PutMachine{changed, MachineState::requested}});
        CHECK(same(**store().reader().machine(row.id), changed));
        CHECK(same(store().load_live()->machines, {changed}));
    });
}

TEST_CASE("the columns that show the offer agree with it") {
    Samples s(5);
    auto store = open();
    auto row = s.machine();
    row.offer.gpu.canonical = "RTX 4090";
    row.offer.gpu_count = 4;
    row.offer.spot = true;
    commit(*store, {PutMachine{row, {}}});
    CHECK((*store->reader().machine(row.id))->offer.gpu.canonical == "RTX 4090");
}

TEST_CASE("reservations and ledger intervals come back equal, also when they are put again") {
    with_stores([](Samples& s, auto store) {
        const auto job = s.job();
        const auto task = s.task(job);
        const auto machine = s.machine(task);
        auto reservation = s.reservation(machine);
        auto ledger = s.ledger(machine, 1);
        commit(store(), {PutJob{job, {}}, PutTask{task, {}}, PutMachine{machine, {}}, PutReservation{reservation},
                         PutLedger{ledger}});
        const Instant start{};
        const auto end = instant_of(1LL << 60);
        CHECK(same(*store().reader().reservations(job.id), {reservation}));
        CHECK(same(*store().reader().ledger(job.id, start, end), {ledger}));

        reservation = s.reservation(machine);
        ledger = s.ledger(machine, 1);
        commit(store(), {PutReservation{reservation}, PutLedger{ledger}});
        CHECK(same(*store().reader().reservations(job.id), {reservation}));
        CHECK(same(*store().reader().ledger(job.id, start, end), {ledger}));
        CHECK(same(*store().reader().ledger({}, start, end), {ledger}));
    });
}

TEST_CASE("checkpoints, their later states and outputs come back equal") {
    with_stores([](Samples& s, auto store) {
        const auto job = s.job();
        const auto task = s.task(job);
        auto checkpoint = s.checkpoint(task, 1);
        auto output = s.output(task);
        commit(store(), {PutJob{job, {}}, PutTask{task, {}}, PutCheckpoint{checkpoint}, PutOutput{output}});
        CHECK(same(*store().reader().checkpoints(job.id), {checkpoint}));
        CHECK(same(*store().reader().outputs(job.id), {output}));

        checkpoint.state = CheckpointState::quarantined;
        checkpoint.detail = random_text(s.entropy());
        output = s.output(task);
        commit(store(), {SetCheckpointState{task.id, 1, checkpoint.state, checkpoint.detail}, PutOutput{output}});
        CHECK(same(*store().reader().checkpoints(job.id), {checkpoint}));
        CHECK(same(*store().reader().outputs(job.id), {output}));
    });
}

TEST_CASE("events, alerts, decisions, idempotency keys, tokens and meta come back equal") {
    with_stores([](Samples& s, auto store) {
        const auto job = s.job();
        auto event = s.event(job.id);
        auto alert = s.alert();
        const auto key = s.idempotency(job);
        auto token = s.token();
        auto decision = s.decision(job);
        event.seq = commit(store(), {PutJob{job, {}}, AddEvent{event}, PutAlert{alert}, AddIdempotency{key},
                                     PutToken{token}, PutDecision{decision}, PutMeta{"k", "1"}});
        CHECK(same(*store().reader().events({}, 0, 10), {event}));
        CHECK(same(*store().reader().events(job.id, 0, 10), {event}));
        CHECK(same(*store().reader().alerts(false, 10), {alert}));
        CHECK(same(**store().reader().idempotency(key.principal, key.key), key));
        CHECK(same(*store().reader().tokens(), {token}));
        CHECK(same(**store().reader().token_by_hash(token.sha256), token));
        CHECK(same(**store().reader().decision(job.id), decision));
        CHECK(**store().meta("k") == "1");

        alert = [&] { auto next = s.alert(); next.id = alert.id; return next; }();
        token = [&] { auto next = s.token(); next.id = token.id; return next; }();
        decision = s.decision(job);
        commit(store(), {PutAlert{alert}, PutToken{token}, PutDecision{decision}, PutMeta{"k", "2"}});
        CHECK(same(*store().reader().alerts(false, 10), {alert}));
        CHECK(same(*store().reader().tokens(), {token}));
        CHECK(same(**store().reader().decision(job.id), decision));
        CHECK(**store().meta("k") == "2");
    });
}

TEST_CASE("what is not there is nothing, not an error") {
    auto store = open();
    auto& r = store->reader();
    CHECK_FALSE(r.job(JobId{"job_x"})->has_value());
    CHECK_FALSE(r.attempt(AttemptId{"att_x"})->has_value());
    CHECK_FALSE(r.machine(MachineId{"mch_x"})->has_value());
    CHECK_FALSE(r.newest_checkpoint(TaskId{"tsk_x"}, 0)->has_value());
    CHECK_FALSE(r.decision(JobId{"job_x"})->has_value());
    CHECK_FALSE(r.idempotency("p", "k")->has_value());
    CHECK_FALSE(r.token_by_hash("h")->has_value());
    CHECK_FALSE(store->meta("k")->has_value());
    CHECK(r.jobs({})->empty());
    CHECK(r.queue({}, 10, Instant{})->tasks.empty());
}
