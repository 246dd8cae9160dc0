// Users' secrets on their way to an agent: through the real runtime and the real gateway, to a client that speaks for the agent.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>

#include "checkpoints/file_store.hpp"
#include "daemon/gateway/gateway.hpp"
#include "daemon/http/loop.hpp"
#include "daemon/runtime/runtime.hpp"
#include "daemon/secrets/sealing.hpp"
#include "model/id.hpp"
#include "tests/daemon/support/curl_client.hpp"
#include "tests/daemon/support/socket_client.hpp"
#include "tests/daemon/support/temporary_folder.hpp"

namespace gf::test {
namespace {
namespace ap = agent_protocol;

/// Rents whole machines, one after the other, and shows them running at the price that was offered.
class VmCloud final : public Provider {
 public:
    ProviderName name() const override { return name_; }
    Capabilities capabilities() const override { return {.vm = true}; }
    Result<OfferList> offers(const OfferQuery&) override {
        Offer o;
        o.provider = name_;
        o.id = "a";
        o.gpu_count = 1;
        o.gpu_rate = kRate;
        o.verified = true;
        return OfferList{{o}, {}};
    }
    LaunchOutcome launch(const LaunchRequest& request) override {
        const std::scoped_lock lock(mutex_);
        tag_ = request.tag.get();
        login_seen_ = login_seen_ || request.registry.has_value();
        return {.id = ProviderMachineId{"m1"}, .error = {}, .rate = kRate};
    }
    Result<Listing> list() override {
        const std::scoped_lock lock(mutex_);
        Listing out;
        if (!tag_.empty()) out.machines.push_back(machine());
        return out;
    }
    Result<ProviderMachine> read(const ProviderMachineId&) override {
        const std::scoped_lock lock(mutex_);
        return machine();
    }
    Result<void> destroy(const ProviderMachineId&) override { return {}; }
    Result<Usd> balance() override { return fail(ErrorKind::not_found, "as told"); }

    std::string tag() {
        const std::scoped_lock lock(mutex_);
        return tag_;
    }
    bool login_seen() {
        const std::scoped_lock lock(mutex_);
        return login_seen_;
    }

 private:
    static constexpr UsdPerHour kRate{300'000};
    ProviderMachine machine() const {
        ProviderMachine m;
        m.id = ProviderMachineId{"m1"};
        m.tag = tag_;
        m.presence = Presence::running;
        m.raw_state = "running";
        m.gpu_rate = kRate;
        m.disk_rate = UsdPerHour{0};
        return m;
    }
    ProviderName name_{"cloud"};
    std::mutex mutex_;  // guards all below
    std::string tag_;
    bool login_seen_{false};
};

struct LeaseBench {
    TemporaryFolder folder;
    std::unique_ptr<Store> store = std::move(*open_sqlite_store(folder / "gpuferry.db"));
    std::unique_ptr<checkpoints::FileStore> packs = checkpoints::FileStore::open(folder / "checkpoints").value();
    RealClock clock;
    Secret key{std::string(64, '7')};
    SecretSeal seal{key};
    std::atomic<bool> locked{false};
    VmCloud* cloud{nullptr};
    std::unique_ptr<http::Loop> loop = std::make_unique<http::Loop>();
    std::unique_ptr<Runtime> runtime;
    std::unique_ptr<Gateway> gateway;
    std::shared_ptr<const JobSpec> spec = [] {
        JobSpec s;
        s.run = "true";
        s.image = "ghcr.io/example/private:1";
        s.image_auth = ImageAuthSpec{.username = "bot", .password_secret = "REGISTRY_TOKEN"};
        s.secrets = {"HF_TOKEN"};
        return std::make_shared<const JobSpec>(s);
    }();

