// Small worlds of tasks, offers and machines from a seed, with much that is scarce, equal or in the way. They
// own what a request points to.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "offers.hpp"
#include "scheduler/planner.hpp"

namespace gf::test {

/// SplitMix64: the same numbers everywhere.
class Dice {
 public:
    explicit Dice(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        return z ^ (z >> 31);
    }
    /// 0 … n-1
    int below(int n) { return static_cast<int>(next() % static_cast<std::uint64_t>(n)); }
    bool one_in(int n) { return below(n) == 0; }
    template <class T>
    const T& of(const std::vector<T>& list) {
        return list[static_cast<std::size_t>(below(static_cast<int>(list.size())))];
    }

 private:
    std::uint64_t state_;
};

struct PlanCase {
    std::deque<JobSpec> specs;
    std::deque<TaskRecord> rows;
    std::vector<PlanTask> tasks;
    std::vector<Offer> offers;
    PlanWorld world;
    PlanRule rule;

    PlanTask& add(JobSpec spec, TaskRecord row) {
        specs.push_back(std::move(spec));
        rows.push_back(std::move(row));
        PlanTask task;
        task.spec = &specs.back();
        task.row = &rows.back();
        return tasks.emplace_back(std::move(task));
    }
    PlanTask& add(const std::string& id, const JobSpec& spec = job(), int priority = 50) {
        TaskRecord row;
        row.id = TaskId{id};
        row.priority = priority;
        row.waiting_since = kNow - Seconds{10};
        return add(spec, std::move(row));
    }
    [[nodiscard]] Plan plan() const { return gf::plan(tasks, offers, world, rule); }
};

struct Card {
    const char* canonical;
    std::int64_t mib;
};

inline Offer random_offer(Dice& dice, int number) {
    static const std::vector<std::string> kProviders{"vastai", "runpod", "lambda", "vultr", "local"};
    static const std::vector<Card> kCards{{"RTX-4090", 24564}, {"RTX-4090", 24080},      {"RTX-3090", 24576},
                                          {"L40S", 46068},     {"A100-SXM-80GB", 81920}, {"", 16384}};
    Offer o = offer(dice.of(kProviders), "o" + std::to_string(number));
    const Card& card = dice.of(kCards);
    o.gpu = {.canonical = card.canonical, .provider_name = card.canonical, .memory = mib(card.mib)};
    if (dice.one_in(8)) o.gpu.memory.reset();
    o.gpu_count = dice.one_in(4) ? 2 : 1;
    o.gpu_rate = UsdPerHour{100'000 + 50'000 * dice.below(5)};  // few prices, so that many are equal
    if (dice.one_in(20)) o.gpu_rate = UsdPerHour{0};
    o.exclusive = o.provider.get() == "vastai" || o.provider.get() == "local" || dice.one_in(3);
    o.spot = dice.one_in(3);
    if (o.spot && dice.one_in(2)) o.spot_floor = UsdPerHour{150'000};
    if (dice.one_in(2)) o.disk_micros_per_gb_month = 100'000 * dice.below(4);
    if (dice.one_in(5)) o.billing_step = o.billing_minimum = std::chrono::hours{1};
    if (dice.one_in(6)) o.gpu_share = 0.5;
    o.stock = dice.below(5) - 1;
    if (dice.one_in(2)) o.host_id = "h" + std::to_string(dice.below(4));
    if (dice.one_in(2)) o.cpus = 4.0 * (1 + dice.below(3));
    if (dice.one_in(2)) o.memory = Bytes{(16 + 16 * dice.below(3)) * kGB};
    if (dice.one_in(2)) o.reliability = 0.9 + 0.05 * dice.below(3);
    if (dice.one_in(2)) o.disk_max = Bytes{(50 + 50 * dice.below(4)) * kGB};
    o.country = dice.one_in(3) ? "US" : "DE";
    if (dice.one_in(4)) o.verified = dice.one_in(2);
    if (dice.one_in(10)) o.arch = "arm64";
    if (dice.one_in(8)) o.lease_end = kNow + std::chrono::hours{1 + dice.below(4)};
    return o;
}

inline JobSpec random_spec(Dice& dice) {
    JobSpec spec = job();
    spec.project = "p" + std::to_string(dice.below(3));
    if (dice.one_in(3)) spec.image = dice.one_in(2) ? "image:1" : "image:2";
    ResourceSpec& r = spec.resources;
    if (dice.one_in(3)) r.gpu = r.gpu_as_typed = {"RTX-4090"};
    if (dice.one_in(6)) r.gpu = r.gpu_as_typed = {"A100-SXM-80GB", "L40S"};
    if (dice.one_in(4)) r.gpus = 2;
    if (dice.one_in(3)) r.vram = VramDemand{.class_gb = dice.one_in(3) ? 48 : 24, .exact = {}};
    if (dice.one_in(5)) r.cpus = 8;
    if (dice.one_in(5)) r.memory = Bytes{32 * kGB};
    if (dice.one_in(5)) r.reliability = 0.95;
    if (dice.one_in(3)) r.disk = Bytes{(10 + 70 * dice.below(4)) * kGB};
    if (dice.one_in(6)) r.regions = {"EU"};
    if (dice.one_in(5)) r.spot = dice.one_in(2) ? SpotChoice::never : SpotChoice::always;
    if (dice.one_in(5)) r.providers = {"vastai", "runpod"};
    if (dice.one_in(8)) r.exclude_providers = {"vastai"};
    if (dice.one_in(3)) r.max_price = UsdPerHour{120'000 + 60'000 * dice.below(4)};
    if (dice.one_in(8)) r.precision = "bf16";
    if (dice.one_in(12)) r.cpu_only = true;
    if (dice.one_in(10)) spec.secrets = {"TOKEN"};
    if (dice.one_in(4)) spec.limits.duration = std::chrono::minutes{10 + 50 * dice.below(5)};
    return spec;
}

inline void random_tasks(Dice& dice, PlanCase& c, int count) {
    std::vector<JobSpec> specs;
    for (int i = 0; i < 1 + count / 3; ++i) specs.push_back(random_spec(dice));
    for (int i = 0; i < count; ++i) {
        const JobSpec spec = dice.one_in(3) ? random_spec(dice) : dice.of(specs);
        TaskRecord row;
        row.id = TaskId{"tsk_" + std::to_string(100 + i)};
        row.priority = 50 + 10 * dice.below(2);
        row.waiting_since = kNow - std::chrono::minutes{1 + 13 * dice.below(12)};
        if (dice.one_in(8)) row.ran = std::chrono::minutes{7};
        if (dice.one_in(10)) row.vram_above = mib(24576);
        PlanTask& task = c.add(spec, std::move(row));
        task.local_allowed = dice.one_in(2);
        if (dice.one_in(10)) task.barred = {{"vastai", "create_outcome_unknown"}};
        if (dice.one_in(3)) task.gang = "g" + std::to_string(dice.below(1 + count / 4));
        if (dice.one_in(4)) {
            const Offer& o = c.offers.empty() ? offer() : dice.of(c.offers);
            task.kept = OfferKey{o.provider, o.id, o.spot};
        }
        if (dice.one_in(4)) task.budgets.push_back(0);
        if (dice.one_in(5)) task.budgets.push_back(1);
        if (dice.one_in(6)) task.reserve_for = std::chrono::hours{2};
        if (dice.one_in(3)) {
            task.wait_reason = dice.one_in(2) ? "turn" : "no_offer_fits";
            task.wait_since = kNow - std::chrono::minutes{5};
            task.looked_at = kNow - std::chrono::minutes{1 + dice.below(3)};
        }
    }
}

inline void random_world(Dice& dice, PlanWorld& w) {
    w.choice = world();
    w.choice.machines = dice.below(4);
    w.choice.machines_max = dice.one_in(2) ? 50 : 2 + dice.below(6);
    w.choice.fleet_rate = UsdPerHour{300'000};
    if (dice.one_in(2)) w.choice.fleet_rate_max = UsdPerHour{400'000 + 250'000 * dice.below(6)};
    if (dice.one_in(4)) w.choice.balances["vastai"] = Usd{150'000 * dice.below(5)};
    if (dice.one_in(5)) w.choice.paused_providers["runpod"] = "auth";
    if (dice.one_in(4)) w.choice.cooled_offers["vastai/o3"] = "no_capacity";
    if (dice.one_in(4)) w.choice.taken_offers = {"vastai/o5", "lambda/o2"};
    if (dice.one_in(4)) w.choice.bad_hosts["vastai/h1"] = "start_timeout";
    if (dice.one_in(2)) {
        HostMarks marks;
        for (const char* key : {"vastai/host/h0", "vastai/host/h2", "runpod/host/h3"})
            marks[key] = {.key = key,
                          .boot_failures = 500 * (1 + dice.below(5)),
                          .last = "no agent",
                          .at = kNow - std::chrono::hours{dice.below(90)}};
        w.choice.host_marks = std::make_shared<HostMarks>(std::move(marks));
    }
    for (int p = 0; p < 3; ++p)
        if (dice.one_in(2))
            w.projects["p" + std::to_string(p)] = {.weight = 1 + dice.below(3),
                                                   .running = UsdPerHour{200'000 * dice.below(4)}};
    if (dice.one_in(3))
        w.provider_quotas["vastai"] = {
            .machines_max = 1 + dice.below(4), .rate_max = {}, .machines = dice.below(2), .rate = {}};
    if (dice.one_in(3))
        w.provider_quotas["lambda"] = {.machines_max = {},
                                       .rate_max = UsdPerHour{200'000 + 200'000 * dice.below(4)},
                                       .machines = 0,
                                       .rate = UsdPerHour{100'000}};
    w.budgets = {{"month", Usd{200'000 + 300'000 * dice.below(8)}}, {"voices", Usd{400'000 * dice.below(4)}}};
    const int warm = dice.one_in(2) ? 0 : 1 + dice.below(3);
    for (int i = 0; i < warm; ++i) {
        WarmMachine m;
        m.id = MachineId{"mch_" + std::to_string(i)};
        m.offer = random_offer(dice, 900 + i);
        m.rate = m.offer.gpu_rate + UsdPerHour{40'000 * dice.below(3)};
        m.disk = Bytes{100 * kGB};
        m.image = dice.one_in(2) ? "" : "image:1";
        m.project = "p" + std::to_string(dice.below(3));
        if (dice.one_in(3)) m.only_for = TaskId{"tsk_" + std::to_string(100 + dice.below(6))};
        if (dice.one_in(2)) m.billed_from = kNow - std::chrono::minutes{10 + dice.below(80)};
        w.warm.push_back(std::move(m));
    }
}

/// The work is not bounded in it.
inline PlanCase random_case(std::uint64_t seed) {
    Dice dice(seed);
    PlanCase c;
    const int offers = dice.below(24), tasks = 1 + dice.below(14);
    for (int i = 0; i < offers; ++i) {
        c.offers.push_back(random_offer(dice, i));
        // The other price of the same thing.
        if (dice.one_in(4)) {
            Offer twin = c.offers.back();
            twin.spot = !twin.spot;
            twin.gpu_rate = UsdPerHour{100'000 + 50'000 * dice.below(5)};
            c.offers.push_back(std::move(twin));
        }
    }
    random_world(dice, c.world);
    random_tasks(dice, c, tasks);
    c.rule.launches_max = 1'000;
    c.rule.evaluations_max = 1'000'000'000;
    c.rule.keep_margin_percent = 15 * dice.below(3);
    return c;
}

template <class T>
void shuffle(std::vector<T>& list, Dice& dice) {
    for (std::size_t i = list.size(); i > 1; --i)
        std::swap(list[i - 1], list[static_cast<std::size_t>(dice.below(static_cast<int>(i)))]);
}

}  // namespace gf::test
