#include "daemon/gateway/gateway.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "checkpoints/manifest.hpp"
#include "checkpoints/pack.hpp"
#include "daemon/core.hpp"
#include "daemon/gateway/agent_binaries.hpp"
#include "daemon/gateway/agent_sockets.hpp"
#include "daemon/gateway/bulk.hpp"
#include "daemon/gateway/log_files.hpp"
#include "daemon/gateway/sessions.hpp"
#include "daemon/http/descriptor_limit.hpp"
#include "daemon/http/digest.hpp"
#include "daemon/http/files.hpp"
#include "daemon/http/listener.hpp"
#include "daemon/http/problem.hpp"
#include "daemon/log.hpp"

namespace gf {
namespace {

namespace ap = agent_protocol;
using http::Method;

constexpr std::int64_t kEnrolBytesMax = 16 * 1024;
constexpr std::int64_t kLogBytesMax = 16 << 20;       // one log request
constexpr std::int64_t kLogOffsetMax = 1LL << 50;     // a machine's word: what is added to it must not overflow
constexpr std::int64_t kNoteBytesMax = 64 * 1024;
constexpr std::int64_t kDiskReserve = 512LL << 20;    // below this much free disk no pack is taken: the store needs the rest

enum class Path : std::uint8_t { bin, enrol, ws, blob, log, put_pack, get_pack, checkpoint, get_checkpoint, broken, output };

struct Route {
    Method method;
    std::size_t parts;            // of the path, "agent" included
    std::string_view second;
    std::string_view fourth;      // "" = none
    Path path;
};
constexpr std::array kRoutes{
    Route{Method::get, 3, "bin", "", Path::bin},
    Route{Method::post, 2, "enrol", "", Path::enrol},
    Route{Method::get, 2, "ws", "", Path::ws},
    Route{Method::get, 3, "blob", "", Path::blob},
    Route{Method::post, 3, "log", "", Path::log},
    Route{Method::put, 4, "pack", "", Path::put_pack},
    Route{Method::get, 4, "pack", "", Path::get_pack},
    Route{Method::post, 3, "checkpoint", "", Path::checkpoint},
    Route{Method::get, 3, "checkpoint", "", Path::get_checkpoint},
    Route{Method::post, 4, "checkpoint", "broken", Path::broken},
    Route{Method::post, 3, "output", "", Path::output},
};

/// Whether the path has an attempt in it, as its third part.
bool is_of_attempt(Path path) {
    return path != Path::bin && path != Path::enrol && path != Path::ws && path != Path::blob;
}

std::optional<std::int64_t> number_of(const http::Request& request, std::string_view key) {
    const auto* text = request.query_value(key);
    if (text == nullptr) return std::nullopt;
    std::int64_t value = 0;
    const auto* end = text->data() + text->size();
    const auto [stop, error] = std::from_chars(text->data(), end, value);
    if (error != std::errc{} || stop != end || value < 0) return -1;
    return value;
}

bool disk_is_low(const std::string& folder) {
    struct statvfs info {};
    return ::statvfs(folder.c_str(), &info) == 0 &&
           static_cast<std::int64_t>(info.f_bavail) * static_cast<std::int64_t>(info.f_frsize) < kDiskReserve;
}

/// What the head of a request told.
class Admitted final : public http::Finding {
 public:
    Path path{};
    gateway::Session session;
    MachineGate gate;
};

}  // namespace

std::string enrol_token(const Secret& install_key, const MachineId& machine) {
    return http::hmac_sha256_hex(install_key.reveal(), machine.get());
}

struct Gateway::Impl final : http::Service, std::enable_shared_from_this<Gateway::Impl> {
    Impl(http::Loop& l, CorePort& c, GatewayOptions o)
        : loop(l), core(c), options(std::move(o)), sockets(std::make_shared<gateway::AgentSockets>(c)),
          logs(options.data_dir, options.log_bytes_max), binaries(options.data_dir + "/agents") {}

    http::BodyPlan admit(const http::Request& head) override {
        http::BodyPlan plan;
        plan.refuse = decide(head, plan);
        return plan;
    }
    void serve(http::Request request, http::Answer answer) override;

