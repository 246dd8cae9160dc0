#include "providers/vastai/adapter.hpp"

#include <fmt/format.h>

#include <chrono>
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

/// How far the search went that brought `out.offers` from `first` on. One that was cut shows what costs less than its last row, by
/// the total with a disk; the dearest disk in it stands for that of what is missing. `names` are those in it: they are left out
/// of the searches that follow, so for each card that one can stand for, seen or not, that was all; for the others the last
/// search counts.
void note_reach(OfferList& out, std::size_t first, int count, bool bid, std::int64_t disk_gb, bool cut,
                const std::set<std::string>& names, const GpuLookup& lookup) {
    std::optional<UsdPerHour> up_to;
    if (cut) up_to = UsdPerHour{0};
    if (cut && first < out.offers.size()) {
        std::int64_t disk_most = 0;
        for (auto i = first; i < out.offers.size(); ++i)
            disk_most = std::max(disk_most, disk_rate(out.offers[i], disk_gb).micros);
        const Offer& last = out.offers.back();
        up_to = UsdPerHour{std::max<std::int64_t>(0, (last.gpu_rate + disk_rate(last, disk_gb)).micros - disk_most)};
    }
    std::set<std::string> told;
    std::erase_if(out.reaches, [&](const MarketReach& r) { return r.card.empty() && r.gpu_count == count && r.spot == bid; });
    for (const MarketReach& r : out.reaches)
        if (r.gpu_count == count && r.spot == bid) told.insert(r.card);
    out.reaches.push_back({.gpu_count = count, .spot = bid, .card = {}, .place = {}, .up_to = up_to});
    if (!cut) return;
    const auto tell = [&](const std::string& card) {
        if (!card.empty() && told.insert(card).second)
            out.reaches.push_back({.gpu_count = count, .spot = bid, .card = card, .place = {}, .up_to = up_to});
    };
    for (auto i = first; i < out.offers.size(); ++i) tell(out.offers[i].gpu.canonical);
    for (const auto& name : names)
        for (const auto& card : cards_of(name, lookup)) tell(card);
}

}  // namespace

Adapter::Adapter(std::string api_url, Secret key, HttpClient& http, Clock& clock, GpuLookup lookup,
                 std::uint64_t seed)
    : client_(std::move(api_url), std::move(key), http, clock, seed),
      clock_(clock),
      lookup_(std::move(lookup)),
      proof_(clock) {}

Result<OfferList> Adapter::offers(const OfferQuery& query) {
    OfferList out;
    Shapes shapes;
    int searches_left = kSearchesMax;
    const auto names = spellings_of(query.demands.gpus, lookup_);
    // None of the wanted cards is to be had there. A search among all would bring 64 rows that nobody can use.
    if (names.empty() && !query.demands.gpus.empty()) return out;
    for (const int count : std::set<int>(query.gpu_counts.begin(), query.gpu_counts.end())) {
        if (count < 1) continue;
        if (query.on_demand)
            if (auto done = search_all(query, names, count, false, searches_left, out, shapes); !done)
                return fail(std::move(done).error());
        if (query.spot)
            if (auto done = search_all(query, names, count, true, searches_left, out, shapes); !done)
                return fail(std::move(done).error());
    }
    market_canary_.look(out);
    for (auto& drift : offer_shapes_.look(shapes)) out.drift.push_back(std::move(drift));
    return out;
}

Result<void> Adapter::search_all(const OfferQuery& query, const std::vector<std::string>& names, int count,
                                 bool bid, int& searches_left, OfferList& out, Shapes& shapes) {
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
        add(shapes, reply.shapes);
        const auto now = clock_.now();
        // Searches wait for each other: what counts for freshness is when the oldest answer of this count and
        // kind came.
        if (!read_noted) out.reads.push_back({.gpu_count = count, .spot = bid, .at = now});
        read_noted = true;
        const auto first = out.offers.size();
        std::set<std::string> names_here;
        for (const auto& ask : *reply.value) {
            if (!ask.gpu_name.empty()) names_here.insert(ask.gpu_name);
            if (ask.id && !taken.insert(*ask.id).second) continue;
            auto mapped = offer_of(ask, bid, request.disk_gb, count, now, lookup_);
            if (auto* offer = std::get_if<Offer>(&mapped); offer != nullptr && !request.unvetted && offer->verified == false)
                out.rejected.push_back({.id = offer->id, .reason = "not_verified"});
            else if (offer != nullptr)
                out.offers.push_back(std::move(*offer));
            else
                out.rejected.push_back(std::get<RejectedOffer>(std::move(mapped)));
        }
        const auto found = reply.value->size();
        if (names_seen == nullptr) return found;
        note_reach(out, first, count, bid, request.disk_gb, found >= kSearchRowsMax, names_here, lookup_);
        names_seen->merge(names_here);
        return found;
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
    auto reply = client_.create(*create, secrets);
    settle_blame(reply.answer);
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
    listing.drift = listing_shapes_.look(reply.shapes);
    rate_canary_.look(listing);
    return listing;
}

