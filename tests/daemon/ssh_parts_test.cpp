// The ssh path without a connection: keys, files, command lines, what ssh says, the talk with a machine's shell, and who is
// reached by which way.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>

#include "daemon/ssh/agent_push.hpp"
#include "daemon/ssh/child.hpp"
#include "daemon/ssh/command_line.hpp"
#include "daemon/ssh/keys.hpp"
#include "daemon/ssh/machine_keys.hpp"
#include "daemon/ssh/private_file.hpp"
#include "daemon/ssh/reach.hpp"
#include "daemon/ssh/refusal.hpp"
#include "tests/daemon/support/temporary_folder.hpp"
#include "tests/daemon/support/test_sshd.hpp"

using namespace gf;
using namespace gf::ssh;

namespace {

mode_t mode_of(const std::string& path) {
    struct stat there{};
    return ::stat(path.c_str(), &there) == 0 ? there.st_mode & 07777 : 0;
}

Machine machine_at(const std::string& host) {
    return {.program = "/usr/bin/ssh", .id = "mch_x", .to = {.host = host, .port = 22, .user = "root"}, .identity = "/d/key",
            .known_hosts = "/d/known 100%", .control = "/d/run/c"};
}

bool has(const std::vector<std::string>& argv, const std::string& argument) { return std::ranges::find(argv, argument) != argv.end(); }

}  // namespace

TEST_CASE("a pair of ours is one to OpenSSH") {
    const test::TemporaryFolder folder;
    const auto pair = make_key_pair("gpuferry-abcdefgh");
    CHECK(pair.public_key.starts_with("ssh-ed25519 AAAA"));
    CHECK(pair.public_key.ends_with(" gpuferry-abcdefgh"));
    CHECK(bare_public_key(pair.public_key) + " gpuferry-abcdefgh" == pair.public_key);
    REQUIRE(write_private_file(folder / "key", pair.private_key.reveal()).has_value());
    const auto keygen = find_program("ssh-keygen");
    REQUIRE(!keygen.empty());
    const auto told = test::output_of({keygen, "-y", "-f", folder / "key"});
    CHECK(told == pair.public_key + "\n");
    CHECK(make_key_pair("").public_key != make_key_pair("").public_key);
}

TEST_CASE("our key is made once, is private, and is not made again over half of one") {
    const test::TemporaryFolder folder;
    const auto made = load_or_make_client_key(folder / "ssh", "gpuferry-test");
    REQUIRE(made.has_value());
    const auto again = load_or_make_client_key(folder / "ssh", "another");
    REQUIRE(again.has_value());
    CHECK(again->public_key == made->public_key);
    CHECK(again->private_key.equals(made->private_key.reveal()));
    CHECK(mode_of(folder / "ssh") == 0700);
    CHECK(mode_of(folder / "ssh/id_ed25519") == 0600);
    // Put back from a backup that kept no modes: ssh would refuse it.
    ::chmod((folder / "ssh/id_ed25519").c_str(), 0644);
    REQUIRE(load_or_make_client_key(folder / "ssh", "x").has_value());
    CHECK(mode_of(folder / "ssh/id_ed25519") == 0600);
    // The public half is the private one's, whatever stands there.
    const auto bare = bare_public_key(made->public_key);
    for (const std::string& wrong : {make_key_pair("another").public_key + "\n", std::string("no key"), std::string()}) {
        test::write_file(folder / "ssh/id_ed25519.pub", wrong);
        const auto put_right = load_or_make_client_key(folder / "ssh", "again");
        REQUIRE(put_right.has_value());
        CHECK(put_right->public_key == bare + " again");
        CHECK(test::read_file(folder / "ssh/id_ed25519.pub") == bare + " again\n");
    }
    std::filesystem::remove(folder / "ssh/id_ed25519.pub");
    const auto half = load_or_make_client_key(folder / "ssh", "x");
    REQUIRE(half.has_value());
    CHECK(half->public_key == bare + " x");
    CHECK(test::read_file(folder / "ssh/id_ed25519") == made->private_key.reveal());
}

