#include "daemon/service.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>
#include <systemd/sd-daemon.h>

#include "agent/bootstrap.hpp"
#include "checkpoints/file_store.hpp"
#include "config/job_spec_parser.hpp"
#include "config/shipped.hpp"
#include "daemon/api/estimate.hpp"
#include "daemon/api/server.hpp"
#include "daemon/data_dir.hpp"
#include "daemon/gateway/gateway.hpp"
#include "daemon/http/tls.hpp"
#include "daemon/log.hpp"
#include "daemon/market/recorder.hpp"
#include "daemon/retention.hpp"
#include "daemon/runtime/runtime.hpp"
#include "daemon/ssh/reach.hpp"
#include "daemon/ssh/tunnels.hpp"
#include "daemon/secrets/sealing.hpp"
#include "daemon/self_checks.hpp"
#include "model/ascii.hpp"
#include "providers/registry.hpp"
#include "scheduler/gpu_names.hpp"

namespace gf {
namespace {

/// The file that `key` of the configuration names, or what is shipped. Errors name key and file.
Result<std::string> table_text(std::string_view key, const std::string& path, std::string_view shipped) {
    if (path.empty()) return std::string(shipped);
    auto text = read_whole_file(path);
    if (!text) {
        text.error().message = path + " " + text.error().message;
        text.error().field = key;
    }
    return text;
}

/// What the REST face is called beside loopback names and the address in `listen`.
std::vector<std::string> names_of_rest(const Settings& s) {
    auto names = s.allowed_hosts;
    if (!s.advertise_url.empty()) names.push_back(host_in_url(s.advertise_url));
    char machine[256] = "";
    if (!is_loopback_host(s.listen.host) && ::gethostname(machine, sizeof machine - 1) == 0) names.push_back(ascii_lower(machine));
    return names;
}

CoreSettings core_settings(const Settings& s, const std::string& install, double time_scale) {
    CoreSettings out;
    out.install = install;
    const TimingSettings& t = s.timing;
    out.sweep = t.sweep;
    out.offers = t.offers;
    out.market_every = s.history.every;
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
    out.provider_quotas = s.provider_quotas;
    out.project_weights = s.project_weights;
    out.orphans = s.orphans;
    out.cuda_probe_required = s.cuda_probe == CudaProbePolicy::required;
    out.cuda_probe_off = s.cuda_probe == CudaProbePolicy::off;
    out.time_scale = time_scale;
    return out;
}

constexpr int kMachinesPage = 1000;

std::string market_metrics(const MarketRecorder::Counters& c) {
    const auto counter = [](const std::string& name, const std::string& help, std::int64_t value) {
        return "# HELP " + name + " " + help + "\n# TYPE " + name + " counter\n" + name + " " + std::to_string(value) + "\n";
    };
    return counter("gpuferry_market_looks_total", "Looks at markets that were recorded.", c.looks) +
           counter("gpuferry_market_looks_dropped_total", "Looks at markets that could not be recorded.", c.dropped) +
           counter("gpuferry_market_changes_total", "Changes of the market that were recorded.", c.changes);
}

/// As Prometheus names it. Nobody else but root may count them (daemon/main.cpp).
std::string open_descriptors() {
    std::error_code failed;
    std::int64_t count = -1;  // the folder that is being read is one itself
    for (std::filesystem::directory_iterator it("/proc/self/fd", failed), end; !failed && it != end; it.increment(failed)) ++count;
    if (failed) return {};
    return "# HELP process_open_fds Number of open file descriptors.\n# TYPE process_open_fds gauge\nprocess_open_fds " + std::to_string(count) + "\n";
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
    std::optional<CardSpeeds> card_speeds;
    std::unique_ptr<ScaledClock> clock;
    std::unique_ptr<HttpClient> provider_http;
    std::unique_ptr<Store> store;
    std::unique_ptr<checkpoints::FileStore> checkpoint_store;
    std::unique_ptr<MarketRecorder> market;
    std::unique_ptr<http::Loop> loop;
    std::unique_ptr<Runtime> runtime;
    std::unique_ptr<Gateway> gateway;
    std::unique_ptr<ApiServer> api;
    Secret install_key;
    std::unique_ptr<SecretSeal> seal;  // of users' secrets; the runtime and the API use it
    /// Our own agents, by the architecture as offers name it.
    struct OwnAgent {
        std::string path, sha256;
    };
    std::map<std::string, OwnAgent, std::less<>> agents;
    std::vector<std::string> provider_names;
    std::map<std::string, Way> ways;        // by provider
    std::map<std::string, bool> whole_vms;  // by provider: its machines take a host key of ours
    std::string install_name;
    std::unique_ptr<ssh::Tunnels> tunnels;  // uses nearly all above

    Result<void> open_parts();
    Result<void> open_listeners();
    Result<void> write_ports();
    Result<void> complete_launch(LaunchRequest& request, const MachineId& machine);
    std::map<std::string, std::string> agent_env(const MachineId& machine) const;
    void find_ways(const std::vector<std::unique_ptr<Provider>>& providers);
    Result<void> open_tunnels();
    void find_agents();
    Result<void> keep_agents();
    void free_later(const JobId& job);
    void open_market();
    HeldKeys held_keys() const;
    std::vector<CheckLine> check_own_place() const;
    std::shared_ptr<const JobSpec> parse_spec(const std::string& text, bool yaml) const;
    std::string local_url() const { return "http://127.0.0.1:" + std::to_string(gateway->port()); }
};

std::shared_ptr<const JobSpec> Service::Impl::parse_spec(const std::string& spec_text, bool yaml) const {
    const SpecContext context{.resolve_gpu = [this](std::string_view name) {
        GpuNames::Typed typed = gpus->typed(name);
        return GpuResolution{std::move(typed.canonical), std::move(typed.suggestions)};
    }, .resolve_estimate = api::resolve_estimate};
    auto spec = parse_job_spec(spec_text, yaml ? SpecFormat::yaml : SpecFormat::json, context);
    if (!spec) {
        log::error("spec.unreadable", {{"error", spec.error().message}});
        return nullptr;
    }
    return std::make_shared<const JobSpec>(*std::move(spec));
}

std::map<std::string, std::string> Service::Impl::agent_env(const MachineId& machine) const {
    return {{"GPUFERRY_MACHINE", machine_tag(install_name, machine.get())},
            {"GPUFERRY_ENROL", enrol_token(install_key, machine)},
            {"GPUFERRY_PIN", gateway->spki_pin()}};
}

void Service::Impl::find_ways(const std::vector<std::unique_ptr<Provider>>& providers) {
    const Settings& s = options.settings;
    const std::map<std::string, std::string> apis{{"runpod", s.providers.runpod.api_url}, {"vastai", s.providers.vastai.api_url},
                                                  {"lambda", s.providers.lambda.api_url}, {"vultr", s.providers.vultr.api_url}};
    for (const auto& provider : providers) {
        const std::string name = provider->name().get();
        const auto url = apis.find(name);
        const Capabilities able = provider->capabilities();
        ways[name] = way_to(s.reach, s.advertise_url, able, url == apis.end() ? std::string() : url->second);
        whole_vms[name] = able.vm;
    }
}

/// The agent for this architecture is a must; that for arm64 is named after it and lies beside it where it was built.
void Service::Impl::find_agents() {
    std::string path = options.agent_path;
    if (path.empty()) {
        std::error_code failed;
        path = (std::filesystem::read_symlink("/proc/self/exe", failed).parent_path() / "gpuferry-agent").string();
    }
    agents["amd64"].path = path;
    std::error_code absent;
    if (std::filesystem::exists(path + "-arm64", absent)) agents["arm64"].path = path + "-arm64";
}

Result<void> Service::Impl::keep_agents() {
    for (auto& [arch, agent] : agents) {
        auto binary = gateway->add_agent_binary(agent.path);
        if (!binary) return fail(ErrorKind::io, "no agent to send to " + arch + " machines: " + binary.error().message);
        agent.sha256 = *binary;
    }
    return {};
}

Result<void> Service::Impl::open_tunnels() {
    ssh::TunnelsOptions wanted;
    wanted.data_dir = options.settings.data_dir;
    wanted.comment = "gpuferry-" + install_name;
    wanted.target = [this] { return own_gateway(options.settings.agent_listen, gateway->port()); };
    wanted.agent_for = [this](std::string_view machine) -> Result<ssh::AgentBinary> {  // as `uname -m` says it
        const auto own = agents.find(machine == "x86_64" ? "amd64" : machine == "aarch64" ? "arm64" : machine);
        if (own == agents.end()) return fail(ErrorKind::not_found, "there is no agent for " + std::string(machine));
        const std::string& agent_sha256 = own->second.sha256;
        const std::string kept = options.settings.data_dir + "/agents/" + agent_sha256;
        std::error_code absent;
        const std::string path = std::filesystem::exists(kept, absent) ? kept : own->second.path;
        const auto size = std::filesystem::file_size(path, absent);
        if (absent) return fail(ErrorKind::io, "the agent's binary " + path + " cannot be read: " + absent.message());
        return ssh::AgentBinary{.path = path, .sha256 = agent_sha256, .size = static_cast<std::int64_t>(size)};
    };
    wanted.tag_of = [this](const MachineId& machine) { return MachineTag{machine_tag(install_name, machine.get())}; };
    wanted.agent_env = [this](const MachineId& machine) { return agent_env(machine); };
    wanted.agent_connected = [this](const MachineId& machine) { return gateway->connected(machine); };
    wanted.tell = [this](const ssh::TunnelNews& news) {
        runtime->post(TunnelChanged{.machine = news.machine, .up = news.up, .detail = news.reason + ": " + news.detail}, {});
    };
    wanted.seed = std::stoull(random_hex(8), nullptr, 16);
    for (const char* variable : {"RUNTIME_DIRECTORY", "XDG_RUNTIME_DIR"})  // systemd's
        if (const char* folder = std::getenv(variable); folder != nullptr && *folder != '\0') wanted.runtime_folders.emplace_back(folder);
    wanted.runtime_folders.push_back("/run/user/" + std::to_string(::geteuid()));
    tunnels = std::make_unique<ssh::Tunnels>(std::move(wanted));
    if (auto opened = tunnels->open_keys(); !opened) return opened;
    using Fate = ssh::MachineKeys::Fate;
    tunnels->forget_over([this](const MachineId& machine) {
        const auto row = store->reader().machine(machine);
        return !row || !*row ? Fate::unheard : (*row)->state == MachineState::gone ? Fate::over : Fate::kept;
    });
    return {};
}

Result<void> Service::Impl::complete_launch(LaunchRequest& request, const MachineId& machine) {
    const std::string& provider = request.offer.provider.get();
    const auto way = ways.find(provider);
    if (way != ways.end() && way->second == Way::tunnel) {
        // It cannot reach us: it gets keys, and we go there. Its agent and all that an agent knows come by that way.
        auto setup = tunnels->prepare(machine, whole_vms.at(provider));
        if (!setup) return fail(ErrorKind::unavailable, "nothing was rented, because there would be no way to it: " + setup.error().message);
        request.ssh = *std::move(setup);
        request.env = {{"GPUFERRY_MACHINE", request.tag.get()}};
        request.start_script = ":";
        return {};
    }
    const bool local = provider == "local";
    const std::string url = local || options.settings.advertise_url.empty() ? local_url() : options.settings.advertise_url;
    request.env = {{"GPUFERRY_URL", url},
                   {"GPUFERRY_MACHINE", request.tag.get()},
                   {"GPUFERRY_ENROL", enrol_token(install_key, machine)},
                   {"GPUFERRY_PIN", gateway->spki_pin()}};
    // One script is for one architecture: the offer's, which is what the machine is checked against later.
    const auto agent = agents.find(request.offer.arch);
    if (agent == agents.end()) return fail(ErrorKind::unavailable, "there is no agent for " + request.offer.arch);
    request.start_script = start_script({.url = url, .sha256 = agent->second.sha256});
    return {};
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

void Service::Impl::open_market() {
    market = std::make_unique<MarketRecorder>(RecorderOptions{.path = options.settings.data_dir + "/history.db",
                                                              .policy = {.raw = options.settings.history.keep},
                                                              .now = [this] { return clock->now(); },
                                                              .held = [this] { return held_keys(); }});
    market->start();
}

HeldKeys Service::Impl::held_keys() const {
    HeldKeys held;
    auto reader = store->open_reader();
    for (std::string cursor; reader;) {
        const auto page = (*reader)->machines(false, cursor, kMachinesPage);
        if (!page) break;  // a look that takes our own machine for gone is corrected by the next
        for (const MachineRecord& machine : *page) {
            const bool ours = machine.state != MachineState::interrupted && machine.state != MachineState::lost;
            if (const auto key = market_key(machine.offer); key && machine.offer.exclusive && ours) held.insert(*key);
        }
        if (static_cast<int>(page->size()) < kMachinesPage) break;
        cursor = page->back().id.get();
    }
    return held;
}

std::vector<CheckLine> Service::Impl::check_own_place() const {
    const Settings& s = options.settings;
    const ProvidersSettings& p = s.providers;
    SelfCheckSettings checks{.data_dir = s.data_dir, .advertise_url = s.advertise_url, .pin = gateway->spki_pin(),
                             .agent_sha256 = agents.at("amd64").sha256, .time_zone = s.timezone, .apis = {},
                             .wall = [] { return std::chrono::time_point_cast<Millis>(std::chrono::system_clock::now()); },
                             .ssh = tunnels->program()};
    for (const auto& [name, cloud] : std::initializer_list<std::pair<const char*, const CloudSettings*>>{
             {"runpod", &p.runpod}, {"vastai", &p.vastai}, {"lambda", &p.lambda}, {"vultr", &p.vultr}})
        if (cloud->enabled()) checks.apis.push_back({name, cloud->api_url});
    for (const auto& place : checks.apis) {
        const auto way = ways.find(place.provider);
        const auto known = way == ways.end() ? Way::none : way->second;
        (known == Way::dial ? checks.dialling : known == Way::tunnel ? checks.by_ssh : checks.unreached).push_back(place.provider);
    }
    return self_checks(checks);
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
    install_name = *install;
    log::redact("install_key", install_key);
    seal = std::make_unique<SecretSeal>(install_key);
    log::redact("runpod.api_key", settings.providers.runpod.api_key);
    log::redact("vastai.api_key", settings.providers.vastai.api_key);
    log::redact("lambda.api_key", settings.providers.lambda.api_key);
    log::redact("vultr.api_key", settings.providers.vultr.api_key);

    const auto cards = table_text("gpus.table", settings.gpu_table, shipped_gpus_csv());
    if (!cards) return fail(cards.error());
    const auto aliases = table_text("gpus.aliases", settings.gpu_aliases, shipped_aliases_csv());
    if (!aliases) return fail(aliases.error());
    // A table of the user's own may be short: what providers call other cards is then nobody's name.
    auto names = GpuNames::parse(*cards, *aliases, settings.gpu_aliases.empty());
    if (!names) {
        auto error = std::move(names).error();
        error.line = 0;  // in the message, with the table that it belongs to
        if (!settings.gpu_table.empty()) error.message += "; gpus.table is " + settings.gpu_table;
        if (!settings.gpu_aliases.empty()) error.message += "; gpus.aliases is " + settings.gpu_aliases;
        return fail(std::move(error));
    }
    gpus.emplace(std::move(*names));
    auto speeds = CardSpeeds::parse(*gpus, shipped_throughput_csv());
    if (!speeds) {
        // The user's own table lacks cards that were measured: the shipped one has the speeds of those that both know.
        log::warn("service.shipped_card_speeds", {{"gpus.table", settings.gpu_table}, {"error", speeds.error().message}});
        const auto shipped = GpuNames::parse(shipped_gpus_csv(), shipped_aliases_csv());
        if (!shipped) return fail(shipped.error());
        speeds = CardSpeeds::parse(*shipped, shipped_throughput_csv());
        if (!speeds) return fail(speeds.error());
    }
    card_speeds.emplace(std::move(*speeds));
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

    find_agents();
    const GpuLookup lookup = [this](std::string_view provider, std::string_view name, std::optional<Bytes> memory) {
        return gpus->canonical(provider, name, memory);
    };
    const ProvidersSettings& wanted = settings.providers;
    auto made = make_providers(
        ProviderSetup{.runpod = {.api_key = wanted.runpod.api_key, .api_url = wanted.runpod.api_url,
                                 .graphql_url = wanted.runpod.graphql_url, .clouds = wanted.runpod.clouds, .spot = wanted.runpod.spot},
                      .vastai = {.api_key = wanted.vastai.api_key, .api_url = wanted.vastai.api_url},
                      .lambda = {.api_key = wanted.lambda.api_key, .api_url = wanted.lambda.api_url},
                      .vultr = {.api_key = wanted.vultr.api_key, .api_url = wanted.vultr.api_url},
                      .local = {.enabled = wanted.local.enabled, .electricity = wanted.local.electricity, .agent = agents.at("amd64").path},
                      .install = *install,
                      .data_dir = settings.data_dir,
                      .version = GF_VERSION,
                      .seed = std::stoull(random_hex(8), nullptr, 16)},
        *clock, lookup);
    if (!made) return fail(std::move(made).error());
    provider_http = std::move(made->http);
    for (const auto& p : made->providers) provider_names.push_back(p->name().get());
    find_ways(made->providers);
    if (auto ready = open_tunnels(); !ready) return ready;

    RuntimeOptions runtime_options;
    runtime_options.core = core_settings(settings, *install, options.time_scale);
    runtime_options.core.agent_archs.clear();
    for (const auto& [arch, agent] : agents) runtime_options.core.agent_archs.insert(arch);
    runtime_options.core.gpus = &*gpus;
    if (card_speeds) runtime_options.core.card_speeds = &*card_speeds;
    for (const auto& [name, way] : ways)
        if (way != Way::none) runtime_options.core.reached_providers.insert(name);
    runtime_options.seed = std::stoull(random_hex(8), nullptr, 16);
    runtime_options.data_dir = settings.data_dir;
    runtime_options.parse_spec = [this](const std::string& t, bool yaml) { return parse_spec(t, yaml); };
    runtime_options.complete_launch = [this](LaunchRequest& r, const MachineId& m) { return complete_launch(r, m); };
    runtime_options.open_tunnel = [this](const OpenTunnel& e) {
        // The core asks for every machine with an sshd; those that dial us were given no keys.
        const auto way = ways.find(e.provider.get());
        if (tunnels->prepared(e.machine) || (way != ways.end() && way->second == Way::tunnel)) tunnels->open(e.machine, e.to);
    };
    runtime_options.close_tunnel = [this](const MachineId& m) { tunnels->close(m); };
    runtime_options.open_secret = [this](const SecretRecord& row) { return seal->open(row.name, row.sealed); };
    runtime_options.events_committed = [this](std::int64_t seq) {
        if (api) api->events_committed(seq);
    };
    runtime_options.generation_committed = [this](const JobId& job) { free_later(job); };
    runtime_options.self_checks = [this] { return check_own_place(); };
    runtime_options.market_seen = [this](MarketLook look) { market->seen(std::move(look)); };
    runtime_options.alive = [] { ::sd_notify(0, "WATCHDOG=1"); };
    open_market();
    runtime = std::make_unique<Runtime>(*store, *clock, std::move(made->providers), std::move(runtime_options));
    if (auto loaded = runtime->load(); !loaded) return fail(std::move(loaded).error());

    // One certificate for both listeners; the gateway reads the same files.
    auto called = names_of_rest(settings);
    if (settings.listen.host != "0.0.0.0" && settings.listen.host != "::") called.push_back(settings.listen.host);
    const auto tls = settings.tls_cert.empty() ? http::load_or_make_tls(settings.data_dir + "/tls", called)
                                               : http::load_tls(settings.tls_cert, settings.tls_key);
    if (!tls) return fail(tls.error());
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
    if (auto kept = keep_agents(); !kept) return kept;

    ServerOptions server;
    server.listen = text(settings.listen);
    server.socket_path = settings.data_dir + "/gpuferry.sock";
    server.data_dir = settings.data_dir;
    server.version = GF_VERSION;
    server.allowed_hosts = names_of_rest(settings);
    server.tls = tls->identity;
    server.dead_man = settings.timing.dead_man;
    server.advertise_url = settings.advertise_url;
    server.open_reader = [this] { return store->open_reader(); };
    server.commit_counters = [this] {
        const auto c = runtime->counters();
        return CommitCounters{.commits = c.commits, .commits_failed = c.commits_failed, .events = c.events, .micros = c.micros};
    };
    server.extra_metrics = [this] { return open_descriptors() + market_metrics(market->counters()); };
    server.read_market = [this](const MarketQuery& query) { return read_market(options.settings.data_dir + "/history.db", query); };
    server.seal = seal.get();
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
    // The core with the store's writer first: what waits for it is answered while its connection is still open, and what comes
    // after is told that the daemon is stopping. Then the doors, then the threads that serve sockets.
    impl_->runtime->stop();
    impl_->market->stop();
    if (impl_->tunnels) impl_->tunnels->stop();
    if (impl_->api) impl_->api->stop();
    if (impl_->gateway) impl_->gateway->stop();
    if (impl_->loop) impl_->loop->stop();
    impl_->api.reset();
    impl_->tunnels.reset();
    impl_->gateway.reset();
    impl_->runtime.reset();
    impl_->loop.reset();
    impl_->market.reset();
    impl_->store.reset();
}

/// The example that fits what was found: the spot one where there is a spot market, one that needs no cloud where jobs can
/// run here, else one without spot.
static std::string_view first_example(const Settings& s, bool vastai) {
    if (vastai) return "examples/train-tiny/job.yaml";
    if (s.providers.local.enabled) return "examples/train-tiny/local.yaml";
    return "examples/train-tiny/on-demand.yaml";
}

std::string Service::greeting() const {
    const Settings& s = impl_->options.settings;
    const auto reached = [this](const char* name) {
        const auto way = impl_->ways.find(name);
        return way != impl_->ways.end() && way->second != Way::none;
    };
    std::string found = "providers:";
    for (const std::string& name : impl_->provider_names) found += " " + name;
    const ProvidersSettings& p = s.providers;
    if (!p.runpod.enabled() && !p.vastai.enabled() && !p.lambda.enabled() && !p.vultr.enabled())
        found += " (no cloud keys: set RUNPOD_API_KEY, VAST_API_KEY, LAMBDA_API_KEY or VULTR_API_KEY)";
    else if (std::ranges::none_of(impl_->ways, [](const auto& way) { return way.first != "local" && way.second != Way::none; }))
        found += " (" + std::string(s.advertise_url.empty() ? "no advertise_url" : "advertise_url is a private address") +
                 ": rented machines could not reach this daemon, so only local ones are used)";
    const auto scheme = is_loopback_host(s.listen.host) ? "http://" : "https://";
    const auto address = text(ListenAddress{.host = s.listen.host, .port = impl_->api->port()});
    return found + "\nlistening: " + s.data_dir + "/gpuferry.sock, " + scheme + address + ", agents on port " +
           std::to_string(impl_->gateway->port()) + "\nnext: gpuferry submit " + std::string(first_example(s, reached("vastai"))) + "   (then: gpuferry ps, gpuferry logs --follow JOB)\n";
}

}  // namespace gf
