#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "cloud_bench.hpp"
#include "local_bench.hpp"

using namespace gf;
using gf::test::kPlainAgent;
using gf::test::kTwoCards;
using gf::test::launch_request;
using gf::test::LocalBench;
namespace fs = std::filesystem;

namespace {

constexpr std::chrono::seconds kLooksFor{30};

std::string whole(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

/// Looks until it is so, the bench's clock standing still or moving; false after the bound.
template <class Condition>
bool comes(LocalBench& b, Condition condition, Millis step = Millis{0}) {
    for (const auto end = std::chrono::steady_clock::now() + kLooksFor; std::chrono::steady_clock::now() < end;) {
        if (condition()) return true;
        b.pass(step);
        ::usleep(1000);
    }
    return condition();
}

Offer offer(LocalBench& b, int gpus) {
    const auto list = b.provider().offers({.gpu_counts = {gpus}});
    REQUIRE(list);
    const auto it = std::ranges::find(list->offers, gpus, &Offer::gpu_count);
    REQUIRE(it != list->offers.end());
    return *it;
}

ProviderMachineId rent(LocalBench& b, int gpus, int number) {
    const auto out = b.provider().launch(launch_request(offer(b, gpus), number));
    REQUIRE_MESSAGE(!out.error, (out.error ? out.error->message : ""));
    return out.id;
}

pid_t agent_of(LocalBench& b, const ProviderMachineId& id) {
    return nlohmann::json::parse(whole(b.settings.data_dir / "local" / id.get() / "machine.json"))
        .at("pid")
        .get<pid_t>();
}

/// The environment that the agent was started with. The pid is on disk before the agent's program has replaced the process, and
/// between the two the kernel shows no environment, or this one's.
std::string environment_of(LocalBench& b, pid_t pid) {
    const auto file = fs::path("/proc") / std::to_string(pid) / "environ";
    std::string text;
    REQUIRE(comes(b, [&] {
        text = whole(file);
        return text.find("GPUFERRY_MACHINE=") != std::string::npos;
    }));
    return text;
}

}  // namespace

TEST_CASE("the local adapter keeps the contract of the port, without GPUs") {
    gf::test::check_conformance(
        []() -> std::unique_ptr<gf::test::Bench> { return std::make_unique<LocalBench>(); });
}

TEST_CASE("the local adapter keeps the contract of the port, with two GPUs") {
    gf::test::check_conformance([]() -> std::unique_ptr<gf::test::Bench> {
        return std::make_unique<LocalBench>(kPlainAgent, kTwoCards);
    });
}

TEST_CASE("local: without nvidia-smi there is one CPU-only offer of the whole machine") {
    LocalBench b;
    const auto list = b.provider().offers({.gpu_counts = {1, 2}});
    REQUIRE(list);
    REQUIRE(list->offers.size() == 1);
    const auto& o = list->offers[0];
    CHECK(o.gpu_count == 0);
    CHECK(o.gpu_rate.micros == 0);
    CHECK(o.exclusive);
    CHECK(!o.spot);
    REQUIRE(o.cpus);
    CHECK(*o.cpus >= 1);
    REQUIRE(o.memory);
    CHECK(o.memory->count > 100'000'000);
    REQUIRE(o.disk_max);
    CHECK(o.disk_max->count > 0);
    CHECK(!o.host_id.empty());
    CHECK(list->rejected.empty());
}

TEST_CASE("local: cards are offered in groups, each with its share of the machine") {
    LocalBench b(kPlainAgent, kTwoCards, {.electricity = UsdPerHour{150'001}});
    const auto list = b.provider().offers({.gpu_counts = {1, 2, 4}});
    REQUIRE(list);
    std::vector<std::string> ids;
    for (const auto& o : list->offers) ids.push_back(o.id);
    CHECK(ids == std::vector<std::string>{"cpu/1", "gpu/GPU-aaaa", "gpu/GPU-bbbb", "gpu/GPU-aaaa+GPU-bbbb"});
    const auto& cpu = list->offers[0];
    const auto& one = list->offers[1];
    const auto& two = list->offers[3];
    CHECK(one.gpu.provider_name == "NVIDIA GeForce RTX 3090");
    CHECK(one.gpu.canonical == "nvidia-smi:NVIDIA GeForce RTX 3090");
    CHECK(one.gpu.memory == Bytes{24'576 * kMiB});
    CHECK(one.driver == "580.95.05");
    CHECK(one.cuda_max == "13.0");
    CHECK(one.gpu_rate.micros == 75'001);
    CHECK(two.gpu_rate.micros == 150'001);
    CHECK(*two.cpus == *cpu.cpus);
    CHECK(*one.cpus * 2 == *cpu.cpus);
}

TEST_CASE("local: a card is rented at most once") {
    LocalBench b(kPlainAgent, kTwoCards);
    const auto pair = offer(b, 2);
    const auto first = rent(b, 1, 1);
    auto list = b.provider().offers({.gpu_counts = {1, 2}});
    REQUIRE(list);
    CHECK(std::ranges::count(list->offers, 1, &Offer::gpu_count) == 1);
    CHECK(std::ranges::count(list->offers, 2, &Offer::gpu_count) == 0);
    CHECK(std::ranges::count(list->rejected, "in_use", &RejectedOffer::reason) == 1);
    // A stale offer is a clean refusal.
    const auto out = b.provider().launch(launch_request(pair, 2));
    REQUIRE(out.error);
    CHECK(out.error->kind == ErrorKind::no_capacity);
    const auto m = b.provider().read(first);
    REQUIRE(m);
    CHECK(m->gpu_count == 1);
    REQUIRE(m->gpu);
    CHECK(m->gpu->provider_name == "NVIDIA GeForce RTX 3090");
    REQUIRE(b.provider().destroy(first));
    REQUIRE(comes(b, [&] { return b.provider().read(first)->presence == Presence::gone; }, Seconds{1}));
    list = b.provider().offers({.gpu_counts = {2}});
    REQUIRE(list);
    CHECK(std::ranges::count(list->offers, 2, &Offer::gpu_count) == 1);
}

TEST_CASE(
    "local: the agent gets exactly its environment, no descriptor of ours, its own session and folder") {
    ::setenv("RUNPOD_API_KEY", "rpa_EXAMPLE111", 1);
    const int open_file = ::open("/dev/null", O_RDONLY);  // deliberately inheritable
    LocalBench b(kPlainAgent, kTwoCards);
    auto request = launch_request(offer(b, 1), 1);
    request.env["EVIL"] = "x";
    const auto out = b.provider().launch(request);
    ::unsetenv("RUNPOD_API_KEY");
    REQUIRE(!out.error);
    const auto pid = agent_of(b, out.id);
    const auto proc = fs::path("/proc") / std::to_string(pid);
    std::set<std::string> names;
    const auto environment = environment_of(b, pid);
    for (std::size_t at = 0; at < environment.size(); at = environment.find('\0', at) + 1)
        names.insert(environment.substr(at, environment.find('=', at) - at));
    names.erase("PWD");  // the shell's own
    CHECK(names == std::set<std::string>{"CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES", "GPUFERRY_ENROL", "GPUFERRY_MACHINE",
                                         "GPUFERRY_PIN", "GPUFERRY_URL", "GPUFERRY_WORKSPACE", "HOME", "LANG",
                                         "NVIDIA_VISIBLE_DEVICES", "PATH"});
    CHECK(environment.find("CUDA_VISIBLE_DEVICES=GPU-aaaa") != std::string::npos);
    CHECK(environment.find("rpa_EXAMPLE111") == std::string::npos);
    const auto own = b.settings.data_dir / "local" / out.id.get();
    CHECK(fs::read_symlink(proc / "cwd") == own);
    CHECK(::getsid(pid) == pid);
    // The shell may hold its script open until it has executed sleep.
    CHECK(comes(b, [&] {
        std::set<std::string> open;
        for (const auto& entry : fs::directory_iterator(proc / "fd")) open.insert(entry.path().filename());
        return open == std::set<std::string>{"0", "1", "2"};
    }));
    CHECK(fs::read_symlink(proc / "fd" / "0") == "/dev/null");
    CHECK(fs::read_symlink(proc / "fd" / "1") == own / "agent.log");
    CHECK((fs::status(own).permissions() & fs::perms::others_all) == fs::perms::none);
    CHECK((fs::status(own / "machine.json").permissions() & fs::perms::group_all) == fs::perms::none);
    ::close(open_file);
}

TEST_CASE("local: a CPU-only machine on a host with cards sees none of them") {
    LocalBench b(kPlainAgent, kTwoCards);
    const auto id = rent(b, 0, 1);
    const auto environment = environment_of(b, agent_of(b, id));
    CHECK(environment.find(std::string("CUDA_VISIBLE_DEVICES=") + '\0') != std::string::npos);
}

namespace {

/// nvidia-smi of a workstation; `compute` is its answer on computing processes.
std::string cards(const std::string& lines, const std::string& compute = {}) {
    return "#!/bin/sh\ncase \"$1\" in --query-gpu*) cat <<'X'\n" + lines + "X\n;; --query-compute*) cat <<'X'\n" + compute +
           "X\n;; *) echo 'CUDA Version: 13.0';; esac\n";
}

std::vector<std::string> ids(const OfferList& list, int gpus) {
    std::vector<std::string> out;
    for (const auto& o : list.offers)
        if (o.gpu_count == gpus) out.push_back(o.id);
    return out;
}

std::string reason(const OfferList& list, std::string_view id) {
    const auto it = std::ranges::find(list.rejected, id, &RejectedOffer::id);
    return it == list.rejected.end() ? "" : it->reason;
}

}  // namespace

TEST_CASE("local: two jobs get different cards, and know no others, also after a restart of the daemon") {
    LocalBench b(kPlainAgent, kTwoCards);
    std::set<std::string> visible;
    for (int i = 1; i <= 2; ++i) {
        const auto environment = environment_of(b, agent_of(b, rent(b, 1, i)));
        const auto value = [&](const std::string& name) {
            const auto at = environment.find('\0' + name + '=') + name.size() + 2;
            return environment.substr(at, environment.find('\0', at) - at);
        };
        CHECK(value("CUDA_VISIBLE_DEVICES") == value("NVIDIA_VISIBLE_DEVICES"));
        CHECK(value("CUDA_DEVICE_ORDER") == "PCI_BUS_ID");
        visible.insert(value("CUDA_VISIBLE_DEVICES"));
    }
    CHECK(visible == std::set<std::string>{"GPU-aaaa", "GPU-bbbb"});
    local::Adapter again(b.settings, b.hand, gf::test::plain_lookup());
    const auto list = again.offers({.gpu_counts = {1, 2}});
    REQUIRE(list);
    CHECK(ids(*list, 1).empty());
    CHECK(ids(*list, 2).empty());
    CHECK(reason(*list, "gpu/GPU-aaaa") == "in_use");
    CHECK(reason(*list, "gpu/GPU-bbbb") == "in_use");
    auto stale = launch_request(offer(b, 0), 3);
    stale.offer.id = "gpu/GPU-bbbb";
    const auto out = again.launch(stale);
    REQUIRE(out.error);
    CHECK(out.error->kind == ErrorKind::no_capacity);
}

TEST_CASE("local: a workstation of several kinds of cards offers groups of one kind") {
    LocalBench b(kPlainAgent,
                 cards("GPU-a, NVIDIA GeForce RTX 4090, 24564, 580.95.05, 612\nGPU-b, NVIDIA GeForce RTX 3090, 24576, 580.95.05, 4\n"
                       "GPU-c, NVIDIA GeForce RTX 4090, 24564, 580.95.05, 4\nGPU-d, NVIDIA GeForce RTX 4090, 24564, 580.95.05, 4\n"),
                 {.electricity = UsdPerHour{400'000}});
    const auto list = b.provider().offers({.gpu_counts = {1, 2, 3, 4}});
    REQUIRE(list);
    CHECK(ids(*list, 1) == std::vector<std::string>{"gpu/GPU-b", "gpu/GPU-a", "gpu/GPU-c", "gpu/GPU-d"});
    CHECK(ids(*list, 2) == std::vector<std::string>{"gpu/GPU-a+GPU-c"});
    CHECK(ids(*list, 3) == std::vector<std::string>{"gpu/GPU-a+GPU-c+GPU-d"});
    CHECK(ids(*list, 4).empty());
    for (const auto& o : list->offers) {
        CHECK(o.exclusive);
        if (o.gpu_count > 0) CHECK(o.gpu_rate.micros == 100'000 * o.gpu_count);
    }
    // What is left over after one of them is gone can be grouped anew.
    const auto one = std::ranges::find(list->offers, "gpu/GPU-a", &Offer::id);
    REQUIRE(one != list->offers.end());
    REQUIRE(!b.provider().launch(launch_request(*one, 1)).error);
    const auto rest = b.provider().offers({.gpu_counts = {1, 2, 3}});
    REQUIRE(rest);
    CHECK(ids(*rest, 2) == std::vector<std::string>{"gpu/GPU-c+GPU-d"});
    CHECK(ids(*rest, 3).empty());
}

TEST_CASE("local: a card at work for somebody else is not offered, one that shows a desktop is") {
    const std::string two = "GPU-a, NVIDIA GeForce RTX 3090, 24576, 580.1, {}\nGPU-b, NVIDIA GeForce RTX 3090, 24576, 580.1, 2\n";
    const struct {
        const char* what;
        const char* used;
        const char* compute;
        bool offered;
    } rows[] = {
        {"idle", "3", "", true},
        {"a desktop", "900", "", true},
        {"not told", "[N/A]", "", true},
        {"most of its memory taken", "21034", "", false},
        {"a computing process", "1400", "GPU-a, 1290\n", false},
        {"two small ones", "300", "GPU-a, 100\nGPU-a, 100\n", false},
        {"on the other card", "3", "GPU-x, 9000\n", true},
        {"a figure that is none", "3", "GPU-a, [N/A]\nnonsense\n", true},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        LocalBench b(kPlainAgent, cards(fmt::format(fmt::runtime(two), row.used), row.compute));
        const auto list = b.provider().offers({.gpu_counts = {1, 2}});
        REQUIRE(list);
        CHECK(ids(*list, 1).size() == (row.offered ? 2 : 1));
        CHECK(ids(*list, 2).size() == (row.offered ? 1 : 0));
        CHECK(reason(*list, "gpu/GPU-a") == (row.offered ? "" : "used_by_others"));
        // Whoever came before us meanwhile keeps the card.
        auto stale = launch_request(offer(b, 0), 1);
        stale.offer.id = "gpu/GPU-a";
        const auto out = b.provider().launch(stale);
        CHECK(out.error.has_value() == !row.offered);
        if (out.error) CHECK(out.error->kind == ErrorKind::no_capacity);
    }
}

TEST_CASE("local: the checks name the cards, a driver in trouble and an agent that is not there") {
    const auto level = [](const std::vector<Finding>& all, std::string_view what) {
        const auto it = std::ranges::find(all, what, &Finding::what);
        return it == all.end() ? "" : it->level == Finding::Level::ok ? "ok" : it->level == Finding::Level::warning ? "warning" : "failed";
    };
    LocalBench good(kPlainAgent, kTwoCards);
    CHECK(level(good.provider().check(), "offers") == std::string("ok"));
    CHECK(level(good.provider().check(), "agent") == std::string());
    LocalBench trouble(kPlainAgent, "#!/bin/sh\nexit 9\n");
    CHECK(level(trouble.provider().check(), "offers") == std::string("warning"));
    fs::remove(trouble.settings.agent);
    CHECK(level(trouble.provider().check(), "agent") == std::string("failed"));
}

TEST_CASE("local: starting leaves no child and no zombie") {
    LocalBench b;
    rent(b, 0, 1);
    CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
    CHECK(errno == ECHILD);
}

TEST_CASE("local: a machine outlives kill -9 of the daemon and is found again") {
    LocalBench b;
    const auto request = launch_request(offer(b, 0), 1);
    const pid_t daemon = ::fork();
    if (daemon == 0) {
        static_cast<void>(b.provider().launch(request));
        ::raise(SIGKILL);
    }
    int status = 0;
    REQUIRE(::waitpid(daemon, &status, 0) == daemon);
    REQUIRE(WIFSIGNALED(status));
    local::Adapter again(b.settings, b.hand, gf::test::plain_lookup());
    const auto listing = again.list();
    REQUIRE(listing);
    REQUIRE(listing->machines.size() == 1);
    CHECK(listing->machines[0].tag == request.tag.get());
    CHECK(listing->machines[0].presence == Presence::running);
    const auto offers = again.offers({});
    REQUIRE(offers);
    CHECK(offers->offers.empty());  // the one CPU slot is taken
}

TEST_CASE("local: kill -9 of the daemon at any moment of a launch leaves a recorded machine or none") {
    LocalBench b;
    for (int i = 0; i < 12; ++i) {
        CAPTURE(i);
        const auto request = launch_request(offer(b, 0), 50 + i);
        const pid_t daemon = ::fork();
        if (daemon == 0) {
            static_cast<void>(b.provider().launch(request));
            ::pause();
        }
        ::usleep(static_cast<useconds_t>(i) * 400);  // the moment of the kill; any is right
        ::kill(daemon, SIGKILL);
        REQUIRE(::waitpid(daemon, nullptr, 0) == daemon);
        // What had begun may still be on its way: it settles to "recorded and running" or "nothing runs".
        CHECK(comes(b, [&] {
            const auto listing = b.provider().list();
            return listing && listing->machines.size() == b.machines() &&
                   b.folder.processes().size() == b.machines();
        }));
        for (const auto& m : b.provider().list()->machines) {
            REQUIRE(b.provider().destroy(m.id));
            REQUIRE(
                comes(b, [&] { return b.provider().read(m.id)->presence == Presence::gone; }, Seconds{1}));
        }
    }
}

TEST_CASE("local: destroy asks first, and after its time kills the whole tree whatever it did to hide") {
    // Ignores SIGTERM, has a child in a session of its own that ignores it too, and one that lost its parent.
    LocalBench b(
        "#!/bin/sh\ntrap '' TERM\nsetsid sh -c 'trap \"\" TERM; sleep 1000 & wait' &\n(sh -c 'sleep 1001 & "
        "exit 0')\ntouch ready\nwhile :; do sleep 1000; done\n");
    const auto id = rent(b, 0, 1);
    const auto own = b.settings.data_dir / "local" / id.get();
    REQUIRE(comes(b, [&] { return fs::exists(own / "ready"); }));
    REQUIRE(comes(b, [&] { return b.folder.processes().size() >= 4; }));
    REQUIRE(b.provider().destroy(id));
    for (int i = 0; i < 5; ++i) {
        b.pass(Seconds{2});
        REQUIRE(b.provider().destroy(id));
        CHECK(b.provider().read(id)->presence == Presence::running);  // 10 s of 15
    }
    REQUIRE(comes(b, [&] { return b.provider().read(id)->presence == Presence::gone; }, Seconds{1}));
    CHECK(comes(b, [&] { return b.folder.processes().empty(); }));
    CHECK(fs::exists(own / "agent.log"));
    CHECK(!fs::exists(own / "workspace"));
    CHECK(!fs::exists(own / "machine.json"));
    CHECK(b.provider().read(id)->presence == Presence::gone);
}

TEST_CASE("local: an agent that dies by itself takes its job along before it counts as gone") {
    LocalBench b("#!/bin/sh\nsleep 1000 &\nsetsid sleep 1001 &\ntouch ready\nwait\n");
    const auto id = rent(b, 0, 1);
    REQUIRE(comes(b, [&] { return fs::exists(b.settings.data_dir / "local" / id.get() / "ready"); }));
    ::kill(agent_of(b, id), SIGKILL);
    REQUIRE(comes(b, [&] { return b.provider().read(id)->presence == Presence::gone; }));
    CHECK(comes(b, [&] { return b.folder.processes().empty(); }));
    const auto listing = b.provider().list();
    REQUIRE(listing);
    CHECK(listing->machines.empty());
}

TEST_CASE("local: a pid that was used again is somebody else") {
    LocalBench b;
    const auto id = rent(b, 0, 1);
    const auto path = b.settings.data_dir / "local" / id.get() / "machine.json";
    auto record = nlohmann::json::parse(whole(path));
    const auto agent = record["pid"].get<pid_t>();
    // The same pid with an earlier start: this process came later and is a stranger. Its environment still
    // names the tag, so the stranger is one of this test's own making: a plain sleep.
    const pid_t stranger = ::fork();
    if (stranger == 0) {
        ::execl("/bin/sleep", "sleep", "1000", nullptr);
        ::_exit(1);
    }
    record["pid"] = stranger;
    record["start_time"] = 1;
    {
        std::ofstream out(path);
        out << record;
    }
    CHECK(comes(b, [&] { return b.provider().read(id)->presence == Presence::gone; }));
    CHECK(::waitpid(stranger, nullptr, WNOHANG) == 0);  // lives
    ::kill(stranger, SIGKILL);
    ::waitpid(stranger, nullptr, 0);
    CHECK(comes(b, [&] { return ::kill(agent, 0) != 0 || b.folder.processes().empty(); }));
}

TEST_CASE("local: a machine of an earlier boot is gone") {
    LocalBench b;
    const auto id = rent(b, 0, 1);
    const auto path = b.settings.data_dir / "local" / id.get() / "machine.json";
    auto record = nlohmann::json::parse(whole(path));
    ::kill(record["pid"].get<pid_t>(), SIGKILL);
    REQUIRE(comes(b, [&] { return b.folder.processes().empty(); }));
    record["boot_id"] = "another";
    record["pid"] = ::getpid();
    {
        std::ofstream out(path);
        out << record;
    }
    CHECK(b.provider().read(id)->presence == Presence::gone);
}

TEST_CASE("local: what cannot be started is a clean refusal that leaves nothing") {
    LocalBench b;
    const auto o = offer(b, 0);
    const auto check_clean = [&](const LaunchRequest& request) {
        local::Adapter adapter(b.settings, b.hand, gf::test::plain_lookup());
        const auto out = adapter.launch(request);
        CHECK(out.id.empty());
        REQUIRE(out.error);
        CAPTURE(out.error->message);
        CHECK((out.error->kind == ErrorKind::no_capacity || out.error->kind == ErrorKind::refused));
        CHECK(!fs::exists(b.settings.data_dir / "local" / request.tag.get() / "machine.json"));
        CHECK(b.machines() == 0);
        CHECK(adapter.list()->machines.empty());
    };
    const auto agent = b.settings.agent;
    b.settings.agent = b.folder.path() / "nothing";
    check_clean(launch_request(o, 1));
    b.settings.agent = b.folder.program("garbage",
                                        "\x7f"
                                        "ELF but not really");
    check_clean(launch_request(o, 2));
    b.settings.agent = agent;
    auto with_image = launch_request(o, 3);
    with_image.image = "ghcr.io/example/trainer:1";
    check_clean(with_image);
    auto bad_tag = launch_request(o, 4);
    bad_tag.tag = MachineTag{"../../etc"};
    check_clean(bad_tag);
    auto bad_offer = launch_request(o, 5);
    bad_offer.offer.id = "gpu/GPU-zzzz";
    check_clean(bad_offer);
}

TEST_CASE("local: a record that cannot be read makes the listing fail, not shrink") {
    LocalBench b;
    const auto id = rent(b, 0, 1);
    fs::create_directories(b.settings.data_dir / "local" / "gf-broken");
    {
        std::ofstream out(b.settings.data_dir / "local" / "gf-broken" / "machine.json");
        out << "{\"version\":1,\"tag\":";
    }
    const auto listing = b.provider().list();
    REQUIRE(!listing);
    CHECK(listing.error().kind == ErrorKind::malformed);
    CHECK(b.provider().read(id)->presence == Presence::running);
    REQUIRE(!b.provider().read(ProviderMachineId{"gf-broken"}));
}

TEST_CASE("local: a driver in trouble is not a machine without GPUs") {
    LocalBench b(kPlainAgent,
                 "#!/bin/sh\necho 'NVIDIA-SMI has failed because it could not communicate with the NVIDIA "
                 "driver.'\nexit 9\n");
    const auto list = b.provider().offers({});
    REQUIRE(list);
    CHECK(list->offers.size() == 1);
    REQUIRE(list->rejected.size() == 1);
    CHECK(list->rejected[0].reason == "driver_trouble");
}

namespace {

/// nvidia-smi that notes its pid in `file` and then says no more; with `lines` it says those first, and hangs at its end.
std::string hanging(const fs::path& file, const std::string& lines = {}) {
    return "#!/bin/sh\necho $$ > " + file.string() + "\n" + (lines.empty() ? "" : "cat <<'X'\n" + lines + "X\nexec 1>&-\n") +
           "exec sleep 1000\n";
}

/// The pid that it has noted; 0 where it was killed before.
pid_t noted(const fs::path& file) {
    std::ifstream in(file);
    pid_t pid = 0;
    return in >> pid ? pid : 0;
}

/// An adapter like the bench's that does not wait long.
std::unique_ptr<local::Adapter> impatient(LocalBench& b, const std::string& nvidia_smi) {
    auto settings = b.settings;
    settings.nvidia_smi = b.folder.program("hanging-smi", nvidia_smi).string();
    settings.smi_patience = Millis{500};
    return std::make_unique<local::Adapter>(settings, b.hand, gf::test::plain_lookup());
}

}  // namespace

TEST_CASE("local: a driver that hangs costs the cards and nothing else") {
    const std::string one = "GPU-a, NVIDIA GeForce RTX 3090, 24576, 580.1, 4\n";
    for (const bool at_its_end : {false, true}) {
        CAPTURE(at_its_end);
        LocalBench b;
        const auto note = b.folder.path() / "smi-pid";
        const auto adapter = impatient(b, hanging(note, at_its_end ? one : ""));
        const auto list = adapter->offers({.gpu_counts = {1}});
        REQUIRE(list);
        REQUIRE(list->offers.size() == 1);
        CHECK(list->offers[0].gpu_count == 0);
        CHECK(reason(*list, "gpu") == "driver_trouble");
        if (const auto pid = noted(note); pid > 0) CHECK(::kill(pid, 0) != 0);  // killed and reaped
        auto card = launch_request(list->offers[0], 1);
        card.offer.id = "gpu/GPU-a";
        const auto refused = adapter->launch(card);
        REQUIRE(refused.error);
        CHECK(refused.error->kind == ErrorKind::no_capacity);
        const auto out = adapter->launch(launch_request(list->offers[0], 2));
        REQUIRE(!out.error);
        // The cards are hidden from the job, for the driver may come back while it runs.
        CHECK(environment_of(b, agent_of(b, out.id)).find(std::string("CUDA_VISIBLE_DEVICES=") + '\0') != std::string::npos);
    }
}

TEST_CASE("local: what cannot even be killed is left alone until it has ended") {
    LocalBench b;
    const auto note = b.folder.path() / "smi-pid";
    const auto adapter = impatient(b, hanging(note));
    // Whom another process traces is not ours to reap when it is dead, which is what a process in a driver's call looks like.
    std::array<int, 2> word{};
    REQUIRE(::pipe(word.data()) == 0);
    const pid_t tracer = ::fork();
    if (tracer == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int i = 0; i < 10'000 && noted(note) == 0; ++i) ::usleep(1000);
        const auto pid = noted(note);
        const char traced = pid > 0 && ::ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) == 0 ? 'y' : 'n';
        static_cast<void>(::write(word[1], &traced, 1));
        for (;;) ::pause();
    }
    const auto list = adapter->offers({.gpu_counts = {1}});
    char traced = 'n';
    REQUIRE(::read(word[0], &traced, 1) == 1);
    const auto pid = noted(note);
    REQUIRE(list);
    CHECK(list->offers.size() == 1);
    CHECK(reason(*list, "gpu") == "driver_trouble");
    if (traced == 'y') {
        CHECK(::kill(pid, 0) == 0);
        fs::remove(note);
        const auto again = adapter->offers({.gpu_counts = {1}});  // starts no second one
        REQUIRE(again);
        CHECK(reason(*again, "gpu") == "driver_trouble");
        CHECK(!fs::exists(note));
    } else {
        MESSAGE("nobody could trace the process in time: only the plain kill was tried");
    }
    ::kill(tracer, SIGKILL);
    REQUIRE(::waitpid(tracer, nullptr, 0) == tracer);
    ::close(word[0]);
    ::close(word[1]);
    static_cast<void>(b.folder.program("hanging-smi", kTwoCards));
    CHECK(comes(b, [&] {
        const auto healed = adapter->offers({.gpu_counts = {1}});
        return healed && ids(*healed, 1).size() == 2;
    }));
    CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
}

TEST_CASE("nvidia-smi's lines are read as they are") {
    const auto cards = local::parse_cards(
        "GPU-1c, NVIDIA H100 80GB HBM3, 81559, 560.35.05\r\n, x, 1, 2\nshort, line\n"
        "GPU-2d, NVIDIA GB10, [N/A], 580.1\n\n");
    REQUIRE(cards.size() == 3);
    CHECK(cards[0].name == "NVIDIA H100 80GB HBM3");
    CHECK(cards[0].memory == Bytes{81'559 * kMiB});
    CHECK(cards[0].driver == "560.35.05");
    CHECK(cards[1].uuid == "1");
    CHECK(!cards[2].memory);
    CHECK(local::parse_cuda_version(
              "| NVIDIA-SMI 560.35.05   Driver Version: 560.35.05   CUDA Version: 12.6     |") == "12.6");
    CHECK(local::parse_cuda_version("nothing").empty());
}

TEST_CASE("a stat line is read whatever the process calls itself") {
    const auto s =
        local::parse_stat("77 (a) S 1 (b) c) S 5 6 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2");
    REQUIRE(s);
    CHECK(s->pid == 77);
    CHECK(s->state == 'S');
    CHECK(s->parent == 5);
    CHECK(s->session == 42);
    CHECK(s->start_time == 987'654);
    for (const auto* bad : {"", "77", "77 (x", "77 (x)", "77 (x) S", "77 (x) S a b c", "(x) S 1 2 3"})
        CHECK(!local::parse_stat(bad));
}
