#include "simulator/http_server.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cctype>
#include <list>
#include <mutex>
#include <thread>

namespace gf::sim {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;

struct Connection {
    explicit Connection(asio::io_context& io) : socket(io) {}
    tcp::socket socket;
    std::thread thread;
    bool done{false};
};

class Server final : public HttpServer {
 public:
    Server(HttpHandler handler, std::size_t body_max)
        : handler_(std::move(handler)), body_max_(body_max), acceptor_(io_) {}

    ~Server() override {
        {
            const std::scoped_lock lock(mutex_);
            closing_ = true;
            ::shutdown(acceptor_.native_handle(), SHUT_RDWR);
            for (auto& connection : connections_) ::shutdown(connection.socket.native_handle(), SHUT_RDWR);
        }
        if (thread_.joinable()) thread_.join();
        for (auto& connection : connections_) connection.thread.join();
    }

    void open(const std::string& address, std::uint16_t port) {
        const tcp::endpoint where(asio::ip::make_address(address), port);
        acceptor_.open(where.protocol());
        acceptor_.set_option(asio::socket_base::reuse_address(true));
        acceptor_.bind(where);
        acceptor_.listen();
        port_ = acceptor_.local_endpoint().port();
        thread_ = std::thread([this] { accept_all(); });
    }

    [[nodiscard]] std::uint16_t port() const override { return port_; }

 private:
    void accept_all() {
        for (;;) {
            tcp::socket socket(io_);
            boost::system::error_code error;
            acceptor_.accept(socket, error);
            const std::scoped_lock lock(mutex_);
            if (closing_) return;
            if (error) continue;
            drop_finished();
            auto& connection = connections_.emplace_back(io_);
            connection.socket = std::move(socket);
            connection.thread = std::thread([this, &connection] {
                serve(connection.socket);
                const std::scoped_lock held(mutex_);
                boost::system::error_code ignored;
                connection.socket.shutdown(tcp::socket::shutdown_both, ignored);
                // The descriptor stays open until the thread is joined, so that closing cannot hit another's
                // number.
                connection.done = true;
            });
        }
    }

    void drop_finished() {
        for (auto it = connections_.begin(); it != connections_.end();) {
            if (it->done) {
                it->thread.join();
                it = connections_.erase(it);
            } else {
                ++it;
            }
        }
    }

    void serve(tcp::socket& socket) {
        boost::system::error_code error;
        socket.set_option(tcp::no_delay(true), error);
        const auto peer = socket.remote_endpoint(error).address().to_string();
        beast::flat_buffer buffer;
        for (;;) {
            http::request_parser<http::string_body> parser;
            parser.header_limit(64 * 1024);
            parser.body_limit(boost::none);
            http::read_header(socket, buffer, parser, error);
            if (error) return;
            if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
                http::response<http::empty_body> go_on(http::status::continue_, 11);
                http::write(socket, go_on, error);
                if (error) return;
            }
            HttpRequest request;
            if (!read_body(socket, buffer, parser, request)) return;
            fill(request, parser.get());
            request.peer = peer;
            const bool keep = parser.get().keep_alive();
            if (!answer(socket, request, keep) || !keep) return;
        }
    }

    /// Reads on without keeping once the limit is passed, so that the client gets its answer and not a reset.
    bool read_body(tcp::socket& socket, beast::flat_buffer& buffer,
                   http::request_parser<http::string_body>& parser, HttpRequest& request) {
        boost::system::error_code error;
        while (!parser.is_done()) {
            http::read_some(socket, buffer, parser, error);
            if (error) return false;
            if (parser.get().body().size() > body_max_) {
                request.too_large = true;
                parser.get().body().clear();
            }
        }
        return true;
    }

    static void fill(HttpRequest& request, const http::request<http::string_body>& message) {
        request.method = std::string{message.method_string()};
        request.target = std::string{message.target()};
        for (const auto& field : message) {
            std::string name{field.name_string()};
            std::ranges::transform(name, name.begin(),
                                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
            request.headers[name] = std::string{field.value()};
        }
        if (!request.too_large) request.body = message.body();
        parse_target(request);
    }

    bool answer(tcp::socket& socket, const HttpRequest& request, bool keep) {
        const auto reply = handler_(request);
        if (reply.cut) return false;
        http::response<http::string_body> message;
        message.version(11);
        message.result(static_cast<unsigned>(reply.status));
        message.reason(std::string{reason_phrase(reply.status)});
        if (!reply.type.empty() && reply.status != 204) message.set(http::field::content_type, reply.type);
        for (const auto& [name, value] : reply.headers) message.set(name, value);
        message.keep_alive(keep);
        if (reply.status != 204) {
            message.body() = reply.body;
            message.prepare_payload();
        }
        boost::system::error_code error;
        if (request.method == "HEAD") {
            http::response_serializer<http::string_body> serializer(message);
            http::write_header(socket, serializer, error);
        } else {
            http::write(socket, message, error);
        }
        return !error;
    }

    HttpHandler handler_;
    std::size_t body_max_;
    asio::io_context io_;
    tcp::acceptor acceptor_;
    std::uint16_t port_{0};
    std::thread thread_;
    std::mutex mutex_;  // guards connections_ and closing_
    std::list<Connection> connections_;
    bool closing_{false};
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const std::string& address, std::uint16_t port,
                                                       HttpHandler handler, std::size_t body_max) {
    auto server = std::make_unique<Server>(std::move(handler), body_max);
    try {
        server->open(address, port);
    } catch (const std::exception& e) {
        return fail(ErrorKind::io,
                    "cannot listen on " + address + ":" + std::to_string(port) + ": " + e.what());
    }
    return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace gf::sim
