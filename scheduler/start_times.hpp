// How long machines take to come up, images to be pulled and checkpoints to be restored: the last few times of each kind, and what
// to expect from them. Pure. The middle of them is for the economics, the worst for guards (SPOT.md section 4).
//
// The prior (an assumption): 3 minutes to boot and 3 to pull an image, 20 at worst for each, which is the start time-out; a restore at
// 200 Mbps, or what the offer's line carries, at worst a quarter of that. The middle is blended, however many were seen: the prior
// weighs as two times. Its worst counts until three were seen.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/bytes.hpp"
#include "model/enum_text.hpp"
#include "model/time.hpp"

namespace gf {

enum class StartPhase : std::uint8_t {
    boot,     // from the rent to the agent's first word
    image,    // from there to the command, less the restore
    restore,  // per GB of checkpoint
};
GF_ENUM_NAMES(StartPhase, {{E::boot, "boot"}, {E::image, "image"}, {E::restore, "restore"}});

inline constexpr std::size_t kStartTimesKept = 16;

/// One row per key. The newest time is last.
struct StartRecord {
    std::string key;  // `start_key`
    std::vector<Millis> times;  // at most kStartTimesKept
    Instant at;
    friend bool operator==(const StartRecord&, const StartRecord&) = default;
};

/// "boot/vastai", "image/vastai/ghcr.io/x/y:1", "restore/vastai". Only the image phase tells images apart.
[[nodiscard]] std::string start_key(StartPhase phase, std::string_view provider, std::string_view image);

/// `record` with one more time; negative ones count as 0.
[[nodiscard]] StartRecord observed(StartRecord record, Millis took, Instant now);
/// A restore of `size` that took `took`, as time per GB; nothing for less than 1 MB, which tells only of latencies.
[[nodiscard]] std::optional<Millis> per_gb(Millis took, Bytes size);

struct StartTime {
    Millis typical{0};
    Millis worst{0};
    int seen{0};  // of our own; 0 = the prior alone
};
/// `record` may be null.
[[nodiscard]] StartTime boot_time(const StartRecord* record);
/// 0 where there is no image to pull.
[[nodiscard]] StartTime image_time(const StartRecord* record, bool has_image);
/// 0 for an empty checkpoint. `inet_down_mbps` as the offer tells, absent = not known.
[[nodiscard]] StartTime restore_time(const StartRecord* record, Bytes checkpoint, std::optional<double> inet_down_mbps);

}  // namespace gf
