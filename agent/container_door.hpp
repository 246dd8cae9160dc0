// The keeper's line into a container: a unix socket in a folder that the container sees too. The first process there
// (contained.hpp) calls in, is handed the job with its environment and secrets, and reports. While the line is up the container
// lives, and the container ends when it is cut: no docker is needed to end a job, and none can be too late with it.
// Single-threaded, never blocks.
#pragma once
#include <poll.h>

#include <string>

#include "agent/frame.hpp"
#include "agent/job_order.hpp"

namespace gf::agent {

class ContainerDoor {
 public:
    /// Listens; false with errno set.
    bool open(const std::string& path);
    [[nodiscard]] pollfd to_poll() const;
    /// Lets the first process in and hands it `order`; reads what it says.
    void serve(const JobOrder& order);
    std::optional<Frame> next() { return inside_.next(); }
    void send(const Frame& frame);
    /// Nobody gets in any more, and who is in hears that the line is cut.
    void close();

    [[nodiscard]] bool is_inside() const { return inside_.is_open(); }
    /// Was there, and is gone.
    [[nodiscard]] bool is_gone() const { return was_inside_ && !inside_.is_open(); }

 private:
    std::string path_;
    Descriptor listener_;
    FrameChannel inside_;
    bool was_inside_{false};
};

/// The other end: connects, or -1 with errno.
[[nodiscard]] Descriptor knock_at(const std::string& path);

}  // namespace gf::agent
