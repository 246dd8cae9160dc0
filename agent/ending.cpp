#include "agent/ending.hpp"

#include <fnmatch.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace gf::agent {
namespace fs = std::filesystem;

namespace {

// A save of a large file touches it all the time; two seconds without a write mean that no save was under way.
constexpr Millis kQuiet{2'000};

bool match_below(const fs::path& folder, std::string_view pattern) {
    const auto slash = pattern.find('/');
    const std::string part(pattern.substr(0, slash));
    std::error_code ec;
    for (fs::directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec)) {
        const std::string name = it->path().filename().string();
        if (::fnmatch(part.c_str(), name.c_str(), FNM_PERIOD) != 0) continue;
        if (slash == std::string_view::npos) return true;
        std::error_code ignored;
        if (it->is_directory(ignored) && match_below(it->path(), pattern.substr(slash + 1))) return true;
    }
    return false;
}

}  // namespace

std::optional<int> exit_code_of(const JobExit& exit) {
    if (!exit.started || !WIFEXITED(exit.wait_status)) return std::nullopt;
    return WEXITSTATUS(exit.wait_status);
}

std::optional<int> signal_of(const JobExit& exit) {
    if (!exit.started || !WIFSIGNALED(exit.wait_status)) return std::nullopt;
    return WTERMSIG(exit.wait_status);
}

bool exit_allowed(const agent_protocol::Lease& lease, const JobExit& exit) {
    const auto code = exit_code_of(exit);
    return code && std::ranges::find(lease.success_exit, *code) != lease.success_exit.end();
}

bool final_snapshot_is_safe(const agent_protocol::Lease& lease, const JobExit& exit, const LastWrites& writes) {
    if (exit.unended) return false;  // whatever the times say: somebody may be writing now
    const auto& spec = lease.checkpoint;
    if (!spec.marker.empty() || !spec.incomplete.empty()) return true;  // the snapshot looks at these itself
    if (!writes.newest) return true;
    // The program ran to its proper end: what it wrote, it wrote whole. Any other code says nothing: a shell or a launcher
    // (torchrun, accelerate) outlives the trainer that was killed in the middle of a save, and exits 137, 139 or 1 for it.
    if (exit_allowed(lease, exit) && !exit.killed) return true;
    const Instant newest = *writes.newest;
    // Failed or killed, but nothing had been written for a while.
    const Instant cut = writes.signalled && !exit.killed ? *writes.signalled : writes.ended;
    if (newest + kQuiet <= cut) return true;
    // It wrote after the signal and was not killed: it has handled the signal by saving.
    return writes.signalled && !exit.killed && newest > *writes.signalled + Millis{50};
}

JobExit judge_container(JobExit exit, const ContainerEnd& end) {
    exit.oom = exit.oom || end.oom;
    const auto lost = [&exit](std::string detail) {
        exit.keeper_lost = true;
        exit.detail = std::move(detail);
    };
    if (!exit.started) {
        if (end.gave_up) lost("the container does not end");
    } else if (end.told) {
        // A told end stands, however the engine behaves afterwards; but not for the program's own where we had to end it because
        // its output went nowhere.
        if (end.client_lost)
            lost("the engine's client ended before the container did; its wait status is " + std::to_string(end.client_status));
    } else if (end.gave_up) {
        if (!end.leader_told) exit.wait_status = SIGKILL;
        exit.killed = exit.unended = true;
        lost("the container does not end");
    } else {
        exit.wait_status = SIGKILL;
        exit.killed = true;
        // Killed for memory with all that it held, or ended over our heads (by hand, or by a restart of the engine).
        if (!end.oom && !end.kill_ordered)
            lost("the container was ended from outside; its client's wait status is " + std::to_string(end.client_status));
    }
    return exit;
}

std::optional<Instant> newest_change(const std::string& folder) {
    std::optional<Instant> newest;
    std::error_code ec;
    for (fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied, ec), end; !ec && it != end;
         it.increment(ec)) {
        struct stat st{};
        if (::lstat(it->path().c_str(), &st) != 0 || S_ISLNK(st.st_mode)) continue;
        // The mtime may be another machine's (a restore sets it, so do tar and rsync); the ctime is this kernel's own.
        const auto at = instant_of(std::int64_t{st.st_ctim.tv_sec} * 1000 + st.st_ctim.tv_nsec / 1'000'000);
        if (!newest || at > *newest) newest = at;
    }
    return newest;
}

bool product_exists(const std::string& folder, const std::string& pattern) {
    if (pattern.empty() || pattern.front() == '/' || pattern.find("..") != std::string::npos) return false;
    return match_below(folder, pattern);
}

}  // namespace gf::agent
