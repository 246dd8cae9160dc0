// Tunnels over a real sshd on loopback: how they come up, what they carry, how they come back, and whom they do not talk to.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <thread>

#include "checkpoints/digest.hpp"
#include "daemon/ssh/keys.hpp"
#include "daemon/ssh/tunnels.hpp"
#include "model/id.hpp"
#include "tests/daemon/support/gateway_bench.hpp"
#include "tests/daemon/support/test_sshd.hpp"
#include "tests/skip.hpp"

using namespace gf;
using namespace gf::ssh;
using gf::test::TestSshd;

namespace {

namespace fs = std::filesystem;

/// Long enough for a loaded machine under a sanitizer; what passes is there much earlier.
constexpr int kPatienceS = 60;

template <class Done>
bool eventually(Done done) {
    for (int i = 0; i < kPatienceS * 50; ++i) {
        if (done()) return true;
        ::poll(nullptr, 0, 20);
    }
    return done();
}

/// Stands in for an agent where a test is about the way to it: notes its environment and stays.
constexpr std::string_view kPretender = R"(#!/bin/sh
[ "$1" = --version ] && exit 0
env >"$HOME/agent-env.new" && mv "$HOME/agent-env.new" "$HOME/agent-env"
echo one >>"$HOME/agent-starts"
exec sleep 100000
)";

/// What the user's own ssh keeps: names, times and bytes.
std::string users_ssh() {
    std::string out;
    std::error_code error;
    std::vector<fs::path> paths;
    for (fs::recursive_directory_iterator it(test::login_home() + "/.ssh", error), end; !error && it != end; it.increment(error)) paths.push_back(it->path());
    std::ranges::sort(paths);
    for (const auto& path : paths) {
        struct stat there{};
        ::lstat(path.c_str(), &there);
        out += path.string() + " " + std::to_string(there.st_mtim.tv_sec) + "." + std::to_string(there.st_mtim.tv_nsec) + "\n";
        if (S_ISREG(there.st_mode)) out += test::read_file(path);
    }
    return fs::exists(test::login_home() + "/.ssh") ? out : "none";
}

class Bench {
 public:
    explicit Bench(const std::function<void(TunnelsOptions&)>& change = {}) {
        test::write_file(folder / "agent", std::string(kPretender));
        // Where the tests' standard user would have keys and hosts: nobody reads or changes them.
        before = users_ssh();
        TunnelsOptions options;
        options.data_dir = folder / "data";
        options.comment = "gpuferry-test";
        options.target = [] { return std::string("127.0.0.1:9"); };
        options.agent_for = [this](std::string_view) -> Result<AgentBinary> {
            const auto bytes = test::read_file(folder / "agent");
            return AgentBinary{.path = folder / "agent", .sha256 = checkpoints::sha256(bytes).hex(), .size = static_cast<std::int64_t>(bytes.size())};
        };
        options.tag_of = [](const MachineId& m) { return MachineTag{machine_tag("abcdefgh", m.get())}; };
        options.agent_env = [](const MachineId&) -> std::map<std::string, std::string> {
            return {{"GPUFERRY_ENROL", "enrol-token-of-the-test"}, {"GPUFERRY_PIN", "pin"}};
        };
        options.agent_connected = [](const MachineId&) { return false; };
        options.tell = [this](const TunnelNews& n) {
            const std::scoped_lock lock(mutex);
            news.push_back(n);
        };
        options.pause_stranger = std::chrono::milliseconds{300};
        if (change) change(options);
        tunnels = std::make_unique<Tunnels>(std::move(options));
        REQUIRE(tunnels->open_keys().has_value());
    }
    ~Bench() {
        tunnels->stop();
        CHECK(test::processes_with_argument(folder.path() + "/data/ssh").empty());
        CHECK(users_ssh() == before);
    }

