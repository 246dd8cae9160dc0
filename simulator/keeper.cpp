#include "simulator/keeper.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "simulator/machine_root.hpp"
#include "simulator/process_tree.hpp"

namespace gf::sim {

namespace {

using nlohmann::json;

void send(const json& message) {
    const auto text = message.dump(-1, ' ', false, json::error_handler_t::replace);
    // The simulator may be gone; then the next read sees the end and the keeper goes too.
    [[maybe_unused]] const auto sent = ::send(kKeeperSocket, text.data(), text.size(), MSG_NOSIGNAL);
}

bool write_text(const char* path, const std::string& text) {
    std::ofstream out(path);
    out << text;
    return static_cast<bool>(out.flush());
}

/// The first process of a virtual machine: runs `first_boot` if there is one, reaps whatever ends, and stays until it
/// is killed. SIGTERM goes on to everybody, as a shutdown does; only in a PID namespace of its own.
[[noreturn]] void be_init(std::vector<char*> first_boot, char** env) {
    sigset_t handled;
    sigemptyset(&handled);
    for (const int number : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) sigaddset(&handled, number);
    ::sigprocmask(SIG_BLOCK, &handled, nullptr);
    if (first_boot.size() > 1 && ::fork() == 0) {
        sigset_t none;
        sigemptyset(&none);
        ::sigprocmask(SIG_SETMASK, &none, nullptr);
        ::setsid();
        ::execve(first_boot.front(), first_boot.data(), env);
        const std::string why = std::string{"cloud-init: cannot run the user data: "} + std::strerror(errno) + "\n";
        [[maybe_unused]] const auto n = ::write(2, why.data(), why.size());
        ::_exit(127);
    }
    for (;;) {
        siginfo_t info{};
        const int got = ::sigwaitinfo(&handled, &info);
        if (got == SIGTERM && ::getpid() == 1) ::kill(-1, SIGTERM);
        while (::waitpid(-1, nullptr, WNOHANG) > 0) {
        }
    }
}

class Keeper {
 public:
    int run();

 private:
    void handle(const json& order);
    void start(const json& order);
    void kill_all();
    void reap();
    void ended(int status);
    bool own_namespaces();
    void prepare_disk(const json& order);
    [[noreturn]] void become_container(const json& order, int complain);
    void exec_container(const json& order, int complain);

