// Where the runtime puts users' secrets: into the call that is on its way out, and only if they open.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <thread>

#include "daemon/runtime/runtime.hpp"
#include "daemon/secrets/sealing.hpp"

namespace gf {
namespace {

/// Offers one container and refuses each create call, which it keeps.
class Cloud final : public Provider {
 public:
    ProviderName name() const override { return name_; }
    Capabilities capabilities() const override { return {}; }
    Result<OfferList> offers(const OfferQuery&) override {
        Offer o;
        o.provider = name_;
        o.id = "a";
        o.gpu_count = 1;
        o.gpu_rate = UsdPerHour{300'000};
        o.verified = true;
        return OfferList{{o}, {}};
    }
    LaunchOutcome launch(const LaunchRequest& request) override {
        const std::scoped_lock lock(mutex_);
        asked_.push_back(request);
        return {.id = {}, .error = Error{.kind = ErrorKind::no_capacity, .message = "as told"}, .rate = {}};
    }
    Result<Listing> list() override { return Listing{}; }
    Result<ProviderMachine> read(const ProviderMachineId&) override { return fail(ErrorKind::not_found, "as told"); }
    Result<void> destroy(const ProviderMachineId&) override { return {}; }
    Result<Usd> balance() override { return fail(ErrorKind::not_found, "as told"); }

    std::vector<LaunchRequest> asked() {
        const std::scoped_lock lock(mutex_);
        return asked_;
    }

 private:
    ProviderName name_{"cloud"};
    std::mutex mutex_;  // guards asked_
    std::vector<LaunchRequest> asked_;
};

struct SecretBench {
    std::unique_ptr<Store> store = std::move(*open_sqlite_store(":memory:"));
    RealClock clock;
    SecretSeal seal{Secret(std::string(64, '7'))};
    std::atomic<bool> locked{false};
    Cloud* cloud{nullptr};
    std::unique_ptr<Runtime> runtime;
    std::shared_ptr<const JobSpec> spec = [] {
        JobSpec s;
        s.image = "ghcr.io/example/private:1";
        s.image_auth = ImageAuthSpec{.username = "bot", .password_secret = "REGISTRY_TOKEN"};
        return std::make_shared<const JobSpec>(s);
    }();

    SecretBench() {
        RuntimeOptions o;
        o.core.install = "runtime0";
        o.core.reached_providers = {"cloud"};
        o.core.cooldown = Millis{50};
        o.core.backoff_first = Millis{50};
        o.parse_spec = [this](const std::string&, bool) { return spec; };
        o.complete_launch = [](LaunchRequest&, const MachineId&) -> Result<void> { return {}; };
        o.open_secret = [this](const SecretRecord& row) -> Result<Secret> {
            if (locked) return fail(ErrorKind::auth, "secret " + row.name + " cannot be opened: as told");
            return seal.open(row.name, row.sealed);
        };
        auto made = std::make_unique<Cloud>();
        cloud = made.get();
        std::vector<std::unique_ptr<Provider>> providers;
        providers.push_back(std::move(made));
        runtime = std::make_unique<Runtime>(*store, clock, std::move(providers), std::move(o));
        REQUIRE(runtime->load().has_value());
        runtime->start();
    }
    ApiResult ask(Event event) {
        auto promise = std::make_shared<std::promise<ApiResult>>();
        auto answer = promise->get_future();
        runtime->post(std::move(event), [promise](ApiResult result) { promise->set_value(std::move(result)); });
        REQUIRE(answer.wait_for(std::chrono::seconds{60}) == std::future_status::ready);
        return answer.get();
    }
    ApiResult put(const std::string& value) {
        const Instant now = clock.now();
        return ask(PutSecretCommand{.secret = {.name = "REGISTRY_TOKEN", .sealed = seal.seal("REGISTRY_TOKEN", Secret(value)), .principal = "p", .created_at = now, .updated_at = now}});
    }
    ApiResult submit() { return ask(SubmitJob{.spec_text = "{}", .spec = spec, .principal = "p"}); }
    template <class Look>
    static void wait_for(Look look) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{60};
        while (!look()) {
            REQUIRE(std::chrono::steady_clock::now() < end);
            std::this_thread::sleep_for(std::chrono::milliseconds{10});
        }
    }
    /// All events, once the runtime has stopped.
    std::string history() {
        runtime->stop();
        std::string all;
        for (const auto& e : *store->reader().events(JobId{}, 0, 1000)) all += e.kind + " " + e.reason + " " + e.detail + "\n";
        return all;
    }
};

TEST_CASE("a registry's password is opened for the create call, each time anew, and stays in it") {
    SecretBench b;
    CHECK(b.put("dckr_EXAMPLE").status == 201);
    CHECK(b.submit().status == 201);
    SecretBench::wait_for([&] { return !b.cloud->asked().empty(); });
    const auto first = b.cloud->asked().front();
    REQUIRE(first.registry);
    CHECK(first.registry->server == "ghcr.io");
    CHECK(first.registry->username == "bot");
    CHECK(first.registry->password.reveal() == "dckr_EXAMPLE");
    CHECK(b.put("another_EXAMPLE").status == 200);
    SecretBench::wait_for([&] { return b.cloud->asked().back().registry->password.reveal() == "another_EXAMPLE"; });
    const auto all = b.history();
    CHECK(all.find("secret_put REGISTRY_TOKEN") != std::string::npos);
    CHECK(all.find("EXAMPLE") == std::string::npos);
}

TEST_CASE("without its registry's password a machine is not asked for") {
    SecretBench b;
    CHECK(b.put("dckr_EXAMPLE").status == 201);
    b.locked = true;
    CHECK(b.submit().status == 201);
    // It never left, so it is tried again after a while, longer each time.
    SecretBench::wait_for([&] { return !b.runtime->view()->providers.empty() && b.runtime->view()->providers[0].health == "launch_paused"; });
    CHECK(b.cloud->asked().empty());
    const auto all = b.history();
    CHECK(all.find("secret REGISTRY_TOKEN cannot be opened: as told") != std::string::npos);
    CHECK(b.cloud->asked().empty());
}

}  // namespace
}  // namespace gf
