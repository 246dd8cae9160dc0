// One table: what is changed in a job, an offer or the world that fit each other, and the reason that must
// come of it.
#include "scheduler/filters.hpp"

#include <doctest/doctest.h>

#include "offers.hpp"

using namespace gf;
using gf::test::kNow;
using gf::test::mib;

namespace {

struct Setting {
    JobSpec job = test::job();
    TaskRecord task;
    Offer offer = test::offer();
    ChoiceWorld world = test::world();
};

struct Case {
    const char* what;
    void (*change)(Setting&);
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
VramDemand gb_class(int gb) {
    return {.class_gb = gb, .exact = {}};
}
VramDemand exactly(std::int64_t bytes) {
    return {.class_gb = {}, .exact = Bytes{bytes}};
}

void check(std::span<const Case> cases) {
    for (const auto& c : cases) {
        CAPTURE(std::string(c.what));
        Setting x;
        c.change(x);
        const std::vector<Offer> offers{x.offer};
        const Decision decision = choose(x.job, x.task, offers, x.world);
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
        {"nothing asked", [](Setting&) {}, ""},
        {"in providers", [](Setting& x) { x.job.resources.providers = {"runpod", "vastai"}; }, ""},
        {"not in providers", [](Setting& x) { x.job.resources.providers = {"runpod"}; }, "provider_excluded",
         "runpod"},
        {"excluded", [](Setting& x) { x.job.resources.exclude_providers = {"vastai"}; }, "provider_excluded"},
        {"key refused", [](Setting& x) { x.world.paused_providers["vastai"] = "auth"; }, "provider_auth",
         "vastai"},
        {"no money", [](Setting& x) { x.world.paused_providers["vastai"] = "no_money"; },
         "provider_no_money"},
        {"another one paused", [](Setting& x) { x.world.paused_providers["runpod"] = "auth"; }, ""},
        {"no advertise_url", [](Setting& x) { x.world.cloud_reachable = false; }, "agent_cannot_reach_daemon",
         "advertise_url"},
        {"a tunnel leads to this provider's machines",
         [](Setting& x) {
             x.world.cloud_reachable = false;
             x.world.reached_providers = {"vastai"};
         },
         ""},
        {"a tunnel leads to another's",
         [](Setting& x) {
             x.world.cloud_reachable = false;
             x.world.reached_providers = {"lambda"};
         },
         "agent_cannot_reach_daemon", "no tunnel to machines of vastai"},
        {"local needs no reach",
         [](Setting& x) {
             make_local(x.offer);
             x.world.cloud_reachable = false;
         },
         ""},
        {"local not over the socket",
         [](Setting& x) {
             make_local(x.offer);
             x.world.local_allowed = false;
         },
         "local_not_allowed"},
        {"an image is for a cloud",
         [](Setting& x) {
             make_local(x.offer);
             x.world.local_allowed = true;
             x.job.image = "ghcr.io/example/trainer:1";
         },
         "local_runs_no_image"},
    };
    check(cases);
}

TEST_CASE("prices that are none are refused, except the local machine's 0") {
    const Case cases[] = {
        {"zero", [](Setting& x) { x.offer.gpu_rate.micros = 0; }, "price_zero"},
        {"negative", [](Setting& x) { x.offer.gpu_rate.micros = -1; }, "price_negative"},
        {"local zero", [](Setting& x) { make_local(x.offer); }, ""},
        {"local negative",
         [](Setting& x) {
             make_local(x.offer);
             x.offer.gpu_rate.micros = -5;
         },
         "price_negative"},
        {"cap holds", [](Setting& x) { x.job.resources.max_price = UsdPerHour{300'000}; }, ""},
        {"cap is broken by the disk",
         [](Setting& x) {
             x.job.resources.max_price = UsdPerHour{300'000};
             x.offer.disk_micros_per_gb_month = 100'000;
         },
         "max_price", "over max_price 0.30"},
        {"cap broken", [](Setting& x) { x.job.resources.max_price = UsdPerHour{299'999}; }, "max_price"},
        {"bid under the floor",
         [](Setting& x) {
             x.offer.spot = true;
             x.offer.spot_floor = UsdPerHour{300'001};
         },
         "bid_below_floor"},
        {"bid at the floor",
         [](Setting& x) {
             x.offer.spot = true;
             x.offer.spot_floor = UsdPerHour{300'000};
         },
         ""},
        {"balance pays an hour", [](Setting& x) { x.world.balances["vastai"] = Usd{300'000}; }, ""},
        {"balance does not", [](Setting& x) { x.world.balances["vastai"] = Usd{299'999}; }, "balance",
         "0.299999 left at vastai"},
        {"unknown balance", [](Setting& x) { x.world.balances["runpod"] = Usd{0}; }, ""},
        {"fleet rate",
         [](Setting& x) {
             x.world.fleet_rate_max = UsdPerHour{1'000'000};
             x.world.fleet_rate = UsdPerHour{700'001};
         },
         "quota_usd_per_hour"},
        {"fleet rate just fits",
         [](Setting& x) {
             x.world.fleet_rate_max = UsdPerHour{1'000'000};
             x.world.fleet_rate = UsdPerHour{700'000};
         },
         ""},
        {"machines", [](Setting& x) { x.world.machines = 50; }, "quota_machines", "50"},
        {"machines, local",
         [](Setting& x) {
             make_local(x.offer);
             x.world.machines = 50;
         },
         ""},
    };
    check(cases);
}

TEST_CASE("architecture and spot") {
    const Case cases[] = {
        {"arm64 has no agent",
         [](Setting& x) {
             x.offer.arch = "arm64";
             x.job.resources.arch = "arm64";
         },
         "no_agent_for_arm64", "no agent for arm64"},
        {"arm64 offer, amd64 job",
         [](Setting& x) {
             x.offer.arch = "arm64";
             x.world.agent_archs.insert("arm64");
         },
         "arch"},
        {"arm64 with an agent",
         [](Setting& x) {
             x.offer.arch = x.job.resources.arch = "arm64";
             x.world.agent_archs.insert("arm64");
         },
         ""},
        {"auto takes spot", [](Setting& x) { x.offer.spot = true; }, ""},
        {"never refuses spot",
         [](Setting& x) {
             x.offer.spot = true;
             x.job.resources.spot = SpotChoice::never;
         },
         "spot_not_wanted"},
        {"always refuses on-demand", [](Setting& x) { x.job.resources.spot = SpotChoice::always; },
         "on_demand_not_wanted"},
        {"local is neither",
         [](Setting& x) {
             make_local(x.offer);
             x.job.resources.spot = SpotChoice::always;
         },
         ""},
    };
    check(cases);
}

TEST_CASE("GPU count, name and what the card can do") {
    const Case cases[] = {
        {"two where one is asked", [](Setting& x) { x.offer.gpu_count = 2; }, "gpu_count", "2 GPUs"},
        {"one where two are asked", [](Setting& x) { x.job.resources.gpus = 2; }, "gpu_count"},
        {"none where one is asked", [](Setting& x) { x.offer.gpu_count = 0; }, "gpu_count"},
        {"local may have more",
         [](Setting& x) {
             make_local(x.offer);
             x.offer.gpu_count = 4;
         },
         ""},
        {"cpu_only on a rented GPU",
         [](Setting& x) {
             x.job.resources.cpu_only = true;
             x.job.resources.gpus = 0;
         },
         "gpu_not_needed"},
        {"cpu_only without a GPU",
         [](Setting& x) {
             x.job.resources.cpu_only = true;
             x.job.resources.gpus = 0;
             x.offer.gpu_count = 0;
             x.offer.gpu = {};
         },
         ""},
        {"cpu_only on the local GPU",
         [](Setting& x) {
             x.job.resources.cpu_only = true;
             x.job.resources.gpus = 0;
             make_local(x.offer);
         },
         ""},
        {"the named one", [](Setting& x) { x.job.resources.gpu = {"RTX-3090", "RTX-4090"}; }, ""},
        {"another one",
         [](Setting& x) {
             x.job.resources.gpu = {"RTX-4090-D"};
             x.job.resources.gpu_as_typed = {"RTX 4090 D"};
         },
         "gpu_name", "RTX-4090 is not RTX 4090 D"},
        {"unknown, named",
         [](Setting& x) {
             card(x.offer, "", mib(24564));
             x.job.resources.gpu = {"RTX-4090"};
         },
         "gpu_unknown"},
        {"unknown, by memory",
         [](Setting& x) {
             card(x.offer, "", mib(24564));
             x.job.resources.vram = gb_class(24);
         },
         "gpu_unknown"},
        {"unknown, nothing asked", [](Setting& x) { card(x.offer, "", std::nullopt); }, ""},
        {"a slice of the named card",
         [](Setting& x) {
             card(x.offer, "RTX-PRO-6000-Blackwell-Server", mib(24576));
             x.job.resources.gpu = {"RTX-PRO-6000-Blackwell-Server"};
         },
         "gpu_is_a_slice", "24.0 GiB is only a part of a RTX-PRO-6000-Blackwell-Server"},
        {"a card of another maker",
         [](Setting& x) {
             card(x.offer, "MI300X", mib(196608));
             x.job.resources.gpu = {"MI300X"};
         },
         "gpu_vendor", "MI300X is a card of amd"},
        {"a card of another maker, by memory",
         [](Setting& x) {
             card(x.offer, "MI300X", mib(196608));
             x.job.resources.vram = gb_class(192);
         },
         "gpu_vendor"},
        {"another maker's card is in the way of no work without GPUs",
         [](Setting& x) {
             make_local(x.offer);
             card(x.offer, "MI300X", mib(196608));
             x.job.resources.cpu_only = true;
             x.job.resources.gpus = 0;
         },
         ""},
        {"bf16", [](Setting& x) { x.job.resources.precision = "bf16"; }, ""},
        {"no bf16",
         [](Setting& x) {
             card(x.offer, "T4", mib(15360));
             x.job.resources.precision = "bf16";
         },
         "precision", "T4 has no bf16"},
        {"no fp8",
         [](Setting& x) {
             card(x.offer, "A100-SXM-80GB", mib(81920));
             x.job.resources.precision = "fp8";
         },
         "precision"},
        {"nvlink",
         [](Setting& x) {
             card(x.offer, "A100-SXM-80GB", mib(81920));
             x.job.resources.nvlink = true;
         },
         ""},
        {"no nvlink", [](Setting& x) { x.job.resources.nvlink = true; }, "nvlink"},
        {"bandwidth", [](Setting& x) { x.job.resources.memory_bandwidth = Bytes{1'008 * kGB}; }, ""},
        {"less bandwidth",
         [](Setting& x) {
             card(x.offer, "L4", mib(23034));
             x.job.resources.memory_bandwidth = Bytes{900 * kGB};
         },
         "memory_bandwidth"},
        {"bandwidth not in the table",
         [](Setting& x) {
             static const GpuNames table = *GpuNames::parse(
                 "canonical_name,vendor,compute_capability,vram_gb,reported_vram_mib,memory_bandwidth_gb_s,bf16_supported,"
                 "fp8_supported,nvlink_gb_s\nNEW,nvidia,12.0,128,,,yes,yes,0\n",
                 "provider,provider_name_or_type,canonical_name,gpu_count,vram_gb_as_reported,notes\n");
             x.world.gpus = &table;
             card(x.offer, "NEW", mib(131072));
             x.job.resources.memory_bandwidth = Bytes{900 * kGB};
         },
         "memory_bandwidth_unknown"},
        {"no table, ability asked",
         [](Setting& x) {
             x.world.gpus = nullptr;
             x.job.resources.nvlink = true;
         },
         "gpu_unknown"},
    };
    check(cases);
}

TEST_CASE("a slice of a card is for who asks for one GPU by memory alone") {
    // A sixth of an A40: 8 GB of its 48, told by its share, or by its memory only.
    const auto sixth = [](Setting& x) {
        card(x.offer, "A40", mib(8192));
        x.offer.gpu_share = 1.0 / 6;
        x.job.resources.vram = gb_class(8);
    };
    static const auto slice = +sixth;
    const Case cases[] = {
        {"by memory", [](Setting& x) { slice(x); }, ""},
        {"by exact memory",
         [](Setting& x) {
             slice(x);
             x.job.resources.vram = exactly(6 * kGB);
         },
         ""},
        {"by memory, and not enough of it",
         [](Setting& x) {
             slice(x);
             x.job.resources.vram = gb_class(16);
         },
         "vram"},
        {"nothing said of memory",
         [](Setting& x) {
             slice(x);
             x.job.resources.vram.reset();
         },
         "gpu_is_a_slice", "8.0 GiB is only a part of a A40"},
        {"nothing said of memory, and the offer does not tell its share",
         [](Setting& x) {
             slice(x);
             x.offer.gpu_share = 1;
             x.job.resources.vram.reset();
         },
         "gpu_is_a_slice"},
        {"the card named, and memory that the slice has",
         [](Setting& x) {
             slice(x);
             x.job.resources.gpu = {"A40"};
         },
         "gpu_is_a_slice"},
        {"a card of whose slices nobody knows the memory",
         [](Setting& x) {
             slice(x);
             card(x.offer, "A40", std::nullopt);
             x.job.resources.vram.reset();
             x.job.resources.gpu = {"A40"};
         },
         "gpu_is_a_slice"},
        {"a whole one named",
         [](Setting& x) {
             card(x.offer, "A40", mib(46068));
             x.job.resources.gpu = {"A40"};
         },
         ""},
        {"two of them",
         [](Setting& x) {
             slice(x);
             x.offer.gpu_count = x.job.resources.gpus = 2;
         },
         "gpu_is_a_slice"},
        {"a slice has no NVLink",
         [](Setting& x) {
             slice(x);
             x.job.resources.nvlink = true;
         },
         "nvlink", "a part of a A40"},
        {"the whole card has it",
         [](Setting& x) {
             card(x.offer, "A40", mib(46068));
             x.job.resources.nvlink = true;
         },
         ""},
        {"a sixth of the bandwidth",
         [](Setting& x) {
             slice(x);
             x.job.resources.memory_bandwidth = Bytes{117 * kGB};
         },
         "memory_bandwidth"},
        {"no more than a sixth of the bandwidth",
         [](Setting& x) {
             slice(x);
             x.job.resources.memory_bandwidth = Bytes{115 * kGB};
         },
         ""},
    };
    check(cases);
}

TEST_CASE("a class accepts what cards of that class report, exact bytes are held against usable memory") {
    const Case cases[] = {
        {"L4 is of the 24 GB class",
         [](Setting& x) {
             card(x.offer, "L4", mib(23034));
             x.job.resources.vram = gb_class(24);
         },
         ""},
        {"T4 is of the 16 GB class",
         [](Setting& x) {
             card(x.offer, "T4", mib(15360));
             x.job.resources.vram = gb_class(16);
         },
         ""},
        {"L40S is of the 48 GB class",
         [](Setting& x) {
             card(x.offer, "L40S", mib(46068));
             x.job.resources.vram = gb_class(48);
         },
         ""},
        {"H100 is of the 80 GB class",
         [](Setting& x) {
             card(x.offer, "H100-SXM-80GB", mib(81559));
             x.job.resources.vram = gb_class(80);
         },
         ""},
        {"24 GB told in 10^9",
         [](Setting& x) {
             x.offer.gpu.memory = Bytes{24 * kGB};
             x.job.resources.vram = gb_class(24);
         },
         ""},
        {"22 GB is not 24",
         [](Setting& x) {
             card(x.offer, "RTX-2080-Ti-22GB", mib(22528));
             x.job.resources.vram = gb_class(24);
         },
         "vram"},
        {"11 GB is not 12",
         [](Setting& x) {
             card(x.offer, "GTX-1080-Ti", mib(11264));
             x.job.resources.vram = gb_class(12);
         },
         "vram"},
        {"40 GB is not 80",
         [](Setting& x) {
             card(x.offer, "A100-PCIe-40GB", mib(40960));
             x.job.resources.vram = gb_class(80);
         },
         "vram", "40.0 GiB is not the 80 GB class"},
        {"exact: 24 GiB on an L4",
         [](Setting& x) {
             card(x.offer, "L4", mib(23034));
             x.job.resources.vram = exactly(24 * kGiB);
         },
         "vram"},
        {"exact: what an L4 reports is not usable",
         [](Setting& x) {
             card(x.offer, "L4", mib(23034));
             x.job.resources.vram = exactly(23034 * kMiB);
         },
         "vram", "usable"},
        {"exact: 22 GB on an L4",
         [](Setting& x) {
             card(x.offer, "L4", mib(23034));
             x.job.resources.vram = exactly(22 * kGB);
         },
         ""},
        {"exact on a V100 leaves more to the context",
         [](Setting& x) {
             card(x.offer, "V100-SXM2-16GB", mib(16384));
             x.job.resources.vram = exactly(15 * kGiB);
         },
         "vram"},
        {"not told, in the table",
         [](Setting& x) {
             card(x.offer, "RTX-4090", std::nullopt);
             x.job.resources.vram = gb_class(24);
         },
         ""},
        {"not told, in the table, too small",
         [](Setting& x) {
             card(x.offer, "RTX-4090", std::nullopt);
             x.job.resources.vram = gb_class(32);
         },
         "vram"},
        {"not told, no table",
         [](Setting& x) {
             card(x.offer, "RTX-4090", std::nullopt);
             x.world.gpus = nullptr;
             x.job.resources.vram = gb_class(24);
         },
         "vram_unknown"},
        {"0 is not told",
         [](Setting& x) {
             card(x.offer, "RTX-4090", Bytes{0});
             x.world.gpus = nullptr;
             x.job.resources.vram = gb_class(24);
         },
         "vram_unknown"},
        {"after OOM the same card", [](Setting& x) { x.task.vram_above = mib(24564); }, "vram_above"},
        {"after OOM a card of the same class",
         [](Setting& x) {
             card(x.offer, "RTX-3090", mib(24576));
             x.task.vram_above = mib(24564);
         },
         "vram_above"},
        {"after OOM on an L4, another 24 GB", [](Setting& x) { x.task.vram_above = mib(23034); },
         "vram_above"},
        {"after OOM the next class",
         [](Setting& x) {
             card(x.offer, "RTX-5090", mib(32607));
             x.task.vram_above = mib(24564);
         },
         ""},
        {"after OOM on 80, 94",
         [](Setting& x) {
             card(x.offer, "H100-NVL-94GB", mib(95830));
             x.task.vram_above = mib(81559);
         },
         ""},
    };
    check(cases);
}

TEST_CASE("host figures: enough, too little, and not told") {
    const Case cases[] = {
        {"cpus",
         [](Setting& x) {
             x.job.resources.cpus = 8;
             x.offer.cpus = 8.0;
         },
         ""},
        {"cpus short",
         [](Setting& x) {
             x.job.resources.cpus = 8;
             x.offer.cpus = 7.5;
         },
         "cpus", "7.5 is less than 8"},
        {"cpus unknown", [](Setting& x) { x.job.resources.cpus = 8; }, "cpus_unknown"},
        {"cpus not asked", [](Setting& x) { x.offer.cpus = std::nullopt; }, ""},
        {"memory",
         [](Setting& x) {
             x.job.resources.memory = Bytes{32 * kGB};
             x.offer.memory = Bytes{32 * kGB};
         },
         ""},
        {"memory short",
         [](Setting& x) {
             x.job.resources.memory = Bytes{32 * kGB};
             x.offer.memory = Bytes{32 * kGB - 1};
         },
         "memory"},
        {"memory unknown", [](Setting& x) { x.job.resources.memory = Bytes{32 * kGB}; }, "memory_unknown"},
        {"disk short",
         [](Setting& x) {
             x.job.resources.disk = Bytes{100 * kGB};
             x.offer.disk_max = Bytes{99 * kGB};
         },
         "disk"},
        {"disk rounded up",
         [](Setting& x) {
             x.job.resources.disk = Bytes{99 * kGB + 1};
             x.offer.disk_max = Bytes{99 * kGB + 1};
         },
         "disk"},
        {"disk unknown", [](Setting& x) { x.job.resources.disk = Bytes{100 * kGB}; }, ""},
        {"cuda",
         [](Setting& x) {
             x.job.resources.cuda = "12.6";
             x.offer.cuda_max = "12.10";
         },
         ""},
        {"cuda short",
         [](Setting& x) {
             x.job.resources.cuda = "12.6";
             x.offer.cuda_max = "12.5";
         },
         "cuda"},
        {"cuda unknown", [](Setting& x) { x.job.resources.cuda = "12.6"; }, "cuda_unknown"},
        {"driver short",
         [](Setting& x) {
             x.job.resources.driver = "560";
             x.offer.driver = "535.183.06";
         },
         "driver"},
        {"driver",
         [](Setting& x) {
             x.job.resources.driver = "560";
             x.offer.driver = "560.35.03";
         },
         ""},
        {"driver no version",
         [](Setting& x) {
             x.job.resources.driver = "560";
             x.offer.driver = "unknown";
         },
         "driver_unknown"},
        {"region EU", [](Setting& x) { x.job.resources.regions = {"EU"}; }, ""},
        {"region by country", [](Setting& x) { x.job.resources.regions = {"US", "DE"}; }, ""},
        {"region other",
         [](Setting& x) {
             x.job.resources.regions = {"EU"};
             x.offer.country = "CH";
         },
         "region", "CH is not in EU"},
        {"region EEA",
         [](Setting& x) {
             x.job.resources.regions = {"EEA"};
             x.offer.country = "NO";
         },
         ""},
        {"region unknown",
         [](Setting& x) {
             x.job.resources.regions = {"EU"};
             x.offer.country = "";
         },
         "region_unknown"},
        {"no region asked", [](Setting& x) { x.offer.country = ""; }, ""},
        {"reliability",
         [](Setting& x) {
             x.job.resources.reliability = 0.98;
             x.offer.reliability = 0.98;
         },
         ""},
        {"reliability short",
         [](Setting& x) {
             x.job.resources.reliability = 0.98;
             x.offer.reliability = 0.9;
         },
         "reliability"},
        {"reliability unknown", [](Setting& x) { x.job.resources.reliability = 0.98; },
         "reliability_unknown"},
        {"secrets on a vetted host",
         [](Setting& x) {
             x.job.secrets = {"HF_TOKEN"};
             x.offer.verified = true;
         },
         ""},
        {"secrets on a host that is not vetted (I01)",
         [](Setting& x) {
             x.job.secrets = {"HF_TOKEN"};
             x.offer.verified = false;
         },
         "host_not_verified", "the host is not vetted"},
        {"secrets where nothing is told of the host", [](Setting& x) { x.job.secrets = {"HF_TOKEN"}; }, "verified_unknown"},
        {"a registry login is a secret too",
         [](Setting& x) {
             x.job.image_auth = ImageAuthSpec{.username = "bot", .password_secret = "TOKEN"};
             x.offer.verified = false;
         },
         "host_not_verified"},
        {"secrets_on: any",
         [](Setting& x) {
             x.job.secrets = {"HF_TOKEN"};
             x.job.secrets_on_any = true;
             x.offer.verified = false;
         },
         ""},
        {"no secrets, any host", [](Setting& x) { x.offer.verified = false; }, ""},
        {"inet short",
         [](Setting& x) {
             x.job.resources.inet_down_mbps = 200;
             x.offer.inet_down_mbps = 199;
         },
         "inet_down", "199 Mbps"},
        {"inet unknown", [](Setting& x) { x.job.resources.inet_down_mbps = 200; }, "inet_down_unknown"},
    };
    check(cases);
}

TEST_CASE("a lease must outlast the job") {
    using std::chrono::hours;
    using std::chrono::minutes;
    const Case cases[] = {
        {"10 h job, 2 h lease",
         [](Setting& x) {
             x.job.limits.duration = hours{10};
             x.offer.lease_end = kNow + hours{2};
         },
         "lease_ends_too_soon", "needed are 10h"},
        {"10 h job, 30 d lease",
         [](Setting& x) {
             x.job.limits.duration = hours{10};
             x.offer.lease_end = kNow + hours{24 * 30};
         },
         ""},
        {"margin missing",
         [](Setting& x) {
             x.job.limits.duration = hours{10};
             x.offer.lease_end = kNow + hours{10} + minutes{14};
         },
         "lease_ends_too_soon"},
        {"margin there",
         [](Setting& x) {
             x.job.limits.duration = hours{10};
             x.offer.lease_end = kNow + hours{10} + minutes{15};
         },
         ""},
        {"what ran already counts",
         [](Setting& x) {
             x.job.limits.duration = hours{10};
             x.task.ran = hours{9};
             x.offer.lease_end = kNow + hours{2};
         },
         ""},
        {"no duration: an hour", [](Setting& x) { x.offer.lease_end = kNow + minutes{74}; },
         "lease_ends_too_soon"},
        {"no duration: enough", [](Setting& x) { x.offer.lease_end = kNow + minutes{75}; }, ""},
        {"over already", [](Setting& x) { x.offer.lease_end = kNow - hours{1}; }, "lease_ends_too_soon"},
    };
    check(cases);
}

TEST_CASE("the market's passing state") {
    const Case cases[] = {
        {"cooling down", [](Setting& x) { x.world.cooled_offers["vastai/1"] = "no_capacity"; },
         "offer_cooling_down", "no_capacity"},
        {"another provider's offer of that id",
         [](Setting& x) { x.world.cooled_offers["runpod/1"] = "no_capacity"; }, ""},
        {"bad host",
         [](Setting& x) {
             x.offer.host_id = "h7";
             x.world.bad_hosts["vastai/h7"] = "smaller GPU";
         },
         "bad_host", "smaller GPU"},
        {"unknown host", [](Setting& x) { x.world.bad_hosts["vastai/"] = "x"; }, ""},
        {"taken", [](Setting& x) { x.world.taken_offers.insert("vastai/1"); }, "offer_taken"},
        {"none in stock", [](Setting& x) { x.offer.stock = 0; }, "out_of_stock"},
        {"stock not told", [](Setting& x) { x.offer.stock = -1; }, ""},
    };
    check(cases);
}
