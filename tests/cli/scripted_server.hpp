// A small HTTP server for tests of the command line: it does what the test's script says, also what no real
// server would. Listens on a free loopback port or on a unix socket; each connection has its own thread.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace gf::test {

struct Request {
    std::string method;
    std::string target;                          // as sent: path and query
    std::map<std::string, std::string> headers;  // names in lower case
    std::string body;
    [[nodiscard]] std::string path() const { return target.substr(0, target.find('?')); }
};

/// The server's end of one connection.
class Wire {
 public:
    explicit Wire(int fd) : fd_(fd) {}
    /// A whole answer with Content-Length.
    void reply(int status, std::string_view body, std::string_view type = "application/json",
               const std::vector<std::pair<std::string, std::string>>& headers = {});
    void raw(std::string_view bytes);
    void cut() { open_ = false; }
    /// Waits until the client closes or the server stops.
    void hang();
    [[nodiscard]] bool open() const { return open_; }
    std::atomic<bool>* stopping{nullptr};

 private:
    int fd_;
    bool open_{true};
};

class ScriptedServer {
 public:
    using Script = std::function<void(const Request&, Wire&)>;
    /// `socket_path` empty = loopback TCP. `head_only`: the script runs before the body is read, which then
    /// stays unread.
    explicit ScriptedServer(Script script, const std::string& socket_path = {}, bool head_only = false);
    ~ScriptedServer();
    ScriptedServer(const ScriptedServer&) = delete;
    ScriptedServer& operator=(const ScriptedServer&) = delete;

    [[nodiscard]] const std::string& url() const { return url_; }
    [[nodiscard]] std::vector<Request> seen() const;
    /// Those with this method whose path starts with `path`.
    [[nodiscard]] std::vector<Request> seen(std::string_view method, std::string_view path) const;

 private:
    void accept_all();
    void serve(int fd);
    Script script_;
    std::string url_;
    int listener_{-1};
    bool head_only_{false};
    std::atomic<bool> stopping_{false};
    mutable std::mutex mutex_;  // guards seen_ and workers_
    std::vector<Request> seen_;
    std::vector<std::thread> workers_;
    std::thread acceptor_;
};

/// A folder that goes away with this object.
class TemporaryFolder {
 public:
    TemporaryFolder();
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    [[nodiscard]] const std::string& path() const { return path_; }
    /// Writes a file below, making its folders; answers its whole path.
    std::string write(const std::string& name, std::string_view text) const;

 private:
    std::string path_;
};

[[nodiscard]] std::string read_file(const std::string& path);
[[nodiscard]] std::string sha256_hex(std::string_view bytes);

}  // namespace gf::test
