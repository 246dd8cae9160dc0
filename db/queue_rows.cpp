// The queue in pages that are fair to projects. Each step is a seek in tasks_queue (priority, project, id),
// so that a page costs the same among a million waiting tasks.
#include <algorithm>
#include <string>
#include <tuple>

#include "db/job_fields.hpp"
#include "db/job_tables.hpp"
#include "db/rows.hpp"

namespace gf::db {
namespace {

/// Names without a task to show (all of theirs are held, or in back-off) are passed over, so many windows of
/// them in one page.
constexpr int kWindowsMax = 64;

std::optional<int> priority_from(Connection& db, int most) {
    static constexpr char sql[] =
        "SELECT priority FROM tasks WHERE state = 'waiting' AND priority <= ?1 ORDER BY priority DESC LIMIT "
        "1";
    Query q(db, sql);
    q.bind(most);
    if (!q.step()) return std::nullopt;
    std::int64_t found = 0;
    q.read(found);
    return static_cast<int>(found);
}

std::optional<std::string> project_after(Connection& db, int priority,
                                         const std::optional<std::string>& name) {
    static constexpr char first[] =
        "SELECT project FROM tasks WHERE state = 'waiting' AND priority = ?1 ORDER BY project LIMIT 1";
    static constexpr char next[] =
        "SELECT project FROM tasks WHERE state = 'waiting' AND priority = ?1 AND project > ?2 ORDER BY "
        "project LIMIT 1";
    Query q(db, name ? next : first);
    q.bind(priority);
    if (name) q.bind(*name);
    if (!q.step()) return std::nullopt;
    std::string found;
    q.read(found);
    return found;
}

std::vector<QueuedTask> tasks_after(Connection& db, int priority, const std::string& project,
                                    const std::string& id, std::size_t most, Instant now) {
    // CROSS JOIN keeps the queue index outside, so that the order comes from it and the walk stops at the
    // limit; the plus keeps jobs on its key.
    static const std::string sql =
        std::string("SELECT ") + kJobColumns + ", " + kTaskColumns +
        " FROM tasks CROSS JOIN jobs ON jobs.id = tasks.job WHERE tasks.state = 'waiting'"
        " AND tasks.priority = ?1 AND tasks.project = ?2 AND tasks.id > ?3"
        " AND (tasks.not_before IS NULL OR tasks.not_before <= ?4)"
        " AND +jobs.state IN ('queued', 'recovering') ORDER BY tasks.id LIMIT ?5";
    Query q(db, sql.c_str());
    q.bind(priority, project, id, now, static_cast<std::int64_t>(most));
    return all_rows<QueuedTask>(q, [](Query& row, QueuedTask& queued) {
        read_job(row, queued.job);
        read_task(row, queued.task);
    });
}

/// The projects whose turn is next in the round, by name.
std::vector<std::string> next_projects(Connection& db, const QueueCursor& at, std::size_t most) {
    std::vector<std::string> names;
    if (at.first_round) {
        std::optional<std::string> last = at.project;
        while (names.size() < most) {
            auto name = project_after(db, at.priority, last);
            if (!name) break;
            names.push_back(*name);
            last = std::move(name);
        }
    } else {
        auto it = at.project ? at.after.upper_bound(*at.project) : at.after.begin();
        for (; it != at.after.end() && names.size() < most; ++it) names.push_back(it->first);
    }
    return names;
}

/// Fills the page with the next tasks of these projects, in even shares; what one leaves goes to the others.
void share_out(Connection& db, std::vector<std::string> projects, std::size_t limit, Instant now,
               QueueCursor& at, std::vector<QueuedTask>& page) {
    while (!projects.empty() && page.size() < limit) {
        const std::size_t share = std::max(std::size_t{1}, (limit - page.size()) / projects.size());
        std::erase_if(projects, [&](const std::string& project) {
            const std::size_t most = std::min(share, limit - page.size());
            if (most == 0) return true;
            const auto seen = at.after.find(project);
            auto rows = tasks_after(db, at.priority, project,
                                    seen == at.after.end() ? std::string() : seen->second, most, now);
            const bool ended = rows.size() < most;
            if (ended && seen != at.after.end()) at.after.erase(seen);
            if (!ended && seen != at.after.end()) seen->second = rows.back().task.id.get();
            const bool noted = !ended && (seen != at.after.end() || at.after.size() < kQueueProjectsMax);
            if (noted && seen == at.after.end()) at.after.emplace(project, rows.back().task.id.get());
            std::ranges::move(rows, std::back_inserter(page));
            return !noted;
        });
    }
}

}  // namespace

QueueRows queue_page(Connection& db, const QueueCursor& after, int limit, Instant now) {
    QueueRows out;
    QueueCursor at = after;
    const auto most = static_cast<std::size_t>(std::max(limit, 1));
    bool ended = false;
    for (int windows = 0; windows < kWindowsMax && out.tasks.size() < most; ++windows) {
        const auto priority = priority_from(db, at.priority);
        ended = !priority;
        if (ended) break;
        if (*priority != at.priority) at = {.priority = *priority, .project = {}, .after = {}};
        auto projects = next_projects(db, at, most - out.tasks.size());
        if (projects.empty()) {
            at.project.reset();
            at.first_round = at.after.empty();
            if (at.first_round) --at.priority;
            continue;
        }
        at.project = projects.back();
        share_out(db, std::move(projects), most, now, at, out.tasks);
    }
    std::ranges::sort(out.tasks, {}, [](const QueuedTask& t) {
        return std::tuple<int, const std::string&>(-t.task.priority, t.task.id.get());
    });
    if (!ended) out.next = std::move(at);
    return out;
}

}  // namespace gf::db
