// The worker's end of its line to the supervisor. One thread reads; `send` may come from any.
#pragma once
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "agent/frame.hpp"

namespace gf::agent {

class SupervisorLink {
 public:
    SupervisorLink(Descriptor channel, std::function<void(Frame)> on_frame, std::function<void()> on_lost);
    ~SupervisorLink();
    void send(const Frame& frame);
    /// The supervisor remembers it over a crash of this worker. An empty value forgets the key.
    void keep(const std::string& key, const std::string& value) { send({.type = FrameType::keep, .fields = {key, value}}); }

 private:
    void read();
    FrameChannel channel_;
    std::function<void(Frame)> on_frame_;
    std::function<void()> on_lost_;
    Descriptor stop_;
    std::mutex mutex_;  // guards the writing side of channel_
    std::thread thread_;
};

}  // namespace gf::agent
