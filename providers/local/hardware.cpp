#include "providers/local/hardware.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace gf::local {
namespace {

using Steady = std::chrono::steady_clock;
constexpr std::chrono::seconds kKillPatience{1};  // a killed process in a driver's call ends when that call does, or never
constexpr std::size_t kOutputMax = 1U << 20U;
// A CUDA context alone takes 200 to 500 MiB.
constexpr Bytes kComputeMin{150 * kMiB};
constexpr Bytes kDesktopMax{3 * kGiB};

struct Output {
    bool missing{false};  // no such program
    bool hung{false};
    int exit_code{0};
    std::string text;
};

/// Killed processes that did not end: still children of ours, to be reaped when they do.
class LeftBehind {
 public:
    /// Whether one of this program is still there. Reaps those that have ended.
    bool hangs(const std::string& program) {
        const std::lock_guard lock(mutex_);
        std::erase_if(left_, [](const auto& entry) { return ::waitpid(entry.second, nullptr, WNOHANG) != 0; });
        return std::ranges::any_of(left_, [&](const auto& entry) { return entry.first == program; });
    }
    void add(const std::string& program, pid_t pid) {
        const std::lock_guard lock(mutex_);
        left_.emplace(program, pid);
    }

 private:
    std::mutex mutex_;  // guards left_
    std::set<std::pair<std::string, pid_t>> left_;
};

LeftBehind& left_behind() {
    static LeftBehind all;
    return all;
}

/// Reaps the child if it ends before `until`. Never waits in the kernel: a child in a driver's call cannot be waited out.
std::optional<int> ended(pid_t pid, Steady::time_point until) {
    std::chrono::milliseconds pause{1};
    for (;;) {
        int status = 0;
        const auto got = ::waitpid(pid, &status, WNOHANG);
        if (got == pid) return status;
        if (got < 0 && errno != EINTR) return 0;  // nobody's child: nothing to reap
        if (Steady::now() >= until) return std::nullopt;
        std::this_thread::sleep_for(pause);
        pause = std::min(pause * 2, std::chrono::milliseconds{50});
    }
}

/// Runs a program with its standard output captured, killed after the patience. While one that was killed before has not ended,
/// none is started: each would hang like it.
Output capture(const std::string& program, std::vector<std::string> arguments, Millis patience) {
    Output out;
    if (left_behind().hangs(program)) return {.hung = true, .text = {}};
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return {.hung = true, .text = {}};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    std::vector<char*> argv;
    std::string name = program;
    argv.push_back(name.data());
    for (auto& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    pid_t pid = 0;
    const int error = ::posix_spawnp(&pid, program.c_str(), &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(pipe[1]);
    if (error != 0) {
        ::close(pipe[0]);
        out.missing = true;
        return out;
    }
    const auto until = Steady::now() + patience;
    std::array<char, 4096> buffer{};
    for (;;) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(until - Steady::now()).count();
        pollfd waiting{.fd = pipe[0], .events = POLLIN, .revents = 0};
        const int ready = left > 0 ? ::poll(&waiting, 1, static_cast<int>(left)) : 0;
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) {
            out.hung = true;
            break;
        }
        const auto bytes = ::read(pipe[0], buffer.data(), buffer.size());
        if (bytes < 0 && errno == EINTR) continue;
        if (bytes <= 0 || out.text.size() > kOutputMax) break;
        out.text.append(buffer.data(), static_cast<std::size_t>(bytes));
    }
    ::close(pipe[0]);
    auto status = out.hung ? std::nullopt : ended(pid, until);
    if (!status) {
        out.hung = true;  // it may also hang after its last word
        ::kill(pid, SIGKILL);
        status = ended(pid, Steady::now() + kKillPatience);
    }
    if (!status) left_behind().add(program, pid);
    out.exit_code = status && WIFEXITED(*status) ? WEXITSTATUS(*status) : 128;
    return out;
}

std::string_view trimmed(std::string_view s) {
    while (s.starts_with(' ')) s.remove_prefix(1);
    while (s.ends_with(' ') || s.ends_with('\r')) s.remove_suffix(1);
    return s;
}

std::vector<std::string_view> columns_of(std::string_view line) {
    std::vector<std::string_view> columns;
    for (std::size_t at = 0; at <= line.size();) {
        const auto comma = std::min(line.find(',', at), line.size());
        columns.push_back(trimmed(line.substr(at, comma - at)));
        at = comma + 1;
    }
    return columns;
}

/// MiB in a column; nothing for "[N/A]" and the like.
std::optional<Bytes> mebibytes(std::string_view column) {
    std::int64_t mib = 0;
    const auto* last = column.data() + column.size();
    const auto [stop, error] = std::from_chars(column.data(), last, mib);
    if (error != std::errc{} || stop != last || mib < 0 || mib > 100'000'000) return std::nullopt;
    return Bytes{mib * kMiB};
}

int usable_cpus() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (::sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    return static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
}

}  // namespace

