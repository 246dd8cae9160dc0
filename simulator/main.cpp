// gpuferry-sim: providers of GPU machines on loopback. See simulator/README.md.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "simulator/keeper.hpp"
#include "simulator/simulator.hpp"

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct CommandLine {
    gf::sim::SimulatorOptions options;
    std::string dir;
    std::string ports_file;
    std::string market_file;
    std::string settings_file;
    std::string image_root;
    std::string profile{"observed"};
    std::int64_t origin_ms{0};
    double balance{100};
    bool vastai_rate_limits{true};
    bool lambda_rate_limits{true};
    std::string vm_docker;
    std::string faults_file;
    int runpod_per_minute{0};
};

void describe(CLI::App& app, CommandLine& line) {
    auto& o = line.options;
    app.add_option("--listen", o.listen, "address of all listeners")->capture_default_str();
    app.add_option("--runpod-port", o.runpod_port, "0 = a free port")->capture_default_str();
    app.add_option("--vastai-port", o.vastai_port, "0 = a free port")->capture_default_str();
    app.add_option("--lambda-port", o.lambda_port, "0 = a free port")->capture_default_str();
    app.add_option("--vultr-port", o.vultr_port, "0 = a free port")->capture_default_str();
    app.add_option("--admin-port", o.admin_port, "0 = a free port")->capture_default_str();
    app.add_option("--dir", line.dir,
                   "folder for machines and logs (default: a new one in /tmp, removed at the end)");
    app.add_option("--ports-file", line.ports_file, "JSON file written when all listeners are up");
    app.add_option("--market", line.market_file,
                   "JSON file with hosts, prices and images (default: built in)");
    app.add_option("--settings", line.settings_file, "JSON file with settings (as POST /_sim/settings)");
    app.add_option("--faults", line.faults_file, "JSON file with a fault script (as POST /_sim/faults)");
    app.add_option("--time-scale", o.scale, "scaled seconds per real second")
        ->check(CLI::Range(0.001, 1e6))
        ->capture_default_str();
    app.add_option("--time-origin", line.origin_ms,
                   "scaled time runs from this Unix time in ms (default: now)");
    app.add_option("--runpod-key", o.settings.runpod_key, "the only RunPod key accepted (default: any)");
    app.add_option("--vastai-key", o.settings.vastai_key, "the only Vast.ai key accepted (default: any)");
    app.add_option("--lambda-key", o.settings.lambda_key, "the only Lambda key accepted (default: any)");
    app.add_option("--vultr-key", o.settings.vultr_key, "the only Vultr key accepted (default: any)");
    app.add_option("--balance", line.balance, "dollars on each account")->capture_default_str();
    app.add_option("--image-root", line.image_root,
                   "folder with a root file system that every image has (default: the host's /usr)");
    app.add_option("--profile", line.profile, "which reading of the APIs is played")
        ->check(CLI::IsMember({"observed", "documented"}))
        ->capture_default_str();
    app.add_option("--seed", o.seed, "for ids, jitter and random faults")->capture_default_str();
    app.add_option("--vastai-rate-limits", line.vastai_rate_limits, "least intervals between calls")
        ->capture_default_str();
    app.add_option("--lambda-rate-limits", line.lambda_rate_limits, "one call a second, one launch in twelve")
        ->capture_default_str();
    app.add_option("--vm-docker", line.vm_docker, "file to show as docker in virtual machines (default: none)");
    app.add_option("--runpod-per-minute", line.runpod_per_minute, "RunPod's minute quota");
    app.add_flag("!--no-processes", o.processes, "model the machines, start no process");
    app.add_flag("!--no-isolation", o.isolate, "machines without namespaces");
}

std::string read_text(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("cannot read " + path);
    return {std::istreambuf_iterator<char>(file), {}};
}

json read_json(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot read " + path);
    auto parsed = json::parse(file, nullptr, false, true);
    if (parsed.is_discarded()) throw std::runtime_error(path + " is not JSON");
    return parsed;
}

