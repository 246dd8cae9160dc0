#include "scheduler/offer_index.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>

#include "scheduler/offer_bound.hpp"

namespace gf {
namespace {

using std::string_view;

/// What the filters before kMarketFilters read.
auto market_key(const Offer& o) {
    const int price = o.gpu_rate.micros > 0 ? 1 : (o.gpu_rate.micros < 0 ? -1 : 0);
    const bool under_floor = o.spot && o.spot_floor && o.gpu_rate < *o.spot_floor;
    return std::tuple(string_view(o.provider.get()), string_view(o.arch), o.spot, price, under_floor);
}

/// What those before kCardFilters read besides. The spelling of the provider is read for people only.
auto kind_key(const Offer& o) {
    const std::int64_t memory = o.gpu.memory ? o.gpu.memory->count : -1;
    return std::tuple(string_view(o.gpu.canonical), memory, o.gpu_share, o.provider.get() == "local");
}

std::uint64_t fnv(std::uint64_t hash, string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1'099'511'628'211ULL;
    return hash;
}
std::uint64_t name_hash(string_view provider, string_view id) {
    return fnv(fnv(14'695'981'039'346'656'037ULL, provider) ^ 0xff, id);
}

OfferIndex::Tag tag_of(const Offer& o) {
    return {.rate = o.gpu_rate,
            .disk_micros_per_gb_month = o.disk_micros_per_gb_month,
            .hours_per_month = o.hours_per_month};
}

/// The number that `key` has in `numbers`, or the next one. Neighbours are often alike, so the last answer is
/// tried first.
template <class Key>
class Numbers {
 public:
    std::pair<std::uint32_t, bool> of(const Key& key) {
        if (last_ != numbers_.end() && last_->first == key) return {last_->second, false};
        bool added = false;
        std::tie(last_, added) = numbers_.try_emplace(key, static_cast<std::uint32_t>(numbers_.size()));
        return {last_->second, added};
    }

