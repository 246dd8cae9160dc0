// Wakes the streams that wait for something: a job's log, the history. Topics are texts.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "daemon/http/loop.hpp"

namespace gf::http {

class Wakeups : public std::enable_shared_from_this<Wakeups> {
 public:
    /// `loop` outlives this.
    explicit Wakeups(Loop& loop) : loop_(loop) {}

    /// Ends the subscription when destroyed (loop's thread).
    class Subscription {
     public:
        Subscription() = default;
        Subscription(std::weak_ptr<Wakeups> hub, std::string topic, std::uint64_t number)
            : hub_(std::move(hub)), topic_(std::move(topic)), number_(number) {}
        Subscription(Subscription&& other) noexcept { *this = std::move(other); }
        Subscription& operator=(Subscription&& other) noexcept;
        ~Subscription();

     private:
        std::weak_ptr<Wakeups> hub_;
        std::string topic_;
        std::uint64_t number_{0};
    };

    /// Loop's thread.
    [[nodiscard]] Subscription subscribe(std::string topic, std::function<void()> wake);
    /// Any thread. Many notes of one topic before the loop's next turn are one wake.
    void notify(const std::string& topic);

 private:
    void deliver();
    void remove(const std::string& topic, std::uint64_t number);

    Loop& loop_;
    std::uint64_t next_{1};
    std::map<std::string, std::map<std::uint64_t, std::function<void()>>> waiting_;
    std::mutex mutex_;  // guards pending_
    std::set<std::string> pending_;
};

}  // namespace gf::http
