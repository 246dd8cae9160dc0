#include "scheduler/filters.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "model/region.hpp"
#include "scheduler/version.hpp"

namespace gf {
namespace {

constexpr std::string_view kLocal = "local";
constexpr double kWholeCard = 0.85;       // less than this of a card's class is a slice of it

using Verdict = std::optional<Refusal>;

/// The detail is a callable so that its text is only made for the few offers that somebody reads about.
template <class Detail>
Verdict refuse(const Fit& fit, std::string reason, Detail detail) {
    return Refusal{std::move(reason), fit.explain ? std::string(detail()) : std::string()};
}

std::string gib(Bytes b) {
    char out[32];
    std::snprintf(out, sizeof out, "%.1f GiB", static_cast<double>(b.count) / static_cast<double>(kGiB));
    return out;
}
std::string plain(double v) {
    char out[32];
    std::snprintf(out, sizeof out, "%.10g", v);
    return out;
}
std::string per_hour(UsdPerHour rate) {
    return dollars(rate) + " $/h";
}

std::string joined(const std::vector<std::string>& names) {
    std::string out;
    for (const auto& name : names) out += (out.empty() ? "" : ", ") + name;
    return out;
}

bool contains(const std::vector<std::string>& list, const std::string& item) {
    return std::ranges::find(list, item) != list.end();
}

/// Less than the `demand` refuses, absent refuses as unknown, no demand passes.
template <class T, class Print>
Verdict at_least(const Fit& fit, const char* what, const std::optional<T>& have,
                 const std::optional<T>& demand, Print print) {
    if (!demand) return std::nullopt;
    if (!have)
        return refuse(fit, std::string(what) + "_unknown",
                      [&] { return std::string(what) + " is not told, " + print(*demand) + " needed"; });
    if (*have >= *demand) return std::nullopt;
    return refuse(fit, what, [&] { return print(*have) + " is less than " + print(*demand); });
}

Verdict version(const Fit& fit, const char* what, const std::string& have, const std::string& demand) {
    if (demand.empty()) return std::nullopt;
    const auto enough = version_at_least(have, demand);
    if (!enough)
        return refuse(fit, std::string(what) + "_unknown", [&] {
            return std::string(what) +
                   (have.empty() ? " is not told" : " \"" + have + "\" is not a version") + ", >=" + demand +
                   " needed";
        });
    if (*enough) return std::nullopt;
    return refuse(fit, what, [&] { return have + " is below " + demand; });
}

Verdict provider_wanted(const Fit& fit) {
    const auto& r = fit.spec.resources;
    const auto& name = fit.offer.provider.get();
    if (!r.providers.empty() && !contains(r.providers, name))
        return refuse(fit, "provider_excluded",
                      [&] { return name + " is not among " + joined(r.providers); });
    if (contains(r.exclude_providers, name))
        return refuse(fit, "provider_excluded", [&] { return name + " is in exclude_providers"; });
    return std::nullopt;
}

Verdict provider_usable(const Fit& fit) {
    const auto paused = fit.world.paused_providers.find(fit.offer.provider.get());
    if (paused == fit.world.paused_providers.end()) return std::nullopt;
    return refuse(fit, "provider_" + paused->second,
                  [&] { return fit.offer.provider.get() + " gets no launches now: " + paused->second; });
}

Verdict reachable(const Fit& fit) {
    if (fit.local && !fit.world.local_allowed)
        return refuse(fit, "local_not_allowed", [] {
            return "with the daemon's own uid the local machine takes only jobs that came over the unix "
                   "socket";
        });
    if (fit.local && !fit.spec.image.empty())
        return refuse(fit, "local_runs_no_image", [] {
            return "jobs on this machine run as plain processes; leave image out, or let it go to a cloud";
        });
    const auto& provider = fit.offer.provider.get();
    if (!fit.local && !fit.world.reached_providers.contains(provider))
        return refuse(fit, "agent_cannot_reach_daemon", [&] {
            return "advertise_url is not set or private, and there is no tunnel to machines of " + provider;
        });
    return std::nullopt;
}

Verdict arch(const Fit& fit) {
    const auto& have = fit.offer.arch;
    if (!fit.world.agent_archs.contains(have))
        return refuse(fit, "no_agent_for_" + have, [&] { return "no agent for " + have; });
    if (have == fit.spec.resources.arch) return std::nullopt;
    return refuse(fit, "arch", [&] { return have + " where the job is for " + fit.spec.resources.arch; });
}

Verdict spot(const Fit& fit) {
    if (fit.local) return std::nullopt;
    const auto choice = fit.spec.resources.spot;
    if (choice == SpotChoice::never && fit.offer.spot)
        return refuse(fit, "spot_not_wanted", [] { return "spot: never"; });
    if (choice == SpotChoice::always && !fit.offer.spot)
        return refuse(fit, "on_demand_not_wanted", [] { return "spot: always"; });
    if (choice == SpotChoice::automatic && fit.offer.spot && fit.task.retries.no_progress > 0)
        return refuse(fit, "spot_given_up", [] { return "lost too often without progress: on demand from there on"; });
    return std::nullopt;
}

Verdict price_real(const Fit& fit) {
    const auto rate = fit.offer.gpu_rate.micros;
    if (rate > 0 || (rate == 0 && fit.local)) return std::nullopt;
    return refuse(fit, rate == 0 ? "price_zero" : "price_negative",
                  [&] { return per_hour(fit.offer.gpu_rate) + " is not a price"; });
}

Verdict bid_enough(const Fit& fit) {
    const auto& floor = fit.offer.spot_floor;
    if (!fit.offer.spot || !floor || fit.offer.gpu_rate >= *floor) return std::nullopt;
    return refuse(fit, "bid_below_floor", [&] {
        return "bid " + per_hour(fit.offer.gpu_rate) + " is under the floor " + per_hour(*floor);
    });
}

Verdict in_stock(const Fit& fit) {
    if (fit.offer.stock != 0) return std::nullopt;
    return refuse(fit, "out_of_stock", [] { return "the provider says that it has none now"; });
}

Verdict gpu_count(const Fit& fit) {
    const auto& r = fit.spec.resources;
    const int have = fit.offer.gpu_count;
    if (r.cpu_only) {
        if (have == 0 || fit.local) return std::nullopt;
        return refuse(fit, "gpu_not_needed",
                      [] { return "cpu_only: a rented GPU would be paid for and not used"; });
    }
    if (have == r.gpus || (fit.local && have > r.gpus)) return std::nullopt;
    return refuse(fit, "gpu_count", [&] {
        return std::to_string(have) + " GPUs where " + std::to_string(r.gpus) + " are asked for";
    });
}

Verdict gpu_name(const Fit& fit) {
    const auto& r = fit.spec.resources;
    if (r.cpu_only) return std::nullopt;
    const bool by_ability = !r.precision.empty() || r.nvlink || r.memory_bandwidth;
    const bool by_memory = r.vram || fit.task.vram_above;
    const auto& gpu = fit.offer.gpu;
    if (gpu.canonical.empty() || (by_ability && fit.card == nullptr)) {
        if (r.gpu.empty() && !by_ability && !by_memory) return std::nullopt;
        return refuse(fit, "gpu_unknown",
                      [&] { return "\"" + gpu.provider_name + "\" is not in the GPU table"; });
    }
    if (r.gpu.empty()) return std::nullopt;
    if (!contains(r.gpu, gpu.canonical))
        return refuse(fit, "gpu_name", [&] { return gpu.canonical + " is not " + joined(r.gpu_as_typed); });
    return std::nullopt;
}

/// The agent reads cards by nvidia-smi: what has none cannot pass the check of the machine, whatever the job would do there.
Verdict gpu_vendor(const Fit& fit) {
    if (fit.spec.resources.cpu_only || fit.card == nullptr || fit.card->vendor == "nvidia") return std::nullopt;
    return refuse(fit, "gpu_vendor", [&] {
        return fit.card->canonical + " is a card of " + fit.card->vendor + "; only nvidia's are known to the agent";
    });
}

/// Naming a card means a whole one, and so does saying nothing of memory: only a job that says what one GPU must hold, and
/// nothing of which, knows that a part of one will do.
Verdict gpu_slice(const Fit& fit) {
    const auto& r = fit.spec.resources;
    if (r.cpu_only || card_share(fit) >= 1) return std::nullopt;
    const bool by_memory_alone = r.gpu.empty() && r.gpus == 1 && (r.vram || fit.local);
    if (by_memory_alone) return std::nullopt;
    return refuse(fit, "gpu_is_a_slice", [&] {
        return (fit.vram ? gib(*fit.vram) + " is" : std::string("it is")) + " only a part of a " +
               (fit.card != nullptr ? fit.card->canonical : fit.offer.gpu.provider_name);
    });
}

Verdict vram(const Fit& fit) {
    const auto& r = fit.spec.resources;
    if (r.cpu_only || (!r.vram && !fit.task.vram_above)) return std::nullopt;
    if (!fit.vram)
        return refuse(fit, "vram_unknown",
                      [&] { return "the memory of \"" + fit.offer.gpu.provider_name + "\" is not told"; });
    const auto have = static_cast<double>(fit.vram->count);
    if (r.vram && r.vram->class_gb && have < kClassShare * *r.vram->class_gb * static_cast<double>(kGiB))
        return refuse(fit, "vram", [&] {
            return gib(*fit.vram) + " is not the " + std::to_string(*r.vram->class_gb) + " GB class";
        });
    if (r.vram && r.vram->exact) {
        const Bytes usable = usable_memory(fit.card, *fit.vram);
        if (usable < *r.vram->exact)
            return refuse(fit, "vram", [&] {
                return gib(usable) + " usable is less than " +
                       std::to_string(r.vram->exact->count) + " bytes";
            });
    }
    if (fit.task.vram_above && have <= kNextClass * static_cast<double>(fit.task.vram_above->count))
        return refuse(fit, "vram_above", [&] {
            return gib(*fit.vram) + " is no larger class than the " + gib(*fit.task.vram_above) +
                   " that ran out of memory";
        });
    return std::nullopt;
}

Verdict gpu_abilities(const Fit& fit) {
    const auto& r = fit.spec.resources;
    if (r.cpu_only || fit.card == nullptr) return std::nullopt;  // gpu_name has refused what needs a card
    if ((r.precision == "bf16" && !fit.card->bf16) || (r.precision == "fp8" && !fit.card->fp8))
        return refuse(fit, "precision", [&] { return fit.card->canonical + " has no " + r.precision; });
    if (r.nvlink && fit.card->nvlink_gb_s == 0)
        return refuse(fit, "nvlink", [&] { return fit.card->canonical + " has no NVLink"; });
    if (r.nvlink && card_share(fit) < 1)
        return refuse(fit, "nvlink", [&] { return "a part of a " + fit.card->canonical + " has no NVLink"; });
    return std::nullopt;
}

Verdict memory_bandwidth(const Fit& fit) {
    const auto& r = fit.spec.resources;
    if (r.cpu_only || fit.card == nullptr) return std::nullopt;
    std::optional<Bytes> have;
    if (fit.card->bandwidth_gb_s)
        have = Bytes{std::llround(card_share(fit) * static_cast<double>(*fit.card->bandwidth_gb_s * kGB))};
    return at_least(fit, "memory_bandwidth", have, r.memory_bandwidth,
                    [](Bytes b) { return bytes_text(b) + "/s"; });
}

Verdict cpus(const Fit& fit) {
    std::optional<double> demand;
    if (fit.spec.resources.cpus) demand = *fit.spec.resources.cpus;
    return at_least(fit, "cpus", fit.offer.cpus, demand, plain);
}

Verdict memory(const Fit& fit) {
    if (auto low = at_least(fit, "memory", fit.offer.memory, fit.spec.resources.memory, bytes_text)) return low;
    const auto& above = fit.task.memory_above;
    if (!above || (fit.offer.memory && *fit.offer.memory > *above)) return std::nullopt;
    return refuse(fit, "memory_above", [&] {
        return (fit.offer.memory ? bytes_text(*fit.offer.memory) : std::string("memory that is not told")) +
               " is no more than the " + bytes_text(*above) + " that ran out";
    });
}

Verdict disk(const Fit& fit) {
    const Bytes demand{disk_gb(fit.spec) * kGB};
    if (!fit.offer.disk_max || *fit.offer.disk_max >= demand) return std::nullopt;
    return refuse(fit, "disk",
                  [&] { return bytes_text(*fit.offer.disk_max) + " is less than " + bytes_text(demand); });
}

Verdict cuda(const Fit& fit) {
    return version(fit, "cuda", fit.offer.cuda_max, fit.spec.resources.cuda);
}
Verdict driver(const Fit& fit) {
    return version(fit, "driver", fit.offer.driver, fit.spec.resources.driver);
}

Verdict region(const Fit& fit) {
    const auto& wanted = fit.spec.resources.regions;
    if (wanted.empty() || fit.local) return std::nullopt;
    const auto& country = fit.offer.country;
    if (country.empty())
        return refuse(fit, "region_unknown",
                      [&] { return "the country is not told, wanted " + joined(wanted); });
    if (std::ranges::any_of(wanted, [&](const auto& w) { return in_region(country, w); }))
        return std::nullopt;
    return refuse(fit, "region", [&] { return country + " is not in " + joined(wanted); });
}

Verdict reliability(const Fit& fit) {
    if (fit.local) return std::nullopt;
    return at_least(fit, "reliability", fit.offer.reliability, fit.spec.resources.reliability, plain);
}

/// Whoever owns a host can read all that runs on it, so what is secret goes only to the provider's own machines and to those
/// that it has vetted, unless the job says otherwise.
Verdict secrets_host(const Fit& fit) {
    const bool has_secrets = !fit.spec.secrets.empty() || fit.spec.image_auth.has_value();
    if (!has_secrets || fit.spec.secrets_on_any || fit.local || fit.offer.verified.value_or(false)) return std::nullopt;
    if (!fit.offer.verified)
        return refuse(fit, "verified_unknown", [] { return "whether the host is vetted is not told, and the job has secrets"; });
    return refuse(fit, "host_not_verified",
                  [] { return "the job has secrets, and secrets_on is verified: the host is not vetted"; });
}

Verdict registry_login(const Fit& fit) {
    const auto& provider = fit.offer.provider.get();
    if (!fit.spec.image_auth || !fit.world.no_logins.contains(provider)) return std::nullopt;
    return refuse(fit, "registry_logins_paused", [&] { return provider + " takes no login for a private image now"; });
}

Verdict inet_down(const Fit& fit) {
    return at_least(fit, "inet_down", fit.offer.inet_down_mbps, fit.spec.resources.inet_down_mbps,
                    [](double v) { return plain(v) + " Mbps"; });
}

Verdict lease(const Fit& fit) {
    if (!fit.offer.lease_end) return std::nullopt;
    const auto& duration = fit.spec.limits.duration;
    const Millis left = duration ? std::max(Millis{0}, *duration - fit.task.ran)
                                 : std::max(kLeaseDefault, fit.expected.value_or(Millis{0}));
    if (*fit.offer.lease_end >= fit.world.now + left + kLeaseMargin) return std::nullopt;
    return refuse(fit, "lease_ends_too_soon", [&] {
        return "the lease ends " + rfc3339(*fit.offer.lease_end) + ", needed are " + duration_text(left) +
               " and " + duration_text(kLeaseMargin) + " more";
    });
}

Verdict max_price(const Fit& fit) {
    const auto& cap = fit.spec.resources.max_price;
    if (!cap || fit.all_in <= *cap) return std::nullopt;
    return refuse(fit, "max_price",
                  [&] { return per_hour(fit.all_in) + " is over max_price " + dollars(*cap); });
}

Verdict cooled(const Fit& fit) {
    if (fit.world.cooled_offers.empty()) return std::nullopt;
    const auto found = fit.world.cooled_offers.find(offer_key(fit.offer.provider, fit.offer.id));
    if (found == fit.world.cooled_offers.end()) return std::nullopt;
    return refuse(fit, "offer_cooling_down", [&] { return "refused lately: " + found->second; });
}

Verdict host(const Fit& fit) {
    if (fit.offer.host_id.empty() || fit.world.bad_hosts.empty()) return std::nullopt;
    const auto found = fit.world.bad_hosts.find(fit.offer.provider.get() + "/" + fit.offer.host_id);
    if (found == fit.world.bad_hosts.end()) return std::nullopt;
    return refuse(fit, "bad_host", [&] { return "host " + fit.offer.host_id + ": " + found->second; });
}

Verdict host_reputation(const Fit& fit) {
    if (!fit.standing.out_until) return std::nullopt;
    return refuse(fit, "host_reputation", [&] { return standing_text(fit.standing, fit.world.now); });
}

Verdict taken(const Fit& fit) {
    if (fit.world.taken_offers.empty() || !fit.world.taken_offers.contains(offer_key(fit.offer.provider, fit.offer.id)))
        return std::nullopt;
    return refuse(fit, "offer_taken", [] { return "a machine of ours holds it"; });
}

Verdict balance(const Fit& fit) {
    const auto found = fit.world.balances.find(fit.offer.provider.get());
    if (found == fit.world.balances.end()) return std::nullopt;
    const Usd hour = cost(fit.all_in, std::chrono::hours{1});
    if (found->second >= hour) return std::nullopt;
    return refuse(fit, "balance", [&] {
        return "$" + dollars(found->second) + " left at " + fit.offer.provider.get() +
               " does not pay an hour ($" + dollars(hour) + ")";
    });
}

Verdict quota_machines(const Fit& fit) {
    if (fit.local || fit.world.machines < fit.world.machines_max) return std::nullopt;
    return refuse(fit, "quota_machines",
                  [&] { return "quotas.machines is " + std::to_string(fit.world.machines_max); });
}

Verdict quota_rate(const Fit& fit) {
    const auto& most = fit.world.fleet_rate_max;
    if (!most || fit.world.fleet_rate + fit.all_in <= *most) return std::nullopt;
    return refuse(fit, "quota_usd_per_hour", [&] {
        return per_hour(fit.world.fleet_rate) + " now and " + per_hour(fit.all_in) +
               " more is over quotas.usd_per_hour " + dollars(*most);
    });
}

const ProviderQuota* provider_quota(const Fit& fit) {
    const auto found = fit.world.provider_quotas.find(fit.offer.provider.get());
    return found == fit.world.provider_quotas.end() ? nullptr : &found->second;
}

Verdict quota_provider_machines(const Fit& fit) {
    const ProviderQuota* quota = provider_quota(fit);
    if (quota == nullptr || !quota->machines_max || quota->machines < *quota->machines_max) return std::nullopt;
    return refuse(fit, "quota_provider_machines", [&] {
        return "quotas.providers." + fit.offer.provider.get() + ".machines is " + std::to_string(*quota->machines_max);
    });
}

Verdict quota_provider_rate(const Fit& fit) {
    const ProviderQuota* quota = provider_quota(fit);
    if (quota == nullptr || !quota->rate_max || quota->rate + fit.all_in <= *quota->rate_max) return std::nullopt;
    return refuse(fit, "quota_provider_usd_per_hour", [&] {
        return per_hour(quota->rate) + " now and " + per_hour(fit.all_in) + " more is over quotas.providers." +
               fit.offer.provider.get() + ".usd_per_hour " + dollars(*quota->rate_max);
    });
}

// The standing facts of provider and demand first, then the passing state of the market, then money: so that
// the counts say what would have to change.
constexpr auto kFilters = std::to_array<Filter>({provider_wanted,
                                                 provider_usable,
                                                 reachable,
                                                 arch,
                                                 spot,
                                                 price_real,
                                                 bid_enough,
                                                 gpu_count,
                                                 gpu_name,
                                                 gpu_vendor,
                                                 gpu_slice,
                                                 vram,
                                                 gpu_abilities,
                                                 memory_bandwidth,
                                                 cpus,
                                                 memory,
                                                 disk,
                                                 cuda,
                                                 driver,
                                                 region,
                                                 reliability,
                                                 secrets_host,
                                                 registry_login,
                                                 inet_down,
                                                 lease,
                                                 in_stock,
                                                 cooled,
                                                 host,
                                                 host_reputation,
                                                 taken,
                                                 max_price,
                                                 balance,
                                                 quota_machines,
                                                 quota_rate,
                                                 quota_provider_machines,
                                                 quota_provider_rate});

// What the first of them may read is promised in the header.
static_assert(kFilters[kMarketFilters - 1] == bid_enough && kFilters[kCountFilters - 1] == gpu_count);
static_assert(kFilters[kCardFilters - 1] == memory_bandwidth);
constexpr auto kState = std::find(kFilters.begin(), kFilters.end(), in_stock), kMoney = std::find(kState, kFilters.end(), max_price);

}  // namespace

std::string offer_key(const ProviderName& provider, const std::string& id) {
    return provider.get() + "/" + id;
}

std::span<const Filter> demand_filters() { return {kFilters.begin() + kCardFilters, kState}; }
std::span<const Filter> state_filters() { return {kState, kMoney}; }
std::span<const Filter> money_filters() { return {kMoney, kFilters.end()}; }
Filter region_filter() { return region; }

std::span<const Filter> filters() {
    return kFilters;
}

OfferFacts offer_facts(const Offer& offer, const ChoiceWorld& world) {
    OfferFacts facts{.vram = offer.gpu.memory, .standing = {}, .local = offer.provider.get() == kLocal};
    if (world.gpus != nullptr && !offer.gpu.canonical.empty()) facts.card = world.gpus->card(offer.gpu.canonical);
    if (facts.vram && facts.vram->count <= 0) facts.vram.reset();
    if (!facts.vram && facts.card != nullptr)
        facts.vram = facts.card->reported ? facts.card->reported : std::optional(Bytes{facts.card->class_gb * kGiB});
    if (world.host_marks && !facts.local) facts.standing = standing(*world.host_marks, offer, world.now);
    return facts;
}

Fit make_fit(const JobSpec& spec, const TaskRecord& task, const Offer& offer, const ChoiceWorld& world) {
    return make_fit(spec, task, offer, world, offer_facts(offer, world));
}

Fit make_fit(const JobSpec& spec, const TaskRecord& task, const Offer& offer, const ChoiceWorld& world,
             const OfferFacts& facts) {
    return Fit{.spec = spec,
               .task = task,
               .offer = offer,
               .world = world,
               .card = facts.card,
               .vram = facts.vram,
               .all_in = offer.gpu_rate + disk_rate(offer, disk_gb(spec)),
               .standing = facts.standing,
               .local = facts.local,
               .explain = false,
               .expected = {}};
}

double card_share(const Fit& fit) { return card_share(fit.offer, fit.card); }

double card_share(const Offer& offer, const GpuCard* card) {
    if (offer.gpu_share < 1) return std::max(0.0, offer.gpu_share);
    const auto& memory = offer.gpu.memory;
    if (card == nullptr || !memory || card->class_gb <= 0) return 1;
    const double of_class = static_cast<double>(memory->count) / (card->class_gb * static_cast<double>(kGiB));
    return of_class < kWholeCard ? of_class : 1;
}

std::vector<PriceLine> price_lines(const JobSpec& spec, const Offer& offer) {
    std::vector<PriceLine> lines{{"gpu", offer.gpu_rate}};
    if (const auto disk = disk_rate(offer, disk_gb(spec)); disk.micros != 0) lines.push_back({"disk", disk});
    return lines;
}

}  // namespace gf
