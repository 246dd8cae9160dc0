#include "scheduler/start_times.hpp"

#include <algorithm>
#include <cmath>

namespace gf {
namespace {

constexpr Millis kTypical = std::chrono::minutes{3};
constexpr Millis kWorst = std::chrono::minutes{20};
constexpr int kPriorWeight = 2;
constexpr std::size_t kTrusted = 3;  // times after which the prior's worst says nothing any more
constexpr double kDownMbps = 200;
constexpr std::int64_t kMB = 1'000'000;

StartTime blended(const StartRecord* record, Millis typical, Millis worst) {
    if (record == nullptr || record->times.empty()) return {typical, worst, 0};
    std::vector<Millis> times = record->times;
    std::ranges::sort(times);
    const auto n = static_cast<std::int64_t>(times.size());
    const Millis middle = times.size() % 2 == 1 ? times[times.size() / 2]
                                                : (times[times.size() / 2 - 1] + times[times.size() / 2]) / 2;
    const Millis most = times.size() < kTrusted ? std::max(worst, times.back()) : times.back();
    return {(typical * kPriorWeight + middle * n) / (kPriorWeight + n), most, static_cast<int>(n)};
}

}  // namespace

std::string start_key(StartPhase phase, std::string_view provider, std::string_view image) {
    std::string out = std::string(text(phase)) + "/" + std::string(provider);
    if (phase == StartPhase::image) out += "/" + std::string(image);
    return out;
}

StartRecord observed(StartRecord record, Millis took, Instant now) {
    record.times.push_back(std::max(Millis{0}, took));
    if (record.times.size() > kStartTimesKept)
        record.times.erase(record.times.begin(), record.times.end() - static_cast<std::ptrdiff_t>(kStartTimesKept));
    record.at = std::max(record.at, now);
    return record;
}

std::optional<Millis> per_gb(Millis took, Bytes size) {
    if (size.count < kMB || took < Millis{0}) return std::nullopt;
    const auto exact = static_cast<__int128>(took.count()) * kGB / size.count;
    return Millis{static_cast<std::int64_t>(std::min<__int128>(exact, INT64_MAX / 1'000'000))};
}

StartTime boot_time(const StartRecord* record) {
    return blended(record, kTypical, kWorst);
}

StartTime image_time(const StartRecord* record, bool has_image) {
    return has_image ? blended(record, kTypical, kWorst) : StartTime{};
}

StartTime restore_time(const StartRecord* record, Bytes checkpoint, std::optional<double> inet_down_mbps) {
    if (checkpoint.count <= 0) return {};
    const double mbps = std::max(1.0, std::min(inet_down_mbps.value_or(kDownMbps), kDownMbps * 50));
    const Millis prior{std::llround(8e6 / mbps)};  // 8,000 Mbit per GB, in milliseconds
    StartTime out = blended(record, prior, prior * 4);
    const auto whole = [&](Millis per) {
        const auto exact = static_cast<__int128>(per.count()) * checkpoint.count / kGB;
        return Millis{static_cast<std::int64_t>(std::min<__int128>(exact, 30LL * 86'400'000))};
    };
    out.typical = whole(out.typical);
    out.worst = whole(out.worst);
    return out;
}

}  // namespace gf
