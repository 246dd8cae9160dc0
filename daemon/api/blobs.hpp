// Blobs (code, inputs): files of `data_dir/blobs`, named by the SHA-256 of their bytes.
#pragma once
#include <memory>
#include <string>

#include "daemon/api/context.hpp"

namespace gf::api {

[[nodiscard]] std::string blob_path(const std::string& data_dir, const std::string& sha256);
/// A look at the disk; quick.
[[nodiscard]] bool blob_is_there(const Context& context, const std::string& sha256);
/// Removes what uploads left behind when the daemon was killed under them. Before the first upload; what cannot be removed
/// stays, with a warning.
void remove_unfinished_blobs(const std::string& data_dir);
/// Where an upload goes. Errors: `malformed` for a name that is not a SHA-256.
Result<std::unique_ptr<http::BodySink>> begin_blob(const Context& context, const std::string& sha256);

}  // namespace gf::api
