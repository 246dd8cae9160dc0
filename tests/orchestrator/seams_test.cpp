// Where two things meet at the wrong moment: a restart in the middle of a stop, an agent that is faster than the provider's
// answer, a machine that comes back, a machine that vanished while nobody looked.
#include "tests/orchestrator/bench.hpp"

namespace gf {
namespace {
namespace ap = agent_protocol;

struct Seam : Market {
    template <class M>
    std::vector<M> told() const {
        std::vector<M> all;
        for (const auto& message : sent)
            if (const auto* found = std::get_if<M>(&message.message)) all.push_back(*found);
        return all;
    }
    std::vector<LedgerRecord> ledger(const JobId& id) { return *store->reader().ledger(id, instant_of(0), now + std::chrono::hours{1}); }
};

TEST_CASE_FIXTURE(Seam, "a cancel outlives a restart of the daemon (E01)") {
    const Running a = run_one(on_demand(), "i1");
    CHECK(command(a.job, JobVerb::cancel) == 200);
    now += Seconds{5};
    restart();
    SUBCASE("the agent comes back and is told again") {
        apply(Tick{});
        apply(AgentConnected{a.machine, "boot1"});
        sent.clear();
        say(a.machine, hello_of(a.attempt, "running"), "boot1", 0);
        CHECK(told<ap::Lease>().empty());
        REQUIRE(told<ap::Stop>().size() == 1);
        CHECK(!told<ap::Stop>()[0].checkpoint);
        ap::Exited over;
        over.attempt = a.attempt;
        over.signal = 15;
        over.reason = "stopped";
        say(a.machine, over);
        CHECK(job(a.job).state == JobState::cancelled);
        CHECK(machine(a.machine).state == MachineState::destroying);
    }
    SUBCASE("the agent never comes back: its grace is over one day") {
        pass(std::chrono::minutes{3});
        CHECK(job(a.job).state == JobState::cancelled);
        CHECK(machine(a.machine).state == MachineState::destroying);
    }
}

TEST_CASE_FIXTURE(Seam, "no money while a job is being cancelled ends the cancel, not the daemon") {
    const Running a = run_one(on_demand(), "i1");
    apply(BalanceSeen{ProviderName{"cloud"}, Usd{0}});
    CHECK(command(a.job, JobVerb::cancel) == 200);
    CHECK(job(a.job).state == JobState::stopping);
    set_presence("i1", Presence::stopped, "EXITED");
    pass(Seconds{11});
    CHECK(job(a.job).state == JobState::cancelled);
}

TEST_CASE_FIXTURE(Seam, "an agent that is faster than the answer to the create gets its lease when the answer comes (A02, A09)") {
    JobId id;
    const CallLaunch call = first_launch(on_demand(), &id);
    apply(AgentConnected{call.machine, "boot1"});
    say(call.machine, hello_of(), "boot1", 0);
    CHECK(told<ap::Lease>().empty());  // nobody has told the machine's id yet: it could not be destroyed
    SUBCASE("by the answer") { launched(call, "i1"); }
    SUBCASE("by its tag in a listing, after an unclear answer") {
        launch_failed(call, ErrorKind::unknown_outcome, "502");
        listing["cloud"] = {alive("i1", call)};
        reads["i1"] = listing["cloud"].front();
        pass(Seconds{15});
    }
    answer_market();  // what is billed
    CHECK(told<ap::Lease>().size() == 1);
    CHECK(machine(call.machine).state == MachineState::busy);
    CHECK(machine(call.machine).provider_id.get() == "i1");
    CHECK(job(id).state == JobState::starting);
}

TEST_CASE_FIXTURE(Seam, "the machine's own switch does not fire before limits.duration") {
    JobSpec spec = on_demand();
    spec.limits.duration = std::chrono::hours{2};
    JobId id;
    const CallLaunch call = first_launch(spec, &id);
    now += std::chrono::minutes{5};  // the create took its time
    launched(call, "i1");
    now += std::chrono::minutes{3};
    const ap::Lease lease = agent_up(call.machine);
    CHECK(lease.duration_ms == Millis{std::chrono::hours{2}}.count());
    // The command may still take `start` to begin, and has its grace at the end.
    CHECK(lease.dead_man_ms >= lease.duration_ms + Millis{std::chrono::minutes{20}}.count());
    CHECK(store->reader().reservations(id)->front().until >= now + std::chrono::hours{2});
    // Should it fire all the same when the time is over, the time was over.
    now += std::chrono::hours{2};
    ap::Exited over;
    over.attempt = lease.attempt;
    over.signal = 9;
    over.reason = "dead_man";
    say(call.machine, over);
    CHECK(job(id).state == JobState::failed);
    CHECK(job(id).reason == "duration");
    pass(Seconds{30});
    CHECK(count<CallLaunch>() == 0);
}

TEST_CASE_FIXTURE(Seam, "a loss after all of limits.duration was used rents nothing more") {
    JobSpec spec = spot();
    spec.limits.duration = std::chrono::hours{1};
    const Running a = run_one(spec, "s1");
    now += std::chrono::hours{1};
    set_presence("s1", Presence::gone, "null");
    pass(Seconds{30});
    CHECK(job(a.job).state == JobState::failed);
    CHECK(job(a.job).reason == "duration");
}

TEST_CASE_FIXTURE(Seam, "an interrupted machine with the only copy comes back and may hand it in") {
    const Running a = run_one(spot(), "s1");
    pass(std::chrono::minutes{25});  // older than the start time-out
    set_presence("s1", Presence::stopped, "outbid");
    pass(Seconds{11});
    CHECK(machine(a.machine).state == MachineState::interrupted);
    pass(std::chrono::minutes{6});
    set_presence("s1", Presence::running, "running");
    pass(Seconds{11});
    CHECK(machine(a.machine).state == MachineState::booting);
    pass(Seconds{20});
    REQUIRE(machine(a.machine).state == MachineState::booting);
    apply(AgentConnected{a.machine, "boot2"});
    say(a.machine, hello_of(), "boot2", 0);
    SUBCASE("and does") {
        CHECK(offer_checkpoint(a.machine, a.attempt, "m1", 500) == 200);
        pass(Seconds{5});
        CHECK(last_attempt(a.job).number == 2);  // at once, not when the patience is over
        CHECK(last_attempt(a.job).start_generation == 1);
    }
    SUBCASE("and does not: it is kept until the patience is over, no longer") {
        pass(std::chrono::minutes{2});
        CHECK(machine(a.machine).state == MachineState::ready);
        pass(std::chrono::minutes{12});
        CHECK(machine(a.machine).state != MachineState::ready);
        CHECK(last_attempt(a.job).number >= 2);
    }
}

TEST_CASE_FIXTURE(Seam, "a cancel gives up the machine that was kept for its copy") {
    const Running a = run_one(spot(), "s1");
    set_presence("s1", Presence::stopped, "outbid");
    pass(Seconds{11});
    REQUIRE(machine(a.machine).state == MachineState::interrupted);
    CHECK(command(a.job, JobVerb::cancel) == 200);
    CHECK(job(a.job).state == JobState::cancelled);
    CHECK(machine(a.machine).state == MachineState::destroying);
}

TEST_CASE_FIXTURE(Seam, "a stored spec that no longer parses stops nothing that runs, and nothing that has not begun starts") {
    SUBCASE("running") {
        const Running a = run_one(on_demand(), "i1");
        restart(false);
        apply(AgentConnected{a.machine, "boot1"});
        say(a.machine, hello_of(a.attempt, "running"), "boot1", 0);
        pass(Seconds{60});
        CHECK(job(a.job).state == JobState::running);
        exits(a.machine, a.attempt, 0);
        CHECK(job(a.job).state == JobState::succeeded);
    }
    SUBCASE("not begun") {
        JobId id;
        const CallLaunch call = first_launch(on_demand(), &id);
        launched(call, "i1");
        restart(false);
        apply(AgentConnected{call.machine, "boot1"});
        say(call.machine, hello_of(), "boot1", 0);
        pass(Seconds{2});
        CHECK(job(id).state == JobState::failed);
        CHECK(job(id).reason == "spec_unreadable");
        CHECK(machine(call.machine).state == MachineState::destroying);
    }
}

TEST_CASE_FIXTURE(Seam, "a machine that vanished while nobody looked is billed to its last sight, and says that this is the least (E04, P4)") {
    const Running a = run_one(on_demand(), "i1");
    pass(std::chrono::minutes{10});
    const Instant last = now;
    set_presence("i1", Presence::gone, "404");
    now += std::chrono::hours{3};
    restart();
    pass(Seconds{60});
    CHECK(machine(a.machine).state == MachineState::gone);
    Millis billed{0};
    bool unknown = false;
    for (const auto& row : ledger(a.job)) {
        if (row.machine != a.machine) continue;
        REQUIRE(row.until.has_value());
        if (row.gpu_rate.micros > 0) billed += *row.until - row.from;
        unknown = unknown || !row.rate_known;
    }
    CHECK(unknown);
    CHECK(billed >= std::chrono::minutes{8});
    CHECK(billed <= last - ledger(a.job).front().from + Seconds{11});
}

TEST_CASE_FIXTURE(Seam, "a machine that vanished while it was looked at is billed to the second, without a doubt") {
    const Running a = run_one(on_demand(), "i1");
    pass(std::chrono::minutes{10});
    set_presence("i1", Presence::gone, "404");
    const Instant gone = now;
    pass(Seconds{60});
    for (const auto& row : ledger(a.job)) {
        if (row.machine != a.machine) continue;
        CHECK(row.rate_known);
        CHECK(*row.until <= gone + Seconds{11});
    }
}

TEST_CASE_FIXTURE(Seam, "limits.wait goes on through refused creates") {
    JobSpec spec = on_demand();
    spec.limits.wait = Seconds{600};
    const JobId id = submit(spec);
    for (int i = 0; i < 640 && job(id).state != JobState::failed; ++i) {
        pass(Seconds{1});
        if (count<CallLaunch>() > 0) {
            launch_failed(take<CallLaunch>(), ErrorKind::no_capacity, "no capacity");
            offers["cloud"] = {offer("cloud", "n" + std::to_string(i), 300'000)};  // the market shows another one each time
        }
    }
    CHECK(job(id).state == JobState::failed);
    CHECK(job(id).reason == "wait_limit");
    CHECK(job(id).attempts > 3);
}

TEST_CASE_FIXTURE(Seam, "a silent machine is shown as unreachable until it speaks again (D02)") {
    const Running a = run_one(on_demand(), "i1");
    pass(Seconds{100});
    CHECK(machine(a.machine).state == MachineState::busy);
    CHECK(machine(a.machine).reason == "unreachable");
    CHECK(job(a.job).state == JobState::running);
    say(a.machine, ap::Heartbeat{});
    CHECK(machine(a.machine).reason == "agent_back");
}

TEST_CASE_FIXTURE(Seam, "failing reads of a silent machine grow apart") {
    const Running a = run_one(on_demand(), "i1");
    reads.clear();  // not answered by the bench
    int asked = 0;
    for (int i = 0; i < 400; ++i) {
        pass(Seconds{1});
        if (count<CallRead>() == 0) continue;
        const CallRead call = take<CallRead>();
        ++asked;
        apply(ReadEnded{call.machine, call.call_seq, now, now, fail(ErrorKind::unavailable, "503")});
    }
    CHECK(job(a.job).state == JobState::running);
    CHECK(asked > 2);
    CHECK(asked < 15);
}

TEST_CASE_FIXTURE(Seam, "a job that ran out of memory gets a machine with more of it") {
    offers["cloud"][0].memory = Bytes{32 * kGB};
    offers["cloud"][1].memory = Bytes{64 * kGB};
    restart();  // so that the market is read again
    apply(Tick{});
    answer_market();
    const Running a = run_one(on_demand(), "i1");
    ap::Exited over;
    over.attempt = a.attempt;
    over.signal = 9;
    over.host_oom = true;
    say(a.machine, over);
    CHECK(last_attempt(a.job).cause == Cause::host_oom);
    for (int i = 0; i < 60 && count<CallLaunch>() == 0; ++i) pass(Seconds{1});
    CHECK(take<CallLaunch>().request.offer.id == "b");
}

TEST_CASE_FIXTURE(Seam, "retention counts whole generations, and leaves what was set aside alone (F01)") {
    JobSpec spec = spot();
    spec.checkpoint.keep = 2;
    const Running a = run_one(spec, "s1");
    CHECK(offer_checkpoint(a.machine, a.attempt, "m1", 1) == 200);
    CHECK(offer_checkpoint(a.machine, a.attempt, "m2", 2) == 200);
    apply(CheckpointBroken{next_request++, a.machine, AttemptId{a.attempt}, 2, "hash"});
    CHECK(offer_checkpoint(a.machine, a.attempt, "m3", 3) == 200);
    const auto states = [&] {
        std::string all;
        for (const auto& row : *store->reader().checkpoints(a.job)) all += std::string(text(row.state)) + " ";
        return all;
    };
    CHECK(states() == "whole quarantined whole ");
    CHECK(offer_checkpoint(a.machine, a.attempt, "m4", 4) == 200);
    CHECK(states() == "pruned quarantined whole whole ");
}

TEST_CASE_FIXTURE(Seam, "the alert about a second machine under a tag says what is done, and ends with it") {
    const Running a = run_one(on_demand(), "i1");
    ProviderMachine second = reads["i1"];
    second.id = ProviderMachineId{"i2"};
    reads["i2"] = second;
    listing["cloud"].push_back(second);
    pass(Seconds{15});
    auto open = *store->reader().alerts(true, 10);
    REQUIRE(open.size() == 1);
    CHECK(open[0].severity == "warning");
    CHECK(open[0].text.find("second machine") != std::string::npos);
    CHECK(open[0].text.find("rolled back") == std::string::npos);
    const CallDestroy destroy = take<CallDestroy>();
    CHECK(destroy.id.get() == "i2");
    set_presence("i2", Presence::gone, "404");
    apply(DestroyEnded{destroy.machine, destroy.call_seq, now, now, {}});
    pass(Seconds{10});
    CHECK(store->reader().alerts(true, 10)->empty());
    CHECK(job(a.job).state == JobState::running);
}

TEST_CASE_FIXTURE(Seam, "a task that leaves an unclear create behind goes to another provider only (6.1)") {
    JobSpec spec = on_demand();
    bool elsewhere = false;
    SUBCASE("where there is none it waits") {}
    SUBCASE("where there is one it goes") { elsewhere = true; }
    if (elsewhere) {
        spec.resources.providers = {"cloud", "market"};
        offers["market"].push_back(offer("market", "m", 900'000));
    }
    const CallLaunch call = first_launch(spec);
    CHECK(call.request.offer.id == "a");
    launch_failed(call, ErrorKind::unknown_outcome, "time-out");
    listing_broken = Error{.kind = ErrorKind::rate_limited, .message = "429"};  // nothing can be settled
    listing_broken_at = "cloud";
    for (int i = 0; i < 900 && count<CallLaunch>() == 0; ++i) pass(Seconds{1});
    CHECK(machine(call.machine).watch);
    CHECK(count<CallLaunch>() == (elsewhere ? 1 : 0));
    if (elsewhere) CHECK(take<CallLaunch>().request.offer.id == "m");
}

TEST_CASE_FIXTURE(Seam, "an adopted machine is kept as a warm one, with money held for it") {
    pass(Seconds{30});
    const MachineId id{"mch_" + IdMaker{Entropy{5}}.make("", now + Seconds{1})};
    ProviderMachine seen;
    seen.id = ProviderMachineId{"i9"};
    seen.tag = machine_tag("benchbnh", id.get());
    seen.presence = Presence::running;
    seen.gpu = GpuIdentity{"RTX-4090", "RTX 4090", Bytes{24564 * kMiB}};
    seen.gpu_count = 1;
    seen.gpu_rate = UsdPerHour{100'000};
    listing["cloud"] = {seen};
    reads["i9"] = seen;
    pass(Seconds{65});
    REQUIRE(store->reader().machines(false, {}, 10)->size() == 1);
    apply(CommandMachine{next_request++, id, MachineVerb::adopt, "user"});
    CHECK(machine(id).state == MachineState::booting);
    const auto& live = core->world().machines.at(id);
    REQUIRE(live.reservation.has_value());
    CHECK(live.reservation->amount.micros > 0);
}

TEST_CASE_FIXTURE(Seam, "an agent that connects and never reports is not waited for as long as a boot") {
    const CallLaunch call = first_launch(on_demand());
    launched(call, "i1");
    apply(AgentConnected{call.machine, "boot1"});
    pass(Seconds{110});
    CHECK(machine(call.machine).state == MachineState::booting);
    pass(Seconds{20});
    CHECK(machine(call.machine).state == MachineState::destroying);
    CHECK(store->reader().attempts(call.machine.empty() ? JobId{} : machine(call.machine).job)->front().detail.find("did not report") !=
          std::string::npos);
}

TEST_CASE_FIXTURE(Seam, "a create that never left is no unknown machine, and is not tried without pause") {
    JobId id;
    const CallLaunch call = first_launch(on_demand(), &id);
    launch_failed(call, ErrorKind::unavailable, "connection refused");
    CHECK(machine(call.machine).state == MachineState::gone);
    CHECK(job(id).state == JobState::queued);
    int tries = 0;
    for (int i = 0; i < 120; ++i) {
        pass(Seconds{1});
        if (count<CallLaunch>() == 0) continue;
        launch_failed(take<CallLaunch>(), ErrorKind::unavailable, "connection refused");
        ++tries;
    }
    CHECK(tries > 2);
    CHECK(tries < 10);
    CHECK(job(id).state == JobState::queued);
}

TEST_CASE_FIXTURE(Seam, "a repeated submission is answered with the whole job as it is now (G07)") {
    const JobId id = submit(on_demand(), "key", "body");
    const std::string first = replies.rbegin()->second.json;
    command(id, JobVerb::cancel);
    CHECK(submit(on_demand(), "key", "body") == id);
    const std::string again = replies.rbegin()->second.json;
    CHECK(again.find("\"repeated\":true") != std::string::npos);
    CHECK(again.find("\"state\":\"cancelled\"") != std::string::npos);
    for (const char* key : {"\"name\"", "\"kind\"", "\"project\"", "\"attempts\"", "\"created_at\""}) {
        CHECK(first.find(key) != std::string::npos);
        CHECK(again.find(key) != std::string::npos);
    }
}

TEST_CASE_FIXTURE(Seam, "a card that reports what its class reports is as it was offered, a smaller one is not (C05)") {
    struct Card {
        std::int64_t offered_mib, reported_mib;
        bool taken;
    };
    const Card cards[] = {{49'152, 46'068, true},   // A40, L40S: sold as 48 GB
                          {24'576, 23'034, true},   // L4: sold as 24 GB
                          {16'384, 15'360, true},   // T4: sold as 16 GB
                          {81'920, 81'559, true},   // H100
                          {24'564, 24'564, true},   // Vast.ai tells what the card reports
                          {24'576, 20'475, false},  // a 20 GB card in its place
                          {49'152, 24'564, false}};
    for (const Card& card : cards) {
        CAPTURE(card.offered_mib);
        Seam b;
        b.offers["cloud"][0].gpu.memory = Bytes{card.offered_mib * kMiB};
        b.restart();
        b.apply(Tick{});
        b.answer_market();
        const CallLaunch call = b.first_launch(on_demand());
        b.launched(call, "i1");
        b.apply(AgentConnected{call.machine, "boot1"});
        ap::Hello hello = hello_of();
        hello.report.gpus = {{"a card", card.reported_mib * kMiB, "560", "u"}};
        b.say(call.machine, hello, "boot1", 0);
        b.answer_market();
        CHECK(b.machine(call.machine).state == (card.taken ? MachineState::busy : MachineState::destroying));
    }
}

TEST_CASE_FIXTURE(Seam, "the lease carries what the spec says") {
    JobSpec spec = on_demand();
    spec.success_exit = {0, 149};
    spec.success_product = "out/*.ckpt";
    spec.env = {{"BATCH", "8"}};
    spec.user = "worker";
    spec.outputs = {{.from = "out", .to = {}}};
    spec.progress_regex = "step (\\d+)";
    JobId id;
    const CallLaunch call = first_launch(spec, &id);
    launched(call, "i1");
    const ap::Lease lease = agent_up(call.machine);
    CHECK(lease.success_exit == spec.success_exit);
    CHECK(lease.success_product == spec.success_product);
    CHECK(lease.env == spec.env);
    CHECK(lease.user == "worker");
    CHECK(lease.outputs.size() == 1);
    CHECK(lease.progress_regex == spec.progress_regex);
    exits(call.machine, lease.attempt, 149);
    CHECK(job(id).state == JobState::succeeded);
}

TEST_CASE_FIXTURE(Seam, "an image runs in a container of the agent's on a whole machine, and is the machine elsewhere") {
    JobSpec spec = on_demand();
    spec.resources.shm = Bytes{16 * kGB};
    bool contained = false;
    SUBCASE("on a whole machine") {
        spec.image = "ghcr.io/example/trainer:1";
        cloud_can.vm = contained = true;
    }
    SUBCASE("on a whole machine, without an image") { cloud_can.vm = true; }
    SUBCASE("where the image is the machine") { spec.image = "ghcr.io/example/trainer:1"; }
    restart();
    const CallLaunch call = first_launch(spec);
    CHECK(call.request.image == spec.image);
    launched(call, "i1");
    const ap::Lease lease = agent_up(call.machine);
    REQUIRE(!lease.attempt.empty());
    CHECK(lease.image == spec.image);
    CHECK(lease.container == contained);
    CHECK(lease.shm_bytes == (cloud_can.vm ? 16 * kGB : 0));
}

TEST_CASE_FIXTURE(Seam, "a spec that no machine can carry out is the user's error, not five machines' fault") {
    const Running a = run_one(on_demand(), "i1");
    ap::Exited over;
    over.attempt = a.attempt;
    over.reason = "spec";
    over.detail = "no user bob in this image";
    say(a.machine, over);
    CHECK(job(a.job).state == JobState::failed);
    CHECK(job(a.job).reason == "user_error");
    CHECK(job(a.job).detail.find("no user bob") != std::string::npos);
}

TEST_CASE_FIXTURE(Seam, "a page of the queue that was read before a command does not undo it") {
    JobSpec spec = on_demand();
    spec.resources.max_price = UsdPerHour{1};
    const JobId id = submit(spec);
    pass(Seconds{10});
    hold_pages = true;
    for (int i = 0; i < 20 && pages.empty(); ++i) pass(Seconds{1});
    REQUIRE(!pages.empty());
    CHECK(command(id, JobVerb::cancel) == 200);
    apply(std::move(pages.front()));
    CHECK(job(id).state == JobState::cancelled);
    CHECK(count<CallLaunch>() == 0);
}

TEST_CASE("a batch knows which stored rows it hides") {
    Batch batch;
    JobRecord job;
    job.id = JobId{"job_1"};
    TaskRecord task;
    task.id = TaskId{"tsk_1"};
    task.job = job.id;
    MachineRecord machine;
    machine.id = MachineId{"mch_1"};
    Effects decided;
    decided.rows = {PutJob{job, {}}, PutTask{task, {}}, PutMachine{machine, {}}, PruneCheckpoints{task.id, 1},
                    AddIdempotency{{.principal = "p", .key = "k", .body_sha256 = "b", .job = job.id, .created_at = {}}}};
    batch.add(std::move(decided));
    CHECK(batch.hides({.job = job.id}));
    CHECK(batch.hides({.machines = {MachineId{"mch_0"}, machine.id}}));
    CHECK(batch.hides({.checkpoint_of = task.id}));
    CHECK(batch.hides({.principal = "p", .idempotency_key = "k"}));
    CHECK(!batch.hides({}));
    CHECK(!batch.hides({.job = JobId{"job_2"}}));
    CHECK(!batch.hides({.machines = {MachineId{"mch_0"}}}));
    CHECK(!batch.hides({.checkpoint_of = TaskId{"tsk_2"}}));
    CHECK(!batch.hides({.principal = "q", .idempotency_key = "k"}));
}

}  // namespace
}  // namespace gf