void complete(CommandLine& line) {
    auto& o = line.options;
    const auto runpod_key = o.settings.runpod_key;
    const auto vastai_key = o.settings.vastai_key;
    const auto lambda_key = o.settings.lambda_key;
    const auto vultr_key = o.settings.vultr_key;
    o.settings = gf::sim::Settings::of_profile(line.profile == "observed");
    o.settings.runpod_key = runpod_key;
    o.settings.vastai_key = vastai_key;
    o.settings.lambda_key = lambda_key;
    o.settings.vultr_key = vultr_key;
    o.settings.lambda_limits = line.lambda_rate_limits;
    o.settings.vastai_intervals = line.vastai_rate_limits;
    if (line.runpod_per_minute > 0) o.settings.runpod_per_minute = line.runpod_per_minute;
    o.settings.runpod_balance = o.settings.vastai_balance = o.settings.vultr_balance =
        std::llround(line.balance * 1e6);
    if (!line.settings_file.empty()) {
        const auto applied = gf::sim::apply_settings(o.settings, read_json(line.settings_file));
        if (!applied) throw std::runtime_error(line.settings_file + ": " + applied.error().message);
    }
    o.market = gf::sim::default_market();
    if (!line.market_file.empty()) {
        const auto applied = gf::sim::apply_market(o.market, read_json(line.market_file));
        if (!applied) throw std::runtime_error(line.market_file + ": " + applied.error().message);
    }
    if (!line.faults_file.empty()) o.faults = read_text(line.faults_file);
    if (!line.vm_docker.empty()) o.vm_docker = read_text(line.vm_docker);
    o.origin = gf::instant_of(line.origin_ms);
    o.image_root = line.image_root;
    if (!o.image_root.empty() && !fs::is_directory(o.image_root))
        throw std::runtime_error("no folder " + line.image_root);
    o.keeper = fs::read_symlink("/proc/self/exe");
}

/// Written beside and renamed: a reader sees the whole file or none.
void write_ports(const std::string& path, const gf::sim::Simulator& simulator) {
    const json ports{{"runpod", simulator.runpod_port()},
                     {"vastai", simulator.vastai_port()},
                     {"lambda", simulator.lambda_port()},
                     {"vultr", simulator.vultr_port()},
                     {"admin", simulator.admin_port()},
                     {"pid", ::getpid()}};
    const auto temporary = path + ".new";
    std::ofstream out(temporary, std::ios::trunc);
    out << ports.dump() << "\n";
    out.close();
    if (!out) throw std::runtime_error("cannot write " + temporary);
    fs::rename(temporary, path);
}

int run(CommandLine& line) {
    complete(line);
    const bool own_dir = line.dir.empty();
    if (own_dir) {
        std::string name = (fs::temp_directory_path() / "gpuferry-sim-XXXXXX").string();
        if (::mkdtemp(name.data()) == nullptr)
            throw std::runtime_error("cannot make a folder in " + fs::temp_directory_path().string());
        line.dir = name;
    }
    fs::create_directories(line.dir);
    line.options.dir = fs::canonical(line.dir);
    if (!line.options.image_root.empty()) line.options.image_root = fs::canonical(line.options.image_root);

    // Blocked before any thread starts, so that only the wait below sees them.
    sigset_t ends;
    sigemptyset(&ends);
    for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&ends, number);
    ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);
    ::signal(SIGPIPE, SIG_IGN);

    auto simulator = gf::sim::Simulator::start(line.options);
    if (!simulator) throw std::runtime_error(simulator.error().message);
    fmt::print(
        "gpuferry-sim: runpod http://{0}:{1}  vastai http://{0}:{2}  lambda http://{0}:{3}  vultr http://{0}:{4}  "
        "admin http://{0}:{5}/_sim/state\n",
        line.options.listen, (*simulator)->runpod_port(), (*simulator)->vastai_port(), (*simulator)->lambda_port(),
        (*simulator)->vultr_port(), (*simulator)->admin_port());
    std::fflush(stdout);
    if (!line.ports_file.empty()) write_ports(line.ports_file, **simulator);
    int got = 0;
    ::sigwait(&ends, &got);
    simulator->reset();
    if (own_dir) fs::remove_all(line.dir);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1 && std::strcmp(argv[1], gf::sim::kKeeperArgument) == 0) return gf::sim::keeper_main();
    CommandLine line;
    CLI::App app{"Simulated RunPod, Vast.ai, Lambda and Vultr with real local processes as machines"};
    describe(app, line);
    CLI11_PARSE(app, argc, argv);
    try {
        return run(line);
    } catch (const std::exception& e) {
        std::cerr << "gpuferry-sim: " << e.what() << "\n";
        return 1;
    }
}