    [[nodiscard]] std::vector<TunnelNews> told(const MachineId& machine) {
        const std::scoped_lock lock(mutex);
        std::vector<TunnelNews> out;
        for (const auto& n : news)
            if (n.machine == machine) out.push_back(n);
        return out;
    }
    /// Waits for a news of this reason, after the first `after` ones.
    bool hears(const MachineId& machine, const std::string& reason, std::size_t after = 0) {
        return eventually([&] {
            const auto all = told(machine);
            return std::ranges::any_of(all.begin() + static_cast<std::ptrdiff_t>(std::min(after, all.size())), all.end(),
                                       [&](const TunnelNews& n) { return n.reason == reason; });
        });
    }
    std::string all_told(const MachineId& machine) {
        std::string out;
        for (const auto& n : told(machine)) out += n.reason + ": " + n.detail + "\n";
        return out;
    }
    SshSetup prepare(const MachineId& machine, TestSshd& sshd, bool ours) {
        auto setup = tunnels->prepare(machine, ours);
        REQUIRE(setup.has_value());
        sshd.let_in(setup->client_public);
        if (ours) sshd.show_host_key(setup->host_private.reveal());
        return *std::move(setup);
    }
    [[nodiscard]] static SshEndpoint at(const TestSshd& sshd) { return {.host = "127.0.0.1", .port = sshd.port(), .user = test::login_name()}; }
    [[nodiscard]] int port_of(const MachineId& machine) const { return MachineKeys(folder / "data/ssh").port(machine); }

    test::TemporaryFolder folder;
    std::string before;
    std::mutex mutex;  // guards news
    std::vector<TunnelNews> news;
    std::unique_ptr<Tunnels> tunnels;
};

MachineId machine(char c) { return MachineId{"mch_" + std::string(26, c)}; }

/// Agents outlive connections on purpose; not the test.
struct Cleaned {
    std::string home;
    ~Cleaned() { test::end_agents_in(home); }
};

int connected(int port) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(static_cast<std::uint16_t>(port));
    if (::connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0) return fd;
    ::close(fd);
    return -1;
}

bool is_open(int port) {
    const int fd = connected(port);
    if (fd >= 0) ::close(fd);
    return fd >= 0;
}

/// Passes bytes on between its own port and another. Told to, it lets go of its clients and keeps its servers: a network that
/// was cut, of which the far side knows nothing.
class Relay {
 public:
    explicit Relay(int to) : to_(to), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof at;
        REQUIRE(::bind(listener_, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
        REQUIRE(::listen(listener_, 16) == 0);
        REQUIRE(::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size) == 0);
        port = ntohs(at.sin_port);
        thread_ = std::thread([this] { run(); });
    }
    ~Relay() {
        stop_ = true;
        thread_.join();
        for (const auto& [client, server] : pairs_) {
            if (client >= 0) ::close(client);
            ::close(server);
        }
        ::close(listener_);
    }
    void cut() {
        cut_ = true;
        while (cut_) ::poll(nullptr, 0, 5);
    }
    int port{0};

 private:
    void run() {
        while (!stop_) {
            if (cut_) {
                for (auto& [client, server] : pairs_) {
                    if (client >= 0) ::close(client);
                    client = -1;
                }
                cut_ = false;
            }
            std::vector<pollfd> fds{{.fd = listener_, .events = POLLIN, .revents = 0}};
            for (const auto& [client, server] : pairs_) {
                fds.push_back({.fd = client, .events = POLLIN, .revents = 0});
                fds.push_back({.fd = client >= 0 ? server : -1, .events = POLLIN, .revents = 0});
            }
            ::poll(fds.data(), fds.size(), 20);
            for (std::size_t i = 0; i < pairs_.size(); ++i) {
                auto& [client, server] = pairs_[i];
                if (client >= 0 && fds[1 + 2 * i].revents != 0) pass(client, server, client);
                if (client >= 0 && fds[2 + 2 * i].revents != 0) pass(server, client, client);
            }
            if (fds[0].revents == 0) continue;
            const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
            const int server = connected(to_);
            if (client >= 0 && server >= 0) pairs_.emplace_back(client, server);
        }
    }
    /// An end on one side is one on the other.
    static void pass(int from, int to, int& client) {
        char piece[16 * 1024];
        const ssize_t got = ::read(from, piece, sizeof piece);
        if (got > 0 && ::send(to, piece, static_cast<std::size_t>(got), MSG_NOSIGNAL) == got) return;
        ::shutdown(to, SHUT_RDWR);
        ::close(client);
        client = -1;
    }