std::vector<Card> parse_cards(std::string_view csv) {
    std::vector<Card> cards;
    for (std::size_t at = 0; at < csv.size();) {
        const auto end = std::min(csv.find('\n', at), csv.size());
        const auto line = csv.substr(at, end - at);
        at = end + 1;
        const auto columns = columns_of(line);
        if (columns.size() < 4 || columns[1].empty()) continue;
        Card card{.uuid = std::string(columns[0]),
                  .name = std::string(columns[1]),
                  .memory = {},
                  .driver = std::string(columns[3])};
        if (!card.uuid.starts_with("GPU-") && !card.uuid.starts_with("MIG-"))
            card.uuid = std::to_string(cards.size());
        if (const auto memory = mebibytes(columns[2]); memory && memory->count > 0) card.memory = memory;
        if (columns.size() > 4) card.used = mebibytes(columns[4]).value_or(Bytes{});
        cards.push_back(std::move(card));
    }
    return cards;
}

void read_compute_used(std::string_view csv, std::vector<Card>& cards) {
    for (std::size_t at = 0; at < csv.size();) {
        const auto end = std::min(csv.find('\n', at), csv.size());
        const auto columns = columns_of(csv.substr(at, end - at));
        at = end + 1;
        if (columns.size() != 2) continue;
        const auto used = mebibytes(columns[1]);
        if (!used) continue;
        for (auto& card : cards)
            if (card.uuid == columns[0]) card.compute_used = Bytes{card.compute_used.count + used->count};
    }
}

bool is_busy(const Card& card) {
    return card.compute_used >= kComputeMin || card.used > kDesktopMax;
}

std::string parse_cuda_version(std::string_view table) {
    constexpr std::string_view label = "CUDA Version:";
    const auto at = table.find(label);
    if (at == std::string_view::npos) return {};
    auto rest = trimmed(table.substr(at + label.size(), 32));
    return std::string(rest.substr(0, rest.find_first_not_of("0123456789.")));
}

namespace {

/// The cards, or why there are none. What nvidia-smi does not tell in time is not guessed: who uses a card counts as much as
/// that it is there.
void probe_cards(const std::string& nvidia_smi, Millis patience, Hardware& h) {
    const auto ask = [&](std::vector<std::string> arguments) {
        auto out = capture(nvidia_smi, std::move(arguments), patience);
        if (out.hung) h.gpu_trouble = "nvidia-smi does not answer";
        return out;
    };
    const auto query =
        ask({"--query-gpu=uuid,name,memory.total,driver_version,memory.used", "--format=csv,noheader,nounits"});
    if (query.hung || query.missing || query.exit_code == 127) return;
    if (query.exit_code != 0) {
        h.gpu_trouble = fmt::format("nvidia-smi ended with {}", query.exit_code);
        return;
    }
    h.cards = parse_cards(query.text);
    if (h.cards.empty()) {
        h.gpu_trouble = "nvidia-smi shows no GPU";
        return;
    }
    h.cuda = parse_cuda_version(ask({}).text);
    if (h.gpu_trouble.empty())
        read_compute_used(ask({"--query-compute-apps=gpu_uuid,used_memory", "--format=csv,noheader,nounits"}).text, h.cards);
    if (!h.gpu_trouble.empty()) h.cards.clear();
}

}  // namespace

Result<Hardware> probe_hardware(const std::string& nvidia_smi, const std::string& folder, Millis patience) {
    Hardware h;
    probe_cards(nvidia_smi, patience, h);
    h.cpus = usable_cpus();
    h.memory = Bytes{static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE)};
    struct statvfs disk{};
    if (::statvfs(folder.c_str(), &disk) != 0)
        return fail(ErrorKind::io, fmt::format("local: the free disk of {} cannot be read", folder));
    h.disk_free = Bytes{static_cast<std::int64_t>(disk.f_bavail * disk.f_frsize)};
    utsname names{};
    ::uname(&names);
    h.host = names.nodename;
    const std::string_view machine = names.machine;
    h.arch = machine == "x86_64" ? "amd64" : machine == "aarch64" ? "arm64" : std::string(machine);
    return h;
}

}  // namespace gf::local
