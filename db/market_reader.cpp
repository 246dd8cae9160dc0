#include <algorithm>
#include <filesystem>
#include <utility>

#include "db/market_store.hpp"
#include "db/market_tables.hpp"

namespace gf::db {
namespace {

constexpr int kBusyTimeoutMs = 5'000;

struct Place {
    std::int64_t id{0};
    MarketKey key;
    Instant seen;
};

void add_places(Query& q, const MarketQuery& query, std::vector<Place>& out) {
    while (q.step()) {
        Place place{.id = q.take_integer(), .key = {}, .seen = {}};
        take_key(q, place.key);
        q.read(place.seen);
        if (!query.provider.empty() && place.key.provider.get() != query.provider) continue;
        if (query.gpu_count && place.key.gpu_count != *query.gpu_count) continue;
        if (query.spot && place.key.spot != *query.spot) continue;
        out.push_back(std::move(place));
    }
}

std::vector<Place> places(Connection& db, const MarketQuery& query) {
    std::vector<Place> out;
    // What was not covered since, and for so long before, is unknown in all of the span.
    const Instant since = query.from - kMarketGap;
    if (query.cards.empty()) {
        Query q(db, "SELECT id, provider, place, card, gpus, share, spot, seen FROM places WHERE seen >= ?1");
        q.bind(since);
        add_places(q, query, out);
    }
    for (const std::string& card : query.cards) {
        Query q(db, "SELECT id, provider, place, card, gpus, share, spot, seen FROM places WHERE card = ?2 AND seen >= ?1");
        q.bind(since, card);
        add_places(q, query, out);
    }
    std::ranges::sort(out, {}, &Place::key);
    const auto twice = std::ranges::unique(out, {}, &Place::key);  // a card that was named twice
    out.erase(twice.begin(), twice.end());
    return out;
}

std::vector<MarketPoint> points_of(Connection& db, const Place& place, const MarketQuery& query, std::size_t most) {
    std::vector<MarketPoint> points;
    Query before(db, "SELECT at, state, price FROM changes WHERE place = ?1 AND at <= ?2 ORDER BY at DESC LIMIT 1");
    before.bind(place.id, query.from);
    if (before.step()) points.push_back(take_point(before));
    Query q(db, "SELECT at, state, price FROM changes WHERE place = ?1 AND at > ?2 AND at < ?3 ORDER BY at LIMIT ?4");
    q.bind(place.id, query.from, query.to, static_cast<std::int64_t>(most) + 1);
    while (q.step()) points.push_back(take_point(q));
    return market_window(points, query.from, query.to, place.seen + kMarketGap);
}

std::vector<MarketDay> days_of(Connection& db, const Place& place, const MarketQuery& query) {
    std::vector<MarketDay> days;
    Query q(db, "SELECT day, known, up, p10, p50, p90, changes FROM days WHERE place = ?1 AND day >= ?2 AND day < ?3 ORDER BY day");
    q.bind(place.id, query.from, query.to);
    while (q.step()) {
        MarketDay& day = days.emplace_back();
        q.read(day.day, day.sum.known, day.sum.up, day.sum.p10, day.sum.p50, day.sum.p90, day.sum.changes);
    }
    return days;
}

Error too_many(std::size_t most, const std::string& what) {
    return {.kind = ErrorKind::invalid,
            .message = "more than " + std::to_string(most) + " " + what +
                       " match: name a GPU, a count, a provider or the kind, or take a shorter span"};
}

}  // namespace
}  // namespace gf::db

namespace gf {

Result<std::vector<MarketTrack>> read_market(const std::string& path, const MarketQuery& query) {
    using namespace db;
    std::error_code unreadable;
    if (!std::filesystem::exists(path, unreadable)) return fail(ErrorKind::not_found, "there is no history of the market at " + path);
    std::optional<Error> over;
    auto read = guarded_market([&] {
        std::vector<MarketTrack> tracks;
        Connection db(path);
        sqlite3_busy_timeout(db.handle(), kBusyTimeoutMs);
        db.run("PRAGMA query_only = ON");
        if (db.number("PRAGMA application_id") != kMarketId)
            throw SqliteError({.kind = ErrorKind::io, .message = path + " is no history of the market"}, 0);
        in_transaction(db, kBegin, [&] {
            std::size_t points = 0;
            for (const Place& place : places(db, query)) {
                MarketTrack track{.key = place.key, .points = points_of(db, place, query, query.points_most - points),
                                  .days = days_of(db, place, query)};
                if (track.points.empty() && track.days.empty()) continue;
                points += track.points.size() + track.days.size();
                tracks.push_back(std::move(track));
                if (tracks.size() > query.places_most) over = too_many(query.places_most, "places");
                else if (points > query.points_most) over = too_many(query.points_most, "changes");
                if (over) break;
            }
        });
        return tracks;
    });
    if (over) return fail(*std::move(over));
    return read;
}

}  // namespace gf
