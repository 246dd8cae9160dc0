#include "simulator/local_machines.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "simulator/keeper.hpp"

namespace gf::sim {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr int kSocketBuffer = 4 << 20;

std::string dumped(const json& message) {
    return message.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

Result<std::unique_ptr<LocalMachines>> LocalMachines::open(Options options) {
    std::error_code error;
    // What a simulator that was killed left here: its machines died with it.
    fs::remove_all(options.dir / "machines", error);
    for (const auto* name : {"machines", "logs", "volumes"}) {
        fs::create_directories(options.dir / name, error);
        if (error)
            return fail(ErrorKind::io,
                        "cannot make " + (options.dir / name).string() + ": " + error.message());
    }
    auto tools = unpack_tools(options.dir / "tools");
    if (!tools) return fail(tools.error());
    return std::unique_ptr<LocalMachines>(new LocalMachines(std::move(options), *std::move(tools)));
}

LocalMachines::LocalMachines(Options options, ToolFolders tools)
    : options_(std::move(options)),
      tools_(std::move(tools)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    // One thread for its whole life: keepers are children of the thread that spawned them.
    worker_ = std::thread([this] { work(); });
}

LocalMachines::~LocalMachines() {
    {
        const std::scoped_lock lock(mutex_);
        closing_ = true;
    }
    ::eventfd_write(wake_, 1);
    worker_.join();
    ::close(wake_);
}

fs::path LocalMachines::folder(const std::string& machine) const {
    return options_.dir / "machines" / machine;
}

void LocalMachines::give(Order order) {
    {
        const std::scoped_lock lock(mutex_);
        orders_.push_back(std::move(order));
    }
    ::eventfd_write(wake_, 1);
}

void LocalMachines::start(ContainerSpec spec) {
    auto machine = spec.machine;
    give({std::move(machine), Start{std::move(spec)}});
}
void LocalMachines::signal(const std::string& machine, int number) {
    give({machine, Send{dumped({{"order", "signal"}, {"number", number}})}});
}
void LocalMachines::kill(const std::string& machine) {
    give({machine, Send{dumped({{"order", "kill"}})}});
}
void LocalMachines::freeze(const std::string& machine, bool frozen) {
    give({machine, Send{dumped({{"order", "freeze"}, {"frozen", frozen}})}});
}
void LocalMachines::destroy(const std::string& machine) {
    give({machine, Destroy{}});
}
void LocalMachines::set_gpu_facts(const std::string& machine, const std::string& facts) {
    give({machine, Send{facts, true}});
}

std::string LocalMachines::isolation() {
    const std::scoped_lock lock(mutex_);
    return isolation_;
}

std::string LocalMachines::output(const std::string& machine, std::size_t bytes) {
    std::ifstream file(options_.dir / "logs" / (machine + ".log"), std::ios::binary | std::ios::ate);
    if (!file) return {};
    const auto size = static_cast<std::size_t>(file.tellg());
    const auto skip = size > bytes ? size - bytes : 0;
    file.seekg(static_cast<std::streamoff>(skip));
    return {std::istreambuf_iterator<char>(file), {}};
}

void LocalMachines::work() {
    for (;;) {
        std::vector<struct pollfd> watched{{wake_, POLLIN, 0}};
        std::vector<std::string> names{""};
        for (const auto& [name, keeper] : keepers_) {
            watched.push_back({keeper.socket, POLLIN, 0});
            names.push_back(name);
        }
        if (::poll(watched.data(), watched.size(), -1) < 0 && errno != EINTR) break;
        eventfd_t ignored = 0;
        ::eventfd_read(wake_, &ignored);
        for (std::size_t i = 1; i < watched.size(); ++i) {
            if (watched[i].revents != 0) listen_to(names[i]);
        }
        std::vector<Order> orders;
        bool closing = false;
        {
            const std::scoped_lock lock(mutex_);
            orders.swap(orders_);
            closing = closing_;
        }
        for (auto& order : orders) obey(std::move(order));
        if (closing) break;
    }
    // Close all sockets first, so that the machines die at the same time.
    for (auto& [name, keeper] : keepers_) ::close(keeper.socket);
    for (auto& [name, keeper] : keepers_) ::waitpid(keeper.pid, nullptr, 0);
    for (auto& [name, keeper] : keepers_) {
        std::error_code error;
        fs::remove_all(folder(name), error);
    }
}

void LocalMachines::obey(Order order) {
    if (auto* start = std::get_if<Start>(&order.what)) {
        start_now(order.machine, std::move(start->spec));
        return;
    }
    const auto known = keepers_.find(order.machine);
    if (known == keepers_.end()) return;
    if (const auto* message = std::get_if<Send>(&order.what)) {
        if (message->facts) {
            write_facts(order.machine, message->text);
        } else {
            ::send(known->second.socket, message->text.data(), message->text.size(), MSG_NOSIGNAL);
        }
        return;
    }
    ::close(known->second.socket);
    ::waitpid(known->second.pid, nullptr, 0);
    keepers_.erase(known);
    std::error_code error;
    fs::remove_all(folder(order.machine), error);
}

bool LocalMachines::spawn(KeeperProcess& keeper) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return false;
    for (const int end : pair) ::setsockopt(end, SOL_SOCKET, SO_SNDBUF, &kSocketBuffer, sizeof kSocketBuffer);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    // dup2 onto itself would keep the close-on-exec mark, so go by another number.
    const int other = ::fcntl(pair[1], F_DUPFD_CLOEXEC, 64);
    ::posix_spawn_file_actions_adddup2(&actions, other, kKeeperSocket);
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    // A session of its own: an interrupt key on the simulator's terminal is the simulator's business.
    ::posix_spawnattr_setflags(&attributes,
                               POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
    std::string binary = options_.keeper.string();
    std::string argument = kKeeperArgument;
    char* argv[] = {binary.data(), argument.data(), nullptr};
    std::string path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
    char* envp[] = {path.data(), nullptr};
    pid_t pid = 0;
    const int failed = ::posix_spawn(&pid, binary.c_str(), &actions, &attributes, argv, envp);
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
    ::close(other);
    ::close(pair[1]);
    if (failed != 0) {
        ::close(pair[0]);
        errno = failed;
        return false;
    }
    keeper = {.pid = pid, .socket = pair[0], .run = 0, .running = false};
    return true;
}

void LocalMachines::write_facts(const std::string& machine, const std::string& facts) {
    // In place: the machine sees this very file by a bind mount.
    std::ofstream(folder(machine) / "gpus", std::ios::trunc) << facts;
}

void LocalMachines::start_now(const std::string& machine, ContainerSpec spec) {
    const auto dir = folder(machine);
    std::error_code error;
    fs::create_directories(dir, error);
    auto known = keepers_.find(machine);
    if (known == keepers_.end()) {
        KeeperProcess keeper;
        if (!spawn(keeper)) {
            options_.sink({.machine = machine,
                           .run = spec.run,
                           .kind = MachineEvent::Kind::failed,
                           .why = std::string{"cannot start the keeper: "} + std::strerror(errno)});
            return;
        }
        known = keepers_.emplace(machine, keeper).first;
    }
    const bool gpus = !spec.gpu_facts.empty();
    if (gpus) write_facts(machine, spec.gpu_facts);
    json volumes = json::array();
    for (std::size_t i = 0; i < spec.volumes.size(); ++i) {
        const auto& volume = spec.volumes[i];
        const bool own = volume.shared.empty();
        const auto at = own ? dir / ("volume" + std::to_string(i)) : options_.dir / "volumes" / volume.shared;
        fs::create_directories(at, error);
        volumes.push_back(
            {{"folder", at.string()}, {"path", volume.path}, {"bytes", volume.bytes}, {"own", own}});
    }
    json files = json::array();
    for (std::size_t i = 0; i < spec.files.size(); ++i) {
        // Too large for one message to the keeper: handed over on the disk.
        const auto at = dir / ("file" + std::to_string(i));
        std::ofstream(at, std::ios::binary | std::ios::trunc) << spec.files[i].content;
        files.push_back({{"from", at.string()}, {"path", spec.files[i].path}, {"mode", spec.files[i].mode}});
    }
    const auto image_root = spec.image_root.empty() ? options_.image_root.string() : spec.image_root;
    const json order{{"order", "start"},
                     {"run", spec.run},
                     {"dir", dir.string()},
                     {"log", (options_.dir / "logs" / (machine + ".log")).string()},
                     {"isolate", options_.isolate},
                     {"argv", spec.argv},
                     {"env", spec.env},
                     {"hostname", spec.hostname},
                     {"disk_bytes", spec.disk_bytes},
                     {"volumes", volumes},
                     {"files", files},
                     {"vm", spec.vm},
                     {"image_root", image_root},
                     {"smi_layer", gpus ? tools_.smi.string() : ""},
                     {"cuda_layer", gpus && spec.libcuda ? tools_.cuda.string() : ""},
                     {"facts", gpus ? (dir / "gpus").string() : ""},
                     {"wipe", spec.wipe}};
    known->second.run = spec.run;
    known->second.running = true;
    const auto text = dumped(order);
    if (::send(known->second.socket, text.data(), text.size(), MSG_NOSIGNAL) < 0) {
        options_.sink({.machine = machine,
                       .run = spec.run,
                       .kind = MachineEvent::Kind::failed,
                       .why = std::string{"cannot reach the keeper: "} + std::strerror(errno)});
    }
}

void LocalMachines::listen_to(const std::string& machine) {
    auto& keeper = keepers_.at(machine);
    char buffer[65'536];
    const auto n = ::recv(keeper.socket, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
        lose(machine);
        return;
    }
    const auto report = json::parse(buffer, buffer + n, nullptr, false);
    if (!report.is_object()) return;
    const auto what = report.value("event", "");
    if (report.contains("isolation") && !report["isolation"].get_ref<const std::string&>().empty()) {
        const std::scoped_lock lock(mutex_);
        isolation_ = report["isolation"].get<std::string>();
    }
    MachineEvent event{.machine = machine, .run = report.value("run", std::uint64_t{0})};
    if (what == "started") {
        event.kind = MachineEvent::Kind::started;
        event.pid = report.value("pid", 0);
    } else if (what == "failed") {
        event.kind = MachineEvent::Kind::failed;
        event.why = report.value("why", "");
        keeper.running = false;
    } else {
        event.kind = MachineEvent::Kind::exited;
        event.code = report.value("code", 0);
        event.signal = report.value("signal", 0);
        keeper.running = false;
    }
    options_.sink(std::move(event));
}

/// The keeper itself died, which only somebody outside can have done: its machine died with it.
void LocalMachines::lose(const std::string& machine) {
    const auto keeper = keepers_.at(machine);
    ::close(keeper.socket);
    ::waitpid(keeper.pid, nullptr, 0);
    keepers_.erase(machine);
    if (!keeper.running) return;
    options_.sink(
        {.machine = machine, .run = keeper.run, .kind = MachineEvent::Kind::exited, .signal = SIGKILL});
}

}  // namespace gf::sim
