// What the runtime hands to the record of the market: each look that succeeded, with what it was asked for, and none of this machine.
#include <doctest/doctest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "daemon/runtime/runtime.hpp"

namespace gf {
namespace {

class Market final : public Provider {
 public:
    Market(std::string name, bool local, bool fails) : name_(std::move(name)), local_(local), fails_(fails) {}
    ProviderName name() const override { return name_; }
    Capabilities capabilities() const override { return {.spot = true, .is_local = local_}; }
    Result<OfferList> offers(const OfferQuery&) override {
        if (fails_) return fail(ErrorKind::unavailable, "as told");
        Offer o;
        o.provider = name_;
        o.id = "a";
        o.gpu = {.canonical = "RTX 4090", .provider_name = "RTX 4090", .memory = {}};
        o.gpu_count = 1;
        o.gpu_rate = UsdPerHour{300'000};
        return OfferList{{o}, {{"b", "price_zero"}}};
    }
    LaunchOutcome launch(const LaunchRequest&) override {
        return {.id = {}, .error = Error{.kind = ErrorKind::no_capacity, .message = "as told"}, .rate = {}};
    }
    Result<Listing> list() override { return Listing{}; }
    Result<ProviderMachine> read(const ProviderMachineId&) override { return fail(ErrorKind::not_found, "as told"); }
    Result<void> destroy(const ProviderMachineId&) override { return {}; }
    Result<Usd> balance() override { return fail(ErrorKind::not_found, "as told"); }

 private:
    ProviderName name_;
    bool local_, fails_;
};

}  // namespace

TEST_CASE("looks at markets go to the record, again and again while nothing waits") {
    std::mutex mutex;  // guards looks
    std::condition_variable came;
    std::vector<MarketLook> looks;
    RuntimeOptions o;
    o.core.install = "runtime0";
    o.core.offers = Millis{20};
    o.core.market_every = Millis{50};
    o.parse_spec = [](const std::string&, bool) { return std::make_shared<const JobSpec>(); };
    o.market_seen = [&](MarketLook look) {
        const std::scoped_lock lock(mutex);
        looks.push_back(std::move(look));
        came.notify_all();
    };
    const auto store = std::move(*open_sqlite_store(":memory:"));
    RealClock clock;
    std::vector<std::unique_ptr<Provider>> providers;
    providers.push_back(std::make_unique<Market>("broken", false, true));
    providers.push_back(std::make_unique<Market>("cloud", false, false));
    providers.push_back(std::make_unique<Market>("local", true, false));
    Runtime runtime(*store, clock, std::move(providers), std::move(o));
    REQUIRE(runtime.load().has_value());
    runtime.start();
    {
        std::unique_lock lock(mutex);
        CHECK(came.wait_for(lock, std::chrono::seconds{20}, [&] { return looks.size() >= 3; }));
    }
    runtime.stop();
    REQUIRE(looks.size() >= 3);
    for (std::size_t i = 0; i < looks.size(); ++i) {
        CHECK(looks[i].provider == ProviderName{"cloud"});
        CHECK(looks[i].offers.size() == 1);
        CHECK(looks[i].unreadable == std::set<std::string>{"b"});
        CHECK(looks[i].gpu_counts == std::vector{1, 2, 4, 8});
        CHECK(looks[i].on_demand);
        CHECK(looks[i].spot);
        if (i > 0) CHECK(looks[i].at >= looks[i - 1].at);
    }
}

}  // namespace gf