 private:
    std::map<Key, std::uint32_t> numbers_;
    std::map<Key, std::uint32_t>::iterator last_{numbers_.end()};
};

}  // namespace

OfferIndex::OfferIndex(std::span<const Offer> offers, const ChoiceWorld& world)
    : offers_(offers),
      world_(world),
      node_of_(offers.size(), kNone),
      slot_of_(offers.size()),
      facts_(offers.size()) {
    group();
    nodes_.reserve(offers.size() / kFanout * 8 / 7 + 2 * buckets_.size());
    for (std::uint32_t count = 0; count < counts_.size(); ++count) bundle(count);
    for (const Node& node : nodes_) node_tags_.push_back(tag_of(node.best));
    join_units();
}

void OfferIndex::group() {
    Numbers<decltype(market_key(Offer{}))> markets;
    Numbers<std::pair<std::uint32_t, int>> counts;
    Numbers<decltype(kind_key(Offer{}))> kinds;
    Numbers<std::pair<std::uint32_t, std::uint32_t>> buckets;
    for (Place place = 0; place < offers_.size(); ++place) {
        const Offer& o = offers_[place];
        const auto [market, new_market] = markets.of(market_key(o));
        if (new_market) markets_.push_back({.like = place, .counts = {}});
        const auto [count, new_count] = counts.of({market, o.gpu_count});
        if (new_count) {
            counts_.push_back({.like = place, .buckets = {}});
            markets_[market].counts.push_back(count);
        }
        const auto [kind, new_kind] = kinds.of(kind_key(o));
        if (new_kind) kinds_.push_back(place);
        const auto [bucket, new_bucket] = buckets.of({count, kind});
        if (new_bucket) {
            buckets_.push_back({.market = market, .offers = {}, .tags = {}});
            counts_[count].buckets.push_back({.at = bucket, .kind = kind});
        }
        buckets_[bucket].offers.push_back(place);
        ++markets_[market].offers;
        ++counts_[count].offers;
    }
    set_order();
}

/// In which order the groups are gone through decides no plan, but how much work it takes, and so how far a
/// bounded pass gets.
void OfferIndex::set_order() {
    std::vector<std::uint32_t> order(markets_.size()), place_of(markets_.size());
    std::iota(order.begin(), order.end(), 0U);
    std::ranges::sort(order, {}, [this](std::uint32_t m) { return market_key(offers_[markets_[m].like]); });
    std::vector<Market> markets;
    for (const std::uint32_t m : order) {
        place_of[m] = static_cast<std::uint32_t>(markets.size());
        markets.push_back(std::move(markets_[m]));
    }
    markets_ = std::move(markets);
    for (Bucket& bucket : buckets_) bucket.market = place_of[bucket.market];
    for (Market& market : markets_)
        std::ranges::sort(market.counts, {},
                          [this](std::uint32_t c) { return offers_[counts_[c].like].gpu_count; });
}

std::uint64_t OfferIndex::country_bit(Place place) {
    constexpr std::size_t kTold = 63;
    const Offer& o = offers_[place];
    if (o.provider.get() == "local") return kAnyCountry;
    const auto known = std::ranges::find(
        countries_, o.country, [this](Place p) -> const std::string& { return offers_[p].country; });
    const auto number = static_cast<std::size_t>(known - countries_.begin());
    if (known == countries_.end() && number < kTold) countries_.push_back(place);
    return number < kTold ? std::uint64_t{1} << number : kAnyCountry;
}

void OfferIndex::bundle(std::uint32_t count) {
    Count& c = counts_[count];
    std::vector<Bundle> leaves;
    for (Count::Branch& branch : c.buckets) {
        branch.root = plant(branch.at);
        Bundle leaf{.count = count, .children = 1, .leaf = true};
        leaf.rates.fill(INT64_MAX);
        for (const Place place : buckets_[branch.at].offers)
            for (std::size_t d = 0; d < kDiskClasses.size(); ++d)
                leaf.rates[d] =
                    std::min(leaf.rates[d],
                             (offers_[place].gpu_rate + disk_rate(offers_[place], kDiskClasses[d])).micros);
        leaves.push_back(leaf);
    }
    constexpr std::size_t kUsualClass = 2;
    std::vector<std::size_t> order(leaves.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [&](std::size_t i) {
        return std::pair(leaves[i].rates[kUsualClass],
                         kind_key(offers_[buckets_[c.buckets[i].at].offers.front()]));
    });
    std::vector<Count::Branch> branches;
    auto level = static_cast<std::uint32_t>(bundles_.size());
    for (const std::size_t i : order) {
        leaves[i].first = static_cast<std::uint32_t>(branches.size());
        branches.push_back(c.buckets[i]);
        bundles_.push_back(leaves[i]);
    }
    c.buckets = std::move(branches);
    while (bundles_.size() - level > 1) {
        const auto end = static_cast<std::uint32_t>(bundles_.size());
        for (std::uint32_t first = level; first < end; first += kFanout) {
            Bundle above{.rates = bundles_[first].rates, .count = count, .first = first};
            above.children = std::min<std::uint32_t>(kFanout, end - first);
            for (std::uint32_t child = first; child < first + above.children; ++child)
                for (std::size_t d = 0; d < kDiskClasses.size(); ++d)
                    above.rates[d] = std::min(above.rates[d], bundles_[child].rates[d]);
            bundles_.push_back(above);
        }
        level = end;
    }
    c.top = level;
}

OfferIndex::NodeAt OfferIndex::plant(std::uint32_t bucket) {
    Bucket& b = buckets_[bucket];
    constexpr std::int64_t kUsualDisk = 50;  // GB
    std::vector<std::pair<std::int64_t, Place>> order;
    order.reserve(b.offers.size());
    for (const Place place : b.offers)
        order.emplace_back((offers_[place].gpu_rate + disk_rate(offers_[place], kUsualDisk)).micros, place);
    // At one price any order would do for the plan, which breaks ties itself; this one makes the work the
    // same for any input.
    std::ranges::sort(order, [this](const auto& x, const auto& y) {
        return x.first != y.first ? x.first < y.first : offers_[x.second].id < offers_[y.second].id;
    });
    for (std::size_t i = 0; i < order.size(); ++i) {
        b.offers[i] = order[i].second;
        b.tags.push_back(tag_of(offers_[b.offers[i]]));
        slot_of_[b.offers[i]] = static_cast<std::uint32_t>(i);
    }
    const auto size = static_cast<std::uint32_t>(b.offers.size());
    auto level = static_cast<NodeAt>(nodes_.size());
    for (std::uint32_t first = 0; first < size; first += kFanout) {
        const auto at = static_cast<NodeAt>(nodes_.size());
        Node node{.best = offers_[b.offers[first]], .bucket = bucket, .first = first, .leaf = true};
        node.children = node.left = std::min<std::uint32_t>(kFanout, size - first);
        node.best.country.clear();
        for (std::uint32_t i = first; i < first + node.children; ++i) {
            improve(node.best, offers_[b.offers[i]]);
            node.countries |= country_bit(b.offers[i]);
            node_of_[b.offers[i]] = at;
        }
        nodes_.push_back(std::move(node));
    }
    while (nodes_.size() - level > 1) {
        const auto end = static_cast<NodeAt>(nodes_.size());
        for (NodeAt first = level; first < end; first += kFanout) {
            const auto at = static_cast<NodeAt>(nodes_.size());
            Node node{.best = nodes_[first].best, .bucket = bucket, .first = first};
            node.children = std::min<std::uint32_t>(kFanout, end - first);
            for (NodeAt child = first; child < first + node.children; ++child) {
                improve(node.best, nodes_[child].best);
                node.countries |= nodes_[child].countries;
                node.left += nodes_[child].left;
                nodes_[child].parent = at;
            }
            nodes_.push_back(std::move(node));
        }
        level = end;
    }
    return level;
}

void OfferIndex::join_units() {
    by_name_.resize(offers_.size());
    for (Place place = 0; place < offers_.size(); ++place)
        by_name_[place] = {name_hash(offers_[place].provider.get(), offers_[place].id), place};
    std::ranges::sort(by_name_, [](const Named& a, const Named& b) {
        return std::tie(a.hash, a.offer) < std::tie(b.hash, b.offer);
    });
    units_.resize(offers_.size());
    next_in_unit_.resize(offers_.size());
    std::iota(units_.begin(), units_.end(), 0U);
    std::iota(next_in_unit_.begin(), next_in_unit_.end(), 0U);
    for (std::size_t i = 1; i < by_name_.size(); ++i) {
        const Place place = by_name_[i].offer;
        const Offer& o = offers_[place];
        if (!o.exclusive) continue;
        for (std::size_t j = i; j-- > 0 && by_name_[j].hash == by_name_[i].hash;) {
            const Place twin = by_name_[j].offer;
            if (!offers_[twin].exclusive || offers_[twin].provider != o.provider || offers_[twin].id != o.id)
                continue;
            units_[place] = units_[twin];
            next_in_unit_[place] = std::exchange(next_in_unit_[twin], place);
            break;
        }
    }
}

void OfferIndex::remove(std::uint32_t unit) {
    Place place = unit;  // a unit has the number of its first offer
    do {
        buckets_[bucket_of(place)].tags[slot_of_[place]].gone = true;
        for (NodeAt at = node_of_[place]; at != kNone; at = nodes_[at].parent)
            node_tags_[at].gone = --nodes_[at].left == 0;
        place = next_in_unit_[place];
    } while (place != unit);
}

const OfferFacts& OfferIndex::facts(Place place) {
    auto& known = facts_[place];
    if (!known) known = offer_facts(offers_[place], world_);
    return *known;
}

OfferIndex::Place OfferIndex::find(const OfferKey& key) const {
    const std::uint64_t hash = name_hash(key.provider.get(), key.id);
    for (auto at = std::ranges::lower_bound(by_name_, hash, {}, &Named::hash);
         at != by_name_.end() && at->hash == hash; ++at) {
        const Offer& o = offers_[at->offer];
        if (o.spot == key.spot && o.provider == key.provider && o.id == key.id) return at->offer;
    }
    return kNone;
}

std::size_t OfferIndex::disk_class(std::int64_t gb) {
    const auto above = std::ranges::upper_bound(kDiskClasses, gb);
    return above == kDiskClasses.begin() ? 0 : static_cast<std::size_t>(above - kDiskClasses.begin()) - 1;
}

}  // namespace gf
