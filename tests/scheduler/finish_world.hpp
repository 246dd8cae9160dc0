// A task whose work and speed are known, and builders for what is remembered of runs.
#pragma once
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "offers.hpp"
#include "scheduler/finish_cost.hpp"
#include "speeds.hpp"

namespace gf::test {

/// A history in which `family` went at so many steps an hour on `card`, seen six times for an hour.
inline void add_speed(RunHistory& history, const std::string& family, const char* card, double steps_per_hour, int gpus = 1) {
    ThroughputRecord record{.family = family, .unit = WorkUnit::step, .place = {.card = card, .gpus = gpus}, .at = kNow};
    for (int i = 0; i < 6; ++i)
        record = observed(std::move(record), std::llround(steps_per_hour * 1000), std::chrono::hours{1}, kNow);
    history.speeds[{family, WorkUnit::step}].push_back(std::move(record));
}

inline void add_start(RunHistory& history, StartPhase phase, const char* provider, Millis took, const char* image = "") {
    auto& record = history.starts[start_key(phase, provider, image)];
    for (int i = 0; i < 16; ++i) record = observed(std::move(record), took, kNow);
}

struct FinishWorld {
    std::string family = "voices/1";
    std::shared_ptr<RunHistory> history = std::make_shared<RunHistory>();
    ChoiceWorld world = test::world();

    explicit FinishWorld(std::int64_t total = 10'000) {
        world.expect.speeds = &card_speeds();
        world.expect.history = history;
        world.expect.work.family = family;
        world.expect.work.total = total;
    }
};

inline Usd line(const FinishCost& cost, std::string_view name) {
    for (const auto& l : cost.lines)
        if (l.name == name) return l.amount;
    return Usd{0};
}

}  // namespace gf::test
