#include "agent/http_client.hpp"

#include <sys/stat.h>

#include <array>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/file_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/serializer.hpp>
#include <boost/beast/http/span_body.hpp>
#include <boost/beast/http/write.hpp>

#include "agent/network_stream.hpp"

namespace gf::agent {
namespace beast = boost::beast;
namespace http = beast::http;
namespace net = boost::asio;

struct HttpClient::Impl {
    Impl(Url u, HttpTrust t, Limits l) : url(std::move(u)), trust(std::move(t)), limits(l) {}

    Result<void> connect() {
        disconnect();
        if (url.tls && !context) context.emplace(make_tls_context(trust.pin));
        if (url.tls) {
            tls.emplace(io, *context);
            auto reached = connect_tcp(io, beast::get_lowest_layer(*tls), url, limits.connect);
            if (reached) reached = connect_tls(io, *tls, url, trust.pin, limits.connect);
            if (!reached) disconnect();
            return reached;
        }
        plain.emplace(io);
        auto reached = connect_tcp(io, *plain, url, limits.connect);
        if (!reached) disconnect();
        return reached;
    }
    void disconnect() {
        tls.reset();
        plain.reset();
        buffer.clear();
    }
    [[nodiscard]] bool connected() const { return tls.has_value() || plain.has_value(); }

    /// Each piece has the whole idle time: a long body on a slow link is fine, a stalled one is not.
    void allow_more() {
        if (tls) beast::get_lowest_layer(*tls).expires_after(limits.idle);
        else plain->expires_after(limits.idle);
    }

    template <class Operation>
    boost::system::error_code piece(Operation operation) {
        allow_more();
        return run_to_end(io, [&](auto done) {
            if (tls) operation(*tls, done);
            else operation(*plain, done);
        });
    }

    template <class Body>
    boost::system::error_code send(http::request<Body>& message, const std::function<bool()>& given_up) {
        http::request_serializer<Body> serializer(message);
        serializer.limit(256 * 1024);
        boost::system::error_code ec;
        while (!serializer.is_done() && !ec) {
            if (given_up && given_up()) return net::error::operation_aborted;
            ec = piece([&](auto& stream, auto done) { http::async_write_some(stream, serializer, done); });
        }
        return ec;
    }

    Url url;
    HttpTrust trust;
    Limits limits;
    net::io_context io{1};
    std::optional<net::ssl::context> context;
    std::optional<TlsStream> tls;
    std::optional<PlainStream> plain;
    beast::flat_buffer buffer;

