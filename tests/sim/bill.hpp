// What one modelled machine costs, change by change, and when the daemon was told. A change lies between two
// looks that reached the daemon, and when in between is nowhere told: so much money may its ledger be off.
// Computed from the model's own record; the core's view of things plays no part in it.
#pragma once
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "model/time.hpp"

namespace gf::sim {

/// An answer about a machine that the daemon has taken in.
struct Look {
    Instant began;  // the call
    Instant made;   // the answer, at the provider
    Instant heard;  // committed by the daemon
};

class Bill {
 public:
    /// One poll when nothing goes wrong: a sweep, the tick that begins it, two ways of a call and the batch
    /// that it is committed with.
    static constexpr Millis kPoll = Seconds{13};
    /// The same for an end, which only a read by id proves: a sweep, and the call, pause and read that follow
    /// a destroy.
    static constexpr Millis kBetweenLooks = Seconds{18};

    /// Made at `at` by a call that began at `asked`. It costs `micros` an hour.
    void begin(Instant asked, Instant at, std::int64_t micros);
    /// From `at` on it costs that much an hour. The same again is no change.
    void change(Instant at, std::int64_t micros);
    /// It goes on under another id, which nobody was told.
    void move(Instant at);
    /// A look that shows what it costs. `created`: by the answer to its create call, which does not say when
    /// it was made.
    void look(const Look& look, bool created);
    /// It is there, says the answer to its create call, and not what it costs.
    void named();
    /// Something keeps the daemon from looking, or from knowing what it saw: a call that failed or took long,
    /// an answer that left the machine out, a suspend, a stop of the daemon.
    void trouble(Instant at) { trouble_ = std::max(trouble_, at); }
    /// The daemon starts anew, and that is the last look that it wrote down.
    void forget(Instant last_look);
    /// The run is over: whatever nobody was ever told is counted up to the end of the machine.
    void end(Instant ended);

    /// Micro-dollars that may hang on when a change happened, where nothing keeps the daemon from looking.
    [[nodiscard]] std::int64_t between_looks() const { return between_looks_; }
    /// The same where something kept the daemon from looking.
    [[nodiscard]] std::int64_t hidden() const { return hidden_; }
    /// A change of its bill met trouble.
    [[nodiscard]] bool touched() const { return touched_; }
    /// The longest time between two looks around a change without any trouble, above the usual. The core did
    /// not look; nothing excuses that.
    [[nodiscard]] Millis unexcused() const { return unexcused_; }
    [[nodiscard]] Instant unexcused_at() const { return unexcused_at_; }

 private:
    struct Change {
        Instant at;
        std::int64_t micros;
    };
    void count(std::int64_t micros_per_hour, Instant from, Instant to);
    /// What its price may be off by until `to`, if nobody knows when the first `changes` of those that are
    /// not told yet happened.
    void count_untold(std::size_t changes, Instant to);

    Instant asked_{}, made_{};
    bool told_{false};             // by any look
    Instant seen_{};               // the last look began
    std::int64_t told_micros_{0};  // what it cost when it was last looked at
    std::vector<Change> untold_;   // since then, oldest first
    Instant untold_from_{};        // the look before them
    Instant trouble_{};
    std::int64_t between_looks_{0}, hidden_{0};
    bool touched_{false};
    Millis unexcused_{0};
    Instant unexcused_at_{};
};

}  // namespace gf::sim
