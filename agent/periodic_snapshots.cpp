#include "agent/periodic_snapshots.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "agent/clock.hpp"
#include "agent/descriptor.hpp"
#include "agent/log.hpp"

namespace gf::agent {

PeriodicSnapshots::PeriodicSnapshots(Checkpointing& checkpoints, Millis every, std::string trigger, Millis trigger_patience)
    : checkpoints_(checkpoints),
      every_(std::max(every, Millis{1})),
      trigger_(std::move(trigger)),
      trigger_patience_(trigger_patience),
      thread_([this] { run(); }) {}

PeriodicSnapshots::~PeriodicSnapshots() { stop(); }

void PeriodicSnapshots::stop() {
    if (!thread_.joinable()) return;
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    wake_.notify_all();
    checkpoints_.abort(true);
    thread_.join();
    checkpoints_.abort(false);
}

void PeriodicSnapshots::ask() {
    {
        const std::lock_guard lock(mutex_);
        ++asked_;
    }
    wake_.notify_all();
}

std::string PeriodicSnapshots::ask_and_wait() {
    std::unique_lock lock(mutex_);
    const auto ticket = ++asked_;
    wake_.notify_all();
    wake_.wait(lock, [&] { return stopping_ || answered_ >= ticket; });
    return answered_ >= ticket ? answer_ : "error the job is ending";
}

void PeriodicSnapshots::run() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
        wake_.wait_for(lock, every_, [this] { return stopping_ || asked_ > answered_; });
        if (stopping_) return;
        // Whoever asked before the snapshot begins is served by it; who asks during it waits for the next.
        const auto serving = asked_;
        lock.unlock();
        auto said = take();
        lock.lock();
        answered_ = serving;
        answer_ = std::move(said);
        wake_.notify_all();
    }
}

std::string PeriodicSnapshots::take() {
    if (!trigger_.empty()) {
        const Descriptor touched(::open(trigger_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666));
        // Programs that save on request remove the file when they see it; one that does not is given the whole patience.
        const Millis until = boot_time() + trigger_patience_;
        std::unique_lock lock(mutex_);
        while (touched && !stopping_ && boot_time() < until && ::access(trigger_.c_str(), F_OK) == 0)
            wake_.wait_for(lock, Millis{100}, [this] { return stopping_; });
        if (stopping_) return "error the job is ending";
    }
    const auto taken = checkpoints_.checkpoint(CheckpointWhen::running);
    if (taken) return "ok " + std::to_string(*taken);
    if (taken.error().kind != ErrorKind::not_found) log("info", "checkpoint: " + taken.error().message);
    return "error " + taken.error().message;
}

}  // namespace gf::agent
