// What the command line's exit status means. Scripts rely on these numbers; README.md lists them.
#pragma once

namespace gf::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitRefused = 1;       // the daemon refused, or what was asked for failed
inline constexpr int kExitUsage = 2;         // the command line itself is wrong
inline constexpr int kExitInterrupted = 130;  // Ctrl-C before it was done; with submit --wait the job goes on
inline constexpr int kExitConnection = 120;  // no daemon there, or the connection was cut
inline constexpr int kExitAuth = 121;        // no token, a wrong one, or its role does not allow this
inline constexpr int kExitTimeout = 122;     // the daemon did not answer in time
inline constexpr int kExitUnexpected = 123;  // something answered, but not as a gpuferry daemon does

}  // namespace gf::cli
