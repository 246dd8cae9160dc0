// The offers that fit one shape of tasks, best first, found one by one: a part of the planner.
//
// Each bucket that passes the group filters is a tree with a lower bound of the score at its root. The node
// of the lowest bound is opened next: where the filters refuse its made-up offer all below it is out; else
// its children take its place. An offer whose turn comes is looked at, and the best that fits is handed out
// once no node can be better. What the pass has used up is not entered.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "scheduler/offer_index.hpp"
#include "scheduler/scoring.hpp"
#include "scheduler/task_shape.hpp"

namespace gf {

/// What the pass gave away of each thing that can be rented.
class OfferUse {
 public:
    using Place = OfferIndex::Place;
    static constexpr std::uint32_t kNobody = UINT32_MAX;

    explicit OfferUse(std::size_t units) : units_(units) {}
    void allow(std::uint32_t unit, int most) { units_[unit].most = most; }
    [[nodiscard]] bool gone(std::uint32_t unit) const { return units_[unit].given >= units_[unit].most; }
    [[nodiscard]] bool left(std::uint32_t unit) const {
        return units_[unit].given + units_[unit].asked < units_[unit].most;
    }
    /// Kept from all others.
    [[nodiscard]] bool barred(std::uint32_t unit, std::uint32_t task) const {
        return units_[unit].kept_by != kNobody && units_[unit].kept_by != task;
    }
    void keep(std::uint32_t unit, std::uint32_t task) {
        if (units_[unit].kept_by == kNobody) units_[unit].kept_by = task;
    }
    [[nodiscard]] std::uint32_t kept_by(std::uint32_t unit) const { return units_[unit].kept_by; }
    void ask(std::uint32_t unit) { ++units_[unit].asked; }
    void unask(std::uint32_t unit) { --units_[unit].asked; }
    void give(std::uint32_t unit) {
        --units_[unit].asked;
        ++units_[unit].given;
    }

 private:
    struct Unit {
        int most{1};
        int asked{0};  // by the unit that is being served
        int given{0};
        std::uint32_t kept_by{kNobody};
    };
    std::vector<Unit> units_;
};

/// Verdicts of the group filters, shared by all shapes that are alike in what those read. 1 passes, 0 is
/// refused.
class GroupVerdicts {
 public:
    struct OfCards {
        std::vector<char> counts;  // by OfferIndex::counts()
        std::vector<char> kinds;   // by OfferIndex::kinds()
    };
    using OfMarkets = std::vector<char>;  // by OfferIndex::markets()

    /// `world`: a number for it, since verdicts of two worlds differ.
    const OfMarkets& markets(const std::string& key, std::size_t world, const JobSpec& spec,
                             const TaskRecord& task, const ChoiceWorld& choice, OfferIndex& index);
    const OfCards& cards(const std::string& key, const JobSpec& spec, const TaskRecord& task,
                         const ChoiceWorld& choice, OfferIndex& index);
    /// Bits of OfferIndex::countries() in which the region filter lets the task go.
    std::uint64_t countries(const JobSpec& spec, const TaskRecord& task, const ChoiceWorld& choice,
                            OfferIndex& index);

 private:
    std::map<std::vector<std::string>, std::uint64_t> countries_;  // by the demanded regions
    std::map<std::pair<std::size_t, std::string>, OfMarkets> markets_;
    std::map<std::string, OfCards> cards_;
};

/// What the state filters say of each offer, whatever the task. Worked out at the first call for each.
class StateVerdicts {
 public:
    explicit StateVerdicts(std::size_t offers) : known_(offers) {}
    struct Verdict {
        bool known{false};
        int count{0};  // of refusals
        Filter first{nullptr};
    };
    const Verdict& of(OfferIndex::Place place, const Fit& fit);

