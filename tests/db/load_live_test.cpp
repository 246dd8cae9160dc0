// What the orchestrator is rebuilt from.
#include <doctest/doctest.h>

#include <set>

#include "tests/db/sample_rows.hpp"

using namespace gf;
using namespace gf::test;

namespace {

template <class Row>
std::set<std::string> ids(const std::vector<Row>& rows) {
    std::set<std::string> out;
    for (const auto& row : rows) out.insert(row.id.get());
    return out;
}

}  // namespace

TEST_CASE("jobs are live when they are neither queued nor final, and their tasks come with them") {
    Samples s(1);
    auto store = open();
    std::set<std::string> live_jobs;
    std::set<std::string> live_tasks;
    for (const auto& [state, name] : EnumNames<JobState>::table) {
        const auto job = s.job(state);
        const auto first = s.task(job, TaskState::waiting, 0);
        const auto second = s.task(job, TaskState::done, 1);
        commit(*store, {PutJob{job, {}}, PutTask{first, {}}, PutTask{second, {}}});
        if (state == JobState::queued || is_final(state)) continue;
        live_jobs.insert(job.id.get());
        live_tasks.insert(first.id.get());
        live_tasks.insert(second.id.get());
    }
    const auto live = *store->load_live();
    CHECK(ids(live.jobs) == live_jobs);
    CHECK(ids(live.tasks) == live_tasks);
    CHECK(live.queued_jobs == 1);
}

TEST_CASE("a machine that is not gone, or whose outcome is watched, brings its job along") {
    struct Case {
        MachineState state;
        bool watch;
        bool live;
    };
    const std::vector<Case> cases{{MachineState::requested, false, true}, {MachineState::unknown, false, true},
                                  {MachineState::destroying, false, true}, {MachineState::gone, true, true},
                                  {MachineState::gone, false, false}};
    std::uint64_t seed = 10;
    for (const auto& c : cases) {
        CAPTURE(text(c.state));
        CAPTURE(c.watch);
        Samples s(++seed);
        auto store = open();
        const auto job = s.job(JobState::cancelled);
        const auto task = s.task(job, TaskState::cancelled);
        auto machine = s.machine(task, c.state);
        machine.watch = c.watch;
        auto first = s.ledger(machine, 1);
        auto last = s.ledger(machine, 2);
        auto reservation = s.reservation(machine);
        reservation.released_at.reset();
        commit(*store, {PutJob{job, {}}, PutTask{task, {}}, PutMachine{machine, {}}, PutLedger{first}, PutLedger{last},
                        PutReservation{reservation}});
        const auto live = *store->load_live();
        CHECK(live.machines.size() == (c.live ? 1 : 0));
        CHECK(live.jobs.size() == (c.live ? 1 : 0));
        CHECK(live.tasks.size() == (c.live ? 1 : 0));
        CHECK(live.reservations.size() == 1);
        REQUIRE(live.ledgers.size() == (c.live ? 1 : 0));
        if (c.live) CHECK(same(live.ledgers.front(), last));
    }
}

TEST_CASE("ended attempts, released reservations and cleared alerts are not live") {
    Samples s(3);
    auto store = open();
    const auto job = s.job(JobState::running);
    const auto task = s.task(job, TaskState::running);
    const auto machine = s.machine(task, MachineState::busy);
    const auto ended = s.attempt(task, 1, AttemptState::ended);
    const auto running = s.attempt(task, 2, AttemptState::running);
    auto reservation = s.reservation(machine);
    reservation.released_at = Instant{};
    auto open_alert = s.alert();
    open_alert.cleared_at.reset();
    auto cleared_alert = s.alert();
    cleared_alert.cleared_at = Instant{};
    commit(*store, {PutJob{job, {}}, PutTask{task, {}}, PutMachine{machine, {}}, PutAttempt{ended, {}},
                    PutAttempt{running, {}}, PutReservation{reservation}, PutAlert{open_alert},
                    PutAlert{cleared_alert}});
    const auto live = *store->load_live();
    CHECK(same(live.attempts, {running}));
    CHECK(live.reservations.empty());
    CHECK(same(live.alerts, {open_alert}));
}

TEST_CASE("when each provider was last listed comes back; other meta keys are not taken for it") {
    auto store = open();
    CHECK(store->load_live()->listed.empty());
    commit(*store, {PutMeta{"install", "abcd1234"}, PutMeta{"listed/vastai", "1790000000123"}, PutMeta{"listed/odd", "x"}});
    commit(*store, {PutMeta{"listed/runpod", "5"}, PutMeta{"listed/vastai", "1790000000456"}});
    const std::map<std::string, Instant> expected{{"runpod", instant_of(5)}, {"vastai", instant_of(1'790'000'000'456)}};
    CHECK(store->load_live()->listed == expected);
}

TEST_CASE("the largest id body and the time of the newest event are those of the whole store") {
    Samples s(5);
    auto store = open();
    CHECK(store->load_live()->last_id_body.empty());
    CHECK_FALSE(store->load_live()->last_commit.has_value());
    const auto job = s.job(JobState::succeeded);
    const auto event = s.event(job.id);
    commit(*store, {PutJob{job, {}}, AddEvent{event}});
    CHECK(store->load_live()->last_id_body == id_body(job.id.get()));
    CHECK(store->load_live()->last_commit == event.at);
    const auto newest = s.token();
    commit(*store, {PutToken{newest}});
    CHECK(store->load_live()->last_id_body == id_body(newest.id.get()));
}
