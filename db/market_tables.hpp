// What writer and reader of history.db share.
#pragma once
#include <set>

#include "db/columns.hpp"
#include "db/migrations.hpp"
#include "db/sqlite.hpp"
#include "model/market.hpp"

namespace gf::db {

/// Like `guarded`, for a file that may be lost: what SQLite cannot make sense of is `malformed`.
template <class Body>
auto guarded_market(Body body) {
    return guarded(std::move(body), [](const SqliteError& failure) {
        Error error = failure.error();
        // 0 is our own check of what was read.
        static const std::set<int> damaged{0, SQLITE_ERROR, SQLITE_CORRUPT, SQLITE_NOTADB, SQLITE_SCHEMA, SQLITE_FORMAT, SQLITE_MISMATCH};
        if (error.kind == ErrorKind::io && damaged.contains(failure.code())) error.kind = ErrorKind::malformed;
        return error;
    });
}

inline void take_key(Query& q, MarketKey& key) {
    q.read(key.provider, key.place, key.card, key.gpu_count, key.share, key.spot);
}

inline MarketPoint take_point(Query& q) {
    MarketPoint point;
    std::optional<UsdPerHour> price;
    q.read(point.at, point.state, price);
    point.price = price.value_or(UsdPerHour{});
    return point;
}

}  // namespace gf::db
