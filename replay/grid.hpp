// The cells of a replay: every combination of job length, deadline, changeover and price ratio, each played
// from many starts under many policies, and what comes out of it. Pure but for the time it takes.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "replay/play.hpp"
#include "replay/trace.hpp"

namespace gf::replay {

struct EgressRate {
    std::string from;  // regions (baselines.hpp, region_of); "*" = any
    std::string to;
    UsdPerHour per_gb;  // micro-dollars per GB
};

struct GridOptions {
    std::vector<Millis> work;
    std::vector<Millis> deadline;  // one of the two is given
    std::vector<double> slack;     // deadline = slack * work
    std::vector<Millis> changeover;
    std::vector<double> ratio;  // on-demand over spot: sets every spot price; empty = prices as they are
    Millis checkpoint_every{0};
    double checkpoint_gb{0};
    std::vector<EgressRate> egress;     // the first that fits counts
    std::vector<std::size_t> starts;    // into the trace
    std::vector<std::string> policies;  // "optimum" is one of them
    bool each_zone{false};              // every zone is a market by itself, and the cell pools them
};

struct PolicyResult {
    std::string policy;
    std::vector<Outcome> runs;  // by zone (if each), then start; empty for the optimum
    std::vector<std::optional<Usd>> costs;
    double over_on_demand{0};                 // sum of costs over what the work alone costs on demand
    std::optional<double> over_optimum;       // sum over sum, minus 1
    std::optional<double> over_optimum_mean;  // mean of the runs' own ratios, minus 1
    std::optional<double> gap_closed;         // share of the way from Uniform Progress to the optimum
    int missed{0};
    int interruptions{0};
    int moves{0};
    int starts{0};
};

struct Cell {
    Setting setting;
    double ratio{0};  // 0 = prices as in the trace
    bool feasible{true};
    std::vector<PolicyResult> results;  // in the order asked
};

[[nodiscard]] bool is_policy(const std::string& name);

/// Plays all cells, in the order work, deadline or slack, changeover, ratio (the last varies fastest). An
/// error for an unknown policy.
Result<std::vector<Cell>> play_grid(const Trace& trace, const GridOptions& options);

/// A fee for each pair of zones, from the rates; nothing between zones of one region.
[[nodiscard]] std::vector<std::vector<Usd>> egress_fees(const Trace& trace,
                                                        const std::vector<EgressRate>& rates,
                                                        double gigabytes);

[[nodiscard]] std::string as_table(const std::vector<Cell>& cells);
/// `runs`: with the cost of every run.
[[nodiscard]] std::string as_json(const std::vector<Cell>& cells, bool runs);

}  // namespace gf::replay
