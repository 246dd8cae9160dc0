// What the listeners need from the runtime: a way to hand an event to the core and to read what the core publishes.
// The runtime implements it; tests use a fake. Everything here may be called from any thread and returns at once.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/api_result.hpp"
#include "daemon/public_view.hpp"
#include "providers/port.hpp"
#include "scheduler/choice.hpp"

namespace gf {

struct Event;  // daemon/core.hpp

/// One line of what the doctor found: of a provider, or of the daemon's own place.
struct CheckLine {
    std::string provider;  // its name; "daemon" for the daemon itself
    Finding finding;
};

class CorePort {
 public:
    virtual ~CorePort() = default;

    /// Queues `event` for the core, in the order of the calls. An event that carries a RequestId gets it from the runtime,
    /// and `reply` is then called exactly once, on the core's thread, after the event's rows are committed (or with an
    /// error: `busy` and `full` from a failed commit, `unavailable` at shutdown). `reply` only queues a hop and never
    /// blocks. For an event without a RequestId `reply` is empty. Never blocks beyond a short lock.
    virtual void post(Event event, std::function<void(ApiResult)> reply) = 0;

    /// The newest published view; never null.
    [[nodiscard]] virtual std::shared_ptr<const PublicView> view() const = 0;

    /// What choosing would know now (cool-downs, paused providers, balances), for plan; null = nothing is known yet.
    [[nodiscard]] virtual std::shared_ptr<const ChoiceWorld> choice_world() const { return nullptr; }

    /// The core's time: it never steps back.
    [[nodiscard]] virtual Instant now() const = 0;

    /// Asks every provider, by read-only calls on worker threads, whether it can be used, and looks at the daemon's own place.
    /// `done` is called once, on another thread or at once, within about a minute of real time. Never blocks.
    virtual void check_providers(std::function<void(std::vector<CheckLine>)> done) { done({}); }
};

}  // namespace gf
