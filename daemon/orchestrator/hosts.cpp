// What is learned of hosts and providers from the machines that were rented there: the marks of scheduler/reputation.hpp, which
// the store keeps, and the circuit breaker of each provider, which a restart resets.
#include <algorithm>
#include <utility>

#include "daemon/orchestrator/step.hpp"

namespace gf {
namespace {

/// A loss later than this says more about time than about the host.
constexpr Millis kEarly = std::chrono::hours{1};
/// An image of which nothing is known yet is slow after half of the start time-out; one that is known, after three times what it
/// takes elsewhere and no earlier than a quarter.
constexpr int kSlowTimes = 3;
constexpr std::size_t kImagesMost = 256;
/// The second host in a row on which a task does not come up may be blamed for the task's own image.
constexpr std::int64_t kShareOfRepeated = 300;
/// Hosts that have to say of an image that it cannot be started, and those on which it says nothing and does not come up either.
constexpr std::ptrdiff_t kToldByHosts = 2;
constexpr std::size_t kSilentHosts = 3;

}  // namespace

void Step::mark_host(const LiveMachine& machine, HostEvent event, std::string_view detail) {
    const LiveProvider* from = provider(machine.row.provider);
    if (!from || from->capabilities.is_local) return;
    const LiveTask* task = task_of(machine);
    const bool repeated = event == HostEvent::boot_failure && task && task->row.retries.start_timeout > 0;
    const MarkChanges changes =
        note_host(*w_.host_marks, machine.row.offer, event, detail, now_, repeated ? kShareOfRepeated : 1000);
    if (changes.put.empty()) return;
    auto marks = std::make_shared<HostMarks>(*w_.host_marks);
    for (const HostMarkRecord& mark : changes.put) {
        (*marks)[mark.key] = mark;
        out_.rows.push_back(PutHostMark{mark});
    }
    for (const std::string& key : changes.drop) {
        marks->erase(key);
        out_.rows.push_back(DropHostMark{key});
    }
    w_.host_marks = std::move(marks);
    if (event == HostEvent::good_run) return;
    history({.at = now_, .kind = "host_mark", .job = machine.row.job, .machine = machine.row.id,
             .state = std::string(text(event)), .reason = changes.put.front().key, .detail = std::string(detail)});
}

void Step::mark_loss(LiveMachine& machine, bool by_market, std::string_view detail) {
    learn_life(machine, true);
    if (!machine.row.ready_at || now_ - *machine.row.ready_at >= kEarly) return;
    mark_host(machine, by_market ? HostEvent::taken_early : HostEvent::early_loss, detail);
}

void Step::mark_start(const LiveMachine& machine) {
    if (LiveTask* task = task_of(machine)) task->image_doubted.clear();
    if (machine.row.ready_at || machine.back_at || !machine.row.call_ended) return;  // not its first start
    const LiveProvider* from = provider(machine.row.provider);
    if (!from || from->capabilities.is_local) return;
    // After a restart or a suspend of ours the word may have waited for us.
    if (machine.row.created_at < w_.observations_from) return;
    const Millis took = now_ - *machine.row.call_ended;
    learn_start(StartPhase::boot, machine, took);
    const auto known = w_.image_starts.find(machine.row.image);
    const Millis bound = known == w_.image_starts.end()
                             ? w_.settings.start / 2
                             : std::max<Millis>(w_.settings.start / 4, kSlowTimes * known->second);
    if (took > bound)
        mark_host(machine, HostEvent::slow_start, "came up after " + duration_text(std::chrono::floor<Seconds>(took)));
    if (known != w_.image_starts.end()) {
        known->second = (3 * known->second + took) / 4;
        return;
    }
    if (w_.image_starts.size() >= kImagesMost) w_.image_starts.erase(w_.image_starts.begin());
    w_.image_starts[machine.row.image] = took;
}

void Step::forget_faint_marks() {
    constexpr Millis kEvery = std::chrono::hours{1};
    if (now_ - w_.marks_swept < kEvery) return;
    w_.marks_swept = now_;
    forget_learned();
    const auto faint = faint_marks(*w_.host_marks, now_);
    if (faint.empty()) return;
    auto marks = std::make_shared<HostMarks>(*w_.host_marks);
    for (const std::string& key : faint) {
        marks->erase(key);
        out_.rows.push_back(DropHostMark{key});
    }
    w_.host_marks = std::move(marks);
}

void Step::create_failed(LiveMachine& machine, std::string_view detail) {
    LiveProvider* from = provider(machine.row.provider);
    if (!from || from->capabilities.is_local) return;
    const BreakerRule rule{.first = w_.settings.cooldown, .most = 6 * w_.settings.cooldown};
    // An unclear answer is the provider's doing, whatever was asked for; a machine that does not come up may be its offer's.
    const std::string& what = machine.row.state == MachineState::unknown ? machine.row.id.get() : machine.row.offer.id;
    if (!breaker_failed(from->breaker, rule, machine.row.id.get(), what, now_)) return;
    const std::string key = "provider/" + from->name.get() + "/creates_failing";
    alert("provider_degraded", "warning", key,
          from->name.get() + ": " + (from->breaker.trips == 1 ? std::to_string(rule.failures) + " creates in a row" : "the next create") +
              " came to nothing; no launches there until " + rfc3339(std::chrono::ceil<Seconds>(from->breaker.paused_until)) +
              ", then one is tried. The last: " + std::string(detail),
          nullptr, from->name);
    history({.at = now_, .kind = "provider_paused", .machine = machine.row.id, .reason = "creates_failing",
             .detail = from->name.get() + " until " + rfc3339(from->breaker.paused_until)});
}

bool Step::image_at_fault(const LiveMachine& machine, LiveTask& task, bool told) {
    const MachineRecord& row = machine.row;
    if (row.image.empty()) return false;
    const std::string& host = row.offer.host_id.empty() ? row.id.get() : row.offer.host_id;
    task.image_doubted.insert((told ? "told/" : "silent/") + row.provider.get() + "/" + host);
    const auto told_by = std::ranges::count_if(task.image_doubted, [](const std::string& key) { return key.starts_with("told/"); });
    if (told_by >= kToldByHosts) return true;
    if (task.image_doubted.size() < kSilentHosts) return false;
    const bool came_up = w_.image_starts.contains(row.image) || std::ranges::any_of(w_.learned->starts, [&](const auto& entry) {
        return entry.first.starts_with(text(StartPhase::image)) && entry.first.ends_with("/" + row.image);
    });
    const auto boots = w_.learned->starts.find(start_key(StartPhase::boot, row.provider.get(), row.image));
    const bool others_do = boots != w_.learned->starts.end() &&
                           std::ranges::any_of(boots->second.times, [&](Millis took) { return took < w_.settings.start; });
    return !came_up && others_do;
}

void Step::create_worked(LiveMachine& machine) {
    LiveProvider* from = provider(machine.row.provider);
    if (!from) return;
    breaker_worked(from->breaker);
    clear_alert("provider/" + from->name.get() + "/creates_failing");
}

}  // namespace gf