    int to_, listener_;
    std::vector<std::pair<int, int>> pairs_;
    std::atomic<bool> stop_{false}, cut_{false};
    std::thread thread_;
};

}  // namespace

#define NEEDS_SSHD()                          \
    if (const auto why = test::no_sshd(); !why.empty()) { \
        test::skip(why);                      \
        return;                               \
    }

TEST_CASE("a tunnel carries the agent there, starts it once, and shows nothing secret in any argument") {
    NEEDS_SSHD()
    Bench bench;
    TestSshd sshd(bench.folder / "m");
    const Cleaned cleaned{sshd.home()};
    // A login that talks: what is ours is told by its mark.
    test::write_file(sshd.home() + "/.bashrc", "echo Welcome to your machine; echo 'gpuferry: is not a line of it'\n");
    const auto setup = bench.prepare(machine('1'), sshd, true);
    sshd.start();
    std::atomic<bool> looking{true};
    std::atomic<int> shown{0};
    std::thread watch([&] {
        const auto key_line = setup.host_private.reveal().substr(100, 60);
        while (looking) {
            shown += static_cast<int>(test::processes_with_argument("enrol-token-of-the-test").size());
            shown += static_cast<int>(test::processes_with_argument(key_line).size());
            ::poll(nullptr, 0, 2);
        }
    });
    bench.tunnels->open(machine('1'), Bench::at(sshd));
    const bool up = bench.hears(machine('1'), "up");
    looking = false;
    watch.join();
    REQUIRE_MESSAGE(up, bench.all_told(machine('1')) << sshd.log());
    CHECK(shown == 0);
    const int port = bench.port_of(machine('1'));
    CHECK(is_open(port));
    REQUIRE(eventually([&] { return fs::exists(sshd.home() + "/agent-env"); }));
    const auto env = test::read_file(sshd.home() + "/agent-env");
    CHECK(env.find("GPUFERRY_URL=https://127.0.0.1:" + std::to_string(port) + "\n") != std::string::npos);
    CHECK(env.find("GPUFERRY_ENROL=enrol-token-of-the-test\n") != std::string::npos);
    const auto sent = checkpoints::sha256(test::read_file(bench.folder / "agent")).hex();
    CHECK(test::read_file(sshd.home() + "/.gpuferry-agent/agent-" + sent) == test::read_file(bench.folder / "agent"));
    REQUIRE(test::agents_in(sshd.home()).size() == 1);
    const auto agent = test::agents_in(sshd.home());

    // The same again does nothing; a new connection finds the agent and leaves it alone.
    bench.tunnels->open(machine('1'), Bench::at(sshd));
    const auto heard = bench.told(machine('1')).size();
    sshd.stop();
    CHECK(bench.hears(machine('1'), "connection_lost", heard));
    CHECK(test::agents_in(sshd.home()) == agent);
    sshd.start();
    REQUIRE_MESSAGE(bench.hears(machine('1'), "up", heard), bench.all_told(machine('1')));
    CHECK(bench.port_of(machine('1')) == port);
    CHECK(is_open(port));
    CHECK(test::agents_in(sshd.home()) == agent);
    CHECK(test::read_file(sshd.home() + "/agent-starts") == "one\n");

    // An agent that has died is started again at the next connection.
    test::end_agents_in(sshd.home());
    const auto before = bench.told(machine('1')).size();
    sshd.stop();
    sshd.start();
    REQUIRE(bench.hears(machine('1'), "up", before));
    REQUIRE(eventually([&] { return test::read_file(sshd.home() + "/agent-starts") == "one\none\n"; }));
    CHECK(test::agents_in(sshd.home()).size() == 1);

    bench.tunnels->close(machine('1'));
    CHECK(eventually([&] { return !is_open(port); }));
    CHECK(!fs::exists(bench.folder / "data/ssh/machines/" + machine('1').get()));
    CHECK(bench.tunnels->count() == 0);
}

