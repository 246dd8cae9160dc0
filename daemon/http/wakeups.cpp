#include "daemon/http/wakeups.hpp"

#include <vector>

namespace gf::http {

Wakeups::Subscription& Wakeups::Subscription::operator=(Subscription&& other) noexcept {
    std::swap(hub_, other.hub_);
    std::swap(topic_, other.topic_);
    std::swap(number_, other.number_);
    return *this;
}

Wakeups::Subscription::~Subscription() {
    if (const auto hub = hub_.lock()) hub->remove(topic_, number_);
}

Wakeups::Subscription Wakeups::subscribe(std::string topic, std::function<void()> wake) {
    const auto number = next_++;
    waiting_[topic].emplace(number, std::move(wake));
    return {weak_from_this(), std::move(topic), number};
}

void Wakeups::notify(const std::string& topic) {
    bool first = false;
    {
        const std::scoped_lock lock(mutex_);
        first = pending_.empty();
        pending_.insert(topic);
    }
    if (!first) return;
    loop_.enqueue([self = weak_from_this()] {
        if (const auto hub = self.lock()) hub->deliver();
    });
}

void Wakeups::deliver() {
    std::set<std::string> topics;
    {
        const std::scoped_lock lock(mutex_);
        topics.swap(pending_);
    }
    // A wake only marks and unblocks a stream, which runs later: it never changes the table that is walked here.
    for (const auto& topic : topics) {
        const auto found = waiting_.find(topic);
        if (found == waiting_.end()) continue;
        for (const auto& [number, wake] : found->second) wake();
    }
}

void Wakeups::remove(const std::string& topic, std::uint64_t number) {
    const auto found = waiting_.find(topic);
    if (found == waiting_.end()) return;
    found->second.erase(number);
    if (found->second.empty()) waiting_.erase(found);
}

}  // namespace gf::http
