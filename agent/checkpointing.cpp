#include "agent/checkpointing.hpp"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <thread>

#include "agent/clock.hpp"
#include "agent/log.hpp"
#include "agent/workspace.hpp"

namespace gf::agent {
namespace cp = checkpoints;

namespace {

/// Packs over HTTP. Waits out the daemon's absence.
class HttpSink final : public cp::PackSink {
 public:
    HttpSink(BulkClient& bulk, const std::string& attempt, std::function<bool()> stopped)
        : bulk_(bulk), attempt_(attempt), stopped_(std::move(stopped)) {}
    Result<void> put(const cp::SpooledPack& pack) override {
        RetryPause pause;
        while (true) {
            auto answer = bulk_.call({.method = "PUT",
                                      .target = "/agent/pack/" + attempt_ + "/" + pack.id.hex(),
                                      .headers = {{"Content-Type", "application/octet-stream"}},
                                      .body_file = pack.file.string()});
            if (answer && (answer->status == 200 || answer->status == 201)) return {};
            if (answer && answer->status == 409) return fail(ErrorKind::conflict, "fenced");
            if (answer)
                return fail(ErrorKind::invalid, "pack " + pack.id.hex() + " refused with status " + std::to_string(answer->status));
            if (answer.error().kind == ErrorKind::conflict || answer.error().kind == ErrorKind::io) return fail(answer.error());
            if (!pause.wait(stopped_)) return fail(ErrorKind::conflict, "aborted");
        }
    }

 private:
    BulkClient& bulk_;
    const std::string& attempt_;
    std::function<bool()> stopped_;
};

class HttpSource final : public cp::PackSource {
 public:
    HttpSource(BulkClient& bulk, const std::string& attempt, std::function<bool()> stopped)
        : bulk_(bulk), attempt_(attempt), stopped_(std::move(stopped)) {}
    Result<void> read(const cp::PackEntry& pack, std::int64_t offset, std::int64_t length, std::string& out) override {
        RetryPause pause;
        while (true) {
            out.clear();
            auto answer = bulk_.call({.target = "/agent/pack/" + attempt_ + "/" + pack.id.hex(),
                                      .headers = {{"Range", "bytes=" + std::to_string(offset) + "-" +
                                                                std::to_string(offset + length - 1)}}},
                                     [&](std::string_view bytes) {
                                         out += bytes;
                                         return static_cast<std::int64_t>(out.size()) <= pack.size;
                                     });
            if (answer && answer->status == 200 && offset + length <= static_cast<std::int64_t>(out.size())) {
                out = out.substr(static_cast<std::size_t>(offset), static_cast<std::size_t>(length));
                return {};
            }
            if (answer && answer->status == 206 && static_cast<std::int64_t>(out.size()) == length) return {};
            if (answer && (answer->status == 404 || answer->status == 416))
                return fail(ErrorKind::not_found, "pack " + pack.id.hex() + " is not in the store");
            if (answer && answer->status == 409) return fail(ErrorKind::conflict, "fenced");
            if (stopped_() || !pause.wait(stopped_)) return fail(ErrorKind::conflict, "aborted");
        }
    }

