// The bulk bytes of the agents: packs and manifests in, checkpoints and packs out. Functions for the blocking threads; what
// has a meaning becomes an event of the core, whose answer decides.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "checkpoints/store.hpp"
#include "daemon/gateway/gateway.hpp"
#include "daemon/http/exchange.hpp"

namespace gf::gateway {

/// A pack on its way into the store. Opens it with the first bytes.
class PackSink final : public http::BodySink {
 public:
    PackSink(checkpoints::CheckpointStore& store, JobId job, int attempt, checkpoints::Digest id)
        : store_(store), job_(std::move(job)), attempt_(attempt), id_(id) {}
    Result<void> write(std::string_view piece) override;
    /// 201, 200, 422, 507.
    [[nodiscard]] http::Response finish();

 private:
    checkpoints::CheckpointStore& store_;
    JobId job_;
    int attempt_;
    checkpoints::Digest id_;
    std::unique_ptr<checkpoints::PackWriter> writer_;
};

/// What the bulk handlers work with. Everything outlives them.
struct Bulk {
    CorePort& core;
    checkpoints::CheckpointStore& store;
    /// Newest whole generation of a task not above `at_most` (0 = newest), from the database.
    std::function<Result<std::optional<CheckpointRecord>>(const TaskId&, std::int64_t at_most)> newest;
    /// Whether a checkpoint or an output of the job names this manifest.
    std::function<Result<bool>(const JobId&, const checkpoints::Digest&)> is_named;
};

/// Asks the core and waits for its answer, at most half a minute: then 503, and the agent asks again.
[[nodiscard]] ApiResult ask_and_wait(CorePort& core, Event event);

/// A candidate: the manifest goes into the store, the core says whether the attempt is current, the seal is written.
[[nodiscard]] http::Response take_checkpoint(Bulk bulk, const MachineGate& gate, std::string_view manifest);
[[nodiscard]] http::Response take_output(Bulk bulk, const MachineGate& gate, std::string_view manifest);
/// The newest whole committed generation not above `at_most` (0 = newest). Broken ones on the way are set aside.
[[nodiscard]] http::Response give_checkpoint(Bulk bulk, const MachineGate& gate, std::int64_t at_most);
/// An agent could not restore a generation. It is read back here: the word of a foreign machine alone sets nothing aside.
[[nodiscard]] http::Response judge_broken(Bulk bulk, const MachineGate& gate, std::int64_t generation, std::string detail);
/// Bytes of a pack of the job, made by any attempt up to this one.
[[nodiscard]] http::Response give_pack(checkpoints::CheckpointStore& store, const MachineGate& gate,
                                       const checkpoints::Digest& id, std::string_view range);

}  // namespace gf::gateway
