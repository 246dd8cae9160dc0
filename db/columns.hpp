// How the vocabulary lies in columns. One rule per type, so that every table agrees: instants and durations are
// milliseconds, money is micro-dollars, enums are their text, an empty id is NULL, an absent value is NULL.
#pragma once
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "db/sqlite.hpp"
#include "model/bytes.hpp"
#include "model/enum_text.hpp"
#include "model/money.hpp"
#include "model/strong.hpp"
#include "model/time.hpp"

namespace gf::db {

template <class E>
concept NamedEnum = requires { EnumNames<E>::table; };

inline void put(Query& q, bool v) { q.put_integer(v ? 1 : 0); }
inline void put(Query& q, int v) { q.put_integer(v); }
inline void put(Query& q, std::int64_t v) { q.put_integer(v); }
inline void put(Query& q, const std::string& v) { q.put_text(v); }
inline void put(Query& q, std::string_view v) { q.put_text(v); }
inline void put(Query& q, Instant v) { q.put_integer(unix_millis(v)); }
inline void put(Query& q, Millis v) { q.put_integer(v.count()); }
inline void put(Query& q, Bytes v) { q.put_integer(v.count); }
inline void put(Query& q, Usd v) { q.put_integer(v.micros); }
inline void put(Query& q, UsdPerHour v) { q.put_integer(v.micros); }
template <NamedEnum E>
void put(Query& q, E v) {
    q.put_text(text(v));
}
template <class Tag>
void put(Query& q, const Strong<Tag, std::string>& v) {
    if (v.empty()) q.put_null();
    else q.put_text(v.get());
}
template <class T>
void put(Query& q, const std::optional<T>& v) {
    if (v) put(q, *v);
    else q.put_null();
}

inline void take(Query& q, bool& v) { v = q.take_integer() != 0; }
inline void take(Query& q, std::int64_t& v) { v = q.take_integer(); }
inline void take(Query& q, int& v) {
    const auto wide = q.take_integer();
    if (wide < std::numeric_limits<int>::min() || wide > std::numeric_limits<int>::max())
        q.unreadable(std::to_string(wide));
    v = static_cast<int>(wide);
}
inline void take(Query& q, std::string& v) { v = q.take_text(); }
inline void take(Query& q, Instant& v) { v = instant_of(q.take_integer()); }
inline void take(Query& q, Millis& v) { v = Millis{q.take_integer()}; }
inline void take(Query& q, Bytes& v) { v = Bytes{q.take_integer()}; }
inline void take(Query& q, Usd& v) { v = Usd{q.take_integer()}; }
inline void take(Query& q, UsdPerHour& v) { v = UsdPerHour{q.take_integer()}; }
template <NamedEnum E>
void take(Query& q, E& v) {
    const auto name = q.take_text();
    const auto known = enum_from<E>(name);
    if (!known) q.unreadable(name);
    v = *known;
}
template <class Tag>
void take(Query& q, Strong<Tag, std::string>& v) {
    v = Strong<Tag, std::string>{std::string(q.take_text())};
}
template <class T>
void take(Query& q, std::optional<T>& v) {
    v.reset();
    if (q.next_is_null()) return q.skip();
    take(q, v.emplace());
}

}  // namespace gf::db
