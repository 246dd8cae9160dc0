#include "scheduler/candidate_walk.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace gf {
namespace {

constexpr std::int64_t kHour = 3'600'000;  // ms

/// The reason of the first of filters [from, to) that refuses; empty = none does.
std::string first_refusal(const Fit& fit, std::size_t from, std::size_t to) {
    for (const auto filter : filters().subspan(from, to - from))
        if (auto refusal = filter(fit)) return std::move(refusal->reason);
    return {};
}

/// The cost of `rate` for `time`, rounded down.
std::int64_t least_cost(std::int64_t rate, std::int64_t time) {
    return time == kHour ? rate : static_cast<std::int64_t>(static_cast<__int128>(rate) * time / kHour);
}

bool passes(const Fit& fit, std::size_t from, std::size_t to) {
    return std::ranges::none_of(filters().subspan(from, to - from),
                                [&](Filter filter) { return filter(fit).has_value(); });
}

}  // namespace

const GroupVerdicts::OfMarkets& GroupVerdicts::markets(const std::string& key, std::size_t world,
                                                       const JobSpec& spec, const TaskRecord& task,
                                                       const ChoiceWorld& choice, OfferIndex& index) {
    auto [at, added] = markets_.try_emplace({world, key});
    if (!added) return at->second;
    for (const auto& market : index.markets())
        at->second.push_back(
            passes(make_fit(spec, task, index.offer(market.like), choice, index.facts(market.like)), 0,
                   kMarketFilters));
    return at->second;
}

const GroupVerdicts::OfCards& GroupVerdicts::cards(const std::string& key, const JobSpec& spec,
                                                   const TaskRecord& task, const ChoiceWorld& choice,
                                                   OfferIndex& index) {
    auto [at, added] = cards_.try_emplace(key);
    if (!added) return at->second;
    const auto judge = [&](OfferIndex::Place like, std::size_t from, std::size_t to) {
        return passes(make_fit(spec, task, index.offer(like), choice, index.facts(like)), from, to);
    };
    at->second.counts.reserve(index.counts().size());
    at->second.kinds.reserve(index.kinds().size());
    for (const auto& count : index.counts())
        at->second.counts.push_back(judge(count.like, kMarketFilters, kCountFilters));
    for (const auto kind : index.kinds())
        at->second.kinds.push_back(judge(kind, kCountFilters, kCardFilters));
    return at->second;
}

std::uint64_t GroupVerdicts::countries(const JobSpec& spec, const TaskRecord& task, const ChoiceWorld& choice,
                                       OfferIndex& index) {
    auto [at, added] = countries_.try_emplace(spec.resources.regions, OfferIndex::kAnyCountry);
    if (!added) return at->second;
    for (std::size_t i = 0; i < index.countries().size(); ++i) {
        const auto like = index.countries()[i];
        if (!region_filter()(make_fit(spec, task, index.offer(like), choice, index.facts(like))))
            at->second |= std::uint64_t{1} << i;
    }
    return at->second;
}

const StateVerdicts::Verdict& StateVerdicts::of(OfferIndex::Place place, const Fit& fit) {
    Verdict& verdict = known_[place];
    if (verdict.known) return verdict;
    verdict.known = true;
    for (const auto filter : state_filters())
        if (filter(fit) && ++verdict.count == 1) verdict.first = filter;
    return verdict;
}

CandidateWalk::CandidateWalk(Demand demand, Market market, const GroupVerdicts::OfMarkets& markets,
                             const GroupVerdicts::OfCards& cards, std::uint64_t countries)
    : demand_(demand),
      market_(market),
      markets_(markets),
      cards_(cards),
      countries_(countries),
      disk_(disk_gb(*demand.spec)) {
    disk_class_ = OfferIndex::disk_class(disk_);
    passing_counts([&](const OfferIndex::Count& count) {
        const auto& top = market_.index.bundles()[count.top];
        open_.push_back({0, top.rates[disk_class_], count.top | kIsBundle, count.buckets.front().at});
    });
    // Where each kind of card has its own pace, the price alone orders none of them.
    if (market_.scoring.pace == nullptr)
        for (Open& open : open_) open.bound = open.rate;
    std::ranges::make_heap(open_, std::greater{}, &Open::bound);
}

