// Rounds of `Provider::check` for the doctor: every provider once, side by side, on lanes of their own, and beside them what the
// daemon sees of its own place. One round at a time: who asks while one is running gets its answer. A provider whose check has
// not come back in time is told as such, and is not asked again before it has.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/api/core_port.hpp"
#include "daemon/runtime/lanes.hpp"
#include "providers/port.hpp"

namespace gf {

class ProviderChecks {
 public:
    using Done = std::function<void(std::vector<CheckLine>)>;

    /// All outlive what runs in the lanes. `own` gives the daemon's lines; it may block and may be empty. `patience` is real
    /// time for a whole round.
    ProviderChecks(Lanes& lanes, std::vector<Provider*> providers, std::function<std::vector<CheckLine>()> own,
                   std::chrono::milliseconds patience = std::chrono::seconds{60});
    ~ProviderChecks();

    /// `done` is called once, on a lane's thread or that of `stop`; after `stop` at once and with nothing. Never blocks.
    void ask(Done done);
    /// Ends the round that is running with what is there. Call before the lanes are stopped.
    void stop();

 private:
    struct State;
    static void gather(const std::shared_ptr<State>& state);
    static void finish(State& state, std::unique_lock<std::mutex> lock);

    Lanes& lanes_;
    std::vector<Provider*> providers_;
    std::function<std::vector<CheckLine>()> own_;
    std::shared_ptr<State> state_;  // also of the calls that are still out
};

}  // namespace gf