TEST_CASE("our ssh process is made again when it is killed, and leaves with us") {
    NEEDS_SSHD()
    Bench bench;
    TestSshd sshd(bench.folder / "m");
    const Cleaned cleaned{sshd.home()};
    bench.prepare(machine('2'), sshd, true);
    sshd.start();
    bench.tunnels->open(machine('2'), Bench::at(sshd));
    REQUIRE_MESSAGE(bench.hears(machine('2'), "up"), bench.all_told(machine('2')) << sshd.log());
    const auto masters = test::processes_with_argument("ControlMaster=yes");
    const auto heard = bench.told(machine('2')).size();
    int ours = 0;
    for (const pid_t pid : masters)
        if (test::read_file("/proc/" + std::to_string(pid) + "/cmdline").find(bench.folder.path()) != std::string::npos) {
            ++ours;
            ::kill(pid, SIGKILL);
        }
    CHECK(ours == 1);
    CHECK(bench.hears(machine('2'), "up", heard));
    CHECK(is_open(bench.port_of(machine('2'))));
}

TEST_CASE("a connection of which the machine has not noticed that it is over does not keep its port from us") {
    NEEDS_SSHD()
    Bench bench;
    TestSshd sshd(bench.folder / "m");
    const Cleaned cleaned{sshd.home()};
    bench.prepare(machine('3'), sshd, true);
    sshd.start();
    Relay relay(sshd.port());
    bench.tunnels->open(machine('3'), {.host = "127.0.0.1", .port = relay.port, .user = test::login_name()});
    REQUIRE_MESSAGE(bench.hears(machine('3'), "up"), bench.all_told(machine('3')) << sshd.log());
    const int port = bench.port_of(machine('3'));
    const auto heard = bench.told(machine('3')).size();
    relay.cut();
    REQUIRE_MESSAGE(bench.hears(machine('3'), "up", heard), bench.all_told(machine('3')) << sshd.log());
    CHECK(bench.port_of(machine('3')) == port);
    CHECK(is_open(port));
}

TEST_CASE("a machine that shows another host key is not talked to, and that is told; with its own it is back") {
    NEEDS_SSHD()
    for (const bool ours : {true, false}) {
        CAPTURE(ours);
        Bench bench;
        TestSshd sshd(bench.folder / "m");
        const Cleaned cleaned{sshd.home()};
        bench.prepare(machine('4'), sshd, ours);
        const auto right = test::read_file(bench.folder / "m/hostkey");
        sshd.start();
        bench.tunnels->open(machine('4'), Bench::at(sshd));
        REQUIRE_MESSAGE(bench.hears(machine('4'), "up"), bench.all_told(machine('4')) << sshd.log());
        const auto known = bench.folder / "data/ssh/machines/" + machine('4').get() + "/known_hosts";
        const auto pinned = test::read_file(known);
        CHECK(pinned.starts_with(machine('4').get() + " ssh-ed25519 "));
        const auto heard = bench.told(machine('4')).size();
        sshd.stop();
        const int accepted = sshd.accepted();
        sshd.show_host_key(make_key_pair("stranger").private_key.reveal());
        sshd.start();
        CHECK_MESSAGE(bench.hears(machine('4'), "host_key_changed", heard), bench.all_told(machine('4')));
        CHECK(sshd.accepted() == accepted);
        CHECK(test::read_file(known) == pinned);
        sshd.stop();
        sshd.show_host_key(right);
        sshd.start();
        CHECK_MESSAGE(bench.hears(machine('4'), "up", heard), bench.all_told(machine('4')));
    }
}