template <class Visit>
void CandidateWalk::passing_counts(Visit visit) const {
    const OfferIndex& index = market_.index;
    for (std::size_t m = 0; m < index.markets().size(); ++m) {
        if (!markets_[m]) continue;
        for (const auto c : index.markets()[m].counts)
            if (cards_.counts[c]) visit(index.counts()[c]);
    }
}

void CandidateWalk::push_open(std::int64_t rate, std::uint32_t at, std::uint32_t bucket) {
    const std::int64_t bound = market_.scoring.pace == nullptr ? rate : least_cost(rate, pace(bucket).least);
    open_.push_back({bound, rate, at, bucket});
    std::ranges::push_heap(open_, std::greater{}, &Open::bound);
}

/// Puts what is in the bundle in its place.
void CandidateWalk::unbundle(const OfferIndex::Bundle& bundle) {
    const OfferIndex& index = market_.index;
    const auto& count = index.counts()[bundle.count];
    for (std::uint32_t i = bundle.first; i < bundle.first + bundle.children; ++i) {
        const auto& child = bundle.leaf ? bundle : index.bundles()[i];
        if (child.leaf) {
            const auto& bucket = count.buckets[child.first];
            if (cards_.kinds[bucket.kind] && !index.tag(bucket.root).gone)
                push_open(child.rates[disk_class_], bucket.root, bucket.at);
        } else if (market_.scoring.pace != nullptr) {
            unbundle(child);
        } else {
            push_open(child.rates[disk_class_], i | kIsBundle, count.buckets.front().at);
        }
    }
}

Pace CandidateWalk::pace(std::uint32_t bucket) {
    if (market_.scoring.pace == nullptr) return {};
    const auto [at, added] = paces_.try_emplace(bucket);
    const auto place = market_.index.buckets()[bucket].offers.front();
    if (added)
        at->second = market_.scoring.pace(market_.scoring.self,
                                          make_fit(*demand_.spec, *demand_.task, market_.index.offer(place),
                                                   *demand_.world, market_.index.facts(place)));
    return at->second;
}

Fit CandidateWalk::fit_of(OfferIndex::Place place) {
    Fit fit = make_fit(*demand_.spec, *demand_.task, market_.index.offer(place), *demand_.world,
                       market_.index.facts(place));
    if (market_.scoring.pace != nullptr) fit.expected = pace(market_.index.bucket_of(place)).expected;
    return fit;
}

bool CandidateWalk::later(const Candidate& a, const Candidate& b) const {
    // As `choose` has it: the local machine before a cloud at the same price, then names.
    if (a.score != b.score) return a.score > b.score;
    if (a.local != b.local) return b.local;
    const Offer& x = market_.index.offer(a.offer);
    const Offer& y = market_.index.offer(b.offer);
    return std::tie(x.provider, x.id, x.spot) > std::tie(y.provider, y.id, y.spot);
}

void CandidateWalk::push(std::vector<Candidate>& heap, const Candidate& candidate) {
    heap.push_back(candidate);
    std::ranges::push_heap(heap, [this](const Candidate& a, const Candidate& b) { return later(a, b); });
}

/// True if nothing below the node is what the task demands.
bool CandidateWalk::hopeless(const OfferIndex::Node& node, const Fit& best) const {
    if ((node.countries & (countries_ | OfferIndex::kAnyCountry)) == 0) return true;
    const Filter region = region_filter();
    return std::ranges::any_of(demand_filters(),
                               [&](Filter filter) { return filter != region && filter(best); });
}

CandidateWalk::Refusals CandidateWalk::refusals(OfferIndex::Place place, const Fit& fit) {
    Refusals out;
    const auto add = [&](Filter filter) {
        if (++out.count == 1) out.only = filter;
        return out.count > 1;
    };
    for (const auto filter : demand_filters())
        if (filter(fit) && add(filter)) return out;
    const auto& state = market_.states.of(place, fit);
    if (state.count > 0 && add(state.first)) return out;
    if (state.count > 1 && add(state.first)) return out;
    for (const auto filter : money_filters())
        if (filter(fit) && add(filter)) return out;
    return out;
}

