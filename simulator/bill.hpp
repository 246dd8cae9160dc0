// The provider's own account of one machine, kept exactly and apart from anything the client computes.
#pragma once
#include <cstdint>
#include <vector>

#include "model/money.hpp"
#include "model/time.hpp"

namespace gf::sim {

/// Hours of a month in a storage price: Vast's own examples hold with 720. RunPod's page names no figure, 720
/// too.
inline constexpr std::int64_t kHoursPerMonth = 720;

/// What a machine costs at one moment. Disk is priced per month, so it keeps its own unit until it is read.
struct Rates {
    std::int64_t gpu_micros_per_hour{0};
    std::int64_t disk_micros_per_month{0};
    friend bool operator==(const Rates&, const Rates&) = default;
};

/// One span at one rate.
struct BilledSpan {
    Instant from;
    Instant to;
    Rates rates;
};

class Bill {
 public:
    /// With a `step` above zero every step that has begun is charged whole, at the rate in force when it began; the
    /// first begins with the first span that costs anything (Lambda: minutes, Vultr: hours). Disk stays exact.
    explicit Bill(Instant opened, Millis step = Millis{0}) : to_(opened), step_(step) {}

    /// Charges the time from the last call until `now` at `rates`. A `now` in the past changes nothing.
    void accrue(Instant now, Rates rates);
    void add_traffic_down(Usd amount) { down_ += amount; }
    void add_traffic_up(Usd amount) { up_ += amount; }

    [[nodiscard]] Usd gpu() const;
    [[nodiscard]] Usd disk() const;
    [[nodiscard]] Usd traffic_down() const { return down_; }
    [[nodiscard]] Usd traffic_up() const { return up_; }
    [[nodiscard]] Usd total() const { return gpu() + disk() + down_ + up_; }
    [[nodiscard]] Instant billed_to() const { return to_; }
    /// Steps charged so far; 0 for a bill without steps.
    [[nodiscard]] std::int64_t steps() const { return steps_; }
    /// Neighbouring spans of one rate are one; the oldest first.
    [[nodiscard]] const std::vector<BilledSpan>& spans() const { return spans_; }
    /// GPU and disk money of the part of the bill inside [from, to).
    struct Part {
        Usd gpu;
        Usd disk;
        Millis gpu_time{0};
    };
    [[nodiscard]] Part within(Instant from, Instant to) const;

 private:
    void charge_steps(Instant now, std::int64_t rate);

    Instant to_;
    Millis step_{0};
    Instant charged_to_{};  // with steps: the end of the last one charged
    std::int64_t steps_{0};
    std::vector<BilledSpan> spans_;
    __int128 gpu_{0};   // micro-dollars per hour x milliseconds
    __int128 disk_{0};  // micro-dollars per month x milliseconds
    Usd down_{};
    Usd up_{};
};

}  // namespace gf::sim
