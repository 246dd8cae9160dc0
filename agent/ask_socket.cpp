#include "agent/ask_socket.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "agent/log.hpp"

namespace gf::agent {
namespace {

constexpr int kConnectTries = 100;
constexpr int kConnectPauseMs = 100;

bool address_of(const std::string& path, sockaddr_un& address) {
    address = {};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) return false;
    std::memcpy(address.sun_path, path.data(), path.size());
    return true;
}

std::string read_line(int fd, int stop, int limit_ms) {
    std::string line;
    char c = 0;
    while (line.size() < 256) {
        pollfd fds[2] = {{.fd = fd, .events = POLLIN, .revents = 0}, {.fd = stop, .events = POLLIN, .revents = 0}};
        if (::poll(fds, 2, limit_ms) <= 0 || fds[1].revents != 0) return {};
        if (::recv(fd, &c, 1, 0) != 1) return {};
        if (c == '\n') return line;
        line.push_back(c);
    }
    return {};
}

}  // namespace

AskSocket::AskSocket(const std::string& path, unsigned uid, unsigned gid, std::function<std::string()> answer)
    : path_(path), stop_(::eventfd(0, EFD_CLOEXEC)), answer_(std::move(answer)) {
    sockaddr_un address{};
    listener_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ::unlink(path.c_str());
    if (!address_of(path, address) || ::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listener_.get(), 8) != 0) {
        log("warn", "the socket for `gpuferry-agent checkpoint` cannot be made: " + path);
        listener_.reset();
        return;
    }
    ::chmod(path.c_str(), 0600);
    if (::chown(path.c_str(), uid, gid) != 0) log("warn", "the job's user will not reach " + path);
    thread_ = std::thread([this] { serve(); });
}

AskSocket::~AskSocket() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto put = ::write(stop_.get(), &one, sizeof one);
    if (thread_.joinable()) thread_.join();
    ::unlink(path_.c_str());
}

void AskSocket::serve() {
    while (true) {
        pollfd fds[2] = {{.fd = listener_.get(), .events = POLLIN, .revents = 0}, {.fd = stop_.get(), .events = POLLIN, .revents = 0}};
        ::poll(fds, 2, -1);
        if (fds[1].revents != 0) return;
        const Descriptor caller(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!caller) continue;
        const std::string line = read_line(caller.get(), stop_.get(), 5000);
        const std::string answer = (line == "checkpoint" ? answer_() : "error unknown request") + "\n";
        [[maybe_unused]] const auto sent = ::send(caller.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
    }
}

int ask_for_checkpoint(const std::string& socket_path) {
    const auto failed = [](const char* what) {
        std::fprintf(stderr, "gpuferry-agent checkpoint: %s: %s\n", what, std::strerror(errno));
        return 1;
    };
    sockaddr_un address{};
    if (!address_of(socket_path, address)) {
        std::fprintf(stderr, "gpuferry-agent checkpoint: the socket's path is too long\n");
        return 1;
    }
    Descriptor socket;
    for (int tries = 0;; ++tries) {
        socket.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (!socket) return failed("socket");
        if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) break;
        // The job may ask in its first moment, or while the agent's worker is being started again.
        if (tries == kConnectTries || (errno != ENOENT && errno != ECONNREFUSED)) return failed("connect to the agent");
        ::poll(nullptr, 0, kConnectPauseMs);
    }
    constexpr std::string_view request = "checkpoint\n";
    if (::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size()))
        return failed("send");
    std::string answer;
    char buffer[512];
    while (true) {
        const auto got = ::recv(socket.get(), buffer, sizeof buffer, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        answer.append(buffer, static_cast<std::size_t>(got));
    }
    std::fputs(answer.empty() ? "error the agent went away\n" : answer.c_str(), stdout);
    return answer.starts_with("ok") ? 0 : 1;
}

}  // namespace gf::agent
