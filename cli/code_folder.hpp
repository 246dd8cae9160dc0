// The folder that `code:` of a job spec names, packed for the machine: what git would take (tracked and
// untracked, less what .gitignore names), sorted, as one tar.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/environment.hpp"
#include "cli/failure.hpp"

namespace gf::cli {

inline constexpr std::int64_t kCodeBytesMax = 4LL << 30;  // the daemon takes no larger blob

struct CodeListing {
    std::vector<std::string> paths;  // relative, sorted by bytes, "/" between parts; files and links only
    bool by_git{false};
    std::vector<std::string> notes;  // what was left out and why, for people
};

/// Lists `folder`. Uses `git ls-files -co --exclude-standard` in a git work tree, else walks it and obeys
/// .gitignore files. Never follows a link out of the folder; `.git` is never sent. Failures: refused, when it
/// is no folder or unreadable.
[[nodiscard]] Outcome<CodeListing> list_code(const std::string& folder);

struct CodePack {
    std::string sha256;     // lower-case hex, of the tar
    std::int64_t bytes{0};  // of the tar
    int files{0};
    std::vector<std::string> notes;
};

/// Packs `folder` into the file `tar_path`. Failures: refused, when nothing is in it, when it is above
/// kCodeBytesMax (with the largest files named), or when a file changed while it was read; interrupted, when
/// `interrupted` became true meanwhile.
[[nodiscard]] Outcome<CodePack> pack_code(const std::string& folder, const std::string& tar_path,
                                          const std::atomic<bool>* interrupted = nullptr);

}  // namespace gf::cli