TEST_CASE("a private half that is none is an error, and never made anew") {
    const test::TemporaryFolder folder;
    const auto made = load_or_make_client_key(folder / "ssh", "gpuferry-test");
    REQUIRE(made.has_value());
    const std::string& whole = made->private_key.reveal();
    const auto middle = whole.size() / 2;
    for (const std::string& broken : {std::string(), whole.substr(0, middle), whole.substr(0, middle) + "!" + whole.substr(middle + 1),
                                      std::string("-----BEGIN OPENSSH PRIVATE KEY-----\n-----END OPENSSH PRIVATE KEY-----\n"),
                                      std::string("-----BEGIN OPENSSH PRIVATE KEY-----\n====\n-----END OPENSSH PRIVATE KEY-----\n")}) {
        test::write_file(folder / "ssh/id_ed25519", broken);
        const auto got = load_or_make_client_key(folder / "ssh", "x");
        REQUIRE(!got.has_value());
        CHECK(got.error().message.find(folder / "ssh/id_ed25519") != std::string::npos);
        CHECK(test::read_file(folder / "ssh/id_ed25519") == broken);
    }
    const auto keygen = find_program("ssh-keygen");
    REQUIRE(!keygen.empty());
    std::filesystem::remove(folder / "ssh/id_ed25519");
    CHECK(test::output_of({keygen, "-q", "-t", "ed25519", "-N", "a passphrase", "-f", folder / "ssh/id_ed25519"}).empty());
    CHECK(!load_or_make_client_key(folder / "ssh", "x").has_value());
    std::filesystem::remove(folder / "ssh/id_ed25519");
    CHECK(test::output_of({keygen, "-q", "-t", "ed25519", "-N", "", "-C", "theirs", "-f", folder / "ssh/id_ed25519"}).empty());
    const auto theirs = load_or_make_client_key(folder / "ssh", "x");
    REQUIRE(theirs.has_value());
    CHECK(theirs->public_key + "\n" == test::output_of({keygen, "-y", "-f", folder / "ssh/id_ed25519"}));
}

TEST_CASE("a machine's folder says what is known of it, and goes with it") {
    const test::TemporaryFolder folder;
    MachineKeys keys(folder / "ssh");
    const MachineId ours{"mch_ours"}, found{"mch_found"};
    CHECK(!keys.prepared(ours));
    const auto setup = keys.prepare(ours, "ssh-ed25519 AAAA me", true);
    REQUIRE(setup.has_value());
    CHECK(setup->client_public == "ssh-ed25519 AAAA me");
    CHECK(test::read_file(folder / "ssh/machines/mch_ours/known_hosts") == "mch_ours " + bare_public_key(setup->host_public) + "\n");
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
        if (entry.is_regular_file()) CHECK(test::read_file(entry.path()).find("PRIVATE KEY") == std::string::npos);
    CHECK(keys.known(ours).ours);
    CHECK(!keys.known(ours).first_meeting);
    CHECK(!keys.known(ours).met);
    REQUIRE(keys.met(ours).has_value());
    CHECK(keys.known(ours).met);

    const auto bare = keys.prepare(found, "ssh-ed25519 AAAA me", false);
    REQUIRE(bare.has_value());
    CHECK(bare->host_public.empty());
    CHECK(bare->host_private.empty());
    auto known = keys.known(found);
    CHECK(known.first_meeting);
    test::write_file(known.file, "mch_found ssh-ed25519 STRANGER\n");
    known = keys.known(found);  // the login failed: the next try is a first meeting again, and knows nothing of the stranger
    CHECK(known.first_meeting);
    CHECK(!std::filesystem::exists(known.file));
    test::write_file(known.file, "mch_found ssh-ed25519 RIGHT\n");
    REQUIRE(keys.met(found).has_value());
    known = keys.known(found);
    CHECK(!known.first_meeting);
    CHECK(known.met);
    CHECK(test::read_file(known.file) == "mch_found ssh-ed25519 RIGHT\n");

    CHECK(keys.port(found) == 0);
    REQUIRE(keys.set_port(found, 23456).has_value());
    CHECK(keys.port(found) == 23456);
    keys.forget(found);
    CHECK(!keys.prepared(found));
}

