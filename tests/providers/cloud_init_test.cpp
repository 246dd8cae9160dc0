// The start hook is run for real: by dash and by bash, in a folder that stands for the root of a machine,
// with recording stand-ins for the programs of the system.
#include "providers/cloud_init.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "local_bench.hpp"
#include "providers/throwaway_key.hpp"

using namespace gf;
using gf::test::TemporaryFolder;

namespace {

namespace fs = std::filesystem;

const std::string kPem =
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\nBG5vbmUAAAAEbm9uZQAAAAAAAAAB\n-----END "
    "OPENSSH PRIVATE KEY-----\n";
const std::string kHostPublic =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHostHostHostHostHostHostHostHostHostHost gpuferry";
const std::string kClientPublic =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIUserUserUserUserUserUserUserUserUserUser gpuferry";

LaunchRequest request() {
    LaunchRequest r;
    r.tag = MachineTag{"gf-testtest-00000000000000000000000001"};
    r.env = {{"GPUFERRY_URL", "https://ferry.example.org"},
             {"GPUFERRY_MACHINE", r.tag.get()},
             {"GPUFERRY_ENROL", "it's $HOME `id` \"quoted\" \\ and a\nsecond line"},
             {"GPUFERRY_PIN", ""},
             {"not a name", "x"}};
    // What the agent would see; then it stays, as the agent does.
    r.start_script =
        "printf '%s|' \"$GPUFERRY_MACHINE\" \"$GPUFERRY_ENROL\" \"$HOME\" \"$PWD\" "
        ">\"$GPUFERRY_ROOT/seen.part\"\n"
        "echo $$ >>\"$GPUFERRY_ROOT/started\"\n"
        "mv \"$GPUFERRY_ROOT/seen.part\" \"$GPUFERRY_ROOT/seen\"\nexec sleep 1000\n";
    r.ssh = SshSetup{
        .client_public = kClientPublic + "\n", .host_private = Secret(kPem), .host_public = kHostPublic};
    return r;
}

std::string read(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

void write(const fs::path& file, const std::string& text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
}

unsigned mode(const fs::path& file) {
    struct stat s{};
    return ::stat(file.c_str(), &s) == 0 ? s.st_mode & 07777U : 0U;
}

/// A machine that was just booted, as far as the hook can see it.
struct Machine {
    explicit Machine(const std::string& shell, bool systemd) : interpreter(shell) {
        fs::create_directories(root() / "home/ubuntu");
        fs::create_directories(root() / "tmp");
        write(root() / "etc/ssh/sshd_config", "Include /etc/ssh/sshd_config.d/*.conf\nPort 22\n");
        if (systemd) fs::create_directories(root() / "run/systemd/system");
        const auto recording = [&](const std::string& name, const std::string& rest) {
            program(name, "#!/bin/sh\necho \"" + name + " $*\" >>\"$GPUFERRY_ROOT/calls\"\n" + rest);
        };
        recording("sshd", "exit 0\n");
        recording("service", "exit 0\n");
        // A unit is active once it was started; one that is started must be there, and runs its ExecStart.
        recording("systemctl", R"sh(d=$GPUFERRY_ROOT/etc/systemd/system
[ "$1" != --quiet ] || shift
case "$1" in
is-active) [ -e "$GPUFERRY_ROOT/unit" ];;
enable) [ -s "$d/$2" ] && mkdir -p "$d/multi-user.target.wants" && ln -sf "../$2" "$d/multi-user.target.wants/$2";;
start)
    what=$(sed -n 's|^ExecStart=/bin/sh ||p' "$d/$3.service") && [ -n "$what" ] || exit 5
    : >"$GPUFERRY_ROOT/unit"
    /bin/sh "$GPUFERRY_ROOT$what" </dev/null >/dev/null 2>&1 &;;
esac
)sh");
        recording("systemd-run",
                  ": >\"$GPUFERRY_ROOT/unit\"\nwhile [ \"$1\" != /bin/sh ]; do shift; done\n\"$@\" "
                  "</dev/null >/dev/null 2>&1 &\n");
    }
    [[nodiscard]] fs::path root() const { return folder.path() / "root"; }
    void program(const std::string& name, const std::string& text) const {
        write(folder.path() / "bin" / name, text);
        fs::permissions(folder.path() / "bin" / name, fs::perms::owner_all);
    }
    /// Runs the text as cloud-init does: a file of its own, as root, without a terminal. Returns the exit
    /// status.
    int boot(const std::string& user_data) const {
        write(folder.path() / "user-data", user_data);
        const auto path = (folder.path() / "bin").string() + ":/usr/sbin:/usr/bin:/sbin:/bin";
        const pid_t pid = ::fork();
        if (pid == 0) {
            ::umask(022);
            ::setenv("PATH", path.c_str(), 1);
            ::setenv("GPUFERRY_ROOT", root().c_str(), 1);
            ::unsetenv("HOME");
            const auto log = (folder.path() / "log").string();
            const int fd = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
            if (::dup2(fd, STDOUT_FILENO) < 0 || ::dup2(fd, STDERR_FILENO) < 0) ::_exit(126);
            ::execlp(interpreter.c_str(), interpreter.c_str(), (folder.path() / "user-data").c_str(),
                     nullptr);
            ::_exit(127);
        }
        int status = 0;
        ::waitpid(pid, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    /// What the start script saw, when it has run.
    [[nodiscard]] std::string seen() const {
        for (int i = 0; i < 3'000 && !fs::exists(root() / "seen"); ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds{10});
        return read(root() / "seen");
    }
    [[nodiscard]] std::string calls() const { return read(root() / "calls"); }

    TemporaryFolder folder;  // ends what was started in it
    std::string interpreter;
};

std::size_t count(const std::string& text, const std::string& part) {
    std::size_t n = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
    return n;
}

const std::string kShells[] = {"dash", "bash"};

}  // namespace

TEST_CASE("the start hook is a shell script that both shells can read, and begins as cloud-init wants it") {
    const auto text = cloud_init_script(request(), {.login = "ubuntu"});
    CHECK(text.starts_with("#!/bin/sh\n"));
    CHECK(text.size() < 16'384);  // the smallest limit of any cloud
    for (const auto& shell : kShells) {
        TemporaryFolder folder;
        write(folder.path() / "x", text);
        CHECK(std::system(fmt::format("{} -n {}/x", shell, folder.path().string()).c_str()) == 0);
    }
}

TEST_CASE("the start hook gives sshd our host key, lets our key in, and runs the start script") {
    for (const auto& shell : kShells)
        for (const bool systemd : {true, false}) {
            CAPTURE(shell);
            CAPTURE(systemd);
            Machine m(shell, systemd);
            const auto r = request();
            REQUIRE(m.boot(cloud_init_script(r, {.login = "ubuntu"})) == 0);
            const auto ssh = m.root() / "etc/ssh";
            CHECK(read(ssh / "ssh_host_ed25519_key") == kPem);
            CHECK(mode(ssh / "ssh_host_ed25519_key") == 0600);
            CHECK(read(ssh / "ssh_host_ed25519_key.pub") == kHostPublic + "\n");
            CHECK(mode(ssh / "ssh_host_ed25519_key.pub") == 0644);
            CHECK(read(ssh / "sshd_config.d/00-gpuferry.conf") == "HostKey /etc/ssh/ssh_host_ed25519_key\n");
            CHECK(read(ssh / "sshd_config") == "Include /etc/ssh/sshd_config.d/*.conf\nPort 22\n");
            for (const auto* home : {"root", "home/ubuntu"}) {
                CHECK(read(m.root() / home / ".ssh/authorized_keys") == kClientPublic + "\n");
                CHECK(mode(m.root() / home / ".ssh/authorized_keys") == 0600);
                CHECK(mode(m.root() / home / ".ssh") == 0700);
            }
            CHECK(count(m.calls(), "sshd -t") == 1);
            CHECK(count(m.calls(), "systemctl restart ssh") == 1);
            CHECK(m.seen() == fmt::format("{}|{}|/root|/|", r.tag.get(), r.env.at("GPUFERRY_ENROL")));
            CHECK(count(m.calls(), "systemctl start --no-block gpuferry-machine") == (systemd ? 1 : 0));
            CHECK(m.calls().find("systemd-run") == std::string::npos);
            CHECK(mode(m.root() / "etc/gpuferry") == 0700);
            CHECK(mode(m.root() / "etc/gpuferry/machine.env") == 0600);
            CHECK(m.calls().find("second line") == std::string::npos);  // no argument of any program
        }
}

TEST_CASE("nothing that the start hook writes is open to others, but sshd's public half") {
    Machine m("dash", false);
    REQUIRE(m.boot(cloud_init_script(request(), {.login = "ubuntu"})) == 0);
    REQUIRE(!m.seen().empty());
    int files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(m.root() / "etc")) {
        CAPTURE(entry.path().string());
        if (!entry.is_regular_file() || entry.path().filename() == "sshd_config") continue;
        ++files;
        CHECK(((mode(entry.path()) & 077U) == 0 || entry.path().extension() == ".pub"));
        CHECK(entry.path().extension() != ".gpuferry");
    }
    CHECK(files >= 6);
}

TEST_CASE("the start hook run twice changes nothing and starts nothing again") {
    for (const auto& shell : kShells)
        for (const bool systemd : {true, false}) {
            CAPTURE(shell);
            CAPTURE(systemd);
            Machine m(shell, systemd);
            // A key of somebody else, without a line end.
            write(m.root() / "home/ubuntu/.ssh/authorized_keys", "ssh-rsa AAAAother console");
            const auto text = cloud_init_script(request(), {.login = "ubuntu"});
            REQUIRE(m.boot(text) == 0);
            REQUIRE(!m.seen().empty());
            REQUIRE(m.boot(text) == 0);
            CHECK(read(m.root() / "home/ubuntu/.ssh/authorized_keys") ==
                  "ssh-rsa AAAAother console\n" + kClientPublic + "\n");
            CHECK(read(m.root() / "root/.ssh/authorized_keys") == kClientPublic + "\n");
            CHECK(read(m.root() / "etc/ssh/ssh_host_ed25519_key") == kPem);
            CHECK(count(read(m.root() / "started"), "\n") == 1);
            CHECK(count(m.calls(), "daemon-reload") == (systemd ? 1 : 0));
        }
}

TEST_CASE("a machine that boots again starts its agent again, without cloud-init") {
    Machine m("dash", true);
    const auto r = request();
    REQUIRE(m.boot(cloud_init_script(r, {.login = "ubuntu"})) == 0);
    REQUIRE(!m.seen().empty());
    const auto unit = m.root() / "etc/systemd/system/gpuferry-machine.service";
    const auto text = read(unit);
    for (const auto* line : {"ExecStart=/bin/sh /etc/gpuferry/run", "OOMPolicy=continue", "TasksMax=infinity",
                             "LimitNOFILE=1048576", "LimitMEMLOCK=infinity", "WantedBy=multi-user.target"})
        CHECK(text.find(fmt::format("\n{}\n", line)) != std::string::npos);
    CHECK(mode(unit) == 0644);
    // What is secret stays in the file that root alone reads.
    CHECK(text.find("GPUFERRY") == std::string::npos);
    CHECK(mode(m.root() / "etc/gpuferry/machine.env") == 0600);
    CHECK(mode(m.root() / "etc/gpuferry/run") == 0700);
    REQUIRE(fs::equivalent(m.root() / "etc/systemd/system/multi-user.target.wants/gpuferry-machine.service",
                           unit));
    // What systemd does at the next boot with what is enabled.
    fs::remove(m.root() / "unit");
    fs::remove(m.root() / "seen");
    REQUIRE(m.boot("#!/bin/sh\nexec systemctl start --no-block gpuferry-machine\n") == 0);
    CHECK(m.seen() == fmt::format("{}|{}|/root|/|", r.tag.get(), r.env.at("GPUFERRY_ENROL")));
    CHECK(count(read(m.root() / "started"), "\n") == 2);
}

TEST_CASE("where no unit can be enabled, a transient one runs the machine for this boot") {
    Machine m("dash", true);
    m.program("systemctl",
              "#!/bin/sh\necho \"systemctl $*\" >>\"$GPUFERRY_ROOT/calls\"\ncase \"$*\" in "
              "*enable*|is-active*) exit 1;; esac\n");
    REQUIRE(m.boot(cloud_init_script(request(), {})) == 0);
    CHECK(!m.seen().empty());
    CHECK(count(m.calls(), "systemd-run ") == 1);
    CHECK(m.calls().find("systemctl start") == std::string::npos);
    CHECK(!fs::exists(m.root() / "etc/systemd/system/gpuferry-machine.service"));  // it would be in the way
}

TEST_CASE("an sshd without an include gets the host key at the top of its own file, once") {
    Machine m("dash", false);
    write(m.root() / "etc/ssh/sshd_config", "HostKey /etc/ssh/ssh_host_rsa_key\n");
    const auto text = cloud_init_script(request(), {});
    REQUIRE(m.boot(text) == 0);
    REQUIRE(m.boot(text) == 0);
    CHECK(read(m.root() / "etc/ssh/sshd_config") ==
          "HostKey /etc/ssh/ssh_host_ed25519_key\nHostKey /etc/ssh/ssh_host_rsa_key\n");
}

TEST_CASE(
    "an sshd that does not take the configuration is left running as it is, and the machine starts all the "
    "same") {
    Machine m("dash", true);
    m.program("sshd", "#!/bin/sh\nexit 255\n");
    REQUIRE(m.boot(cloud_init_script(request(), {})) == 0);
    CHECK(!m.seen().empty());
    CHECK(m.calls().find("restart") == std::string::npos);
}

TEST_CASE("a systemd-run that does not know a property is asked again without") {
    Machine m("dash", true);
    m.program("systemctl", "#!/bin/sh\ncase \"$*\" in *enable*|is-active*) exit 1;; esac\n");
    m.program(
        "systemd-run",
        "#!/bin/sh\ncase \"$*\" in *OOMPolicy*) exit 1;; esac\nwhile [ \"$1\" != /bin/sh ]; do shift; done\n"
        "\"$@\" </dev/null >/dev/null 2>&1 &\n");
    REQUIRE(m.boot(cloud_init_script(request(), {})) == 0);
    CHECK(!m.seen().empty());
}

TEST_CASE("without SSH the start hook leaves sshd and everybody's keys alone") {
    Machine m("dash", false);
    auto r = request();
    r.ssh.reset();
    REQUIRE(m.boot(cloud_init_script(r, {.login = "ubuntu"})) == 0);
    CHECK(!m.seen().empty());
    CHECK(!fs::exists(m.root() / "etc/ssh/ssh_host_ed25519_key"));
    CHECK(!fs::exists(m.root() / "home/ubuntu/.ssh"));
    CHECK(m.calls().find("ssh") == std::string::npos);
}

TEST_CASE("without a start script the start hook only opens the way for ssh") {
    Machine m("dash", true);
    auto r = request();
    r.start_script.clear();
    r.env.clear();
    REQUIRE(m.boot(cloud_init_script(r, {.login = "ubuntu"})) == 0);
    CHECK(read(m.root() / "etc/ssh/ssh_host_ed25519_key") == kPem);
    CHECK(read(m.root() / "home/ubuntu/.ssh/authorized_keys") == kClientPublic + "\n");
    CHECK(!fs::exists(m.root() / "etc/gpuferry"));
    CHECK(m.calls().find("systemd-run") == std::string::npos);
    CHECK(!fs::exists(m.root() / "etc/systemd"));
}

TEST_CASE("a key to throw away is a key that ssh knows, and another each time") {
    const auto a = throwaway_public_key();
    const auto b = throwaway_public_key();
    REQUIRE(a);
    REQUIRE(b);
    CHECK(*a != *b);
    CHECK(a->starts_with("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI"));
    CHECK(a->size() == std::string("ssh-ed25519 ").size() + 68 + std::string(" gpuferry").size());
    if (std::system("command -v ssh-keygen >/dev/null 2>&1") == 0) {
        TemporaryFolder folder;
        write(folder.path() / "k.pub", *a + "\n");
        CHECK(std::system(
                  fmt::format("ssh-keygen -l -f {}/k.pub >/dev/null", folder.path().string()).c_str()) == 0);
    }
}