 private:
    BulkClient& bulk_;
    const std::string& attempt_;
    std::function<bool()> stopped_;
};

std::string generation_detail(std::int64_t generation, const std::string& detail) {
    return nlohmann::json{{"generation", generation}, {"detail", detail}}.dump(-1, ' ', false,
                                                                              nlohmann::json::error_handler_t::replace);
}

}  // namespace

Checkpointing::Checkpointing(std::unique_ptr<BulkClient> bulk, Order order) : bulk_(std::move(bulk)), order_(std::move(order)) {
    bulk_->set_cancelled([this] { return stopped(); });
    previous_known_ = !order_.resumed && order_.lease.generation == 0;
    find_waiting();
}

void Checkpointing::find_waiting() {
    DIR* list = ::opendir(order_.spool.c_str());
    if (!list) return;
    std::vector<std::int64_t> numbers;
    while (const dirent* entry = ::readdir(list)) {
        const std::string_view name = entry->d_name;
        std::int64_t number = 0;
        if (std::from_chars(name.data(), name.data() + name.size(), number).ec == std::errc{}) numbers.push_back(number);
    }
    ::closedir(list);
    std::ranges::sort(numbers);
    for (auto it = numbers.rbegin(); it != numbers.rend(); ++it) {
        const std::string folder = order_.spool + "/" + std::to_string(*it);
        next_folder_ = std::max(next_folder_, *it + 1);
        const std::string encoded = read_small_file(folder + "/manifest.json", cp::kManifestBytesMax);
        auto manifest = cp::decode_manifest(encoded);
        if (waiting_ || !manifest || manifest->kind != cp::ManifestKind::checkpoint) {
            remove_tree(folder);  // older, or cut short by the crash
            continue;
        }
        Waiting found{.folder = folder, .snapshot = {}};
        found.snapshot.encoded = encoded;
        found.snapshot.digest = cp::manifest_digest(encoded);
        for (const auto& pack : manifest->packs) {
            const std::string file = folder + "/" + pack.id.hex() + ".pack";
            if (::access(file.c_str(), R_OK) == 0) found.snapshot.packs.push_back({.id = pack.id, .size = pack.size, .file = file});
        }
        found.snapshot.manifest = *std::move(manifest);
        waiting_ = std::move(found);
        unsent_ = true;
    }
}

Result<HttpResponse> Checkpointing::patient_call(const HttpRequest& request) {
    RetryPause pause;
    while (true) {
        auto answer = bulk_->call(request);
        if (answer) return answer;
        if (stopped() || !pause.wait([this] { return stopped(); })) return fail(ErrorKind::conflict, "aborted");
    }
}

void Checkpointing::lost_right() {
    if (!fenced_.exchange(true)) order_.fenced();
}

Result<RestoredGeneration> Checkpointing::restore() {
    const std::lock_guard lock(mutex_);
    std::string said;
    std::int64_t at_most = order_.lease.generation;
    while (at_most > 0) {
        auto tried = restore_at_most(at_most, said);
        if (!tried) return fail(tried.error());
        if (*tried) {
            (*tried)->said = said;
            return **tried;
        }
        if (said.empty()) said = "generation " + std::to_string(at_most) + " is not in the store";
        if (generation_ == 0) break;  // the store has none that is older
        at_most = generation_ - 1;
    }
    previous_known_ = true;
    if (order_.lease.generation > 0) said += "; no whole generation is left, starting from the beginning";
    generation_ = 0;
    return RestoredGeneration{.generation = 0, .step = 0, .said = said};
}

/// Nothing = that generation is broken (its number is in generation_) or there is none (generation_ is 0).
Result<std::optional<RestoredGeneration>> Checkpointing::restore_at_most(std::int64_t at_most, std::string& said) {
    const auto& attempt = order_.lease.attempt;
    auto answer = patient_call({.target = "/agent/checkpoint/" + attempt + "?at_most=" + std::to_string(at_most)});
    if (!answer) return fail(answer.error());
    generation_ = 0;
    if (answer->status == 404) return std::nullopt;
    if (answer->status == 409) {
        lost_right();
        return fail(ErrorKind::conflict, "fenced");
    }
    const auto header = answer->headers.find("gpuferry-generation");
    std::int64_t generation = 0;
    if (header != answer->headers.end())
        std::from_chars(header->second.data(), header->second.data() + header->second.size(), generation);
    if (answer->status != 200 || generation <= 0 || generation > at_most)
        return fail(ErrorKind::io, "checkpoint: the daemon's answer makes no sense (status " + std::to_string(answer->status) + ")");
    generation_ = generation;
    const auto broken = [&](const std::string& detail) -> Result<std::optional<RestoredGeneration>> {
        report_broken(generation, detail);
        said += (said.empty() ? "" : "; ") + std::string("generation ") + std::to_string(generation) + ": " + detail;
        return std::optional<RestoredGeneration>{};
    };
    auto manifest = cp::decode_manifest(answer->body);
    if (!manifest) return broken(manifest.error().message);
    HttpSource source(*bulk_, attempt, [this] { return stopped(); });
    const std::string target = below(order_.job_folder, order_.lease.checkpoint.path);
    auto restored = cp::restore(*manifest, source, target, {.durable = false, .uid = order_.uid, .gid = order_.gid,
                                                        .stop = [this] { return stopped(); }, .progress = {}, .disk = nullptr});
    if (!restored) {
        const auto kind = restored.error().kind;
        if (kind == ErrorKind::malformed || kind == ErrorKind::not_found || kind == ErrorKind::invalid)
            return broken(restored.error().message);
        return fail(restored.error());
    }
    RestoredGeneration done{.generation = generation, .step = manifest->step, .said = {}};
    previous_ = *std::move(manifest);
    previous_known_ = true;
    return done;
}

void Checkpointing::report_broken(std::int64_t generation, const std::string& detail) {
    log("warn", "checkpoint generation " + std::to_string(generation) + " is broken: " + detail);
    const std::string body = generation_detail(generation, detail);
    const auto told = patient_call({.method = "POST",
                                    .target = "/agent/checkpoint/" + order_.lease.attempt + "/broken",
                                    .headers = {{"Content-Type", "application/json"}},
                                    .body = body});
    if (told && told->status == 409) lost_right();
}

/// After a crash of the worker: the newest committed generation is asked for, so that its chunks are not sent again. Without
/// an answer the snapshot is simply taken whole; it must not wait for a daemon that is away.
void Checkpointing::find_previous() {
    if (previous_known_) return;
    auto answer = bulk_->call({.target = "/agent/checkpoint/" + order_.lease.attempt + "?at_most=" + std::to_string(INT64_MAX)});
    if (!answer) return;
    if (answer->status == 409) return lost_right();
    if (answer->status == 200)
        if (auto manifest = cp::decode_manifest(answer->body)) previous_ = *std::move(manifest);
    previous_known_ = true;
}

cp::SnapshotRequest Checkpointing::request(CheckpointWhen when) {
    cp::SnapshotRequest r;
    r.root = below(order_.job_folder, order_.lease.checkpoint.path);
    r.spool = new_folder();
    r.spec = order_.lease.checkpoint;
    r.job = order_.lease.job;
    r.task = order_.lease.task;
    r.attempt = order_.lease.number;
    r.step = order_.step ? order_.step() : 0;
    r.now = wall_time();
    r.previous = previous_ ? &*previous_ : nullptr;
    r.memory = &memory_;
    if (when == CheckpointWhen::over) r.still_for = Millis{50};
    r.wait = [this](Millis wait) {
        const Millis until = boot_time() + wait;
        while (!stopped() && boot_time() < until)
            std::this_thread::sleep_for(std::min(Millis{20}, until - boot_time() + Millis{1}));
        return !stopped();
    };
    return r;
}

std::string Checkpointing::new_folder() { return order_.spool + "/" + std::to_string(next_folder_++); }

Result<std::int64_t> Checkpointing::checkpoint(CheckpointWhen when) {
    const std::lock_guard lock(mutex_);
    if (stopped()) return fail(ErrorKind::conflict, "aborted");
    if (waiting_ && when == CheckpointWhen::running) {
        auto sent = send(*waiting_, "/agent/checkpoint/");
        if (!sent) return sent;
    }
    find_previous();
    if (stopped()) return fail(ErrorKind::conflict, "aborted");
    const auto asked = request(when);
    auto taken = cp::take_snapshot(asked);
    if (!taken || taken->same_as_previous) {
        if (taken) cp::discard(*taken);
        remove_tree(asked.spool.string());
        if (!taken && taken.error().kind != ErrorKind::not_found && taken.error().kind != ErrorKind::conflict)
            order_.trouble("no checkpoint: " + taken.error().message);
        if (!taken) return fail(taken.error());
        // Nothing is newer than what the daemon has, so a snapshot that was waiting is older than the committed one.
        drop_waiting();
        return generation_;
    }
    if (taken->special_files > 0)
        log("info", "checkpoint: " + std::to_string(taken->special_files) + " sockets, pipes or devices left out");
    drop_waiting();
    Waiting fresh{.folder = asked.spool.string(), .snapshot = *std::move(taken)};
    auto stored = replace_file(fresh.folder + "/manifest.json", fresh.snapshot.encoded);
    if (!stored) {
        remove_tree(fresh.folder);
        order_.trouble("no checkpoint: " + stored.error().message);
        return fail(stored.error());
    }
    waiting_ = std::move(fresh);
    unsent_ = true;
    return send(*waiting_, "/agent/checkpoint/");
}

Result<std::int64_t> Checkpointing::send_waiting() {
    const std::lock_guard lock(mutex_);
    if (!waiting_) return generation_;
    return send(*waiting_, "/agent/checkpoint/");
}

void Checkpointing::drop_waiting() {
    if (waiting_) remove_tree(waiting_->folder);
    waiting_.reset();
    unsent_ = false;
}

Result<std::int64_t> Checkpointing::send(Waiting& waiting, const std::string& target) {
    HttpSink sink(*bulk_, order_.lease.attempt, [this] { return stopped(); });
    auto sent = cp::send_packs(waiting.snapshot, sink);
    Result<std::int64_t> generation = fail(ErrorKind::conflict, "not sent");
    if (sent) generation = post_manifest(waiting, target);
    else generation = fail(sent.error());
    if (!generation && generation.error().message == "fenced") lost_right();
    const bool refused = !generation && generation.error().kind == ErrorKind::invalid;
    if (refused) {
        // A manifest that builds on what the store does not have will never be taken; the next one starts from nothing.
        order_.trouble("checkpoint refused by the daemon: " + generation.error().message);
        previous_.reset();
        memory_ = {};
    }
    if (generation) {
        generation_ = *generation;
        if (waiting.snapshot.manifest.kind == cp::ManifestKind::checkpoint) previous_ = std::move(waiting.snapshot.manifest);
    }
    if ((generation || refused) && waiting_ && &waiting == &*waiting_) drop_waiting();
    return generation;
}

Result<std::int64_t> Checkpointing::post_manifest(const Waiting& waiting, const std::string& target) {
    auto answer = patient_call({.method = "POST",
                                .target = target + order_.lease.attempt,
                                .headers = {{"Content-Type", "application/json"}},
                                .body = waiting.snapshot.encoded});
    if (!answer) return fail(answer.error());
    if (answer->status == 409) return fail(ErrorKind::conflict, "fenced");
    if (answer->status != 200 && answer->status != 201)
        return fail(ErrorKind::invalid, "status " + std::to_string(answer->status) + ": " + answer->body.substr(0, 300));
    const auto json = nlohmann::json::parse(answer->body, nullptr, false);
    if (json.is_object() && json.contains("generation") && json["generation"].is_number_integer())
        return json["generation"].get<std::int64_t>();
    return 0;
}

Result<void> Checkpointing::outputs() {
    const std::lock_guard lock(mutex_);
    if (order_.lease.outputs.empty()) return {};
    auto asked = request(CheckpointWhen::over);
    asked.root = order_.job_folder;
    asked.spec = {};
    asked.kind = cp::ManifestKind::output;
    asked.previous = nullptr;
    asked.memory = nullptr;
    // Readers of an output look for files: a link alone would be nothing to them, and its target goes with this machine.
    asked.follow_links = true;
    for (const auto& output : order_.lease.outputs) {
        if (!is_safe_relative(output.from)) return fail(ErrorKind::invalid, "output " + output.from + " is not below the job's folder");
        asked.only.push_back(output.from);
    }
    auto taken = cp::take_snapshot(asked);
    if (!taken) {
        remove_tree(asked.spool.string());
        return fail(taken.error());
    }
    if (!taken->dead_links.empty())
        order_.trouble("outputs: " + std::to_string(taken->dead_links.size()) +
                       " links are published as links alone (they lead out of the job's folder, to nothing, or back to a folder "
                       "around them), the first is " + taken->dead_links.front());
    Waiting output{.folder = asked.spool.string(), .snapshot = *std::move(taken)};
    unsent_ = true;
    const auto sent = send(output, "/agent/output/");
    if (sent || !stopped()) remove_tree(output.folder);
    unsent_ = waiting_.has_value();
    if (!sent) return fail(sent.error());
    return {};
}

}  // namespace gf::agent
