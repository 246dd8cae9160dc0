#include "daemon/gateway/bulk.hpp"

#include <algorithm>
#include <chrono>
#include <future>
#include <nlohmann/json.hpp>

#include "checkpoints/manifest.hpp"
#include "daemon/core.hpp"
#include "daemon/http/files.hpp"
#include "daemon/http/problem.hpp"
#include "daemon/log.hpp"

namespace gf::gateway {
namespace {

using checkpoints::CheckpointStore;
using checkpoints::Digest;
using nlohmann::json;

constexpr int kFallBackMax = 1000;             // generations that are looked at in one request
constexpr std::int64_t kPackPiece = 1 << 20;
constexpr std::chrono::seconds kCorePatience{30};

class PackBytes final : public http::BodyStream {
 public:
    PackBytes(CheckpointStore& store, JobId job, checkpoints::PackKey key, std::int64_t from, std::int64_t to)
        : store_(store), job_(std::move(job)), key_(key), at_(from), to_(to) {}
    State next(std::string& out) override {
        if (at_ >= to_) return State::end;
        const auto count = std::min(kPackPiece, to_ - at_);
        if (!store_.read_pack(job_, key_, at_, count, out)) return State::broken;
        at_ += count;
        return at_ >= to_ ? State::end : State::more;
    }
    [[nodiscard]] bool blocking() const override { return true; }