    std::optional<http::Response> decide(const http::Request& head, http::BodyPlan& plan);
    std::optional<http::Response> plan_body(const http::Request& head, const Admitted& found, http::BodyPlan& plan);
    http::Response enrol(const http::Request& request);
    http::Response binary(const std::string& sha256, const http::Request& request);
    http::Response append_log(const http::Request& request, const MachineGate& gate);
    [[nodiscard]] gateway::Bulk bulk();
    /// Runs `make` on a blocking thread and answers with what it returns.
    void in_background(std::function<http::Response()> make, http::Answer answer);

    http::Loop& loop;
    CorePort& core;
    GatewayOptions options;
    gateway::Sessions sessions;
    std::shared_ptr<gateway::AgentSockets> sockets;
    gateway::LogFiles logs;
    http::Tls tls;
    std::unique_ptr<http::Listener> listener;
    std::mutex reader_mutex;                      // guards reader
    std::unique_ptr<Reader> reader;
    gateway::AgentBinaries binaries;

    /// The newest length of an attempt's output that its agent spoke of, per machine.
    struct SpokenLog {
        std::string tag;
        JobId job;
        AttemptId attempt;
        std::int64_t bytes{0};
    };
    void spoke_of_log(const gateway::Session& session, const std::string& attempt, std::int64_t bytes);
    void mark_lost_log(const MachineId& machine);
    std::mutex spoken_mutex;  // guards spoken_logs
    std::map<MachineId, SpokenLog> spoken_logs;
};

std::optional<http::Response> Gateway::Impl::decide(const http::Request& head, http::BodyPlan& plan) {
    const auto& segments = head.segments;
    if (segments.size() < 2 || segments[0] != "agent") return http::problem(404, "only /agent/ is served here");
    const Route* route = nullptr;
    bool known = false;
    for (const auto& r : kRoutes) {
        if (segments.size() != r.parts || segments[1] != r.second) continue;
        if (!r.fourth.empty() && segments[3] != r.fourth) continue;
        known = true;
        if (r.method == head.method) route = &r;
    }
    if (route == nullptr) return http::problem(known ? 405 : 404, known ? "not with this method" : "there is no " + head.path);
    // The fetch of the binary carries no token and is checked by its hash; everything else must not be read on the way.
    if (route->path != Path::bin && !head.peer.tls && !head.peer.loopback)
        return http::problem(403, "this listener speaks plain HTTP only for /agent/bin; use https");
    auto found = std::make_unique<Admitted>();
    found->path = route->path;
    if (route->path != Path::bin && route->path != Path::enrol) {
        constexpr std::string_view scheme = "Bearer ";
        const auto header = head.header("authorization");
        const auto session = header.starts_with(scheme) ? sessions.find(header.substr(scheme.size())) : std::nullopt;
        if (!session) return http::problem(401, "no such session: enrol again");
        auto gate = options.machine_lookup(session->tag);
        if (!gate || gate->id != session->machine || gate->state == MachineState::gone) {
            sessions.close(session->machine);
            return http::problem(401, "this machine has no row any more");
        }
        if (is_of_attempt(route->path) && (gate->attempt.empty() || gate->attempt.get() != segments[2]))
            return http::problem(409, "attempt " + segments[2] + " is not this machine's");
        found->session = *session;
        found->gate = *std::move(gate);
    }
    if (auto refused = plan_body(head, *found, plan)) return refused;
    plan.finding = std::move(found);
    return std::nullopt;
}

std::optional<http::Response> Gateway::Impl::plan_body(const http::Request& head, const Admitted& found, http::BodyPlan& plan) {
    switch (found.path) {
        case Path::bin:
        case Path::ws:
        case Path::blob:
        case Path::get_pack:
        case Path::get_checkpoint: return std::nullopt;
        case Path::enrol: plan.body_max = kEnrolBytesMax; return std::nullopt;
        case Path::log: plan.body_max = kLogBytesMax; return std::nullopt;
        case Path::broken: plan.body_max = kNoteBytesMax; return std::nullopt;
        case Path::checkpoint:
        case Path::output:
            plan.body_max = static_cast<std::int64_t>(checkpoints::kManifestBytesMax);
            return std::nullopt;
        case Path::put_pack: {
            const auto id = checkpoints::Digest::from_hex(head.segments[3]);
            if (!id) return http::problem(400, "a pack is named by its SHA-256");
            if (disk_is_low(options.data_dir)) {
                auto full = http::problem(507, "the daemon's disk is nearly full");
                full.headers.emplace_back("Retry-After", "30");
                return full;
            }
            plan.body_max = std::min(options.pack_bytes_max, checkpoints::kPackBytesMax);
            plan.sink = std::make_unique<gateway::PackSink>(*options.store, found.gate.job, found.gate.attempt_number, *id);
            return std::nullopt;
        }
    }
    return std::nullopt;
}

http::Response Gateway::Impl::enrol(const http::Request& request) {
    const auto asked = ap::decode_enrol_request(request.body);
    if (!asked) return http::problem(400, asked.error().message);
    const auto gate = options.machine_lookup(asked->machine);
    // One answer for every unknown, wrong or spent token: it tells a guesser nothing.
    const auto refused = [&](std::string_view why) {
        log::warn("gateway.enrol_refused", {{"tag", asked->machine}, {"reason", why}, {"address", request.peer.address}});
        return http::problem(401, "this machine may not enrol");
    };
    if (!gate) return refused("no such machine");
    if (!http::equal_constant_time(enrol_token(options.install_key, gate->id), asked->enrol)) return refused("wrong token");
    if (gate->state == MachineState::gone || gate->state == MachineState::destroying) return refused("the machine is being destroyed");
    if (asked->boot_id.empty() || asked->boot_id.size() > 128) return http::problem(400, "boot_id must have 1..128 bytes");
    if (asked->protocol_max < ap::kProtocolMin || asked->protocol_min > ap::kProtocolMax) {
        const auto spoken = std::to_string(ap::kProtocolMin) + ".." + std::to_string(ap::kProtocolMax);
        log::warn("gateway.protocol", {{"machine", gate->id.get()}, {"agent", std::to_string(asked->protocol_min) + ".." +
                                                                                 std::to_string(asked->protocol_max)}});
        return http::problem(426, "no common version of the protocol; the daemon speaks " + spoken);
    }
    // Not idempotent: whoever held a session of this machine has lost it from here on.
    const auto token = sessions.open({.machine = gate->id, .tag = asked->machine, .boot_id = asked->boot_id});
    sockets->close(gate->id, "the machine enrolled again");
    log::debug("gateway.enrolled", {{"machine", gate->id.get()}, {"boot_id", asked->boot_id}, {"version", asked->version}});
    return http::json(200, ap::encode(ap::EnrolAnswer{.protocol = std::min(asked->protocol_max, ap::kProtocolMax), .session = token}));
}

http::Response Gateway::Impl::binary(const std::string& sha256, const http::Request& request) {
    const auto path = binaries.path_of(sha256);
    if (path.empty()) return http::problem(404, "there is no agent with this SHA-256");
    auto file = http::open_file(path);
    if (!file) return http::problem(file.error());
    const auto size = http::file_size(*file);
    if (!size) return http::problem(size.error());
    return http::file_response(*std::move(file), *size, request.header("range"), "application/octet-stream");
}

http::Response Gateway::Impl::append_log(const http::Request& request, const MachineGate& gate) {
    const auto offset = number_of(request, "offset");
    const auto count = number_of(request, "skip");
    if (!offset || *offset < 0 || *offset > kLogOffsetMax) return http::problem(400, "offset must be a whole number from 0 to 2^50");
    if (count && (*count < 0 || *count > kLogOffsetMax)) return http::problem(400, "skip must be a whole number from 0 to 2^50");
    const auto acked = count && *count > 0 ? logs.skip(gate.job, gate.attempt, *offset, *count)
                                           : logs.append(gate.job, gate.attempt, *offset, request.body);
    if (!acked) return http::problem(acked.error());
    if (options.log_grew) options.log_grew(gate.job);
    return http::json(200, nlohmann::json{{"acked", *acked}}.dump());
}

void Gateway::Impl::spoke_of_log(const gateway::Session& session, const std::string& attempt, std::int64_t bytes) {
    const auto gate = options.machine_lookup(session.tag);
    if (!gate || gate->id != session.machine || gate->attempt.get() != attempt) return;
    const std::scoped_lock lock(spoken_mutex);
    auto& known = spoken_logs[session.machine];
    if (known.attempt != gate->attempt) known = {.tag = session.tag, .job = gate->job, .attempt = gate->attempt};
    known.bytes = std::max(known.bytes, std::min(bytes, kLogOffsetMax));
}

/// The session of the machine has been ended. If it will not be back with this attempt, what it had said and not sent is lost.
void Gateway::Impl::mark_lost_log(const MachineId& machine) {
    SpokenLog lost;
    {
        const std::scoped_lock lock(spoken_mutex);
        const auto found = spoken_logs.find(machine);
        if (found == spoken_logs.end()) return;
        lost = found->second;
    }
    const auto gate = options.machine_lookup(lost.tag);
    const bool gone = !gate || gate->id != machine || gate->attempt != lost.attempt || gate->state == MachineState::interrupted ||
                      gate->state == MachineState::destroying || gate->state == MachineState::gone;
    if (!gone) return;  // closed only to be greeted anew
    {
        const std::scoped_lock lock(spoken_mutex);
        spoken_logs.erase(machine);
    }
    loop.work([self = shared_from_this(), lost] {
        const auto marked = self->logs.lost(lost.job, lost.attempt, lost.bytes);
        if (!marked) log::warn("gateway.log_not_marked", {{"attempt", lost.attempt.get()}, {"reason", marked.error().message}});
        if (marked && *marked && self->options.log_grew) self->options.log_grew(lost.job);
    });
}

gateway::Bulk Gateway::Impl::bulk() {
    return {.core = core,
            .store = *options.store,
            .newest =
                [this](const TaskId& task, std::int64_t at_most) {
                    const std::scoped_lock lock(reader_mutex);
                    return reader->newest_checkpoint(task, at_most);
                },
            .is_named = [this](const JobId& job, const checkpoints::Digest& manifest) -> Result<bool> {
                const std::scoped_lock lock(reader_mutex);
                const auto same = [hex = manifest.hex()](const auto& row) { return row.manifest_sha256 == hex; };
                const auto generations = reader->checkpoints(job);
                if (!generations) return fail(generations.error());
                const auto outputs = reader->outputs(job);
                if (!outputs) return fail(outputs.error());
                return std::ranges::any_of(*generations, same) || std::ranges::any_of(*outputs, same);
            }};
}

void Gateway::Impl::in_background(std::function<http::Response()> make, http::Answer answer) {
    loop.work([self = shared_from_this(), make = std::move(make), answer = std::move(answer)] {
        const auto response = std::make_shared<http::Response>(make());
        self->loop.enqueue([answer, response] { answer(std::move(*response)); });
    });
}

void Gateway::Impl::serve(http::Request request, http::Answer answer) {
    auto* admitted = dynamic_cast<Admitted*>(request.finding.get());
    GF_ASSERT(admitted != nullptr);
    const Path path = admitted->path;
    if (path == Path::enrol) return answer(enrol(request));
    if (path == Path::ws) {
        if (request.header("upgrade").empty()) return answer(http::problem(426, "this path is a WebSocket"));
        http::Response upgrade;
        upgrade.websocket = sockets->accept(admitted->session);
        upgrade.websocket_message_max = ap::kMessageBytesMax;
        upgrade.websocket_silence = options.silence;
        return answer(std::move(upgrade));
    }
    const auto shared = std::make_shared<http::Request>(std::move(request));
    const auto gate = admitted->gate;  // the finding moved with the request and lives on in it
    in_background([this, shared, gate, path]() -> http::Response {
        const auto& r = *shared;
        auto& store = *options.store;
        switch (path) {
            case Path::bin: return binary(r.segments[2], r);
            case Path::blob: {
                if (gate.code_sha256.empty() || gate.code_sha256 != r.segments[2]) return http::problem(404, "this is not the code of your job");
                auto file = http::open_file(options.data_dir + "/blobs/" + gate.code_sha256);
                if (!file) return http::problem(file.error());
                const auto size = http::file_size(*file);
                if (!size) return http::problem(size.error());
                return http::file_response(*std::move(file), *size, r.header("range"), "application/octet-stream");
            }
            case Path::log: return append_log(r, gate);
            case Path::put_pack: {
                auto* sink = dynamic_cast<gateway::PackSink*>(r.sink.get());
                GF_ASSERT(sink != nullptr);
                return sink->finish();
            }
            case Path::get_pack: {
                const auto id = checkpoints::Digest::from_hex(r.segments[3]);
                if (!id) return http::problem(400, "a pack is named by its SHA-256");
                return gateway::give_pack(store, gate, *id, r.header("range"));
            }
            case Path::checkpoint: return gateway::take_checkpoint(bulk(), gate, r.body);
            case Path::output: return gateway::take_output(bulk(), gate, r.body);
            case Path::get_checkpoint: {
                const auto at_most = number_of(r, "at_most").value_or(0);
                if (at_most < 0) return http::problem(400, "at_most must be a whole number from 0");
                return gateway::give_checkpoint(bulk(), gate, at_most);
            }
            case Path::broken: {
                const auto note = nlohmann::json::parse(r.body, nullptr, false);
                const auto generation = note.is_object() && note.contains("generation") && note["generation"].is_number_integer()
                                            ? note["generation"].get<std::int64_t>()
                                            : 0;
                if (generation < 1) return http::problem(400, "generation must be a whole number from 1");
                auto detail = note.contains("detail") && note["detail"].is_string() ? note["detail"].get<std::string>() : "";
                return gateway::judge_broken(bulk(), gate, generation, detail.substr(0, 1000));
            }
            case Path::enrol:
            case Path::ws: break;
        }
        return http::problem(404, "there is no " + r.path);
    }, std::move(answer));
}

Gateway::Gateway(http::Loop& loop, CorePort& core, GatewayOptions options)
    : impl_(std::make_shared<Impl>(loop, core, std::move(options))) {
    impl_->sockets->on_log_length([impl = std::weak_ptr(impl_)](const gateway::Session& s, const std::string& attempt, std::int64_t bytes) {
        if (const auto here = impl.lock()) here->spoke_of_log(s, attempt, bytes);
    });
}

Gateway::~Gateway() { stop(); }

Result<void> Gateway::start() {
    auto& impl = *impl_;
    GF_ASSERT(impl.options.machine_lookup && impl.options.store != nullptr);
    auto reader = impl.options.open_reader();
    if (!reader) return fail(std::move(reader).error());
    impl.reader = *std::move(reader);
    if (auto made = http::make_folders(impl.options.data_dir + "/logs"); !made) return made;
    auto tls = impl.options.tls_cert.empty() ? http::load_or_make_tls(impl.options.data_dir + "/tls")
                                             : http::load_tls(impl.options.tls_cert, impl.options.tls_key);
    if (!tls) return fail(std::move(tls).error());
    impl.tls = *std::move(tls);
    const int connections_max = std::min(impl.options.connections_max, std::max(16, http::raise_descriptor_limit() / 2));
    http::ListenOptions how{.address = impl.options.listen, .tls = impl.tls.identity, .connections_max = connections_max};
    impl.listener = std::make_unique<http::Listener>(impl.loop, impl, how);
    return impl.listener->start();
}

void Gateway::stop() {
    if (!impl_->listener) return;
    // The agents keep what was not acknowledged; that they lose their connection here says nothing about the machines.
    impl_->loop.enqueue([sockets = impl_->sockets] { sockets->mute(); });
    impl_->listener->stop();
}

std::uint16_t Gateway::port() const { return impl_->listener ? impl_->listener->port() : 0; }

std::string Gateway::spki_pin() const { return impl_->tls.spki_pin; }

Result<std::string> Gateway::add_agent_binary(const std::string& path) { return impl_->binaries.add(path); }

void Gateway::send(const MachineId& machine, const agent_protocol::ToAgent& message) {
    if (!impl_->sockets->connected(machine)) return;
    auto text = [&] {
        const auto* lease = std::get_if<ap::Lease>(&message);
        if (lease == nullptr) return ap::encode(message);
        // What the job's former attempts left of its quota: the agent itself then keeps head and tail of its output, and no
        // line that says why an attempt failed is dropped here.
        auto bounded = *lease;
        bounded.log_bytes_max = std::min(bounded.log_bytes_max, impl_->logs.room(JobId{lease->job}));
        return ap::encode(ap::ToAgent{std::move(bounded)});
    }();
    impl_->loop.enqueue([sockets = impl_->sockets, machine, text = std::move(text)] { sockets->send(machine, text); });
}

void Gateway::close(const MachineId& machine) {
    impl_->sessions.close(machine);
    impl_->loop.enqueue([sockets = impl_->sockets, machine] { sockets->close(machine, "the session of this machine is over"); });
    impl_->mark_lost_log(machine);
}

bool Gateway::connected(const MachineId& machine) const { return impl_->sockets->connected(machine); }

int Gateway::connected_count() const { return impl_->sockets->count(); }

}  // namespace gf
