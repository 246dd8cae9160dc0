#include "providers/runpod/adapter.hpp"

#include <fmt/format.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <set>

#include "providers/container_sshd.hpp"
#include "providers/runpod/mapping.hpp"

namespace gf::runpod {
namespace {

/// Of those that are ours at RunPod. A pod's name is longer, and no person types it.
std::string login_prefix(const std::string& install) {
    return install.empty() ? "gpuferry-" : "gf-" + install + "-";
}
constexpr std::size_t kLoginHash = 16;

bool is_hash(std::string_view text) {
    return text.size() == kLoginHash && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string whole_seconds(Instant t) {
    return rfc3339(t).substr(0, 19) + "Z";
}

/// What is missing of this part of the market says nothing.
void not_read(OfferList& out, const std::string& cloud, int count, bool spot) {
    out.reaches.push_back({.gpu_count = count, .spot = spot, .card = {}, .place = "cloud/" + cloud, .up_to = UsdPerHour{0}});
}

Finding finding(Finding::Level level, std::string what, std::string text) {
    return {.level = level, .what = std::move(what), .text = std::move(text)};
}

}  // namespace

Adapter::Adapter(AdapterSettings settings, HttpClient& http, Clock& clock, GpuLookup lookup, std::uint64_t seed)
    : settings_(std::move(settings)),
      client_(settings_.client, http, clock, seed),
      clock_(clock),
      lookup_(std::move(lookup)),
      proof_(clock) {}

Capabilities Adapter::capabilities() const {
    // A stopped pod's container disk is erased and free; we never ask for a volume, so nothing of ours bills
    // while stopped. `ssh` stays false: a pod has an sshd for us only where its image brings one or apt-get can fetch it.
    return {.spot = settings_.spot && client_.has_balance(),
            .balance = client_.has_balance(),
            .is_local = false,
            .listing_has_env = true,
            .per_disk_price = false,
            .charges = true};
}

Result<OfferList> Adapter::offers(const OfferQuery& query) {
    OfferList out;
    Shapes shapes;
    const std::set<int> counts(query.gpu_counts.begin(), query.gpu_counts.end());
    for (const auto& cloud : settings_.clouds) {
        bool closed = false;
        for (const int count : counts) {
            if (count < 1 || closed) continue;
            if (query.on_demand)
                if (auto added = add_on_demand(cloud, count, out, shapes, closed); !added)
                    return fail(std::move(added).error());
            if (query.spot && capabilities().spot && !closed) add_spot(cloud, count, out);
        }
        if (closed)
            for (const int count : counts)
                for (const bool spot : {false, true}) not_read(out, cloud, count, spot);
    }
    market_canary_.look(out);
    for (auto& drift : catalog_shapes_.look(shapes)) out.drift.push_back(std::move(drift));
    return out;
}

Result<void> Adapter::add_on_demand(const std::string& cloud, int count, OfferList& out, Shapes& shapes, bool& closed) {
    const auto reply = client_.gpus(cloud == "secure" ? "SECURE" : "COMMUNITY", count);
    if (closed_to_account(reply.answer)) {
        // The other cloud may be open, and whoever is refused a pool still has a good key.
        out.rejected.push_back({.id = cloud, .reason = "cloud_not_allowed"});
        closed = true;
        return {};
    }
    if (!reply.value) return fail(read_error(reply.answer, "read the GPU catalog"));
    add(shapes, reply.shapes);
    for (const auto& gpu : *reply.value) {
        auto mapped = offer_of(gpu, cloud, count, lookup_);
        if (!mapped) continue;
        // The catalog comes whole whatever is wanted, so nothing of it is dropped.
        if (auto* offer = std::get_if<Offer>(&*mapped))
            out.offers.push_back(std::move(*offer));
        else
            out.rejected.push_back(std::get<RejectedOffer>(*std::move(mapped)));
    }
    return {};
}

void Adapter::add_spot(const std::string& cloud, int count, OfferList& out) {
    const auto id = fmt::format("spot/{}/{}", cloud, count);
    {
        const std::lock_guard lock(spot_mutex_);
        if (spot_pause_.holds(clock_.now())) {
            out.rejected.push_back({.id = id, .reason = "spot_paused"});
            return not_read(out, cloud, count, true);
        }
    }
    // The market that is on its way out never takes the other one along.
    const auto reply = client_.spot_types(cloud == "secure" ? "SECURE" : "COMMUNITY", count);
    if (!reply.value) {
        out.rejected.push_back({.id = id, .reason = "spot_not_readable"});
        return not_read(out, cloud, count, true);
    }
    for (const auto& gpu : *reply.value) {
        auto mapped = spot_offer_of(gpu, cloud, count, lookup_);
        if (!mapped) continue;
        if (auto* offer = std::get_if<Offer>(&*mapped))
            out.offers.push_back(std::move(*offer));
        else
            out.rejected.push_back(std::get<RejectedOffer>(*std::move(mapped)));
    }
}

LaunchOutcome Adapter::launch(const LaunchRequest& request) {
    const auto offer = parse_offer_id(request.offer.id);
    const auto refused = [&](std::string why) {
        return LaunchOutcome{
            .id = {},
            .error = Error{.kind = ErrorKind::refused,
                           .message = fmt::format("RunPod, create pod: '{}' {}", request.offer.id, why)},
            .rate = {}};
    };
    if (!offer) return refused("is no offer of RunPod");
    if (offer->spot != request.bid.has_value() || offer->spot != request.offer.spot)
        return refused("does not go with that bid: spot pods have one, on-demand pods none");
    if (offer->spot && !capabilities().spot) return refused("is of the spot market, which is switched off");
    if (request.bid && request.bid->micros / offer->count < 1'000) return refused("needs a bid of at least $0.001 per GPU");
    if (request.ssh && !is_plain_public_key(request.ssh->client_public)) return refused("needs a plain public key for ssh");
    std::string registry;
    std::vector<Secret> secrets;
    if (const auto enrol = request.env.find("GPUFERRY_ENROL"); enrol != request.env.end())
        secrets.emplace_back(enrol->second);
    if (request.registry) {
        auto id = registry_id(*request.registry);
        if (!id) return {.id = {}, .error = std::move(id).error(), .rate = {}};
        registry = *std::move(id);
        secrets.push_back(request.registry->password);
    }
    const auto create = create_request(request, *offer, std::move(registry));
    if (offer->spot) return launch_spot(create, secrets);
    auto reply = client_.create(create, secrets);
    settle_blame(reply.answer);
    if (reply.answer.success() && reply.value) proof_.note();
    return outcome_of(reply);
}

LaunchOutcome Adapter::launch_spot(const CreateRequest& request, const std::vector<Secret>& secrets) {
    auto reply = client_.rent_spot(request, secrets);
    settle_blame(reply.answer);
    auto outcome = spot_outcome_of(reply);
    const std::lock_guard lock(spot_mutex_);
    if (!outcome.launch.error)
        spot_pause_.succeeded();
    else
        spot_pause_.failed(clock_.now(), outcome.closed);
    return std::move(outcome.launch);
}

Result<Listing> Adapter::list() {
    const auto reply = client_.pods();
    if (!reply.value) {
        auto error = read_error(reply.answer, "list pods");
        if (error.kind == ErrorKind::auth) proof_.revoke();
        return fail(std::move(error));
    }
    proof_.note();
    Listing listing;
    for (const auto& pod : *reply.value) listing.machines.push_back(machine_of(pod, lookup_));
    listing.drift = listing_shapes_.look(reply.shapes);
    rate_canary_.look(listing);
    return listing;
}

Result<ProviderMachine> Adapter::read(const ProviderMachineId& id) {
    auto reply = client_.pod(id.get());
    settle_blame(reply.answer);
    if (reply.value) {
        proof_.note();
        auto machine = machine_of(*reply.value, lookup_);
        rate_canary_.look(machine);
        return machine;
    }
    if (!says_no_such_pod(reply.answer)) {
        auto error = read_error(reply.answer, "read pod");
        if (error.kind == ErrorKind::auth) proof_.revoke();
        return fail(std::move(error));
    }
    if (auto proved = prove_key(); !proved) return fail(std::move(proved).error());
    ProviderMachine gone;
    gone.id = id;
    gone.presence = Presence::gone;
    gone.raw_state = "404";
    return gone;
}

Result<void> Adapter::destroy(const ProviderMachineId& id) {
    auto answer = client_.terminate(id.get());
    settle_blame(answer);
    if (answer.success()) proof_.note();
    auto asked = destroyed(answer);
    if (!asked && asked.error().kind == ErrorKind::auth) proof_.revoke();
    return asked;
}

Result<Usd> Adapter::balance() {
    if (!client_.has_balance())
        return fail(ErrorKind::not_found, "RunPod, balance: no GraphQL address is configured");
    const auto reply = client_.balance();
    if (reply.value) {
        if (const auto micros = read_amount(*reply.value)) return Usd{*micros};
        return fail(ErrorKind::malformed, "RunPod, balance: clientBalance is not a number");
    }
    auto error = read_error(reply.answer, "balance");
    // GraphQL ends in early 2027 and restricted keys may not use it; the balance is then simply not to be
    // had, and a create's 402 is what remains. Only a passing trouble is reported as such.
    if (error.kind != ErrorKind::unavailable && error.kind != ErrorKind::rate_limited)
        error.kind = ErrorKind::not_found;
    return fail(std::move(error));
}

Result<void> Adapter::rename(const ProviderMachineId& id, const std::string& name) {
    const auto seen = read(id);
    if (!seen) return fail(seen.error());
    if (seen->presence == Presence::gone)
        return fail(ErrorKind::not_found, fmt::format("RunPod, rename pod: there is no pod {}", id.get()));
    if (seen->tag == name) return {};
    if (seen->presence == Presence::running || seen->presence == Presence::unknown)
        return fail(ErrorKind::conflict, "RunPod, rename pod: editing a running pod resets its container");
    auto answer = client_.rename(id.get(), name);
    settle_blame(answer);
    if (answer.success()) return {};
    return fail(read_error(answer, "rename pod"));
}

Result<std::vector<Charge>> Adapter::charges(Instant from, Instant until) {
    const auto reply = client_.billing(whole_seconds(from), whole_seconds(until));
    if (!reply.value) return fail(read_error(reply.answer, "read the billing records"));
    std::vector<Charge> out;
    for (const auto& record : *reply.value) {
        auto charge = charge_of(record);
        if (!charge)
            return fail(ErrorKind::malformed, fmt::format("RunPod, read the billing records: one of pod '{}' has no readable "
                                                          "time or amount",
                                                          record.pod_id));
        out.push_back(*std::move(charge));
    }
    return out;
}

std::vector<Finding> Adapter::check() {
    using enum Finding::Level;
    std::vector<Finding> out;
    const auto listing = list();
    if (!listing) {
        const auto& e = listing.error();
        if (e.kind == ErrorKind::auth)
            out.push_back(finding(failed, "key",
                                  "RunPod refuses the key (" + e.message +
                                      "). Make one in its console under Settings > API Keys, with permission All, or "
                                      "Restricted with read and write for pods, and put it into RUNPOD_API_KEY."));
        else if (e.kind == ErrorKind::api_retired)
            out.push_back(finding(failed, "api", "RunPod no longer serves this API (" + e.message +
                                                     "). Check providers.runpod.api_url, or take a newer gpuferry."));
        else
            out.push_back(finding(failed, "listing", "the pods cannot be listed: " + e.message));
        return out;
    }
    out.push_back(finding(ok, "key", "accepted. Whether it may also create pods is only seen by creating one: it needs All, or "
                                     "Restricted with read and write for pods."));
    out.push_back(finding(listing->drift.empty() ? ok : failed, "listing",
                          listing->drift.empty() ? fmt::format("{} pods in the account", listing->machines.size())
                                                 : "the answers are not as documented: " + listing->drift.front().detail));

    const auto market = offers({.spot = false});
    if (!market) {
        out.push_back(finding(failed, "offers", "the GPU catalog cannot be read: " + market.error().message));
    } else {
        const auto stocked = std::ranges::count_if(market->offers, [](const Offer& o) { return o.stock != 0; });
        const auto closed = std::ranges::count(market->rejected, "cloud_not_allowed", &RejectedOffer::reason);
        if (!market->drift.empty())
            out.push_back(finding(failed, "offers", "the catalog is not as documented: " + market->drift.front().detail));
        else if (closed > 0)
            out.push_back(finding(warning, "scope", fmt::format("{} of the configured clouds are closed to this key or account",
                                                                closed)));
        else
            out.push_back(finding(stocked > 0 ? ok : warning, "offers",
                                  fmt::format("{} kinds of single GPUs, {} with stock", market->offers.size(), stocked)));
    }

    if (const auto billed = charges(clock_.now() - std::chrono::hours{1}, clock_.now()); !billed)
        out.push_back(finding(warning, "scope", "the billing records cannot be read (" + billed.error().message +
                                                    "). What gpuferry counts as cost does not depend on them."));
    if (!client_.has_balance()) {
        out.push_back(finding(warning, "money", "the balance is not asked for: providers.runpod.graphql_url is empty"));
        return out;
    }
    const auto account = client_.account();
    const auto balance = account.value ? read_amount(account.value->balance) : std::nullopt;
    if (!balance) {
        out.push_back(finding(warning, "money", "the balance cannot be read (" + read_error(account.answer, "balance").message +
                                                    "). Creates are refused when it is empty."));
        return out;
    }
    // RunPod wants an hour of the pod's price in the account before it rents.
    const bool empty = *balance <= 0 || account.value->under_balance == true;
    out.push_back(finding(empty ? failed : ok, "money",
                          fmt::format("${} left{}", dollars(*balance), empty ? ": add funds in the console under Billing" : "")));
    const auto limit = read_amount(account.value->spend_limit);
    const auto spending = read_amount(account.value->spend_per_hour);
    if (limit && *limit > 0) {
        const bool reached = spending && *spending >= *limit;
        out.push_back(finding(reached ? failed : ok, "quota",
                              fmt::format("spending ${} of at most ${} per hour{}", dollars(spending.value_or(0)), dollars(*limit),
                                          reached ? ": no pod is rented until some are gone or the limit is raised" : "")));
    }
    return out;
}

Result<void> Adapter::tidy() {
    const auto known = client_.registries();
    if (!known.value) return fail(read_error(known.answer, "read the stored registry logins"));
    const auto prefix = login_prefix(settings_.install);
    for (const auto& login : *known.value) {
        if (login.id.empty() || !login.name.starts_with(prefix) || !is_hash(std::string_view(login.name).substr(prefix.size())))
            continue;
        const auto answer = client_.delete_registry(login.id);
        // 400: a pod uses it; 404: gone already. Both will do.
        if (!answer.success() && answer.status != 400 && answer.status != 404)
            return fail(read_error(answer, "remove a stored registry login"));
    }
    return {};
}

/// The same for the same credentials, so that each login is stored once. The hash covers the password: a changed one gets an
/// entry of its own, since entries can be neither read nor changed.
std::string Adapter::login_name(const RegistryLogin& login) const {
    const auto all = fmt::format("{}\n{}\n{}", login.server, login.username, login.password.reveal());
    std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
    SHA256(reinterpret_cast<const unsigned char*>(all.data()), all.size(), digest.data());
    auto name = login_prefix(settings_.install);
    for (std::size_t i = 0; i < kLoginHash / 2; ++i) name += fmt::format("{:02x}", digest[i]);
    return name;
}

Result<void> Adapter::prove_key() {
    if (proof_.fresh()) return {};
    const auto answer = client_.probe();
    if (!answer.success() || answer.shape != Shape::object) {
        auto error = read_error(answer, "check the key before a 404 counts");
        if (error.kind == ErrorKind::auth) proof_.revoke();
        return fail(std::move(error));
    }
    proof_.note();
    return {};
}

void Adapter::settle_blame(Answer& answer) {
    if (!doubts_key(answer)) return;
    proof_.revoke();
    answer.key_good = prove_key().has_value();
}

Result<std::string> Adapter::registry_id(const RegistryLogin& login) {
    const auto name = login_name(login);
    const auto known = client_.registries();
    if (!known.value) return fail(login_error(known.answer, "read the stored registry logins", false));
    const auto it = std::ranges::find(*known.value, name, &Registry::name);
    if (it != known.value->end() && !it->id.empty()) return it->id;
    const auto made = client_.create_registry(name, login.username, login.password);
    if (!made.value) return fail(login_error(made.answer, "store the registry login", true));
    return made.value->id;
}

}  // namespace gf::runpod
