#include "replay/grid.hpp"

#include <cmath>
#include <memory>

#include "replay/baselines.hpp"
#include "replay/ferry.hpp"
#include "replay/optimum.hpp"

namespace gf::replay {
namespace {

std::unique_ptr<Policy> make_policy(const std::string& name) {
    auto policy = make_baseline(name);
    return policy ? std::move(policy) : make_ferry(name);
}

double share(double part, double whole) {
    return whole > 0 ? part / whole : 0;
}

struct Market {
    Trace trace;
    Setting setting;
};

/// The markets of a cell: all zones together, or each by itself.
std::vector<Market> markets_of(const Trace& trace, const Cell& cell, const GridOptions& options) {
    Trace priced = trace;
    if (cell.ratio > 0) {
        for (std::size_t z = 0; z < priced.zones.size(); ++z) {
            const auto rate =
                static_cast<std::int64_t>(static_cast<double>(priced.on_demand[z].micros) / cell.ratio + 0.5);
            for (auto& price : priced.spot[z]) price = UsdPerHour{rate};
        }
    }
    std::vector<Market> markets;
    if (!options.each_zone) {
        markets.push_back({.trace = std::move(priced), .setting = cell.setting});
        markets.back().setting.egress =
            egress_fees(markets.back().trace, options.egress, options.checkpoint_gb);
        return markets;
    }
    for (std::size_t z = 0; z < priced.zones.size(); ++z) {
        markets.push_back({.trace = {.zones = {priced.zones[z]},
                                     .tick = priced.tick,
                                     .first_label = priced.first_label,
                                     .up = {priced.up[z]},
                                     .spot = {priced.spot[z]},
                                     .on_demand = {priced.on_demand[z]}},
                           .setting = cell.setting});
    }
    return markets;
}

PolicyResult play_policy(const std::vector<Market>& markets, const GridOptions& options,
                         const std::string& name, Policy* policy) {
    PolicyResult result{.policy = name,
                        .runs = {},
                        .costs = {},
                        .over_optimum = {},
                        .over_optimum_mean = {},
                        .gap_closed = {}};
    for (const auto& market : markets) {
        for (const std::size_t start : options.starts) {
            if (policy == nullptr) {
                result.costs.push_back(optimum(market.trace, market.setting, start));
                continue;
            }
            result.runs.push_back(play(market.trace, market.setting, start, *policy));
            const auto& run = result.runs.back();
            result.costs.emplace_back(run.cost);
            result.missed += run.missed ? 1 : 0;
            result.interruptions += run.interruptions;
            result.moves += run.moves;
            result.starts += run.starts;
        }
    }
    return result;
}

const PolicyResult* find(const Cell& cell, const std::string& name) {
    for (const auto& result : cell.results) {
        if (result.policy == name) return &result;
    }
    return nullptr;
}

double total(const PolicyResult& result) {
    double sum = 0;
    for (const auto& c : result.costs) sum += c ? static_cast<double>(c->micros) : 0;
    return sum;
}

void compare(Cell& cell, const std::vector<Market>& markets, const GridOptions& options) {
    double alone = 0;
    for (const auto& market : markets) {
        alone += static_cast<double>(on_demand_work(market.trace, market.setting).micros) *
                 static_cast<double>(options.starts.size());
    }
    const auto* best = find(cell, "optimum");
    const auto* uniform = find(cell, "uniform_progress");
    bool comparable = best != nullptr;
    if (best != nullptr) {
        for (const auto& c : best->costs) comparable = comparable && c && c->micros > 0;
    }
    for (auto& result : cell.results) {
        result.over_on_demand = share(total(result), alone);
        if (!comparable) continue;
        result.over_optimum = share(total(result), total(*best)) - 1;
        double sum = 0;
        for (std::size_t n = 0; n < result.costs.size(); ++n) {
            sum +=
                static_cast<double>(result.costs[n]->micros) / static_cast<double>(best->costs[n]->micros) -
                1;
        }
        result.over_optimum_mean = share(sum, static_cast<double>(result.costs.size()));
        const double gap = uniform != nullptr ? total(*uniform) - total(*best) : 0;
        if (gap > 0) result.gap_closed = (total(*uniform) - total(result)) / gap;
    }
}

}  // namespace

bool is_policy(const std::string& name) {
    return name == "optimum" || make_policy(name) != nullptr;
}

std::vector<std::vector<Usd>> egress_fees(const Trace& trace, const std::vector<EgressRate>& rates,
                                          double gigabytes) {
    if (rates.empty() || gigabytes <= 0) return {};
    std::vector<std::vector<Usd>> fees(trace.zones.size(), std::vector<Usd>(trace.zones.size()));
    for (std::size_t a = 0; a < trace.zones.size(); ++a) {
        for (std::size_t b = 0; b < trace.zones.size(); ++b) {
            const auto from = region_of(trace.zones[a]);
            const auto to = region_of(trace.zones[b]);
            if (from == to) continue;
            for (const auto& rate : rates) {
                if ((rate.from != "*" && rate.from != from) || (rate.to != "*" && rate.to != to)) continue;
                fees[a][b] = Usd{std::llround(static_cast<double>(rate.per_gb.micros) * gigabytes)};
                break;
            }
        }
    }
    return fees;
}

Result<std::vector<Cell>> play_grid(const Trace& trace, const GridOptions& options) {
    std::vector<Cell> cells;
    for (const Millis work : options.work) {
        std::vector<Millis> deadlines = options.deadline;
        for (const double s : options.slack)
            deadlines.emplace_back(std::llround(static_cast<double>(work.count()) * s));
        for (const Millis deadline : deadlines) {
            for (const Millis changeover : options.changeover) {
                const std::vector<double> as_is{0};
                for (const double ratio : options.ratio.empty() ? as_is : options.ratio) {
                    Cell cell{.setting = {.work = work,
                                          .deadline = deadline,
                                          .changeover = changeover,
                                          .checkpoint_every = options.checkpoint_every,
                                          .egress = {}},
                              .ratio = ratio,
                              .results = {}};
                    cell.feasible = feasible(cell.setting);
                    const auto markets = markets_of(trace, cell, options);
                    for (const auto& name : options.policies) {
                        std::unique_ptr<Policy> policy;
                        if (name != "optimum") {
                            policy = make_policy(name);
                            if (!policy)
                                return fail(ErrorKind::invalid, "there is no policy \"" + name + "\"");
                        }
                        cell.results.push_back(play_policy(markets, options, name, policy.get()));
                    }
                    compare(cell, markets, options);
                    cells.push_back(std::move(cell));
                }
            }
        }
    }
    return cells;
}

}  // namespace gf::replay
