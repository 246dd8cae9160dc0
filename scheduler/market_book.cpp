#include "scheduler/market_book.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "model/region.hpp"

namespace gf {
namespace {

std::string place_of(const Offer& offer) {
    // The narrowest thing that lasts. RunPod tells a data centre only while just one has stock, so its clouds come before.
    if (!offer.host_id.empty()) return "host/" + offer.host_id;
    if (!offer.cloud.empty()) return "cloud/" + offer.cloud;
    if (!offer.data_center.empty()) return "data_center/" + offer.data_center;
    if (!offer.region.empty()) return "region/" + offer.region;
    return "any";
}

template <class List, class Value>
bool among(const List& list, const Value& value) {
    return std::ranges::find(list, value) != list.end();
}

Instant read_at(const MarketLook& look, int count, bool spot) {
    const auto own = look.read_at.find({count, spot});
    return own == look.read_at.end() ? look.at : own->second;
}

}  // namespace

std::optional<MarketKey> market_key(const Offer& offer) {
    if (offer.gpu.canonical.empty() || offer.gpu_count < 1) return std::nullopt;
    const double share = std::clamp(offer.gpu_share, 0.001, 1.0);
    return MarketKey{.provider = offer.provider, .place = place_of(offer), .card = offer.gpu.canonical,
                     .gpu_count = offer.gpu_count, .share = static_cast<int>(std::lround(share * 1000)), .spot = offer.spot};
}

/// What an answer shows of one key: the cheapest of its offers.
struct MarketBook::Seen {
    bool up{false};
    UsdPerHour price;
    std::string country;
    std::set<std::string> ids;
    bool unvetted{false};
};

void MarketBook::restore(const MarketSight& sight, MarketPoint last) {
    // Whether its host is vetted is not stored: until it is shown again, looks for vetted ones alone do not miss it.
    Entry entry{.last = last, .price = sight.price, .seen = sight.seen, .shown = sight.shown, .country = {}, .ids = {}, .unvetted = true};
    newest_ = std::max(newest_, sight.seen);
    entries_.insert_or_assign(sight.key, std::move(entry));
}

void MarketBook::set(const MarketKey& key, Entry& entry, MarketPoint point, std::vector<MarketChange>& changes) {
    if (entry.last.state == point.state && entry.last.price == point.price) return;
    entry.last = point;
    changes.push_back({.key = key, .point = point});
}

void MarketBook::close_gap(const MarketKey& key, Entry& entry, Instant now, std::vector<MarketChange>& changes) {
    // A moment after the look, so that what it showed keeps its own.
    if (now - entry.seen > kMarketGap) set(key, entry, {.at = entry.seen + Millis{1}}, changes);
}

bool MarketBook::would_show(const MarketLook& look, const MarketKey& key, const Entry& entry) {
    if (look.by_figures || !among(look.gpu_counts, key.gpu_count) || !(key.spot ? look.spot : look.on_demand)) return false;
    if (!look.cards.empty() && !among(look.cards, key.card)) return false;
    if (!look.regions.empty() &&
        std::ranges::none_of(look.regions, [&](const std::string& region) { return in_region(entry.country, region); }))
        return false;
    if (look.vetted_only && entry.unvetted) return false;
    // Its price or memory could not be read: it stands there all the same.
    if (std::ranges::any_of(entry.ids, [&](const std::string& id) { return look.unreadable.contains(id); })) return false;
    const MarketReach* reach = nullptr;
    for (const MarketReach& r : look.reaches) {
        if (r.gpu_count != key.gpu_count || r.spot != key.spot) continue;
        if ((!r.card.empty() && r.card != key.card) || (!r.place.empty() && r.place != key.place)) continue;
        const auto narrow = [](const MarketReach& line) { return std::pair(!line.place.empty(), !line.card.empty()); };
        if (reach == nullptr || narrow(r) > narrow(*reach)) reach = &r;
    }
    return reach == nullptr || !reach->up_to || (entry.price && *entry.price < *reach->up_to);
}

std::vector<MarketChange> MarketBook::look(const MarketLook& look, const HeldKeys& held) {
    std::vector<MarketChange> changes;
    if (look.drifted) return changes;
    std::map<MarketKey, Seen> shown;
    for (const Offer& offer : look.offers) {
        const auto key = market_key(offer);
        if (!key || key->provider != look.provider) continue;
        Seen& seen = shown[*key];
        seen.ids.insert(offer.id);
        seen.unvetted = seen.unvetted || offer.verified == false;
        if (seen.country.empty()) seen.country = offer.country;
        if (offer.stock == 0) continue;  // listed, and none to be had
        if (!seen.up || offer.gpu_rate < seen.price) seen.price = offer.gpu_rate;
        seen.up = true;
    }
    for (auto& [key, seen] : shown) {
        const Instant at = read_at(look, key.gpu_count, key.spot);
        const auto [found, fresh] = entries_.try_emplace(key);
        Entry& entry = found->second;
        if (fresh) entry.seen = at;
        else if (at < entry.seen) continue;
        close_gap(key, entry, at, changes);
        if (seen.up) entry.price = seen.price;
        set(key, entry,
            {.at = at, .state = seen.up ? MarketState::up : MarketState::down, .price = seen.up ? seen.price : UsdPerHour{}}, changes);
        entry.seen = entry.shown = at;
        entry.country = std::move(seen.country);
        entry.ids = std::move(seen.ids);
        entry.unvetted = seen.unvetted;
        newest_ = std::max(newest_, at);
    }
    std::set<std::string> our_places;
    for (const MarketKey& key : held)
        if (key.provider == look.provider) our_places.insert(key.place);
    const MarketKey first{.provider = look.provider, .place = {}, .card = {}};
    for (auto it = entries_.lower_bound(first); it != entries_.end() && it->first.provider == look.provider; ++it) {
        auto& [key, entry] = *it;
        if (shown.contains(key)) continue;
        const Instant at = read_at(look, key.gpu_count, key.spot);
        if (at < entry.seen) continue;
        const bool ours = held.contains(key);
        if (!ours && (our_places.contains(key.place) || !would_show(look, key, entry))) continue;
        close_gap(key, entry, at, changes);
        if (ours && entry.last.state == MarketState::unknown) continue;
        entry.seen = at;
        newest_ = std::max(newest_, at);
        if (ours) {
            entry.shown = at;
        } else {
            set(key, entry, {.at = at, .state = MarketState::down, .price = {}}, changes);
        }
    }
    cut(changes);
    std::ranges::sort(changes, {}, [](const MarketChange& c) { return std::tie(c.key, c.point.at); });
    return changes;
}

std::vector<MarketChange> MarketBook::age(Instant now) {
    std::vector<MarketChange> changes;
    for (auto it = entries_.begin(); it != entries_.end();) {
        auto& [key, entry] = *it;
        close_gap(key, entry, now, changes);
        const bool forgotten = now - entry.shown > kForgotten;
        // What is no longer followed is not told to be down for ever.
        if (forgotten) set(key, entry, {.at = entry.seen + Millis{1}}, changes);
        it = forgotten ? entries_.erase(it) : std::next(it);
    }
    return changes;
}

void MarketBook::cut(std::vector<MarketChange>& changes) {
    if (entries_.size() <= keys_most_) return;
    std::vector<std::pair<Instant, MarketKey>> by_age;
    for (const auto& [key, entry] : entries_) by_age.emplace_back(entry.shown, key);
    // Some more than must go, so that the next key does not sort them all again.
    const std::size_t gone = std::min(by_age.size(), entries_.size() - keys_most_ + keys_most_ / 20);
    const auto end = by_age.begin() + static_cast<std::ptrdiff_t>(gone);
    if (end != by_age.end()) std::nth_element(by_age.begin(), end, by_age.end());
    std::for_each(by_age.begin(), end, [&](const auto& oldest) {
        const auto entry = entries_.find(oldest.second);
        set(entry->first, entry->second, {.at = entry->second.seen + Millis{1}}, changes);
        entries_.erase(entry);
    });
}

std::vector<MarketSight> MarketBook::seen_after(Instant since) const {
    std::vector<MarketSight> out;
    for (const auto& [key, entry] : entries_)
        if (entry.seen > since) out.push_back({.key = key, .seen = entry.seen, .shown = entry.shown, .price = entry.price});
    return out;
}

}  // namespace gf
