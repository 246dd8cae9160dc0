#include "daemon/service.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>
#include <systemd/sd-daemon.h>

#include "agent/bootstrap.hpp"
#include "checkpoints/file_store.hpp"
#include "config/job_spec_parser.hpp"
#include "config/shipped.hpp"
#include "daemon/api/server.hpp"
#include "daemon/data_dir.hpp"
#include "daemon/gateway/gateway.hpp"
#include "daemon/log.hpp"
#include "daemon/retention.hpp"
#include "daemon/runtime/runtime.hpp"
#include "providers/registry.hpp"
#include "scheduler/gpu_names.hpp"

namespace gf {
namespace {

std::string read_file(const std::string& path, std::string_view otherwise) {
    if (path.empty()) return std::string(otherwise);
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

CoreSettings core_settings(const Settings& s, const std::string& install, double time_scale) {
    CoreSettings out;
    out.install = install;
    const TimingSettings& t = s.timing;
    out.sweep = t.sweep;
    out.offers = t.offers;
    out.settle = {{"runpod", t.settle.runpod}, {"vastai", t.settle.vastai}, {"lambda", t.settle.lambda},
                  {"vultr", t.settle.vultr}, {"local", Seconds{1}}};
    out.settle_alone = t.settle_alone;
    out.unknown_move = t.unknown_move;
    out.patience = t.patience;
    out.start = t.start;
    out.machine_check = t.machine_check;
    out.heartbeat = t.heartbeat;
    out.silence = t.silence;
    out.long_silence = t.long_silence;
    out.cooldown = t.cooldown;
    out.backoff_max = t.backoff_max;
    out.destroy_alert = t.destroy_alert;
    out.dead_man = t.dead_man;
    out.balance = t.balance;
    out.idle_machine = s.idle_machine;
    if (s.machines_max) out.machines_max = *s.machines_max;
    else out.machines_max = 1'000'000;
    out.usd_per_hour_max = s.rate_max;
    out.orphans = s.orphans;
    out.cloud_reachable = !s.advertise_url.empty();
    out.cuda_probe_required = s.cuda_probe == CudaProbePolicy::required;
    out.cuda_probe_off = s.cuda_probe == CudaProbePolicy::off;
    out.time_scale = time_scale;
    return out;
}

Instant scaled_origin(double scale, std::optional<std::int64_t> origin_ms) {
    const auto real = std::chrono::time_point_cast<Millis>(std::chrono::system_clock::now());
    const Instant origin = origin_ms ? instant_of(*origin_ms) : real;
    return origin + Millis{static_cast<std::int64_t>(static_cast<double>((real - origin).count()) * scale)};
}

}  // namespace

struct Service::Impl {
    explicit Impl(ServiceOptions o) : options(std::move(o)) {}

    ServiceOptions options;
    std::optional<DataDir> dir;
    std::optional<GpuNames> gpus;
    std::unique_ptr<ScaledClock> clock;
    std::unique_ptr<HttpClient> provider_http;
    std::unique_ptr<Store> store;
    std::unique_ptr<checkpoints::FileStore> checkpoint_store;
    std::unique_ptr<http::Loop> loop;
    std::unique_ptr<Runtime> runtime;
    std::unique_ptr<Gateway> gateway;
    std::unique_ptr<ApiServer> api;
    Secret install_key;
    std::string agent_sha256;
    std::vector<std::string> provider_names;

