#include "scripted_server.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <stdexcept>

namespace gf::test {
namespace {

constexpr std::size_t kRequestMax = 4U << 20U;

bool send_all(int socket, std::string_view data) {
    while (!data.empty()) {
        const auto n = ::send(socket, data.data(), data.size(), MSG_NOSIGNAL);
        if (n <= 0) return false;
        data.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
}

/// One request from the socket; false when the peer closed or sent something unreadable.
bool read_request(int socket, std::string& buffer, Received& out) {
    std::array<char, 8192> chunk{};
    std::size_t head_end = 0;
    while ((head_end = buffer.find("\r\n\r\n")) == std::string::npos) {
        const auto n = ::recv(socket, chunk.data(), chunk.size(), 0);
        if (n <= 0 || buffer.size() > kRequestMax) return false;
        buffer.append(chunk.data(), static_cast<std::size_t>(n));
    }
    const auto head = buffer.substr(0, head_end);
    const auto line_end = std::min(head.find("\r\n"), head.size());
    const auto line = head.substr(0, line_end);
    const auto first = line.find(' ');
    const auto second = line.find(' ', first + 1);
    if (first == std::string::npos || second == std::string::npos) return false;
    out.method = line.substr(0, first);
    out.target = line.substr(first + 1, second - first - 1);
    for (std::size_t at = line_end + 2; at < head.size();) {
        const auto end = std::min(head.find("\r\n", at), head.size());
        const auto colon = head.find(':', at);
        if (colon < end) {
            auto name = head.substr(at, colon - at);
            std::ranges::transform(name, name.begin(), [](char c) {
                return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
            });
            auto value = head.substr(colon + 1, end - colon - 1);
            while (value.starts_with(' ')) value.erase(0, 1);
            out.headers.push_back({.name = std::move(name), .value = std::move(value)});
        }
        at = end + 2;
    }
    std::size_t length = 0;
    const auto stated = out.header("content-length");
    std::from_chars(stated.data(), stated.data() + stated.size(), length);
    buffer.erase(0, head_end + 4);
    while (buffer.size() < length) {
        const auto n = ::recv(socket, chunk.data(), chunk.size(), 0);
        if (n <= 0 || buffer.size() > kRequestMax) return false;
        buffer.append(chunk.data(), static_cast<std::size_t>(n));
    }
    out.body = buffer.substr(0, length);
    buffer.erase(0, length);
    return true;
}

}  // namespace

std::string Received::header(std::string_view name) const {
    for (const auto& h : headers)
        if (h.name == name) return h.value;
    return {};
}

ScriptedServer::ScriptedServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (listener_ < 0 || ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(listener_, 64) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
        throw std::runtime_error("no loopback socket for the scripted server");
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_loop(); });
}

ScriptedServer::~ScriptedServer() {
    go_away();
    std::vector<std::thread> threads;
    {
        const std::lock_guard lock(mutex_);
        for (const int s : sockets_) ::shutdown(s, SHUT_RDWR);
        threads.swap(threads_);
    }
    wake_.notify_all();
    for (auto& t : threads) t.join();
}

void ScriptedServer::go_away() {
    if (stopping_.exchange(true)) return;
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    ::close(listener_);
    const std::lock_guard lock(mutex_);
    for (const int s : sockets_) ::shutdown(s, SHUT_RDWR);
}

std::string ScriptedServer::url() const {
    return "http://127.0.0.1:" + std::to_string(port_);
}

std::vector<Received> ScriptedServer::received() const {
    const std::lock_guard lock(mutex_);
    return received_;
}

int ScriptedServer::count(std::string_view method, std::string_view path) const {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(std::ranges::count_if(
        received_, [&](const Received& r) { return r.method == method && r.target.starts_with(path); }));
}

void ScriptedServer::handler(Handler handler) {
    const std::lock_guard lock(handling_);
    handler_ = std::move(handler);
}

void ScriptedServer::accept_loop() {
    for (int number = 1; !stopping_; ++number) {
        const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        if (socket < 0) break;
        const std::lock_guard lock(mutex_);
        sockets_.insert(socket);
        threads_.emplace_back([this, socket, number] { serve(socket, number); });
    }
}

void ScriptedServer::serve(int socket, int number) {
    std::string buffer;
    for (bool going_on = true; going_on && !stopping_;) {
        Received request;
        request.connection = number;
        if (!read_request(socket, buffer, request)) break;
        {
            const std::lock_guard lock(mutex_);
            received_.push_back(request);
        }
        Answer answer;
        {
            const std::lock_guard lock(handling_);
            answer = handler_(request);
        }
        if (answer.delay > Millis{0}) {
            std::unique_lock lock(mutex_);
            wake_.wait_for(lock, answer.delay, [this] { return stopping_.load(); });
        }
        if (answer.delivery == Delivery::nothing) break;
        std::string head = "HTTP/1.1 " + std::to_string(answer.status) + " Scripted\r\n";
        if (answer.delivery == Delivery::cut_headers) {
            send_all(socket, std::string_view(head).substr(0, 14));
            break;
        }
        for (const auto& h : answer.headers) head += h.name + ": " + h.value + "\r\n";
        if (answer.status != 204)
            head += "Content-Type: " + answer.content_type +
                    "\r\nContent-Length: " + std::to_string(answer.body.size()) + "\r\n";
        head += "\r\n";
        const auto body = answer.status == 204 ? std::string_view() : std::string_view(answer.body);
        const bool cut = answer.delivery == Delivery::cut_body;
        head += body.substr(0, cut ? body.size() / 2
                                   : body.size());  // one write: two would wait for a delayed acknowledgement
        going_on = send_all(socket, head) && !cut && !answer.close;
    }
    ::shutdown(socket, SHUT_RDWR);
    const std::lock_guard lock(mutex_);
    sockets_.erase(socket);
    ::close(socket);
}

}  // namespace gf::test
