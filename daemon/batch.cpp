#include "daemon/batch.hpp"

#include <algorithm>
#include <iterator>

namespace gf {
namespace {

template <class T>
void append(std::vector<T>& to, std::vector<T>&& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

bool names(const RowRequest& want, const RowChange& change) {
    const auto machine = [&](const MachineId& id) { return std::ranges::find(want.machines, id) != want.machines.end(); };
    if (const auto* job = std::get_if<PutJob>(&change)) return job->row.id == want.job;
    if (const auto* task = std::get_if<PutTask>(&change)) return task->row.job == want.job;
    if (const auto* row = std::get_if<PutMachine>(&change)) return machine(row->row.id);
    if (const auto* made = std::get_if<PutCheckpoint>(&change)) return made->row.task == want.checkpoint_of;
    if (const auto* set = std::get_if<SetCheckpointState>(&change)) return set->task == want.checkpoint_of;
    if (const auto* kept = std::get_if<PruneCheckpoints>(&change)) return kept->task == want.checkpoint_of;
    if (const auto* key = std::get_if<AddIdempotency>(&change))
        return !want.idempotency_key.empty() && key->row.key == want.idempotency_key && key->row.principal == want.principal;
    return false;
}

}  // namespace

void Batch::add(Effects decided) {
    append(rows, std::move(decided.rows));
    append(effects, std::move(decided.after_commit));
}

bool Batch::hides(const RowRequest& want) const {
    if (want.job.empty() && want.machines.empty() && want.checkpoint_of.empty() && want.idempotency_key.empty()) return false;
    return std::ranges::any_of(rows, [&](const RowChange& change) { return names(want, change); });
}

Result<StoredRows> read_stored(Reader& reader, const RowRequest& want) {
    StoredRows rows;
    JobId job = want.job;
    if (!want.idempotency_key.empty()) {
        auto found = reader.idempotency(want.principal, want.idempotency_key);
        if (!found) return fail(std::move(found).error());
        rows.idempotency = *std::move(found);
        if (rows.idempotency) job = rows.idempotency->job;  // what the key made is what it is answered with
    }
    if (!job.empty()) {
        auto found = reader.job(job);
        if (!found) return fail(std::move(found).error());
        rows.job = *std::move(found);
        auto tasks = reader.tasks(job);
        if (!tasks) return fail(std::move(tasks).error());
        rows.tasks = *std::move(tasks);
    }
    for (const MachineId& id : want.machines) {
        auto found = reader.machine(id);
        if (!found) return fail(std::move(found).error());
        if (*found) rows.machines.push_back(**std::move(found));
    }
    if (!want.checkpoint_of.empty()) {
        auto found = reader.newest_checkpoint(want.checkpoint_of, 0);
        if (!found) return fail(std::move(found).error());
        rows.checkpoint = *std::move(found);
    }
    return rows;
}

}  // namespace gf
