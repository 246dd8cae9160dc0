#include <CLI/CLI.hpp>
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <iostream>
#include <tuple>

#include "daemon/data_dir.hpp"
#include "daemon/log.hpp"
#include "daemon/service.hpp"

namespace {

std::optional<std::string> environment(std::string_view name) {
    const char* value = std::getenv(std::string(name).c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
}

int refuse(const std::string& what, const gf::Error& error) {
    std::cerr << "gpuferryd: " << what;
    if (error.line > 0) std::cerr << ":" << error.line << ":" << error.column;
    std::cerr << ": " << (error.field.empty() ? "" : error.field + ": ") << error.message << "\n";
    return 1;
}

/// This process holds every key: of the accounts, of the installation, of ssh, and users' secrets on their way. None of it may end
/// in a core file, or be read from its memory by another program of the same user. The hard limit stays: what is started from
/// here may have its own cores.
void keep_memory_private() {
    rlimit cores{};
    if (::getrlimit(RLIMIT_CORE, &cores) == 0) {
        cores.rlim_cur = 0;
        ::setrlimit(RLIMIT_CORE, &cores);
    }
    ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);  // also where the kernel hands cores to a program, which the limit does not stop
}

int serve(int argc, char** argv) {
    keep_memory_private();
    CLI::App app{"gpuferryd: runs GPU jobs on rented machines"};
    std::string config, listen, agent_listen, data_dir, level{"info"};
    gf::ServiceOptions options;
    std::int64_t origin = 0;
    app.add_option("--config", config, "configuration file (YAML); without it defaults and the environment are used");
    app.add_option("--listen", listen, "REST address:port, over the configuration's");
    app.add_option("--agent-listen", agent_listen, "address:port for agents, over the configuration's");
    app.add_option("--data-dir", data_dir, "data folder, over the configuration's");
    app.add_option("--ports-file", options.ports_file, "write the ports that are really used to this file (JSON)");
    app.add_option("--agent", options.agent_path, "the agent's binary; default: gpuferry-agent beside this program");
    app.add_option("--log-level", level, "debug | info | warn | error")->check(CLI::IsMember({"debug", "info", "warn", "error"}));
    app.add_option("--time-scale", options.time_scale, "run all clocks this much faster (tests and the quickstart)")
        ->check(CLI::Range(0.01, 10000.0));
    app.add_option("--time-origin", origin, "instant (Unix ms) at which scaled and real time agree");
    app.set_version_flag("--version", "gpuferryd " GF_VERSION);
    CLI11_PARSE(app, argc, argv);
    if (origin != 0) options.time_origin_ms = origin;

    using gf::log::Level;
    gf::log::set_level(level == "debug" ? Level::debug : level == "warn" ? Level::warn : level == "error" ? Level::error : Level::info);
    const bool root = ::geteuid() == 0;
    if (config.empty()) {
        options.settings = gf::default_settings(environment, root);
    } else {
        const auto text = gf::read_whole_file(config);
        if (!text) return refuse(config, text.error());
        auto parsed = gf::parse_settings(*text, environment, root);
        if (!parsed) return refuse(config, parsed.error());
        options.settings = *std::move(parsed);
    }
    if (!data_dir.empty()) options.settings.data_dir = data_dir;
    for (const auto& [flag, typed, target] : {std::tuple{"--listen", &listen, &options.settings.listen},
                                              std::tuple{"--agent-listen", &agent_listen, &options.settings.agent_listen}}) {
        if (typed->empty()) continue;
        const auto address = gf::parse_listen_address(*typed);
        if (!address)
            return refuse(flag, gf::Error{.kind = gf::ErrorKind::invalid, .message = *typed + " is not address:port with a port from 0 to 65535"});
        *target = *address;
    }
    if (options.settings.data_dir.empty())
        return refuse("data_dir", gf::Error{.kind = gf::ErrorKind::invalid, .message = "set --data-dir, HOME or XDG_DATA_HOME"});

    // Blocked before any thread exists, so that sigwait below is the only one who gets them.
    sigset_t stop_signals;
    sigemptyset(&stop_signals);
    sigaddset(&stop_signals, SIGTERM);
    sigaddset(&stop_signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &stop_signals, nullptr);
    signal(SIGPIPE, SIG_IGN);

    gf::Service service(std::move(options));
    if (auto started = service.start(); !started) return refuse("cannot start", started.error());
    std::cout << service.greeting() << std::flush;
    int got = 0;
    sigwait(&stop_signals, &got);
    gf::log::info("daemon.stopping", {{"signal", got}});
    service.stop();
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    // The C library gives each of some twenty threads a heap of its own, and what is freed in one is not used by another. Two
    // threads do nearly all the work.
    ::mallopt(M_ARENA_MAX, 2);
    try {
        return serve(argc, argv);
    } catch (const std::exception& e) {  // of a library, at start: a supervisor wants a line, not a dump
        std::cerr << "gpuferryd: cannot start: " << e.what() << "\n";
        return 1;
    }
}
