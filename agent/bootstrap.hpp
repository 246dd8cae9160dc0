// The start script: what a rented machine runs first. It fetches the agent by whatever tool the image has, checks its
// hash, and becomes it. Pure.
#pragma once
#include <string>

namespace gf {

struct BootstrapParams {
    /// Where the agent is fetched from: "https://ferry.example.org:8471" or "http://127.0.0.1:1234", optionally with a path,
    /// without a slash at the end. Characters other than [A-Za-z0-9.:/_-] and brackets are refused by an empty answer.
    std::string url;
    std::string sha256;  // of the agent binary, 64 lower-case hex digits; the trust lies in this alone
};

inline constexpr std::size_t kStartScriptBytesMax = 2000;

/// POSIX sh, at most kStartScriptBytesMax bytes; empty if the parameters cannot be written into it. Exports GPUFERRY_URL
/// as `url` where the environment has none. For an https URL each tool tries TLS without verification first and then plain
/// HTTP on the same port, which the daemon's listener answers for this one path. It loops with back-off for ever: a machine
/// that cannot reach the daemon yet is not lost.
[[nodiscard]] std::string start_script(const BootstrapParams& params);

}  // namespace gf
