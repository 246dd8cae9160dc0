#include "tests/cli/scripted_server.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/sha.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace gf::test {
namespace {

constexpr int kWaitMs = 20;

bool readable(int fd, const std::atomic<bool>& stopping) {
    while (!stopping) {
        pollfd p{.fd = fd, .events = POLLIN, .revents = 0};
        if (poll(&p, 1, kWaitMs) > 0) return true;
    }
    return false;
}

std::string lower(std::string text) {
    for (char& c : text)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    return text;
}

}  // namespace

void Wire::raw(std::string_view bytes) {
    while (open_ && !bytes.empty()) {
        const auto sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent <= 0)
            open_ = false;
        else
            bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
}

void Wire::reply(int status, std::string_view body, std::string_view type,
                 const std::vector<std::pair<std::string, std::string>>& headers) {
    std::ostringstream head;
    head << "HTTP/1.1 " << status << " X\r\nContent-Type: " << type << "\r\nContent-Length: " << body.size()
         << "\r\n";
    for (const auto& [name, value] : headers) head << name << ": " << value << "\r\n";
    head << "\r\n" << body;  // in one write: two would wait for each other's acknowledgement
    raw(head.str());
}

void Wire::hang() {
    std::array<char, 256> ignored{};
    while (readable(fd_, *stopping))
        if (recv(fd_, ignored.data(), ignored.size(), 0) <= 0) break;
    open_ = false;
}

ScriptedServer::ScriptedServer(Script script, const std::string& socket_path, bool head_only)
    : script_(std::move(script)), head_only_(head_only) {
    if (socket_path.empty()) {
        listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0)
            throw std::runtime_error("bind");
        getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
        url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    } else {
        listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strncpy(address.sun_path, socket_path.c_str(), sizeof address.sun_path - 1);
        if (bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
            throw std::runtime_error("bind");
        url_ = "unix:" + socket_path;
    }
    if (listen(listener_, 64) != 0) throw std::runtime_error("listen");
    acceptor_ = std::thread([this] { accept_all(); });
}

ScriptedServer::~ScriptedServer() {
    stopping_ = true;
    acceptor_.join();
    for (auto& worker : workers_) worker.join();
    close(listener_);
}

void ScriptedServer::accept_all() {
    while (readable(listener_, stopping_)) {
        const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        if (fd < 0) continue;
        const std::lock_guard lock(mutex_);
        workers_.emplace_back([this, fd] { serve(fd); });
    }
}

void ScriptedServer::serve(int fd) {
    Wire wire(fd);
    wire.stopping = &stopping_;
    std::string buffer;
    std::array<char, 65536> piece{};
    const auto more = [&] {
        if (!readable(fd, stopping_)) return false;
        const auto got = recv(fd, piece.data(), piece.size(), 0);
        if (got <= 0) return false;
        buffer.append(piece.data(), static_cast<std::size_t>(got));
        return true;
    };
    while (wire.open()) {
        std::size_t end = 0;
        bool alive = true;
        while (alive && (end = buffer.find("\r\n\r\n")) == std::string::npos) alive = more();
        if (!alive) break;
        Request request;
        std::istringstream head(buffer.substr(0, end));
        buffer.erase(0, end + 4);
        std::string line;
        std::getline(head, line);
        std::istringstream first(line);
        first >> request.method >> request.target;
        while (std::getline(head, line)) {
            if (line.ends_with('\r')) line.pop_back();
            const auto colon = line.find(':');
            auto value = line.substr(colon + 1);
            while (value.starts_with(' ')) value.erase(0, 1);
            request.headers[lower(line.substr(0, colon))] = value;
        }
        const auto length =
            request.headers.contains("content-length") ? std::stoul(request.headers["content-length"]) : 0;
        while (alive && !head_only_ && buffer.size() < length) alive = more();
        if (!alive) break;
        request.body = buffer.substr(0, length);
        buffer.erase(0, length);
        {
            const std::lock_guard lock(mutex_);
            seen_.push_back(request);
        }
        script_(request, wire);
    }
    shutdown(fd, SHUT_RDWR);
    close(fd);
}

std::vector<Request> ScriptedServer::seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
}

std::vector<Request> ScriptedServer::seen(std::string_view method, std::string_view path) const {
    std::vector<Request> found;
    for (auto& request : seen())
        if (request.method == method && request.path().starts_with(path)) found.push_back(request);
    return found;
}

TemporaryFolder::TemporaryFolder() {
    std::string path = (std::filesystem::temp_directory_path() / "gpuferry-cli-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = path;
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::write(const std::string& name, std::string_view text) const {
    const auto path = std::filesystem::path(path_) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
    return path.string();
}

std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

std::string sha256_hex(std::string_view bytes) {
    std::array<unsigned char, SHA256_DIGEST_LENGTH> sum{};
    SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), sum.data());
    std::string hex;
    for (const unsigned char byte : sum) {
        constexpr std::string_view digits = "0123456789abcdef";
        hex += digits[byte >> 4];
        hex += digits[byte & 15U];
    }
    return hex;
}

}  // namespace gf::test