    std::string isolation_;  // empty before the first start
    bool user_namespace_{false};
    std::vector<std::string> mounted_volumes_;
    bool disk_mounted_{false};
    pid_t child_{0};
    std::uint64_t run_{0};
};

/// A mount namespace of the keeper's own; as a plain user, inside a user namespace where it is root.
bool Keeper::own_namespaces() {
    if (::geteuid() == 0) {
        if (::unshare(CLONE_NEWNS) != 0) return false;
    } else {
        const auto uid = ::geteuid();
        const auto gid = ::getegid();
        if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
        user_namespace_ = true;
        if (!write_text("/proc/self/setgroups", "deny") ||
            !write_text("/proc/self/uid_map", "0 " + std::to_string(uid) + " 1") ||
            !write_text("/proc/self/gid_map", "0 " + std::to_string(gid) + " 1")) {
            return false;
        }
    }
    // Without this, mounts of the machine would show on the host.
    return ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

void Keeper::prepare_disk(const json& order) {
    const auto disk = order.at("dir").get<std::string>() + "/disk";
    if (disk_mounted_ && order.at("wipe").get<bool>()) {
        ::umount2(disk.c_str(), MNT_DETACH);
        disk_mounted_ = false;
    }
    if (!disk_mounted_) mount_disk(disk, order.at("disk_bytes").get<std::uint64_t>());
    disk_mounted_ = true;
    for (const auto& volume : order.at("volumes")) {
        const auto folder = volume.at("folder").get<std::string>();
        if (!volume.at("own").get<bool>() ||
            std::ranges::find(mounted_volumes_, folder) != mounted_volumes_.end()) {
            continue;
        }
        mount_disk(folder, volume.at("bytes").get<std::uint64_t>());
        mounted_volumes_.push_back(folder);
    }
}

void Keeper::start(const json& order) {
    run_ = order.at("run").get<std::uint64_t>();
    try {
        if (isolation_.empty())
            isolation_ = order.at("isolate").get<bool>() && own_namespaces() ? "namespaces" : "none";
        if (isolation_ == "namespaces") {
            prepare_disk(order);
        } else if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
            throw std::system_error(errno, std::generic_category(), "become the machine's reaper");
        }
        int complain[2];
        if (::pipe2(complain, O_CLOEXEC) != 0)
            throw std::system_error(errno, std::generic_category(), "pipe");
        const unsigned long flags =
            isolation_ == "namespaces" ? CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC : 0UL;
        const auto pid =
            static_cast<pid_t>(::syscall(SYS_clone, flags | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
        if (pid < 0) throw std::system_error(errno, std::generic_category(), "clone");
        if (pid == 0) become_container(order, complain[1]);
        ::close(complain[1]);
        std::string why;
        char buffer[512];
        for (ssize_t n = 0; (n = ::read(complain[0], buffer, sizeof buffer)) != 0;) {
            if (n > 0) why.append(buffer, static_cast<std::size_t>(n));
            if (n < 0 && errno != EINTR) break;
        }
        ::close(complain[0]);
        if (!why.empty()) {
            ::waitpid(pid, nullptr, 0);
            throw std::runtime_error(why);
        }
        child_ = pid;
        send({{"event", "started"}, {"run", run_}, {"pid", pid}, {"isolation", isolation_}});
    } catch (const std::exception& e) {
        send({{"event", "failed"}, {"run", run_}, {"why", e.what()}, {"isolation", isolation_}});
    }
}

void Keeper::become_container(const json& order, int complain) {
    std::string why;
    try {
        exec_container(order, complain);
    } catch (const std::exception& e) {
        why = e.what();
    }
    [[maybe_unused]] const auto n = ::write(complain, why.data(), why.size());
    ::_exit(127);
}

void Keeper::exec_container(const json& order, int complain) {
    // If the keeper is killed, its container must not outlive it.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    ::setsid();
    const auto log = order.at("log").get<std::string>();
    const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    const int in = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (out < 0 || in < 0) throw std::system_error(errno, std::generic_category(), "open " + log);

    std::vector<std::string> env;
    for (const auto& entry : order.at("env")) {
        env.push_back(entry.at(0).get<std::string>() + "=" + entry.at(1).get<std::string>());
    }
    std::vector<RootPlan::File> files;
    for (const auto& file : order.at("files")) {
        files.push_back({file.at("from").get<std::string>(), file.at("path").get<std::string>(),
                         file.at("mode").get<unsigned>()});
    }
    auto arguments = order.at("argv").get<std::vector<std::string>>();
    if (isolation_ == "namespaces") {
        RootPlan plan;
        plan.files = files;
        plan.disk = order.at("dir").get<std::string>() + "/disk";
        plan.image_root = order.at("image_root").get<std::string>();
        plan.smi_layer = order.at("smi_layer").get<std::string>();
        plan.cuda_layer = order.at("cuda_layer").get<std::string>();
        plan.facts = order.at("facts").get<std::string>();
        plan.hostname = order.at("hostname").get<std::string>();
        plan.user_namespace = user_namespace_;
        for (const auto& volume : order.at("volumes")) {
            plan.volumes.emplace_back(volume.at("folder").get<std::string>(),
                                      volume.at("path").get<std::string>());
        }
        enter_root(plan);
        drop_capabilities();
    } else {
        // No root of its own: a private folder, and the two tools by their search paths.
        const auto home = order.at("dir").get<std::string>() + "/home";
        ::mkdir(home.c_str(), 0755);
        if (::chdir(home.c_str()) != 0)
            throw std::system_error(errno, std::generic_category(), "enter " + home);
        place_files(files, home);
        // A virtual machine's first-boot script is one of these files.
        if (order.at("vm").get<bool>() && !arguments.empty()) arguments.front() = home + arguments.front();
        const auto cuda = order.at("cuda_layer").get<std::string>();
        const bool searches = std::ranges::any_of(env, [](const auto& e) { return e.starts_with("LD_LIBRARY_PATH="); });
        if (!searches && !cuda.empty()) env.push_back("LD_LIBRARY_PATH=");
        for (auto& entry : env) {
            if (entry.starts_with("PATH="))
                entry.insert(5, order.at("smi_layer").get<std::string>() + "/usr/bin:");
            if (entry.starts_with("HOME=")) entry = "HOME=" + home;
            if (entry.starts_with("LD_LIBRARY_PATH=") && !cuda.empty())
                entry.insert(16, cuda + "/usr/local/nvidia/lib64:");
        }
        // Not named GPUFERRY_…: the agent withholds those from everything that it starts, these two tools included.
        env.push_back("SIM_GPU_FACTS=" + order.at("facts").get<std::string>());
    }
    ::dup2(in, 0);
    ::dup2(out, 1);
    ::dup2(out, 2);
    const struct rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);

    std::vector<char*> argv;
    for (auto& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    std::vector<char*> envp;
    std::string path;
    for (auto& entry : env) {
        if (entry.starts_with("PATH=")) path = entry.substr(5);
        envp.push_back(entry.data());
    }
    envp.push_back(nullptr);
    if (order.at("vm").get<bool>()) {
        // The parent takes the closed pipe for success; an exec would have closed it.
        ::close(complain);
        be_init(std::move(argv), envp.data());
    }
    if (arguments.front().contains('/')) {
        ::execve(argv[0], argv.data(), envp.data());
    } else {
        // The search path is the container's, not ours.
        for (std::size_t at = 0; at <= path.size();) {
            const auto end = std::min(path.find(':', at), path.size());
            const auto candidate = path.substr(at, end - at) + "/" + arguments.front();
            ::execve(candidate.c_str(), argv.data(), envp.data());
            if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) break;
            at = end + 1;
        }
    }
    const int error = errno;
    throw std::runtime_error("exec: \"" + arguments.front() + "\": " + std::strerror(error) + ": unknown");
}

void Keeper::kill_all() {
    if (child_ == 0) return;
    if (isolation_ == "namespaces") {
        // The namespace's first process takes all others with it; the kernel reaps them before it reports.
        ::kill(child_, SIGKILL);
        return;
    }
    std::optional<int> status;
    kill_descendants(::getpid(), [&](pid_t pid, int how) {
        if (pid == child_) status = how;
    });
    if (status) ended(*status);
}

void Keeper::ended(int status) {
    child_ = 0;
    if (isolation_ != "namespaces") kill_descendants(::getpid(), [](pid_t, int) {});
    send({{"event", "exited"},
          {"run", run_},
          {"code", WIFEXITED(status) ? WEXITSTATUS(status) : 0},
          {"signal", WIFSIGNALED(status) ? WTERMSIG(status) : 0}});
}

void Keeper::reap() {
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
        if (pid == child_) ended(status);
    }
}

void Keeper::handle(const json& order) {
    const auto what = order.at("order").get<std::string>();
    if (what == "start") {
        start(order);
    } else if (what == "signal" && child_ != 0) {
        ::kill(child_, order.at("number").get<int>());
    } else if (what == "kill") {
        kill_all();
    } else if (what == "freeze") {
        signal_descendants(::getpid(), order.at("frozen").get<bool>() ? SIGSTOP : SIGCONT);
    }
}

int Keeper::run() {
    sigset_t child_ends;
    sigemptyset(&child_ends);
    sigaddset(&child_ends, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &child_ends, nullptr);
    const int signals = ::signalfd(-1, &child_ends, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0) return 1;
    std::vector<char> buffer(1U << 20U);
    for (;;) {
        struct pollfd watched[2] = {{kKeeperSocket, POLLIN, 0}, {signals, POLLIN, 0}};
        if (::poll(watched, 2, -1) < 0 && errno != EINTR) break;
        if ((watched[1].revents & POLLIN) != 0) {
            struct signalfd_siginfo info{};
            while (::read(signals, &info, sizeof info) > 0) {
            }
            reap();
        }
        if (watched[0].revents == 0) continue;
        const auto n = ::recv(kKeeperSocket, buffer.data(), buffer.size(), 0);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n <= 0) break;
        const auto order = json::parse(buffer.begin(), buffer.begin() + n, nullptr, false);
        if (order.is_object()) handle(order);
    }
    kill_all();
    if (child_ != 0) ::waitpid(child_, nullptr, 0);
    return 0;
}

}  // namespace

int keeper_main() {
    // Descriptors of the simulator that were not marked: listeners and clients' connections among them.
    if (::syscall(SYS_close_range, kKeeperSocket + 1, ~0U, 0) != 0) {
        for (int fd = kKeeperSocket + 1; fd < 4096; ++fd) ::close(fd);
    }
    ::fcntl(kKeeperSocket, F_SETFD, FD_CLOEXEC);
    ::prctl(PR_SET_NAME, "sim-keeper", 0, 0, 0);
    Keeper keeper;
    return keeper.run();
}

}  // namespace gf::sim
