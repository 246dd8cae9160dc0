// Unpacks a tar stream (ustar, pax, GNU long names; plain or in a zstd frame) below a folder, without a tar program. The
// stream is foreign: nothing is ever written outside of the folder, through a link, or over something that is there.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "agent/descriptor.hpp"
#include "model/result.hpp"

namespace gf::agent {

struct TarLimits {
    std::int64_t bytes_max{1LL << 40};   // of all files, unpacked
    std::int64_t entries_max{2'000'000};
};

class TarReader {
 public:
    /// `folder` exists.
    explicit TarReader(const std::string& folder, TarLimits limits = {});
    ~TarReader();
    /// The next bytes of the stream, any number. Errors: `invalid` (not a tar, damaged, or an entry that must be refused: an
    /// absolute path, "..", a link out of the folder, a device), `full`, `io`. After an error the reader is of no use.
    Result<void> feed(std::string_view bytes);
    /// Ends the stream: `invalid` if it is cut short.
    Result<void> finish();
    [[nodiscard]] std::int64_t files() const { return files_; }

 private:
    struct Header;
    class Inflate;

    Result<void> feed_plain(std::string_view bytes);
    Result<void> take_header(std::string_view block);
    Result<void> begin_entry();
    Result<void> take_data(std::string_view bytes);
    Result<void> end_entry();
    Result<void> read_pax(std::string_view text);
    /// Opens the folder that holds `path`, making what is missing, never through a link; `name` is the last part.
    Result<Descriptor> parent_of(std::string_view path, std::string& name);

    std::string root_path_;
    Descriptor root_;
    TarLimits limits_;
    std::unique_ptr<Inflate> inflate_;
    bool probed_{false};
    std::string probe_;
    std::string block_;                  // a block that has not come whole
    std::unique_ptr<Header> entry_;
    std::int64_t data_left_{0};          // of the entry
    std::int64_t padding_left_{0};
    std::string meta_;                   // pax or long name data
    std::string long_name_, long_link_;  // for the next entry
    std::int64_t pax_size_{-1};
    std::int64_t pax_mtime_{-1};
    Descriptor file_;
    bool ended_{false};
    std::int64_t bytes_{0};
    std::int64_t entries_{0};
    std::int64_t files_{0};
};

}  // namespace gf::agent
