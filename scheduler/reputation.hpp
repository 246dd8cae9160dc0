// What is remembered of hosts, of those who run them and of data centres, and what follows from it when an offer is chosen.
// Pure: marks go in, marks and standings come out; the core keeps them (World::host_marks) and the store holds them.
//
// A mark counts faults in thousandths. Everything decays with a half-life of three days, so that the answer to "how bad is this
// host" depends on the counts and the time alone: no list of events, no timer. The weight of a host is
//     boot failures + early losses + slow starts / 2 - good runs / 2, never below 0 nor above kMarkMost.
// From kHostOut on it gets nothing until its weight has decayed to that; below, its offers are ranked as if
// they were dearer. The first fault alone is answered by the cool-down of the host (timing.cooldown), which the core keeps.
//
// An owner or a data centre is marked only by a fault on a host that was clean until then, so its counts are of different hosts.
// It takes more of them to be left out, and less of each counts in the ranking.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "model/enum_text.hpp"
#include "model/records.hpp"

namespace gf {

/// What can be held against a host, and the one thing that speaks for it.
enum class HostEvent : std::uint8_t {
    boot_failure,   // rented, and no agent's word within the start time-out; or it stopped before the command ran
    check_failure,  // came up as something worse than was offered, or billed more
    slow_start,     // came up, much later than this image takes elsewhere
    early_loss,     // lost within its first hour, not by the market
    taken_early,    // taken back by its market within its first hour
    good_run,       // ran a command for a good while, to an end of its own
};
GF_ENUM_NAMES(HostEvent, {{E::boot_failure, "boot_failure"},
                          {E::check_failure, "check_failure"},
                          {E::slow_start, "slow_start"},
                          {E::early_loss, "early_loss"},
                          {E::taken_early, "taken_early"},
                          {E::good_run, "good_run"}});

using HostMarks = std::map<std::string, HostMarkRecord>;  // by HostMarkRecord::key

inline constexpr Millis kMarkHalfLife = std::chrono::hours{72};
inline constexpr std::int64_t kHostOut = 1500;         // a second fault before the first has faded
inline constexpr std::int64_t kOwnerOut = 3000;        // as many different hosts
inline constexpr std::int64_t kDataCenterOut = 5000;
inline constexpr std::int64_t kMarkMost = 6000;        // six days out at most
inline constexpr std::int64_t kMarkForgotten = 100;    // a mark whose counts are all below this says nothing any more
inline constexpr std::size_t kMarksMost = 4096;        // beyond, the faintest goes
inline constexpr int kHandicapMost = 50;               // percent
inline constexpr Millis kReputePatience = std::chrono::hours{1};  // of a task that nothing else would do for: `choose`

/// Keys of the marks that an offer falls under; empty where the provider does not tell.
[[nodiscard]] std::string host_key(const Offer& offer);
[[nodiscard]] std::string owner_key(const Offer& offer);
[[nodiscard]] std::string data_center_key(const Offer& offer);

/// The same mark as of `now`: `at` is not moved, the counts of the answer are what is left of them.
[[nodiscard]] HostMarkRecord faded(HostMarkRecord mark, Instant now);
/// Of the faded counts, in thousandths of a fault.
[[nodiscard]] std::int64_t mark_weight(const HostMarkRecord& mark, Instant now);
/// True once nothing that counts is left.
[[nodiscard]] bool mark_forgotten(const HostMarkRecord& mark, Instant now);

/// `mark` with one more event, `share` thousandths of it, as of `now`. A good run moves neither `at` nor `last`, which stay those
/// of the newest fault.
[[nodiscard]] HostMarkRecord marked(HostMarkRecord mark, HostEvent event, std::string_view detail, Instant now, std::int64_t share = 1000);

/// What changes when `event` happens on the host of `offer`: the marks to write, and those that leave for it (`kMarksMost`).
struct MarkChanges {
    std::vector<HostMarkRecord> put;
    std::vector<std::string> drop;
};
[[nodiscard]] MarkChanges note_host(const HostMarks& marks, const Offer& offer, HostEvent event, std::string_view detail, Instant now,
                                    std::int64_t share = 1000);
/// The keys of the marks that may be dropped.
[[nodiscard]] std::vector<std::string> faint_marks(const HostMarks& marks, Instant now);

/// What the marks say of one offer.
struct Standing {
    std::optional<Instant> out_until;  // nothing is rented there before
    int handicap_percent{0};           // on the price that it is ranked by
    std::string about;                 // "host 31877", "owner 70214", "data centre EU-RO-1": the one that weighs most
    const HostMarkRecord* mark{nullptr};  // its mark; lives as long as the marks
};
[[nodiscard]] Standing standing(const HostMarks& marks, const Offer& offer, Instant now);
/// "host 31877: 2 boot failures, 1 slow start in the last days, out until 2026-…; the last: …"
[[nodiscard]] std::string standing_text(const Standing& standing, Instant now);

}  // namespace gf
