// One agent under test and the daemon in memory that it talks to.
#pragma once
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <filesystem>
#include <fstream>
#include "agent/processes.hpp"
#include "agent_process.hpp"
#include "checkpoints/digest.hpp"
#include "checkpoints/manifest.hpp"
#include "fake_daemon.hpp"

namespace gf::agent_test {

namespace ap = agent_protocol;
namespace fs = std::filesystem;

struct Bench {
    TemporaryFolder folder;
    FakeDaemon daemon;
    std::map<std::string, std::string> env{agent_environment(daemon.url(), folder.path())};

    AgentProcess start() { return AgentProcess(GF_AGENT_PATH, env); }
    void enrolled() {
        REQUIRE(daemon.wait([](const DaemonState& s) { return !s.hellos.empty(); }));
    }
    std::string log(const std::string& attempt = "att_1") {
        std::string bytes;
        daemon.with([&](DaemonState& s) { bytes = s.logs[attempt].bytes; });
        return bytes;
    }
    std::optional<ap::Exited> exited(const std::string& attempt = "att_1", int seconds = 60) {
        std::optional<ap::Exited> found;
        daemon.wait(
            [&](const DaemonState& s) {
                for (const auto& m : s.messages)
                    if (const auto* e = std::get_if<ap::Exited>(&m.body); e && e->attempt == attempt) found = *e;
                return found.has_value();
            },
            seconds);
        return found;
    }
    bool log_has(const std::string& text, const std::string& attempt = "att_1") {
        return daemon.wait([&](const DaemonState& s) {
            const auto found = s.logs.find(attempt);
            return found != s.logs.end() && found->second.bytes.find(text) != std::string::npos;
        });
    }
};

inline ap::Lease lease_of(std::string command) {
    ap::Lease lease;
    lease.attempt = "att_1";
    lease.number = 1;
    lease.job = "job_00000000000000000000000001";
    lease.task = "tsk_00000000000000000000000001";
    lease.run = std::move(command);
    lease.checkpoint.grace = Millis{5'000};
    lease.checkpoint_every_ms = 3'600'000;
    return lease;
}
}  // namespace gf::agent_test