Result<ProviderMachine> Adapter::read(const ProviderMachineId& id) {
    auto reply = client_.show(id.get());
    settle_blame(reply.answer);
    if (reply.value && reply.value->instance) {
        proof_.note();
        auto machine = machine_of(*reply.value->instance, lookup_);
        rate_canary_.look(machine);
        return machine;
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
    auto answer = client_.destroy(id.get());
    settle_blame(answer);
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

Result<void> Adapter::rename(const ProviderMachineId& id, const std::string& name) {
    auto answer = client_.label(id.get(), name);
    settle_blame(answer);
    if (answer.ok()) return {};
    return fail(seen(change_error(answer, "label instance", ErrorKind::unavailable)));
}

Result<void> Adapter::raise_bid(const ProviderMachineId& id, UsdPerHour bid) {
    if (bid.micros < kBidMicrosMin) return fail(ErrorKind::refused, "Vast.ai, change bid: bids below $0.001 are not accepted");
    auto answer = client_.bid(id.get(), bid);
    settle_blame(answer);
    if (answer.ok()) return {};
    return fail(seen(change_error(answer, "change bid", ErrorKind::unknown_outcome)));
}

Result<std::vector<Charge>> Adapter::charges(Instant from, Instant until) {
    // The filter knows whole days of UTC.
    const auto first = std::chrono::floor<std::chrono::days>(from);
    const auto last = std::chrono::ceil<std::chrono::days>(std::max(until, from + Millis{1}));
    const auto reply = client_.charges(unix_millis(first) / 1000, unix_millis(last) / 1000 - 1);
    if (!reply.value) return fail(seen(read_error(reply.answer, "read the charges")));
    std::vector<Charge> out;
    for (const auto& row : *reply.value) {
        auto charge = charge_of(row);
        if (!charge)
            return fail(ErrorKind::malformed, fmt::format("Vast.ai, read the charges: '{}' has no readable time or amount",
                                                          row.source));
        if (charge->until > from && charge->from < until) out.push_back(*std::move(charge));
    }
    return out;
}

std::vector<Finding> Adapter::check() {
    std::vector<Finding> out;
    using enum Finding::Level;
    const auto add_finding = [&](Finding::Level level, std::string what, std::string text) {
        out.push_back({.level = level, .what = std::move(what), .text = std::move(text)});
    };
    const std::string scopes = "misc, user_read, instance_read, instance_write and billing_read";
    const auto money = balance();
    const auto listing = list();
    const auto is_auth = [](const auto& result) { return !result && result.error().kind == ErrorKind::auth; };
    if (is_auth(money) && is_auth(listing)) {
        add_finding(failed, "key",
                    "Vast.ai refuses the key (" + listing.error().message + "). Make one in its console under Keys, with " + scopes +
                        ", and put it into VAST_API_KEY. A wrong key is answered like a missing machine there.");
        return out;
    }
    if (money || listing) add_finding(ok, "key", "accepted");
    if (is_auth(money))
        add_finding(failed, "scope", "the key may not read the account: it needs user_read. In all: " + scopes + ".");
    else if (!money)
        add_finding(failed, "money", "the account cannot be read: " + money.error().message);
    else
        add_finding(money->micros > 0 ? ok : failed, "money",
                    "$" + dollars(*money) + (money->micros > 0 ? " left" : " left: Vast.ai is prepaid, add credit under Billing"));
    if (is_auth(listing))
        add_finding(failed, "scope", "the key may not list instances: it needs instance_read, and instance_write to rent.");
    else if (!listing)
        add_finding(failed, listing.error().kind == ErrorKind::api_retired ? "api" : "listing",
                    "the instances cannot be listed: " + listing.error().message);
    else if (!listing->drift.empty())
        add_finding(failed, "listing", "the answers are not as documented: " + listing->drift.front().detail);
    else
        add_finding(ok, "listing", fmt::format("{} instances in the account", listing->machines.size()));

    if (const auto market = offers({.spot = false}); !market)
        add_finding(failed, "offers", "the market cannot be searched: " + market.error().message);
    else if (!market->drift.empty())
        add_finding(failed, "offers", "the offers are not as documented: " + market->drift.front().detail);
    else
        add_finding(market->offers.empty() ? warning : ok, "offers",
                    fmt::format("{} offers of one GPU", market->offers.size()));

    const auto now = clock_.now();
    if (const auto billed = charges(now - std::chrono::hours{1}, now); !billed)
        add_finding(warning, "scope",
                    is_auth(billed) ? std::string("the key may not read charges (billing_read). What gpuferry counts as cost does not "
                                                  "depend on them")
                                    : "the charges cannot be read: " + billed.error().message);
    // Whoever does not answer such a proposal loses the machine when its contract ends.
    if (const auto increases = client_.price_increases(); increases.value && !increases.value->empty())
        add_finding(warning, "money", fmt::format("hosts want more for {} running instances, the first is {}: see the console",
                                                  increases.value->size(), increases.value->front().contract));
    return out;
}

Result<void> Adapter::prove_key() {
    if (proof_.fresh()) return {};
    const auto reply = client_.account();
    if (!reply.value)
        return fail(seen(read_error(reply.answer, "check the key before \"not there\" counts")));
    proof_.note();
    return {};
}

void Adapter::settle_blame(Answer& answer) {
    // Its own code for a wrong key leaves no doubt.
    if (!doubts_key(answer) || answer.code == "auth_error") return;
    proof_.revoke();
    answer.key_good = prove_key().has_value();
}

Error Adapter::seen(Error error) {
    if (error.kind == ErrorKind::auth) proof_.revoke();
    return error;
}

}  // namespace gf::vastai
