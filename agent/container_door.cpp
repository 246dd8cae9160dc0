#include "agent/container_door.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

namespace gf::agent {
namespace {

bool address_of(const std::string& path, sockaddr_un& address) {
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return false;
    }
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    return true;
}

/// What the first process in the container is told: nothing of the engine, and no list of secrets to look for.
JobOrder for_inside(const JobOrder& order) {
    JobOrder inner = order;
    inner.client.clear();
    inner.client_env.clear();
    inner.remove.clear();
    inner.inspect.clear();
    inner.secrets.clear();
    return inner;
}

}  // namespace

bool ContainerDoor::open(const std::string& path) {
    sockaddr_un address{};
    if (!address_of(path, address)) return false;
    ::unlink(path.c_str());
    listener_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!listener_) return false;
    // Before anybody can connect: only the agent and root, which is what the first process in the container is.
    ::fchmod(listener_.get(), 0600);
    const bool listens = ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
                         ::chmod(path.c_str(), 0600) == 0 && ::listen(listener_.get(), 1) == 0;
    if (listens) path_ = path;
    return listens;
}

pollfd ContainerDoor::to_poll() const {
    if (!inside_.is_open()) return {.fd = listener_ ? listener_.get() : -1, .events = POLLIN, .revents = 0};
    return {.fd = inside_.fd(), .events = static_cast<short>(POLLIN | (inside_.has_output() ? POLLOUT : 0)), .revents = 0};
}

void ContainerDoor::serve(const JobOrder& order) {
    if (!inside_.is_open() && listener_) {
        Descriptor caller(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!caller) return;
        inside_ = FrameChannel(std::move(caller));
        was_inside_ = true;
        listener_.reset();  // one caller is all there is to be
        ::unlink(path_.c_str());
        inside_.send(frame_of(for_inside(order)));
        return;
    }
    if (inside_.is_open() && !(inside_.receive() && inside_.flush())) inside_.close();
}

void ContainerDoor::send(const Frame& frame) {
    if (inside_.is_open()) inside_.send(frame);
}

void ContainerDoor::close() {
    listener_.reset();
    if (!path_.empty()) ::unlink(path_.c_str());
    if (inside_.is_open()) inside_.close();
}

Descriptor knock_at(const std::string& path) {
    sockaddr_un address{};
    if (!address_of(path, address)) return {};
    Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket || ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return socket;
    socket.reset();
    return socket;
}

}  // namespace gf::agent
