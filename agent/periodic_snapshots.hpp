// Takes checkpoints while the job runs: at the interval, and when somebody asks.
#pragma once
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "agent/checkpointing.hpp"

namespace gf::agent {

class PeriodicSnapshots {
 public:
    /// `every` from one taken to the next; `trigger` is the file by which the program is asked to save (absolute, or empty),
    /// `trigger_patience` how long it may take to do so.
    PeriodicSnapshots(Checkpointing& checkpoints, Millis every, std::string trigger, Millis trigger_patience);
    ~PeriodicSnapshots();
    /// Ends a snapshot in progress and answers whoever waits; nothing is taken afterwards.
    void stop();
    void ask();
    /// Asks and waits for the outcome: "ok GENERATION" or "error WHY".
    std::string ask_and_wait();

 private:
    void run();
    std::string take();

    Checkpointing& checkpoints_;
    const Millis every_;
    const std::string trigger_;
    const Millis trigger_patience_;
    std::mutex mutex_;  // guards all below
    std::condition_variable wake_;
    bool stopping_{false};
    std::int64_t asked_{0};     // tickets handed out
    std::int64_t answered_{0};  // tickets below this have their answer
    std::string answer_;
    std::thread thread_;
};

}  // namespace gf::agent