TEST_CASE("a machine that has not yet taken our host key is waited for, and not talked to meanwhile") {
    NEEDS_SSHD()
    Bench bench;
    TestSshd sshd(bench.folder / "m");
    const Cleaned cleaned{sshd.home()};
    const auto images_own = test::read_file(bench.folder / "m/hostkey");
    const auto setup = bench.prepare(machine('5'), sshd, true);
    sshd.show_host_key(images_own);
    sshd.start();
    bench.tunnels->open(machine('5'), Bench::at(sshd));
    REQUIRE_MESSAGE(bench.hears(machine('5'), "host_key_not_ours"), bench.all_told(machine('5')));
    CHECK(sshd.accepted() == 0);
    sshd.stop();
    sshd.show_host_key(setup.host_private.reveal());
    sshd.start();
    CHECK_MESSAGE(bench.hears(machine('5'), "up"), bench.all_told(machine('5')) << sshd.log());
}

TEST_CASE("what answered at a machine's address before it did is not remembered as the machine") {
    NEEDS_SSHD()
    Bench bench;
    TestSshd former(bench.folder / "former");
    TestSshd sshd(bench.folder / "m");
    const Cleaned cleaned{sshd.home()};
    bench.prepare(machine('6'), sshd, false);
    former.start();
    sshd.start();
    const auto place = Bench::at(sshd);
    sshd.stop();
    Relay relay(former.port());
    bench.tunnels->open(machine('6'), {.host = "127.0.0.1", .port = relay.port, .user = test::login_name()});
    REQUIRE_MESSAGE(bench.hears(machine('6'), "login_refused"), bench.all_told(machine('6')));
    sshd.start();
    bench.tunnels->open(machine('6'), place);
    REQUIRE_MESSAGE(bench.hears(machine('6'), "up"), bench.all_told(machine('6')) << sshd.log());
    CHECK(former.accepted() == 0);
}

TEST_CASE("two machines that had the same address one after the other are two machines") {
    NEEDS_SSHD()
    Bench bench;
    TestSshd sshd(bench.folder / "m");
    const Cleaned cleaned{sshd.home()};
    bench.prepare(machine('7'), sshd, true);
    sshd.start();
    bench.tunnels->open(machine('7'), Bench::at(sshd));
    REQUIRE_MESSAGE(bench.hears(machine('7'), "up"), bench.all_told(machine('7')) << sshd.log());
    const auto heard = bench.told(machine('7')).size();
    sshd.stop();
    bench.prepare(machine('8'), sshd, true);
    sshd.start();
    bench.tunnels->open(machine('8'), Bench::at(sshd));
    CHECK_MESSAGE(bench.hears(machine('8'), "up"), bench.all_told(machine('8')) << sshd.log());
    CHECK_MESSAGE(bench.hears(machine('7'), "host_key_changed", heard), bench.all_told(machine('7')));
    CHECK(bench.port_of(machine('7')) != bench.port_of(machine('8')));
}

TEST_CASE("what cannot be is said in one word, and tried again") {
    NEEDS_SSHD()
    Bench bench;
    TestSshd sshd(bench.folder / "m");
    const Cleaned cleaned{sshd.home()};
    bench.prepare(machine('9'), sshd, true);
    sshd.more = "AllowTcpForwarding no";
    sshd.start();
    bench.tunnels->open(machine('9'), Bench::at(sshd));
    CHECK_MESSAGE(bench.hears(machine('9'), "forward_refused"), bench.all_told(machine('9')) << sshd.log());
    CHECK(test::agents_in(sshd.home()).empty());
    sshd.stop();
    CHECK_MESSAGE(bench.hears(machine('9'), "sshd_not_up"), bench.all_told(machine('9')));
    sshd.more = "";
    sshd.start();
    CHECK_MESSAGE(bench.hears(machine('9'), "up"), bench.all_told(machine('9')) << sshd.log());

    const auto bad = machine('a');
    REQUIRE(bench.tunnels->prepare(bad, true).has_value());
    bench.tunnels->open(bad, {.host = "-oProxyCommand=touch " + (bench.folder / "hacked")});
    CHECK(bench.hears(bad, "bad_endpoint"));
    CHECK(!fs::exists(bench.folder / "hacked"));
    // What has no keys here gets no connection.
    bench.tunnels->open(machine('b'), Bench::at(sshd));
    CHECK(bench.hears(machine('b'), "no_keys"));
    CHECK(bench.tunnels->count() == 2);
}

