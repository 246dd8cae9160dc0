// The machine check, line by line: what is worse than the offer or the demand is given back and its host remembered, and what
// is not, is not (C01, C03, C05, C06, C08, B05 and their kinds).
#include "config/shipped.hpp"
#include "tests/orchestrator/bench.hpp"

namespace gf {
namespace {
namespace ap = agent_protocol;

const GpuNames& names() {
    static const GpuNames table = [] {
        auto parsed = GpuNames::parse(shipped_gpus_csv(), shipped_aliases_csv());
        GF_ASSERT(parsed.has_value());
        return *std::move(parsed);
    }();
    return table;
}

CoreSettings with_names() {
    CoreSettings s = CoreBench::default_settings();
    s.gpus = &names();
    return s;
}

struct Named : CoreBench {
    Named() : CoreBench(with_names()) {}
};

struct Case {
    const char* what;
    const char* trouble;  // a part of the detail; empty = the machine is taken
    void (*change)(Offer& offer, JobSpec& spec, ap::MachineReport& report);
};

const Case kCases[] = {
    {"as offered", "", [](Offer&, JobSpec&, ap::MachineReport&) {}},
    // Cards (C01, C03, C06).
    {"the D part for the plain one", "the GPU is RTX-4090-D",
     [](Offer&, JobSpec&, ap::MachineReport& r) { r.gpus[0].name = "NVIDIA GeForce RTX 4090 D"; }},
    {"the laptop part, which no table knows", "16376 MiB",
     [](Offer&, JobSpec&, ap::MachineReport& r) { r.gpus[0] = {"NVIDIA GeForce RTX 4090 Laptop GPU", 16376 * kMiB, "560", "u"}; }},
    {"the 40 GB part for the 80 GB one", "A100-SXM-40GB",
     [](Offer& o, JobSpec&, ap::MachineReport& r) {
         o.gpu = {"A100-SXM-80GB", "A100 SXM4", Bytes{81920 * kMiB}};
         r.gpus[0] = {"NVIDIA A100-SXM4-40GB", 40960 * kMiB, "560", "u"};
     }},
    {"a smaller card of the same memory", "the GPU is RTX-3090",
     [](Offer&, JobSpec&, ap::MachineReport& r) { r.gpus[0].name = "NVIDIA GeForce RTX 3090"; }},
    {"a better card than was offered, none was named", "",
     [](Offer& o, JobSpec&, ap::MachineReport&) { o.gpu = {"L4", "L4", Bytes{23034 * kMiB}}; }},
    {"a better card than was offered, but another was named", "the GPU is RTX-4090 ",
     [](Offer& o, JobSpec& s, ap::MachineReport&) {
         o.gpu = {"L4", "L4", Bytes{23034 * kMiB}};
         s.resources.gpu = s.resources.gpu_as_typed = {"L4"};
     }},
    {"a name that no table knows, enough memory", "",
     [](Offer&, JobSpec&, ap::MachineReport& r) { r.gpus[0].name = "NVIDIA GeForce RTX 9999"; }},
    {"a name that no table knows, too little memory", "16000 MiB",
     [](Offer&, JobSpec&, ap::MachineReport& r) { r.gpus[0] = {"NVIDIA GeForce RTX 9999", 16000 * kMiB, "560", "u"}; }},
    {"just \"NVIDIA\" and no memory", "has 0 MiB",
     [](Offer&, JobSpec&, ap::MachineReport& r) { r.gpus[0] = {"NVIDIA", 0, "560", "u"}; }},
    {"an empty name", "",
     [](Offer&, JobSpec&, ap::MachineReport& r) { r.gpus[0].name.clear(); }},
    {"the second card is another one", "the GPU is RTX-3090",
     [](Offer& o, JobSpec& s, ap::MachineReport& r) {
         o.gpu_count = s.resources.gpus = 2;
         r.cuda_devices = 2;
         r.gpus.push_back({"NVIDIA GeForce RTX 3090", 24576 * kMiB, "560", "u2"});
     }},
    {"a slice goes by a name of its own", "",
     [](Offer& o, JobSpec& s, ap::MachineReport& r) {
         s.resources.vram = VramDemand{.class_gb = 8, .exact = {}};
         o.gpu = {"A40", "A40", Bytes{8192 * kMiB}};
         o.gpu_share = 0.166;
         r.gpus[0] = {"NVIDIA A40-8Q", 8192 * kMiB, "560", "u"};
     }},
    // Memory classes (C05).
    {"what its class reports with ECC", "",
     [](Offer& o, JobSpec&, ap::MachineReport& r) {
         o.gpu = {"L4", "L4", Bytes{24 * kGiB}};
         r.gpus[0] = {"NVIDIA L4", 23034 * kMiB, "560", "u"};
     }},
    // Count (C08).
    {"no GPU", "0 GPUs, offered 1", [](Offer&, JobSpec&, ap::MachineReport& r) { r.gpus.clear(); }},
    {"one of two", "1 GPUs, offered 2", [](Offer& o, JobSpec& s, ap::MachineReport&) { o.gpu_count = s.resources.gpus = 2; }},
    {"more than offered", "",
     [](Offer&, JobSpec&, ap::MachineReport& r) {
         r.gpus.push_back(r.gpus[0]);
         r.cuda_devices = 2;
     }},
    {"tools show two, CUDA one", "CUDA sees 1 devices",
     [](Offer& o, JobSpec& s, ap::MachineReport& r) {
         o.gpu_count = s.resources.gpus = 2;
         r.gpus.push_back(r.gpus[0]);
     }},
    // Driver and CUDA, as numbers.
    {"an old driver", "the driver is 550.54, asked for >=560",
     [](Offer& o, JobSpec& s, ap::MachineReport& r) {
         o.driver = "560.35";
         s.resources.driver = "560";
         r.gpus[0].driver = "550.54";
     }},
    {"a driver that is new enough", "",
     [](Offer& o, JobSpec& s, ap::MachineReport& r) {
         o.driver = "560.35";
         s.resources.driver = "560";
         r.gpus[0].driver = "560.35.03";
     }},
    {"a driver that is not told", "",
     [](Offer& o, JobSpec& s, ap::MachineReport& r) {
         o.driver = "560.35";
         s.resources.driver = "560";
         r.gpus[0].driver.clear();
     }},
    {"CUDA below the demand", "the driver's CUDA is 12.9, asked for >=12.10",
     [](Offer& o, JobSpec& s, ap::MachineReport& r) {
         o.cuda_max = "12.10";
         s.resources.cuda = "12.10";
         r.cuda_version = "12.9";
     }},
    {"CUDA below the offer", "the driver's CUDA is 12.4, offered 12.8",
     [](Offer& o, JobSpec&, ap::MachineReport& r) {
         o.cuda_max = "12.8";
         r.cuda_version = "12.4";
     }},
    {"CUDA above the offer", "",
     [](Offer& o, JobSpec&, ap::MachineReport& r) {
         o.cuda_max = "12.8";
         r.cuda_version = "12.10";
     }},
    {"CUDA does not initialise", "error_802", [](Offer&, JobSpec&, ap::MachineReport& r) { r.cuda_probe = "error_802"; }},
    {"CUDA hangs", "error_timeout", [](Offer&, JobSpec&, ap::MachineReport& r) { r.cuda_probe = "error_timeout"; }},
    {"no libcuda", "no_libcuda", [](Offer&, JobSpec&, ap::MachineReport& r) { r.cuda_probe = "no_libcuda"; }},
    // Disk: total against what was asked for, and what is free of it.
    {"a disk of half the size", "the disk has 10",
     [](Offer&, JobSpec&, ap::MachineReport& r) {
         r.disk_total = 10 * kGB;
         r.disk_free = 10 * kGB;
     }},
    {"a disk less its file system", "",
     [](Offer&, JobSpec&, ap::MachineReport& r) {
         r.disk_total = 19 * kGB;
         r.disk_free = 18 * kGB;
     }},
    {"a full disk", "of disk free", [](Offer&, JobSpec&, ap::MachineReport& r) { r.disk_free = 3 * kGB; }},
    {"a disk that is not told", "",
     [](Offer&, JobSpec&, ap::MachineReport& r) { r.disk_total = r.disk_free = 0; }},
    // The rest.
    {"another architecture", "architecture is arm64", [](Offer&, JobSpec&, ap::MachineReport& r) { r.arch = "arm64"; }},
    {"less memory than asked for", "of memory, asked for",
     [](Offer& o, JobSpec& s, ap::MachineReport& r) {
         o.memory = Bytes{64 * kGB};
         s.resources.memory = Bytes{64 * kGB};
         r.memory_total = 32 * kGB;
     }},
    {"memory less its kernel", "",
     [](Offer& o, JobSpec& s, ap::MachineReport& r) {
         o.memory = Bytes{64 * kGB};
         s.resources.memory = Bytes{64 * kGB};
         r.memory_total = 62 * kGB;
     }},
    {"little memory, none asked for", "",
     [](Offer&, JobSpec&, ap::MachineReport& r) { r.memory_total = 2 * kGB; }},
    {"nowhere to write", "unwritable", [](Offer&, JobSpec&, ap::MachineReport& r) { r.workspace.clear(); }},
};

TEST_CASE("each line of the machine check") {
    for (const Case& row : kCases) {
        CAPTURE(std::string(row.what));
        Named b;
        Offer offer = CoreBench::offer("cloud", "a", 300'000), next = CoreBench::offer("cloud", "next", 900'000);
        JobSpec spec;
        spec.resources.spot = SpotChoice::never;
        ap::Hello hello = CoreBench::hello_of();
        hello.report.disk_total = 100 * kGB;
        hello.report.cuda_version = "12.8";
        row.change(offer, spec, hello.report);
        next.gpu = offer.gpu;
        next.gpu_count = offer.gpu_count;
        next.memory = offer.memory;
        next.driver = offer.driver;
        next.cuda_max = offer.cuda_max;
        b.offers["cloud"] = {offer, next};
        const JobId job = b.submit(spec);
        b.pass(Seconds{2});
        const CallLaunch call = b.take<CallLaunch>();
        REQUIRE(call.request.offer.id == "a");
        b.launched(call, "i1");
        b.apply(AgentConnected{call.machine, "boot1"});
        b.sent.clear();
        b.say(call.machine, hello, "boot1", 0);
        b.answer_market();
        const bool leased = std::ranges::any_of(b.sent, [](const auto& m) { return std::holds_alternative<ap::Lease>(m.message); });
        if (std::string_view(row.trouble).empty()) {
            CHECK(b.machine(call.machine).state == MachineState::busy);
            CHECK(leased);
            CHECK(b.core->world().host_marks->empty());
            continue;
        }
        CHECK(!leased);
        CHECK(b.machine(call.machine).state == MachineState::destroying);
        CHECK(b.last_attempt(job).detail.find(row.trouble) != std::string::npos);
        CHECK(b.last_attempt(job).cause == Cause::start_timeout);
        const auto mark = b.core->world().host_marks->find("cloud/host/host-a");
        REQUIRE(mark != b.core->world().host_marks->end());
        CHECK(mark->second.last.find(row.trouble) != std::string::npos);
        b.pass(Seconds{8});
        CHECK(b.take<CallLaunch>().request.offer.id == "next");
    }
}

struct Billed : Market {
    /// A machine whose agent has said hello, before any look at what is billed.
    CallLaunch greeted(JobSpec spec, JobId* id = nullptr) {
        const CallLaunch call = first_launch(std::move(spec), id);
        launched(call, "i1");
        apply(AgentConnected{call.machine, "boot1"});
        sent.clear();
        return call;
    }
    [[nodiscard]] bool leased() const {
        return std::ranges::any_of(sent, [](const auto& m) { return std::holds_alternative<ap::Lease>(m.message); });
    }
    void hello(const CallLaunch& call) { say(call.machine, hello_of(), "boot1", 0); }
};

TEST_CASE_FIXTURE(Billed, "the command does not run before it is known what is billed") {
    JobId id;
    const CallLaunch call = greeted(on_demand(), &id);
    hello(call);
    CHECK(!leased());
    REQUIRE(count<CallRead>() == 1);
    SUBCASE("the price that was offered") {
        answer_market();
        CHECK(leased());
    }
    SUBCASE("more than was offered: given back, the next offer is tried") {
        reads["i1"].gpu_rate = UsdPerHour{400'000};
        answer_market();
        CHECK(!leased());
        CHECK(machine(call.machine).state == MachineState::destroying);
        CHECK(alerts("billed_rate_over_offer") == 1);
        CHECK(store->reader().attempts(id)->front().cause == Cause::start_timeout);
        CHECK(core->world().host_marks->contains("cloud/host/host-a"));
        pass(Seconds{8});
        CHECK(take<CallLaunch>().request.offer.id == "b");
    }
    SUBCASE("within rounding") {
        reads["i1"].gpu_rate = UsdPerHour{303'000};
        answer_market();
        CHECK(leased());
    }
    SUBCASE("a read that fails keeps nobody waiting") {
        const CallRead read = take<CallRead>();
        apply(ReadEnded{read.machine, read.call_seq, now, now, fail(ErrorKind::unavailable, "time-out")});
        CHECK(leased());
    }
    SUBCASE("a provider that tells no price keeps nobody waiting") {
        reads["i1"].gpu_rate.reset();
        answer_market();
        CHECK(leased());
    }
    SUBCASE("a read that shows it gone leases nothing") {
        reads["i1"].presence = Presence::gone;
        apply(Tick{});
        answer_market();
        pass(Seconds{1});
        CHECK((!leased() || machine(call.machine).state != MachineState::busy));
    }
    SUBCASE("cancelled meanwhile") {
        CHECK(command(id, JobVerb::cancel) == 200);
        answer_market();
        CHECK(!leased());
        CHECK(machine(call.machine).state == MachineState::destroying);
    }
    SUBCASE("the listing answers first") {
        const CallRead read = take<CallRead>();
        pass(Seconds{10});
        apply(ReadEnded{read.machine, read.call_seq, now, now, reads["i1"]});
        CHECK(leased());
    }
}

TEST_CASE_FIXTURE(Billed, "a machine that bills more than max_price is given back before the command runs") {
    JobSpec spec = on_demand();
    spec.resources.max_price = UsdPerHour{302'000};
    const CallLaunch call = greeted(spec);
    reads["i1"].disk_rate = UsdPerHour{20'000};  // the offer named none
    hello(call);
    answer_market();
    CHECK(!leased());
    CHECK(machine(call.machine).state == MachineState::destroying);
}

TEST_CASE_FIXTURE(Billed, "the answer to the create tells a higher price: given back at once") {
    const CallLaunch call = first_launch(on_demand());
    apply(LaunchEnded{call.machine, call.call_seq, now, now,
                      LaunchOutcome{.id = ProviderMachineId{"i1"}, .error = {}, .rate = UsdPerHour{700'000}}});
    CHECK(machine(call.machine).state == MachineState::destroying);
    CHECK(take<CallDestroy>().id.get() == "i1");
    CHECK(alerts("billed_rate_over_offer") == 1);
}

TEST_CASE_FIXTURE(Billed, "a price that rises while the job runs is told and billed, and stops nothing (L06)") {
    JobSpec spec = on_demand();
    spec.resources.max_price = UsdPerHour{500'000};
    const Running a = run_one(spec, "i1");
    const auto alive_for = [&](Millis span) {
        for (const Instant end = now + span; now < end;) {
            say(a.machine, ap::Heartbeat{}, "boot1", 0);
            pass(Seconds{10});
        }
    };
    alive_for(std::chrono::hours{1});
    CHECK(alerts("billed_rate_over_offer") == 0);
    const Instant risen = now;
    for (auto* seen : {&reads["i1"], &listing["cloud"].front()}) seen->gpu_rate = UsdPerHour{600'000};
    alive_for(std::chrono::hours{1});
    CHECK(job(a.job).state == JobState::running);
    CHECK(alerts("billed_rate_over_offer") == 1);
    const auto ledger = *store->reader().ledger(a.job, instant_of(0), now);
    REQUIRE(ledger.size() == 2);
    CHECK(ledger[0].gpu_rate == UsdPerHour{300'000});
    CHECK(ledger[1].gpu_rate == UsdPerHour{600'000});
    CHECK(*ledger[0].until - risen <= Seconds{12});
    // Back at its price, the alert is over.
    for (auto* seen : {&reads["i1"], &listing["cloud"].front()}) seen->gpu_rate = UsdPerHour{300'000};
    alive_for(Seconds{20});
    CHECK(store->reader().alerts(true, 100)->empty());
}

TEST_CASE_FIXTURE(Billed, "a machine that restarts without its GPUs is not used and not paid for (C08)") {
    SUBCASE("the provider shows it") {
        const Running a = run_one(on_demand(), "i1");
        pass(Seconds{30});
        for (auto* seen : {&reads["i1"], &listing["cloud"].front()}) seen->gpu_count = 0;
        pass(Seconds{12});
        CHECK(machine(a.machine).state == MachineState::destroying);
        CHECK(store->reader().attempts(a.job)->front().cause == Cause::host_fault);
        pass(Seconds{10});
        CHECK(count<CallLaunch>() == 1);
    }
    SUBCASE("only the agent sees it") {
        const CallLaunch call = greeted(on_demand());
        ap::Hello none = hello_of();
        none.report.gpus.clear();
        say(call.machine, none, "boot1", 0);
        CHECK(machine(call.machine).state == MachineState::destroying);
    }
    SUBCASE("a count that is not told is not zero") {
        const Running a = run_one(on_demand(), "i1");
        pass(Seconds{30});
        CHECK(machine(a.machine).state == MachineState::busy);
    }
    SUBCASE("it holds the only copy: that is handed in, and nothing runs there") {
        const Running a = run_one(spot(), "s1");
        set_presence("s1", Presence::stopped, "outbid");
        pass(Seconds{11});
        CHECK(machine(a.machine).state == MachineState::interrupted);
        for (auto* seen : {&reads["s1"], &listing["market"].front()}) seen->gpu_count = 0;
        set_presence("s1", Presence::running, "running");
        pass(Seconds{11});
        CHECK(machine(a.machine).state == MachineState::booting);
        apply(AgentConnected{a.machine, "boot2"});
        sent.clear();
        ap::Hello none = hello_of();
        none.report.gpus.clear();
        say(a.machine, none, "boot2", 0);
        CHECK(!leased());
        CHECK(offer_checkpoint(a.machine, a.attempt, "m1", 50) == 200);
        pass(std::chrono::minutes{3});
        CHECK(machine(a.machine).state == MachineState::destroying);
        CHECK(store->reader().tasks(a.job)->front().generation == 1);
        CHECK(count<CallLaunch>() == 1);
    }
}

}  // namespace
}  // namespace gf
