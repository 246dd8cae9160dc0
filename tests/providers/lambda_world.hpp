// A small Lambda for tests: enough state to be rented from, the published pace enforced, and every documented
// way of going wrong on demand.
#pragma once
#include <map>
#include <nlohmann/json.hpp>

#include "bench.hpp"

namespace gf::test {

class LambdaWorld {
 public:
    explicit LambdaWorld(const Clock& clock) : clock_(clock) {}
    Answer answer(const Received& request);
    void fault(Op op, Fault fault) { faults_[op] = fault; }
    std::string add(const std::string& name, const nlohmann::json& tags);
    /// Instances that are billed or will be: what is terminated stays readable for a while.
    [[nodiscard]] std::size_t instances() const;
    [[nodiscard]] const std::map<std::string, nlohmann::json>& all() const { return instances_; }
    /// From now on this instance shows that status.
    void force(const std::string& id, const std::string& status) { instances_.at(id)["forced"] = status; }

    nlohmann::json types = nlohmann::json::object();
    nlohmann::json ssh_keys = nlohmann::json::array();
    int too_early{0};                 // calls that came before a second was over, launches before twelve
    int unknown_status{400};          // of a second terminate
    Millis terminating{Seconds{20}};  // then `terminated`, and a minute later it is not there any more

 private:
    Answer launch(const Received& request);
    Answer terminate(const Received& request);
    Answer keys(const Received& request);
    [[nodiscard]] std::string status(const nlohmann::json& instance) const;
    [[nodiscard]] bool is_there(const nlohmann::json& instance) const;
    [[nodiscard]] nlohmann::json shown(const nlohmann::json& instance) const;
    const Clock& clock_;
    std::map<Op, Fault> faults_;
    std::map<std::string, nlohmann::json> instances_;
    Instant last_;
    Instant last_launch_;
    int next_{1};
};

[[nodiscard]] nlohmann::json lambda_type(const std::string& name, const std::string& gpu, int cents, int gpus,
                                         const std::vector<std::string>& regions);
[[nodiscard]] Answer lambda_error(int status, const std::string& code, const std::string& message);

}  // namespace gf::test
