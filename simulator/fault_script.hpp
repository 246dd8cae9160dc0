// Orders of the admin face that come by themselves at a simulated time, once or again and again: the half of
// a fault script that is not about requests (faults.hpp has the other). Wants the world's lock held; no clock
// of its own.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/id.hpp"
#include "model/result.hpp"
#include "model/time.hpp"

namespace gf::sim {

struct ScriptOrder {
    int id{0};
    std::string what;  // as in POST /_sim/<what>
    nlohmann::json body;
};

class FaultScript {
 public:
    explicit FaultScript(std::uint64_t seed = 1) : entropy_(seed) {}

    /// {"do":WHAT, "with":{...}, "at_s":S, "every_s":S, "until_s":S, "count":N, "rate":0..1}; times count
    /// from `now`.
    [[nodiscard]] Result<int> add(const nlohmann::json& row, Instant now);
    void clear() { events_.clear(); }
    /// When the next event is due; nothing if none is left.
    [[nodiscard]] std::optional<Instant> next() const;
    /// What is due by `now`, oldest first, each counted. An event that was due several times comes once.
    [[nodiscard]] std::vector<ScriptOrder> due(Instant now);
    /// The order of an event could not be carried out.
    void missed(int id);
    [[nodiscard]] nlohmann::json list() const;

 private:
    struct Event {
        ScriptOrder order;
        std::optional<Instant> at;  // the next time; nothing when it is spent
        std::optional<Millis> every;
        std::optional<Instant> until;
        std::optional<int> left;
        double rate{1.0};
        int done{0};
        int missed{0};
    };
    std::vector<Event> events_;
    Entropy entropy_;
    int next_id_{100'001};  // apart from the ids of rules
};

}  // namespace gf::sim
