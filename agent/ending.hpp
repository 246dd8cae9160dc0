// Judgements at the end of a job. Pure but for `newest_change`, which looks at a folder.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "agent/job_order.hpp"
#include "model/agent_protocol.hpp"

namespace gf::agent {

/// Why the agent ended the job; empty = it ended by itself. The texts of Exited::reason.
struct StopOrder {
    std::string reason;           // "stopped", "duration", "dead_man", "notice", "fenced"
    std::string detail;
    bool checkpoint{true};        // a final one, if the spec declares checkpoints
    std::optional<Millis> until;  // on CLOCK_BOOTTIME: all must be over by then
};

[[nodiscard]] std::optional<int> exit_code_of(const JobExit& exit);
[[nodiscard]] std::optional<int> signal_of(const JobExit& exit);
/// By the spec: exit code among the allowed ones, ended by itself, and the product (if one is named) was found.
[[nodiscard]] bool exit_allowed(const agent_protocol::Lease& lease, const JobExit& exit);

/// When was the folder last written to, and how did the program end: may its newest files be half written? Nobody writes
/// checkpoints atomically (torch.save to the final name is the norm), so a program that was killed in the middle leaves a
/// torn file that looks like any other. `marker` and `incomplete` of the spec tell; without them the times have to.
struct LastWrites {
    std::optional<Instant> newest;     // wall clock; nothing = empty folder
    std::optional<Instant> signalled;  // when the stop signal was sent
    Instant ended;
};
[[nodiscard]] bool final_snapshot_is_safe(const agent_protocol::Lease& lease, const JobExit& exit, const LastWrites& writes);

/// What the keeper knows of a container's end beside what the first process in it has told.
struct ContainerEnd {
    bool told{false};          // that process told the whole end
    bool leader_told{false};   // or the leader's at least
    bool gave_up{false};       // the container does not end, whatever was tried
    bool kill_ordered{false};
    bool client_lost{false};   // the engine's client went while the job ran, and the job's output with it
    bool oom{false};           // the engine says that it was killed for memory
    int client_status{0};      // wait status
};
/// `exit` as far as it was told, with what follows from the rest.
[[nodiscard]] JobExit judge_container(JobExit exit, const ContainerEnd& end);

/// When anything below a folder was last changed, by this machine's clock; links not followed.
[[nodiscard]] std::optional<Instant> newest_change(const std::string& folder);
/// Does any file match? `pattern` is relative to `folder`, with * and ? per component.
[[nodiscard]] bool product_exists(const std::string& folder, const std::string& pattern);

}  // namespace gf::agent
