// Machines that are reached by an ssh tunnel: when one is asked for, and that a tunnel's troubles are no loss (D02).
#include "tests/orchestrator/bench.hpp"

namespace gf {
namespace {

struct Tunnelled : Market {
    Tunnelled() {
        cloud_can.ssh = cloud_can.vm = true;
        restart();
        apply(Tick{});
        answer_market();
    }
    SshEndpoint at(int port) { return {.host = "203.0.113.5", .port = port, .user = "ubuntu"}; }
    /// The provider shows where its sshd is, from now on.
    void shows(const std::string& id, std::optional<SshEndpoint> to, Presence presence = Presence::running) {
        reads[id].ssh = to;
        reads[id].presence = presence;
        for (auto& m : listing["cloud"])
            if (m.id.get() == id) m.ssh = to, m.presence = presence;
    }
    std::vector<OpenTunnel> opened() {
        std::vector<OpenTunnel> out;
        for (const auto& call : calls)
            if (const auto* found = std::get_if<OpenTunnel>(&call)) out.push_back(*found);
        std::erase_if(calls, [](const Effect& call) { return std::holds_alternative<OpenTunnel>(call); });
        return out;
    }
    std::vector<EventRecord> tunnel_events(const JobId& id) {
        std::vector<EventRecord> out;
        for (const auto& event : *store->reader().events(id, 0, 1000))
            if (event.kind == "tunnel") out.push_back(event);
        return out;
    }
};

TEST_CASE_FIXTURE(Tunnelled, "a tunnel is asked for when the machine runs and shows its sshd, once per place") {
    JobId id;
    const CallLaunch call = first_launch(on_demand(), &id);
    launched(call, "i1");
    pass(Seconds{15});
    CHECK(opened().empty());  // no address yet
    shows("i1", at(22), Presence::booting);
    pass(Seconds{15});
    CHECK(opened().empty());
    shows("i1", at(22));
    pass(Seconds{15});
    auto open = opened();
    REQUIRE(open.size() == 1);
    CHECK(open[0].machine == call.machine);
    CHECK(open[0].to == at(22));
    pass(Seconds{40});
    CHECK(opened().empty());
    shows("i1", std::nullopt);  // not told this time is not moved
    pass(Seconds{15});
    CHECK(opened().empty());
    shows("i1", at(30022));
    pass(Seconds{15});
    open = opened();
    REQUIRE(open.size() == 1);
    CHECK(open[0].to == at(30022));
    // Another life of the daemon finds it in the listing again.
    restart();
    apply(Tick{});
    answer_market();
    CHECK(opened().size() == 1);
    CHECK(count<CloseTunnel>() == 0);
}

TEST_CASE_FIXTURE(Tunnelled, "a tunnel for which nothing was left here is asked for again, and told once") {
    JobId id;
    const CallLaunch call = first_launch(on_demand(), &id);
    launched(call, "i1");
    shows("i1", at(22));
    pass(Seconds{15});
    CHECK(opened().size() == 1);
    for (int i = 0; i < 5; ++i) {
        apply(TunnelChanged{call.machine, false, "too_many: Resource temporarily unavailable"});
        CHECK(opened().empty());  // not at once: it would be refused again
        pass(Seconds{15});
        CHECK(opened().size() == 1);
    }
    CHECK(tunnel_events(id).size() == 1);
    apply(TunnelChanged{call.machine, true, "up: ubuntu@203.0.113.5:22, port 23456 there"});
    pass(Seconds{40});
    CHECK(opened().empty());
    CHECK(tunnel_events(id).size() == 2);
}

TEST_CASE_FIXTURE(Tunnelled, "after a restart a machine that worked is gone to also while its provider does not say that it runs") {
    const Running a = run_one(on_demand(), "i1");
    shows("i1", at(22), Presence::unknown);  // Lambda's "unhealthy"
    restart();
    apply(Tick{});
    answer_market();
    pass(Seconds{15});
    const auto open = opened();
    REQUIRE(open.size() == 1);
    CHECK(open[0].machine == a.machine);
    CHECK(open[0].to == at(22));
}

TEST_CASE_FIXTURE(Tunnelled, "a machine that boots is not gone to before its provider says that it runs") {
    const CallLaunch call = first_launch(on_demand());
    launched(call, "i1");
    shows("i1", at(22), Presence::unknown);
    pass(Seconds{40});
    CHECK(opened().empty());
    shows("i1", at(22));
    pass(Seconds{15});
    CHECK(opened().size() == 1);
}

TEST_CASE_FIXTURE(Tunnelled, "a tunnel ends with its machine, whichever way that ends") {
    JobId id;
    const CallLaunch call = first_launch(on_demand(), &id);
    SUBCASE("refused: what was made for it before the launch goes") {
        launch_failed(call, ErrorKind::no_capacity);
        CHECK(count<CloseTunnel>() == 1);
    }
    SUBCASE("cancelled before an agent spoke") {
        launched(call, "i1");
        shows("i1", at(22));
        pass(Seconds{15});
        CHECK(opened().size() == 1);
        command(id, JobVerb::cancel);
        CHECK(count<CloseTunnel>() == 1);
    }
    SUBCASE("vanished") {
        launched(call, "i1");
        shows("i1", at(22));
        pass(Seconds{15});
        set_presence("i1", Presence::gone, "gone");
        pass(std::chrono::minutes{5});
        CHECK(count<CloseTunnel>() >= 1);
        CHECK(machine(call.machine).state == MachineState::gone);
    }
}

TEST_CASE_FIXTURE(Tunnelled, "a provider whose machines dial us gets no tunnel") {
    cloud_can = {};
    restart();
    apply(Tick{});
    answer_market();
    const CallLaunch call = first_launch(on_demand());
    launched(call, "i1");
    shows("i1", at(22));
    pass(Seconds{30});
    CHECK(opened().empty());
    launch_failed(call, ErrorKind::no_capacity);
    CHECK(count<CloseTunnel>() == 0);
}

TEST_CASE_FIXTURE(Tunnelled, "a tunnel that is down ten times in an hour is told and is no loss (D02)") {
    const Running a = run_one(on_demand(), "i1");
    shows("i1", at(22));
    pass(Seconds{15});
    for (int i = 0; i < 10; ++i) {
        apply(TunnelChanged{a.machine, false, "connection_lost: ubuntu@203.0.113.5:22: Timeout, server not responding."});
        apply(AgentDisconnected{a.machine, "boot1"});
        pass(Seconds{120});
        CHECK(machine(a.machine).reason == "unreachable");
        apply(TunnelChanged{a.machine, true, "up: ubuntu@203.0.113.5:22, port 23456 there"});
        apply(AgentConnected{a.machine, "boot1"});
        say(a.machine, hello_of(a.attempt, "running"), "boot1", 0);
        pass(Seconds{240});
    }
    CHECK(job(a.job).attempts == 1);
    CHECK(job(a.job).state == JobState::running);
    CHECK(machine(a.machine).state == MachineState::busy);
    CHECK(count<CallLaunch>() == 0);
    const auto told = tunnel_events(a.job);
    REQUIRE(told.size() == 20);
    CHECK(told[0].state == "down");
    CHECK(told[0].reason == "connection_lost");
    CHECK(told[0].detail == "ubuntu@203.0.113.5:22: Timeout, server not responding.");
    CHECK(told[1].state == "up");
    CHECK(machine(a.machine).agent_detail.find("port 23456 there") != std::string::npos);
    CHECK(machine(a.machine).agent_detail.find("cuda_probe") != std::string::npos);  // what the check found stays
}

TEST_CASE_FIXTURE(Tunnelled, "another host key raises an alert, once, until the machine shows its own again") {
    const Running a = run_one(on_demand(), "i1");
    shows("i1", at(22));
    pass(Seconds{15});
    const TunnelChanged stranger{a.machine, false, "host_key_changed: ubuntu@203.0.113.5:22 shows another host key"};
    apply(stranger);
    apply(stranger);
    CHECK(alerts("host_key_changed") == 1);
    CHECK(job(a.job).state == JobState::running);
    apply(TunnelChanged{a.machine, true, "up: ubuntu@203.0.113.5:22"});
    for (const auto& alert : *store->reader().alerts(false, 100))
        if (alert.kind == "host_key_changed") CHECK(alert.cleared_at.has_value());
    apply(stranger);
    CHECK(alerts("host_key_changed") == 2);
    CHECK(command(a.job, JobVerb::cancel) == 200);
    pass(std::chrono::minutes{3});
    for (const auto& alert : *store->reader().alerts(false, 100))
        if (alert.kind == "host_key_changed") CHECK(alert.cleared_at.has_value());
    apply(stranger);  // late news of a machine that is on its way out
    CHECK(alerts("host_key_changed") == 2);
}

TEST_CASE_FIXTURE(Tunnelled, "a machine that never let us in says why when its time is over") {
    JobId id;
    const CallLaunch call = first_launch(on_demand(), &id);
    launched(call, "i1");
    shows("i1", at(22));
    pass(Seconds{15});
    apply(TunnelChanged{call.machine, false, "login_refused: ubuntu@203.0.113.5:22: Permission denied (publickey)."});
    pass(std::chrono::minutes{21});
    CHECK(machine(call.machine).state == MachineState::destroying);
    const auto attempts = *store->reader().attempts(id);
    REQUIRE(!attempts.empty());
    CHECK(attempts[0].cause == Cause::start_timeout);
    CHECK(attempts[0].detail.find("Permission denied (publickey)") != std::string::npos);
}

}  // namespace
}  // namespace gf
