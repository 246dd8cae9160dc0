#include "daemon/api/job_log.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace gf::api {

std::string log_path(const std::string& data_dir, const JobId& job, const AttemptId& attempt) {
    return data_dir + "/logs/" + job.get() + "/" + attempt.get() + ".log";
}

Result<void> JobLog::refresh(Reader& reader) {
    // The job first: if it is over when the attempts are read, no attempt can come after them.
    const auto row = reader.job(job_);
    if (!row) return fail(row.error());
    const auto attempts = reader.attempts(job_);
    if (!attempts) return fail(attempts.error());
    parts_.clear();
    bool all_ended = true;
    for (const auto& attempt : *attempts) {
        if (number_ != 0 && attempt.number != number_) continue;
        const bool ended = attempt.state == AttemptState::ended;
        all_ended = all_ended && ended;
        parts_.push_back({.number = attempt.number, .attempt = attempt.id, .ended = ended});
    }
    const bool job_over = !*row || is_final((*row)->state);
    over_ = all_ended && (job_over || (number_ != 0 && !parts_.empty()));
    return {};
}

std::int64_t JobLog::size_of(std::size_t index) const {
    struct stat info {};
    if (index >= parts_.size()) return 0;
    if (::stat(log_path(data_dir_, job_, parts_[index].attempt).c_str(), &info) != 0) return 0;
    return static_cast<std::int64_t>(info.st_size);
}

Result<std::string> JobLog::read(std::size_t index, std::int64_t offset, std::size_t most) {
    if (index >= parts_.size()) return std::string();
    const auto path = log_path(data_dir_, job_, parts_[index].attempt);
    if (!open_.is_open() || open_index_ != index) {
        auto opened = http::open_file(path);
        if (!opened && opened.error().kind == ErrorKind::not_found) return std::string();
        if (!opened) return fail(std::move(opened).error());
        open_ = *std::move(opened);
        open_index_ = index;
    }
    std::string bytes(most, '\0');
    const auto got = ::pread(open_.fd(), bytes.data(), most, offset);
    if (got < 0) return fail(checkpoints::disk_error(errno, "read", path));
    bytes.resize(static_cast<std::size_t>(got));
    return bytes;
}

LogPlace find_place(const JobLog& log, std::int64_t offset) {
    LogPlace place;
    while (place.part + 1 < log.parts().size()) {
        const auto size = log.size_of(place.part);
        if (offset < place.before + size) break;
        place.before += size;
        ++place.part;
    }
    place.offset = std::clamp<std::int64_t>(offset - place.before, 0, log.size_of(place.part));
    return place;
}

}  // namespace gf::api