TEST_CASE("only what the store holds as over is forgotten: it may be an empty store, or another one") {
    using Fate = MachineKeys::Fate;
    const test::TemporaryFolder folder;
    MachineKeys keys(folder / "ssh");
    const MachineId over{"mch_over"}, runs{"mch_runs"}, unheard{"mch_unheard"}, ancient{"mch_ancient"};
    for (const auto& id : {over, runs, unheard, ancient}) REQUIRE(keys.prepare(id, "ssh-ed25519 AAAA me", true).has_value());
    keys.forget_over([](const MachineId&) { return Fate::unheard; });  // an empty store
    CHECK(keys.count() == 4);
    const auto long_ago = std::filesystem::file_time_type::clock::now() - MachineKeys::kUnheardMax - std::chrono::hours{1};
    for (const auto& id : {runs, ancient}) std::filesystem::last_write_time(folder / ("ssh/machines/" + id.get()), long_ago);
    keys.forget_over([&](const MachineId& id) { return id == over ? Fate::over : id == runs ? Fate::kept : Fate::unheard; });
    CHECK(!keys.prepared(over));
    CHECK(keys.prepared(runs));
    CHECK(keys.prepared(unheard));
    CHECK(!keys.prepared(ancient));
}

TEST_CASE("a call names every option, and nothing of the user's is read") {
    const auto master = master_command(machine_at("203.0.113.5"));
    const auto forward = forward_command(machine_at("203.0.113.5"), 0, "127.0.0.1:8471");
    const auto remote = remote_command(machine_at("203.0.113.5"), "true");
    for (const auto* argv : {&master, &forward, &remote}) {
        for (const char* option : {"BatchMode=yes", "IdentitiesOnly=yes", "IdentityAgent=none", "GlobalKnownHostsFile=/dev/null",
                                   "StrictHostKeyChecking=yes", "HostKeyAlias=mch_x", "UserKnownHostsFile=\"/d/known 100%%\"",
                                   "ForwardAgent=no", "UpdateHostKeys=no"})
            CHECK_MESSAGE(has(*argv, option), option);
        CHECK((*argv)[1] == "-F");
        CHECK((*argv)[2] == "none");
    }
    CHECK(has(master, "ControlMaster=yes"));
    CHECK(has(forward, "127.0.0.1:0:127.0.0.1:8471"));
    for (const auto* argv : {&forward, &remote}) CHECK(has(*argv, "ProxyCommand=false"));  // never a connection of its own
    auto first = machine_at("host.example.org");
    first.first_meeting = true;
    CHECK(has(master_command(first), "StrictHostKeyChecking=accept-new"));
    first.key_is_ours = true;
    CHECK(has(master_command(first), "HostKeyAlgorithms=ssh-ed25519"));
}

TEST_CASE("only addresses and plain names become arguments") {
    for (const char* host : {"203.0.113.5", "ssh5.example.org", "2001:db8::5", "::1"}) CHECK(unusable({.host = host}).empty());
    for (const char* host : {"", "-oProxyCommand=touch /tmp/x", "a b", "a;b", "$(x)", "a\nb", "h%h", "../x"})
        CHECK_MESSAGE(!unusable({.host = host}).empty(), host);
    CHECK(!unusable({.host = "h", .port = 0}).empty());
    CHECK(!unusable({.host = "h", .port = 70000}).empty());
    for (const char* user : {"", "-l", "a b", "root;x", "a@b"}) CHECK_MESSAGE(!unusable({.host = "h", .port = 22, .user = user}).empty(), user);
}

