// How long the core is busy with one page of the queue: 64 tasks, all different, on a market of many offers. A pass plans them, launches
// as many as its bound allows, and leaves the rest to the next one. Beside it one `choose` over the same offers.
//
//   bench_queue_pass [OFFERS] [TASKS]      default: 20000 64
#include <fmt/format.h>
#include <time.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <random>

#include "config/shipped.hpp"
#include "daemon/batch.hpp"
#include "daemon/orchestrator/orchestrator.hpp"

namespace {

using namespace gf;

double cpu_ms() {
    timespec t{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

template <class T>
T must(Result<T> result) {
    if (result) return std::move(*result);
    fmt::print(stderr, "{}\n", result.error().message);
    std::exit(1);
}

std::vector<Offer> market(const std::string& provider, bool spot, int count, const GpuNames& names, std::mt19937_64& dice) {
    std::vector<const GpuCard*> cards;
    for (const auto& card : names.cards())
        if (card.vendor == "nvidia" && card.class_gb >= 8) cards.push_back(&card);
    std::vector<Offer> out;
    for (int i = 0; i < count; ++i) {
        const GpuCard& card = *cards[dice() % cards.size()];
        Offer o;
        o.provider = ProviderName{provider};
        o.id = std::to_string(10'000'000 + i);
        o.spot = spot;
        o.exclusive = true;
        o.gpu = {card.canonical, card.canonical, Bytes{card.class_gb * kGiB}};
        o.gpu_count = 1 << dice() % 3;
        o.gpu_rate = UsdPerHour{o.gpu_count * (std::int64_t{card.class_gb} * 8'000 + static_cast<std::int64_t>(dice() % 200'000))};
        o.host_id = std::to_string(dice() % 7'000);
        o.cpus = 16;
        o.memory = Bytes{128 * kGB};
        o.arch = "amd64";
        o.country = "US";
        o.verified = true;
        out.push_back(std::move(o));
    }
    return out;
}

struct Core {
    explicit Core(const GpuNames& names, const CardSpeeds& speeds) {
        settings.install = "benchbnh";
        settings.reached_providers = {"cloud", "market"};
        settings.machines_max = 1'000'000;
        settings.usd_per_hour_max.reset();
        settings.gpus = &names;
        settings.card_speeds = &speeds;
        core = std::make_unique<Orchestrator>(
            settings, std::vector<Orchestrator::ProviderInfo>{{ProviderName{"cloud"}, {}}, {ProviderName{"market"}, {.spot = true}}}, 7,
            must(store->load_live()), std::map<JobId, std::shared_ptr<const JobSpec>>{}, now);
    }
    /// The time that the core takes for it.
    double apply(Event event) {
        StoredRows rows = must(read_stored(store->reader(), core->wants(event)));
        const double began = cpu_ms();
        Effects out = core->apply(event, rows, now);
        const double took = cpu_ms() - began;
        if (!out.rows.empty()) (void)must(store->commit(out.rows));
        launches = 0;
        for (auto& effect : out.after_commit) {
            if (auto* read = std::get_if<ReadQueue>(&effect)) page = *read;
            launches += std::holds_alternative<CallLaunch>(effect) ? 1 : 0;
        }
        return took;
    }
    double queue() {
        auto rows = must(store->reader().queue(page->after, page->limit, now));
        QueuePage out;
        for (auto& row : rows.tasks) out.items.push_back({row, specs.at(row.job.spec)});
        out.next = std::move(rows.next);
        page.reset();
        return apply(std::move(out));
    }

    CoreSettings settings;
    Instant now{instant_of(1'790'000'000'000)};
    std::unique_ptr<Store> store{must(open_sqlite_store(":memory:"))};
    std::unique_ptr<Orchestrator> core;
    std::map<std::string, std::shared_ptr<const JobSpec>> specs;
    std::optional<ReadQueue> page;
    int launches{0};
};

}  // namespace

int main(int argc, char** argv) {
    const int offers = argc > 1 ? std::atoi(argv[1]) : 20'000, tasks = argc > 2 ? std::atoi(argv[2]) : 64;
    const GpuNames names = must(GpuNames::parse(shipped_gpus_csv(), shipped_aliases_csv()));
    const CardSpeeds speeds = must(CardSpeeds::parse(names, shipped_throughput_csv()));
    std::mt19937_64 dice(7);
    Core bench(names, speeds);
    const auto cloud = market("cloud", false, offers / 2, names, dice), bids = market("market", true, offers - offers / 2, names, dice);
    const auto look = [&] {
        for (const char* name : {"cloud", "market"}) {
            bench.apply(ListingSeen{ProviderName{name}, bench.now, bench.now, Listing{}});
            bench.apply(OffersSeen{ProviderName{name}, bench.now, bench.now, OfferList{.offers = name[0] == 'c' ? cloud : bids}});
        }
    };
    for (int i = 0; i < tasks; ++i) {
        auto spec = std::make_shared<JobSpec>();
        spec->name = "job" + std::to_string(i);
        spec->run = "true";
        spec->project = "p" + std::to_string(i % 5);
        spec->resources.gpus = 1 << i % 3;
        spec->resources.disk = Bytes{(20 + i) * kGB};
        spec->resources.vram = VramDemand{.class_gb = 8 << i % 4, .exact = {}};
        spec->limits.duration = std::chrono::minutes{60 + i};
        spec->checkpoint.declared = true;
        bench.specs[spec->name] = spec;
        bench.apply(SubmitJob{static_cast<RequestId>(i + 1), spec->name, false, spec, "user", false, {}, "body"});
    }
    look();
    {
        auto all = cloud;
        all.insert(all.end(), bids.begin(), bids.end());
        ChoiceWorld world = choice_world(bench.core->world(), bench.now, false);
        double least = 1e9;
        for (int run = 0; run < 5; ++run) {
            const double began = cpu_ms();
            (void)choose(*bench.specs.at("job0"), TaskRecord{}, all, world);
            least = std::min(least, cpu_ms() - began);
        }
        fmt::print("{} offers, {} tasks; one task by choose {:.1f} ms\n", offers, tasks, least);
    }
    int launched = 0, passes = 0;
    double most = 0, total = 0;
    for (int step = 0; step < 2'000 && launched < tasks; ++step) {
        bench.now += Millis{20};
        if (!bench.page) {
            bench.apply(Tick{});
            if (step % 50 == 0) look();
            continue;
        }
        const double took = bench.queue();
        if (bench.launches == 0) continue;
        ++passes;
        launched += bench.launches;
        most = std::max(most, took);
        total += took;
        if (passes <= 3) fmt::print("pass {}: {} launches, {:.1f} ms\n", passes, bench.launches, took);
    }
    fmt::print("{} launches in {} passes, {:.1f} ms the longest, {:.1f} ms all together (CPU time of the core)\n", launched, passes, most, total);
}
