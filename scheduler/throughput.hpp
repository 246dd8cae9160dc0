// What jobs have shown of their own speed, and how fast the next one of the same family will go on a card. Pure: progress goes in,
// records and estimates come out; the core keeps the records and the store holds them.
//
// Two jobs are of one family when they do the same work: same project, kind, image, command and model. Name, environment and
// resources do not count: a name is often numbered, and the same command in another place is the same work. (A job whose speed
// hangs on a variable of its environment gets a mean of its runs.)
//
// The unit of work is a step of `progress`; a family that reports none is counted in whole runs. A record sums work and time per
// family, card, count and share of a card; it decays with a half-life of 14 days. A changed command is another family, so nothing
// of the old one is left in it.
//
// An estimate joins what was seen on all cards. A record of another card says speed * prior(this card) / prior(that card), where
// the prior is card_speed.hpp. Logarithms are averaged with the inverse variance as weight: a record of n observations has
// 0.10^2 / n, or 0.02^2 if that is more; one of another card 0.21^2 on top (how far single models are from the mean of their cards
// in the public measurements), one of another count or share 0.10^2, one of another number of cores 0.50^2 (an assumption). So the
// first own look at a card weighs more than four times what any number of looks at another card does.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/enum_text.hpp"
#include "model/job_spec.hpp"
#include "model/records.hpp"
#include "scheduler/card_speed.hpp"

namespace gf {

enum class WorkUnit : std::uint8_t { step, run };
GF_ENUM_NAMES(WorkUnit, {{E::step, "step"}, {E::run, "run"}});

/// Key of a job's family: "voices/" and 16 hexadecimal digits. Its model is the one of resources.estimate, where there is one.
[[nodiscard]] std::string family_of(const JobSpec& spec);

/// What ran: the key of a record besides its family.
struct RunPlace {
    std::string card;        // canonical; empty = not known, or no GPU
    int gpus{0};
    int share_thousandths{1000};  // of each card
    int cpus{0};             // whole cores; only where no GPU is used, 0 = not known or does not count
    friend auto operator<=>(const RunPlace&, const RunPlace&) = default;
};
/// A job that uses no GPU (`cpu_only`) runs on the cores, whatever cards are there.
[[nodiscard]] RunPlace place_of(const Offer& offer, double share, bool cpu_only);
/// Speed of a place before anything was seen there: of its cards, or where it has none of its cores, each as one (an assumption: a
/// program may use fewer than there are). Not comparable between the two. Nothing for a card of which nothing is known.
[[nodiscard]] std::optional<CardSpeed> prior_speed(const RunPlace& place, WorkKind work, const CardSpeeds& speeds);

/// One row per family, unit and place; sums as of `at`.
struct ThroughputRecord {
    std::string family;
    WorkUnit unit{WorkUnit::step};
    RunPlace place;
    std::int64_t work{0};  // thousandths of the unit
    Millis busy{0};        // in which it was done
    std::int64_t looks{0};  // observations, in thousandths
    Instant at;
    friend bool operator==(const ThroughputRecord&, const ThroughputRecord&) = default;
};
/// One row per family and unit: how much a whole job of it is.
struct FamilyRecord {
    std::string family;
    WorkUnit unit{WorkUnit::step};
    std::int64_t total{0};  // thousandths of the unit, the newest that was told; 0 = its counter begins again within a run
    Instant at;
    friend bool operator==(const FamilyRecord&, const FamilyRecord&) = default;
};

inline constexpr Millis kThroughputHalfLife = std::chrono::hours{14 * 24};
inline constexpr Millis kShortestLook = std::chrono::seconds{30};  // below, start-up is most of what is seen
inline constexpr Millis kLongestLook = std::chrono::hours{1};      // a longer one counts as several

/// True if `work` thousandths in `busy` say something: both above 0, and not shorter than kShortestLook.
[[nodiscard]] bool tells(std::int64_t work, Millis busy);
/// `record` with one more observation; the same record where it tells nothing. Steps that went back (a restart) tell nothing.
[[nodiscard]] ThroughputRecord observed(ThroughputRecord record, std::int64_t work, Millis busy, Instant now);
[[nodiscard]] ThroughputRecord faded(ThroughputRecord record, Instant now);
/// True once nothing that counts is left of it.
[[nodiscard]] bool forgotten(const ThroughputRecord& record, Instant now);

struct SpeedEstimate {
    double units_per_hour{0};  // above 0
    double spread{0};          // standard deviation of its logarithm
    int own{0};                // observations on the same card, count and share
    int other{0};              // on others
};
/// `seen`: the records of one family and unit, in any order: the sums are made in the order of their places. Nothing without a
/// record that tells of this place: its own, or another whose card and this one have a prior.
[[nodiscard]] std::optional<SpeedEstimate> estimate_speed(std::span<const ThroughputRecord> seen, const RunPlace& place, WorkKind work,
                                                          const CardSpeeds& speeds, Instant now);

}  // namespace gf
