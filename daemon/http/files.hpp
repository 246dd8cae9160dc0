// Files as bodies: a range of a file as an answer, and an upload that becomes a file only when its hash is right.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "checkpoints/digest.hpp"
#include "checkpoints/disk.hpp"
#include "daemon/http/exchange.hpp"

namespace gf::http {

using checkpoints::File;

/// Opens for reading. Errors: `not_found`, `io` with the path.
Result<File> open_file(const std::string& path);
/// Size in bytes of an open file. Errors: `io`.
Result<std::int64_t> file_size(const File& file);
/// Makes the folder and its parents (0700). Errors: `io`, `full`.
Result<void> make_folders(const std::string& path);

/// Bytes [from, to) of a file, read on the blocking threads.
[[nodiscard]] std::unique_ptr<BodyStream> file_range(File file, std::int64_t from, std::int64_t to);

/// One range of `Range: bytes=`. Several ranges and other units are ignored: the whole is sent, as RFC 9110 allows.
struct ByteRange {
    std::int64_t from{0};
    std::int64_t to{0};  // exclusive
    bool partial{false};
    bool unsatisfiable{false};  // answer 416
};
[[nodiscard]] ByteRange parse_range(std::string_view header, std::int64_t size);
/// 200, 206 or 416 for the file, with Content-Range and Accept-Ranges.
[[nodiscard]] Response file_response(File file, std::int64_t size, std::string_view range_header,
                                     std::string content_type);

/// In the name of every temporary file of an upload.
inline constexpr std::string_view kUnfinished = ".tmp-";

/// An upload into a temporary file beside its final name. Blocking calls.
class FileUpload : public BodySink {
 public:
    /// The folder must exist. `final_path` is taken only by `finish`; errors of opening come with the first write.
    FileUpload(std::string final_path, std::string sha256);
    ~FileUpload() override;  // removes the temporary file
    Result<void> write(std::string_view piece) override;
    /// Checks the hash, syncs, renames, syncs the folder. Errors: `invalid` when the hash is another, `io`, `full`.
    Result<void> finish();
    [[nodiscard]] std::int64_t size() const { return size_; }

 private:
    std::string final_path_;
    std::string sha256_;
    std::string temporary_;
    File file_;
    checkpoints::Sha256 hash_;
    std::int64_t size_{0};
};

}  // namespace gf::http
