#include "providers/runpod/adapter.hpp"

#include <fmt/format.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <set>

#include "providers/runpod/mapping.hpp"

namespace gf::runpod {
namespace {

/// A name that is the same for the same credentials, so that each login is stored once. The hash covers the
/// password: a changed one gets an entry of its own, since entries can be neither read nor changed.
std::string login_name(const RegistryLogin& login) {
    const auto all = fmt::format("{}\n{}\n{}", login.server, login.username, login.password.reveal());
    std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
    SHA256(reinterpret_cast<const unsigned char*>(all.data()), all.size(), digest.data());
    std::string name = "gpuferry-";
    for (std::size_t i = 0; i < 8; ++i) name += fmt::format("{:02x}", digest[i]);
    return name;
}

}  // namespace

Adapter::Adapter(ClientSettings settings, std::vector<std::string> clouds, HttpClient& http, Clock& clock,
                 GpuLookup lookup, std::uint64_t seed)
    : client_(std::move(settings), http, clock, seed),
      clouds_(std::move(clouds)),
      lookup_(std::move(lookup)),
      proof_(clock) {}

Capabilities Adapter::capabilities() const {
    // A stopped pod's container disk is erased and free; we never ask for a volume, so nothing of ours bills
    // while stopped.
    return {.spot = false,
            .balance = client_.has_balance(),
            .is_local = false,
            .listing_has_env = true,
            .per_disk_price = false};
}

Result<OfferList> Adapter::offers(const OfferQuery& query) {
    OfferList out;
    if (!query.on_demand) return out;
    const std::set<int> counts(query.gpu_counts.begin(), query.gpu_counts.end());
    for (const auto& cloud : clouds_) {
        for (const int count : counts) {
            if (count < 1) continue;
            const auto reply = client_.gpus(cloud == "secure" ? "SECURE" : "COMMUNITY", count);
            if (closed_to_account(reply.answer)) {
                // The other cloud may be open, and whoever is refused a pool still has a good key.
                out.rejected.push_back({.id = cloud, .reason = "cloud_not_allowed"});
                break;
            }
            if (!reply.value) return fail(read_error(reply.answer, "read the GPU catalog"));
            for (const auto& gpu : *reply.value) {
                auto mapped = offer_of(gpu, cloud, count, lookup_);
                if (!mapped) continue;
                // The catalog comes whole whatever is wanted, so nothing of it is dropped.
                if (auto* offer = std::get_if<Offer>(&*mapped))
                    out.offers.push_back(std::move(*offer));
                else
                    out.rejected.push_back(std::get<RejectedOffer>(*std::move(mapped)));
            }
        }
    }
    return out;
}

LaunchOutcome Adapter::launch(const LaunchRequest& request) {
    const auto offer = parse_offer_id(request.offer.id);
    if (!offer || request.bid || request.offer.spot)
        return {
            .id = {},
            .error = Error{.kind = ErrorKind::refused,
                           .message = fmt::format("RunPod, create pod: '{}' is no on-demand offer of RunPod",
                                                  request.offer.id)},
            .rate = {}};
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
    const auto reply = client_.create(create_request(request, *offer, std::move(registry)), secrets);
    if (reply.answer.success() && reply.value) proof_.note();
    return outcome_of(reply);
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
    return listing;
}

Result<ProviderMachine> Adapter::read(const ProviderMachineId& id) {
    const auto reply = client_.pod(id.get());
    if (reply.value) {
        proof_.note();
        return machine_of(*reply.value, lookup_);
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
    const auto answer = client_.terminate(id.get());
    if (answer.success()) proof_.note();
    if (answer.status == 401) proof_.revoke();
    return destroyed(answer);
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

Result<std::string> Adapter::registry_id(const RegistryLogin& login) {
    const auto name = login_name(login);
    // Whatever fails here, no pod was asked for yet, so every error is a clean one.
    const auto clean = [](const Answer& answer, std::string_view what) {
        auto error = read_error(answer, what);
        if (error.kind == ErrorKind::malformed) error.kind = ErrorKind::refused;
        if (error.kind == ErrorKind::rate_limited) error.kind = ErrorKind::unavailable;
        return error;
    };
    const auto known = client_.registries();
    if (!known.value) return fail(clean(known.answer, "read the stored registry logins"));
    const auto it = std::ranges::find(*known.value, name, &Registry::name);
    if (it != known.value->end() && !it->id.empty()) return it->id;
    const auto made = client_.create_registry(name, login.username, login.password);
    if (!made.value) return fail(clean(made.answer, "store the registry login"));
    return made.value->id;
}

}  // namespace gf::runpod
