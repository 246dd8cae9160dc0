// What the markets offered, as it was recorded (daemon/market): for each place its points, or what they are at ticks, and their sums.
#include <fmt/format.h>

#include <iterator>

#include "daemon/api/handlers.hpp"
#include "daemon/api/json_views.hpp"

namespace gf::api {
namespace {

constexpr Millis kSpanMost = std::chrono::hours{90 * 24};
constexpr Millis kSpanDefault = std::chrono::hours{7 * 24};
constexpr std::int64_t kTicksMost = 200'000;
constexpr std::size_t kPlacesMost = 2'000;
constexpr std::size_t kPointsMost = 500'000;
constexpr int kGpusMost = 64;

struct Asked {
    MarketQuery query;
    std::optional<Millis> tick;
    std::int64_t ticks{0};
};

Error out_of_bounds(std::string field, std::string message) {
    return {.kind = ErrorKind::invalid, .message = std::move(message), .field = std::move(field)};
}

Result<Asked> asked_of(const Call& call) {
    const auto& request = call.request;
    Asked asked{.query = {.provider = {}, .cards = {}, .gpu_count = {}, .spot = {}, .from = {}, .to = {},
                          .places_most = kPlacesMost, .points_most = kPointsMost},
                .tick = {}};
    auto cards = cards_in_query(call);
    if (!cards) return fail(cards.error());
    asked.query.cards = *std::move(cards);
    if (const auto* provider = request.query_value("provider")) asked.query.provider = *provider;
    const auto gpus = number_in_query(request, "gpus", 0, 1, kGpusMost);
    if (!gpus) return fail(gpus.error());
    if (*gpus > 0) asked.query.gpu_count = static_cast<int>(*gpus);
    const auto spot = flag_in_query(request, "spot");
    if (!spot) return fail(spot.error());
    if (request.query_value("spot") != nullptr) asked.query.spot = *spot;
    const auto to = instant_in_query(request, "to", call.context().core.now());
    if (!to) return fail(to.error());
    const auto from = instant_in_query(request, "from", *to - kSpanDefault);
    if (!from) return fail(from.error());
    if (*from >= *to) return fail(out_of_bounds("from", "from must be before to"));
    if (*to - *from > kSpanMost) return fail(out_of_bounds("from", "from and to must be at most 90 days apart"));
    asked.query.from = *from;
    asked.query.to = *to;
    if (const auto* typed = request.query_value("tick"); typed != nullptr && !typed->empty()) {
        const auto tick = parse_duration(*typed);
        if (!tick || *tick <= Millis{0})
            return fail(Error{.kind = ErrorKind::malformed, .message = "tick must be a duration with its unit such as 5m", .field = "tick"});
        asked.tick = tick;
        asked.ticks = (*to - *from + *tick - Millis{1}) / *tick;
        if (asked.ticks > kTicksMost)
            return fail(out_of_bounds("tick", "a span of " + duration_text(*to - *from) + " has at most " + std::to_string(kTicksMost) +
                                                  " ticks: tick must be at least " +
                                                  duration_text(Millis{(*to - *from).count() / kTicksMost + 1})));
    }
    return asked;
}

Json rate_or_null(const std::optional<UsdPerHour>& rate) { return rate ? Json(dollars(*rate)) : Json(nullptr); }

double share(Millis part, Millis whole) {
    return whole <= Millis{0} ? 0 : static_cast<double>(part.count() * 10'000 / whole.count()) / 10'000;
}

void put_sum(Json& out, const MarketSum& sum, Millis span) {
    out["known_share"] = share(sum.known, span);
    out["up_share"] = sum.known > Millis{0} ? Json(share(sum.up, sum.known)) : Json(nullptr);
    out["p10"] = rate_or_null(sum.p10);
    out["p50"] = rate_or_null(sum.p50);
    out["p90"] = rate_or_null(sum.p90);
    out["changes"] = sum.changes;
}

/// The points are written by hand: as JSON values they would take ten times the memory.
void add_point(std::string& body, std::string_view when, MarketState state, UsdPerHour price) {
    fmt::format_to(std::back_inserter(body), "{}[{},\"{}\",", body.ends_with('[') ? "" : ",", when, text(state));
    body += state == MarketState::up ? '"' + dollars(price) + "\"]" : "null]";
}

void add_track(std::string& body, const MarketTrack& track, const Asked& asked) {
    const MarketKey& key = track.key;
    const MarketQuery& query = asked.query;
    Json item;
    item["zone"] = text(key);
    item["provider"] = key.provider.get();
    item["place"] = key.place;
    item["gpu"] = key.card;
    item["gpus"] = key.gpu_count;
    item["gpu_share"] = key.share / 1000.0;
    item["spot"] = key.spot;
    put_sum(item, market_sum(track.points, query.from, query.to), query.to - query.from);
    item["days"] = Json::array();
    for (const MarketDay& day : track.days) {
        Json line;
        line["day"] = rfc3339(day.day).substr(0, 10);
        put_sum(line, day.sum, std::chrono::hours{24});
        item["days"].push_back(std::move(line));
    }
    body += dump(item);
    body.pop_back();
    body += ",\"points\":[";
    if (asked.tick)
        for (const MarketTick& t : market_ticks(track.points, query.from, *asked.tick, asked.ticks))
            add_point(body, std::to_string(t.tick), t.state, t.price);
    else
        for (const MarketPoint& p : track.points) add_point(body, '"' + rfc3339(p.at) + '"', p.state, p.price);
    body += "]}";
}

}  // namespace

void offer_history(Call call) {
    auto asked = asked_of(call);
    if (!asked) return fail_with(call, asked.error());
    if (!call.context().options.read_market)
        return fail_with(call, Error{.kind = ErrorKind::not_found, .message = "this daemon keeps no history of the market"});
    in_background(std::move(call), [asked = *std::move(asked)](const Call& c, Reader&) {
        auto tracks = c.context().options.read_market(asked.query);
        // Nothing was recorded yet.
        if (!tracks && tracks.error().kind == ErrorKind::not_found) tracks = std::vector<MarketTrack>{};
        if (!tracks && tracks.error().kind == ErrorKind::malformed) tracks.error().kind = ErrorKind::io;  // of ours, not of the question
        if (!tracks) return http::problem(tracks.error());
        Json head;
        head["from"] = rfc3339(asked.query.from);
        head["to"] = rfc3339(asked.query.to);
        head["tick"] = asked.tick ? Json(duration_text(*asked.tick)) : Json(nullptr);
        head["ticks"] = asked.tick ? Json(asked.ticks) : Json(nullptr);
        std::string body = dump(head);
        body.pop_back();
        body += ",\"items\":[";
        for (const MarketTrack& track : *tracks) {
            if (!body.ends_with('[')) body += ',';
            add_track(body, track, asked);
        }
        body += "],\"next_cursor\":null}";
        return http::json(200, std::move(body));
    });
}

}  // namespace gf::api
