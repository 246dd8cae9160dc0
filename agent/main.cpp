// gpuferry-agent: runs on the machine. Without arguments it is the agent; `checkpoint` is called inside of a job; `contained` and
// `account` are how the agent starts it in a job's container.
#include <netdb.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "agent/ask_socket.hpp"
#include "agent/clock.hpp"
#include "agent/command.hpp"
#include "agent/contained.hpp"
#include "agent/log.hpp"
#include "agent/settings.hpp"
#include "agent/supervisor.hpp"
#include "agent/worker.hpp"

#if !defined(__has_feature)
#define __has_feature(x) 0
#endif

extern "C" int __nss_configure_lookup(const char* database, const char* services);

namespace {

using namespace gf::agent;

std::string random_id() {
    unsigned char bytes[16] = {};
    if (::getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) return {};
    std::string hex;
    for (const unsigned char b : bytes) {
        hex.push_back("0123456789abcdef"[b >> 4]);
        hex.push_back("0123456789abcdef"[b & 15]);
    }
    return hex;
}

int run_agent() {
    const auto settings = read_settings(environment_of(environ));
    if (!settings) {
        log("error", settings.error().message);
        return 2;
    }
    wipe_environment(environ);
    set_command_environment(settings->env);
#if !__has_feature(address_sanitizer)  // whose leak check has to trace this process
    // Other processes of the same user, the job among them, shall not read our memory.
    ::prctl(PR_SET_DUMPABLE, 0);
#endif
    const std::string boot_id = random_id();
    if (boot_id.empty()) {
        log("error", "the system gives no random bytes");
        return 1;
    }
    const auto workspace = Workspace::choose(settings->workspace, settings->env, settings->machine);
    if (!workspace.usable()) log("error", "no folder on this machine can be written to");
    return run_supervisor(boot_id, [&](Descriptor channel) { return run_worker(*settings, workspace, std::move(channel)); });
}

}  // namespace

int main(int argc, char** argv) {
    // A static program that lets the C library load the foreign system's name service modules crashes in them.
    __nss_configure_lookup("hosts", "files dns");
    const std::string_view verb = argc > 1 ? argv[1] : "";
    if (verb == "--version") {
        std::puts("gpuferry-agent " GF_AGENT_VERSION " " GF_AGENT_ARCH);
        return 0;
    }
    if (verb == "checkpoint") {
        const char* socket = std::getenv(kSocketVariable);
        if (socket) return ask_for_checkpoint(socket);
        std::fputs("gpuferry-agent checkpoint: only inside a job that declares checkpoints\n", stderr);
        return 2;
    }
    if (verb == "contained" && argc == 3) return run_contained(argv[2]);
    if (verb == "account" && argc == 3) return print_account(argv[2]);
    if (!verb.empty()) {
        std::fputs("usage: gpuferry-agent [--version | checkpoint]\n", stderr);
        return 2;
    }
    return run_agent();
}
