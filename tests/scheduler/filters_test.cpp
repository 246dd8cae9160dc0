// One table: what is changed in a job, an offer or the world that fit each other, and the reason that must come of it.
#include "scheduler/filters.hpp"

#include <doctest/doctest.h>

#include <functional>

#include "offers.hpp"

using namespace gf;
using gf::test::kNow;
using gf::test::mib;

namespace {

struct Case {
    const char* what;
    std::function<void(JobSpec&, TaskRecord&, Offer&, ChoiceWorld&)> change;
    const char* reason;  // "" = it fits
    const char* detail_has = "";
};

void card(Offer& o, const char* canonical, std::optional<Bytes> memory) {
    o.gpu = {.canonical = canonical, .provider_name = canonical, .memory = memory};
}
void make_local(Offer& o) {
    o.provider = ProviderName{"local"};
    o.gpu_rate = UsdPerHour{0};
}
VramDemand gb_class(int gb) { return {.class_gb = gb, .exact = {}}; }
VramDemand exactly(std::int64_t bytes) { return {.class_gb = {}, .exact = Bytes{bytes}}; }

#define CHANGE [](JobSpec& s, TaskRecord& t, Offer& o, ChoiceWorld& w)
#define USED (void)s, (void)t, (void)o, (void)w

void check(std::span<const Case> cases) {
    for (const auto& c : cases) {
        CAPTURE(std::string(c.what));
        JobSpec spec = test::job();
        TaskRecord task;
        std::vector<Offer> offers{test::offer()};
        ChoiceWorld world = test::world();
        c.change(spec, task, offers[0], world);
        const Decision decision = choose(spec, task, offers, world);
        CHECK(decision.considered == 1);
        if (std::string_view(c.reason).empty()) {
            CHECK(decision.chosen.has_value());
            CHECK(decision.refused.empty());
            continue;
        }
        CHECK(!decision.chosen.has_value());
        CHECK(decision.refused == std::map<std::string, int>{{c.reason, 1}});
        if (!std::string_view(c.detail_has).empty()) {
            REQUIRE(decision.near_misses.size() == 1);
            CHECK(decision.near_misses[0].reason == c.reason);
            CHECK(decision.near_misses[0].detail.find(c.detail_has) != std::string::npos);
            CAPTURE(decision.near_misses[0].detail);
        }
    }
}

}  // namespace

TEST_CASE("providers are taken or refused by list, pause and reach") {
    const Case cases[] = {
        {"nothing asked", CHANGE { USED; }, ""},
        {"in providers", CHANGE { USED; s.resources.providers = {"runpod", "vastai"}; }, ""},
        {"not in providers", CHANGE { USED; s.resources.providers = {"runpod"}; }, "provider_excluded", "runpod"},
        {"excluded", CHANGE { USED; s.resources.exclude_providers = {"vastai"}; }, "provider_excluded"},
        {"key refused", CHANGE { USED; w.paused_providers["vastai"] = "auth"; }, "provider_auth", "vastai"},
        {"no money", CHANGE { USED; w.paused_providers["vastai"] = "no_money"; }, "provider_no_money"},
        {"another one paused", CHANGE { USED; w.paused_providers["runpod"] = "auth"; }, ""},
        {"no advertise_url", CHANGE { USED; w.cloud_reachable = false; }, "agent_cannot_reach_daemon", "advertise_url"},
        {"local needs no reach", CHANGE { USED; make_local(o); w.cloud_reachable = false; }, ""},
        {"local not over the socket", CHANGE { USED; make_local(o); w.local_allowed = false; }, "local_not_allowed"},
    };
    check(cases);
}