    explicit LeaseBench(const std::function<void(JobSpec&)>& change = {}) {
        if (change) {
            JobSpec other = *spec;
            change(other);
            spec = std::make_shared<const JobSpec>(std::move(other));
        }
        RuntimeOptions o;
        o.core.install = "runtime0";
        o.core.reached_providers = {"cloud"};
        o.core.sweep = Millis{200};
        o.parse_spec = [this](const std::string&, bool) { return spec; };
        o.complete_launch = [](LaunchRequest&, const MachineId&) -> Result<void> { return {}; };
        o.open_secret = [this](const SecretRecord& row) -> Result<Secret> {
            if (locked) return fail(ErrorKind::auth, "secret " + row.name + " cannot be opened: as told");
            return seal.open(row.name, row.sealed);
        };
        auto made = std::make_unique<VmCloud>();
        cloud = made.get();
        std::vector<std::unique_ptr<Provider>> providers;
        providers.push_back(std::move(made));
        std::vector<RowChange> rows;
        for (const char* name : {"HF_TOKEN", "REGISTRY_TOKEN"})
            rows.push_back(PutSecret{{.name = name, .sealed = seal.seal(name, Secret(std::string(name) + "_EXAMPLE")), .principal = "p",
                                      .created_at = clock.now(), .updated_at = clock.now()}});
        REQUIRE(store->commit(rows).has_value());
        runtime = std::make_unique<Runtime>(*store, clock, std::move(providers), std::move(o));
        REQUIRE(runtime->load().has_value());
        GatewayOptions g;
        g.listen = "127.0.0.1:0";
        g.data_dir = folder.path();
        g.install_key = key;
        g.machine_lookup = [this](const std::string& tag) { return runtime->gate(tag); };
        g.open_reader = [this] { return store->open_reader(); };
        g.store = packs.get();
        loop->start();
        gateway = std::make_unique<Gateway>(*loop, *runtime, std::move(g));
        REQUIRE(gateway->start().has_value());
        runtime->set_gateway(gateway.get());
        runtime->start();
        runtime->post(SubmitJob{.spec_text = "{}", .spec = spec, .principal = "p"}, [](ApiResult) {});
        wait_for([this] { return !cloud->tag().empty(); });
    }
    ~LeaseBench() {
        gateway->stop();
        runtime->stop();
        loop->stop();
        gateway.reset();
    }
    template <class Look>
    static void wait_for(Look look) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{60};
        while (!look()) {
            REQUIRE(std::chrono::steady_clock::now() < end);
            std::this_thread::sleep_for(std::chrono::milliseconds{10});
        }
    }
    std::string enrol() {
        ap::EnrolRequest request;
        request.machine = cloud->tag();
        request.enrol = enrol_token(key, MachineId{std::string(parse_machine_tag(cloud->tag()).machine_id)});
        request.boot_id = "boot1";
        request.arch = "amd64";
        const auto got = ask({.method = "POST", .url = "https://127.0.0.1:" + std::to_string(gateway->port()) + "/agent/enrol",
                              .body = ap::encode(request), .headers = {}, .unix_path = {}, .pin = gateway->spki_pin(), .sink = {}});
        REQUIRE(got.status == 200);
        return ap::decode_enrol_answer(got.body).value().session;
    }
    static std::string hello(const std::string& attempt = {}) {
        ap::Hello m;
        m.report.workspace = "/workspace";
        m.report.arch = "amd64";
        m.report.gpus = {{"NVIDIA GeForce RTX 4090", 24564 * kMiB, "560", "u"}};
        m.report.cuda_probe = "ok";
        m.report.cuda_devices = 1;
        m.report.disk_free = m.report.disk_total = 100 * kGB;
        m.attempt = attempt;
        m.attempt_state = attempt.empty() ? "" : "preparing";
        return ap::encode(ap::FromAgent{.boot_id = "boot1", .seq = 0, .body = m});
    }
    /// The next lease on this connection; nothing when it ends first.
    static std::optional<ap::Lease> next_lease(SocketClient& client) {
        while (const auto text = client.receive(60)) {
            const auto message = ap::decode_to_agent(*text);
            if (message && std::holds_alternative<ap::Lease>(*message)) return std::get<ap::Lease>(*message);
        }
        return std::nullopt;
    }
};

TEST_CASE("a lease leaves with its secrets and its login, once; whoever holds it is not sent them again (I01)") {
    LeaseBench b;
    SocketClient agent(b.gateway->port(), b.enrol(), true);
    agent.send(LeaseBench::hello());
    const auto lease = LeaseBench::next_lease(agent);
    REQUIRE(lease);
    CHECK(lease->secret_env == std::map<std::string, std::string>{{"HF_TOKEN", "HF_TOKEN_EXAMPLE"}});
    REQUIRE(lease->registry);
    CHECK(lease->container);
    CHECK(lease->registry->server == "ghcr.io");
    CHECK(lease->registry->username == "bot");
    CHECK(lease->registry->password == "REGISTRY_TOKEN_EXAMPLE");
    CHECK(!b.cloud->login_seen());  // the provider has nothing to pull
    agent.send(LeaseBench::hello(lease->attempt));
    const auto again = LeaseBench::next_lease(agent);
    REQUIRE(again);
    CHECK(again->attempt == lease->attempt);
    CHECK(again->secret_env.empty());
    CHECK(!again->registry);
}

TEST_CASE("a secret that does not open ends the connection, not the job: the agent asks again") {
    LeaseBench b;
    b.locked = true;
    {
        SocketClient agent(b.gateway->port(), b.enrol(), true);
        agent.send(LeaseBench::hello());
        CHECK(!LeaseBench::next_lease(agent));
        CHECK(agent.ended(60));
    }
    b.locked = false;
    SocketClient agent(b.gateway->port(), b.enrol(), true);
    agent.send(LeaseBench::hello());
    const auto lease = LeaseBench::next_lease(agent);
    REQUIRE(lease);
    CHECK(lease->secret_env.at("HF_TOKEN") == "HF_TOKEN_EXAMPLE");
}

TEST_CASE("a lease that does not fit into one message ends its job with the reason, and the agent's connection stays") {
    std::string says;
    const auto too_large = [&](const std::function<void(JobSpec&)>& change) {
        LeaseBench b(change);
        SocketClient agent(b.gateway->port(), b.enrol(), true);
        agent.send(LeaseBench::hello());
        const auto reader = b.store->open_reader().value();
        std::vector<EventRecord> all;
        LeaseBench::wait_for([&] {
            all = reader->events(JobId{}, 0, 1000).value();
            return std::ranges::any_of(all, [](const EventRecord& e) { return e.kind == "job_state" && e.state == "failed"; });
        });
        says.clear();
        for (const auto& e : all) says += e.kind + " " + e.state + " " + e.reason + " " + e.detail + "\n";
        CHECK(says.find("too large for one message") != std::string::npos);
        CHECK(says.find("user_error") != std::string::npos);
        CHECK(says.find("EXAMPLE") == std::string::npos);
    };
    SUBCASE("with secrets") {
        too_large([](JobSpec& spec) { spec.env["BIG"] = std::string(ap::kMessageBytesMax - 300, 'x'); });
    }
    SUBCASE("without any") {
        too_large([](JobSpec& spec) {
            spec.run = std::string(600'000, '\n');  // two bytes each on the way
            spec.secrets.clear();
            spec.image_auth.reset();
        });
    }
}

}  // namespace
}  // namespace gf::test