 private:
    CheckpointStore& store_;
    JobId job_;
    checkpoints::PackKey key_;
    std::int64_t at_;
    std::int64_t to_;
};

http::Response refusal(const ApiResult& result) {
    if (result.error) {
        auto response = http::problem(*result.error);
        if (result.status >= 400 && result.status != response.status)
            response = http::problem(result.status, result.error->message);
        return response;
    }
    return http::problem(result.status >= 400 ? result.status : 503, "the daemon did not take it");
}

bool refused(const ApiResult& result) { return result.error.has_value() || result.status >= 400; }

/// A fenced candidate is nobody's: its manifest goes, so that retention can free what only it names. Unless it was committed
/// before (an agent that lost the answer sends it again), and not when it was merely not answered: then it still may be.
http::Response refused_candidate(const Bulk& bulk, const JobId& job, const Digest& manifest, const ApiResult& result) {
    if (result.status != 409) return refusal(result);
    const auto named = bulk.is_named(job, manifest);
    if (!named || *named) return refusal(result);
    if (const auto removed = bulk.store.remove_manifest(job, manifest); !removed)
        log::warn("gateway.remove_failed", {{"job", job.get()}, {"reason", removed.error().message}});
    return refusal(result);
}

/// The seal lets the store be read without the database. It says what the row says; one that says something else is not ours.
Result<void> check_seal(CheckpointStore& store, const CheckpointRecord& row, const Digest& manifest) {
    const checkpoints::Seal right{.task = row.task.get(), .generation = row.generation, .attempt = row.attempt, .step = row.step,
                                  .manifest = manifest, .committed_at_ms = unix_millis(row.committed_at)};
    const auto seals = store.list_seals(row.job);
    if (!seals) return fail(seals.error());
    for (const auto& seal : *seals) {
        if (seal.task != right.task || seal.generation != right.generation) continue;
        if (seal.manifest == right.manifest && seal.attempt == right.attempt) return {};
        return fail(ErrorKind::malformed, "the seal of generation " + std::to_string(row.generation) + " names another manifest");
    }
    return store.put_seal(row.job, right);
}

void set_aside(Bulk bulk, const MachineGate& gate, const CheckpointRecord& row, const std::string& why) {
    log::warn("gateway.checkpoint_broken", {{"job", row.job.get()}, {"generation", row.generation}, {"reason", why}});
    const auto told = ask_and_wait(bulk.core, CheckpointBroken{.machine = gate.id, .attempt = gate.attempt,
                                                               .generation = row.generation, .detail = why});
    if (refused(told)) return;  // the row still says whole; the next request finds it broken again
    const auto digest = Digest::from_hex(row.manifest_sha256);
    if (!digest) return;
    if (const auto moved = bulk.store.quarantine(row.job, *digest, why); !moved)
        log::warn("gateway.quarantine_failed", {{"job", row.job.get()}, {"reason", moved.error().message}});
}

}  // namespace

Result<void> PackSink::write(std::string_view piece) {
    if (!writer_) {
        auto begun = store_.begin_pack(job_, attempt_, id_);
        if (!begun) return fail(std::move(begun).error());
        writer_ = *std::move(begun);
    }
    return writer_->append(piece);
}

http::Response PackSink::finish() {
    if (!writer_) return http::problem(422, "a pack is not empty");
    const auto fresh = writer_->commit();
    if (!fresh) return http::problem(fresh.error());
    return http::json(*fresh ? 201 : 200, "{}");
}

ApiResult ask_and_wait(CorePort& core, Event event) {
    const auto told = std::make_shared<std::promise<ApiResult>>();
    auto answer = told->get_future();
    core.post(std::move(event), [told](ApiResult result) { told->set_value(std::move(result)); });
    if (answer.wait_for(kCorePatience) != std::future_status::ready)
        return {.status = 503, .json = {}, .location = {}, .error = Error{.kind = ErrorKind::busy, .message = "the core did not answer"}};
    return answer.get();
}

http::Response take_checkpoint(Bulk bulk, const MachineGate& gate, std::string_view manifest) {
    auto& core = bulk.core;
    auto& store = bulk.store;
    const auto stored = store.put_manifest(gate.job, gate.task, gate.attempt_number, manifest);
    if (!stored) return http::problem(stored.error());
    const auto result = ask_and_wait(core, CheckpointOffered{.request = 0, .machine = gate.id, .attempt = gate.attempt,
                                                             .manifest_sha256 = stored->digest.hex(), .step = stored->step,
                                                             .size = Bytes{stored->bytes}});
    if (refused(result)) return refused_candidate(bulk, gate.job, stored->digest, result);
    const auto answer = json::parse(result.json, nullptr, false);
    const auto generation = answer.is_object() ? answer.value("generation", std::int64_t{0}) : 0;
    if (generation > 0) {
        const checkpoints::Seal seal{.task = gate.task.get(), .generation = generation, .attempt = gate.attempt_number,
                                     .step = stored->step, .manifest = stored->digest,
                                     .committed_at_ms = unix_millis(core.now())};
        // The row is the truth; a seal that is missing is written again at the next restore.
        if (const auto sealed = store.put_seal(gate.job, seal); !sealed)
            log::warn("gateway.seal_failed", {{"job", gate.job.get()}, {"generation", generation}, {"reason", sealed.error().message}});
    }
    return http::json(200, result.json);
}

http::Response take_output(Bulk bulk, const MachineGate& gate, std::string_view manifest) {
    auto& core = bulk.core;
    auto& store = bulk.store;
    const auto stored = store.put_manifest(gate.job, gate.task, gate.attempt_number, manifest);
    if (!stored) return http::problem(stored.error());
    const auto result = ask_and_wait(core, OutputOffered{.request = 0, .machine = gate.id, .attempt = gate.attempt,
                                                         .manifest_sha256 = stored->digest.hex(), .size = Bytes{stored->bytes},
                                                         .files = static_cast<int>(stored->files)});
    if (refused(result)) return refused_candidate(bulk, gate.job, stored->digest, result);
    return http::json(200, result.json.empty() ? "{}" : result.json);
}

http::Response give_checkpoint(Bulk bulk, const MachineGate& gate, std::int64_t at_most) {
    for (int looked = 0; looked < kFallBackMax; ++looked) {
        const auto row = bulk.newest(gate.task, at_most);
        if (!row) return http::problem(row.error());
        if (!*row) break;
        const auto& found = **row;
        const auto digest = Digest::from_hex(found.manifest_sha256);
        if (!digest) return http::problem(500, "the row of generation " + std::to_string(found.generation) + " names no manifest");
        auto whole = checkpoints::check_generation(bulk.store, found.job, *digest);
        Result<void> sealed = {};
        if (whole) sealed = check_seal(bulk.store, found, *digest);
        if (whole && sealed) {
            const auto bytes = bulk.store.get_manifest(found.job, *digest);
            if (!bytes) return http::problem(503, bytes.error().message);
            auto response = http::json(200, *bytes);
            response.headers.emplace_back("Gpuferry-Generation", std::to_string(found.generation));
            return response;
        }
        const Error error = whole ? sealed.error() : whole.error();
        if (error.kind != ErrorKind::malformed) return http::problem(503, error.message);  // could not tell: ask again
        set_aside(bulk, gate, found, error.message);
        if (found.generation <= 1) break;
        at_most = found.generation - 1;
    }
    return http::problem(404, "there is no whole checkpoint");
}

http::Response judge_broken(Bulk bulk, const MachineGate& gate, std::int64_t generation, std::string detail) {
    const auto row = bulk.newest(gate.task, generation);
    if (!row) return http::problem(row.error());
    if (!*row || (*row)->generation != generation) return http::json(200, R"({"set_aside":true})");  // already
    const auto digest = Digest::from_hex((*row)->manifest_sha256);
    if (!digest) return http::problem(500, "the row of generation " + std::to_string(generation) + " names no manifest");
    const auto whole = checkpoints::verify_generation(bulk.store, (*row)->job, *digest);
    if (whole) {
        log::warn("gateway.checkpoint_whole_here", {{"job", gate.job.get()}, {"generation", generation}, {"machine", gate.id.get()},
                                                    {"reason", detail}});
        return http::json(200, R"({"set_aside":false})");
    }
    if (whole.error().kind != ErrorKind::malformed) return http::problem(503, whole.error().message);
    set_aside(bulk, gate, **row, whole.error().message);
    return http::json(200, R"({"set_aside":true})");
}

http::Response give_pack(CheckpointStore& store, const MachineGate& gate, const Digest& id, std::string_view range) {
    for (int attempt = gate.attempt_number; attempt >= 1; --attempt) {
        const checkpoints::PackKey key{.attempt = attempt, .id = id};
        const auto size = store.pack_size(gate.job, key);
        if (!size && size.error().kind == ErrorKind::not_found) continue;
        if (!size) return http::problem(size.error());
        const auto part = http::parse_range(range, *size);
        if (part.unsatisfiable) {
            auto refused = http::problem(416, "the range is outside of the " + std::to_string(*size) + " bytes");
            refused.headers.emplace_back("Content-Range", "bytes */" + std::to_string(*size));
            return refused;
        }
        http::Response response;
        response.status = part.partial ? 206 : 200;
        response.content_type = "application/octet-stream";
        response.headers.emplace_back("Accept-Ranges", "bytes");
        if (part.partial)
            response.headers.emplace_back("Content-Range", "bytes " + std::to_string(part.from) + "-" +
                                                               std::to_string(part.to - 1) + "/" + std::to_string(*size));
        response.stream_length = part.to - part.from;
        response.stream = std::make_unique<PackBytes>(store, gate.job, key, part.from, part.to);
        return response;
    }
    return http::problem(404, "there is no pack " + id.hex());
}

}  // namespace gf::gateway
