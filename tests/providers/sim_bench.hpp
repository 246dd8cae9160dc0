// The bench whose world is the real simulator process: written from the provider pages by somebody who has
// not seen the adapters. Between the two stands a scripted server that passes requests on, and loses, cuts or
// replaces answers when a case wants that.
#pragma once
#include <sys/types.h>

#include <map>
#include <nlohmann/json.hpp>

#include "bench.hpp"
#include "local_bench.hpp"
#include "providers/registry.hpp"

namespace gf::test {

struct SimSetup {
    std::string provider;  // "runpod" | "vastai" | "lambda" | "vultr"
    std::string profile{"observed"};
    double scale{1000};
    bool intervals{false};  // Vast.ai's and Lambda's least intervals; a busy machine's jitter is larger than their margin
                            // at a high scale
};

class SimBench final : public Bench {
 public:
    explicit SimBench(SimSetup setup);
    ~SimBench() override;
    Provider& provider() override {
        proxy_->settle();
        return *set_.providers.front();
    }
    Clock& clock() override { return *clock_; }
    void pass(Millis time) override { clock_->sleep_until(clock_->now() + time); }
    bool fault(Op op, Fault fault) override;
    std::size_t machines() override { return state().at("open_machines").get<std::size_t>(); }
    bool add_foreign(const std::string& name) override;
    bool go_away() override;
    std::vector<Received> sent() override { return proxy_->received(); }

    /// A POST to the admin face; the machine is named when `id` is not empty.
    void tell(const std::string& call, nlohmann::json body, const ProviderMachineId& id = {});
    /// GET /_sim/state and /_sim/bill.
    [[nodiscard]] nlohmann::json state();
    [[nodiscard]] nlohmann::json bill();
    [[nodiscard]] nlohmann::json market();
    /// A call past the adapter: GET, or POST where there is a body.
    nlohmann::json upstream(const std::string& path, const nlohmann::json& post = nullptr);

 private:
    Answer pass_on(const Received& request, bool bad_key = false);
    Answer answer(const Received& request);
    [[nodiscard]] Op op_of(const Received& request) const;
    nlohmann::json admin(const std::string& path);
    /// The body of a create by somebody else.
    nlohmann::json foreign_of_lambda(const std::string& name);
    nlohmann::json foreign_of_vultr(const std::string& name);

    SimSetup setup_;
    TemporaryFolder folder_;
    pid_t process_{-1};
    std::string upstream_;
    std::string admin_;
    std::map<Op, Fault> faults_;
    HttpClient client_;
    std::unique_ptr<ScriptedServer> proxy_;
    std::unique_ptr<ScaledClock> clock_;
    ProviderSet set_;
};

}  // namespace gf::test
