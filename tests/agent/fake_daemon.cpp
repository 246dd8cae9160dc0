#include "fake_daemon.hpp"

#include <sys/socket.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <charconv>
#include <deque>
#include <list>
#include <thread>

#include "checkpoints/digest.hpp"
#include "checkpoints/manifest.hpp"

namespace gf::agent_test {
namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace ap = agent_protocol;
using tcp = net::ip::tcp;

namespace {

using Request = http::request<http::string_body>;
using Response = http::response<http::string_body>;

std::int64_t query_number(const std::string& target, const std::string& key, std::int64_t otherwise) {
    const auto at = target.find(key + "=");
    if (at == std::string::npos) return otherwise;
    std::int64_t value = otherwise;
    std::from_chars(target.data() + at + key.size() + 1, target.data() + target.size(), value);
    return value;
}

/// "/agent/log/att_1?offset=3" with prefix "/agent/log/" gives "att_1".
std::string part_after(const std::string& target, const std::string& prefix) {
    if (!target.starts_with(prefix)) return {};
    const auto rest = target.substr(prefix.size());
    return rest.substr(0, rest.find_first_of("?/"));
}

}  // namespace

struct FakeDaemon::Impl {
    struct Socket {
        explicit Socket(tcp::socket s) : ws(std::move(s)) {}
        beast::websocket::stream<tcp::socket> ws;
        std::deque<std::string> queue;
        beast::flat_buffer buffer;
        net::io_context* io{nullptr};
    };

    Impl() : acceptor(accept_io, tcp::endpoint(net::ip::make_address("127.0.0.1"), 0)) {
        port = acceptor.local_endpoint().port();
        accepting = std::thread([this] { accept(); });
    }
    ~Impl() {
        stopping = true;
        {
            // A connection to ourselves wakes the blocking accept.
            net::io_context io;
            tcp::socket waker(io);
            boost::system::error_code ignored;
            waker.connect(tcp::endpoint(net::ip::make_address("127.0.0.1"), port), ignored);
            accepting.join();
        }
        cut();
        for (auto& t : threads) t.join();
    }

    void accept() {
        while (!stopping) {
            auto io = std::make_shared<net::io_context>(1);
            tcp::socket socket(*io);
            boost::system::error_code ec;
            acceptor.accept(socket, ec);
            if (ec || stopping) return;
            if (is_away) continue;  // closed at once: nobody is there
            const std::lock_guard lock(mutex);
            threads.emplace_back([this, io, s = std::make_shared<tcp::socket>(std::move(socket))] { serve(*io, std::move(*s)); });
        }
    }

    void serve(net::io_context& io, tcp::socket socket) {
        const int fd = socket.native_handle();
        {
            const std::lock_guard lock(mutex);
            if (is_away || stopping) return;
            open_fds.insert(fd);
        }
        beast::flat_buffer buffer;
        boost::system::error_code ec;
        while (!ec) {
            http::request_parser<http::string_body> parser;
            parser.body_limit(boost::none);
            http::read(socket, buffer, parser, ec);
            if (ec) break;
            const Request request = parser.release();
            if (beast::websocket::is_upgrade(request)) {
                if (authorised(request)) {
                    converse(io, std::move(socket), request, fd);
                    return;
                }
                Response no(http::status::unauthorized, 11);
                no.prepare_payload();
                http::write(socket, no, ec);
                break;
            }
            Response response(http::status::ok, 11);
            if (!answer(request, response)) break;
            response.keep_alive(request.keep_alive());
            response.prepare_payload();
            http::write(socket, response, ec);
            if (!response.keep_alive()) break;
        }
        forget(fd);
    }

    void forget(int fd) {
        const std::lock_guard lock(mutex);
        open_fds.erase(fd);
    }

    bool authorised(const Request& request) {
        const std::lock_guard lock(mutex);
        return !state.refuse_sessions && request[http::field::authorization] == "Bearer " + session;
    }

    /// False = cut the connection instead of answering.
    bool answer(const Request& request, Response& response) {
        const std::string target(request.target());
        const std::string method(request.method_string());
        if (target == "/agent/enrol") return enrol(request, response);
        if (!target.starts_with("/agent/") || target.starts_with("/agent/bin/")) return answer_open(request, response);
        if (!authorised(request)) {
            response.result(http::status::unauthorized);
            return true;
        }
        std::unique_lock lock(mutex);
        bool reply = true;
        if (const auto hash = part_after(target, "/agent/blob/"); !hash.empty()) {
            serve_bytes(state.blobs, hash, request, response);
        } else if (const auto attempt = part_after(target, "/agent/log/"); !attempt.empty()) {
            reply = take_log(attempt, target, request.body(), response);
        } else if (const auto owner = part_after(target, "/agent/pack/"); !owner.empty()) {
            const std::string id = target.substr(std::string("/agent/pack/").size() + owner.size() + 1);
            if (state.fenced.contains(owner)) response.result(http::status::conflict);
            else if (method == "GET") serve_bytes(state.packs, id, request, response);
            else if (checkpoints::sha256(request.body()).hex() != id) response.result(http::status::unprocessable_entity);
            else response.result(state.packs.emplace(id, request.body()).second ? http::status::created : http::status::ok);
        } else if (const auto mine = part_after(target, "/agent/checkpoint/"); !mine.empty()) {
            checkpoint(mine, target, method, request.body(), response);
        } else if (const auto done = part_after(target, "/agent/output/"); !done.empty()) {
            if (take_manifest(done, request.body(), response)) state.outputs.push_back(request.body());
        } else {
            response.result(http::status::not_found);
        }
        lock.unlock();
        changed.notify_all();
        return reply;
    }

