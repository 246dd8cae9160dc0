// Everything put together: world, machines, five listeners and the clockwork. What main runs and what tests
// start.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "model/result.hpp"
#include "simulator/market.hpp"
#include "simulator/settings.hpp"

namespace gf::sim {

struct SimulatorOptions {
    std::string listen{"127.0.0.1"};
    std::uint16_t runpod_port{0};  // 0 = a free one
    std::uint16_t vastai_port{0};
    std::uint16_t lambda_port{0};
    std::uint16_t vultr_port{0};
    std::uint16_t admin_port{0};
    std::filesystem::path dir;         // machines, logs, tools; made if missing
    std::filesystem::path keeper;      // the gpuferry-sim binary, run again for each machine
    std::filesystem::path image_root;  // default image; empty = the host's own /usr
    std::string faults;                // text of a fault script; empty = none
    std::string vm_docker;             // content of /usr/local/sbin/docker in virtual machines; empty = none
    bool processes{true};              // false: machines are only modelled
    bool isolate{true};                // false: never try namespaces
    Instant origin{};                  // epoch = when it starts
    double scale{1.0};
    Settings settings;
    Market market;
    std::uint64_t seed{1};
};

class Simulator {
 public:
    [[nodiscard]] static Result<std::unique_ptr<Simulator>> start(SimulatorOptions options);
    /// Stops the listeners, kills every machine and waits for them.
    virtual ~Simulator() = default;
    [[nodiscard]] virtual std::uint16_t runpod_port() const = 0;
    [[nodiscard]] virtual std::uint16_t vastai_port() const = 0;
    [[nodiscard]] virtual std::uint16_t lambda_port() const = 0;
    [[nodiscard]] virtual std::uint16_t vultr_port() const = 0;
    [[nodiscard]] virtual std::uint16_t admin_port() const = 0;
};

}  // namespace gf::sim