    Result<void> open_parts();
    Result<void> open_listeners();
    Result<void> write_ports();
    void complete_launch(LaunchRequest& request, const MachineId& machine);
    void free_later(const JobId& job);
    std::shared_ptr<const JobSpec> parse_spec(const std::string& text, bool yaml) const;
    std::string local_url() const { return "http://127.0.0.1:" + std::to_string(gateway->port()); }
};

std::shared_ptr<const JobSpec> Service::Impl::parse_spec(const std::string& spec_text, bool yaml) const {
    const SpecContext context{.resolve_gpu = [this](std::string_view name) {
        GpuNames::Typed typed = gpus->typed(name);
        return GpuResolution{std::move(typed.canonical), std::move(typed.suggestions)};
    }};
    auto spec = parse_job_spec(spec_text, yaml ? SpecFormat::yaml : SpecFormat::json, context);
    if (!spec) {
        log::error("spec.unreadable", {{"error", spec.error().message}});
        return nullptr;
    }
    return std::make_shared<const JobSpec>(*std::move(spec));
}

void Service::Impl::complete_launch(LaunchRequest& request, const MachineId& machine) {
    const bool local = request.offer.provider.get() == "local";
    const std::string url = local || options.settings.advertise_url.empty() ? local_url() : options.settings.advertise_url;
    request.env = {{"GPUFERRY_URL", url},
                   {"GPUFERRY_MACHINE", request.tag.get()},
                   {"GPUFERRY_ENROL", enrol_token(install_key, machine)},
                   {"GPUFERRY_PIN", gateway->spki_pin()}};
    request.start_script = start_script({.url = url, .sha256 = agent_sha256});
}

void Service::Impl::free_later(const JobId& job) {
    // File times are the kernel's and coarser than ours: a minute of room.
    const auto committed = std::chrono::time_point_cast<Millis>(std::chrono::system_clock::now()) - Seconds{60};
    loop->work([this, job, committed] {
        auto reader = store->open_reader();
        if (!reader) return;
        const auto freed = free_checkpoints(*checkpoint_store, **reader, job, committed);
        if (!freed) log::warn("checkpoints.free_failed", {{"job", job.get()}, {"error", freed.error().message}});
        else if (!freed->remove.empty())
            log::debug("checkpoints.freed", {{"job", job.get()}, {"packs", static_cast<std::int64_t>(freed->remove.size())}, {"bytes", freed->bytes}});
    });
}

Result<void> Service::Impl::open_parts() {
    const Settings& settings = options.settings;
    auto opened = DataDir::open(settings.data_dir);
    if (!opened) return fail(std::move(opened).error());
    dir.emplace(std::move(*opened));
    auto install = dir->install_id(settings.install_id);
    if (!install) return fail(std::move(install).error());
    auto key = dir->install_key();
    if (!key) return fail(std::move(key).error());
    install_key = *key;
    log::redact(install_key);
    for (const Secret& secret : {settings.providers.runpod.api_key, settings.providers.vastai.api_key,
                                 settings.providers.lambda.api_key, settings.providers.vultr.api_key})
        log::redact(secret);

    auto names = GpuNames::parse(read_file(settings.gpu_table, shipped_gpus_csv()),
                                 read_file(settings.gpu_aliases, shipped_aliases_csv()));
    if (!names) return fail(std::move(names).error());
    gpus.emplace(std::move(*names));
    auto database = open_sqlite_store(settings.data_dir + "/gpuferry.db");
    if (!database) return fail(std::move(database).error());
    store = std::move(*database);
    auto files = checkpoints::FileStore::open(settings.data_dir + "/checkpoints");
    if (!files) return fail(std::move(files).error());
    checkpoint_store = std::move(*files);

    // Time never steps back, also when the wall clock did while we were away: ids and events stay in order.
    auto live = store->load_live();
    if (!live) return fail(std::move(live).error());
    Instant begin = scaled_origin(options.time_scale, options.time_origin_ms);
    if (live->last_commit && *live->last_commit >= begin) begin = *live->last_commit + Millis{1};
    clock = std::make_unique<ScaledClock>(begin, options.time_scale);

    std::string agent = options.agent_path;
    if (agent.empty()) {
        std::error_code failed;
        agent = (std::filesystem::read_symlink("/proc/self/exe", failed).parent_path() / "gpuferry-agent").string();
    }
    const GpuLookup lookup = [this](std::string_view provider, std::string_view name, std::optional<Bytes> memory) {
        return gpus->canonical(provider, name, memory);
    };
    const ProvidersSettings& wanted = settings.providers;
    auto made = make_providers(
        ProviderSetup{.runpod = {.api_key = wanted.runpod.api_key, .api_url = wanted.runpod.api_url,
                                 .graphql_url = wanted.runpod.graphql_url, .clouds = wanted.runpod.clouds},
                      .vastai = {.api_key = wanted.vastai.api_key, .api_url = wanted.vastai.api_url},
                      .local = {.enabled = wanted.local.enabled, .electricity = wanted.local.electricity, .agent = agent},
                      .data_dir = settings.data_dir,
                      .version = GF_VERSION,
                      .seed = std::stoull(random_hex(8), nullptr, 16)},
        *clock, lookup);
    if (!made) return fail(std::move(made).error());
    provider_http = std::move(made->http);
    for (const auto& p : made->providers) provider_names.push_back(p->name().get());

    RuntimeOptions runtime_options;
    runtime_options.core = core_settings(settings, *install, options.time_scale);
    runtime_options.core.gpus = &*gpus;
    runtime_options.seed = std::stoull(random_hex(8), nullptr, 16);
    runtime_options.data_dir = settings.data_dir;
    runtime_options.parse_spec = [this](const std::string& t, bool yaml) { return parse_spec(t, yaml); };
    runtime_options.complete_launch = [this](LaunchRequest& r, const MachineId& m) { complete_launch(r, m); };
    runtime_options.events_committed = [this](std::int64_t seq) {
        if (api) api->events_committed(seq);
    };
    runtime_options.generation_committed = [this](const JobId& job) { free_later(job); };
    runtime_options.alive = [] { ::sd_notify(0, "WATCHDOG=1"); };
    runtime = std::make_unique<Runtime>(*store, *clock, std::move(made->providers), std::move(runtime_options));
    if (auto loaded = runtime->load(); !loaded) return fail(std::move(loaded).error());

    loop = std::make_unique<http::Loop>();
    GatewayOptions gateway_options;
    gateway_options.listen = text(settings.agent_listen);
    gateway_options.data_dir = settings.data_dir;
    gateway_options.tls_cert = settings.tls_cert;
    gateway_options.tls_key = settings.tls_key;
    gateway_options.install_key = install_key;
    gateway_options.machine_lookup = [this](const std::string& tag) { return runtime->gate(tag); };
    gateway_options.open_reader = [this] { return store->open_reader(); };
    gateway_options.log_grew = [this](const JobId& job) {
        if (api) api->log_grew(job);
    };
    gateway_options.store = checkpoint_store.get();
    gateway = std::make_unique<Gateway>(*loop, *runtime, std::move(gateway_options));
    auto binary = gateway->add_agent_binary(agent);
    if (!binary) return fail(ErrorKind::io, "no agent to send to machines: " + binary.error().message);
    agent_sha256 = *binary;

    ServerOptions server;
    server.listen = text(settings.listen);
    server.socket_path = settings.data_dir + "/gpuferry.sock";
    server.data_dir = settings.data_dir;
    server.version = GF_VERSION;
    server.advertise_url = settings.advertise_url;
    server.open_reader = [this] { return store->open_reader(); };
    server.commit_counters = [this] {
        const auto c = runtime->counters();
        return CommitCounters{.commits = c.commits, .commits_failed = c.commits_failed, .events = c.events, .micros = c.micros};
    };
    server.gpus = &*gpus;
    server.store = checkpoint_store.get();
    api = std::make_unique<ApiServer>(*loop, *runtime, std::move(server));
    return {};
}

Result<void> Service::Impl::open_listeners() {
    loop->start();
    runtime->set_gateway(gateway.get());
    if (auto started = gateway->start(); !started) return started;
    // The core runs before the doors of the API open: the first answer is already a rebuilt one.
    runtime->start();
    if (auto started = api->start(); !started) return started;
    return write_ports();
}

Result<void> Service::Impl::write_ports() {
    if (options.ports_file.empty()) return {};
    const std::string beside = options.ports_file + ".new";
    {
        std::ofstream out(beside);
        out << nlohmann::json{{"api", api->port()}, {"agent", gateway->port()}, {"socket", options.settings.data_dir + "/gpuferry.sock"}, {"pid", ::getpid()}}
            << "\n";
        if (!out) return fail(ErrorKind::io, "cannot write " + beside);
    }
    if (::rename(beside.c_str(), options.ports_file.c_str()) != 0) return fail(ErrorKind::io, "cannot write " + options.ports_file);
    return {};
}

Service::Service(ServiceOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Service::~Service() { stop(); }

Result<void> Service::start() {
    if (auto opened = impl_->open_parts(); !opened) return opened;
    if (auto listening = impl_->open_listeners(); !listening) return listening;
    ::sd_notify(0, "READY=1");
    return {};
}

void Service::stop() {
    if (!impl_->runtime) return;
    ::sd_notify(0, "STOPPING=1");
    // Doors first, then the core with the store's writer, then the threads that serve sockets.
    if (impl_->api) impl_->api->stop();
    if (impl_->gateway) impl_->gateway->stop();
    impl_->runtime->stop();
    if (impl_->loop) impl_->loop->stop();
    impl_->api.reset();
    impl_->gateway.reset();
    impl_->runtime.reset();
    impl_->loop.reset();
    impl_->store.reset();
}

std::string Service::greeting() const {
    const Settings& s = impl_->options.settings;
    std::string found = "providers:";
    for (const std::string& name : impl_->provider_names) found += " " + name;
    if (!s.providers.runpod.enabled() && !s.providers.vastai.enabled())
        found += " (no cloud keys: set RUNPOD_API_KEY or VAST_API_KEY)";
    else if (s.advertise_url.empty())
        found += " (no advertise_url: rented machines could not reach this daemon, so only local ones are used)";
    return found + "\nlistening: " + s.data_dir + "/gpuferry.sock, http://" + s.listen.host + ":" +
           std::to_string(impl_->api->port()) + ", agents on port " + std::to_string(impl_->gateway->port()) +
           "\nnext: gpuferry submit examples/train-tiny/job.yaml   (then: gpuferry ps, gpuferry logs --follow JOB)\n";
}

}  // namespace gf
