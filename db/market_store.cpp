#include "db/market_store.hpp"

#include <algorithm>
#include <utility>

#include "db/market_tables.hpp"

namespace gf::db {
namespace {

using std::chrono::days;
constexpr int kBusyTimeoutMs = 5'000;
constexpr Millis kRawLeast = days{7};  // of a file that is too large
constexpr int kDaysPerBatch = 5'000;

Instant day_of(Instant at) { return std::chrono::floor<days>(at); }

std::optional<std::int64_t> place_id(Connection& db, const MarketKey& key) {
    Query q(db, "SELECT id FROM places WHERE provider = ?1 AND place = ?2 AND card = ?3 AND gpus = ?4 AND share = ?5 AND spot = ?6");
    q.bind(key.provider, key.place, key.card, key.gpu_count, key.share, key.spot);
    if (!q.step()) return std::nullopt;
    return q.take_integer();
}

std::int64_t made_place(Connection& db, const MarketKey& key, const MarketPoint& first) {
    if (const auto known = place_id(db, key)) return *known;
    Query q(db, "INSERT INTO places (provider, place, card, gpus, share, spot, seen, shown, summed)"
                " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8) RETURNING id");
    q.bind(key.provider, key.place, key.card, key.gpu_count, key.share, key.spot, first.at, day_of(first.at));
    GF_ASSERT(q.step());
    return q.take_integer();
}

void put_change(Connection& db, const MarketChange& change) {
    const MarketPoint& point = change.point;
    const bool up = point.state == MarketState::up;
    const auto price = up ? std::optional(point.price) : std::nullopt;
    const auto place = made_place(db, change.key, point);
    Query(db, "INSERT INTO changes (place, at, state, price) VALUES (?1, ?2, ?3, ?4)"
              " ON CONFLICT (place, at) DO UPDATE SET state = excluded.state, price = excluded.price")
        .bind(place, point.at, point.state, price)
        .run();
    // What is unknown from now on was not looked at now.
    if (point.state == MarketState::unknown) return;
    Query(db, "UPDATE places SET seen = max(seen, ?2), shown = CASE WHEN ?3 IS NULL THEN shown ELSE max(shown, ?2) END,"
              " price = coalesce(?3, price) WHERE id = ?1")
        .bind(place, point.at, price)
        .run();
}

void put_sight(Connection& db, const MarketSight& sight) {
    const auto place = place_id(db, sight.key);
    if (!place) return;
    Query(db, "UPDATE places SET seen = max(seen, ?2), shown = max(shown, ?3), price = coalesce(?4, price) WHERE id = ?1")
        .bind(*place, sight.seen, sight.shown, sight.price)
        .run();
}

void put_day(Connection& db, std::int64_t place, Instant day, const MarketSum& sum) {
    Query(db, "INSERT INTO days (place, day, known, up, p10, p50, p90, changes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
              " ON CONFLICT (place, day) DO NOTHING")
        .bind(place, day, sum.known, sum.up, sum.p10, sum.p50, sum.p90, sum.changes)
        .run();
}

/// Turns the changes of one place before `cutoff` into days; what holds at the cutoff stays as the one change that says so.
void sum_place(Connection& db, std::int64_t place, Instant summed, Instant seen, Instant cutoff) {
    std::vector<MarketPoint> points;
    {
        Query q(db, "SELECT at, state, price FROM changes WHERE place = ?1 AND at < ?2 ORDER BY at");
        q.bind(place, cutoff);
        while (q.step()) points.push_back(take_point(q));
    }
    const Instant known_until = seen + kMarketGap;
    const auto window = market_window(points, summed, cutoff, known_until);
    for (Instant day = summed; !window.empty() && day < cutoff; day += days{1})
        if (const auto sum = market_sum(window, day, day + days{1}); sum.known > Millis{0}) put_day(db, place, day, sum);
    const bool holds = !points.empty() && points.back().state != MarketState::unknown && known_until > cutoff;
    Query(db, "DELETE FROM changes WHERE place = ?1 AND at < ?2").bind(place, holds ? points.back().at : cutoff).run();
    Query(db, "UPDATE places SET summed = ?2 WHERE id = ?1").bind(place, cutoff).run();
    Query(db, "DELETE FROM places WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM changes WHERE place = ?1)"
              " AND NOT EXISTS (SELECT 1 FROM days WHERE place = ?1)")
        .bind(place)
        .run();
}

class SqliteMarketStore final : public MarketStore {
 public:
    explicit SqliteMarketStore(const std::string& path) : db_(path) {
        sqlite3_busy_timeout(db_.handle(), kBusyTimeoutMs);
        db_.run("PRAGMA temp_store = MEMORY");
        if (!db_.in_memory()) {
            db_.run("PRAGMA journal_mode = WAL");
            db_.run("PRAGMA synchronous = NORMAL");
            db_.run("PRAGMA journal_size_limit = 16777216");
        }
        migrate(db_, market_migrations(), kMarketId);
    }

