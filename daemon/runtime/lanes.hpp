// The threads that make the blocking provider calls. Each provider has a lane per kind of call, so that a search that waits
// for its rate limit never holds up a destroy. Calls in one lane run in the order they were given.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace gf {

class Lanes {
 public:
    Lanes() = default;
    ~Lanes();
    Lanes(const Lanes&) = delete;
    Lanes& operator=(const Lanes&) = delete;

    /// Queues a call; a lane is started (`threads` threads) at its first use. Never blocks.
    void run(const std::string& lane, int threads, std::function<void()> call);
    /// Drops what has not begun and waits for what has, at most `patience` of real time. False = some call is still out.
    bool stop(std::chrono::milliseconds patience);

 private:
    struct Lane {
        std::deque<std::function<void()>> waiting;
        std::vector<std::thread> threads;
        std::condition_variable wake;
    };
    void work(Lane& lane);

    std::mutex mutex_;  // guards all below
    std::map<std::string, Lane> lanes_;
    std::condition_variable idle_;
    int busy_{0};
    bool stopping_{false};
};

}  // namespace gf
