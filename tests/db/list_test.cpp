// What handlers read: pages, filters, counts, spans of the ledger.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "tests/db/sample_rows.hpp"

using namespace gf;
using namespace gf::test;

TEST_CASE("every filter of the job list gives the same jobs as a filter by hand, page by page, newest first") {
    Samples s(1);
    auto store = open();
    std::vector<JobRecord> all;
    for (int i = 0; i < 150; ++i) {
        auto job = s.job(EnumNames<JobState>::table[s.entropy().below(EnumNames<JobState>::table.size())].first);
        job.project = std::array{"voices", "images", "o'neill"}[s.entropy().below(3)];
        commit(*store, {PutJob{job, {}}});
        all.push_back(job);
    }
    std::reverse(all.begin(), all.end());
    const std::vector<std::optional<JobState>> states{{}, JobState::queued, JobState::held};
    const std::vector<std::optional<JobKind>> kinds{{}, JobKind::training};
    for (const auto& state : states)
        for (const auto& kind : kinds)
            for (const std::string project : {"", "voices", "nobody"})
                for (const int limit : {1, 13, 1000}) {
                    std::vector<JobRecord> expected;
                    for (const auto& job : all)
                        if ((!state || job.state == *state) && (!kind || job.kind == *kind) &&
                            (project.empty() || job.project == project))
                            expected.push_back(job);
                    std::vector<JobRecord> got;
                    JobFilter filter{.state = state, .kind = kind, .project = project, .cursor = "", .limit = limit};
                    for (int pages = 0; pages < 200; ++pages) {
                        auto page = *store->reader().jobs(filter);
                        if (page.empty()) break;
                        CHECK(page.size() <= static_cast<std::size_t>(limit));
                        filter.cursor = page.back().id.get();
                        got.insert(got.end(), page.begin(), page.end());
                    }
                    CHECK(same(got, expected));
                }
}

TEST_CASE("the counts by state follow inserts and changes of state, and name every state") {
    Samples s(2);
    auto store = open();
    std::map<JobState, std::int64_t> expected;
    std::vector<JobRecord> jobs;
    for (int i = 0; i < 60; ++i) {
        jobs.push_back(s.job());
        commit(*store, {PutJob{jobs.back(), {}}});
    }
    for (auto& job : jobs) {
        const auto was = job.state;
        job.state = EnumNames<JobState>::table[s.entropy().below(EnumNames<JobState>::table.size())].first;
        settle(job);
        commit(*store, {PutJob{job, was}});
        ++expected[job.state];
    }
    const auto counts = *store->reader().job_counts();
    CHECK(counts.by_state.size() == EnumNames<JobState>::table.size());
    for (const auto& [state, count] : counts.by_state) CHECK(count == expected[state]);
    CHECK(store->load_live()->queued_jobs == expected[JobState::queued]);
}

TEST_CASE("the list of machines is newest first and leaves the gone ones out unless asked") {
    Samples s(3);
    auto store = open();
    std::vector<std::string> all;
    std::vector<std::string> existing;
    for (int i = 0; i < 40; ++i) {
        const bool gone = s.entropy().below(2) == 0;
        auto machine = s.machine(gone ? MachineState::gone : MachineState::busy);
        machine.watch = s.entropy().below(3) == 0;
        commit(*store, {PutMachine{machine, {}}});
        all.insert(all.begin(), machine.id.get());
        if (!gone) existing.insert(existing.begin(), machine.id.get());
    }
    for (const bool with_gone : {true, false}) {
        std::vector<std::string> got;
        std::string cursor;
        for (int pages = 0; pages < 50; ++pages) {
            const auto page = *store->reader().machines(with_gone, cursor, 3);
            if (page.empty()) break;
            for (const auto& machine : page) got.push_back(machine.id.get());
            cursor = got.back();
        }
        CHECK(got == (with_gone ? all : existing));
    }
}

