// A small Vultr for tests: enough state to be rented from, and every documented way of going wrong on demand.
#pragma once
#include <map>
#include <nlohmann/json.hpp>

#include "bench.hpp"

namespace gf::test {

class VultrWorld {
 public:
    explicit VultrWorld(const Clock& clock) : clock_(clock) {}
    Answer answer(const Received& request);
    void fault(Op op, Fault fault) { faults_[op] = fault; }
    std::string add(const std::string& label, const nlohmann::json& tags);
    [[nodiscard]] std::size_t instances() const;
    [[nodiscard]] const std::map<std::string, nlohmann::json>& all() const { return instances_; }
    /// From now on this instance shows these fields.
    void force(const std::string& id, const nlohmann::json& fields) { instances_.at(id)["forced"] = fields; }

    nlohmann::json plans = nlohmann::json::array();
    nlohmann::json regions = nlohmann::json::array();
    std::map<std::string, std::vector<std::string>> stock;  // region -> plans
    nlohmann::json account = {
        {"acls", {"subscriptions", "provisioning"}}, {"balance", -100.55}, {"pending_charges", 60.25}};
    nlohmann::json charges = nlohmann::json::array();
    std::size_t page{500};          // rows per page, at most what is asked for
    Millis locked{Seconds{15}};     // after a create
    Millis destroying{Seconds{5}};  // then it is not there any more

 private:
    Answer create(const Received& request);
    Answer rows(const Received& request, const std::string& key, const nlohmann::json& all) const;
    [[nodiscard]] bool is_there(const nlohmann::json& instance) const;
    [[nodiscard]] nlohmann::json shown(const nlohmann::json& instance) const;
    const Clock& clock_;
    std::map<Op, Fault> faults_;
    std::map<std::string, nlohmann::json> instances_;
    int next_{1};
};

[[nodiscard]] nlohmann::json vultr_plan(const std::string& id, const std::string& gpu_type,
                                        const nlohmann::json& count, double vram, double hourly);
[[nodiscard]] nlohmann::json vultr_region(const std::string& id, const std::string& country);
[[nodiscard]] Answer vultr_error(int status, const std::string& text, std::vector<HttpHeader> headers = {});

}  // namespace gf::test
