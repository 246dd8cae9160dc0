#include "daemon/gateway/log_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <filesystem>

#include "daemon/http/files.hpp"

namespace gf::gateway {
namespace {

using checkpoints::disk_error;
using checkpoints::File;

struct Gap {
    std::int64_t at{0};     // offset of the mark in the file
    std::int64_t count{0};  // bytes of output that it stands for
    LogFiles::Why why{LogFiles::Why::dropped};
};

constexpr std::string_view kLostRecord = " lost";

Result<void> write_at(const File& file, std::string_view bytes, std::int64_t at, const std::string& path) {
    while (!bytes.empty()) {
        const auto wrote = ::pwrite(file.fd(), bytes.data(), bytes.size(), at);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return fail(disk_error(errno, "write", path));
        bytes.remove_prefix(static_cast<std::size_t>(wrote));
        at += wrote;
    }
    return {};
}

Result<void> sync_file(const File& file, const std::string& path) {
    if (::fdatasync(file.fd()) != 0) return fail(disk_error(errno, "sync", path));
    return {};
}

/// One record per line; the last one for a place counts, because a gap can grow. A line that a crash cut is no record.
std::vector<Gap> parse_gaps(std::string_view text) {
    std::vector<Gap> gaps;
    for (auto end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
        const auto line = text.substr(0, end);
        text.remove_prefix(end + 1);
        Gap gap;
        const auto* stop = line.data() + line.size();
        const auto at = std::from_chars(line.data(), stop, gap.at);
        if (at.ec != std::errc{} || at.ptr == stop || *at.ptr != ' ') continue;
        const auto count = std::from_chars(at.ptr + 1, stop, gap.count);
        if (count.ec != std::errc{}) continue;
        if (std::string_view(count.ptr, stop) == kLostRecord) gap.why = LogFiles::Why::machine_lost;
        else if (count.ptr != stop) continue;
        if (!gaps.empty() && gaps.back().at == gap.at) gaps.back() = gap;
        else gaps.push_back(gap);
    }
    return gaps;
}

std::string read_all(const File& file) {
    std::string text;
    std::string piece(64 * 1024, '\0');
    for (std::int64_t at = 0;;) {
        const auto got = ::pread(file.fd(), piece.data(), piece.size(), at);
        if (got <= 0) return text;
        text.append(piece, 0, static_cast<std::size_t>(got));
        at += got;
    }
}

}  // namespace

/// The bytes of all logs of one job, counted on disk when first needed.
struct LogFiles::JobBytes {
    std::once_flag counted;
    std::atomic<std::int64_t> total{0};

    void count(const std::string& folder) {
        std::call_once(counted, [&] {
            std::error_code error;
            for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
                if (entry.path().extension() != ".log") continue;
                const auto bytes = entry.file_size(error);
                if (!error) total += static_cast<std::int64_t>(bytes);
            }
        });
    }
};

struct LogFiles::Log {
    std::string folder;
    std::string path;
    std::string gaps_path;
    std::shared_ptr<JobBytes> job_bytes;
    std::mutex writing;                      // guards all below
    bool loaded{false};
    File file;
    File gaps;                               // opened with the first gap
    std::int64_t size{0};                    // of the file
    std::int64_t end{0};                     // offset of the output up to which the file tells
    Gap last{.at = -1};
    std::mutex syncing;                      // guards synced; never taken while `writing` is held
    std::int64_t synced{0};                  // output offset that is known to be on disk
};

std::string LogFiles::mark(std::int64_t count, Why why) {
    if (why == Why::machine_lost) return fmt::format("\n[gpuferry: machine lost:{:>16} bytes gone]\n", count);
    return fmt::format("\n[gpuferry: {:>16} bytes of output dropped]\n", count);
}

/// With `mutex_` held.
std::shared_ptr<LogFiles::JobBytes> LogFiles::bytes_of(const JobId& job) {
    auto bytes = job_bytes_[job].lock();
    if (bytes) return bytes;
    bytes = std::make_shared<JobBytes>();
    std::erase_if(job_bytes_, [](const auto& entry) { return entry.second.expired(); });
    job_bytes_[job] = bytes;
    return bytes;
}

