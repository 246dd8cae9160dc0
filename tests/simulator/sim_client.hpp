// A simulator in this process and a client that talks HTTP to it. Time stands nearly still (a thousandth of
// real time) and is moved by hand through the admin face, so nothing depends on how fast the test runs.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "simulator/simulator.hpp"

namespace gf::sim::test {

using nlohmann::json;

struct Answer {
    int status{0};  // 0 = no answer came
    std::string body;
    std::map<std::string, std::string> headers;  // names in lower case
    [[nodiscard]] json parsed() const { return json::parse(body); }
};

struct Call {
    std::string method{"GET"};
    std::string path;
    json body{};                 // null = none
    std::string raw_body{};      // instead of `body`
    std::string key{"the-key"};  // empty = no Authorization header
    std::string agent{"gpuferry-test/1"};
    std::string basic{};  // instead of a Bearer key: what is encoded for Basic
    long timeout_ms{20'000};
};

/// One request on a connection of its own.
[[nodiscard]] Answer send(std::uint16_t port, const Call& call);

class TestSim {
 public:
    /// Options are the defaults with modelled machines and without the limits of a standing clock at Lambda and Vultr;
    /// `adjust` may change them.
    explicit TestSim(const std::function<void(SimulatorOptions&)>& adjust = {});

    [[nodiscard]] Answer runpod(const Call& call) const { return send(simulator_->runpod_port(), call); }
    [[nodiscard]] Answer vastai(const Call& call) const { return send(simulator_->vastai_port(), call); }
    [[nodiscard]] Answer lambda(const Call& call) const { return send(simulator_->lambda_port(), call); }
    [[nodiscard]] Answer vultr(const Call& call) const { return send(simulator_->vultr_port(), call); }
    [[nodiscard]] Answer admin(const Call& call) const { return send(simulator_->admin_port(), call); }

    /// POST /_sim/<what>; fails the test unless it is 200.
    json order(const std::string& what, const json& body) const;
    [[nodiscard]] json state() const;
    [[nodiscard]] json bill() const;
    /// The row of /_sim/state for one machine.
    [[nodiscard]] json machine(const std::string& id) const;
    void pass(double seconds) const { order("time", {{"advance_s", seconds}}); }
    /// Asks again until `done` holds; fails the test after 30 s of real time.
    void until(const std::function<bool()>& done, const std::string& what) const;
    /// Until the machine is in `phase`.
    void until_phase(const std::string& id, const std::string& phase) const;

    [[nodiscard]] const Simulator& simulator() const { return *simulator_; }

 private:
    std::unique_ptr<Simulator> simulator_;
};

}  // namespace gf::sim::test