TEST_CASE("prices that are none are refused, except the local machine's 0") {
    const Case cases[] = {
        {"zero", CHANGE { USED; o.gpu_rate.micros = 0; }, "price_zero"},
        {"negative", CHANGE { USED; o.gpu_rate.micros = -1; }, "price_negative"},
        {"local zero", CHANGE { USED; make_local(o); }, ""},
        {"local negative", CHANGE { USED; make_local(o); o.gpu_rate.micros = -5; }, "price_negative"},
        {"cap holds", CHANGE { USED; s.resources.max_price = UsdPerHour{300'000}; }, ""},
        {"cap is broken by the disk", CHANGE { USED; s.resources.max_price = UsdPerHour{300'000}; o.disk_micros_per_gb_month = 100'000; },
         "max_price", "over max_price 0.30"},
        {"cap broken", CHANGE { USED; s.resources.max_price = UsdPerHour{299'999}; }, "max_price"},
        {"bid under the floor", CHANGE { USED; o.spot = true; o.spot_floor = UsdPerHour{300'001}; }, "bid_below_floor"},
        {"bid at the floor", CHANGE { USED; o.spot = true; o.spot_floor = UsdPerHour{300'000}; }, ""},
        {"balance pays an hour", CHANGE { USED; w.balances["vastai"] = Usd{300'000}; }, ""},
        {"balance does not", CHANGE { USED; w.balances["vastai"] = Usd{299'999}; }, "balance", "0.299999 left at vastai"},
        {"unknown balance", CHANGE { USED; w.balances["runpod"] = Usd{0}; }, ""},
        {"fleet rate", CHANGE { USED; w.fleet_rate_max = UsdPerHour{1'000'000}; w.fleet_rate = UsdPerHour{700'001}; }, "quota_usd_per_hour"},
        {"fleet rate just fits", CHANGE { USED; w.fleet_rate_max = UsdPerHour{1'000'000}; w.fleet_rate = UsdPerHour{700'000}; }, ""},
        {"machines", CHANGE { USED; w.machines = 50; }, "quota_machines", "50"},
        {"machines, local", CHANGE { USED; make_local(o); w.machines = 50; }, ""},
    };
    check(cases);
}

TEST_CASE("architecture and spot") {
    const Case cases[] = {
        {"arm64 has no agent", CHANGE { USED; o.arch = "arm64"; s.resources.arch = "arm64"; }, "no_agent_for_arm64", "no agent for arm64"},
        {"arm64 offer, amd64 job", CHANGE { USED; o.arch = "arm64"; w.agent_archs.insert("arm64"); }, "arch"},
        {"arm64 with an agent", CHANGE { USED; o.arch = s.resources.arch = "arm64"; w.agent_archs.insert("arm64"); }, ""},
        {"auto takes spot", CHANGE { USED; o.spot = true; }, ""},
        {"never refuses spot", CHANGE { USED; o.spot = true; s.resources.spot = SpotChoice::never; }, "spot_not_wanted"},
        {"always refuses on-demand", CHANGE { USED; s.resources.spot = SpotChoice::always; }, "on_demand_not_wanted"},
        {"local is neither", CHANGE { USED; make_local(o); s.resources.spot = SpotChoice::always; }, ""},
    };
    check(cases);
}

TEST_CASE("GPU count, name and what the card can do") {
    const Case cases[] = {
        {"two where one is asked", CHANGE { USED; o.gpu_count = 2; }, "gpu_count", "2 GPUs"},
        {"one where two are asked", CHANGE { USED; s.resources.gpus = 2; }, "gpu_count"},
        {"none where one is asked", CHANGE { USED; o.gpu_count = 0; }, "gpu_count"},
        {"local may have more", CHANGE { USED; make_local(o); o.gpu_count = 4; }, ""},
        {"cpu_only on a rented GPU", CHANGE { USED; s.resources.cpu_only = true; s.resources.gpus = 0; }, "gpu_not_needed"},
        {"cpu_only without a GPU", CHANGE { USED; s.resources.cpu_only = true; s.resources.gpus = 0; o.gpu_count = 0; o.gpu = {}; }, ""},
        {"cpu_only on the local GPU", CHANGE { USED; s.resources.cpu_only = true; s.resources.gpus = 0; make_local(o); }, ""},
        {"the named one", CHANGE { USED; s.resources.gpu = {"RTX-3090", "RTX-4090"}; }, ""},
        {"another one", CHANGE { USED; s.resources.gpu = {"RTX-4090-D"}; s.resources.gpu_as_typed = {"RTX 4090 D"}; }, "gpu_name", "RTX-4090 is not RTX 4090 D"},
        {"unknown, named", CHANGE { USED; card(o, "", mib(24564)); s.resources.gpu = {"RTX-4090"}; }, "gpu_unknown"},
        {"unknown, by memory", CHANGE { USED; card(o, "", mib(24564)); s.resources.vram = gb_class(24); }, "gpu_unknown"},
        {"unknown, nothing asked", CHANGE { USED; card(o, "", std::nullopt); }, ""},
        {"a slice of the named card", CHANGE { USED; card(o, "RTX-PRO-6000-Blackwell-Server", mib(24576)); s.resources.gpu = {"RTX-PRO-6000-Blackwell-Server"}; }, "gpu_fraction"},
        {"bf16", CHANGE { USED; s.resources.precision = "bf16"; }, ""},
        {"no bf16", CHANGE { USED; card(o, "T4", mib(15360)); s.resources.precision = "bf16"; }, "precision", "T4 has no bf16"},
        {"no fp8", CHANGE { USED; card(o, "A100-SXM-80GB", mib(81920)); s.resources.precision = "fp8"; }, "precision"},
        {"nvlink", CHANGE { USED; card(o, "A100-SXM-80GB", mib(81920)); s.resources.nvlink = true; }, ""},
        {"no nvlink", CHANGE { USED; s.resources.nvlink = true; }, "nvlink"},
        {"bandwidth", CHANGE { USED; s.resources.memory_bandwidth = Bytes{1'008 * kGB}; }, ""},
        {"less bandwidth", CHANGE { USED; card(o, "L4", mib(23034)); s.resources.memory_bandwidth = Bytes{900 * kGB}; }, "memory_bandwidth"},
        {"bandwidth not in the table", CHANGE { USED; card(o, "MI308X", mib(131072)); s.resources.memory_bandwidth = Bytes{900 * kGB}; }, "memory_bandwidth_unknown"},
        {"no table, ability asked", CHANGE { USED; w.gpus = nullptr; s.resources.nvlink = true; }, "gpu_unknown"},
    };
    check(cases);
}

TEST_CASE("a class accepts what cards of that class report, exact bytes are held against usable memory") {
    const Case cases[] = {
        {"L4 is of the 24 GB class", CHANGE { USED; card(o, "L4", mib(23034)); s.resources.vram = gb_class(24); }, ""},
        {"T4 is of the 16 GB class", CHANGE { USED; card(o, "T4", mib(15360)); s.resources.vram = gb_class(16); }, ""},
        {"L40S is of the 48 GB class", CHANGE { USED; card(o, "L40S", mib(46068)); s.resources.vram = gb_class(48); }, ""},
        {"H100 is of the 80 GB class", CHANGE { USED; card(o, "H100-SXM-80GB", mib(81559)); s.resources.vram = gb_class(80); }, ""},
        {"24 GB told in 10^9", CHANGE { USED; o.gpu.memory = Bytes{24 * kGB}; s.resources.vram = gb_class(24); }, ""},
        {"22 GB is not 24", CHANGE { USED; card(o, "RTX-2080-Ti-22GB", mib(22528)); s.resources.vram = gb_class(24); }, "vram"},
        {"11 GB is not 12", CHANGE { USED; card(o, "GTX-1080-Ti", mib(11264)); s.resources.vram = gb_class(12); }, "vram"},
        {"40 GB is not 80", CHANGE { USED; card(o, "A100-PCIe-40GB", mib(40960)); s.resources.vram = gb_class(80); }, "vram", "40.0 GiB is not the 80 GB class"},
        {"exact: 24 GiB on an L4", CHANGE { USED; card(o, "L4", mib(23034)); s.resources.vram = exactly(24 * kGiB); }, "vram"},
        {"exact: what an L4 reports is not usable", CHANGE { USED; card(o, "L4", mib(23034)); s.resources.vram = exactly(23034 * kMiB); }, "vram", "usable"},
        {"exact: 22 GB on an L4", CHANGE { USED; card(o, "L4", mib(23034)); s.resources.vram = exactly(22 * kGB); }, ""},
        {"exact on a V100 leaves more to the context", CHANGE { USED; card(o, "V100-SXM2-16GB", mib(16384)); s.resources.vram = exactly(15 * kGiB); }, "vram"},
        {"not told, in the table", CHANGE { USED; card(o, "RTX-4090", std::nullopt); s.resources.vram = gb_class(24); }, ""},
        {"not told, in the table, too small", CHANGE { USED; card(o, "RTX-4090", std::nullopt); s.resources.vram = gb_class(32); }, "vram"},
        {"not told, no table", CHANGE { USED; card(o, "RTX-4090", std::nullopt); w.gpus = nullptr; s.resources.vram = gb_class(24); }, "vram_unknown"},
        {"0 is not told", CHANGE { USED; card(o, "RTX-4090", Bytes{0}); w.gpus = nullptr; s.resources.vram = gb_class(24); }, "vram_unknown"},
        {"after OOM the same card", CHANGE { USED; t.vram_above = mib(24564); }, "vram_above"},
        {"after OOM a card of the same class", CHANGE { USED; card(o, "RTX-3090", mib(24576)); t.vram_above = mib(24564); }, "vram_above"},
        {"after OOM on an L4, another 24 GB", CHANGE { USED; t.vram_above = mib(23034); }, "vram_above"},
        {"after OOM the next class", CHANGE { USED; card(o, "RTX-5090", mib(32607)); t.vram_above = mib(24564); }, ""},
        {"after OOM on 80, 94", CHANGE { USED; card(o, "H100-NVL-94GB", mib(95830)); t.vram_above = mib(81559); }, ""},
    };
    check(cases);
}

TEST_CASE("host figures: enough, too little, and not told") {
    const Case cases[] = {
        {"cpus", CHANGE { USED; s.resources.cpus = 8; o.cpus = 8.0; }, ""},
        {"cpus short", CHANGE { USED; s.resources.cpus = 8; o.cpus = 7.5; }, "cpus", "7.5 is less than 8"},
        {"cpus unknown", CHANGE { USED; s.resources.cpus = 8; }, "cpus_unknown"},
        {"cpus not asked", CHANGE { USED; o.cpus = std::nullopt; }, ""},
        {"memory", CHANGE { USED; s.resources.memory = Bytes{32 * kGB}; o.memory = Bytes{32 * kGB}; }, ""},
        {"memory short", CHANGE { USED; s.resources.memory = Bytes{32 * kGB}; o.memory = Bytes{32 * kGB - 1}; }, "memory"},
        {"memory unknown", CHANGE { USED; s.resources.memory = Bytes{32 * kGB}; }, "memory_unknown"},
        {"disk short", CHANGE { USED; s.resources.disk = Bytes{100 * kGB}; o.disk_max = Bytes{99 * kGB}; }, "disk"},
        {"disk rounded up", CHANGE { USED; s.resources.disk = Bytes{99 * kGB + 1}; o.disk_max = Bytes{99 * kGB + 1}; }, "disk"},
        {"disk unknown", CHANGE { USED; s.resources.disk = Bytes{100 * kGB}; }, ""},
        {"cuda", CHANGE { USED; s.resources.cuda = "12.6"; o.cuda_max = "12.10"; }, ""},
        {"cuda short", CHANGE { USED; s.resources.cuda = "12.6"; o.cuda_max = "12.5"; }, "cuda"},
        {"cuda unknown", CHANGE { USED; s.resources.cuda = "12.6"; }, "cuda_unknown"},
        {"driver short", CHANGE { USED; s.resources.driver = "560"; o.driver = "535.183.06"; }, "driver"},
        {"driver", CHANGE { USED; s.resources.driver = "560"; o.driver = "560.35.03"; }, ""},
        {"driver no version", CHANGE { USED; s.resources.driver = "560"; o.driver = "unknown"; }, "driver_unknown"},
        {"region EU", CHANGE { USED; s.resources.regions = {"EU"}; }, ""},
        {"region by country", CHANGE { USED; s.resources.regions = {"US", "DE"}; }, ""},
        {"region other", CHANGE { USED; s.resources.regions = {"EU"}; o.country = "CH"; }, "region", "CH is not in EU"},
        {"region EEA", CHANGE { USED; s.resources.regions = {"EEA"}; o.country = "NO"; }, ""},
        {"region unknown", CHANGE { USED; s.resources.regions = {"EU"}; o.country = ""; }, "region_unknown"},
        {"no region asked", CHANGE { USED; o.country = ""; }, ""},
        {"reliability", CHANGE { USED; s.resources.reliability = 0.98; o.reliability = 0.98; }, ""},
        {"reliability short", CHANGE { USED; s.resources.reliability = 0.98; o.reliability = 0.9; }, "reliability"},
        {"reliability unknown", CHANGE { USED; s.resources.reliability = 0.98; }, "reliability_unknown"},
        {"inet short", CHANGE { USED; s.resources.inet_down_mbps = 200; o.inet_down_mbps = 199; }, "inet_down", "199 Mbps"},
        {"inet unknown", CHANGE { USED; s.resources.inet_down_mbps = 200; }, "inet_down_unknown"},
    };
    check(cases);
}

TEST_CASE("a lease must outlast the job") {
    using std::chrono::hours;
    using std::chrono::minutes;
    const Case cases[] = {
        {"10 h job, 2 h lease", CHANGE { USED; s.limits.duration = hours{10}; o.lease_end = kNow + hours{2}; }, "lease_ends_too_soon", "needed are 10h"},
        {"10 h job, 30 d lease", CHANGE { USED; s.limits.duration = hours{10}; o.lease_end = kNow + hours{24 * 30}; }, ""},
        {"margin missing", CHANGE { USED; s.limits.duration = hours{10}; o.lease_end = kNow + hours{10} + minutes{14}; }, "lease_ends_too_soon"},
        {"margin there", CHANGE { USED; s.limits.duration = hours{10}; o.lease_end = kNow + hours{10} + minutes{15}; }, ""},
        {"what ran already counts", CHANGE { USED; s.limits.duration = hours{10}; t.ran = hours{9}; o.lease_end = kNow + hours{2}; }, ""},
        {"no duration: an hour", CHANGE { USED; o.lease_end = kNow + minutes{74}; }, "lease_ends_too_soon"},
        {"no duration: enough", CHANGE { USED; o.lease_end = kNow + minutes{75}; }, ""},
        {"over already", CHANGE { USED; o.lease_end = kNow - hours{1}; }, "lease_ends_too_soon"},
    };
    check(cases);
}

TEST_CASE("the market's passing state") {
    const Case cases[] = {
        {"cooling down", CHANGE { USED; w.cooled_offers["vastai/1"] = "no_capacity"; }, "offer_cooling_down", "no_capacity"},
        {"another provider's offer of that id", CHANGE { USED; w.cooled_offers["runpod/1"] = "no_capacity"; }, ""},
        {"bad host", CHANGE { USED; o.host_id = "h7"; w.bad_hosts["vastai/h7"] = "smaller GPU"; }, "bad_host", "smaller GPU"},
        {"unknown host", CHANGE { USED; w.bad_hosts["vastai/"] = "x"; }, ""},
        {"taken", CHANGE { USED; w.taken_offers.insert("vastai/1"); }, "offer_taken"},
        {"none in stock", CHANGE { USED; o.stock = 0; }, "out_of_stock"},
        {"stock not told", CHANGE { USED; o.stock = -1; }, ""},
    };
    check(cases);
}
