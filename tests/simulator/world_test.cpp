// The world without HTTP and without processes: time moves only when a test moves it.
#include "simulator/world.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using namespace gf;
using namespace gf::sim;

namespace {

struct Bench {
    Clock clock{instant_of(wall_micros() / 1000), 0.000'001};
    World world;
    ModelMachines machines;

    explicit Bench(const std::function<void(Settings&)>& adjust = {})
        : world(clock, settings(adjust), market(), 1),
          machines([this](MachineEvent e) { world.post(std::move(e)); }) {
        world.use(machines);
    }

    static Settings settings(const std::function<void(Settings&)>& adjust) {
        Settings s;
        s.runpod_balance = s.vastai_balance = 50'000'000;
        if (adjust) adjust(s);
        return s;
    }

    /// One Vast host with four cards at $0.40, floor $0.20, and one RunPod host with two.
    static Market market() {
        Market m;
        Host vast;
        vast.provider = Provider::vastai;
        vast.id = 100;
        vast.gpu = "RTX-4090";
        vast.gpus = 4;
        vast.price_per_gpu = 400'000;
        vast.floor_per_gpu = 200'000;
        vast.storage_per_gb = 144'000;
        vast.lease_s = 10 * 86'400;
        m.put(vast);
        Host runpod;
        runpod.provider = Provider::runpod;
        runpod.id = 200;
        runpod.gpu = "RTX-4090";
        runpod.gpus = 2;
        m.put(runpod);
        return m;
    }

    void pass(double seconds) {
        clock.advance(Millis{static_cast<std::int64_t>(seconds * 1000)});
        world.advance();
    }

    Rental& vast(int gpus, std::optional<std::int64_t> bid_per_gpu = {}) {
        Rental r;
        r.provider = Provider::vastai;
        r.host = 100;
        r.gpu = "RTX-4090";
        r.gpus = gpus;
        r.is_bid = bid_per_gpu.has_value();
        r.bid_per_hour = bid_per_gpu.value_or(0) * gpus;
        r.gpu_per_hour = bid_per_gpu.value_or(400'000) * gpus;
        r.disk_gb_milli = 10'000;
        r.disk_per_month = r.disk_per_month_stopped = 1'440'000;
        return world.rent(std::move(r));
    }

    Rental& runpod(int gpus) {
        Rental r;
        r.provider = Provider::runpod;
        r.host = 200;
        r.gpu = "RTX-4090";
        r.gpus = gpus;
        r.gpu_per_hour = 690'000 * gpus;
        r.disk_per_month = 7'200'000;
        r.disk_per_month_stopped = 14'400'000;
        r.volume_gb = 72;
        return world.rent(std::move(r));
    }

    const Host& host(std::int64_t id) { return *world.market().host(id); }
};

}  // namespace

TEST_CASE("a Vast instance goes silent, created, loading, running, and its GPU is billed from running on") {
    Bench b;
    auto& r = b.vast(2);
    CHECK(r.phase == Phase::accepted);
    b.pass(1);
    CHECK(r.phase == Phase::created);
    b.pass(1);
    CHECK(r.phase == Phase::loading);
    b.pass(4);
    REQUIRE(r.phase == Phase::running);
    b.world.accrue(r);
    CHECK(r.bill.gpu().micros == 0);
    CHECK(r.bill.disk().micros == 3);  // 6 s of $1.44 per 720 h
    b.pass(3600);
    b.world.accrue(r);
    CHECK(r.bill.gpu().micros == 800'000);
    CHECK(r.bill.disk().micros == 2003);
}

TEST_CASE("a jump over many steps bills each at its own moment") {
    Bench b;
    auto& r = b.vast(1);
    b.pass(3600);
    // 6 s until it starts, which in one jump happens at its end: processes start in real time.
    CHECK(r.phase == Phase::running);
    b.pass(3600);
    b.world.accrue(r);
    CHECK(r.bill.gpu().micros == 400'000);
}

TEST_CASE("a RunPod pod is billed from the rent, and at the stopped disk price when stopped") {
    Bench b;
    auto& r = b.runpod(1);
    b.pass(3600);
    b.world.accrue(r);
    CHECK(r.bill.gpu().micros == 690'000);
    CHECK(r.bill.disk().micros == 10'000);
    b.world.stop(r, Halt::asked, Millis{0});
    b.pass(0);
    REQUIRE(r.phase == Phase::stopped);
    b.pass(3600);
    b.world.accrue(r);
    CHECK(r.bill.gpu().micros == 690'000);
    CHECK(r.bill.disk().micros == 30'000);
}

TEST_CASE("on-demand beats bids, and among bids the highest wins") {
    Bench b;
    auto& low = b.vast(2, 210'000);
    auto& high = b.vast(2, 300'000);
    b.pass(10);
    CHECK(low.phase == Phase::running);
    CHECK(high.phase == Phase::running);
    CHECK(b.world.free_gpus(b.host(100)) == 4);           // for on-demand
    CHECK(b.world.free_gpus(b.host(100), 250'000) == 2);  // for a bid between the two
    CHECK(b.world.free_gpus(b.host(100), 200'000) == 0);
    auto& fixed = b.vast(2);
    b.pass(0);
    CHECK(low.phase == Phase::stopped);
    CHECK(low.halt == Halt::outbid);
    CHECK(high.phase == Phase::running);
    b.pass(10);
    CHECK(fixed.phase == Phase::running);
    // It resumes by itself once there is room.
    b.world.destroy(fixed, Millis{3000});
    b.pass(60);
    CHECK(low.phase == Phase::running);
    CHECK(low.starts == 2);
}

TEST_CASE("a risen floor takes a bid away, bills its storage only, and a fallen one brings it back") {
    for (const bool keeps : {true, false}) {
        Bench b([&](Settings& s) { s.vastai_outbid_keeps_intent = keeps; });
        auto& r = b.vast(1, 250'000);
        b.pass(6);
        REQUIRE(r.phase == Phase::running);
        b.pass(3600);
        b.world.market().host(100)->floor_per_gpu = 260'000;
        b.world.market_changed();
        b.pass(0);
        CHECK(r.phase == Phase::stopped);
        CHECK(r.want_running == keeps);
        b.pass(7200);
        b.world.accrue(r);
        CHECK(r.bill.gpu().micros == 250'000);
        CHECK(r.bill.disk().micros == 6003);
        b.world.market().host(100)->floor_per_gpu = 240'000;
        b.world.market_changed();
        b.pass(10);
        CHECK(r.phase == Phase::running);
    }
}

TEST_CASE("a take-back takes this machine only, for as long as told") {
    Bench b;
    auto& taken = b.vast(1, 250'000);
    auto& other = b.vast(1, 210'000);
    b.pass(10);
    b.world.take_back(taken, std::nullopt, std::chrono::minutes(5));
    b.pass(0);
    CHECK(taken.phase == Phase::stopped);
    CHECK(taken.halt == Halt::outbid);
    CHECK(other.phase == Phase::running);
    CHECK(b.world.free_gpus(b.host(100)) == 3);
    b.pass(299);
    CHECK(taken.phase == Phase::stopped);
    b.pass(2);
    b.pass(10);
    CHECK(taken.phase == Phase::running);
    CHECK(b.host(100).taken == 0);
}

TEST_CASE("the GPUs of a take-back come back in time even if the machine was given up") {
    Bench b;
    auto& r = b.vast(1, 250'000);
    b.pass(10);
    b.world.take_back(r, std::nullopt, std::chrono::minutes(5));
    b.world.destroy(r, Millis{0});
    b.pass(10);
    CHECK(b.host(100).taken == 1);
    b.pass(300);
    CHECK(b.host(100).taken == 0);
}

TEST_CASE("every rental on a bad host fails in the host's way") {
    Bench b;
    b.world.market().host(100)->fails = "docker_fails";
    b.world.market().host(200)->fails = "never_runs";
    auto& vast = b.vast(1);
    auto& pod = b.runpod(1);
    b.pass(3600);
    CHECK(vast.phase == Phase::created);
    CHECK(vast.status_msg.contains(": OCI runtime create failed:"));
    CHECK(pod.phase == Phase::loading);
    CHECK(pod.starts == 0);
}

TEST_CASE("a RunPod take-back gives SIGTERM its grace and leaves the host full") {
    Bench b;
    auto& r = b.runpod(2);
    b.pass(10);
    REQUIRE(r.phase == Phase::running);
    b.world.take_back(r, std::nullopt, std::nullopt);
    CHECK(r.phase == Phase::stopping);
    b.pass(4.9);
    CHECK(r.phase == Phase::stopping);  // modelled machines ignore SIGTERM
    b.pass(0.2);
    CHECK(r.phase == Phase::stopped);
    CHECK(r.halt == Halt::taken_back);
    CHECK(b.world.start(r) == StartOutcome::host_full);
    b.world.give_back(r);
    CHECK(b.world.start(r) == StartOutcome::started);
}

TEST_CASE("a Vast start without a free GPU is queued and happens later by itself") {
    Bench b;
    auto& r = b.vast(3);
    b.pass(10);
    b.world.stop(r, Halt::asked, Millis{2000});
    b.pass(3);
    REQUIRE(r.phase == Phase::stopped);
    auto& next = b.vast(3);
    b.pass(10);
    CHECK(b.world.start(r) == StartOutcome::queued);
    CHECK(r.phase == Phase::queued);
    b.world.destroy(next, Millis{0});
    b.pass(10);
    CHECK(r.phase == Phase::running);
}

TEST_CASE("an end that nobody asked for: Vast says exited, RunPod starts again with growing pauses") {
    Bench b;
    auto& vast = b.vast(1);
    auto& pod = b.runpod(1);
    b.pass(10);
    b.machines.kill(vast.id);
    b.machines.kill(pod.id);
    b.pass(0);
    CHECK(vast.phase == Phase::exited);
    CHECK(vast.exit_signal == 9);
    CHECK(pod.phase == Phase::loading);
    b.pass(1.1);
    CHECK(pod.phase == Phase::running);
    CHECK(pod.starts == 2);
    CHECK(b.machines.started().back().wipe);
    b.machines.kill(pod.id);
    b.pass(0);
    b.pass(1.1);
    CHECK(pod.phase == Phase::loading);  // two seconds this time
    b.pass(1);
    CHECK(pod.phase == Phase::running);
    b.pass(600);
    CHECK(vast.phase == Phase::exited);
}

TEST_CASE("no credit stops everything, and later takes the data") {
    Bench b;
    auto& vast = b.vast(4);
    auto& pod = b.runpod(1);
    auto& volume_pod = b.runpod(1);
    volume_pod.network_volume = "vol";
    b.pass(10);
    b.world.set_balance(Provider::vastai, Usd{1'000'000});
    b.world.set_balance(Provider::runpod, Usd{1'000'000});
    b.pass(3600);
    b.pass(6);
    CHECK(vast.phase == Phase::stopped);
    CHECK(vast.halt == Halt::no_money);
    CHECK(pod.phase == Phase::gone);
    CHECK(volume_pod.phase == Phase::stopped);
    b.pass(24 * 3600);
    CHECK(b.world.balance(Provider::vastai).micros < 0);  // storage bills on
    CHECK(vast.exists());
    b.pass(25 * 3600);
    CHECK_FALSE(vast.exists());
}

TEST_CASE("at the end of its contract an instance stops, cannot start, and is deleted 48 h later") {
    Bench b([](Settings& s) { s.vastai_balance = 1'000'000'000; });
    auto& r = b.vast(1);
    b.pass(10);
    b.pass(10 * 86'400);
    CHECK(r.phase == Phase::stopped);
    CHECK(r.halt == Halt::lease_end);
    CHECK(b.world.start(r) == StartOutcome::lease_over);
    b.pass(47 * 3600);
    CHECK(r.exists());
    b.pass(3600);
    CHECK_FALSE(r.exists());
}

TEST_CASE("an offline Vast host costs nothing") {
    Bench b;
    auto& r = b.vast(1);
    b.pass(10);
    b.world.set_offline(r, true, true);
    b.world.accrue(r);
    const auto before = r.bill.total();
    b.pass(3600);
    b.world.accrue(r);
    CHECK(r.bill.total() == before);
    b.world.set_offline(r, false, true);
    b.pass(3600);
    b.world.accrue(r);
    CHECK(r.bill.total().micros >= before.micros + 400'000);
}

TEST_CASE("balances are deposits minus the bills of live and gone machines") {
    Bench b;
    auto& r = b.runpod(1);
    b.pass(3600);
    b.world.destroy(r, Millis{0});
    b.pass(3600);
    CHECK(b.world.balance(Provider::runpod).micros == 50'000'000 - 700'000);
    CHECK(b.world.burn_per_hour(Provider::runpod) == 0);
    CHECK(b.world.billed(Provider::vastai).micros == 0);
}

TEST_CASE("the same seed makes the same ids") {
    Bench a;
    Bench b;
    CHECK(a.runpod(1).id == b.runpod(1).id);
    CHECK(a.vast(1).container_key == b.vast(1).container_key);
    CHECK(a.runpod(1).id.size() == 14);
}

TEST_CASE("a container gets what the client sent, the provider's own variables and nothing else") {
    Bench b;
    Rental r;
    r.provider = Provider::vastai;
    r.host = 100;
    r.gpu = "RTX-4090";
    r.gpus = 1;
    r.image = "img";
    r.runtype = "args";
    r.onstart = "/bin/sh";
    r.arg_list = {"-c", "true"};
    r.env = {{"A", "1"}, {"-p 8000:8000", "1"}, {"-h box", "1"}};
    r.ports = {"8000/tcp"};
    auto& rented = b.world.rent(std::move(r));
    b.pass(10);
    REQUIRE(b.machines.started().size() == 1);
    const auto& spec = b.machines.started()[0];
    CHECK(spec.argv == std::vector<std::string>{"/bin/sh", "-c", "true"});
    CHECK(spec.hostname == "box");
    std::map<std::string, std::string> env(spec.env.begin(), spec.env.end());
    CHECK(env.size() == spec.env.size());
    CHECK(env["A"] == "1");
    CHECK(env["CONTAINER_ID"] == rented.id);
    CHECK(env["VAST_CONTAINERLABEL"] == "C." + rented.id);
    CHECK(env["CONTAINER_API_KEY"] == rented.container_key);
    CHECK(env["GPU_COUNT"] == "1");
    CHECK(env.contains("VAST_TCP_PORT_8000"));
    CHECK_FALSE(env.contains("-p 8000:8000"));
    CHECK(spec.gpu_facts.contains("|NVIDIA GeForce RTX 4090|24564|"));
}