    struct Failure {
        Error error;
        bool before_answer{false};
    };
    std::optional<Failure> write(const HttpRequest& request, const std::function<bool()>& given_up);
    std::optional<Failure> read(HttpResponse& response, const Sink& sink, const std::function<bool()>& given_up, bool head);
};

namespace {

template <class Message>
void fill(Message& message, const HttpRequest& request, const Url& url) {
    message.version(11);
    message.method_string(request.method);
    message.target(url.path + request.target);
    message.set(http::field::host, url.authority());
    message.set(http::field::user_agent, "gpuferry-agent");
    message.keep_alive(true);
    for (const auto& [name, value] : request.headers) message.set(name, value);
}

}  // namespace

std::optional<HttpClient::Impl::Failure> HttpClient::Impl::write(const HttpRequest& request,
                                                                 const std::function<bool()>& given_up) {
    boost::system::error_code ec;
    if (request.body_file.empty()) {
        http::request<http::span_body<const char>> message;
        fill(message, request, url);
        message.body() = beast::span<const char>(request.body.data(), request.body.size());
        if (!request.body.empty() || request.method != "GET") message.content_length(request.body.size());
        ec = send(message, given_up);
    } else {
        http::request<http::file_body> message;
        fill(message, request, url);
        boost::system::error_code opened;
        message.body().open(request.body_file.c_str(), beast::file_mode::scan, opened);
        if (opened)
            return Failure{{.kind = ErrorKind::io, .message = "read " + request.body_file + ": " + opened.message()}, false};
        message.content_length(message.body().size());
        ec = send(message, given_up);
    }
    if (!ec) return std::nullopt;
    if (ec == net::error::operation_aborted && given_up && given_up())
        return Failure{{.kind = ErrorKind::conflict, .message = "cancelled"}, false};
    return Failure{{.kind = ErrorKind::unavailable, .message = "send to " + url.authority() + ": " + ec.message()}, true};
}

std::optional<HttpClient::Impl::Failure> HttpClient::Impl::read(HttpResponse& response, const Sink& sink,
                                                                const std::function<bool()>& given_up, bool head) {
    http::response_parser<http::buffer_body> parser;
    parser.body_limit(boost::none);
    parser.header_limit(64 * 1024);
    if (head) parser.skip(true);
    const auto unavailable = [&](const boost::system::error_code& ec, bool before) {
        return Failure{{.kind = ErrorKind::unavailable, .message = "answer of " + url.authority() + ": " + ec.message()}, before};
    };
    auto ec = piece([&](auto& stream, auto done) { http::async_read_header(stream, buffer, parser, done); });
    if (ec) return unavailable(ec, true);
    response.status = static_cast<int>(parser.get().result_int());
    for (const auto& field : parser.get()) {
        std::string name(field.name_string());
        for (char& c : name)
            if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
        response.headers[name] = std::string(field.value());
    }
    const bool to_sink = sink && response.status >= 200 && response.status < 300;
    std::string bytes(128 * 1024, '\0');
    while (!parser.is_done()) {
        if (given_up && given_up()) return Failure{{.kind = ErrorKind::conflict, .message = "cancelled"}, false};
        parser.get().body().data = bytes.data();
        parser.get().body().size = bytes.size();
        ec = piece([&](auto& stream, auto done) { http::async_read_some(stream, buffer, parser, done); });
        if (ec == http::error::need_buffer) ec = {};
        if (ec) return unavailable(ec, false);
        const std::string_view got(bytes.data(), bytes.size() - parser.get().body().size);
        if (to_sink) {
            if (!sink(got)) return Failure{{.kind = ErrorKind::conflict, .message = "the receiver refused"}, false};
        } else {
            response.body += got;
            if (static_cast<std::int64_t>(response.body.size()) > limits.body_max)
                return Failure{{.kind = ErrorKind::full, .message = "answer of " + url.authority() + " is too long"}, false};
        }
    }
    if (!parser.get().keep_alive()) disconnect();
    return std::nullopt;
}

HttpClient::HttpClient(Url url, HttpTrust trust) : HttpClient(std::move(url), std::move(trust), Limits{}) {}
HttpClient::HttpClient(Url url, HttpTrust trust, Limits limits)
    : impl_(std::make_unique<Impl>(std::move(url), std::move(trust), limits)) {}
HttpClient::~HttpClient() = default;

Result<HttpResponse> HttpClient::call(const HttpRequest& request, const Sink& sink) {
    for (int attempt = 0;; ++attempt) {
        const bool reused = impl_->connected();
        if (!reused) {
            auto connected = impl_->connect();
            if (!connected) return fail(connected.error());
        }
        HttpResponse response;
        auto failure = impl_->write(request, cancelled);
        if (!failure) failure = impl_->read(response, sink, cancelled, request.method == "HEAD");
        // A server may answer (409, 413, 401) and close before it has read the whole body: then the write fails although
        // an answer is there, and it says more than the broken pipe does.
        else if (failure->before_answer && impl_->connected()) {
            HttpResponse early;
            if (!impl_->read(early, {}, cancelled, false)) {
                impl_->disconnect();
                return early;
            }
        }
        if (!failure) return response;
        impl_->disconnect();
        if (!(reused && failure->before_answer && attempt == 0)) return fail(std::move(failure->error));
    }
}

}  // namespace gf::agent
