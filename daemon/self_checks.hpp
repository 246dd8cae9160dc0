// What the daemon can tell of its own place for the doctor: whether advertise_url leads to this very daemon, whether the clock
// agrees with the providers', whether there is room on the disk, and whether the programs and files that it needs are there.
// All of it is seen from the daemon's machine: a firewall between it and the rented machines shows only there.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "daemon/api/core_port.hpp"
#include "model/time.hpp"

namespace gf {

struct SelfCheckSettings {
    struct Api {
        std::string provider;
        std::string url;  // base URL of its API
    };
    std::string data_dir;
    std::string advertise_url;  // empty = not set
    std::string pin;            // hex SHA-256 of the daemon's own public key
    std::string agent_sha256;   // hex, of the agent that machines get
    std::string time_zone;      // of budgets; empty = the system's
    // Providers of rented machines, by the way that is between their machines and this daemon (daemon/ssh/reach.hpp).
    std::vector<std::string> dialling, by_ssh, unreached;
    std::vector<Api> apis;
    std::function<Instant()> wall;  // this machine's own clock
    std::string ssh;            // the ssh program that the daemon calls; empty = it has found none
    std::string zones{"/usr/share/zoneinfo"};
};

/// One line per thing looked at, under the name "daemon". Blocks for up to some 40 s: it looks names up and sends one small
/// request, without a key, to each API and one to advertise_url. Makes and changes nothing.
[[nodiscard]] std::vector<CheckLine> self_checks(const SelfCheckSettings& settings);

}  // namespace gf
