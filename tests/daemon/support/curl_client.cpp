#include "tests/daemon/support/curl_client.hpp"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

namespace gf::test {
namespace {

struct Transfer {
    const Ask& request;
    Got got;
    std::size_t sent{0};
};

std::size_t on_body(char* data, std::size_t size, std::size_t count, void* to) {
    auto& transfer = *static_cast<Transfer*>(to);
    const std::string_view bytes(data, size * count);
    if (transfer.request.sink) return transfer.request.sink(bytes) ? bytes.size() : 0;
    transfer.got.body += bytes;
    return bytes.size();
}

std::size_t on_header(char* data, std::size_t size, std::size_t count, void* to) {
    auto& transfer = *static_cast<Transfer*>(to);
    std::string line(data, size * count);
    while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.pop_back();
    const auto colon = line.find(':');
    if (colon == std::string::npos) return size * count;
    auto name = line.substr(0, colon);
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    auto value = line.substr(colon + 1);
    value.erase(0, value.find_first_not_of(' '));
    transfer.got.headers[name] = value;
    return size * count;
}

std::size_t on_upload(char* data, std::size_t size, std::size_t count, void* from) {
    auto& transfer = *static_cast<Transfer*>(from);
    const auto& body = transfer.request.body;
    const auto piece = std::min(size * count, body.size() - transfer.sent);
    std::memcpy(data, body.data() + transfer.sent, piece);
    transfer.sent += piece;
    return piece;
}

std::string base64_of_hex(const std::string& hex) {
    static constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string bytes;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    std::string out;
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        std::uint32_t group = 0;
        for (std::size_t k = 0; k < 3; ++k)
            group = group << 8U | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
        for (std::size_t k = 0; k < 4; ++k)
            out += i + k <= bytes.size() ? digits[group >> (18 - 6 * k) & 63U] : '=';
    }
    return out;
}

}  // namespace

Got ask(const Ask& request) {
    static const auto started = curl_global_init(CURL_GLOBAL_ALL);
    (void)started;
    const std::unique_ptr<CURL, void (*)(CURL*)> handle(curl_easy_init(), curl_easy_cleanup);
    CURL* curl = handle.get();
    Transfer transfer{.request = request, .got = {}};
    curl_slist* headers = nullptr;
    for (const auto& header : request.headers) headers = curl_slist_append(headers, header.c_str());
    curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, request.timeout_s);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
    if (!request.unix_path.empty()) curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, request.unix_path.c_str());
    std::string pin;
    if (!request.pin.empty()) {
        // The key is what is trusted; the name and the signer of the certificate are not looked at.
        pin = "sha256//" + base64_of_hex(request.pin);
        curl_easy_setopt(curl, CURLOPT_PINNEDPUBLICKEY, pin.c_str());
        curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    if (request.method == "HEAD") {
        curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    } else if (request.method == "PUT" || request.chunked) {
        curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_upload);
        curl_easy_setopt(curl, CURLOPT_READDATA, &transfer);
        if (request.chunked) headers = curl_slist_append(headers, "Transfer-Encoding: chunked");
        else curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
        curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    } else if (request.method == "POST") {
        curl_easy_setopt(curl, CURLOPT_POST, 1L);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.data());
    } else if (request.method != "GET") {
        curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    }
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    const auto result = curl_easy_perform(curl);
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(headers);
    transfer.got.status = static_cast<int>(status);
    if (result != CURLE_OK) transfer.got.error = curl_easy_strerror(result);
    return std::move(transfer.got);
}

int connect_to(int port) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
    ::close(fd);
    return -1;
}

std::string raw(int port, std::string_view bytes, int seconds) {
    const int fd = connect_to(port);
    if (fd < 0) return {};
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    while (!bytes.empty()) {
        const auto wrote = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (wrote <= 0) break;
        bytes.remove_prefix(static_cast<std::size_t>(wrote));
    }
    std::string out;
    while (std::chrono::steady_clock::now() < until) {
        pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
        if (::poll(&ready, 1, 50) <= 0) continue;
        char buffer[4096];
        const auto got = ::recv(fd, buffer, sizeof buffer, 0);
        if (got <= 0) break;
        out.append(buffer, static_cast<std::size_t>(got));
    }
    ::close(fd);
    return out;
}

int open_descriptors() {
    int count = 0;
    DIR* folder = ::opendir("/proc/self/fd");
    while (folder != nullptr && ::readdir(folder) != nullptr) ++count;
    if (folder != nullptr) ::closedir(folder);
    return count - 3;  // ".", ".." and the folder itself
}

bool eventually(const std::function<bool()>& done, int seconds) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    while (std::chrono::steady_clock::now() < until) {
        if (done()) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return done();
}

}  // namespace gf::test
