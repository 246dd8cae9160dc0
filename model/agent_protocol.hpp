// What the daemon's gateway and the agent say to each other. Control messages go as JSON text frames over one WebSocket
// (`GET /agent/ws`), bulk bytes over separate HTTP requests on the same listener. This header is the contract; the codec
// in agent_protocol.cpp is used by both ends. Unknown fields are ignored, unknown message types too.
//
//   GET  /agent/bin/{sha256}                     the agent's own binary; no token; the only path on plain HTTP off loopback
//   POST /agent/enrol                            EnrolRequest -> EnrolAnswer. Not idempotent: each use fences older sessions.
//   GET  /agent/ws                               WebSocket. `Authorization: Bearer <session>`, as on all paths below.
//   GET  /agent/blob/{sha256}                    the job's code (attempt's blob only), Range allowed
//   POST /agent/log/{attempt}?offset=N           raw log bytes from offset N; answers {"acked": M} after fdatasync, M is the
//                                                length that is on disk (may be more than N + body: the agent goes on from M;
//                                                less: a gap was refused, send from M). 409 = the attempt is not yours.
//   POST /agent/log/{attempt}?offset=N&skip=K    a gap: K bytes were dropped by quota; the daemon writes a visible mark.
//   PUT  /agent/pack/{attempt}/{pack}            one pack, named by the SHA-256 of its bytes; 201, or 200 if there already
//   POST /agent/checkpoint/{attempt}             candidate manifest (checkpoints/manifest.hpp); 200 {"generation": G},
//                                                409 = fenced (attempt no longer current), 422 = broken manifest
//   POST /agent/output/{attempt}                 output manifest, same form; 200, 409, 422. Published when the task is done.
//   GET  /agent/checkpoint/{attempt}?at_most=G   newest whole committed generation <= G: its manifest with header
//                                                `Gpuferry-Generation`; 404 = none
//   POST /agent/checkpoint/{attempt}/broken      {"generation": G, "detail": …}: found broken on restore; set aside
//   GET  /agent/pack/{attempt}/{pack}            bytes of a pack of this task (any attempt of it), Range allowed
//
// Times on the wire are real milliseconds: the daemon has divided them by its time scale already.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/job_spec.hpp"
#include "model/result.hpp"

