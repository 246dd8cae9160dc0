#include "daemon/gateway/agent_binaries.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <vector>

#include "daemon/http/files.hpp"
#include "daemon/log.hpp"

namespace gf::gateway {
namespace {

namespace fs = std::filesystem;

Result<void> each_piece(const std::string& path, const std::function<Result<void>(std::string_view)>& take) {
    auto file = http::open_file(path);
    if (!file) return fail(std::move(file).error());
    const auto size = http::file_size(*file);
    if (!size) return fail(size.error());
    const auto bytes = http::file_range(*std::move(file), 0, *size);
    std::string piece;
    for (auto state = http::BodyStream::State::more; state == http::BodyStream::State::more;) {
        piece.clear();
        state = bytes->next(piece);
        if (state == http::BodyStream::State::broken) return fail(ErrorKind::io, "read " + path);
        if (auto taken = take(piece); !taken) return taken;
    }
    return {};
}

/// A file's time says when it was last the daemon's own, which is what the newest are told by. To the nanosecond: the kernel's
/// own stamps are some milliseconds coarse.
Result<void> stamp(const std::string& path) {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    const timespec times[2] = {now, now};
    if (::utimensat(AT_FDCWD, path.c_str(), times, 0) != 0) return fail(ErrorKind::io, "cannot set the time of " + path);
    return {};
}

Result<std::string> hash_of(const std::string& path) {
    checkpoints::Sha256 hash;
    const auto add = [&hash](std::string_view piece) -> Result<void> {
        hash.add(piece);
        return {};
    };
    if (auto read = each_piece(path, add); !read) return fail(std::move(read).error());
    return hash.finish().hex();
}

}  // namespace

Result<std::string> AgentBinaries::add(const std::string& path) {
    auto sha256 = hash_of(path);
    if (!sha256) return sha256;
    const auto copied = copy(path, *sha256);
    if (!copied) log::warn("gateway.agent_not_kept", {{"path", path}, {"reason", copied.error().message}});
    {
        const std::scoped_lock lock(mutex_);
        std::erase_if(elsewhere_, [&path](const auto& known) { return known.second == path; });  // it holds something else now
        if (!copied) elsewhere_[*sha256] = path;
    }
    look();
    return sha256;
}

Result<void> AgentBinaries::copy(const std::string& path, const std::string& sha256) const {
    if (auto made = http::make_folders(folder_); !made) return made;
    const auto kept = folder_ + "/" + sha256;
    if (const auto there = hash_of(kept); there && *there == sha256) return stamp(kept);
    http::FileUpload upload(kept, sha256);
    auto written = each_piece(path, [&upload](std::string_view piece) { return upload.write(piece); });
    if (!written) return written;
    if (auto finished = upload.finish(); !finished) return finished;
    return stamp(kept);
}

void AgentBinaries::look() {
    std::vector<std::pair<fs::file_time_type, fs::path>> found;
    std::error_code error;
    for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
        std::error_code ignored;
        found.emplace_back(it->last_write_time(ignored), it->path());
    }
    std::ranges::sort(found, std::greater{});
    const auto old = fs::file_time_type::clock::now() - kKeptFor;
    std::map<std::string, std::string> whole;
    for (const auto& [time, path] : found) {
        const auto name = path.filename().string();
        if (whole.size() < kKept || time > old)
            if (const auto hash = hash_of(path.string()); hash && *hash == name) {
                whole.emplace(name, path.string());
                continue;
            }
        fs::remove(path, error);
    }
    const std::scoped_lock lock(mutex_);
    whole.insert(elsewhere_.begin(), elsewhere_.end());
    paths_ = std::move(whole);
}

std::string AgentBinaries::path_of(const std::string& sha256) const {
    const std::scoped_lock lock(mutex_);
    const auto found = paths_.find(sha256);
    return found == paths_.end() ? std::string() : found->second;
}

}  // namespace gf::gateway
