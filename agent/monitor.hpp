// Samples the machine for heartbeats: one long-lived nvidia-smi for the GPUs, /proc for the rest.
#pragma once
#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "agent/system_figures.hpp"
#include "model/agent_protocol.hpp"

namespace gf::agent {

class Monitor {
 public:
    /// `gpus`: whether there is an nvidia-smi to follow.
    Monitor(std::string workspace, bool gpus);
    ~Monitor();
    /// How often nvidia-smi samples from its next start on; at least 1 s.
    void set_interval(Millis interval) { interval_ms_ = interval.count(); }
    /// From here on `memory_peak` of the samples counts anew: an attempt begins.
    void forget_peaks();
    /// GPU, CPU, memory, disk and network; the caller adds the attempt. CPU is the mean since the last call.
    [[nodiscard]] agent_protocol::Heartbeat sample();

 private:
    void follow_gpus();

    std::string workspace_;
    std::atomic<std::int64_t> interval_ms_{10'000};
    std::atomic<bool> stopping_{false};
    CpuTimes cpu_before_;
    NetFigures net_at_start_;
    std::mutex mutex_;  // guards gpus_ and gpus_at_
    std::vector<agent_protocol::GpuSample> gpus_;
    Millis gpus_at_{0};
    std::thread thread_;
};

}  // namespace gf::agent
