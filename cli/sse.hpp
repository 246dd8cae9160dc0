// Server-sent events, read as the bytes come (WHATWG HTML, "event stream interpretation").
#pragma once
#include <functional>
#include <string>
#include <string_view>

namespace gf::cli {

struct SseEvent {
    std::string name{"message"};
    std::string id;  // the last id seen on this stream
    std::string data;
};

class SseReader {
 public:
    /// Gives each whole event to `take`; false from it, or a line above kLineBytesMax, ends the reading
    /// (answers false).
    bool feed(std::string_view bytes, const std::function<bool(const SseEvent&)>& take);

    static constexpr std::size_t kLineBytesMax = 16 << 20;

 private:
    bool line(std::string_view text, const std::function<bool(const SseEvent&)>& take);
    std::string buffer_;
    SseEvent event_;
    bool has_data_{false};
    bool after_return_{false};
};

}  // namespace gf::cli
