// A small Vast.ai for tests: enough state to be rented from, the published minimum intervals enforced, and
// every documented way of going wrong on demand.
#pragma once
#include <map>
#include <nlohmann/json.hpp>

#include "bench.hpp"

namespace gf::test {

class VastWorld {
 public:
    explicit VastWorld(const Clock& clock) : clock_(clock) {}
    Answer answer(const Received& request);
    void fault(Op op, Fault fault) { faults_[op] = fault; }
    std::int64_t add(const std::string& label, const nlohmann::json& env);
    [[nodiscard]] std::size_t instances() const { return instances_.size(); }
    [[nodiscard]] const std::map<std::int64_t, nlohmann::json>& all() const { return instances_; }

    nlohmann::json asks = nlohmann::json::array();  // on-demand rows; bid rows are made of them
    nlohmann::json charges = nlohmann::json::array();
    std::size_t charges_page{500};
    nlohmann::json price_increases = nlohmann::json::array();
    int too_early{0};                               // calls that came before their interval was over

 private:
    Answer create(const Received& request);
    Answer beside(const Received& request);
    Answer list(const Received& request) const;
    Answer search(const Received& request) const;
    bool early(const std::string& endpoint, Millis interval);
    [[nodiscard]] nlohmann::json shown(const nlohmann::json& instance) const;
    const Clock& clock_;
    std::map<Op, Fault> faults_;
    std::map<std::int64_t, nlohmann::json> instances_;
    std::map<std::string, Instant> last_;
    std::int64_t next_{24'880'153};
};

[[nodiscard]] nlohmann::json vast_ask(std::int64_t id, const std::string& gpu, double dph_base);
[[nodiscard]] Answer vast_error(int status, const std::string& code, const std::string& msg);

}  // namespace gf::test
