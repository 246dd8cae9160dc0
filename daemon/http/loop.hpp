// The thread that serves sockets, and the few threads beside it for blocking file work. The listeners (REST, unix socket,
// agents) share one Loop; they must be stopped before it is destroyed. No Boost header is needed to use it.
#pragma once
#include <functional>
#include <memory>

namespace gf::http {

class Loop {
 public:
    /// `blocking_threads` (1..64) serve `work`; they are for file reads, hashing and fdatasync, never for sockets.
    explicit Loop(int blocking_threads = 4);
    /// Stops and joins. Nothing given to `enqueue` or `work` after this point runs.
    ~Loop();
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;

    void start();
    /// Waits up to a second for what the listeners still have open, then ends all threads. Idempotent.
    void stop();

    /// Runs `fn` soon on the loop's thread. Any thread. Many calls in a row cost one wake-up of the loop.
    void enqueue(std::function<void()> fn);
    /// Runs `fn` on one of the blocking threads. Any thread; first come, first served.
    void work(std::function<void()> fn);

    struct Impl;
    [[nodiscard]] Impl& impl() { return *impl_; }

 private:
    std::unique_ptr<Impl> impl_;
};

}  // namespace gf::http
