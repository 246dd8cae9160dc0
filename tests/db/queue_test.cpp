#include <doctest/doctest.h>

#include <algorithm>

#include "tests/db/sample_rows.hpp"

using namespace gf;
using namespace gf::test;

namespace {

const auto kNow = instant_of(1'800'000'000'000);

void add(Store& store, const JobRecord& job, const TaskRecord& task) {
    commit(store, {PutJob{job, {}}, PutTask{task, {}}});
}

std::vector<std::string> ids(const std::vector<QueuedTask>& page) {
    std::vector<std::string> out;
    for (const auto& q : page) out.push_back(q.task.id.get());
    return out;
}

}  // namespace

TEST_CASE("the queue has the waiting tasks of queued and recovering jobs whose back-off is over") {
    struct Case {
        JobState job;
        TaskState task;
        std::optional<Instant> not_before;
        bool in_queue;
    };
    const std::vector<Case> cases{
        {JobState::queued, TaskState::waiting, {}, true},
        {JobState::recovering, TaskState::waiting, {}, true},
        {JobState::queued, TaskState::waiting, kNow, true},
        {JobState::queued, TaskState::waiting, kNow + Millis{1}, false},
        {JobState::held, TaskState::waiting, {}, false},
        {JobState::stopping, TaskState::waiting, {}, false},
        {JobState::cancelled, TaskState::waiting, {}, false},
        {JobState::queued, TaskState::assigned, {}, false},
        {JobState::recovering, TaskState::running, {}, false},
        {JobState::queued, TaskState::cancelled, {}, false},
    };
    std::uint64_t seed = 0;
    for (const auto& c : cases) {
        CAPTURE(text(c.job));
        CAPTURE(text(c.task));
        Samples s(++seed);
        auto store = open();
        const auto job = s.job(c.job);
        auto task = s.task(job, c.task);
        task.not_before = c.not_before;
        add(*store, job, task);
        const auto page = *store->reader().queue({}, 10, kNow);
        CHECK(page.empty() == !c.in_queue);
        if (!page.empty()) {
            CHECK(same(page.front().job, job));
            CHECK(same(page.front().task, task));
        }
    }
}

TEST_CASE("pages of any size walk the whole queue once, highest priority first and then oldest") {
    Samples s(7);
    auto store = open();
    std::vector<std::pair<int, std::string>> expected;
    for (int i = 0; i < 200; ++i) {
        const auto job = s.job();
        auto task = s.task(job);
        task.priority = std::array{0, 50, 50, 100, 7}[s.entropy().below(5)];
        task.not_before.reset();
        add(*store, job, task);
        expected.emplace_back(-task.priority, task.id.get());
    }
    std::sort(expected.begin(), expected.end());
    for (const int limit : {1, 7, 64, 200, 1000}) {
        CAPTURE(limit);
        std::vector<std::string> walked;
        QueueCursor cursor;
        for (int pages = 0; pages < 300; ++pages) {
            const auto page = *store->reader().queue(cursor, limit, kNow);
            if (page.empty()) break;
            for (const auto& id : ids(page)) walked.push_back(id);
            cursor = {.priority = page.back().task.priority, .task_id = page.back().task.id.get()};
        }
        REQUIRE(walked.size() == expected.size());
        for (std::size_t i = 0; i < walked.size(); ++i) CHECK(walked[i] == expected[i].second);
    }
}

TEST_CASE("a task leaves the queue when it is assigned and comes back when it waits again") {
    Samples s(8);
    auto store = open();
    auto job = s.job();
    auto task = s.task(job);
    task.not_before.reset();
    add(*store, job, task);
    CHECK(store->reader().queue({}, 10, kNow)->size() == 1);
    task.state = TaskState::assigned;
    commit(*store, {PutTask{task, TaskState::waiting}});
    CHECK(store->reader().queue({}, 10, kNow)->empty());
    task.state = TaskState::waiting;
    job.state = JobState::recovering;
    commit(*store, {PutTask{task, TaskState::assigned}, PutJob{job, JobState::queued}});
    CHECK(store->reader().queue({}, 10, kNow)->size() == 1);
}