    /// What needs no session: the agent's binary, and calls that are meant for a provider.
    bool answer_open(const Request& request, Response& response) {
        const std::string target(request.target());
        {
            const std::lock_guard lock(mutex);
            if (const auto hash = part_after(target, "/agent/bin/"); !hash.empty()) {
                ++state.binary_requests;
                serve_bytes(state.binaries, hash, request, response);
            } else {
                state.others.push_back({std::string(request.method_string()), target,
                                        std::string(request[http::field::authorization]), request.body()});
                response.result(static_cast<unsigned>(state.other_status));
            }
        }
        changed.notify_all();
        return true;
    }

    bool enrol(const Request& request, Response& response) {
        const auto asked = ap::decode_enrol_request(request.body());
        const std::lock_guard lock(mutex);
        if (state.refuse_enrolments) {
            response.result(http::status::unauthorized);
            return true;
        }
        if (!asked || asked->enrol != "enrol-token") {
            response.result(http::status::forbidden);
            return true;
        }
        state.enrolments.push_back(*asked);
        state.refuse_sessions = false;
        session = "session-" + std::to_string(state.enrolments.size());
        response.body() = ap::encode(ap::EnrolAnswer{.protocol = 1, .session = session});
        changed.notify_all();
        return true;
    }

    static void serve_bytes(const std::map<std::string, std::string>& from, const std::string& key, const Request& request,
                            Response& response) {
        const auto found = from.find(key);
        if (found == from.end()) {
            response.result(http::status::not_found);
            return;
        }
        const auto& all = found->second;
        const std::string range(request[http::field::range]);
        std::size_t first = 0, last = all.size() - 1;
        if (range.starts_with("bytes=")) {
            const auto read = std::from_chars(range.data() + 6, range.data() + range.size(), first);
            if (read.ptr + 1 < range.data() + range.size()) std::from_chars(read.ptr + 1, range.data() + range.size(), last);
            if (first >= all.size()) {
                response.result(http::status::range_not_satisfiable);
                return;
            }
            last = std::min(last, all.size() - 1);
            response.result(http::status::partial_content);
        }
        response.body() = all.substr(first, last - first + 1);
    }

    bool take_log(const std::string& attempt, const std::string& target, const std::string& body, Response& response) {
        if (state.fenced.contains(attempt)) {
            response.result(http::status::conflict);
            return true;
        }
        auto& log = state.logs[attempt];
        const auto offset = query_number(target, "offset", 0);
        const auto skip = query_number(target, "skip", 0);
        if (offset <= log.offset) {
            if (skip > 0 && offset + skip > log.offset) {
                log.holes.emplace_back(log.offset, offset + skip - log.offset);
                log.offset = offset + skip;
            } else if (offset + static_cast<std::int64_t>(body.size()) > log.offset) {
                log.bytes += body.substr(static_cast<std::size_t>(log.offset - offset));
                log.offset = offset + static_cast<std::int64_t>(body.size());
            }
        }
        response.body() = "{\"acked\": " + std::to_string(log.offset) + "}";
        if (state.log_answers_lost == 0) return true;
        --state.log_answers_lost;
        return false;
    }

    /// Decoded, and every pack there.
    bool take_manifest(const std::string& attempt, const std::string& body, Response& response) {
        if (state.fenced.contains(attempt)) {
            response.result(http::status::conflict);
            return false;
        }
        const auto manifest = checkpoints::decode_manifest(body);
        bool whole = manifest.has_value();
        if (manifest)
            for (const auto& pack : manifest->packs) whole = whole && state.packs.contains(pack.id.hex());
        if (!whole) {
            response.result(http::status::unprocessable_entity);
            response.body() = manifest ? "a pack is missing" : manifest.error().message;
        }
        return whole;
    }

