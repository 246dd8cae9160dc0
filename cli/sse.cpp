#include "cli/sse.hpp"

namespace gf::cli {

bool SseReader::feed(std::string_view bytes, const std::function<bool(const SseEvent&)>& take) {
    while (!bytes.empty()) {
        if (after_return_) {  // the line feed of a CR LF that was split over two reads
            after_return_ = false;
            if (bytes.front() == '\n') bytes.remove_prefix(1);
            continue;
        }
        const auto end = bytes.find_first_of("\r\n");
        buffer_.append(bytes.substr(0, end));
        if (buffer_.size() > kLineBytesMax) return false;
        if (end == std::string_view::npos) return true;
        after_return_ = bytes[end] == '\r';
        bytes.remove_prefix(end + 1);
        const std::string text = std::move(buffer_);
        buffer_.clear();
        if (!line(text, take)) return false;
    }
    return true;
}

bool SseReader::line(std::string_view text, const std::function<bool(const SseEvent&)>& take) {
    if (text.empty()) {
        const bool whole = has_data_;
        auto event = event_;
        event_.name = "message";
        event_.data.clear();
        has_data_ = false;
        return !whole || take(event);
    }
    if (text.front() == ':') return true;  // a comment: the server's sign of life
    const auto colon = text.find(':');
    const auto field = text.substr(0, colon);
    auto value = colon == std::string_view::npos ? std::string_view{} : text.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (field == "event") {
        event_.name = std::string(value);
    } else if (field == "id") {
        event_.id = std::string(value);
    } else if (field == "data") {
        if (has_data_) event_.data += '\n';
        event_.data += value;
        has_data_ = true;
    }
    return true;
}

}  // namespace gf::cli
