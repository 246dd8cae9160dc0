// The fields of every row as a tuple. A structured binding must name all fields, so adding one to a record breaks the
// build here until it is listed, and from then on the round-trip tests demand that it is stored.
#pragma once
#include <concepts>
#include <tuple>
#include <type_traits>

#include "model/records.hpp"

namespace gf::test {

#define GF_PARTS(Type, ...)                                                        \
    template <class Row>                                                           \
        requires std::same_as<std::remove_const_t<Row>, Type>                      \
    auto parts(Row& row) {                                                         \
        auto& [__VA_ARGS__] = row;                                                 \
        return std::tie(__VA_ARGS__);                                              \
    }

GF_PARTS(GpuIdentity, a, b, c)
GF_PARTS(Offer, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z, aa, bb, cc, dd, ee, ff, gg)
GF_PARTS(RetryCounts, a, b, c, d, e, f, g, h)
GF_PARTS(JobRecord, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t)
GF_PARTS(TaskRecord, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
GF_PARTS(AttemptRecord, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
GF_PARTS(MachineRecord, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z, aa, bb, cc, dd)
GF_PARTS(ReservationRecord, a, b, c, d, e, f, g)
GF_PARTS(LedgerRecord, a, b, c, d, e, f, g, h, i, j)
GF_PARTS(CheckpointRecord, a, b, c, d, e, f, g, h, i, j, k)
GF_PARTS(OutputRecord, a, b, c, d, e, f, g)
GF_PARTS(EventRecord, a, b, c, d, e, f, g, h, i, j)
GF_PARTS(AlertRecord, a, b, c, d, e, f, g, h, i, j)
GF_PARTS(IdempotencyRecord, a, b, c, d, e)
GF_PARTS(DecisionRecord, a, b, c)
GF_PARTS(TokenRecord, a, b, c, d, e, f)
GF_PARTS(HostMarkRecord, a, b, c, d, e, f, g)
GF_PARTS(SecretRecord, a, b, c, d, e)

#undef GF_PARTS

template <class T>
concept HasParts = requires(T& row) { parts(row); };

/// Field by field, into nested rows; rows have no operator== of their own.
template <class T>
bool same(const T& left, const T& right) {
    if constexpr (std::equality_comparable<T>) {
        return left == right;
    } else {
        return std::apply(
            [&](const auto&... a) {
                return std::apply([&](const auto&... b) { return (same(a, b) && ...); }, parts(right));
            },
            parts(left));
    }
}

}  // namespace gf::test