void CandidateWalk::look(OfferIndex::Place place) {
    ++market_.evaluations;
    const Fit fit = fit_of(place);
    for (const auto filter : demand_filters())
        if (filter(fit)) return;
    const auto& state = market_.states.of(place, fit);
    const bool host_only = state.count == 1 && state.first(fit)->reason == "host_reputation";
    if (state.count > 0 && !host_only) return;
    for (const auto filter : money_filters())
        if (filter(fit)) return;
    push(host_only ? of_bad_repute_ : candidates_,
         {market_.scoring.score(market_.scoring.self, fit), fit.all_in, place, fit.local});
}

template <class Visit>
void CandidateWalk::children(const OfferIndex::Node& node, Visit visit) {
    for (std::uint32_t i = node.first; i < node.first + node.children; ++i)
        visit(node.leaf ? market_.index.buckets()[node.bucket].offers[i] | kIsOffer : i);
}

std::optional<Candidate> CandidateWalk::pop() {
    OfferIndex& index = market_.index;
    while (!open_.empty() && (candidates_.empty() || open_.front().bound <= candidates_.front().score)) {
        std::ranges::pop_heap(open_, std::greater{}, &Open::bound);
        const Open open = open_.back();
        open_.pop_back();
        if (open.at & kIsOffer) {
            if (!market_.use.gone(index.unit(open.at & ~kIsOffer))) look(open.at & ~kIsOffer);
            continue;
        }
        if (open.at & kIsBundle) {
            unbundle(index.bundles()[open.at & ~kIsBundle]);
            continue;
        }
        if (index.tag(open.at).gone) continue;
        const auto& node = index.node(open.at);
        if (node.children > 2) {  // a look at each of two costs no more
            ++market_.evaluations;
            Fit best =
                make_fit(*demand_.spec, *demand_.task, node.best, *demand_.world, index.facts(like(open)));
            best.expected = pace(open.bucket).expected;
            if (hopeless(node, best)) continue;
            if (std::ranges::any_of(money_filters(), [&](Filter filter) { return filter(best).has_value(); }))
                continue;
        }
        const auto& bucket = index.buckets()[node.bucket];
        for (std::uint32_t i = node.first; i < node.first + node.children; ++i) {
            const auto& tag = node.leaf ? bucket.tags[i] : index.tag(i);
            if (tag.gone) continue;
            const UsdPerHour rate =
                tag.rate + disk_rate(tag.disk_micros_per_gb_month, disk_, tag.hours_per_month);
            push_open(std::max(open.rate, rate.micros), node.leaf ? bucket.offers[i] | kIsOffer : i,
                      open.bucket);
        }
    }
    if (candidates_.empty()) return std::nullopt;
    std::ranges::pop_heap(candidates_,
                          [this](const Candidate& a, const Candidate& b) { return later(a, b); });
    const Candidate best = candidates_.back();
    candidates_.pop_back();
    return best;
}

const std::vector<Candidate>& CandidateWalk::of_bad_repute() {
    std::ranges::sort(of_bad_repute_, [this](const Candidate& a, const Candidate& b) { return later(b, a); });
    return of_bad_repute_;
}

