#include "agent/outbox.hpp"

#include <charconv>

namespace gf::agent {
namespace ap = agent_protocol;

// Kept as lines: the last number used, then "number text" per message. Encoded messages have no line break.
Outbox::Outbox(std::string boot_id, const std::string& kept, std::function<void(std::string)> send,
               std::function<void(std::string)> keep)
    : boot_id_(std::move(boot_id)), send_(std::move(send)), keep_(std::move(keep)) {
    std::string_view rest = kept;
    bool first = true;
    while (!rest.empty()) {
        const auto end = std::min(rest.find('\n'), rest.size());
        const auto line = rest.substr(0, end);
        rest.remove_prefix(std::min(end + 1, rest.size()));
        std::int64_t number = 0;
        const auto read = std::from_chars(line.data(), line.data() + line.size(), number);
        if (first) last_seq_ = number;
        else waiting_.push_back({number, std::string(line.substr(static_cast<std::size_t>(read.ptr - line.data()) + 1))});
        first = false;
    }
}

void Outbox::push(ap::FromAgentBody body) {
    const std::lock_guard lock(mutex_);
    put(std::move(body));
    remember();
}

void Outbox::set_progress(const ap::Progress& progress) {
    const std::lock_guard lock(mutex_);
    if (!open_) {
        progress_ = progress;
        return;
    }
    put(progress);
    remember();
}

void Outbox::push_heartbeat(const ap::Heartbeat& heartbeat) {
    const std::lock_guard lock(mutex_);
    if (open_) send_(ap::encode(ap::FromAgent{.boot_id = boot_id_, .seq = 0, .body = heartbeat}));
}

void Outbox::opened(const ap::Hello& hello) {
    const std::lock_guard lock(mutex_);
    open_ = true;
    send_(ap::encode(ap::FromAgent{.boot_id = boot_id_, .seq = 0, .body = hello}));
    for (const auto& message : waiting_) send_(message.text);
    if (!progress_) return;
    put(*progress_);
    progress_.reset();
    remember();
}

void Outbox::closed() {
    const std::lock_guard lock(mutex_);
    open_ = false;
}

void Outbox::acknowledged(std::int64_t seq) {
    const std::lock_guard lock(mutex_);
    const auto before = waiting_.size();
    while (!waiting_.empty() && waiting_.front().seq <= seq) waiting_.pop_front();
    if (waiting_.size() != before) remember();
}

bool Outbox::empty() const {
    const std::lock_guard lock(mutex_);
    return waiting_.empty();
}

void Outbox::put(ap::FromAgentBody body) {
    const std::int64_t seq = ++last_seq_;
    waiting_.push_back({seq, ap::encode(ap::FromAgent{.boot_id = boot_id_, .seq = seq, .body = std::move(body)})});
    if (open_) send_(waiting_.back().text);
}

void Outbox::remember() {
    std::string state = std::to_string(last_seq_) + "\n";
    for (const auto& message : waiting_) state += std::to_string(message.seq) + " " + message.text + "\n";
    keep_(std::move(state));
}

}  // namespace gf::agent
