#include "scheduler/finish_scoring.hpp"

#include <algorithm>

namespace gf {
namespace {

constexpr std::int64_t kCutOff = INT64_MAX / 3;  // above every score

void add(std::string& key, std::string_view name, std::int64_t value) {
    key += '|';
    key += name;
    key += std::to_string(value);
}

}  // namespace

struct FinishScoring::Task {
    Task(const JobSpec& spec, const TaskRecord& row, Expectations known, Instant now)
        : expect(std::move(known)), estimator(spec, row, expect, now) {}
    Task(const Task&) = delete;  // the estimator refers to what it lies beside
    Task& operator=(const Task&) = delete;

    Expectations expect;
    FinishEstimator estimator;
    double slowest{0};
};

FinishScoring::FinishScoring(const Expectations& common, std::map<TaskId, TaskWork> works, std::span<const Offer> offers,
                             const GpuNames* gpus, Instant now)
    : common_(common), works_(std::move(works)), now_(now) {
    std::map<RunPlace, Seen> kinds;
    for (const auto& offer : offers) {
        const GpuCard* card = gpus != nullptr && !offer.gpu.canonical.empty() ? gpus->card(offer.gpu.canonical) : nullptr;
        const double share = card_share(offer, card);
        kinds.try_emplace(place_of(offer, share, false), Seen{offer, share});
        // A job that uses no GPU has its speed from the cores.
        if (offer.gpu_count == 0 || offer.provider.get() == "local") kinds.try_emplace(place_of(offer, share, true), Seen{offer, share});
    }
    for (auto& [place, seen] : kinds) kinds_.push_back(std::move(seen));
}

const TaskWork& FinishScoring::work_of(const TaskRecord& row) const {
    static const TaskWork kNothing;
    const auto found = works_.find(row.id);
    return found == works_.end() ? kNothing : found->second;
}

const FinishScoring::Task& FinishScoring::task_of(const JobSpec& spec, const TaskRecord& row) const {
    auto& known = tasks_[row.id];
    if (known) return *known;
    Expectations expect = common_;
    expect.work = work_of(row);
    auto made = std::make_shared<Task>(spec, row, std::move(expect), now_);
    if (made->estimator.work_known()) {
        for (const auto& kind : kinds_)
            if (const auto speed = made->estimator.speed(kind.like, kind.share); speed && (made->slowest <= 0 || *speed < made->slowest))
                made->slowest = *speed;
        if (made->slowest <= 0) made->estimator.without_work();
    }
    known = std::move(made);
    return *known;
}

Scoring FinishScoring::scoring() const {
    return {.self = this, .score = score, .pace = pace, .warm = warm, .key = key};
}

std::int64_t FinishScoring::score(const void* self, const Fit& fit) {
    const Task& task = static_cast<const FinishScoring*>(self)->task_of(fit.spec, fit.task);
    const UsdPerHour disk = disk_rate(fit.offer, disk_gb(fit.spec));
    const FinishCost cost = task.estimator.reckon(fit.offer, card_share(fit), disk, task.slowest, false);
    return finish_score(cost, fit.all_in, ranked_rate(fit), fit.standing.handicap_percent) + (cost.cut_off ? kCutOff : 0);
}

Pace FinishScoring::pace(const void* self, const Fit& like) {
    const Task& task = static_cast<const FinishScoring*>(self)->task_of(like.spec, like.task);
    const double share = card_share(like);
    return {.least = task.estimator.least_time(like.offer, share, task.slowest).count(),
            .expected = task.estimator.run(like.offer, share)};
}

std::int64_t FinishScoring::warm(const void* self, const Fit& fit, Millis paid_ahead) {
    const Task& task = static_cast<const FinishScoring*>(self)->task_of(fit.spec, fit.task);
    // The real rate holds all lines: none is apart as the disk's.
    Offer held = fit.offer;
    held.gpu_rate = fit.all_in;
    const FinishCost cost = task.estimator.reckon(held, card_share(fit), UsdPerHour{0}, task.slowest, false, true);
    const std::int64_t score = finish_score(cost, fit.all_in, fit.all_in, 0) + (cost.cut_off ? kCutOff : 0);
    if (cost.known) return score - gf::cost(fit.all_in, std::min(paid_ahead, cost.held)).micros;
    // An hour's worth, less what of it is paid. No start: it is in no price of an hour.
    const Millis least = task.estimator.least_time(fit.offer, card_share(fit), task.slowest);
    return score - gf::cost(fit.all_in, std::min(least, paid_ahead)).micros;
}

void FinishScoring::key(const void* self, const JobSpec& spec, const TaskRecord& row, std::string& key) {
    const TaskWork& work = static_cast<const FinishScoring*>(self)->work_of(row);
    key += '|';
    key += work.family;
    add(key, "kind", static_cast<int>(spec.kind));
    add(key, "total", work.total.value_or(-1));
    add(key, "step", work.step);
    add(key, "down", work.download.count);
    add(key, "up", work.upload.count);
    add(key, "ckp", work.checkpoint.count);
    add(key, "generation", row.generation > 0 ? 1 : 0);
    add(key, "ran", row.ran.count());
    add(key, "duration", spec.limits.duration.value_or(Millis{-1}).count());
    add(key, "deadline", spec.limits.deadline ? 1 : 0);
    add(key, "saves", spec.checkpoint.declared ? spec.checkpoint.every.value_or(Millis{0}).count() : -1);
    add(key, "cpu", spec.resources.cpu_only ? 1 : 0);
    key += '|';
    key += spec.image;
}

}  // namespace gf