std::shared_ptr<LogFiles::Log> LogFiles::find(const JobId& job, const AttemptId& attempt) {
    const std::scoped_lock lock(mutex_);
    if (const auto found = open_.find(attempt); found != open_.end()) {
        recent_.remove(attempt);
        recent_.push_front(attempt);
        return found->second;
    }
    auto log = std::make_shared<Log>();
    log->folder = data_dir_ + "/logs/" + job.get();
    log->path = log->folder + "/" + attempt.get() + ".log";
    log->gaps_path = log->folder + "/" + attempt.get() + ".gaps";
    log->job_bytes = bytes_of(job);
    open_.emplace(attempt, log);
    recent_.push_front(attempt);
    // The oldest that nobody is using: two objects for one file would each believe in its own length.
    for (auto oldest = recent_.end(); recent_.size() > kOpenMax && oldest != recent_.begin();) {
        --oldest;
        if (open_.at(*oldest).use_count() > 1) continue;
        open_.erase(*oldest);
        recent_.erase(oldest);
        break;
    }
    return log;
}

/// With `writing` held.
Result<void> LogFiles::load(Log& log) const {
    if (log.loaded) return {};
    if (auto made = http::make_folders(log.folder); !made) return made;
    log.job_bytes->count(log.folder);
    const bool fresh = ::access(log.path.c_str(), F_OK) != 0;
    log.file = File(::open(log.path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!log.file.is_open()) return fail(disk_error(errno, "open", log.path));
    auto size = http::file_size(log.file);
    if (!size) return fail(std::move(size).error());
    log.size = *size;
    log.end = *size;
    auto& disk = checkpoints::Disk::real();
    if (fresh) {
        for (const auto& folder : {log.folder, data_dir_ + "/logs"})
            if (auto synced = disk.sync_directory(folder); !synced) return synced;
    }
    File gaps(::open(log.gaps_path.c_str(), O_RDWR | O_APPEND | O_CLOEXEC));
    if (gaps.is_open()) {
        const auto length = static_cast<std::int64_t>(mark(0).size());
        const auto text = read_all(gaps);
        if (const auto whole = text.rfind('\n') + 1; whole < text.size() && ::ftruncate(gaps.fd(), static_cast<off_t>(whole)) != 0)
            return fail(disk_error(errno, "truncate", log.gaps_path));
        for (const auto& gap : parse_gaps(text)) {
            if (gap.at > log.size) continue;  // cannot be: what is before a gap was synced before its record
            log.last = gap;
            log.end += gap.count - length;
            if (log.size >= gap.at + length) continue;
            // The mark was cut off by a crash.
            if (auto written = write_at(log.file, mark(gap.count, gap.why), gap.at, log.path); !written) return written;
            log.end += gap.at + length - log.size;
            log.size = gap.at + length;
        }
        log.gaps = std::move(gaps);
    }
    // Whether a killed daemon had synced what is in the file is not known.
    if (auto synced = sync_file(log.file, log.path); !synced) return synced;
    log.loaded = true;
    return {};
}

Result<std::int64_t> LogFiles::append(const JobId& job, const AttemptId& attempt, std::int64_t offset, std::string_view bytes) {
    const auto log = find(job, attempt);
    auto& l = *log;
    std::int64_t end = 0;
    {
        const std::scoped_lock lock(l.writing);
        if (auto loaded = load(l); !loaded) return fail(std::move(loaded).error());
        if (offset > l.end) return l.end;
        const auto known = l.end - offset;
        if (known < static_cast<std::int64_t>(bytes.size())) {
            bytes.remove_prefix(static_cast<std::size_t>(known));
            const auto want = static_cast<std::int64_t>(bytes.size());
            auto& total = l.job_bytes->total;
            const auto used = total.fetch_add(want);
            const auto own = std::min(reserve() - l.size, 2 * job_bytes_max_ - used);
            const auto room = std::clamp<std::int64_t>(std::max(job_bytes_max_ - used, own), 0, want);
            total -= want - room;
            const auto kept = bytes.substr(0, static_cast<std::size_t>(room));
            if (auto written = write_at(l.file, kept, l.size, l.path); !written) {
                // Half a write would shift every later offset.
                if (::ftruncate(l.file.fd(), l.size) != 0) return fail(disk_error(errno, "truncate", l.path));
                total -= room;
                return fail(std::move(written).error());
            }
            l.size += room;
            l.end += room;
            if (kept.size() < bytes.size()) {
                if (auto dropped = drop(l, static_cast<std::int64_t>(bytes.size() - kept.size()), Why::dropped); !dropped)
                    return fail(std::move(dropped).error());
            }
        }
        end = l.end;
    }
    return sync(l, end);
}

Result<std::int64_t> LogFiles::skip(const JobId& job, const AttemptId& attempt, std::int64_t offset, std::int64_t count) {
    const auto log = find(job, attempt);
    auto& l = *log;
    std::int64_t end = 0;
    {
        const std::scoped_lock lock(l.writing);
        if (auto loaded = load(l); !loaded) return fail(std::move(loaded).error());
        if (offset > l.end) return l.end;
        if (const auto missing = offset + count - l.end; missing > 0) {
            if (auto dropped = drop(l, missing, Why::dropped); !dropped) return fail(std::move(dropped).error());
        }
        end = l.end;
    }
    return sync(l, end);
}

Result<bool> LogFiles::lost(const JobId& job, const AttemptId& attempt, std::int64_t bytes) {
    const auto log = find(job, attempt);
    auto& l = *log;
    std::int64_t end = 0;
    {
        const std::scoped_lock lock(l.writing);
        if (auto loaded = load(l); !loaded) return fail(std::move(loaded).error());
        if (bytes <= l.end) return false;
        if (auto marked = drop(l, bytes - l.end, Why::machine_lost); !marked) return fail(std::move(marked).error());
        end = l.end;
    }
    if (auto synced = sync(l, end); !synced) return fail(std::move(synced).error());
    return true;
}

std::int64_t LogFiles::room(const JobId& job) {
    std::shared_ptr<JobBytes> bytes;
    {
        const std::scoped_lock lock(mutex_);
        bytes = bytes_of(job);
    }
    bytes->count(data_dir_ + "/logs/" + job.get());
    const auto left = std::max(reserve(), job_bytes_max_ - bytes->total);
    return left - left / 16;  // the marks count in what is on disk
}

/// With `writing` held.
Result<void> LogFiles::drop(Log& log, std::int64_t count, Why why) const {
    const auto length = static_cast<std::int64_t>(mark(0).size());
    const bool grows = log.last.at >= 0 && log.last.at + length == log.size;
    const Gap gap{.at = grows ? log.last.at : log.size, .count = grows ? log.last.count + count : count,
                  .why = grows && log.last.why == Why::machine_lost ? Why::machine_lost : why};
    if (auto synced = sync_file(log.file, log.path); !synced) return synced;
    if (!log.gaps.is_open()) {
        log.gaps = File(::open(log.gaps_path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
        if (!log.gaps.is_open()) return fail(disk_error(errno, "open", log.gaps_path));
        const auto folder = std::filesystem::path(log.gaps_path).parent_path();
        if (auto synced = checkpoints::Disk::real().sync_directory(folder); !synced) return synced;
    }
    const auto record = fmt::format("{} {}{}\n", gap.at, gap.count, gap.why == Why::machine_lost ? kLostRecord : "");
    auto before = http::file_size(log.gaps);
    if (!before) return fail(std::move(before).error());
    if (auto written = write_at(log.gaps, record, *before, log.gaps_path); !written) {
        if (::ftruncate(log.gaps.fd(), *before) != 0) return fail(disk_error(errno, "truncate", log.gaps_path));
        return written;
    }
    if (auto synced = sync_file(log.gaps, log.gaps_path); !synced) return synced;
    // From here on the gap counts: a mark that cannot be written now is written when the log is opened again.
    const auto written = write_at(log.file, mark(gap.count, gap.why), gap.at, log.path);
    log.last = gap;
    log.end += count;
    log.size = gap.at + length;
    return written;
}

/// One sync serves all who wrote before it began.
Result<std::int64_t> LogFiles::sync(Log& log, std::int64_t end) const {
    const std::scoped_lock lock(log.syncing);
    if (log.synced >= end) return end;
    std::int64_t written = 0;
    {
        const std::scoped_lock reading(log.writing);
        written = log.end;
    }
    if (auto synced = sync_file(log.file, log.path); !synced) return fail(std::move(synced).error());
    log.synced = written;
    return written;
}

}  // namespace gf::gateway
