// The bench of a provider that is reached over HTTP: a world behind a scripted server, and a clock moved by
// hand.
#pragma once
#include <atomic>

#include "bench.hpp"
#include "lambda_world.hpp"
#include "providers/registry.hpp"
#include "runpod_world.hpp"
#include "vastai_world.hpp"
#include "vultr_world.hpp"

namespace gf::test {

inline constexpr Instant kStart = instant_of(1'796'000'000'000);  // 2026-11-30

/// No alias table here: the canonical name is "provider:name", so that what was asked for can be seen.
[[nodiscard]] GpuLookup plain_lookup();

/// Settings that reach the scripted server and nothing else.
[[nodiscard]] ProviderSetup setup_for(const RunpodWorld&, const std::string& url);
[[nodiscard]] ProviderSetup setup_for(const VastWorld&, const std::string& url);
[[nodiscard]] ProviderSetup setup_for(const LambdaWorld&, const std::string& url);
[[nodiscard]] ProviderSetup setup_for(const VultrWorld&, const std::string& url);
[[nodiscard]] inline std::size_t count_in(const RunpodWorld& w) {
    return w.pods();
}
[[nodiscard]] inline std::size_t count_in(const VastWorld& w) {
    return w.instances();
}
[[nodiscard]] inline std::size_t count_in(const LambdaWorld& w) {
    return w.instances();
}
[[nodiscard]] inline std::size_t count_in(const VultrWorld& w) {
    return w.instances();
}
/// Something to rent.
void stock(RunpodWorld& world);
void stock(VastWorld& world);
void stock(LambdaWorld& world);
void stock(VultrWorld& world);

/// The answer of a broken wire.
[[nodiscard]] Answer wired(Wire wire, const Received& request);

template <class World>
class CloudBench final : public Bench {
 public:
    CloudBench()
        : hand(kStart),
          world(hand),
          server([this](const Received& r) { return wire_ == Wire::whole ? world.answer(r) : wired(wire_, r); }),
          set(make_providers(setup_for(world, server.url()), hand, plain_lookup()).value()) {
        stock(world);
    }
    Provider& provider() override {
        server.settle();
        return *set.providers.front();
    }
    Clock& clock() override { return hand; }
    void pass(Millis time) override { hand.advance(time); }
    bool fault(Op op, Fault fault) override {
        server.settle();
        world.fault(op, fault);
        return true;
    }
    bool wire(Wire wire) override {
        server.settle();
        wire_ = wire;
        return true;
    }
    std::size_t machines() override {
        server.settle();
        return count_in(world);
    }
    bool add_foreign(const std::string& name) override {
        server.settle();
        world.add(name, nlohmann::json::object());
        return true;
    }
    bool go_away() override {
        server.go_away();
        return true;
    }
    std::vector<Received> sent() override { return server.received(); }
    /// The next answers come from here instead of the world.
    void script(ScriptedServer::Handler handler) { server.handler(std::move(handler)); }

    ManualClock hand;
    World world;
    std::atomic<Wire> wire_{Wire::whole};
    ScriptedServer server;
    ProviderSet set;
};

using RunpodBench = CloudBench<RunpodWorld>;
using VastBench = CloudBench<VastWorld>;
using LambdaBench = CloudBench<LambdaWorld>;
using VultrBench = CloudBench<VultrWorld>;

}  // namespace gf::test
