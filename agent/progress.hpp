// How far the job is: by a regular expression on its output lines, or by JSON lines that it writes to a file.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "agent/output_lines.hpp"
#include "agent/spool.hpp"
#include "model/result.hpp"

namespace gf::agent {

struct ProgressPoint {
    std::int64_t step{0};
    std::int64_t total{0};  // 0 = not known
    friend bool operator==(const ProgressPoint&, const ProgressPoint&) = default;
};

/// The spec's pattern: RE2, one or two groups: step and total. Numbers may be "1,200", "3.5k" is not one.
class ProgressPattern {
 public:
    ~ProgressPattern();
    ProgressPattern(ProgressPattern&&) noexcept;
    /// Errors: `invalid`: does not compile, or has no group.
    static Result<ProgressPattern> compile(const std::string& pattern);
    [[nodiscard]] std::optional<ProgressPoint> match(std::string_view line) const;

 private:
    struct Compiled;
    explicit ProgressPattern(std::unique_ptr<Compiled> compiled);
    std::unique_ptr<Compiled> compiled_;
};

/// A JSON line such as {"step": 120, "total": 1000, "loss": 0.3}; nothing for other lines.
[[nodiscard]] std::optional<ProgressPoint> progress_of_json(std::string_view line);

/// Follows the spool and the progress file from where it stands; `look` is called again and again. Not thread-safe.
class ProgressWatch {
 public:
    /// `file` is absolute or empty. A pattern that does not compile is as none (the daemon has refused it at submit).
    ProgressWatch(std::string spool_folder, const std::string& pattern, std::string file);
    ~ProgressWatch();
    /// Reads at most a few MiB of what is new; true if the newest point changed.
    bool look();
    [[nodiscard]] std::optional<ProgressPoint> newest() const { return newest_; }
    [[nodiscard]] std::int64_t spool_read_to() const { return spool_at_; }

 private:
    bool read_file();
    SpoolReader spool_;
    std::optional<ProgressPattern> pattern_;
    std::string file_;
    std::int64_t spool_at_{0};
    std::int64_t file_at_{0};
    LineCutter output_lines_;
    LineCutter file_lines_;
    std::optional<ProgressPoint> newest_;
};

}  // namespace gf::agent