CandidateWalk::Verdict CandidateWalk::judge() {
    OfferIndex& index = market_.index;
    std::set<std::string> sole_reasons;
    // What is too dear is put aside: only the cheapest of it can be kept out by its price alone.
    std::vector<Open> dear, open;
    passing_counts([&](const OfferIndex::Count& count) {
        for (const auto& [at, kind, root] : count.buckets)
            if (cards_.kinds[kind]) open.push_back({0, 0, root, at});
    });
    const auto look_at = [&](OfferIndex::Place place, const Fit& fit) {
        const Refusals refused = refusals(place, fit);
        if (refused.count == 1) sole_reasons.insert(refused.only(fit)->reason);
        return refused.count;
    };
    const auto fit_at = [&](const Open& o) {
        if (o.at & kIsOffer) return fit_of(o.at & ~kIsOffer);
        Fit fit = make_fit(*demand_.spec, *demand_.task, index.node(o.at).best, *demand_.world,
                           index.facts(like(o)));
        fit.expected = pace(o.bucket).expected;
        return fit;
    };
    const auto open_up = [&](const Open& o, std::vector<Open>& into) {
        children(index.node(o.at), [&](std::uint32_t at) {
            const Offer& offer = at & kIsOffer ? index.offer(at & ~kIsOffer) : index.node(at).best;
            into.push_back({0, (offer.gpu_rate + disk_rate(offer, disk_)).micros, at, o.bucket});
        });
    };
    while (!open.empty()) {
        const Open o = open.back();
        open.pop_back();
        ++market_.evaluations;
        const Fit fit = fit_at(o);
        const bool is_offer = (o.at & kIsOffer) != 0;
        if (!is_offer && hopeless(index.node(o.at), fit)) continue;
        if (std::ranges::any_of(money_filters(), [&](Filter filter) { return filter(fit).has_value(); })) {
            dear.push_back({0, fit.all_in.micros, o.at, o.bucket});
            continue;
        }
        if (!is_offer)
            open_up(o, open);
        else if (look_at(o.at & ~kIsOffer, fit) == 0)
            return {.fits = true, .word = {}};
    }
    // By price: what keeps the cheapest of a market out keeps the rest of it out too, and adds no other
    // reason that stands alone. The first that only max_price keeps out says so of all that is dearer
    // anywhere.
    std::set<std::uint32_t> done;  // markets
    std::ranges::make_heap(dear, std::greater{}, &Open::rate);
    while (!dear.empty()) {
        std::ranges::pop_heap(dear, std::greater{}, &Open::rate);
        const Open o = dear.back();
        dear.pop_back();
        const std::uint32_t market = index.buckets()[o.bucket].market;
        if (done.contains(market)) continue;
        ++market_.evaluations;
        const Fit fit = fit_at(o);
        if (!(o.at & kIsOffer)) {
            if (hopeless(index.node(o.at), fit)) continue;
            const std::size_t before = dear.size();
            open_up(o, dear);
            for (std::size_t end = before + 1; end <= dear.size(); ++end)
                std::ranges::push_heap(dear.begin(), dear.begin() + static_cast<std::ptrdiff_t>(end),
                                       std::greater{}, &Open::rate);
            continue;
        }
        const OfferIndex::Place place = o.at & ~kIsOffer;
        if (std::ranges::any_of(demand_filters(), [&](Filter filter) { return filter(fit).has_value(); }))
            continue;
        if (market_.states.of(place, fit).count > 0) continue;
        look_at(place, fit);
        if (sole_reasons.contains("max_price") || sole_reasons.contains("quota_usd_per_hour")) break;
        done.insert(market);
    }
    std::map<std::string, int> refused;
    std::size_t considered = 0;
    for (std::size_t m = 0; m < index.markets().size(); ++m) {
        considered += index.markets()[m].offers;
        ++refused[markets_[m] ? "demands" : group_refusal(index.markets()[m].like, 0, kMarketFilters)];
    }
    return {.fits = false, .word = wait_reason(static_cast<int>(considered), refused, sole_reasons)};
}

std::string CandidateWalk::group_refusal(OfferIndex::Place like, std::size_t from, std::size_t to) {
    return first_refusal(fit_of(like), from, to);
}

std::map<std::string, int> CandidateWalk::count() {
    OfferIndex& index = market_.index;
    std::map<std::string, int> out;
    const auto refuse = [&](const std::string& reason, std::size_t offers) {
        out[reason] += static_cast<int>(offers);
    };
    for (std::size_t m = 0; m < index.markets().size(); ++m) {
        const auto& market = index.markets()[m];
        if (!markets_[m]) {
            refuse(group_refusal(market.like, 0, kMarketFilters), market.offers);
            continue;
        }
        for (const auto c : market.counts) {
            const auto& count = index.counts()[c];
            if (!cards_.counts[c]) {
                refuse(group_refusal(count.like, kMarketFilters, kCountFilters), count.offers);
                continue;
            }
            for (const auto& [at, kind, root] : count.buckets) {
                const auto& bucket = index.buckets()[at];
                if (!cards_.kinds[kind]) {
                    refuse(group_refusal(bucket.offers.front(), kCountFilters, kCardFilters),
                           bucket.offers.size());
                    continue;
                }
                for (const auto place : bucket.offers) {
                    ++market_.evaluations;
                    const std::string reason = first_refusal(fit_of(place), kCardFilters, filters().size());
                    if (!reason.empty()) ++out[reason];
                }
            }
        }
    }
    return out;
}

}  // namespace gf
