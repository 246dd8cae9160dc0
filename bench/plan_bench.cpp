// How long one pass of the planner takes: every waiting task against every offer, nothing bounded, on one
// core. Growth is judged by the count of looks per n log2 n, which no other program can disturb. Beside it
// what this machine needs to read the same offers once and to sort as many numbers, and what
// the same work costs task by task (`choose`).
//
//   bench_plan [TASKS OFFERS]...      default: 10000 20000, then 20000 20000 up to 100000 50000
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "config/shipped.hpp"
#include "scheduler/planner.hpp"

namespace {

using namespace gf;

constexpr Instant kNow = instant_of(1'790'000'000'000);
constexpr int kRuns = 7;           // or as many as begin within kEnough
constexpr double kEnough = 3'000;  // ms

double cpu_ms() {
    timespec t{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

struct Times {
    double least{0};
    double median{0};
};
/// CPU time of this thread, so that what else runs on the machine counts little.
template <class Body>
Times measure(Body body) {
    std::vector<double> times;
    const double began = cpu_ms();
    while (times.size() < kRuns && (times.empty() || cpu_ms() - began < kEnough)) {
        const double start = cpu_ms();
        body();
        times.push_back(cpu_ms() - start);
    }
    std::ranges::sort(times);
    return {times.front(), times[times.size() / 2]};
}

class Dice {
 public:
    explicit Dice(std::uint64_t seed) : engine_(seed) {}
    int below(int n) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(n)); }
    bool percent(int p) { return below(100) < p; }
    /// Many small values and a long tail.
    double skewed(double least, double most) {
        const double x = static_cast<double>(below(1'000'000)) / 1e6;
        return least * std::pow(most / least, x);
    }
    template <class T>
    const T& of(const std::vector<T>& list) {
        return list[static_cast<std::size_t>(below(static_cast<int>(list.size())))];
    }

 private:
    std::mt19937_64 engine_;
};

const GpuNames& gpu_names() {
    static const GpuNames names = GpuNames::parse(shipped_gpus_csv(), shipped_aliases_csv()).value();
    return names;
}

/// A price per GPU and hour that grows with the memory: the order of the market, with a host's own mind on
/// top.
std::int64_t price(Dice& dice, const GpuCard& card, int count) {
    const double fair = 6'000.0 * card.class_gb +
                        (card.bandwidth_gb_s ? 300.0 * static_cast<double>(*card.bandwidth_gb_s) : 0);
    return static_cast<std::int64_t>(fair * count * dice.skewed(0.6, 2.5) / 1'000) * 1'000 + 1'000;
}

std::vector<const GpuCard*> cards() {
    std::vector<const GpuCard*> out;
    for (const auto& card : gpu_names().cards())
        if (card.vendor == "nvidia" && card.class_gb >= 8) out.push_back(&card);
    return out;
}

/// A market of marketplace hosts, three quarters of all, and of clouds with stock items.
std::vector<Offer> make_offers(std::size_t count, Dice& dice) {
    static const std::vector<std::string> kCountries{"US", "DE", "FR", "SE", "CA", "GB",
                                                     "PL", "NO", "IN", "JP", "KR", "BR"};
    static const std::vector<int> kCounts{1, 1, 1, 1, 2, 2, 4, 4, 8};
    const auto all = cards();
    std::vector<Offer> out;
    out.reserve(count);
    while (out.size() < count) {
        const GpuCard& card =
            *all[static_cast<std::size_t>(dice.skewed(1, static_cast<double>(all.size()))) - 1];
        const bool host = dice.percent(85);
        const std::size_t number = out.size();
        Offer o;
        o.provider = ProviderName{host               ? "vastai"
                                  : dice.percent(60) ? "runpod"
                                  : dice.percent(50) ? "lambda"
                                                     : "vultr"};
        o.id = (host ? "" : "type-") + std::to_string(10'000'000 + static_cast<int>(number) * 7);
        o.exclusive = host;
        o.gpu_count = dice.of(kCounts);
        const std::int64_t full = card.reported ? card.reported->count : card.class_gb * kGiB;
        // Drivers and ECC take a little, not everywhere the same.
        o.gpu = {.canonical = card.canonical,
                 .provider_name = card.canonical,
                 .memory = Bytes{full - (dice.percent(30) ? 512 * kMiB * dice.below(3) : 0)}};
        o.gpu_rate = UsdPerHour{price(dice, card, o.gpu_count)};
        o.disk_micros_per_gb_month = host ? 20'000 + 10'000 * dice.below(20) : 100'000;
        if (o.provider.get() == "vultr") o.billing_step = o.billing_minimum = std::chrono::hours{1};
        o.country = dice.of(kCountries);
        o.host_id = host ? std::to_string(30'000 + dice.below(static_cast<int>(count) / 3 + 1)) : "";
        o.host_owner = host ? std::to_string(500 + dice.below(900)) : "";
        o.data_center = host ? "" : o.country + "-" + std::to_string(dice.below(4));
        o.cpus = 4.0 * o.gpu_count * (1 + dice.below(6));
        o.memory = Bytes{static_cast<std::int64_t>(o.gpu_count) * (16 + 16 * dice.below(8)) * kGB};
        o.disk_max = Bytes{static_cast<std::int64_t>(dice.skewed(50, 4'000)) * kGB};
        o.reliability = host ? 1.0 - dice.skewed(0.001, 0.2) : 0.999;
        o.verified = !host || dice.percent(60);
        o.inet_down_mbps = dice.skewed(50, 10'000);
        o.inet_up_mbps = dice.skewed(20, 5'000);
        if (host) o.lease_end = kNow + std::chrono::hours{static_cast<int>(dice.skewed(2, 4'000))};
        o.cuda_max = dice.percent(70) ? "12.8" : "12.4";
        o.driver = dice.percent(70) ? "570.86" : "550.54";
        o.arch = card.canonical.starts_with("GH") ? "arm64" : "amd64";
        o.stock = host ? -1 : 1 + dice.below(3);
        out.push_back(o);
        if (!host || !dice.percent(40) || out.size() == count) continue;
        o.spot = true;  // the same host by bid
        o.spot_floor = UsdPerHour{o.gpu_rate.micros / 2};
        o.gpu_rate = UsdPerHour{o.gpu_rate.micros * 11 / 20};
        out.push_back(std::move(o));
    }
    return out;
}

JobSpec make_spec(Dice& dice) {
    static const std::vector<int> kClasses{8, 12, 16, 24, 24, 24, 48, 80};
    static const std::vector<std::int64_t> kDisks{20, 20, 40, 50, 80, 100, 150, 200, 300, 500};
    const auto all = cards();
    JobSpec spec;
    spec.run = "python train.py";
    spec.image = "ghcr.io/example/train:" + std::to_string(dice.below(30));
    spec.project = "project-" + std::to_string(dice.below(50));
    ResourceSpec& r = spec.resources;
    if (dice.percent(35))
        for (int i = 0; i < 1 + dice.below(4); ++i)
            r.gpu.push_back(
                all[static_cast<std::size_t>(dice.below(static_cast<int>(all.size())))]->canonical);
    if (dice.percent(60))
        r.vram = VramDemand{.class_gb = dice.of(kClasses), .exact = {}};
    else if (dice.percent(50))
        r.vram =
            VramDemand{.class_gb = {}, .exact = Bytes{static_cast<std::int64_t>(dice.skewed(6, 70) * 1e9)}};
    r.gpus = dice.percent(75) ? 1 : dice.percent(50) ? 2 : dice.percent(60) ? 4 : 8;
    if (dice.percent(30)) r.cpus = 4 * r.gpus * (1 + dice.below(3));
    if (dice.percent(30))
        r.memory = Bytes{static_cast<std::int64_t>(r.gpus) * (16 + 16 * dice.below(4)) * kGB};
    r.disk = Bytes{dice.of(kDisks) * kGB};
    if (dice.percent(30)) r.reliability = 0.9 + 0.01 * dice.below(10);
    if (dice.percent(25)) r.inet_down_mbps = 100.0 * (1 + dice.below(8));
    if (dice.percent(20)) r.regions = {dice.percent(50) ? "EU" : "US"};
    if (dice.percent(20)) r.cuda = dice.percent(50) ? "12.4" : "12.6";
    if (dice.percent(20)) r.precision = dice.percent(80) ? "bf16" : "fp8";
    if (dice.percent(20)) r.spot = dice.percent(70) ? SpotChoice::never : SpotChoice::always;
    if (dice.percent(15)) r.providers = {"vastai", "runpod"};
    if (dice.percent(15)) spec.secrets = {"HF_TOKEN"};
    if (dice.percent(40))
        r.max_price = UsdPerHour{static_cast<std::int64_t>(dice.skewed(0.1, 4.0) * r.gpus * 100) * 10'000};
    if (dice.percent(50))
        spec.limits.duration = std::chrono::minutes{static_cast<int>(dice.skewed(20, 3'000))};
    return spec;
}

struct Case {
    std::deque<JobSpec> specs;
    std::deque<TaskRecord> rows;
    std::vector<PlanTask> tasks;
    std::vector<Offer> offers;
    PlanWorld world;
    PlanRule rule;
};

/// `kinds` = 0: each task has a spec of its own, and no two are alike.
std::unique_ptr<Case> make_case(std::size_t tasks, std::size_t offers, std::size_t kinds) {
    auto c = std::make_unique<Case>();
    Dice dice(tasks * 31 + offers);
    c->offers = make_offers(offers, dice);
    const std::size_t specs = kinds == 0 ? tasks : kinds;
    for (std::size_t i = 0; i < specs; ++i) {
        c->specs.push_back(make_spec(dice));
        // Two may still have the same demands: a few bytes of disk more than another, which nobody shares.
        if (kinds == 0) c->specs.back().resources.disk.count -= static_cast<std::int64_t>(i);
    }
    for (std::size_t i = 0; i < tasks; ++i) {
        TaskRecord row;
        row.id = TaskId{"tsk_" + fmt::format("{:026}", i * 7919 % 1'000'003 * 1'000 + i % 1'000)};
        row.priority = 30 + 10 * dice.below(5);
        row.waiting_since = kNow - Seconds{10 + dice.below(7'000)};
        c->rows.push_back(std::move(row));
    }
    for (std::size_t i = 0; i < tasks; ++i) {
        PlanTask task;
        task.spec = &c->specs[kinds == 0 ? i : static_cast<std::size_t>(dice.below(static_cast<int>(specs)))];
        task.row = &c->rows[i];
        c->tasks.push_back(std::move(task));
    }
    // One task in fifty belongs to a gang of four.
    for (std::size_t i = 0; i + 4 <= tasks; i += 200)
        for (std::size_t j = 0; j < 4; ++j) {
            c->tasks[i + j].gang = "gang-" + std::to_string(i);
            c->tasks[i + j].spec = c->tasks[i].spec;
            c->rows[i + j].priority = c->rows[i].priority;
        }
    ChoiceWorld& w = c->world.choice;
    w.now = kNow;
    w.gpus = &gpu_names();
    w.reached_providers = {"vastai", "runpod", "lambda", "vultr"};
    w.agent_archs = {"amd64", "arm64"};
    w.machines_max = 1'000'000;
    HostMarks marks;
    for (int i = 0; i < 400; ++i) {
        const std::string key = "vastai/host/" + std::to_string(30'000 + i * 11);
        marks[key] = {.key = key,
                      .boot_failures = 400 * (1 + i % 5),
                      .last = "no agent",
                      .at = kNow - std::chrono::hours{i % 70}};
    }
    w.host_marks = std::make_shared<HostMarks>(std::move(marks));
    for (std::size_t i = 0; i < c->offers.size(); i += 97)
        w.cooled_offers["vastai/" + c->offers[i].id] = "no_capacity";
    for (std::size_t i = 5; i < c->offers.size(); i += 89) w.taken_offers.insert("vastai/" + c->offers[i].id);
    c->rule.launches_max = SIZE_MAX / 2;
    c->rule.evaluations_max = SIZE_MAX / 2;
    return c;
}

Plan show(const char* what, const Case& c) {
    Plan last;
    const Times t = measure([&] { last = plan(c.tasks, c.offers, c.world, c.rule); });
    const double n = static_cast<double>(c.tasks.size() + c.offers.size());
    fmt::print(
        "{:<34} {:>7} x {:>6}  {:>7.1f} ms (least {:.1f})  {:>5.2f} ns per n log2 n   {:>6} shapes  "
        "{:>6} placed  {:>9} fits looked at, {:.3f} per n log2 n, {:.3f} % of all\n",
        what, c.tasks.size(), c.offers.size(), t.median, t.least, t.median * 1e6 / (n * std::log2(n)),
        last.shapes, last.placements.size(), last.evaluations,
        static_cast<double>(last.evaluations) / (n * std::log2(n)),
        100.0 * static_cast<double>(last.evaluations) / static_cast<double>(c.tasks.size()) /
            static_cast<double>(c.offers.size()));
    std::fflush(stdout);
    return last;
}

void limits_of_machine(const Case& c) {
    std::int64_t sum = 0;
    const Times read = measure([&] {
        for (const Offer& o : c.offers)
            sum += o.gpu_rate.micros + o.gpu_count + static_cast<std::int64_t>(o.id.size()) + o.stock;
    });
    std::vector<std::uint64_t> numbers;
    const Times sort = measure([&] {
        Dice dice(7);
        numbers.clear();
        for (std::size_t i = 0; i < c.offers.size() + c.tasks.size(); ++i)
            numbers.push_back(static_cast<std::uint64_t>(dice.below(1 << 30)));
        std::ranges::sort(numbers);
    });
    const std::size_t probes = 3;
    const Times one = measure([&] {
        for (std::size_t i = 0; i < probes; ++i)
            sum += choose(*c.tasks[i * 37 % c.tasks.size()].spec, *c.tasks[i].row, c.offers, c.world.choice)
                       .considered;
    });
    fmt::print(
        "{:<34} {:>7}   {:>6}  {:>7.2f} ms to read the offers once, {:.2f} ms to sort {} numbers, {:.1f} ms "
        "for one task by `choose` (x {} = {:.0f} s)  [{}]\n",
        "this machine", c.tasks.size(), c.offers.size(), read.median, sort.median, numbers.size(),
        one.median / static_cast<double>(probes), c.tasks.size(),
        one.median / static_cast<double>(probes) * static_cast<double>(c.tasks.size()) / 1e3, sum % 10);
}

void size(std::size_t tasks, std::size_t offers) {
    const auto mixed = make_case(tasks, offers, 400);
    limits_of_machine(*mixed);
    show("400 shapes", *mixed);
    show("all different", *make_case(tasks, offers, 0));
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1) {
        for (int i = 1; i + 1 < argc; i += 2)
            size(std::strtoull(argv[i], nullptr, 10), std::strtoull(argv[i + 1], nullptr, 10));
        return 0;
    }
    size(10'000, 20'000);
    auto full = make_case(10'000, 20'000, 0);
    full->world.choice.machines_max = 500;
    show("all different, room for 500", *full);
    auto bounded = make_case(10'000, 20'000, 0);
    bounded->rule = PlanRule{};
    show("all different, one bounded pass", *bounded);
    size(20'000, 20'000);
    size(50'000, 50'000);
    size(100'000, 50'000);
}
