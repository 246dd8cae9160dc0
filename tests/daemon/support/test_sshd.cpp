#include "tests/daemon/support/test_sshd.hpp"

#include <arpa/inet.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "daemon/ssh/keys.hpp"

namespace gf::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSshd = "/usr/sbin/sshd";

int free_port() {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    const bool bound = ::bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0 && ::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size) == 0;
    ::close(fd);
    return bound ? ntohs(at.sin_port) : 0;
}

bool answers(int port) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(static_cast<std::uint16_t>(port));
    const bool open = ::connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0;
    ::close(fd);
    return open;
}

struct Stat {
    pid_t parent{0};
    std::string name;
    std::string start;
};
std::optional<Stat> stat_of(pid_t pid) {
    const auto line = read_file("/proc/" + std::to_string(pid) + "/stat");
    const auto open = line.find('('), close = line.rfind(')');
    if (open == std::string::npos || close == std::string::npos) return std::nullopt;
    Stat out;
    out.name = line.substr(open + 1, close - open - 1);
    std::istringstream rest(line.substr(close + 2));
    std::string word;
    for (int field = 3; rest >> word; ++field) {
        if (field == 3 && (word == "Z" || word == "X")) return std::nullopt;
        if (field == 4) out.parent = static_cast<pid_t>(std::stol(word));
        if (field == 22) out.start = word;
    }
    return out;
}

std::vector<pid_t> all_processes() {
    std::vector<pid_t> out;
    std::error_code error;
    for (fs::directory_iterator it("/proc", error), end; !error && it != end; it.increment(error)) {
        const auto name = it->path().filename().string();
        pid_t pid = 0;
        if (std::from_chars(name.data(), name.data() + name.size(), pid).ptr == name.data() + name.size() && pid > 0) out.push_back(pid);
    }
    return out;
}

void end_by_force(const std::vector<pid_t>& pids) {
    for (const pid_t pid : pids) ::kill(pid, SIGKILL);
    for (int i = 0; i < 500; ++i) {
        bool left = false;
        for (const pid_t pid : pids) left = left || stat_of(pid).has_value();
        if (!left) return;
        ::poll(nullptr, 0, 10);
    }
}

}  // namespace

std::string output_of(const std::vector<std::string>& argv, const std::string& input) {
    auto child = ssh::Child::start(argv);
    if (!child || ::write(child->input(), input.data(), input.size()) != static_cast<ssize_t>(input.size())) return {};
    child->close_input();
    std::string out;
    while (true) {
        pollfd fd{.fd = child->output(), .events = POLLIN, .revents = 0};
        ::poll(&fd, 1, 1000);
        if (fd.revents == 0) continue;
        const auto piece = ssh::Child::read_some(child->output());
        if (!piece) return out;
        out += *piece;
    }
}

std::string no_sshd() {
    if (::access(kSshd, X_OK) != 0) return "openssh-server is not installed";
    if (::geteuid() == 0) {
        // sshd of a superuser wants it; at boot an init script makes it.
        ::mkdir("/run/sshd", 0755);
        if (::access("/run/sshd", F_OK) != 0) return "/run/sshd cannot be made";
    }
    return {};
}

std::string login_name() { return ::getpwuid(::geteuid())->pw_name; }
std::string login_home() { return ::getpwuid(::geteuid())->pw_dir; }

TestSshd::TestSshd(std::string folder) : folder_(std::move(folder)) {
    fs::create_directories(folder_ + "/home");
    if (!fs::exists(folder_ + "/hostkey")) show_host_key(ssh::make_key_pair("test").private_key.reveal());
    if (!fs::exists(folder_ + "/authorized_keys")) std::ofstream(folder_ + "/authorized_keys") << "";
}

TestSshd::~TestSshd() { stop(); }

void TestSshd::show_host_key(const std::string& pem) {
    const std::string path = folder_ + "/hostkey";
    fs::remove(path);
    std::ofstream(path) << pem;
    ::chmod(path.c_str(), 0600);
}

void TestSshd::let_in(const std::string& public_key) { std::ofstream(folder_ + "/authorized_keys", std::ios::app) << public_key << "\n"; }

void TestSshd::start() {
    for (int tries = 0; tries < 20; ++tries) {
        if (port_ == 0) port_ = free_port();
        std::string set_env = "SetEnv HOME=" + home();
        for (const auto& [name, value] : env) set_env += " " + name + "=" + value;
        std::ofstream(folder_ + "/sshd_config")
            << more << "\nPort " << port_ << "\nListenAddress 127.0.0.1\nHostKey " << folder_ << "/hostkey\nPidFile none\nAuthorizedKeysFile "
            << folder_ << "/authorized_keys\n" << set_env
            << "\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nStrictModes no\nUseDNS no\nPrintMotd no\n"
               "PermitRootLogin prohibit-password\nLogLevel VERBOSE\n";
        auto started = ssh::Child::start({kSshd, "-D", "-E", folder_ + "/sshd.log", "-f", folder_ + "/sshd_config"});
        if (!started) throw std::runtime_error(started.error().message);
        listener_.emplace(*std::move(started));
        listener_->close_input();
        for (int i = 0; i < 1000 && !listener_->ended(); ++i) {
            if (answers(port_)) return;
            ::poll(nullptr, 0, 10);
        }
        listener_->end();
        listener_.reset();
        if (accepted() == 0) port_ = 0;  // somebody has taken it
    }
    throw std::runtime_error("sshd does not start: " + log());
}

std::vector<pid_t> TestSshd::connections() const {
    std::vector<pid_t> found;
    if (!listener_) return found;
    std::vector<pid_t> parents{listener_->pid()};
    const auto all = all_processes();
    while (!parents.empty()) {
        std::vector<pid_t> next;
        for (const pid_t pid : all)
            if (const auto stat = stat_of(pid); stat && stat->name.starts_with("sshd"))
                for (const pid_t parent : parents)
                    if (stat->parent == parent) next.push_back(pid);
        found.insert(found.end(), next.begin(), next.end());
        parents = std::move(next);
    }
    return found;
}

void TestSshd::stop() {
    if (!listener_) return;
    auto all = connections();
    ::kill(listener_->pid(), SIGKILL);
    end_by_force(all);
    listener_->end();
    listener_.reset();
}

int TestSshd::accepted() const {
    const auto text = log();
    int count = 0;
    for (auto at = text.find("Accepted publickey"); at != std::string::npos; at = text.find("Accepted publickey", at + 1)) ++count;
    return count;
}

std::vector<pid_t> processes_with_argument(const std::string& text) {
    std::vector<pid_t> out;
    for (const pid_t pid : all_processes())
        if (read_file("/proc/" + std::to_string(pid) + "/cmdline").find(text) != std::string::npos) out.push_back(pid);
    return out;
}

std::vector<pid_t> agents_in(const std::string& home) {
    std::vector<pid_t> out;
    std::error_code error;
    for (fs::directory_iterator it(home + "/.gpuferry-agent", error), end; !error && it != end; it.increment(error)) {
        const auto name = it->path().filename().string();
        if (!name.starts_with("gf-") || name.find('.') != std::string::npos) continue;
        std::istringstream line(read_file(it->path()));
        std::string boot, start;
        pid_t pid = 0;
        if (!(line >> boot >> pid >> start)) continue;
        if (const auto stat = stat_of(pid); stat && stat->start == start) out.push_back(pid);
    }
    return out;
}

void end_agents_in(const std::string& home) { end_by_force(agents_in(home)); }

}  // namespace gf::test
