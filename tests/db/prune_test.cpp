#include <doctest/doctest.h>

#include "tests/db/sample_rows.hpp"

using namespace gf;
using namespace gf::test;

namespace {

constexpr Millis kDay = std::chrono::hours{24};
const auto kNow = instant_of(1'800'000'000'000);

}  // namespace

TEST_CASE("events go when they are old and their job ended long ago, or when they belong to no job") {
    struct Case {
        const char* what;
        JobState job;
        Millis ended_ago;
        Millis event_ago;
        bool with_job;
        bool kept;
    };
    const std::vector<Case> cases{
        {"of a live job", JobState::running, Millis{0}, kDay * 500, true, true},
        {"of a job that ended lately", JobState::succeeded, kDay * 10, kDay * 300, true, true},
        {"of a job that ended long ago", JobState::failed, kDay * 181, kDay * 182, true, false},
        {"of no job, old", JobState::queued, Millis{0}, kDay * 181, false, false},
        {"of no job, new", JobState::queued, Millis{0}, kDay * 179, false, true},
    };
    std::uint64_t seed = 0;
    for (const auto& c : cases) {
        CAPTURE(c.what);
        Samples s(++seed);
        auto store = open();
        auto job = s.job(c.job);
        if (job.ended_at) job.ended_at = kNow - c.ended_ago;
        auto event = s.event(c.with_job ? job.id : JobId{});
        event.at = kNow - c.event_ago;
        auto newest = s.event({});
        newest.at = kNow;
        commit(*store, {PutJob{job, {}}, AddEvent{event}, AddEvent{newest}});
        CHECK(*store->prune(kNow, {}) == (c.kept ? 0 : 1));
        CHECK(store->reader().events({}, 0, 10)->size() == (c.kept ? 2 : 1));
    }
}

TEST_CASE("the newest event stays, so that its number is never given again") {
    Samples s(9);
    const TempFolder folder;
    {
        auto store = open(folder.file("store.db"));
        for (int i = 0; i < 5; ++i) {
            auto event = s.event({});
            event.at = kNow - kDay * 400;
            commit(*store, {AddEvent{event}});
        }
        CHECK(*store->prune(kNow, {}) == 4);
        CHECK(*store->prune(kNow, {}) == 0);
    }
    auto store = open(folder.file("store.db"));
    CHECK(commit(*store, {AddEvent{s.event({})}}) == 6);
}

TEST_CASE("one call forgets no more than it may, and calls end") {
    Samples s(10);
    auto store = open();
    std::vector<RowChange> rows;
    for (int i = 0; i < 100; ++i) {
        auto event = s.event({});
        event.at = kNow - kDay * 365 + Seconds{i};
        rows.push_back(AddEvent{event});
    }
    auto recent = s.event({});
    recent.at = kNow - kDay;
    rows.push_back(AddEvent{recent});
    commit(*store, rows);
    int calls = 0;
    int gone = 0;
    for (; calls < 20; ++calls) {
        const int now_gone = *store->prune(kNow, {.rows_max = 30});
        if (now_gone == 0) break;
        CHECK(now_gone <= 30);
        gone += now_gone;
    }
    CHECK(calls == 4);
    CHECK(gone == 100);
}

TEST_CASE("idempotency keys are kept for a day and then forgotten") {
    Samples s(11);
    auto store = open();
    const auto job = s.job();
    auto young = s.idempotency(job);
    young.created_at = kNow - kDay + Seconds{1};
    auto old = s.idempotency(job);
    old.key += "old";
    old.created_at = kNow - kDay - Seconds{1};
    commit(*store, {PutJob{job, {}}, AddIdempotency{young}, AddIdempotency{old}});
    CHECK(*store->prune(kNow, {}) == 1);
    CHECK(store->reader().idempotency(young.principal, young.key)->has_value());
    CHECK_FALSE(store->reader().idempotency(old.principal, old.key)->has_value());
}