    void checkpoint(const std::string& attempt, const std::string& target, const std::string& method, const std::string& body,
                    Response& response) {
        if (target.ends_with("/broken")) {
            const auto at = body.find("\"generation\":");
            std::int64_t generation = 0;
            if (at != std::string::npos) std::from_chars(body.data() + at + 13, body.data() + body.size(), generation);
            state.broken.push_back(generation);
        } else if (method == "POST") {
            if (!take_manifest(attempt, body, response)) return;
            state.manifests.push_back(body);
            response.body() = "{\"generation\": " + std::to_string(state.manifests.size()) + "}";
        } else {
            const auto most = std::min<std::int64_t>(query_number(target, "at_most", 0), static_cast<std::int64_t>(state.manifests.size()));
            if (most < 1) {
                response.result(http::status::not_found);
                return;
            }
            response.set("Gpuferry-Generation", std::to_string(most));
            response.body() = state.manifests[static_cast<std::size_t>(most - 1)];
        }
    }

    void converse(net::io_context& io, tcp::socket from, const Request& request, int fd) {
        auto socket = std::make_shared<Socket>(std::move(from));
        socket->io = &io;
        boost::system::error_code ec;
        socket->ws.accept(request, ec);
        if (!ec) {
            {
                const std::lock_guard lock(mutex);
                current = socket;
                ++state.connections;
                if (state.welcome) queue_send(*socket, ap::encode(ap::ToAgent{state.welcome_message}));
            }
            changed.notify_all();
            read_next(*socket);
            io.run();
        }
        const std::lock_guard lock(mutex);
        if (current == socket) current.reset();
        open_fds.erase(fd);
    }

    void read_next(Socket& socket) {
        socket.ws.async_read(socket.buffer, [this, &socket](boost::system::error_code ec, std::size_t) {
            if (ec) return;
            const auto bytes = socket.buffer.cdata();
            auto message = ap::decode_from_agent({static_cast<const char*>(bytes.data()), bytes.size()});
            socket.buffer.consume(socket.buffer.size());
            if (message) take(socket, *std::move(message));
            read_next(socket);
        });
    }

    void take(Socket& socket, ap::FromAgent message) {
        {
            const std::lock_guard lock(mutex);
            if (const auto* hello = std::get_if<ap::Hello>(&message.body)) {
                state.hellos.push_back(*hello);
            } else if (const auto* beat = std::get_if<ap::Heartbeat>(&message.body)) {
                ++state.heartbeats;
                state.heartbeat = *beat;
            } else {
                const auto seq = message.seq;
                if (seen.insert({message.boot_id, seq}).second) state.messages.push_back(std::move(message));
                else ++state.repeats;
                if (state.acknowledge) queue_send(socket, ap::encode(ap::ToAgent{ap::Ack{.seq = seq}}));
            }
        }
        changed.notify_all();
    }

    /// With the mutex held.
    void queue_send(Socket& socket, std::string text) {
        net::post(*socket.io, [this, &socket, text = std::move(text)]() mutable {
            socket.queue.push_back(std::move(text));
            if (socket.queue.size() == 1) write_next(socket);
        });
    }
    void write_next(Socket& socket) {
        socket.ws.async_write(net::buffer(socket.queue.front()), [this, &socket](boost::system::error_code ec, std::size_t) {
            if (ec) return;
            socket.queue.pop_front();
            if (!socket.queue.empty()) write_next(socket);
        });
    }

    void cut() {
        const std::lock_guard lock(mutex);
        for (const int fd : open_fds) ::shutdown(fd, SHUT_RDWR);
    }

    net::io_context accept_io{1};
    tcp::acceptor acceptor;
    std::uint16_t port{0};
    std::thread accepting;
    std::atomic<bool> stopping{false};
    std::atomic<bool> is_away{false};
    std::mutex mutex;  // guards all below
    std::condition_variable changed;
    DaemonState state;
    std::string session{"none"};
    std::set<std::pair<std::string, std::int64_t>> seen;
    std::set<int> open_fds;
    std::shared_ptr<Socket> current;
    std::list<std::thread> threads;
};

FakeDaemon::FakeDaemon() : impl_(std::make_unique<Impl>()) {}
FakeDaemon::~FakeDaemon() = default;

std::string FakeDaemon::url() const { return "http://127.0.0.1:" + std::to_string(impl_->port); }

bool FakeDaemon::wait(const std::function<bool(const DaemonState&)>& done, int seconds) {
    std::unique_lock lock(impl_->mutex);
    return impl_->changed.wait_for(lock, std::chrono::seconds(seconds), [&] { return done(impl_->state); });
}

void FakeDaemon::with(const std::function<void(DaemonState&)>& use) {
    const std::lock_guard lock(impl_->mutex);
    use(impl_->state);
}

void FakeDaemon::send(const ap::ToAgent& message) {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->current) impl_->queue_send(*impl_->current, ap::encode(message));
}

void FakeDaemon::cut() { impl_->cut(); }
void FakeDaemon::away() {
    impl_->is_away = true;
    impl_->cut();
}
void FakeDaemon::back() { impl_->is_away = false; }

}  // namespace gf::agent_test