namespace gf::agent_protocol {

inline constexpr int kProtocolMin = 1;
inline constexpr int kProtocolMax = 1;
inline constexpr std::size_t kMessageBytesMax = 1 << 20;  // a control frame larger than this ends the session

struct EnrolRequest {
    int protocol_min{kProtocolMin};
    int protocol_max{kProtocolMax};
    std::string machine;    // the tag
    std::string enrol;      // the enrol token
    std::string boot_id;    // random per start of the agent's supervisor; a restarted container has a new one
    std::string arch;       // "amd64"
    std::string version;
};
struct EnrolAnswer {
    int protocol{kProtocolMax};
    std::string session;    // bearer for everything else
};

struct GpuReport {
    std::string name;           // as nvidia-smi says
    std::int64_t memory_bytes{0};
    std::string driver;
    std::string uuid;
};
/// Found on the machine before any user code runs.
struct MachineReport {
    std::vector<GpuReport> gpus;      // by nvidia-smi
    std::string cuda_probe;           // "ok", "no_loader", "no_libcuda", "error_802", "not_run"
    int cuda_devices{0};
    std::vector<std::string> cuda_names;
    std::string cuda_version;         // driver API version "12.8"
    std::int64_t disk_total{0};       // bytes, of the workspace's file system
    std::int64_t disk_free{0};
    std::int64_t memory_total{0};
    double cpus{0};
    std::string arch;
    std::string workspace;            // where jobs run; empty = none is writable
    std::string hostname;
};
struct Hello {                        // first message on each connection
    MachineReport report;
    std::int64_t attempt_number{0};   // attempt that it holds now; 0 = none
    std::string attempt;              // its id
    std::string attempt_state;        // "preparing" | "running" | "exited" | "" (none)
    std::int64_t log_bytes{0};
};
struct GpuSample {
    int util_percent{-1};             // -1 = not known
    std::int64_t memory_used{-1};
    std::int64_t memory_peak{-1};     // the highest memory_used that was seen since the attempt began
    int temperature_c{-1};
};
struct Heartbeat {                    // newest wins, not kept for resending, seq 0
    std::vector<GpuSample> gpus;
    double cpu_percent{0};            // of all CPUs, 0..100
    std::int64_t memory_used{0};
    std::int64_t disk_free{0};
    std::int64_t net_rx{0};           // bytes since boot of the agent
    std::int64_t net_tx{0};
    std::string attempt;
    std::int64_t log_bytes{0};
};
struct Preparing {                    // what the attempt is doing before its command runs
    std::string attempt;
    std::string phase;                // "code", "restore", "image"
    std::string detail;
};
struct Started {
    std::string attempt;
    std::int64_t pid{0};
    std::int64_t restored_generation{0};  // 0 = from the beginning
};
struct Exited {                       // the command is over, its last checkpoint and outputs were sent before this
    std::string attempt;
    std::optional<int> exit_code;     // exactly one of code and signal is set, unless it never started
    std::optional<int> signal;
    bool host_oom{false};             // the kernel killed it for memory
    bool gpu_oom{false};              // its last lines say CUDA out of memory
    std::string reason;               // empty = by itself; "stopped" (ordered), "duration", "setup" (never started), "spec"
                                      // (never started, and would not on any machine: no such user, code that cannot be unpacked),
                                      // "unwritable", "output_failed", "dead_man", "notice" (machine is taken away),
                                      // "keeper_lost" (what kept the job was killed, its container was stopped from outside or
                                      // does not end: the job went with it, and how says nothing of the program)
    std::string detail;
    std::int64_t log_bytes{0};
};
struct Progress {
    std::string attempt;
    std::int64_t step{0};
    std::int64_t total{0};            // 0 = not known
};
struct Notice {                       // the machine is about to be taken away
    std::string kind;                 // "sigterm", …
    std::int64_t deadline_ms{0};      // from now; 0 = not known
};

/// Agent to daemon. seq counts from 1 per boot id; the agent keeps a message until its seq is acknowledged and sends it
/// again after a reconnect; applying one twice changes nothing. Heartbeat and Hello have seq 0.
using FromAgentBody = std::variant<Hello, Heartbeat, Preparing, Started, Exited, Progress, Notice>;
struct FromAgent {
    std::string boot_id;
    std::int64_t seq{0};
    FromAgentBody body;
};

struct Welcome {
    int heartbeat_ms{10'000};
    double time_scale{1};
    std::int64_t acked_seq{0};
    std::int64_t dead_man_ms{7'200'000};  // without contact for this long: finish the checkpoint, stop, do what can be done
};
struct Ack { std::int64_t seq{0}; };  // everything up to seq is committed
/// A login that the machine's own docker needs to pull the image.
struct RegistryAccess {
    std::string server;               // "docker.io", "ghcr.io"
    std::string username;
    std::string password;
};
/// The right to run an attempt. Sending the same lease again changes nothing.
struct Lease {
    std::string attempt;              // attempt id
    int number{0};                    // attempt number
    std::string job;
    std::string task;
    int task_index{0};
    int task_count{1};
    std::string image;
    bool container{false};            // run `image` in docker here; false: this machine is the image already
    std::optional<RegistryAccess> registry;  // only with `container`
    std::int64_t shm_bytes{0};        // /dev/shm of the container; 0 = the host's
    std::string run;                  // by /bin/sh -c
    std::map<std::string, std::string> env;
    std::map<std::string, std::string> secret_env;  // masked in the log at the agent
    std::string user;
    bool keep_entrypoint{false};
    std::string code_sha256;
    CheckpointSpec checkpoint;
    std::int64_t checkpoint_every_ms{600'000};
    std::int64_t generation{0};       // newest committed; 0 = start from the beginning
    std::int64_t step{0};
    std::vector<OutputSpec> outputs;
    std::string progress_regex;
    std::string progress_file;
    std::vector<int> success_exit{0}; // exit codes that are a success; only then outputs are published
    std::string success_product;
    std::int64_t duration_ms{0};      // run time left; 0 = no limit
    std::int64_t dead_man_ms{0};      // reserved end from now; 0 = none
    std::int64_t log_bytes_max{1LL << 30};
};
struct Stop {                         // checkpoint if declared, then signal, grace, kill; answered by Exited
    std::string attempt;
    std::string reason;
    bool checkpoint{true};
};
struct CheckpointNow { std::string attempt; };
struct Drain { std::string reason; };  // the machine is going: stop everything and exit; no answer needed

using ToAgent = std::variant<Welcome, Ack, Lease, Stop, CheckpointNow, Drain>;

[[nodiscard]] std::string encode(const EnrolRequest& m);
[[nodiscard]] std::string encode(const EnrolAnswer& m);
[[nodiscard]] std::string encode(const FromAgent& m);
[[nodiscard]] std::string encode(const ToAgent& m);
/// Errors: `malformed` with the field. A message type that is not known gives `not_yet`, to be ignored.
Result<EnrolRequest> decode_enrol_request(std::string_view json);
Result<EnrolAnswer> decode_enrol_answer(std::string_view json);
Result<FromAgent> decode_from_agent(std::string_view json);
Result<ToAgent> decode_to_agent(std::string_view json);

}  // namespace gf::agent_protocol
