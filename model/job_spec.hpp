// A job as the user described it, parsed. The text stays the truth (stored as submitted); this form is made when it is
// needed, by config/job_spec_parser. Key names and meaning: DESIGN section 11. Reserved keys never get here.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/bytes.hpp"
#include "model/money.hpp"
#include "model/states.hpp"
#include "model/time.hpp"

namespace gf {

enum class SpotChoice : std::uint8_t { automatic, always, never };
GF_ENUM_NAMES(SpotChoice, {{E::automatic, "auto"}, {E::always, "always"}, {E::never, "never"}});

/// `resources.estimate`, worked out: what the job is expected to take of each GPU. It asks for `demand` in place of a `vram`.
struct MemoryEstimate {
    std::string model;
    std::string method;                                      // "inference", "full", "lora", "qlora", …
    double peak_gib{0};                                      // per GPU, without the margin
    double formula_gib{0};                                   // what the formula says, where peak_gib is by what runs took; else 0
    double margin{1};
    std::string margin_reason;
    Bytes demand;                                            // with the margin; held against usable memory
    std::string text;                                        // "17.3 GiB x 1.15 = 19.9 GiB"
    std::vector<std::pair<std::string, double>> parts_gib;   // biggest first
    std::vector<std::string> notes;                          // what was assumed
};

struct ResourceSpec {
    std::vector<std::string> gpu;         // canonical names, already resolved through the alias table; any of
    std::vector<std::string> gpu_as_typed;
    int gpus{1};                          // 1..64; 0 only with cpu_only
    bool cpu_only{false};
    std::optional<VramDemand> vram;       // per GPU; from `estimate` where that is given
    std::optional<int> cpus;
    std::optional<Bytes> memory;
    Bytes disk{20 * kGB};
    std::string arch{"amd64"};
    std::string cuda;                     // lower bound "12.6"; empty = none
    std::string driver;                   // lower bound "560"; empty = none
    std::optional<Bytes> shm;
    std::string precision;                // "", "bf16", "fp8"
    bool nvlink{false};
    std::optional<Bytes> memory_bandwidth;  // per second
    std::optional<double> inet_down_mbps;
    std::optional<double> reliability;
    std::vector<std::string> providers;          // empty = all
    std::vector<std::string> exclude_providers;
    std::vector<std::string> regions;            // empty = all; country codes or region groups (EU, US, …)
    SpotChoice spot{SpotChoice::automatic};
    std::optional<UsdPerHour> max_price;         // all GPUs, all-in
};

struct CheckpointSpec {
    bool declared{false};
    std::string path{"checkpoints"};      // relative to the job's working folder
    std::optional<Millis> every;          // absent = auto
    int keep{3};                          // generations, 1..1000
    std::string signal{"SIGTERM"};
    bool signal_leader_only{false};
    Millis grace{Seconds{60}};
    std::string marker;                   // file that completes a checkpoint
    std::string incomplete;               // name that must be absent
    std::vector<std::string> unit;        // patterns that belong together
    std::vector<std::string> exclude;
    std::string trigger_touch;
};

struct OutputSpec {
    std::string from;
    std::string to;  // empty = the daemon's own store
};
struct InputSpec {
    std::string from;
    std::string to;
};

struct LimitsSpec {
    std::optional<Millis> duration;       // run time over all attempts
    std::optional<Instant> deadline;
    std::optional<Millis> wait;           // longest time without a machine before the job fails
};

/// Retry counts by cause; the defaults are DESIGN 6.4.
struct RetrySpec {
    int spot_lost{20};
    int host_fault{5};
    int start_timeout{5};
    int host_oom{2};
    int no_progress{1};
    int user_error{0};
    int gpu_oom{0};              // 0 = never; `bigger_gpu` sets 3 and gpu_oom_bigger
    bool gpu_oom_bigger{false};
};

struct ImageAuthSpec {
    std::string username;
    std::string password_secret;  // the name of a secret, never the password
};

struct JobSpec {
    std::string name;
    JobKind kind{JobKind::training};
    std::string project{"default"};
    std::string image;               // empty = provider's default or local
    std::optional<ImageAuthSpec> image_auth;
    std::string run;
    std::map<std::string, std::string> env;
    std::vector<std::string> secrets;
    bool secrets_on_any{false};
    std::string user;                // empty = root where the provider allows
    bool keep_entrypoint{false};
    std::string code_sha256;         // blob of the code folder (a zstd or plain tar), empty = none
    ResourceSpec resources;
    std::optional<MemoryEstimate> estimate;  // resources.estimate; resources.vram asks for it
    CheckpointSpec checkpoint;
    std::string resume_regex;        // resume_check
    std::string resume_at_least;
    std::vector<int> success_exit{0};
    std::string success_product;
    std::vector<std::string> cache;
    std::vector<InputSpec> inputs;
    std::vector<OutputSpec> outputs;
    std::string progress_regex;      // RE2 with one or two groups: step and optional total
    std::string progress_file;
    LimitsSpec limits;
    RetrySpec retry;
    std::optional<Millis> idle_job;  // idle.job
    bool idle_stop{false};           // idle.action: stop
    int priority{50};                // 0..100, higher first
    std::map<std::string, int, std::less<>> lines;  // where a demand was written: "resources.max_price" -> line, 1-based; for explain
};

}  // namespace gf
