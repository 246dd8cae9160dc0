// Jobs that name secrets: what the core lets them wait for, where it lets them go, and that it never holds a value.
#include <nlohmann/json.hpp>

#include "daemon/secrets/sealing.hpp"
#include "tests/orchestrator/bench.hpp"

namespace gf {
namespace {
namespace ap = agent_protocol;

struct Secrets : Market {
    Secrets() {
        offers["cloud"][0].verified = true;
        offers["cloud"][1].verified = false;
        offers["cloud"][1].gpu_rate = UsdPerHour{100'000};  // cheaper, and not for secrets
        pass(Seconds{40});  // what was read before is too old to rent from
    }
    int put(const std::string& name, const std::string& value = "hf_EXAMPLE0000") {
        const RequestId request = next_request++;
        apply(PutSecretCommand{request, {.name = name, .sealed = seal.seal(name, Secret(value)), .principal = "socket", .created_at = now, .updated_at = now}});
        return replies.at(request).status;
    }
    int drop(const std::string& name) {
        const RequestId request = next_request++;
        apply(DropSecretCommand{request, name, "socket"});
        return replies.at(request).status;
    }
    JobSpec with_secrets(std::vector<std::string> names) {
        JobSpec spec = on_demand();
        spec.secrets = std::move(names);
        return spec;
    }
    template <class M>
    std::vector<M> told() const {
        std::vector<M> all;
        for (const auto& message : sent)
            if (const auto* found = std::get_if<M>(&message.message)) all.push_back(*found);
        return all;
    }
    SecretSeal seal{Secret(std::string(64, '7'))};
};

TEST_CASE_FIXTURE(Secrets, "a secret is stored, replaced and forgotten, each with its line in the history") {
    CHECK(put("A") == 201);
    CHECK(put("A", "another") == 200);
    CHECK(seal.open("A", (**store->reader().secret("A")).sealed).value().reveal() == "another");
    CHECK(drop("A") == 204);
    CHECK(!store->reader().secret("A")->has_value());
    std::vector<std::string> reasons;
    for (const auto& event : *store->reader().events(JobId{}, 0, 100)) {
        CHECK(event.detail.find("another") == std::string::npos);
        if (event.reason.starts_with("secret_")) reasons.push_back(event.reason + " " + event.detail);
    }
    CHECK(reasons == std::vector<std::string>{"secret_put A", "secret_put A", "secret_dropped A"});
}

TEST_CASE_FIXTURE(Secrets, "a job whose secret is not there waits, and nothing is rented for it") {
    CHECK(put("A") == 201);
    const JobId id = submit(with_secrets({"A", "HF_TOKEN"}));
    pass(std::chrono::minutes{2});
    CHECK(count<CallLaunch>() == 0);
    CHECK(job(id).state == JobState::queued);
    CHECK(job(id).reason == "secret_missing");
    CHECK(job(id).detail.find("HF_TOKEN") != std::string::npos);
    CHECK((**store->reader().decision(id)).json.find(R"("wait_reason":"secret_missing")") != std::string::npos);
    int told_times = 0;
    for (const auto& event : *store->reader().events(id, 0, 100)) told_times += event.reason == "secret_missing" ? 1 : 0;
    CHECK(told_times == 1);

    CHECK(put("HF_TOKEN") == 201);
    pass(Seconds{30});
    const auto call = take<CallLaunch>();
    CHECK(job(id).state == JobState::provisioning);
    launched(call, "i1");
    const auto lease = agent_up(call.machine);
    // Names with empty places: the values are put in by the runtime, when the message leaves.
    CHECK(lease.secret_env == std::map<std::string, std::string>{{"A", ""}, {"HF_TOKEN", ""}});
}

TEST_CASE_FIXTURE(Secrets, "secrets go to vetted hosts only, however cheap another is (I01)") {
    CHECK(put("A") == 201);
    JobSpec spec = with_secrets({"A"});
    SUBCASE("by default") { CHECK(first_launch(spec).request.offer.id == "a"); }
    SUBCASE("unless the job says otherwise") {
        spec.secrets_on_any = true;
        CHECK(first_launch(spec).request.offer.id == "b");
    }
    SUBCASE("others go where it is cheapest") { CHECK(first_launch(on_demand()).request.offer.id == "b"); }
}

TEST_CASE_FIXTURE(Secrets, "a secret that is taken away after the rent gives the machine back and the job waits") {
    CHECK(put("A") == 201);
    JobId id;
    const auto call = first_launch(with_secrets({"A"}), &id);
    launched(call, "i1");
    CHECK(drop("A") == 204);
    const auto lease = agent_up(call.machine);
    CHECK(lease.attempt.empty());
    CHECK(machine(call.machine).state == MachineState::destroying);
    CHECK(job(id).state == JobState::queued);
    CHECK(job(id).reason == "secret_missing");
    CHECK(last_attempt(id).cause == Cause::not_started);
    set_presence("i1", Presence::gone, "gone");
    pass(Seconds{60});
    CHECK(count<CallLaunch>() == 0);
    CHECK(put("A") == 201);
    pass(Seconds{30});
    CHECK(count<CallLaunch>() == 1);
}

TEST_CASE_FIXTURE(Secrets, "a job that runs is not disturbed when its secret is taken away") {
    CHECK(put("A") == 201);
    const Running run = run_one(with_secrets({"A"}), "i1");
    CHECK(job(run.job).state == JobState::running);
    CHECK(drop("A") == 204);
    apply(AgentDisconnected{run.machine, "boot1"});
    apply(AgentConnected{run.machine, "boot1"});
    sent.clear();
    say(run.machine, hello_of(run.attempt, "running"), "boot1", 0);
    pass(Seconds{5});
    CHECK(job(run.job).state == JobState::running);
    // The lease is sent again, without what its holder has already.
    for (const auto& lease : told<ap::Lease>()) CHECK(lease.secret_env.empty());
    exits(run.machine, run.attempt, 0);
    CHECK(job(run.job).state == JobState::succeeded);
}

TEST_CASE_FIXTURE(Secrets, "an agent that has lost its attempt gets nothing more without the secret") {
    CHECK(put("A") == 201);
    const Running run = run_one(with_secrets({"A"}), "i1");
    CHECK(drop("A") == 204);
    apply(AgentDisconnected{run.machine, "boot1"});
    apply(AgentConnected{run.machine, "boot1"});
    sent.clear();
    say(run.machine, hello_of(), "boot1", 0);
    CHECK(told<ap::Lease>().empty());
    CHECK(machine(run.machine).state == MachineState::destroying);
    CHECK(job(run.job).state == JobState::recovering);
    pass(std::chrono::minutes{1});
    CHECK(job(run.job).reason == "secret_missing");
}

TEST_CASE_FIXTURE(Secrets, "after a restart the core knows what it is told, and what does not open is not there") {
    CHECK(put("A") == 201);
    restart();
    const JobId id = submit(with_secrets({"A"}));
    pass(Seconds{30});
    CHECK(job(id).reason == "secret_missing");
    CHECK(count<CallLaunch>() == 0);
    core->set_secrets({{"A", 14}});
    pass(Seconds{30});
    CHECK(count<CallLaunch>() == 1);
}

TEST_CASE_FIXTURE(Secrets, "values that are too large together are waited for, not sent") {
    for (const char* name : {"A", "B", "C", "D", "E"}) CHECK(put(name, std::string(60'000, 'v')) == 201);
    const JobId id = submit(with_secrets({"A", "B", "C", "D", "E"}));
    pass(Seconds{30});
    CHECK(job(id).reason == "secret_missing");
    CHECK(job(id).detail.find("300000 bytes") != std::string::npos);
    CHECK(put("E", "small") == 200);
    pass(Seconds{30});
    CHECK(count<CallLaunch>() == 1);
}

TEST_CASE_FIXTURE(Secrets, "a registry login goes with the create call of a container, and with the lease of a whole machine") {
    JobSpec spec = on_demand();
    spec.image = "ghcr.io/example/private:1";
    spec.image_auth = ImageAuthSpec{.username = "bot", .password_secret = "REGISTRY_TOKEN"};
    SUBCASE("the password has to be there first") {
        const JobId id = submit(spec);
        pass(Seconds{30});
        CHECK(job(id).reason == "secret_missing");
        CHECK(count<CallLaunch>() == 0);
    }
    SUBCASE("a container") {
        CHECK(put("REGISTRY_TOKEN") == 201);
        const auto call = first_launch(spec);
        REQUIRE(call.request.registry);
        CHECK(call.request.registry->server == "ghcr.io");
        CHECK(call.request.registry->username == "bot");
        CHECK(call.request.registry->password.empty());
        launched(call, "i1");
        const auto lease = agent_up(call.machine);
        CHECK(!lease.registry);
        CHECK(lease.secret_env.empty());
    }
    SUBCASE("a whole machine") {
        cloud_can.vm = true;
        restart();
        core->set_secrets({{"REGISTRY_TOKEN", 14}});
        const auto call = first_launch(spec);
        CHECK(!call.request.registry);
        launched(call, "i1");
        const auto lease = agent_up(call.machine);
        CHECK(lease.container);
        REQUIRE(lease.registry);
        CHECK(lease.registry->server == "ghcr.io");
        CHECK(lease.registry->username == "bot");
        CHECK(lease.registry->password.empty());
        CHECK(lease.secret_env.empty());
    }
}

TEST_CASE_FIXTURE(Secrets, "where no registry login is taken only private images wait, and for the cool-down alone (A06)") {
    CHECK(put("REGISTRY_TOKEN") == 201);
    JobSpec spec = on_demand();
    spec.image = "ghcr.io/example/private:1";
    spec.image_auth = ImageAuthSpec{.username = "bot", .password_secret = "REGISTRY_TOKEN"};
    JobId private_job;
    launch_failed(first_launch(spec, &private_job), ErrorKind::not_yet, "registries: HTTP 410");
    pass(Seconds{30});
    CHECK(count<CallLaunch>() == 0);
    CHECK(job(private_job).state == JobState::queued);
    CHECK(store->reader().decision(private_job)->value().json.find("registry_logins_paused") != std::string::npos);
    CHECK(alerts("provider_degraded") == 1);
    CHECK(core->view(now).providers.front().health == "ok");
    // The same offer is there for everybody else.
    JobSpec open_image = on_demand();
    open_image.image = "ghcr.io/example/public:1";
    CHECK(first_launch(open_image).request.offer.id == "b");
    pass(std::chrono::minutes{11});
    REQUIRE(count<CallLaunch>() == 1);
    CHECK(take<CallLaunch>().request.registry);
}

}  // namespace
}  // namespace gf
