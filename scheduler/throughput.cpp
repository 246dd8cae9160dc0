#include "scheduler/throughput.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace gf {
namespace {

constexpr double kLookSpread = 0.10;
constexpr double kFloorSpread = 0.02;
constexpr double kCardSpread = 0.21;
constexpr double kCountSpread = 0.10;
constexpr double kCoresSpread = 0.50;
constexpr double kCoresMost = 4096;
constexpr std::int64_t kForgotten = 100;  // a tenth of an observation
constexpr std::int64_t kWorkMost = INT64_MAX / 8;

/// FNV-1a over parts with their lengths, so that no two lists of parts are the same bytes.
class Fingerprint {
 public:
    void add(std::string_view part) {
        number(part.size());
        for (const char c : part) byte(static_cast<unsigned char>(c));
    }
    [[nodiscard]] std::string hex() const {
        constexpr std::string_view digits = "0123456789abcdef";
        std::string out(16, '0');
        for (std::size_t i = 0; i < 16; ++i) out[15 - i] = digits[(hash_ >> (4 * i)) & 15U];
        return out;
    }

 private:
    void number(std::uint64_t n) {
        for (int i = 0; i < 8; ++i) byte(static_cast<unsigned char>(n >> (8 * i)));
    }
    void byte(unsigned char b) {
        hash_ ^= b;
        hash_ *= 1099511628211ULL;
    }
    std::uint64_t hash_{14695981039346656037ULL};
};

}  // namespace

std::string family_of(const JobSpec& spec) {
    Fingerprint print;
    print.add(text(spec.kind));
    print.add(spec.image);
    print.add(spec.run);
    print.add(spec.estimate ? std::string_view(spec.estimate->model) : std::string_view());
    return spec.project + "/" + print.hex();
}

RunPlace place_of(const Offer& offer, double share, bool cpu_only) {
    if (cpu_only) {
        const double cores = offer.cpus && *offer.cpus > 0 ? std::clamp(*offer.cpus, 1.0, kCoresMost) : 0;
        return {.card = {}, .gpus = 0, .share_thousandths = 1000, .cpus = static_cast<int>(std::lround(cores))};
    }
    return {.card = offer.gpu.canonical, .gpus = offer.gpu_count,
            .share_thousandths = static_cast<int>(std::lround((share > 0 ? std::min(share, 1.0) : 0.0) * 1000)), .cpus = 0};
}

std::optional<CardSpeed> prior_speed(const RunPlace& place, WorkKind work, const CardSpeeds& speeds) {
    // Cores that nobody tells of are taken for one, the fewest there can be.
    if (place.gpus == 0) return CardSpeed{static_cast<double>(std::max(1, place.cpus)), false};
    return speeds.machine(place.card, work, place.gpus, place.share_thousandths / 1000.0);
}

bool tells(std::int64_t work, Millis busy) {
    return work > 0 && busy >= kShortestLook;
}

ThroughputRecord faded(ThroughputRecord record, Instant now) {
    if (now <= record.at) return record;
    const double left =
        std::exp2(-static_cast<double>((now - record.at).count()) / static_cast<double>(kThroughputHalfLife.count()));
    record.work = std::llround(static_cast<double>(record.work) * left);
    record.busy = Millis{std::llround(static_cast<double>(record.busy.count()) * left)};
    record.looks = std::llround(static_cast<double>(record.looks) * left);
    record.at = now;
    return record;
}

ThroughputRecord observed(ThroughputRecord record, std::int64_t work, Millis busy, Instant now) {
    if (!tells(work, busy)) return record;
    record = faded(std::move(record), now);
    record.at = std::max(record.at, now);
    record.work = std::min(kWorkMost, record.work) + std::min(kWorkMost, work);
    record.busy += busy;
    record.looks += std::max<std::int64_t>(1000, busy.count() * 1000 / kLongestLook.count());
    return record;
}

bool forgotten(const ThroughputRecord& record, Instant now) {
    const auto left = faded(record, now);
    return left.looks < kForgotten || left.work <= 0 || left.busy <= Millis{0};
}

std::optional<SpeedEstimate> estimate_speed(std::span<const ThroughputRecord> seen, const RunPlace& place, WorkKind work,
                                            const CardSpeeds& speeds, Instant now) {
    std::vector<const ThroughputRecord*> ordered;
    for (const auto& record : seen) ordered.push_back(&record);
    std::ranges::sort(ordered, {}, [](const auto* r) { return r->place; });
    const auto here = prior_speed(place, work, speeds);
    double weights = 0, sum = 0;
    SpeedEstimate out;
    for (const auto* row : ordered) {
        const auto record = faded(*row, now);
        if (record.looks < kForgotten || record.work <= 0 || record.busy <= Millis{0}) continue;
        double speed = std::log(static_cast<double>(record.work) * 3600 / static_cast<double>(record.busy.count()));
        double variance = std::max(kLookSpread * kLookSpread * 1000 / static_cast<double>(record.looks), kFloorSpread * kFloorSpread);
        const int looks = static_cast<int>((record.looks + 500) / 1000);
        if (record.place == place) {
            out.own += std::max(1, looks);
        } else {
            // Cores say nothing of cards, nor cards of cores.
            if ((record.place.gpus == 0) != (place.gpus == 0)) continue;
            const auto there = prior_speed(record.place, work, speeds);
            if (!here || !there) continue;
            speed += std::log(here->relative / there->relative);
            if (place.gpus == 0) variance += kCoresSpread * kCoresSpread;
            else if (record.place.card != place.card) variance += kCardSpread * kCardSpread;
            else variance += kCountSpread * kCountSpread;
            out.other += std::max(1, looks);
        }
        weights += 1 / variance;
        sum += speed / variance;
    }
    if (weights <= 0) return std::nullopt;
    out.units_per_hour = std::exp(sum / weights);
    out.spread = std::sqrt(1 / weights);
    return out;
}

}  // namespace gf