TEST_CASE("what ssh says has one meaning each") {
    const struct {
        const char* said;
        bool was_up;
        Refusal means;
    } cases[] = {
        {"ssh: connect to host 203.0.113.5 port 22: Connection refused\r\n", false, Refusal::sshd_not_up},
        {"ssh: connect to host 203.0.113.5 port 22: No route to host", false, Refusal::sshd_not_up},
        {"ssh: Could not resolve hostname x.invalid: Name or service not known", false, Refusal::sshd_not_up},
        {"Connection timed out during banner exchange\nConnection to 203.0.113.5 port 22 timed out", false, Refusal::sshd_not_up},
        {"kex_exchange_identification: Connection closed by remote host\nConnection closed by 203.0.113.5 port 22", false, Refusal::sshd_not_up},
        {"root@203.0.113.5: Permission denied (publickey).", false, Refusal::login_refused},
        {"@@@@\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nHost key verification failed.", false, Refusal::host_key},
        {"No ED25519 host key is known for mch_1 and you have requested strict checking.\nHost key verification failed.", false, Refusal::host_key},
        {"Unable to negotiate with 203.0.113.5 port 22: no matching host key type found. Their offer: rsa-sha2-512", false, Refusal::host_key},
        {"mux_client_forward: forwarding request failed: Port forwarding failed", true, Refusal::forward_refused},
        {"Timeout, server 203.0.113.5 not responding.", true, Refusal::connection_lost},
        {"Connection to 203.0.113.5 closed by remote host.", true, Refusal::connection_lost},
        {"Connection reset by 203.0.113.5 port 22", true, Refusal::connection_lost},
        {"", true, Refusal::connection_lost},
        {"", false, Refusal::ssh_failed},
        {"Bad configuration option: nonsense", false, Refusal::ssh_failed},
    };
    for (const auto& c : cases) CHECK_MESSAGE(refusal_of(c.said, c.was_up) == c.means, c.said);
    CHECK(last_words("first\n\n  \nlast \x1b[31mred\x07\n") == "last [31mred");
    CHECK(last_words(std::string(5000, 'x')).size() == 200);
    CHECK(last_words("\n \n").empty());
}

TEST_CASE("a login that is not root becomes it where sudo asks for nothing, and goes on as it is where it does") {
    const test::TemporaryFolder folder;
    const auto program = [&](const std::string& name, const std::string& text) {
        test::write_file(folder / ("bin/" + name), "#!/bin/sh\n" + text + "\n");
        ::chmod((folder / ("bin/" + name)).c_str(), 0755);
    };
    const std::string script = "printf '%s %s %s' \"$WHO\" \"$(id -u)\" \"$#:${1:+told}\";IFS= read -r line;echo \" $line\"\n";
    const auto told = [&] {
        const auto opening = std::to_string(script.size()) + "\n" + script + "what follows\n";
        return test::output_of({"/usr/bin/env", "PATH=" + (folder / "bin") + ":/usr/bin:/bin", "/bin/sh", "-c", remote_shell()}, opening);
    };
    program("id", "echo \"${UID_SEEN:-1000}\"");
    program("sudo", R"([ "$1" = -n ] || exit 1; shift; WHO=by-sudo UID_SEEN=0 exec "$@")");
    CHECK(told() == "by-sudo 0 1:told what follows\n");
    program("sudo", "echo 'sudo: a password is required' >&2; exit 1");
    CHECK(told() == " 1000 1:told what follows\n");
    program("id", "echo 0");
    program("sudo", "echo used >>" + (folder / "used"));
    CHECK(told() == " 0 1:told what follows\n");
    CHECK(!std::filesystem::exists(folder / "used"));
}

