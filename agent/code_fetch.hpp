// The job's code: fetched by its hash, resumed where a cut left it, checked, and unpacked.
#pragma once
#include <functional>
#include <string>

#include "agent/bulk_client.hpp"

namespace gf::agent {

/// Fetches the blob into `file` and unpacks it below `folder`. Blocks while the daemon is away, until `stopped`.
/// Errors: `conflict` (stopped, or the attempt is fenced), `not_found`, `invalid` (archive), `full`, `io`.
Result<void> fetch_code(BulkClient& bulk, const std::string& sha256, const std::string& file, const std::string& folder,
                        const std::function<bool()>& stopped);

}  // namespace gf::agent
