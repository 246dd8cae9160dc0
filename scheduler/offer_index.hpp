// The offers of one snapshot, grouped by what the first filters read of them, so that one verdict serves a
// whole group, and in each group as a tree of bounds, so that most offers need not be looked at. Made for one
// pass of the planner; pure data.
//
// The problem: ten thousand tasks against twenty thousand offers are two hundred million pairs, and a pair
// costs a fifth of a microsecond at best. The idea: a market (provider, kind of renting) has a few dozen
// kinds of cards in a few counts. A *bucket* is one market, one count and one kind of card; the filters
// before kCardFilters say the same of all its members. Within a bucket the offers stand by price, in a tree
// with kFanout children a node. Each node has a made-up offer that is at least as good as each below it
// (scheduler/offer_bound.hpp): where the filters refuse that one, all below it are refused, and its price is
// a lower bound of theirs. Building costs a sort of the offers, nothing per task.
//
// What is used up in the pass leaves the tree: a node under which nothing is left is not entered, so that
// those who come late do not walk over what those before them took.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "scheduler/choice.hpp"
#include "scheduler/filters.hpp"

namespace gf {

/// Which offer: what adapters need to rent it. `spot` tells the two prices of one thing apart.
struct OfferKey {
    ProviderName provider;
    std::string id;
    bool spot{false};
    friend auto operator<=>(const OfferKey&, const OfferKey&) = default;
};

class OfferIndex {
 public:
    using Place = std::uint32_t;  // of an offer in the span
    using NodeAt = std::uint32_t;
    static constexpr std::uint32_t kNone = UINT32_MAX;
    static constexpr std::size_t kFanout = 8;
    static constexpr std::array<std::int64_t, 7> kDiskClasses{0, 20, 50, 100, 200, 500, 1000};  // GB
    static constexpr std::uint64_t kAnyCountry = std::uint64_t{1} << 63;

    struct Market {
        Place like{kNone};  // any of its offers
        std::vector<std::uint32_t> counts;
        std::size_t offers{0};
    };
    /// What every shape of tasks reads lies close together.
    struct Count {
        struct Branch {
            std::uint32_t at{0};  // of buckets()
            std::uint32_t kind{0};
            NodeAt root{kNone};
        };
        Place like{kNone};
        std::vector<Branch> buckets;  // by price
        std::uint32_t top{kNone};     // of bundles()
        std::size_t offers{0};
    };
    /// Buckets of one count, or such bundles, that cost alike: so that most of them need not be thought of
    /// either.
    struct Bundle {
        std::array<std::int64_t, kDiskClasses.size()>
            rates{};  // the least price with a disk of the class, micro-dollars per hour
        std::uint32_t count{0};
        std::uint32_t first{0};  // of the children: bundles, or the bucket at that place of the count
        std::uint32_t children{0};
        bool leaf{false};  // stands for one bucket
    };
    /// What a price is made of, apart from the offers, which are large: most of them are never looked at but
    /// for this.
    struct Tag {
        UsdPerHour rate;
        std::int64_t disk_micros_per_gb_month{0};
        int hours_per_month{0};
        bool gone{false};  // used up
    };
    struct Bucket {
        std::uint32_t market{0};
        std::vector<Place> offers;  // by price
        std::vector<Tag> tags;      // of each
    };
    struct Node {
        Offer best;
        std::uint64_t countries{0};  // bits of countries(); kAnyCountry = the filter must be asked
        NodeAt parent{kNone};
        std::uint32_t bucket{0};
        std::uint32_t first{0};  // of the children: places in the bucket's offers, or nodes
        std::uint32_t children{0};
        std::uint32_t left{0};  // offers below it that are not used up
        bool leaf{false};
    };

    /// `offers` and `world` must outlive the index. (provider, id, spot) must be unique among the offers.
    OfferIndex(std::span<const Offer> offers, const ChoiceWorld& world);

    [[nodiscard]] const Offer& offer(Place place) const { return offers_[place]; }
    [[nodiscard]] std::size_t size() const { return offers_.size(); }
    [[nodiscard]] const std::vector<Market>& markets() const { return markets_; }
    [[nodiscard]] const std::vector<Count>& counts() const { return counts_; }
    [[nodiscard]] const std::vector<Place>& kinds() const { return kinds_; }  // an offer of each
    [[nodiscard]] const std::vector<Bucket>& buckets() const { return buckets_; }
    [[nodiscard]] const Tag& tag(NodeAt at) const {
        return node_tags_[at];
    }  // of its made-up offer; gone with the last below it
    [[nodiscard]] const std::vector<Bundle>& bundles() const { return bundles_; }
    [[nodiscard]] const Node& node(NodeAt at) const { return nodes_[at]; }
    /// An offer of each country, rented; the place of the n-th is bit n of Node::countries.
    [[nodiscard]] const std::vector<Place>& countries() const { return countries_; }

    /// Worked out at the first call for each offer.
    [[nodiscard]] const OfferFacts& facts(Place place);
    [[nodiscard]] std::uint32_t bucket_of(Place place) const { return nodes_[node_of_[place]].bucket; }
    /// What renting the offer uses up: the two prices of one exclusive thing are one unit, everything else is
    /// its own.
    [[nodiscard]] std::uint32_t unit(Place place) const { return units_[place]; }
    [[nodiscard]] Place find(const OfferKey& key) const;
    /// All offers of the unit are used up.
    void remove(std::uint32_t unit);

    /// The largest class that a disk of `gb` is not below.
    [[nodiscard]] static std::size_t disk_class(std::int64_t gb);

 private:
    void group();
    void set_order();
    void bundle(std::uint32_t count);
    [[nodiscard]] NodeAt plant(std::uint32_t bucket);
    void join_units();
    [[nodiscard]] std::uint64_t country_bit(Place place);

    std::span<const Offer> offers_;
    const ChoiceWorld& world_;
    std::vector<Market> markets_;
    std::vector<Count> counts_;
    std::vector<Place> kinds_;
    std::vector<Bucket> buckets_;
    std::vector<Bundle> bundles_;
    std::vector<Node> nodes_;
    std::vector<Tag> node_tags_;
    std::vector<NodeAt> node_of_;         // of an offer
    std::vector<std::uint32_t> slot_of_;  // in its bucket
    std::vector<Place> countries_;
    std::vector<std::optional<OfferFacts>> facts_;
    std::vector<std::uint32_t> units_;
    std::vector<Place> next_in_unit_;  // a ring
    struct Named {
        std::uint64_t hash{0};
        Place offer{kNone};
    };
    std::vector<Named> by_name_;  // by hash of (provider, id)
};

}  // namespace gf
