#include "filter_case.hpp"

using namespace gf;
using namespace gf::test;

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
        {"no advertise_url", [](Setting& x) { x.world.reached_providers.clear(); }, "agent_cannot_reach_daemon",
         "advertise_url"},
        {"a tunnel leads to this provider's machines",
         [](Setting& x) {
             x.world.reached_providers = {"vastai"};
         },
         ""},
        {"a tunnel leads to another's",
         [](Setting& x) {
             x.world.reached_providers = {"lambda"};
         },
         "agent_cannot_reach_daemon", "no tunnel to machines of vastai"},
        {"local needs no reach",
         [](Setting& x) {
             make_local(x.offer);
             x.world.reached_providers.clear();
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
        {"machines of the provider",
         [](Setting& x) { x.world.provider_quotas["vastai"] = {.machines_max = 2, .rate_max = {}, .machines = 2, .rate = {}}; },
         "quota_provider_machines", "quotas.providers.vastai.machines is 2"},
        {"machines of the provider, room for one",
         [](Setting& x) { x.world.provider_quotas["vastai"] = {.machines_max = 2, .rate_max = {}, .machines = 1, .rate = {}}; }, ""},
        {"quota of another provider",
         [](Setting& x) { x.world.provider_quotas["runpod"] = {.machines_max = 0, .rate_max = {}, .rate = {}}; }, ""},
        {"rate of the provider",
         [](Setting& x) {
             x.world.provider_quotas["vastai"] = {.machines_max = {}, .rate_max = UsdPerHour{1'000'000}, .machines = 1, .rate = UsdPerHour{700'001}};
         },
         "quota_provider_usd_per_hour", "quotas.providers.vastai.usd_per_hour"},
        {"rate of the provider just fits",
         [](Setting& x) {
             x.world.provider_quotas["vastai"] = {.machines_max = {}, .rate_max = UsdPerHour{1'000'000}, .machines = 1, .rate = UsdPerHour{700'000}};
         },
         ""},
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
