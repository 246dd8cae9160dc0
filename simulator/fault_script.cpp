#include "simulator/fault_script.hpp"

#include <algorithm>
#include <stdexcept>

namespace gf::sim {

namespace {

using nlohmann::json;

Millis seconds(const json& value) {
    const auto s = value.get<double>();
    if (s < 0) throw std::runtime_error("times must be seconds, 0 or more");
    return Millis{static_cast<std::int64_t>(s * 1000.0)};
}

}  // namespace

Result<int> FaultScript::add(const json& row, Instant now) {
    Event event;
    try {
        event.at = now;
        event.order.body = json::object();
        for (const auto& [key, value] : row.items()) {
            if (key == "do") {
                event.order.what = value.get<std::string>();
            } else if (key == "with") {
                if (!value.is_object()) throw std::runtime_error("`with` must be an object");
                event.order.body = value;
            } else if (key == "at_s") {
                event.at = now + seconds(value);
            } else if (key == "every_s") {
                event.every = seconds(value);
                if (event.every->count() < 1'000) throw std::runtime_error("every_s must be 1 or more");
            } else if (key == "until_s") {
                event.until = now + seconds(value);
            } else if (key == "count") {
                event.left = value.get<int>();
            } else if (key == "rate") {
                event.rate = value.get<double>();
            } else {
                throw std::runtime_error("unknown key '" + key + "'");
            }
        }
        // An event that moves the clock or adds events would never come to an end.
        if (event.order.what.empty() || event.order.what == "time" || event.order.what == "faults")
            throw std::runtime_error("`do` must name an order other than time and faults");
    } catch (const std::exception& e) {
        return fail(ErrorKind::invalid, std::string{"scripted event: "} + e.what());
    }
    event.order.id = next_id_++;
    events_.push_back(std::move(event));
    return events_.back().order.id;
}

std::optional<Instant> FaultScript::next() const {
    std::optional<Instant> at;
    for (const auto& event : events_) {
        if (event.at) at = at ? std::min(*at, *event.at) : *event.at;
    }
    return at;
}

std::vector<ScriptOrder> FaultScript::due(Instant now) {
    std::vector<std::pair<Instant, ScriptOrder>> orders;
    for (auto& event : events_) {
        if (!event.at || *event.at > now) continue;
        const auto at = *event.at;
        event.at.reset();
        const bool over = (event.until && at >= *event.until) || (event.left && *event.left <= 0);
        if (over) continue;
        const bool fires =
            event.rate >= 1.0 || static_cast<double>(entropy_.below(1'000'000)) < event.rate * 1e6;
        if (fires) {
            if (event.left) --*event.left;
            ++event.done;
            orders.emplace_back(at, event.order);
        }
        if (event.every && (!event.left || *event.left > 0)) {
            const auto steps = (now - at) / *event.every + 1;
            event.at = at + *event.every * steps;
        }
    }
    std::ranges::sort(orders, {}, [](const auto& entry) { return std::pair(entry.first, entry.second.id); });
    std::vector<ScriptOrder> result;
    for (auto& [at, order] : orders) result.push_back(std::move(order));
    return result;
}

void FaultScript::missed(int id) {
    for (auto& event : events_) {
        if (event.order.id == id) ++event.missed;
    }
}

json FaultScript::list() const {
    json rows = json::array();
    for (const auto& event : events_) {
        rows.push_back({{"id", event.order.id},
                        {"do", event.order.what},
                        {"with", event.order.body},
                        {"next", event.at ? json(rfc3339(*event.at)) : json(nullptr)},
                        {"done", event.done},
                        {"missed", event.missed}});
    }
    return rows;
}

}  // namespace gf::sim
