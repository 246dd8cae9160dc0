// The admin face below /_sim/: what tests, demonstrations and people use to look into the world and to change
// it. No key: it listens on loopback only. simulator/README.md lists the calls.
#pragma once
#include "simulator/fault_script.hpp"
#include "simulator/faults.hpp"
#include "simulator/http.hpp"
#include "simulator/request_log.hpp"
#include "simulator/vastai_face.hpp"
#include "simulator/world.hpp"

namespace gf::sim {

/// Every call wants the world's lock held and the world advanced.
class AdminFace {
 public:
    AdminFace(World& world, VastaiFace& vastai, Faults& faults, RequestLog& log)
        : world_(world), vastai_(vastai), faults_(faults), log_(log) {}
    [[nodiscard]] HttpResponse handle(const HttpRequest& request);
    /// Fault rules and scripted events of a file; times count from now.
    [[nodiscard]] Result<std::string> load_faults(const nlohmann::json& file);
    /// Carries out the scripted events that are due.
    void play_script();

 private:
    [[nodiscard]] nlohmann::json state();
    [[nodiscard]] nlohmann::json bill();
    [[nodiscard]] nlohmann::json bill_of(Rental& rental);
    [[nodiscard]] HttpResponse logged(const HttpRequest& request);
    [[nodiscard]] nlohmann::json post(const std::string& what, const nlohmann::json& body);
    // admin_market.cpp
    void set_host(const nlohmann::json& row, Host host);
    [[nodiscard]] int set_vm_types(const nlohmann::json& row);
    [[nodiscard]] nlohmann::json change_market(const nlohmann::json& body);
    [[nodiscard]] nlohmann::json host_fail(const nlohmann::json& body);
    [[nodiscard]] nlohmann::json add_faults(const nlohmann::json& body);
    [[nodiscard]] nlohmann::json gpu_fault(const nlohmann::json& body);
    [[nodiscard]] Rental& rental(const nlohmann::json& body);

    World& world_;
    VastaiFace& vastai_;
    Faults& faults_;
    RequestLog& log_;
    FaultScript script_;
};

/// An answer other than 200, thrown by the handlers.
struct AdminError {
    int status;
    std::string detail;
};
/// A field in dollars; AdminError for anything else.
[[nodiscard]] std::int64_t admin_money(const nlohmann::json& body, const char* key);

}  // namespace gf::sim