TEST_CASE("the talk with a machine listens to marked lines only") {
    int asked = 0;
    const auto agent = [&asked](std::string_view arch) -> Result<AgentBinary> {
        ++asked;
        if (arch != "x86_64") return fail(ErrorKind::not_found, "there is no agent for " + std::string(arch));
        return AgentBinary{.path = "/agent", .sha256 = std::string(64, 'a'), .size = 7};
    };
    const auto talk = [&](std::initializer_list<const char*> printed, std::string& reply) {
        AgentPush push(MachineTag{"gf-a-b"}, {{"GPUFERRY_ENROL", "secret"}, {"BAD", "two\nlines"}}, agent);
        CHECK(push.opening().ends_with("run\ngf-a-b\n"));
        CHECK(push.opening().find("secret") == std::string::npos);
        AgentPush::Step step = AgentPush::Step::talk;
        for (const char* piece : printed) step = push.take(piece, reply);
        return std::pair(step, push.outcome());
    };
    std::string reply;
    auto [step, outcome] = talk({"Welcome!\n[tmux] attached\ngpufe", "rry:alive 42\n"}, reply);
    CHECK(step == AgentPush::Step::done);
    CHECK(outcome.alive);
    CHECK(!outcome.started);
    CHECK(reply.empty());
    CHECK(asked == 0);

    std::tie(step, outcome) = talk({"motd gpuferry:alive 1\n\ngpuferry:arch x86_64\r\n"}, reply);
    CHECK(step == AgentPush::Step::talk);
    CHECK(reply == std::string(64, 'a') + "\n7\nGPUFERRY_ENROL=secret\n\n");
    CHECK(!outcome.alive);

    std::tie(step, outcome) = talk({"gpuferry:arch x86_64\n", "\ngpuferry:send\n"}, reply);
    CHECK(step == AgentPush::Step::upload);
    std::tie(step, outcome) = talk({"gpuferry:arch x86_64\n", "\ngpuferry:started 77\n"}, reply);
    CHECK(outcome.started);
    std::tie(step, outcome) = talk({"gpuferry:arch sparc64\n"}, reply);
    CHECK(step == AgentPush::Step::done);
    CHECK(outcome.detail == "there is no agent for sparc64");
    std::tie(step, outcome) = talk({"gpuferry:ended \x1b]0;evil\x07no url\n"}, reply);
    CHECK(!outcome.alive);
    CHECK(outcome.detail == "its agent ended at once: ]0;evilno url");
    const std::string endless(100'000, 'x');
    std::tie(step, outcome) = talk({endless.c_str(), "\ngpuferry:worn 5\n"}, reply);
    CHECK(step == AgentPush::Step::done);
}

TEST_CASE("a machine that asks again and again is answered once, and its talk is over") {
    int asked = 0;
    const auto agent = [&asked](std::string_view) -> Result<AgentBinary> {
        ++asked;
        return AgentBinary{.path = "/agent", .sha256 = std::string(64, 'a'), .size = 7};
    };
    const auto talk = [&](const std::string& printed, std::string& reply) {
        AgentPush push(MachineTag{"gf-a-b"}, {{"GPUFERRY_ENROL", "secret"}}, agent);
        const auto step = push.take(printed, reply);
        return std::pair(step, push.outcome());
    };
    const std::string arch = "gpuferry:arch x86_64\n", send = "gpuferry:send\n";
    std::string flood, reply;
    for (int i = 0; i < 10'000; ++i) flood += arch;
    auto [step, outcome] = talk(flood, reply);
    CHECK(step == AgentPush::Step::done);
    CHECK(!outcome.alive);
    CHECK(outcome.detail.find("out of turn") != std::string::npos);
    CHECK(asked == 1);
    CHECK(reply.size() < 200);
    std::tie(step, outcome) = talk(send, reply);  // nobody has told it of a binary
    CHECK(step == AgentPush::Step::done);
    CHECK(!outcome.alive);
    AgentPush push(MachineTag{"gf-a-b"}, {}, agent);
    CHECK(push.take(arch + send, reply) == AgentPush::Step::upload);
    CHECK(push.take(send, reply) == AgentPush::Step::done);
    CHECK(!push.outcome().alive);
    // The rest of a line that was too long is no line.
    AgentPush long_line(MachineTag{"gf-a-b"}, {}, agent);
    CHECK(long_line.take(std::string(5000, 'x'), reply) == AgentPush::Step::talk);
    CHECK(long_line.take("gpuferry:alive 1\n", reply) == AgentPush::Step::talk);
    CHECK(long_line.take(std::string(70'000, 'x') + "\ngpuferry:alive 1\n", reply) == AgentPush::Step::done);
}

TEST_CASE("addresses that cannot be dialled from elsewhere are private") {
    for (const char* host : {"127.0.0.1", "10.0.0.5", "172.16.0.1", "172.31.255.1", "192.168.1.2", "100.64.0.1", "100.127.9.9", "169.254.1.1",
                             "0.0.0.0", "::1", "[::1]", "fe80::1", "[fd12:3456::1]", "::ffff:10.0.0.1", "localhost", "nas", "box.local",
                             "box.lan", "ferry.internal", "ferry.home.arpa", "ferry.lan."})
        CHECK_MESSAGE(is_private_host(host), host);
    for (const char* host : {"203.0.113.5", "172.32.0.1", "100.128.0.1", "9.255.255.255", "11.0.0.1", "ferry.example.org", "[2001:db8::1]",
                             "::ffff:203.0.113.5", "local.example.org", "192.169.0.1"})
        CHECK_MESSAGE(!is_private_host(host), host);
}

TEST_CASE("a provider's machines are reached by one way or not at all") {
    Capabilities container, whole;
    whole.vm = whole.ssh = true;
    Capabilities here;
    here.is_local = true;
    const std::string cloud = "https://api.example.org/v2", sim = "http://127.0.0.1:1234/v2";
    const std::string open = "https://ferry.example.org:8471", inside = "https://192.168.1.2:8471", loopback = "http://127.0.0.1:8471";
    const struct {
        ReachPolicy policy;
        std::string advertise;
        const Capabilities& provider;
        std::string api;
        Way way;
    } cases[] = {
        {ReachPolicy::automatic, open, container, cloud, Way::dial},
        {ReachPolicy::automatic, open, whole, cloud, Way::dial},
        {ReachPolicy::automatic, "", container, cloud, Way::none},
        {ReachPolicy::automatic, "", whole, cloud, Way::tunnel},
        {ReachPolicy::automatic, inside, container, cloud, Way::none},
        {ReachPolicy::automatic, inside, whole, cloud, Way::tunnel},
        {ReachPolicy::automatic, loopback, container, cloud, Way::none},
        {ReachPolicy::automatic, loopback, container, sim, Way::dial},
        {ReachPolicy::automatic, loopback, whole, sim, Way::dial},
        {ReachPolicy::automatic, inside, whole, sim, Way::tunnel},
        {ReachPolicy::direct, inside, container, cloud, Way::dial},
        {ReachPolicy::direct, inside, whole, cloud, Way::dial},
        {ReachPolicy::direct, "", whole, cloud, Way::none},
        {ReachPolicy::ssh, open, whole, cloud, Way::tunnel},
        {ReachPolicy::ssh, open, container, cloud, Way::dial},
        {ReachPolicy::ssh, "", container, cloud, Way::none},
        {ReachPolicy::ssh, "", whole, sim, Way::tunnel},
        {ReachPolicy::direct, "", here, "", Way::dial},
        {ReachPolicy::ssh, "", here, "", Way::dial},
    };
    for (const auto& c : cases) {
        CAPTURE(std::string(text(c.policy)));
        CAPTURE(c.advertise);
        CAPTURE(c.api);
        CHECK(way_to(c.policy, c.advertise, c.provider, c.api) == c.way);
    }
    CHECK(own_gateway({"0.0.0.0", 0}, 8471) == "127.0.0.1:8471");
    CHECK(own_gateway({"::", 0}, 8471) == "127.0.0.1:8471");
    CHECK(own_gateway({"fd00::5", 8471}, 8471) == "[fd00::5]:8471");
    CHECK(own_gateway({"10.1.2.3", 8471}, 9) == "10.1.2.3:9");
}
