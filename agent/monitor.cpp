#include "agent/monitor.hpp"

#include <algorithm>

#include "agent/clock.hpp"
#include "agent/command.hpp"
#include "agent/nvidia_smi.hpp"

namespace gf::agent {
namespace {

// A driver that hangs makes nvidia-smi silent, not dead; figures older than this are shown as unknown.
constexpr Millis kStale{90'000};
constexpr Millis kRestart{30'000};

}  // namespace

Monitor::Monitor(std::string workspace, bool gpus)
    : workspace_(std::move(workspace)), cpu_before_(cpu_times()), net_at_start_(net_figures()) {
    if (gpus) thread_ = std::thread([this] { follow_gpus(); });
}

Monitor::~Monitor() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
}

agent_protocol::Heartbeat Monitor::sample() {
    agent_protocol::Heartbeat beat;
    const auto cpu = cpu_times();
    if (cpu.all > cpu_before_.all)
        beat.cpu_percent = 100.0 * static_cast<double>(cpu.busy - cpu_before_.busy) / static_cast<double>(cpu.all - cpu_before_.all);
    beat.cpu_percent = std::clamp(beat.cpu_percent, 0.0, 100.0);
    cpu_before_ = cpu;
    beat.memory_used = memory_used();
    beat.disk_free = disk_figures(workspace_).free;
    const auto net = net_figures();
    beat.net_rx = std::max<std::int64_t>(0, net.rx - net_at_start_.rx);
    beat.net_tx = std::max<std::int64_t>(0, net.tx - net_at_start_.tx);
    const std::lock_guard lock(mutex_);
    beat.gpus = gpus_;
    // A peak that was seen stays one.
    if (boot_time() - gpus_at_ > kStale)
        for (auto& gpu : beat.gpus) gpu = agent_protocol::GpuSample{.memory_peak = gpu.memory_peak};
    return beat;
}

void Monitor::forget_peaks() {
    const std::lock_guard lock(mutex_);
    for (auto& gpu : gpus_) gpu.memory_peak = -1;
}

void Monitor::follow_gpus() {
    while (!stopping_) {
        const auto seconds = std::max<std::int64_t>(1, interval_ms_ / 1000);
        RunningCommand smi("nvidia-smi", {"--query-gpu=index,utilization.gpu,memory.used,temperature.gpu",
                                          "--format=csv,noheader,nounits", "-l", std::to_string(seconds)});
        std::string piece, line;
        while (smi.started() && !stopping_ && smi.read(piece, Millis{200})) {
            for (const char c : piece) {
                if (c != '\n') {
                    if (line.size() < 4096) line.push_back(c);
                    continue;
                }
                if (const auto sample = parse_gpu_sample(line)) {
                    const std::lock_guard lock(mutex_);
                    const auto index = static_cast<std::size_t>(sample->index);
                    if (gpus_.size() <= index) gpus_.resize(index + 1);
                    const auto peak = std::max(gpus_[index].memory_peak, sample->sample.memory_used);
                    gpus_[index] = sample->sample;
                    gpus_[index].memory_peak = peak;
                    gpus_at_ = boot_time();
                }
                line.clear();
            }
        }
        // It has ended (a driver reload, an ECC event); a short-lived one must not be started in a tight loop.
        const Millis again = boot_time() + kRestart;
        while (!stopping_ && boot_time() < again) std::this_thread::sleep_for(Millis{100});
    }
}

}  // namespace gf::agent
