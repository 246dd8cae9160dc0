#include "providers/vultr/adapter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "providers/vultr/mapping.hpp"

namespace gf::vultr {
namespace {

constexpr Millis kRegionsAge{std::chrono::hours{24}};
// Prices of what already runs: asked again this often, and for a plan that is not known no sooner than the
// second.
constexpr Millis kPlansAge{std::chrono::hours{1}};
constexpr Millis kPlansRetry{std::chrono::minutes{1}};
// When an offer is about to be rented only its price is read anew: stock this young is tried, and a create
// says whether it is still there.
constexpr Millis kStockAge{std::chrono::minutes{1}};

}  // namespace

Adapter::Adapter(std::string api_url, Secret key, HttpClient& http, Clock& clock, GpuLookup lookup,
                 std::uint64_t seed)
    : client_(std::move(api_url), std::move(key), http, clock, seed),
      clock_(clock),
      lookup_(std::move(lookup)),
      proof_(clock) {}

Result<OfferList> Adapter::offers(const OfferQuery& query) {
    OfferList out;
    if (!query.on_demand && !query.spot) return out;
    // The stock of all regions is some thirty calls in a row, ten seconds from far away. The prices come
    // last, because it is their age that counts when an offer is rented.
    const auto stock = read_stock(query, out);
    if (!stock) return fail(stock.error());
    const auto asked = clock_.now();
    const auto plans = read_plans(&out);
    if (!plans) return fail(plans.error());

    // What cannot be an offer anywhere is said once, and not per region.
    std::map<std::string, const Plan*> wanted;
    const std::set<int> counts(query.gpu_counts.begin(), query.gpu_counts.end());
    for (const auto& [id, plan] : *plans) {
        if (!has_gpu(plan)) continue;
        if (!(is_preemptible(plan) ? query.spot : query.on_demand)) continue;
        const auto gpus = gpus_of(plan, lookup_);
        if (!gpus.reason.empty())
            out.rejected.push_back({.id = id, .reason = gpus.reason});
        else if (counts.contains(gpus.count))
            wanted.emplace(id, &plan);
    }
    for (const auto& [region, in_stock] : *stock) {
        std::set<std::string> taken;
        for (const auto& id : in_stock) {
            const auto plan = wanted.find(id);
            if (plan == wanted.end() || !taken.insert(id).second) continue;
            auto mapped = offer_of(*plan->second, region, lookup_);
            if (auto* offer = std::get_if<Offer>(&mapped))
                out.offers.push_back(std::move(*offer));
            else
                out.rejected.push_back(std::get<RejectedOffer>(std::move(mapped)));
        }
    }
    for (const int count : counts) {
        if (query.on_demand) out.reads.push_back({.gpu_count = count, .spot = false, .at = asked});
        if (query.spot) out.reads.push_back({.gpu_count = count, .spot = true, .at = asked});
    }
    market_canary_.look(out);
    return out;
}

Result<std::vector<Adapter::RegionStock>> Adapter::read_stock(const OfferQuery& query, OfferList& out) {
    const auto regions = known_regions();
    if (!regions) return fail(regions.error());
    std::vector<RegionStock> all;
    std::optional<Error> lost;
    for (const auto& region : *regions) {
        if (!query.demands.regions.empty() && query.look != Look::sweep &&
            std::ranges::none_of(query.demands.regions,
                                 [&](const auto& r) { return in_region(region.country, r); }))
            continue;
        if (query.look == Look::rent)
            if (auto known = known_stock(region.id)) {
                all.push_back({.region = region, .plans = *std::move(known)});
                continue;
            }
        const auto asked = clock_.now();
        // `locations` of a plan say where it may exist in principle (and those of whole nodes nothing at
        // all); only this is stock.
        auto reply = client_.stock(region.id);
        if (reply.value) {
            const std::lock_guard lock(mutex_);
            stock_[region.id] = {.plans = *reply.value, .at = asked};
            all.push_back({.region = region, .plans = *std::move(reply.value)});
            continue;
        }
        auto error = seen(read_error(reply.answer, "read the stock of " + region.id));
        // What holds for the account or the address holds for the other regions too.
        if (reply.answer.paced || error.kind == ErrorKind::auth || error.kind == ErrorKind::rate_limited)
            return fail(std::move(error));
        out.rejected.push_back({.id = region.id, .reason = "stock_unreadable"});
        for (const int count : query.gpu_counts)
            for (const bool spot : {false, true})
                out.reaches.push_back({.gpu_count = count, .spot = spot, .card = {}, .place = "data_center/" + region.id, .up_to = UsdPerHour{0}});
        lost = std::move(error);
    }
    if (lost) {
        // It may be a region that is no more.
        const std::lock_guard lock(mutex_);
        regions_.clear();
        if (all.empty()) return fail(*std::move(lost));
    }
    // Whoever is not recognised gets an empty stock with status 200; no region sells nothing at all.
    if (query.demands.regions.empty() && !lost && !all.empty() &&
        std::ranges::all_of(all, [](const RegionStock& r) { return r.plans.empty(); }))
        out.drift.push_back({.what = "stock_empty",
                             .detail = "no region of Vultr has any plan in stock, not even without GPUs"});
    return all;
}

std::optional<std::vector<std::string>> Adapter::known_stock(const std::string& region) {
    const std::lock_guard lock(mutex_);
    const auto known = stock_.find(region);
    if (known == stock_.end() || clock_.now() - known->second.at >= kStockAge) return std::nullopt;
    return known->second.plans;
}

Result<Adapter::Catalogue> Adapter::read_plans(OfferList* out) {
    {
        const std::lock_guard lock(mutex_);
        plans_at_ = clock_.now();
    }
    Catalogue plans;
    Shapes shapes;
    // Whole nodes were missing from the first of these at times, and once one from the second.
    for (const std::string type : {"all", "vcg", "vdm"}) {
        auto reply = client_.plans(type);
        if (!reply.value) {
            auto error = seen(read_error(reply.answer, "list plans"));
            if (type == "all" || error.kind == ErrorKind::auth) return fail(std::move(error));
            // The others only fill gaps of the first: without them it is what is for sale as far as is known.
            if (out != nullptr)
                out->rejected.push_back({.id = "plans?type=" + type, .reason = "list_unreadable"});
            continue;
        }
        add(shapes, reply.value->shapes);
        for (auto& plan : reply.value->plans) {
            auto id = plan.id;
            if (!id.empty()) plans.insert_or_assign(std::move(id), std::move(plan));
        }
        if (out != nullptr)
            for (auto& drift : reply.value->drift) out->drift.push_back(std::move(drift));
    }
    auto drift = plans_watch_.look(shapes);
    if (out != nullptr) std::ranges::move(drift, std::back_inserter(out->drift));
    const std::lock_guard lock(mutex_);
    // A plan that is sold no more may still have machines of ours.
    for (const auto& [id, plan] : plans) plans_.insert_or_assign(id, plan);
    return plans;
}

Result<std::vector<Region>> Adapter::known_regions() {
    {
        const std::lock_guard lock(mutex_);
        if (!regions_.empty() && clock_.now() - regions_at_ < kRegionsAge) return regions_;
    }
    auto reply = client_.regions();
    if (!reply.value) return fail(seen(read_error(reply.answer, "list regions")));
    const std::lock_guard lock(mutex_);
    regions_ = *std::move(reply.value);
    regions_at_ = clock_.now();
    return regions_;
}

Result<std::int64_t> Adapter::system() {
    {
        const std::lock_guard lock(mutex_);
        if (system_) return *system_;
    }
    const auto reply = client_.systems();
    if (!reply.value) return fail(before_create(reply.answer, "list operating systems"));
    const auto id = system_id(*reply.value);
    if (!id)
        return fail(ErrorKind::unavailable,
                    "Vultr, list operating systems: there is no Ubuntu 22.04 for x64");
    const std::lock_guard lock(mutex_);
    system_ = id;
    return *id;
}

LaunchOutcome Adapter::launch(const LaunchRequest& request) {
    // What is no offer of Vultr's is refused before anything is asked.
    if (auto possible = create_call(request, 0); !possible)
        return {.id = {}, .error = possible.error(), .rate = {}};
    const auto os = system();
    if (!os) return {.id = {}, .error = seen(os.error()), .rate = {}};
    const auto call = create_call(request, *os);
    // An echo of the request shows the user data in base64, which hides nothing.
    std::vector<Secret> secrets{Secret(call->user_data)};
    if (const auto enrol = request.env.find("GPUFERRY_ENROL");
        enrol != request.env.end() && !enrol->second.empty())
        secrets.emplace_back(enrol->second);
    auto reply = client_.create(*call, secrets);
    settle_blame(reply.answer);
    if (reply.answer.ok() && reply.value) proof_.note();
    auto outcome = outcome_of(reply);
    if (!outcome.error) return outcome;
    outcome.error = seen(*std::move(outcome.error));
    if (outcome.error->kind == ErrorKind::no_capacity) {
        const std::lock_guard lock(mutex_);
        stock_.erase(call->region);
    }
    return outcome;
}

void Adapter::learn_plans(const std::vector<Instance>& instances) {
    {
        const std::lock_guard lock(mutex_);
        const bool unknown =
            std::ranges::any_of(instances, [&](const Instance& i) { return !plans_.contains(i.plan); });
        const auto age = plans_at_ ? clock_.now() - *plans_at_ : Millis::max();
        if (instances.empty() || age < (unknown ? kPlansRetry : kPlansAge)) return;
    }
    // Whether it worked shows in the rates, which are unknown otherwise.
    (void)read_plans(nullptr);
}

ProviderMachine Adapter::machine(const Instance& instance) {
    const std::lock_guard lock(mutex_);
    const auto plan = plans_.find(instance.plan);
    return machine_of(instance, plan == plans_.end() ? nullptr : &plan->second, lookup_);
}

Result<Listing> Adapter::list() {
    const auto reply = client_.instances();
    if (!reply.value) return fail(seen(read_error(reply.answer, "list instances")));
    proof_.note();
    learn_plans(*reply.value);
    Listing listing;
    for (const auto& instance : *reply.value) listing.machines.push_back(machine(instance));
    rate_canary_.look(listing);
    return listing;
}

Result<ProviderMachine> Adapter::read(const ProviderMachineId& id) {
    auto reply = client_.instance(id.get());
    settle_blame(reply.answer);
    if (reply.value) {
        proof_.note();
        learn_plans({*reply.value});
        auto seen_now = machine(*reply.value);
        rate_canary_.look(seen_now);
        return seen_now;
    }
    if (!says_no_such_instance(reply.answer)) return fail(seen(read_error(reply.answer, "read instance")));
    if (auto proved = prove_key(); !proved) return fail(std::move(proved).error());
    ProviderMachine gone;
    gone.id = id;
    gone.presence = Presence::gone;
    gone.raw_state = fmt::format("{} {}", reply.answer.status, reply.answer.text);
    return gone;
}

Result<void> Adapter::destroy(const ProviderMachineId& id) {
    auto answer = client_.destroy(id.get());
    settle_blame(answer);
    if (says_pending_destruction(answer) || (answer.success() && answer.text.empty())) {
        proof_.note();
        return {};
    }
    if (says_no_such_instance(answer)) return prove_key();
    if (answer.delivery == Delivery::answered && answer.status >= 200 && answer.status < 300)
        return settle_destroy(id, answer);
    return fail(seen(destroy_error(answer)));
}

Result<void> Adapter::settle_destroy(const ProviderMachineId& id, const Answer& answer) {
    // A success by status with an error in its body ("not found"): whether the machine is there tells.
    const auto now = read(id);
    if (now && now->presence == Presence::gone) return {};
    return fail(seen(destroy_error(answer)));
}

Result<Usd> Adapter::balance() {
    const auto reply = client_.account();
    if (!reply.value) return fail(seen(read_error(reply.answer, "read the account")));
    return available(*reply.value);
}

Result<void> Adapter::rename(const ProviderMachineId& id, const std::string& name) {
    auto answer = client_.rename(id.get(), name);
    settle_blame(answer);
    if (!answer.ok()) return fail(seen(read_error(answer, "rename instance")));
    proof_.note();
    return {};
}

Result<std::vector<Charge>> Adapter::charges(Instant from, Instant until) {
    const auto reply = client_.pending_charges();
    if (!reply.value) return fail(seen(read_error(reply.answer, "read pending charges")));
    return charges_of(*reply.value, from, until);
}

std::vector<Finding> Adapter::check() {
    using Level = Finding::Level;
    std::vector<Finding> out;
    const auto instances = client_.instances();
    if (!instances.value) {
        // The key is the matter of every call: what follows would only say it again.
        out.push_back(finding_of(instances.answer, "list instances"));
        return out;
    }
    proof_.note();
    out.push_back(
        {.level = Level::ok, .what = "key", .text = "the key is good, and may be used from this address"});
    out.push_back({.level = Level::ok,
                   .what = "listing",
                   .text = fmt::format("{} instances", instances.value->size())});
    const auto account = client_.account();
    if (!account.value) {
        auto finding = finding_of(account.answer, "read the account");
        // Machines can be rented without: only the balance is not to be had.
        if (finding.what == "scope") finding.level = Level::warning;
        out.push_back(std::move(finding));
    } else {
        for (const auto* right : {"subscriptions", "provisioning"})
            if (!account.value->acls.empty() &&
                std::ranges::find(account.value->acls, right) == account.value->acls.end())
                out.push_back({.level = Level::failed,
                               .what = "scope",
                               .text = fmt::format(
                                   "the key's user lacks the right \"{}\": without it no machine can be "
                                   "created or destroyed",
                                   right)});
        // Without credit everything hangs on a payment method, and whether there is one is not told.
        if (const auto left = available(*account.value); !left)
            out.push_back({.level = Level::warning, .what = "money", .text = left.error().message});
        else
            out.push_back(
                {.level = left->micros > 0 ? Level::ok : Level::warning,
                 .what = "money",
                 .text = fmt::format("{}${} left after what is pending{}", left->micros < 0 ? "-" : "",
                                     dollars(Usd{std::abs(left->micros)}),
                                     left->micros > 0 ? "" : ": the credit is used up")});
    }
    const auto market = offers({.gpu_counts = {1, 2, 4, 6, 8, 16}});
    if (!market) {
        out.push_back({.level = Level::failed, .what = "offers", .text = market.error().message});
        return out;
    }
    out.push_back(
        {.level = market->offers.empty() ? Level::warning : Level::ok,
         .what = "offers",
         .text = fmt::format("{} GPU plans in stock, counted per region{}", market->offers.size(),
                             market->offers.empty() ? ": nothing can be rented at the moment" : "")});
    for (const auto& drift : market->drift)
        out.push_back(
            {.level = Level::failed, .what = "api", .text = fmt::format("{}: {}", drift.what, drift.detail)});
    return out;
}

Result<void> Adapter::prove_key() {
    if (proof_.fresh()) return {};
    const auto answer = client_.probe();
    if (!answer.ok()) return fail(seen(read_error(answer, "check the key before \"not there\" counts")));
    proof_.note();
    return {};
}

void Adapter::settle_blame(Answer& answer) {
    if (!doubts_key(answer)) return;
    proof_.revoke();
    answer.key_good = prove_key().has_value();
}

Error Adapter::seen(Error error) {
    if (error.kind == ErrorKind::auth) proof_.revoke();
    return error;
}

}  // namespace gf::vultr
