// What was seen of a market: which keys (a zone, an offer, a machine) were up from when to when. It is the
// only memory that the spot policy has. A value: bounded in size, copied and stored by its owner; the same
// looks in the same order give the same value, in whatever order the keys of one look come. Looks may be
// seconds or hours apart.
//
// Only changes are kept, as one bit per key, so that the spells of any set of keys ("some zone at this price
// or less is up") can be read off later. What is older than kLooksMax changes is forgotten.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/money.hpp"
#include "model/result.hpp"
#include "model/time.hpp"

namespace gf {

inline constexpr std::size_t kSpotKeysMax = 64;
inline constexpr std::size_t kSpotLooksMax = 1024;

struct SpotSeen {
    std::string key;
    bool up{false};
    UsdPerHour rate;
};

class SpotHistory {
 public:
    using KeySet = std::uint64_t;  // bit n = keys()[n]

    struct Row {
        Instant from;
        KeySet known{0};
        KeySet up{0};
        friend bool operator==(const Row&, const Row&) = default;
    };

    /// A look at the market at `now`: keys that are not in it were not looked at and stay as they were. A
    /// look that is older than the last is dropped. Keys beyond kSpotKeysMax are dropped, the last by name
    /// first.
    void observe(Instant now, std::span<const SpotSeen> seen);

    [[nodiscard]] const std::vector<std::string>& keys() const {
        return keys_;
    }  // in the order of their bits
    [[nodiscard]] const std::vector<UsdPerHour>& rates() const { return rates_; }  // as last seen, by bit
    [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }
    [[nodiscard]] Instant last() const { return last_; }
    /// The bit of a key; 0 if it was never seen.
    [[nodiscard]] KeySet bit(std::string_view key) const;

    /// One line of text, and back. `parse` gives `malformed` for anything that `text` did not write.
    [[nodiscard]] std::string text() const;
    static Result<SpotHistory> parse(std::string_view text);

    friend bool operator==(const SpotHistory&, const SpotHistory&) = default;

 private:
    std::vector<std::string> keys_;
    std::vector<UsdPerHour> rates_;
    std::vector<Row> rows_;
    Instant last_{};
};

/// The spells of a set of keys taken together: up while any of them is. Evidence fades with kSpotMemoryHours.
struct SpellStats {
    bool known{false};
    bool up{false};
    double age_h{0};          // of the spell now; kUnseenAgeHours longer if its beginning was not seen
    double ends{0};           // up-spells that ended, faded
    double ends_expected{0};  // as the table had it for the same ages
    double returns{0};        // the same for down-spells
    double returns_expected{0};
    double up_h{0};         // hours up, faded
    double seen_h{0};       // hours seen, faded
    double recent{0};       // share up of the last hours, faded with kSpotRecentHours
    double recent_seen{0};  // how much of that memory has been filled, 0 to 1
};
inline constexpr double kSpotMemoryHours = 48;
inline constexpr double kSpotRecentHours = 24;
[[nodiscard]] SpellStats spell_stats(const SpotHistory& history, SpotHistory::KeySet keys, Instant now);

}  // namespace gf
