// The market as it is remembered from look to look: for each key (model/market.hpp) whether it stood up at the last look that could
// have shown it, and at which price. Looks go in, changes come out. Pure, and the same looks in the same order give the same changes.
//
// What is hard is absence. A key is down only when a look that would have shown it did not: of that GPU count and kind, with that
// card and region among what was asked for, without a demand in figures, from an answer that was whole, or that reached beyond the
// price which the key had last. Everything else says nothing of a key that is not in it. What nobody has covered for longer than
// `kMarketGap` is unknown from the last look on. So "down" means "not to be had at the price that it had"; dearer it may stand
// beyond what an answer reached.
//
// What we rent ourselves is missing from the market because of us. A key that one of our machines holds stays as it was; other keys
// of that host are not judged.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/market.hpp"
#include "model/offer.hpp"

namespace gf {

/// One answer of a provider and what it was asked for.
struct MarketLook {
    ProviderName provider;
    Instant at;                                             // when it was asked for
    std::map<std::pair<int, bool>, Instant> read_at;        // (count, spot): where the answer was read at another time
    std::vector<Offer> offers;
    std::set<std::string> unreadable;                       // ids of offers that stood there with unusable figures
    bool drifted{false};                                    // not of the known shape: nothing of it counts
    std::vector<int> gpu_counts;
    bool on_demand{false};
    bool spot{false};
    std::vector<std::string> cards;                         // any of; empty = all
    std::vector<std::string> regions;                       // any of (model/region.hpp); empty = all
    bool by_figures{false};                                 // asked with a demand in figures: absence says nothing
    bool vetted_only{false};                                // hosts that are known not to be vetted were left out
    std::vector<MarketReach> reaches;                       // empty = whole
};

/// A machine of ours that uses up what it was rented as: the key of its offer.
using HeldKeys = std::set<MarketKey>;

/// The key of an offer; nothing for one whose card has no canonical name or that has no GPU.
[[nodiscard]] std::optional<MarketKey> market_key(const Offer& offer);

class MarketBook {
 public:
    static constexpr std::size_t kKeysMost = 20'000;                   // beyond, those that were shown longest ago go
    static constexpr Millis kForgotten = std::chrono::hours{7 * 24};   // not shown for so long: no longer followed

    explicit MarketBook(std::size_t keys_most = kKeysMost) : keys_most_(keys_most) {}

    /// What was known when the daemon ended: state as of the last look. Before the first look.
    void restore(const MarketSight& sight, MarketPoint last);

    /// Takes an answer in. The changes are in order of key, at most two for each (unknown, and what is seen now). A look that is older
    /// than what is known of a key says nothing of that key. Linear in keys of that provider and offers.
    [[nodiscard]] std::vector<MarketChange> look(const MarketLook& look, const HeldKeys& held);

    /// What has not been covered for longer than `kMarketGap` becomes unknown, and what was not shown for `kForgotten` is let go.
    [[nodiscard]] std::vector<MarketChange> age(Instant now);

    /// Keys that were covered after `since`: what has to be stored so that a state lasts over a restart. In order of key.
    [[nodiscard]] std::vector<MarketSight> seen_after(Instant since) const;
    /// When the newest look was; the start of time before the first.
    [[nodiscard]] Instant newest() const { return newest_; }
    [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
    struct Entry {
        MarketPoint last;                 // the newest change
        std::optional<UsdPerHour> price;  // these three as in MarketSight
        Instant seen;
        Instant shown;
        std::string country;              // of the offer seen last; empty = not known
        std::set<std::string> ids;        // of the offers seen last
        bool unvetted{false};             // one of them was of a host that is known not to be vetted
    };
    struct Seen;
    using Entries = std::map<MarketKey, Entry>;

    [[nodiscard]] static bool would_show(const MarketLook& look, const MarketKey& key, const Entry& entry);
    static void set(const MarketKey& key, Entry& entry, MarketPoint point, std::vector<MarketChange>& changes);
    static void close_gap(const MarketKey& key, Entry& entry, Instant now, std::vector<MarketChange>& changes);
    void cut(std::vector<MarketChange>& changes);

    Entries entries_;
    std::size_t keys_most_;
    Instant newest_{};
};

}  // namespace gf