TEST_CASE("no machine is prepared beyond the tunnels that a daemon keeps, and a place is free again when one goes") {
    Bench bench;
    std::string id = "mch_" + std::string(26, '0');
    for (std::size_t i = 0; i < Tunnels::kTunnelsMax; ++i) {
        id.replace(id.size() - 3, 3, std::to_string(i + 100));
        REQUIRE(bench.tunnels->prepare(MachineId{id}, false).has_value());
    }
    const auto one_more = bench.tunnels->prepare(machine('d'), false);
    REQUIRE(!one_more.has_value());
    CHECK(one_more.error().kind == ErrorKind::quota);
    bench.tunnels->close(MachineId{id});
    CHECK(bench.tunnels->prepare(machine('d'), false).has_value());
}

TEST_CASE("a machine whose shell never stops talking is left after a while, and the way stands") {
    NEEDS_SSHD()
    Bench bench([](TunnelsOptions& options) { options.talk_max = std::chrono::milliseconds{1000}; });
    TestSshd sshd(bench.folder / "m");
    const Cleaned cleaned{sshd.home()};
    test::write_file(sshd.home() + "/.bashrc", "while echo gpuferry: talk; do :; done; exit\n");
    bench.prepare(machine('8'), sshd, true);
    sshd.start();
    bench.tunnels->open(machine('8'), Bench::at(sshd));
    REQUIRE_MESSAGE(bench.hears(machine('8'), "agent_not_started"), bench.all_told(machine('8')));
}

TEST_CASE("a machine without keys is told as that, unless its agent is here by itself") {
    std::atomic<bool> here{false};
    Bench bench([&](TunnelsOptions& options) { options.agent_connected = [&](const MachineId&) { return here.load(); }; });
    bench.tunnels->open(machine('8'), {.host = "127.0.0.1", .port = 9, .user = "root"});
    REQUIRE(bench.told(machine('8')).size() == 1);
    CHECK(bench.told(machine('8'))[0].reason == "no_keys");
    CHECK(bench.tunnels->count() == 0);
    here = true;
    bench.tunnels->open(machine('8'), {.host = "127.0.0.1", .port = 9, .user = "root"});
    CHECK(bench.told(machine('8')).size() == 1);
}

TEST_CASE("the folder of the sockets is looked at each time, and lies where only we may write if there is such a place") {
    NEEDS_SSHD()
    const test::TemporaryFolder runtime;
    const std::string open = runtime / "open", ours = runtime / "ours";
    fs::create_directories(open);
    fs::create_directories(ours);
    ::chmod(open.c_str(), 0777);
    ::chmod(ours.c_str(), 0755);
    Bench bench([&](TunnelsOptions& options) {
        options.data_dir += "/" + std::string(100, 'd');  // too deep for a socket
        options.runtime_folders = {"relative", runtime / "absent", open, ours};
    });
    CHECK(fs::is_empty(open));
    REQUIRE(!fs::is_empty(ours));
    const fs::path sockets = fs::directory_iterator(ours)->path();
    // While we were away somebody has made it instead.
    fs::remove(sockets);
    fs::create_directories(runtime / "trap");
    fs::create_directory_symlink(runtime / "trap", sockets);
    TestSshd sshd(bench.folder / "m");
    const Cleaned cleaned{sshd.home()};
    bench.prepare(machine('9'), sshd, true);
    sshd.start();
    bench.tunnels->open(machine('9'), Bench::at(sshd));
    REQUIRE_MESSAGE(bench.hears(machine('9'), "ssh_failed"), bench.all_told(machine('9')));
    CHECK(bench.told(machine('9'))[0].detail.find(sockets.string()) != std::string::npos);
    CHECK(fs::is_empty(runtime / "trap"));
    // What cleans up there takes it away: it is made anew.
    fs::remove(sockets);
    REQUIRE_MESSAGE(bench.hears(machine('9'), "up"), bench.all_told(machine('9')));
    CHECK(fs::is_directory(fs::symlink_status(sockets)));
}

