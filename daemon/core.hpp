// The core's vocabulary: every event that can enter `Orchestrator::apply` and every effect that can leave it. Plain data;
// the runtime makes the events, commits the rows and then carries the effects out.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "daemon/api_result.hpp"
#include "daemon/public_view.hpp"
#include "db/store.hpp"
#include "model/agent_protocol.hpp"
#include "model/job_spec.hpp"
#include "model/records.hpp"
#include "providers/port.hpp"

namespace gf {

// ---- API commands. Parsed, authorised and validated by the handler; each gets exactly one Reply. ----
struct SubmitJob {
    RequestId request{0};
    std::string spec_text;
    bool spec_is_yaml{false};
    std::shared_ptr<const JobSpec> spec;
    std::string principal;
    bool local_allowed{false};
    std::string idempotency_key;     // empty = none
    std::string body_sha256;
};
enum class JobVerb : std::uint8_t { cancel, hold, release, retry };
GF_ENUM_NAMES(JobVerb, {{E::cancel, "cancel"}, {E::hold, "hold"}, {E::release, "release"}, {E::retry, "retry"}});
struct CommandJob { RequestId request{0}; JobId job; JobVerb verb{}; std::string principal; };
enum class MachineVerb : std::uint8_t { destroy, adopt };
struct CommandMachine { RequestId request{0}; MachineId machine; MachineVerb verb{}; std::string principal; };
struct PutTokenCommand { RequestId request{0}; TokenRecord token; };
struct PutSecretCommand { RequestId request{0}; SecretRecord secret; };
struct DropSecretCommand { RequestId request{0}; std::string name; std::string principal; };

// ---- The provider side. `began`/`ended` are core time around the call. ----
struct OffersSeen { ProviderName provider; Instant began, ended; Result<OfferList> result; };
struct ListingSeen { ProviderName provider; Instant began, ended; Result<Listing> result; };
struct BalanceSeen { ProviderName provider; Result<Usd> result; };
struct LaunchEnded { MachineId machine; std::int64_t call_seq{0}; Instant began, ended; LaunchOutcome outcome; };
struct ReadEnded { MachineId machine; std::int64_t call_seq{0}; Instant began, ended; Result<ProviderMachine> result; };
struct DestroyEnded { MachineId machine; std::int64_t call_seq{0}; Instant began, ended; Result<void> result; };
struct BidRaised { MachineId machine; UsdPerHour bid; Instant began; Result<void> result; };
/// The ssh tunnel to a machine came up, or is down (again): for people and for the start time-out. The agent's own words decide
/// everything else.
struct TunnelChanged { MachineId machine; bool up{false}; std::string detail; };

// ---- The agent side. ----
struct AgentSaid { MachineId machine; agent_protocol::FromAgent message; };
struct AgentConnected { MachineId machine; std::string boot_id; };
struct AgentDisconnected { MachineId machine; std::string boot_id; };
/// A candidate whose packs are all stored and whose manifest was verified and written under its hash by the gateway.
/// The reply (ApiResult) has status 200 and {"generation": G}, or 409.
struct CheckpointOffered {
    RequestId request{0};
    MachineId machine;
    AttemptId attempt;
    std::string manifest_sha256;
    std::int64_t step{0};
    Bytes size;
};
struct OutputOffered { RequestId request{0}; MachineId machine; AttemptId attempt; std::string manifest_sha256; Bytes size; int files{0}; };
struct CheckpointBroken { RequestId request{0}; MachineId machine; AttemptId attempt; std::int64_t generation{0}; std::string detail; };

// ---- Time and the store. ----
struct Tick {};
/// The clock moved by itself (step, suspend, long gap) or the daemon has just started: silence and settle periods count
/// anew from here.
struct ClockJumped { std::string why; };
/// The answer to ReadQueue: a page of the queue (QueueRows), each task with its parsed spec (null = the stored text no longer parses).
struct QueuePage {
    struct Item { QueuedTask row; std::shared_ptr<const JobSpec> spec; };
    std::vector<Item> items;
    std::optional<QueueCursor> next;  // absent = the end of the queue
};

using AnyEvent = std::variant<SubmitJob, CommandJob, CommandMachine, PutTokenCommand, PutSecretCommand,
                              DropSecretCommand, BidRaised, TunnelChanged, OffersSeen, ListingSeen, BalanceSeen,
                              LaunchEnded, ReadEnded, DestroyEnded, AgentSaid, AgentConnected, AgentDisconnected,
                              CheckpointOffered, OutputOffered, CheckpointBroken, Tick, ClockJumped, QueuePage>;
/// A type of its own, so that what only passes events on can do with its name (daemon/api/core_port.hpp).
struct Event : AnyEvent {
    using AnyEvent::AnyEvent;
};

/// Stored rows that an event names and that are not live; read by the runtime before `apply`.
struct StoredRows {
    std::optional<IdempotencyRecord> idempotency;  // SubmitJob with a key
    std::optional<JobRecord> job;                  // CommandJob: the job, live or not
    std::vector<TaskRecord> tasks;                 // CommandJob: its tasks
    std::shared_ptr<const JobSpec> spec;           // CommandJob
    std::vector<MachineRecord> machines;           // rows (gone ones too) of the machines in RowRequest::machines
    std::optional<CheckpointRecord> checkpoint;    // CheckpointOffered: the task's newest whole one
};

/// What `apply` will need to see of the store for an event; told by `Orchestrator::wants`.
struct RowRequest {
    std::string principal, idempotency_key;
    JobId job;
    std::vector<MachineId> machines;
    TaskId checkpoint_of;
};

// ---- Effects. ----
struct Reply { RequestId to{0}; ApiResult result; };

struct CallOffers { ProviderName provider; OfferQuery query; };
struct CallList { ProviderName provider; };
struct CallBalance { ProviderName provider; };
/// The runtime adds the environment (URL, tag, enrol token, pin) and the start script.
struct CallLaunch { MachineId machine; std::int64_t call_seq{0}; ProviderName provider; LaunchRequest request; };
struct CallRead { MachineId machine; std::int64_t call_seq{0}; ProviderName provider; ProviderMachineId id; };
struct CallDestroy { MachineId machine; std::int64_t call_seq{0}; ProviderName provider; ProviderMachineId id; };
struct CallRaiseBid { MachineId machine; ProviderName provider; ProviderMachineId id; UsdPerHour bid; };
/// What was made at the provider beside machines may go: none of ours is left there.
struct CallTidy { ProviderName provider; };
/// Keep an ssh tunnel to this machine until CloseTunnel; the same again with another endpoint moves it.
struct OpenTunnel { MachineId machine; ProviderName provider; SshEndpoint to; };
struct CloseTunnel { MachineId machine; };
struct SendToAgent { MachineId machine; agent_protocol::ToAgent message; };
/// Ends the sessions of a machine that is being destroyed or was fenced.
struct CloseAgent { MachineId machine; };
/// Answered by the event QueuePage with the tasks after `after`.
struct ReadQueue { QueueCursor after; int limit{64}; };
/// A line for the log; the core never logs.
struct Note { std::string level; std::string text; };  // "debug" | "info" | "warn" | "error"

using Effect = std::variant<Reply, CallOffers, CallList, CallBalance, CallLaunch, CallRead, CallDestroy, CallRaiseBid,
                            CallTidy, OpenTunnel, CloseTunnel, SendToAgent, CloseAgent, ReadQueue, Note>;

/// What `apply` answers: rows to commit first, effects to release after the commit.
struct Effects {
    std::vector<RowChange> rows;
    std::vector<Effect> after_commit;
};

}  // namespace gf
