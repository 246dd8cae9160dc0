// Server-sent events, the writing side: frames, and the sign of life that keeps proxies from closing a quiet stream.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace gf::api {

/// One event. Line ends in `data` (LF, CR LF, CR) become lines of the event, as the format demands. `name` empty = "message".
void append_event(std::string& out, std::int64_t id, std::string_view name, std::string_view data);

/// Says when a comment is due because nothing was written for 15 s.
class Heartbeat {
 public:
    void wrote() { last_ = std::chrono::steady_clock::now(); }
    /// Appends a comment when one is due.
    void beat(std::string& out);

 private:
    std::chrono::steady_clock::time_point last_{std::chrono::steady_clock::now()};
};

}  // namespace gf::api
