// A job's log as one text: the logs of its attempts, in order, each a file that only grows at its end while its attempt
// lives. Offsets count bytes of that text from the first attempt on, or of one attempt alone when one was asked for.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/http/files.hpp"
#include "db/store.hpp"

namespace gf::api {

[[nodiscard]] std::string log_path(const std::string& data_dir, const JobId& job, const AttemptId& attempt);

struct LogPart {
    int number{0};       // of the attempt
    AttemptId attempt;
    bool ended{false};   // nothing more will come
};

class JobLog {
 public:
    /// `number` 0 = all attempts.
    JobLog(std::string data_dir, JobId job, int number) : data_dir_(std::move(data_dir)), job_(std::move(job)), number_(number) {}

    /// Reads which attempts there are. Errors: the store's.
    Result<void> refresh(Reader& reader);
    [[nodiscard]] const std::vector<LogPart>& parts() const { return parts_; }
    /// Bytes on disk of part `index` now; 0 before its first byte came.
    [[nodiscard]] std::int64_t size_of(std::size_t index) const;
    /// Up to `most` bytes of part `index` from `offset`; none at its end. Errors: `io`.
    Result<std::string> read(std::size_t index, std::int64_t offset, std::size_t most);
    /// No further part will be added and none will grow: the job is over, or the one attempt asked for is.
    [[nodiscard]] bool over() const { return over_; }
    [[nodiscard]] const JobId& job() const { return job_; }

 private:
    std::string data_dir_;
    JobId job_;
    int number_;
    std::vector<LogPart> parts_;
    bool over_{false};
    std::size_t open_index_{0};
    http::File open_;
};

/// Where an offset of the whole text lies. An offset past the end lies at the end.
struct LogPlace {
    std::size_t part{0};
    std::int64_t offset{0};       // in the part
    std::int64_t before{0};       // bytes of the parts before it
};
[[nodiscard]] LogPlace find_place(const JobLog& log, std::int64_t offset);

}  // namespace gf::api
