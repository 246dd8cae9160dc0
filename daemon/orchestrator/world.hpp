// The live state of the core: what is running, being rented or being destroyed. Rebuilt from the store's rows at every
// start; the fields marked transient are observations that may be lost without harm.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "daemon/core.hpp"
#include "daemon/orchestrator/settings.hpp"
#include "model/id.hpp"
#include "scheduler/breaker.hpp"
#include "scheduler/finish_cost.hpp"
#include "scheduler/offer_index.hpp"
#include "scheduler/reputation.hpp"
#include "scheduler/spot_history.hpp"
#include "scheduler/spot_table.hpp"

namespace gf {

struct LiveJob {
    JobRecord row;
    std::shared_ptr<const JobSpec> spec;
};

/// The speed of an attempt is read off its progress: from `at` and `step` on, to `last`.
struct ProgressLook {
    Instant at;
    std::int64_t step{0};
    std::pair<Instant, std::int64_t> last;
    std::int64_t total{0};  // as told with that; 0 = none was
};

struct LiveTask {
    TaskRecord row;
    std::optional<AttemptRecord> attempt;      // the current one, while it has not ended
    // Transient:
    std::string last_manifest;                 // of the newest generation, to recognise a repeated candidate
    std::int64_t last_manifest_generation{0};
    Instant progress_written{};
    std::optional<Instant> stop_sent;          // a Stop is under way since
    std::optional<Instant> stop_deadline;
    std::string stop_reason;                   // "cancelled", "held", "duration"
    std::optional<ProgressLook> look;          // of this attempt
    std::optional<std::int64_t> total;         // steps, as its program last told
    bool counts_again{false};                  // its program's steps begin again within a run: its total is of a part
    std::int64_t gpu_peak{0};                  // bytes of one GPU, the most that this attempt's agent has told; 0 = nothing
    std::set<std::string> image_doubted;       // hosts on which nothing but its image explains that it did not come up
    std::optional<Instant> restore_from;       // this attempt restores its checkpoint since
    Bytes checkpoint_size;                     // of the newest generation; 0 = not known
    SpotHistory market;                        // for a job with a deadline: what spot it could have had since when
    Instant deadline_looked{};                 // when it was last asked whether it should be elsewhere
};

struct LiveMachine {
    MachineRecord row;
    std::optional<LedgerRecord> ledger;        // the open interval
    std::optional<ReservationRecord> reservation;
    // Transient:
    bool connected{false};
    bool checked{false};                       // this boot has passed the machine check
    Instant last_heard{};                      // by the agent; reset at start and after clock jumps
    std::optional<Instant> seen_saved;         // row.seen_at as the store has it
    std::optional<Instant> back_at;            // came back from an interruption: the start time-out counts from here
    int reads_failed{0};                       // in a row
    std::optional<Instant> first_hello;        // of this boot
    Instant next_call{};                       // no call before this (back-off, confirmation delay)
    Instant last_destroy{};                    // last accepted destroy call
    std::optional<Instant> alerted;            // last "will not die" alert
    bool destroy_refused{false};               // the last destroy came to nothing: a read tells whether it is needed still
    std::optional<Instant> rate_told_at;       // began of the last look that told what it costs
    bool unreachable{false};
    bool listed{false};                        // a listing has shown it under its id
    bool missed{false};                        // a complete listing lacked it although it should be there; a read decides
    bool ending_told{false};                   // the agent was told to drain
    std::optional<Instant> life_from;          // up since, or since its life was last noted (learning.cpp)
    std::optional<Instant> billed_from;        // when its bill began to grow: steps of a bill count from here
    bool rate_told{false};                     // its provider has shown what it bills for it while it runs
    bool lease_waits{false};                   // for that
    ProviderMachineId moved_to;                // a listing shows its tag under this id, and its own id no more
    std::optional<Instant> moved_at;           // when that listing began
    ProviderMachineId not_moved;               // both exist: what is under that id is a twin
    std::optional<Instant> bid_tried;          // the last raise was asked for
    std::optional<UsdPerHour> bid_asked;       // the highest that was asked for and not answered with a plain yes
    bool bid_unsure{false};                    // an earlier process may have asked for a raise that the row does not tell of
    std::optional<Instant> leave_stop;         // its job was told to checkpoint and leave
    std::string leave_reason;                  // for that: "lease_ends", "deadline"
    std::optional<SshEndpoint> tunnel_to;      // where a tunnel was asked for
    std::string tunnel_trouble;                // the last news of it, while its agent has not spoken; for people
};

/// A loss that may be an empty account's doing: its job goes on, but it is neither counted nor held against anybody before the
/// balance is known.
struct UnjudgedLoss {
    MachineRecord machine;                     // as it was
    TaskId task;
    int attempt{0};
    Cause cause{};
    std::string detail;
    Instant at;
    Instant held_until;                        // its task waits for the judgement, no longer than this
    bool by_market{false};
    bool boot_failed{false};                   // it was stopped before its agent spoke
};

/// An hour of the disk that was asked for, at the offer's price.
[[nodiscard]] inline UsdPerHour disk_rate(const MachineRecord& row) {
    return disk_rate(row.offer, (row.disk.count + kGB - 1) / kGB);
}

inline const std::string kLoginsPause = "registry_logins";

struct LiveProvider {
    ProviderName name;
    Capabilities capabilities;
    std::vector<Offer> offers;
    /// What could not be used of the last answer for each piece of the market (GPU counts, on-demand, spot), and when that began.
    std::map<std::tuple<std::vector<int>, bool, bool>, std::pair<Instant, std::vector<RejectedOffer>>> rejected;
    std::optional<Instant> offers_at;          // began of the last good read
    std::map<std::pair<int, bool>, Instant> offers_read;  // when the prices of a GPU count and kind (spot) were read
    std::optional<OfferQuery> offers_wanted;   // what the first job that waits for fresh prices can use
    OfferQuery offers_asked;                   // of the last call
    std::size_t offers_turn{0};                // which of the common counts the background looks at next
    bool offers_asked_once{false};
    std::optional<Instant> offers_call;        // in flight since
    Instant offers_next{};
    Instant market_next{};                     // when a look for the record of the market is due
    int offers_failures{0};
    std::string offers_error;
    std::optional<Instant> listing_at;         // began of the last good one of this process
    std::optional<Instant> listed_before;      // began of the last good one that this store has taken in, ever
    std::optional<Instant> listed_saved;       // as the store has it: at most a minute older
    bool listing_asked_once{false};
    std::optional<Instant> listing_asked;      // the last call began
    std::optional<Instant> listing_call;
    Instant listing_next{};                    // not before this after a failure
    int listing_failures{0};
    std::string listing_error;                 // non-empty: launches are paused with this reason
    bool not_trusted{false};                   // a listing lacked a machine that a read showed alive
    int launches_unsent{0};                    // in a row
    std::vector<Drift> offers_drift;           // of the last answers: launches are paused while there is any
    std::vector<Drift> listing_drift;
    Breaker breaker;                           // creates that came to nothing, in a row
    std::optional<Instant> empty_since;        // no machine of ours there since
    bool tidied{false};                        // since then
    std::map<std::string, Instant> pauses;     // "auth", "no_money", "quota", "api_retired", "unavailable" -> no launches until;
                                               // kLoginsPause -> none of private images until
    std::optional<Usd> balance;
    std::optional<Instant> balance_at;         // when that was asked for
    std::optional<Instant> balance_call;
    std::vector<UnjudgedLoss> unjudged;        // until the next balance
    Instant balance_next{};
    int balance_missed{0};                     // reads in a row

