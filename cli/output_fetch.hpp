// Fetches the published files of a job into a folder: each into a temporary file beside its place, its size
// and SHA-256 checked, then renamed. Never writes outside the folder, also when names or links in it try to
// lead out.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/client.hpp"
#include "cli/failure.hpp"

namespace gf::cli {

struct OutputFile {
    std::string path;  // relative, "/" between parts
    std::string url;   // path of the API with query
    std::int64_t size{0};
    std::string sha256;  // lower-case hex
    bool executable{false};
};

/// Whether `path` may be created below a folder: relative, no "", "." or ".." part, no NUL, no part above 255
/// bytes.
[[nodiscard]] bool safe_relative_path(std::string_view path);

struct Fetched {
    int files{0};
    int kept{0};  // were there already with the right bytes
    std::int64_t bytes{0};
};

/// `folder` is made if it is not there. A file that is there with the right hash is kept; any other one is
/// replaced with `force` and is a reason to fetch nothing without. Failures: the client's own, and refused
/// for such files (named), an unsafe path, a wrong size or hash, or an error of the disk.
[[nodiscard]] Outcome<Fetched> fetch_outputs(
    Client& client, const std::vector<OutputFile>& files, const std::string& folder, bool force,
    const std::function<void(const OutputFile&, std::int64_t)>& progress);

}  // namespace gf::cli
