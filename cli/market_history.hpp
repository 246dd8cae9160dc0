// `gpuferry offers --history`: what the daemon has recorded of the markets, as a table of places or as traces
// for gpuferry-replay.
#pragma once
#include <cstddef>
#include <string>

#include "cli/command.hpp"

namespace gf::cli {

struct HistoryOptions {
    bool wanted{false};
    std::string gpu, provider;
    int gpus{0};              // 0 = any number
    bool spot{false};         // only spot; neither = both (for traces: spot)
    bool on_demand{false};    // only on demand
    std::string from, to;     // a time, a day, or how long ago
    std::string tick;         // for traces; empty = 5m
    std::string out;          // folder for traces; empty = a table
    double known_least{0.9};  // for traces: zones of which less is known are left out
    std::size_t limit{50};    // rows of the table
};

/// Asks the daemon and prints or writes; the exit status.
int offer_history(Context& context, const HistoryOptions& options);

}  // namespace gf::cli