    /// The reason of the pause that lasts longest; empty = launches are not paused.
    [[nodiscard]] std::string paused(Instant now) const {
        std::pair<Instant, std::string> longest{now, {}};
        for (const auto& [reason, until] : pauses)
            if (reason != kLoginsPause && until > longest.first) longest = {until, reason};
        return longest.second;
    }
    /// Its way to take a login for a private image is closed; nothing else is.
    [[nodiscard]] bool logins_paused(Instant now) const {
        const auto found = pauses.find(kLoginsPause);
        return found != pauses.end() && found->second > now;
    }
};

/// What the last plans said of a waiting task. Lost at a restart without harm: it is planned anew.
struct QueueNote {
    std::optional<OfferKey> kept;              // chosen, and its price is being read again
    Instant kept_at{};
    std::string reason;
    Instant since{};                           // of that reason
    std::optional<Instant> looked_at, counted_at;
};

/// The task for which a quota is held (planner.hpp), taken along over the pages of the queue.
struct QueueHolder {
    JobRecord job;
    TaskRecord task;
    std::shared_ptr<const JobSpec> spec;
    QueueCursor page;                          // that shows it
    int walk{0};                               // World::queue_walks, when it last did
};

struct World {
    CoreSettings settings;
    IdMaker ids;
    Entropy entropy;
    std::map<JobId, LiveJob> jobs;
    std::map<TaskId, LiveTask> tasks;
    std::map<MachineId, LiveMachine> machines;
    std::map<std::string, LiveProvider> providers;
    std::map<std::string, std::pair<Instant, std::string>> cooled_offers;  // "provider/offer" -> until, reason
    std::map<std::string, std::pair<Instant, std::string>> bad_hosts;      // "provider/host" -> until, reason
    std::shared_ptr<const HostMarks> host_marks{std::make_shared<HostMarks>()};  // changed by copy: readers keep theirs
    std::shared_ptr<const RunHistory> learned{std::make_shared<RunHistory>()};   // changed by copy, as host_marks is
    Instant marks_swept{};                     // when faded marks were last let go
    std::map<std::string, Millis> image_starts;                            // how long machines take to come up with an image
    std::map<std::string, Instant> ended_twins;                            // "provider/id" -> when a second machine on a tag was gone
    std::map<std::string, AlertRecord> open_alerts;                        // by dedupe key
    std::map<JobId, std::pair<Instant, std::size_t>> decisions_written;    // when, and a hash of what: only changes are written
    std::map<std::string, std::int64_t> secrets;  // those that can be opened: name -> bytes of the value
    std::shared_ptr<SpotTables> spot_tables{std::make_shared<SpotTables>(std::size_t{80} << 20)};  // computed before
    // Placement.
    bool queue_dirty{true};                    // something changed that may let a waiting task be placed
    bool queue_read_open{false};
    Instant queue_next{};                      // look again then even if nothing changed
    Instant queue_pass_not_before{};           // at most one pass in 20 ms, except for an answer of a market
    QueueCursor queue_cursor;
    QueueCursor queue_page;                    // where the last page that was asked for begins
    std::optional<QueueCursor> queue_return;   // the page whose choices wait for the answer of a market
    int queue_walks{0};                        // pages that were read from the start of the queue on
    std::map<TaskId, QueueNote> queue_notes;   // bounded
    std::optional<QueueHolder> queue_holder;
    std::set<JobId> left_since_read;           // left the live state while a page was read: its row there may be old
    std::int64_t queued_jobs{0};
    // Since the last start or clock jump; settle and silence periods count from here at the earliest.
    Instant observations_from{};
    bool just_started{true};                   // open calls of the last process are not settled yet
};

}  // namespace gf