TEST_CASE("an agent that does not start is told, and the way stands") {
    NEEDS_SSHD()
    Bench bench;
    test::write_file(bench.folder / "agent", "#!/bin/sh\n[ \"$1\" = --version ] && exit 0\necho no memory left; exit 3\n");
    TestSshd sshd(bench.folder / "m");
    bench.prepare(machine('c'), sshd, true);
    sshd.start();
    bench.tunnels->open(machine('c'), Bench::at(sshd));
    REQUIRE_MESSAGE(bench.hears(machine('c'), "agent_not_started"), bench.all_told(machine('c')) << sshd.log());
    const auto told = bench.told(machine('c')).back();
    CHECK(told.up);
    // On a loaded machine it may live for longer than it is watched; then it is missed at the next looks.
    const bool at_once = told.detail.find("ended at once: no memory left") != std::string::npos;
    CHECK_MESSAGE((at_once || told.detail.find("it is not started again") != std::string::npos), told.detail);
}

TEST_CASE("the real agent arrives, enrols through the tunnel, and does so again after a cut") {
    NEEDS_SSHD()
    test::GatewayBench gateway;
    const MachineId id = gateway.gate.id;
    Bench bench([&](TunnelsOptions& options) {
        options.target = [&] { return "127.0.0.1:" + std::to_string(gateway.gateway->port()); };
        const std::string path = GF_AGENT_PATH;
        const auto bytes = test::read_file(path);
        const AgentBinary binary{.path = path, .sha256 = checkpoints::sha256(bytes).hex(), .size = static_cast<std::int64_t>(bytes.size())};
        options.agent_for = [binary](std::string_view) -> Result<AgentBinary> { return binary; };
        options.tag_of = [&](const MachineId&) { return MachineTag{gateway.tag}; };
        options.agent_env = [&](const MachineId& m) -> std::map<std::string, std::string> {
            return {{"GPUFERRY_MACHINE", gateway.tag}, {"GPUFERRY_ENROL", enrol_token(gateway.options.install_key, m)}, {"GPUFERRY_PIN", gateway.gateway->spki_pin()}};
        };
        options.agent_connected = [&](const MachineId& m) { return gateway.gateway->connected(m); };
    });
    TestSshd sshd(bench.folder / "m");
    const Cleaned cleaned{sshd.home()};
    sshd.env["GPUFERRY_WORKSPACE"] = bench.folder / "work";
    fs::create_directories(bench.folder / "work");
    bench.prepare(id, sshd, true);
    sshd.start();
    bench.tunnels->open(id, Bench::at(sshd));
    REQUIRE_MESSAGE(bench.hears(id, "up"), bench.all_told(id) << sshd.log());
    REQUIRE_MESSAGE(eventually([&] { return gateway.gateway->connected(id); }), bench.all_told(id));
    const auto boots = [&] { return gateway.core->seen_of<AgentConnected>(); };
    REQUIRE(!boots().empty());
    const auto agent = test::agents_in(sshd.home());
    REQUIRE(agent.size() == 1);
    const auto met = boots().size();
    sshd.stop();
    sshd.start();
    REQUIRE(eventually([&] { return boots().size() > met && gateway.gateway->connected(id); }));
    CHECK(boots().back().boot_id == boots().front().boot_id);
    CHECK(test::agents_in(sshd.home()) == agent);
}
