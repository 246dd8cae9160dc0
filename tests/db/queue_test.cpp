#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/db/sample_rows.hpp"

using namespace gf;
using namespace gf::test;

namespace {

const auto kNow = instant_of(1'800'000'000'000);

void add(Store& store, const JobRecord& job, const TaskRecord& task) {
    commit(store, {PutJob{job, {}}, PutTask{task, {}}});
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
        const auto page = store->reader().queue({}, 10, kNow)->tasks;
        CHECK(page.empty() == !c.in_queue);
        if (!page.empty()) {
            CHECK(same(page.front().job, job));
            CHECK(same(page.front().task, task));
        }
    }
}

namespace {

/// All pages, one after the other.
std::vector<QueuedTask> walk(Store& store, int limit, std::size_t* pages = nullptr) {
    std::vector<QueuedTask> out;
    QueueCursor cursor;
    for (int n = 0; n < 10'000; ++n) {
        auto page = *store.reader().queue(cursor, limit, kNow);
        REQUIRE(page.tasks.size() <= static_cast<std::size_t>(limit));
        std::ranges::move(page.tasks, std::back_inserter(out));
        if (pages != nullptr) ++*pages;
        if (!page.next) return out;
        cursor = *page.next;
    }
    FAIL("the queue has no end");
    return out;
}

struct Queue {
    explicit Queue(std::uint64_t seed) : s(seed) {}
    std::string put(const std::string& project, int priority = 50, JobState state = JobState::queued) {
        auto job = s.job(state);
        job.project = project;
        auto task = s.task(job, TaskState::waiting);
        task.priority = priority;
        task.not_before.reset();
        add(*store, job, task);
        return task.id.get();
    }
    std::map<std::string, int> counts(const std::vector<QueuedTask>& page) {
        std::map<std::string, int> out;
        for (const auto& q : page) ++out[q.job.project];
        return out;
    }
    Samples s;
    std::unique_ptr<Store> store = open();
};

}  // namespace

TEST_CASE("pages of any size walk the whole queue once, highest priority first, each project's oldest first") {
    Queue q(7);
    std::map<std::pair<int, std::string>, std::vector<std::string>> expected;
    for (int i = 0; i < 200; ++i) {
        const int priority = std::array{0, 50, 50, 100, 7}[q.s.entropy().below(5)];
        const std::string project = std::array{"a", "b", "b", "", "zz"}[q.s.entropy().below(5)];
        expected[{-priority, project}].push_back(q.put(project, priority));
    }
    for (const int limit : {1, 2, 7, 64, 200, 1000}) {
        CAPTURE(limit);
        std::map<std::pair<int, std::string>, std::vector<std::string>> walked;
        int last = 100;
        for (const auto& t : walk(*q.store, limit)) {
            CHECK(t.task.priority <= last);
            last = t.task.priority;
            walked[{-last, t.job.project}].push_back(t.task.id.get());
        }
        CHECK(walked == expected);
    }
}

TEST_CASE("a page has a share for each project, and what one does not need goes to the others") {
    struct Case {
        std::map<std::string, int> waiting, first, second;
    };
    const std::vector<Case> cases{
        {{{"a", 500}, {"b", 3}}, {{"a", 61}, {"b", 3}}, {{"a", 64}}},
        {{{"a", 500}, {"b", 500}}, {{"a", 32}, {"b", 32}}, {{"a", 32}, {"b", 32}}},
        {{{"a", 500}, {"b", 2}, {"c", 40}, {"d", 40}}, {{"a", 21}, {"b", 2}, {"c", 21}, {"d", 20}}, {{"a", 25}, {"c", 19}, {"d", 20}}},
        {{{"a", 1}}, {{"a", 1}}, {}},
    };
    std::uint64_t seed = 20;
    for (const auto& c : cases) {
        Queue q(++seed);
        for (const auto& [project, n] : c.waiting)
            for (int i = 0; i < n; ++i) q.put(project);
        const auto first = *q.store->reader().queue({}, 64, kNow);
        CHECK(q.counts(first.tasks) == c.first);
        CHECK(first.next.has_value() == !c.second.empty());
        if (!first.next) continue;
        const auto second = *q.store->reader().queue(*first.next, 64, kNow);
        CHECK(q.counts(second.tasks) == c.second);
    }
}

TEST_CASE("with more projects than a page has room for, each has its oldest task seen before any has its second") {
    Queue q(11);
    constexpr int kProjects = 150;
    for (int p = 0; p < kProjects; ++p)
        for (int i = 0; i < 3; ++i) q.put("p" + std::to_string(p));
    const auto walked = walk(*q.store, 64);
    REQUIRE(walked.size() == 3 * kProjects);
    std::set<std::string> first;
    std::size_t at = 0;
    for (QueueCursor cursor; first.size() < kProjects;) {
        const auto page = *q.store->reader().queue(cursor, 64, kNow);
        for (const auto& t : page.tasks) first.insert(t.job.project);
        at += page.tasks.size();
        REQUIRE(page.next.has_value());
        cursor = *page.next;
    }
    CHECK(at <= 192);  // three pages
}

TEST_CASE("held tasks and tasks in back-off of many projects keep nobody out of the page") {
    Queue q(12);
    for (int p = 0; p < 300; ++p) q.put("held" + std::to_string(p), 90, JobState::held);
    const auto id = q.put("z", 10);
    const auto walked = walk(*q.store, 16);
    REQUIRE(walked.size() == 1);
    CHECK(walked.front().task.id.get() == id);
}

TEST_CASE("a task leaves the queue when it is assigned and comes back when it waits again") {
    Samples s(8);
    auto store = open();
    auto job = s.job();
    auto task = s.task(job);
    task.not_before.reset();
    add(*store, job, task);
    CHECK(store->reader().queue({}, 10, kNow)->tasks.size() == 1);
    task.state = TaskState::assigned;
    commit(*store, {PutTask{task, TaskState::waiting}});
    CHECK(store->reader().queue({}, 10, kNow)->tasks.empty());
    task.state = TaskState::waiting;
    job.state = JobState::recovering;
    commit(*store, {PutTask{task, TaskState::assigned}, PutJob{job, JobState::queued}});
    CHECK(store->reader().queue({}, 10, kNow)->tasks.size() == 1);
}