TEST_CASE("the ledger gives the intervals that overlap a span, its end excluded") {
    struct Case {
        std::int64_t from;
        std::int64_t until;  // 0 = still open
        bool in_span;        // of [1000, 2000)
    };
    const std::vector<Case> cases{{100, 900, false},   {100, 1000, false},  {100, 1001, true}, {1200, 1300, true},
                                  {500, 5000, true},   {1999, 2500, true},  {2000, 2500, false}, {100, 0, true},
                                  {1999, 0, true},     {2000, 0, false},    {1000, 1000, false}};
    Samples s(4);
    auto store = open();
    const auto job = s.job();
    const auto task = s.task(job);
    const auto machine = s.machine(task);
    commit(*store, {PutJob{job, {}}, PutTask{task, {}}, PutMachine{machine, {}}});
    int number = 0;
    for (const auto& c : cases) {
        CAPTURE(c.from);
        CAPTURE(c.until);
        auto row = s.ledger(machine, ++number);
        row.from = instant_of(c.from);
        row.until.reset();
        if (c.until != 0) row.until = instant_of(c.until);
        commit(*store, {PutLedger{row}});
        for (const auto& of : {job.id, JobId{}}) {
            const auto rows = *store->reader().ledger(of, instant_of(1000), instant_of(2000));
            const bool found = std::any_of(rows.begin(), rows.end(), [&](const auto& r) { return r.number == number; });
            CHECK(found == c.in_span);
        }
    }
    CHECK(store->reader().ledger(JobId{"job_other"}, instant_of(0), instant_of(9000))->empty());
}

TEST_CASE("the newest whole checkpoint is the one to resume from") {
    Samples s(5);
    auto store = open();
    const auto job = s.job();
    const auto task = s.task(job);
    commit(*store, {PutJob{job, {}}, PutTask{task, {}}});
    const std::vector<CheckpointState> states{CheckpointState::pruned, CheckpointState::whole, CheckpointState::whole,
                                              CheckpointState::quarantined};
    for (std::size_t i = 0; i < states.size(); ++i) {
        auto row = s.checkpoint(task, static_cast<std::int64_t>(i) + 1);
        row.state = states[i];
        commit(*store, {PutCheckpoint{row}});
    }
    const auto newest = [&](std::int64_t at_most) {
        const auto row = *store->reader().newest_checkpoint(task.id, at_most);
        return row ? row->generation : 0;
    };
    CHECK(newest(0) == 3);
    CHECK(newest(4) == 3);
    CHECK(newest(2) == 2);
    CHECK(newest(1) == 0);
    commit(*store, {SetCheckpointState{task.id, 3, CheckpointState::quarantined, "hash"}});
    CHECK(newest(0) == 2);
}

TEST_CASE("events are read after a number, oldest first, of all or of one job") {
    Samples s(6);
    auto store = open();
    const auto one = s.job();
    const auto other = s.job();
    commit(*store, {PutJob{one, {}}, PutJob{other, {}}});
    for (int i = 0; i < 10; ++i) commit(*store, {AddEvent{s.event(i % 2 == 0 ? one.id : other.id)}});
    const auto numbers = [](const std::vector<EventRecord>& events) {
        std::vector<std::int64_t> out;
        for (const auto& e : events) out.push_back(e.seq);
        return out;
    };
    CHECK(numbers(*store->reader().events({}, 0, 3)) == std::vector<std::int64_t>{1, 2, 3});
    CHECK(numbers(*store->reader().events({}, 8, 100)) == std::vector<std::int64_t>{9, 10});
    CHECK(numbers(*store->reader().events(one.id, 0, 2)) == std::vector<std::int64_t>{1, 3});
    CHECK(numbers(*store->reader().events(other.id, 4, 100)) == std::vector<std::int64_t>{6, 8, 10});
}

TEST_CASE("open alerts are a list of their own, newest first") {
    Samples s(7);
    auto store = open();
    std::vector<std::string> open_ids;
    for (int i = 0; i < 20; ++i) {
        auto alert = s.alert();
        if (i % 3 == 0) alert.cleared_at = alert.at;
        else alert.cleared_at.reset();
        commit(*store, {PutAlert{alert}});
        if (!alert.cleared_at) open_ids.insert(open_ids.begin(), alert.id.get());
    }
    std::vector<std::string> got;
    for (const auto& alert : *store->reader().alerts(true, 100)) got.push_back(alert.id.get());
    CHECK(got == open_ids);
    CHECK(store->reader().alerts(false, 100)->size() == 20);
    CHECK(store->reader().alerts(false, 5)->size() == 5);
}
