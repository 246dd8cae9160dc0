#include "providers/vastai/adapter.hpp"

#include <set>

#include "providers/vastai/gpu_spellings.hpp"
#include "providers/vastai/mapping.hpp"

namespace gf::vastai {
namespace {

// Searches are seven seconds apart, so one look at the market has a bound. What it does not reach is dearer
// than what it has.
constexpr int kSearchesMax = 12;
constexpr int kRoundsMax =
    4;  // of a sweep: searches of one count and kind without GPU names, each leaving out the names seen so far

}  // namespace

Adapter::Adapter(std::string api_url, Secret key, HttpClient& http, Clock& clock, GpuLookup lookup,
                 std::uint64_t seed)
    : client_(std::move(api_url), std::move(key), http, clock, seed),
      clock_(clock),
      lookup_(std::move(lookup)),
      proof_(clock) {}

Result<OfferList> Adapter::offers(const OfferQuery& query) {
    OfferList out;
    int searches_left = kSearchesMax;
    const auto names = spellings_of(query.demands.gpus, lookup_);
    for (const int count : std::set<int>(query.gpu_counts.begin(), query.gpu_counts.end())) {
        if (count < 1) continue;
        if (query.on_demand)
            if (auto done = search_all(query, names, count, false, searches_left, out); !done)
                return fail(std::move(done).error());
        if (query.spot)
            if (auto done = search_all(query, names, count, true, searches_left, out); !done)
                return fail(std::move(done).error());
    }
    return out;
}

Result<void> Adapter::search_all(const OfferQuery& query, const std::vector<std::string>& names, int count,
                                 bool bid, int& searches_left, OfferList& out) {
    auto request = search_request(query, count, bid);
    bool read_noted = false;
    std::set<std::int64_t> taken;  // rounds may overlap where names were spelled in two ways
    const auto search = [&](const std::vector<std::string>& named, const std::vector<std::string>& not_named,
                            std::set<std::string>* names_seen) -> Result<std::size_t> {
        --searches_left;
        request.gpu_names = named;
        request.gpu_names_not = not_named;
        const auto reply = client_.search(request);
        if (!reply.value) return fail(seen(read_error(reply.answer, "search offers")));
        const auto now = clock_.now();
        // Searches wait for each other: what counts for freshness is when the oldest answer of this count and
        // kind came.
        if (!read_noted) out.reads.push_back({.gpu_count = count, .spot = bid, .at = now});
        read_noted = true;
        for (const auto& ask : *reply.value) {
            if (names_seen != nullptr && !ask.gpu_name.empty()) names_seen->insert(ask.gpu_name);
            if (ask.id && !taken.insert(*ask.id).second) continue;
            auto mapped = offer_of(ask, bid, request.disk_gb, count, now, lookup_);
            if (auto* offer = std::get_if<Offer>(&mapped))
                out.offers.push_back(std::move(*offer));
            else
                out.rejected.push_back(std::get<RejectedOffer>(std::move(mapped)));
        }
        return reply.value->size();
    };

    std::set<std::string> names_seen;
    const auto rows = search(names, {}, &names_seen);
    if (!rows) return fail(rows.error());
    // At most 64 rows come back and there are no pages. For a waiting job they are enough: the cheapest that pass its
    // demands. Another round would only make the first one old.
    if (query.look != Look::sweep || *rows < kSearchRowsMax) return {};
    if (!names.empty()) {
        for (const auto& name : names) {
            if (searches_left <= 0 || names.size() < 2) break;
            if (const auto more = search({name}, {}, nullptr); !more) return fail(more.error());
        }
        return {};
    }
    // The cheapest 64 may all be small cards, so a full answer is followed by one without the names seen so far.
    for (int round = 1; round < kRoundsMax && searches_left > 0; ++round) {
        const auto before = names_seen.size();
        const auto more = search({}, {names_seen.begin(), names_seen.end()}, &names_seen);
        if (!more) return fail(more.error());
        if (*more < kSearchRowsMax || names_seen.size() == before) break;
    }
    return {};
}

LaunchOutcome Adapter::launch(const LaunchRequest& request) {
    const auto create = create_request(request);
    if (!create) return {.id = {}, .error = create.error(), .rate = {}};
    std::vector<Secret> secrets;
    if (const auto enrol = request.env.find("GPUFERRY_ENROL"); enrol != request.env.end())
        secrets.emplace_back(enrol->second);
    if (request.registry) secrets.push_back(request.registry->password);
    const auto reply = client_.create(*create, secrets);
    if (reply.answer.ok() && reply.value) proof_.note();
    auto outcome = outcome_of(reply);
    if (outcome.error) outcome.error = seen(*std::move(outcome.error));
    return outcome;
}

Result<Listing> Adapter::list() {
    const auto reply = client_.list();
    if (!reply.value) return fail(seen(read_error(reply.answer, "list instances")));
    proof_.note();
    Listing listing;
    for (const auto& instance : *reply.value) listing.machines.push_back(machine_of(instance, lookup_));
    return listing;
}

Result<ProviderMachine> Adapter::read(const ProviderMachineId& id) {
    const auto reply = client_.show(id.get());
    if (reply.value && reply.value->instance) {
        proof_.note();
        return machine_of(*reply.value->instance, lookup_);
    }
    // An unknown or destroyed id is 200 with null. So may be what a wrong key gets, so it counts beside a
    // proof only.
    const bool nothing_there = reply.value.has_value();
    if (!nothing_there && !says_no_such_instance(reply.answer))
        return fail(seen(read_error(reply.answer, "read instance")));
    if (auto proved = prove_key(); !proved) return fail(std::move(proved).error());
    ProviderMachine gone;
    gone.id = id;
    gone.presence = Presence::gone;
    gone.raw_state = nothing_there ? "null" : "404";
    return gone;
}

Result<void> Adapter::destroy(const ProviderMachineId& id) {
    const auto answer = client_.destroy(id.get());
    if (answer.ok()) {
        proof_.note();
        return {};
    }
    if (!says_no_such_instance(answer)) return fail(seen(destroy_error(answer)));
    return prove_key();
}

Result<Usd> Adapter::balance() {
    const auto reply = client_.account();
    if (!reply.value) return fail(seen(read_error(reply.answer, "read the account")));
    proof_.note();
    const auto micros = read_amount(*reply.value);
    if (!micros)
        return fail(ErrorKind::malformed,
                    "Vast.ai, read the account: neither `credit` nor `balance` is a number");
    return Usd{*micros};
}

Result<void> Adapter::prove_key() {
    if (proof_.fresh()) return {};
    const auto reply = client_.account();
    if (!reply.value)
        return fail(seen(read_error(reply.answer, "check the key before \"not there\" counts")));
    proof_.note();
    return {};
}

Error Adapter::seen(Error error) {
    if (error.kind == ErrorKind::auth) proof_.revoke();
    return error;
}

}  // namespace gf::vastai
