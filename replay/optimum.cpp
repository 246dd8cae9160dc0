#include "replay/optimum.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "replay/baselines.hpp"

namespace gf::replay {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max() / 4;
using Row = std::vector<std::int64_t>;  // by steps of work left

struct Machine {
    bool spot{false};
    std::size_t zone{0};
    std::size_t region{0};
};

struct Steps {
    std::int64_t per_tick{1};
    std::int64_t changeover{0};
    std::int64_t work{0};
    std::int64_t startup_ticks{1};  // at least the tick of the start
};

Steps count_steps(const Trace& trace, const Setting& setting) {
    const std::int64_t tick = trace.tick.count();
    std::int64_t per_tick = tick / std::gcd(tick, std::max<std::int64_t>(setting.changeover.count(), 0));
    const std::int64_t ticks = (setting.work.count() + tick - 1) / tick;
    if (ticks * per_tick > kStepsMax)
        per_tick = std::max<std::int64_t>(1, kStepsMax / std::max<std::int64_t>(ticks, 1));
    Steps s{.per_tick = per_tick};
    s.changeover = setting.changeover.count() * per_tick / tick;
    s.work = (setting.work.count() * per_tick + tick - 1) / tick;
    s.startup_ticks = std::max<std::int64_t>(1, (s.changeover + per_tick - 1) / per_tick);
    return s;
}

class Search {
 public:
    Search(const Trace& trace, const Setting& setting, std::size_t start)
        : trace_(trace), setting_(setting), start_(start), steps_(count_steps(trace, setting)) {
        std::vector<std::string> regions;
        for (std::size_t z = 0; z < trace.zones.size(); ++z) {
            // Zones between which moving is free and equal are one place for a checkpoint; without fees there
            // is one place only.
            const auto region = setting.egress.empty() ? std::string() : region_of(trace.zones[z]);
            auto found = std::find(regions.begin(), regions.end(), region);
            if (found == regions.end()) {
                found = regions.insert(regions.end(), region);
                sample_zone_.push_back(static_cast<int>(z));
            }
            const auto r = static_cast<std::size_t>(found - regions.begin());
            machines_.push_back({.spot = true, .zone = z, .region = r});
            machines_.push_back({.spot = false, .zone = z, .region = r});
        }
    }

    std::optional<Usd> run() {
        const auto ticks = static_cast<std::size_t>(setting_.deadline / trace_.tick);
        const auto depth = static_cast<std::size_t>(steps_.startup_ticks) + 1;
        const auto width = static_cast<std::size_t>(steps_.work) + 1;
        // A ring of layers: a start lands some ticks ahead.
        std::vector<std::vector<Row>> on(depth, std::vector<Row>(machines_.size(), Row(width, kNever)));
        std::vector<Row> idle(sample_zone_.size(), Row(width, kNever));
        for (auto& layer : on) {
            for (auto& row : layer) row[0] = 0;
        }
        for (auto& row : idle) row[0] = 0;
        Row first(width, kNever);
        first[0] = 0;
        std::vector<Row> begun(machines_.size(), Row(width));
        for (std::size_t t = ticks; t-- > 0;) {
            for (std::size_t m = 0; m < machines_.size(); ++m) begin(begun[m], m, t, ticks, on, depth);
            for (std::size_t m = 0; m < machines_.size(); ++m) {
                const int to = static_cast<int>(machines_[m].zone);
                lower(first, begun[m], 0);
                for (std::size_t r = 0; r < idle.size(); ++r) {
                    lower(idle[r], begun[m], setting_.move_fee(sample_zone_[r], to).micros);
                }
            }
            auto& layer = on[t % depth];
            const auto& after = on[(t + 1) % depth];
            for (std::size_t m = 0; m < machines_.size(); ++m)
                stay(layer[m], after[m], idle[machines_[m].region], m, t);
        }
        return first.back() >= kNever ? std::nullopt : std::optional(Usd{first.back()});
    }

 private:
    [[nodiscard]] bool there(std::size_t m, std::size_t t) const {
        return !machines_[m].spot || trace_.is_up(machines_[m].zone, start_ + t);
    }
    [[nodiscard]] std::int64_t tick_fee(std::size_t m, std::size_t t) const {
        const auto zone = machines_[m].zone;
        return cost(machines_[m].spot ? trace_.price(zone, start_ + t) : trace_.on_demand[zone], trace_.tick)
            .micros;
    }

    /// Starting machine `m` at tick `t`: it is held at least until the first tick with progress has ended.
    void begin(Row& row, std::size_t m, std::size_t t, std::size_t ticks,
               const std::vector<std::vector<Row>>& on, std::size_t depth) const {
        const auto span = static_cast<std::size_t>(steps_.startup_ticks);
        std::int64_t fee = 0;
        bool possible = t + span <= ticks;
        for (std::size_t h = 0; possible && h < span; ++h) {
            possible = there(m, t + h);
            fee += tick_fee(m, t + h);
        }
        if (!possible) {
            std::fill(row.begin(), row.end(), kNever);
            return;
        }
        const auto gain =
            static_cast<std::size_t>(steps_.startup_ticks * steps_.per_tick - steps_.changeover);
        const auto& then = on[(t + span) % depth][m];
        for (std::size_t k = 0; k < row.size(); ++k) row[k] = fee + then[k > gain ? k - gain : 0];
        row[0] = 0;
    }

    static void lower(Row& row, const Row& other, std::int64_t fee) {
        for (std::size_t k = 1; k < row.size(); ++k) row[k] = std::min(row[k], other[k] + fee);
    }

    void stay(Row& row, const Row& after, const Row& leave, std::size_t m, std::size_t t) const {
        const auto gain = static_cast<std::size_t>(steps_.per_tick);
        const bool possible = there(m, t);
        const std::int64_t fee = possible ? tick_fee(m, t) : kNever;
        // `row` may be the layer of `after` where the ring is short, so go from much work to little: what is
        // read is not yet written.
        for (std::size_t k = row.size(); k-- > 1;) {
            const std::int64_t on = possible ? fee + after[k > gain ? k - gain : 0] : kNever;
            row[k] = std::min({on, leave[k], kNever});
        }
        row[0] = 0;
    }

    const Trace& trace_;
    const Setting& setting_;
    std::size_t start_;
    Steps steps_;
    std::vector<Machine> machines_;
    std::vector<int> sample_zone_;
};

}  // namespace

std::optional<Usd> optimum(const Trace& trace, const Setting& setting, std::size_t start) {
    if (setting.work <= Millis{0}) return Usd{};
    if (trace.length() == 0 || setting.deadline < trace.tick) return std::nullopt;
    return Search(trace, setting, start).run();
}

}  // namespace gf::replay