 private:
    std::vector<Verdict> known_;
};

struct Candidate {
    std::int64_t score{0};
    UsdPerHour all_in;
    OfferIndex::Place offer{OfferIndex::kNone};
    bool local{false};
};

class CandidateWalk {
 public:
    struct Demand {
        const JobSpec* spec{nullptr};
        const TaskRecord* task{nullptr};
        const ChoiceWorld* world{nullptr};
    };
    struct Market {
        OfferIndex& index;
        const OfferUse& use;
        StateVerdicts& states;
        const Scoring& scoring;
        std::size_t& evaluations;
    };
    CandidateWalk(Demand demand, Market market, const GroupVerdicts::OfMarkets& markets,
                  const GroupVerdicts::OfCards& cards, std::uint64_t countries);

    /// The best that is left, taken out. Hands out what is asked for or kept too: whether it may be had is
    /// the caller's to say.
    std::optional<Candidate> pop();
    void push_back(const Candidate& candidate) { push(candidates_, candidate); }
    /// Of those that nothing but the repute of their host speaks against, best first. Complete once pop() has
    /// come to an end.
    [[nodiscard]] const std::vector<Candidate>& of_bad_repute();
    /// True if `could(offer, rate)` is true of anything that pop() may hand out yet: `rate` is the least that
    /// it costs per hour, and `offer` is one of the same market.
    template <class Could>
    [[nodiscard]] bool any_left(Could could) const {
        for (const Open& open : open_)
            if (could(like(open), UsdPerHour{open.rate})) return true;
        for (const Candidate& candidate : candidates_)
            if (could(candidate.offer, candidate.all_in)) return true;
        return false;
    }

    /// What is to be said where nothing is left, as if nothing was given away.
    struct Verdict {
        bool fits{false};  // something does
        std::string word;  // else: as Decision::wait_reason
    };
    [[nodiscard]] Verdict judge();
    /// Every offer held against the demand, as if nothing was given away: as Decision::refused.
    [[nodiscard]] std::map<std::string, int> count();

 private:
    static constexpr std::uint32_t kIsOffer = 1U << 31, kIsBundle = 1U << 30;
    struct Open {  // a bundle, a node, or an offer
        std::int64_t bound{0};
        std::int64_t rate{0};
        std::uint32_t at{0};      // with a bit of the above
        std::uint32_t bucket{0};  // of a bundle: any of its market
    };
    struct Refusals {
        int count{0};  // up to two
        Filter only{nullptr};
    };
    [[nodiscard]] OfferIndex::Place like(const Open& open) const {
        return market_.index.buckets()[open.bucket].offers.front();
    }
    [[nodiscard]] Fit fit_of(OfferIndex::Place place);
    [[nodiscard]] bool hopeless(const OfferIndex::Node& node, const Fit& best) const;
    [[nodiscard]] Refusals refusals(OfferIndex::Place place, const Fit& fit);
    template <class Visit>
    void passing_counts(Visit visit) const;
    void push_open(std::int64_t rate, std::uint32_t at, std::uint32_t bucket);
    void unbundle(const OfferIndex::Bundle& bundle);
    [[nodiscard]] std::string group_refusal(OfferIndex::Place like, std::size_t from, std::size_t to);
    [[nodiscard]] Pace pace(std::uint32_t bucket);
    void look(OfferIndex::Place place);
    template <class Visit>
    void children(const OfferIndex::Node& node, Visit visit);
    void push(std::vector<Candidate>& heap, const Candidate& candidate);
    [[nodiscard]] bool later(const Candidate& a, const Candidate& b) const;

    Demand demand_;
    Market market_;
    const GroupVerdicts::OfMarkets& markets_;
    const GroupVerdicts::OfCards& cards_;
    std::uint64_t countries_;              // where it may go: bits of OfferIndex::countries()
    std::map<std::uint32_t, Pace> paces_;  // of the passing buckets, where scoring knows any
    std::int64_t disk_{0};                 // GB
    std::size_t disk_class_{0};
    std::vector<Open> open_;             // a heap, the lowest bound on top
    std::vector<Candidate> candidates_;  // a heap, the best on top
    std::vector<Candidate> of_bad_repute_;
};

}  // namespace gf
