// Writes a tar file (POSIX ustar, with pax headers for what ustar cannot say) and hashes it on the way. The
// same entries with the same times give the same bytes: no owner, no user name, permissions reduced to 0644
// and 0755. Own code, because the order, the times and the permissions must not depend on a tar program of
// the machine.
#pragma once
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "cli/failure.hpp"

namespace gf::cli {

enum class TarKind : std::uint8_t { file, directory, link };

struct TarEntry {
    std::string name;  // relative, "/" between parts, no "..": the caller has checked it
    TarKind kind{TarKind::file};
    bool executable{false};
    std::int64_t mtime_s{0};
    std::int64_t size{0};  // of a file
    std::string target;    // of a link
};

class TarWriter {
 public:
    /// Creates `path`, readable by its owner only. Failures: refused, with the system's reason.
    static Outcome<TarWriter> create(const std::string& path);
    TarWriter(TarWriter&&) noexcept;
    TarWriter& operator=(TarWriter&&) noexcept;
    ~TarWriter();

    /// A file's head; exactly `entry.size` bytes must follow by `data`, then the next entry.
    Outcome<void> begin(const TarEntry& entry);
    Outcome<void> data(std::string_view bytes);
    /// Ends the archive and answers the SHA-256 of all bytes in lower-case hex. Nothing may follow.
    Outcome<std::string> finish();

    [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
    struct Out;
    explicit TarWriter(std::unique_ptr<Out> out);
    Outcome<void> put(std::string_view bytes);
    Outcome<void> pad();
    Outcome<void> header(const TarEntry& entry, char type, const std::string& name,
                         const std::string& target);
    std::unique_ptr<Out> out_;
    std::int64_t bytes_{0};
    std::int64_t left_{0};  // of the open file's bytes
};

}  // namespace gf::cli
