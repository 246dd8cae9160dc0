// Small files that only this user may read, as ssh demands of its keys. Blocking calls.
#pragma once
#include <string>
#include <string_view>

#include "model/result.hpp"

namespace gf::ssh {

/// Makes the folder (0700) and its parents. Errors: `io`.
Result<void> make_private_folder(const std::string& path);
/// Written beside (0600), synced and renamed, so that a crash leaves the old file or the new one. Errors: `io`, `full`.
Result<void> write_private_file(const std::string& path, std::string_view text);
/// Takes all rights of others from a file that is there (0600). Errors: `io`, also for a file that is not this user's.
Result<void> make_file_private(const std::string& path);
/// A file of at most 64 KiB as a whole. Errors: `not_found`, `io`.
Result<std::string> read_small_file(const std::string& path);

}  // namespace gf::ssh