    Result<std::vector<MarketRemembered>> remembered(Instant since, std::size_t most) override {
        return guarded_market([&] {
            std::vector<MarketRemembered> out;
            Query q(db_, "SELECT id, provider, place, card, gpus, share, spot, seen, shown, price FROM places WHERE shown >= ?1"
                         " ORDER BY shown DESC, id LIMIT ?2");
            q.bind(since, static_cast<std::int64_t>(most));
            while (q.step()) {
                MarketRemembered row;
                const auto id = q.take_integer();
                take_key(q, row.sight.key);
                q.read(row.sight.seen, row.sight.shown, row.sight.price);
                Query last(db_, "SELECT at, state, price FROM changes WHERE place = ?1 ORDER BY at DESC LIMIT 1");
                last.bind(id);
                if (!last.step()) continue;  // all of it has become days: nothing is known of now
                row.last = take_point(last);
                out.push_back(std::move(row));
            }
            return out;
        });
    }

    Result<void> write(const std::vector<MarketChange>& changes, const std::vector<MarketSight>& sights) override {
        return guarded_market([&] {
            in_transaction(db_, kBeginWrite, [&] {
                for (const MarketChange& change : changes) put_change(db_, change);
                for (const MarketSight& sight : sights) put_sight(db_, sight);
            });
        });
    }

    Result<int> tidy(Instant now, const MarketPolicy& policy) override {
        return guarded_market([&] {
            int dealt_with = 0;
            in_transaction(db_, kBeginWrite, [&] {
                const Instant cutoff = cutoff_at(now, policy);
                struct Due {
                    std::int64_t id;
                    Instant summed, seen;
                };
                std::vector<Due> due;
                Query q(db_, "SELECT id, summed, seen FROM places WHERE summed < ?1 ORDER BY summed, id LIMIT ?2");
                q.bind(cutoff, policy.places_per_batch);
                while (q.step()) {
                    Due& row = due.emplace_back();
                    q.read(row.id, row.summed, row.seen);
                }
                for (const Due& row : due) sum_place(db_, row.id, row.summed, row.seen, cutoff);
                const int gone = Query(db_, "DELETE FROM days WHERE (place, day) IN (SELECT place, day FROM days WHERE day < ?1 LIMIT ?2)")
                                     .bind(day_of(now) - policy.days, kDaysPerBatch)
                                     .run();
                dealt_with = static_cast<int>(due.size()) + (gone > 0 ? 1 : 0);
            });
            return dealt_with;
        });
    }

    Result<std::int64_t> bytes() override {
        return guarded_market([&] { return used(); });
    }

 private:
    std::int64_t used() {
        return (db_.number("PRAGMA page_count") - db_.number("PRAGMA freelist_count")) * db_.number("PRAGMA page_size");
    }

    Instant cutoff_at(Instant now, const MarketPolicy& policy) {
        const Instant wanted = day_of(now - std::max<Millis>(policy.raw, days{1}));
        if (used() <= policy.bytes_most) return wanted;
        // One more day than has become days everywhere: the next batch finds the room, or takes a further one.
        Query q(db_, "SELECT min(summed) FROM places");
        if (!q.step() || q.next_is_null()) return wanted;
        const Instant first = instant_of(q.take_integer());
        return std::max(wanted, std::min(day_of(now - kRawLeast), first + days{1}));
    }

    Connection db_;
};

}  // namespace
}  // namespace gf::db

namespace gf {

Result<std::unique_ptr<MarketStore>> open_market_store(const std::string& path) {
    return db::guarded_market([&]() -> std::unique_ptr<MarketStore> { return std::make_unique<db::SqliteMarketStore>(path); });
}

}  // namespace gf
