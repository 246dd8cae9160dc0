#include "agent/supervisor_link.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace gf::agent {

SupervisorLink::SupervisorLink(Descriptor channel, std::function<void(Frame)> on_frame, std::function<void()> on_lost)
    : channel_(std::move(channel)),
      on_frame_(std::move(on_frame)),
      on_lost_(std::move(on_lost)),
      stop_(::eventfd(0, EFD_CLOEXEC)),
      thread_([this] { read(); }) {}

SupervisorLink::~SupervisorLink() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto put = ::write(stop_.get(), &one, sizeof one);
    thread_.join();
}

void SupervisorLink::send(const Frame& frame) {
    const std::lock_guard lock(mutex_);
    channel_.send(frame);
    while (channel_.has_output()) {
        pollfd fd{.fd = channel_.fd(), .events = POLLOUT, .revents = 0};
        ::poll(&fd, 1, 1000);
        if (!channel_.flush()) return;  // it is gone; the reader notices too
    }
}

void SupervisorLink::read() {
    while (true) {
        pollfd fds[2] = {{.fd = channel_.fd(), .events = POLLIN, .revents = 0}, {.fd = stop_.get(), .events = POLLIN, .revents = 0}};
        ::poll(fds, 2, -1);
        if (fds[1].revents != 0) return;
        const bool alive = channel_.receive();
        while (auto frame = channel_.next()) on_frame_(*std::move(frame));
        if (!alive) return on_lost_();
    }
}

}  // namespace gf::agent
