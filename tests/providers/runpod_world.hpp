// A small RunPod for tests: enough state to be rented from, and every documented way of going wrong on
// demand.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "bench.hpp"

namespace gf::test {

class RunpodWorld {
 public:
    explicit RunpodWorld(const Clock& clock) : clock_(clock) {}
    Answer answer(const Received& request);
    void fault(Op op, Fault fault) { faults_[op] = fault; }
    void add(const std::string& name, const nlohmann::json& env);
    [[nodiscard]] std::size_t pods() const { return pods_.size(); }
    [[nodiscard]] const std::map<std::string, nlohmann::json>& all() const { return pods_; }

    /// The catalog of `cloud`; a test may change it.
    nlohmann::json gpus;
    /// Rows per page of the listing; 0 = the profile without the `pagination` object.
    std::size_t page{0};
    nlohmann::json billing = nlohmann::json::array();
    nlohmann::json registries = nlohmann::json::array();
    std::set<std::string> registries_in_use;

 private:
    Answer create(const Received& request);
    Answer registry(const Received& request);
    [[nodiscard]] Answer graphql(const Received& request) const;
    Answer list(const Received& request) const;
    [[nodiscard]] nlohmann::json shown(const nlohmann::json& pod) const;
    const Clock& clock_;
    std::map<Op, Fault> faults_;
    std::map<std::string, nlohmann::json> pods_;
    int next_{1};
};

[[nodiscard]] nlohmann::json runpod_gpu(const std::string& id, double secure_price);
[[nodiscard]] Answer problem(int status, const std::string& detail, std::vector<HttpHeader> headers = {});

}  // namespace gf::test
