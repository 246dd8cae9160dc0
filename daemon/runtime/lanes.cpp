#include "daemon/runtime/lanes.hpp"

namespace gf {

Lanes::~Lanes() { stop(std::chrono::milliseconds{0}); }

void Lanes::work(Lane& lane) {
    std::unique_lock lock(mutex_);
    while (true) {
        lane.wake.wait(lock, [&] { return stopping_ || !lane.waiting.empty(); });
        if (stopping_) return;
        const auto call = std::move(lane.waiting.front());
        lane.waiting.pop_front();
        ++busy_;
        lock.unlock();
        call();
        lock.lock();
        if (--busy_ == 0) idle_.notify_all();
    }
}

void Lanes::run(const std::string& name, int threads, std::function<void()> call) {
    const std::scoped_lock lock(mutex_);
    if (stopping_) return;
    Lane& lane = lanes_[name];
    lane.waiting.push_back(std::move(call));
    while (static_cast<int>(lane.threads.size()) < threads) lane.threads.emplace_back([this, &lane] { work(lane); });
    lane.wake.notify_one();
}

bool Lanes::stop(std::chrono::milliseconds patience) {
    bool clean = false;
    {
        std::unique_lock lock(mutex_);
        stopping_ = true;
        for (auto& [name, lane] : lanes_) {
            lane.waiting.clear();
            lane.wake.notify_all();
        }
        clean = idle_.wait_for(lock, patience, [&] { return busy_ == 0; });
    }
    // A call that is still out ends by its own time-out; its outcome is settled at the next start like after a crash.
    for (auto& [name, lane] : lanes_)
        for (auto& thread : lane.threads)
            if (thread.joinable()) clean ? thread.join() : thread.detach();
    return clean;
}

}  // namespace gf
