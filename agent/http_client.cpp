#include "agent/http_client.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/serializer.hpp>
#include <boost/beast/http/write.hpp>
#include <cerrno>

#include "agent/descriptor.hpp"
#include "agent/network_stream.hpp"
#include "model/ascii.hpp"

namespace gf::agent {
namespace beast = boost::beast;
namespace http = beast::http;
namespace net = boost::asio;

struct HttpClient::Impl {
    Impl(Url u, HttpTrust t, Limits l) : url(std::move(u)), trust(std::move(t)), limits(l) {}

    Result<void> connect() {
        disconnect();
        if (!context) context.emplace(make_tls_context(url.tls, trust.pin));
        stream.emplace(io, *context, url.tls);
        auto reached = open_stream(io, *stream, url, trust.pin, limits.connect);
        if (!reached) disconnect();
        return reached;
    }
    void disconnect() {
        stream.reset();
        buffer.clear();
    }
    [[nodiscard]] bool connected() const { return stream.has_value(); }

    /// Each piece has the whole idle time: a long body on a slow link is fine, a stalled one is not.
    template <class Operation>
    boost::system::error_code piece(Operation operation) {
        stream->tcp().expires_after(limits.idle);
        return run_to_end(io, [&](auto done) { operation(done); });
    }

    Url url;
    HttpTrust trust;
    Limits limits;
    net::io_context io{1};
    std::optional<net::ssl::context> context;
    std::optional<NetworkStream> stream;
    beast::flat_buffer buffer;

    struct Failure {
        Error error;
        bool before_answer{false};
    };
    std::optional<Failure> write(const HttpRequest& request, const std::function<bool()>& given_up);
    std::optional<Failure> read(HttpResponse& response, const Sink& sink, const std::function<bool()>& given_up, bool head);
};

namespace {

constexpr std::size_t kPieceBytes = 128 * 1024;

/// The body of a request, piece by piece, from memory or from a file.
class BodySource {
 public:
    explicit BodySource(const HttpRequest& request) : memory_(request.body) {
        if (request.body_file.empty()) {
            size_ = static_cast<std::int64_t>(memory_.size());
            return;
        }
        from_file_ = true;
        file_.reset(::open(request.body_file.c_str(), O_RDONLY | O_CLOEXEC));
        struct stat st{};
        good_ = file_ && ::fstat(file_.get(), &st) == 0;
        size_ = st.st_size;
    }
    [[nodiscard]] bool good() const { return good_; }
    [[nodiscard]] std::int64_t size() const { return size_; }
    /// The next piece; empty at the end, or when the file has become shorter.
    std::string_view next() {
        if (!from_file_) {
            const auto piece = memory_.substr(0, kPieceBytes);
            memory_.remove_prefix(piece.size());
            return piece;
        }
        buffer_.resize(kPieceBytes);
        ssize_t got = 0;
        do got = ::read(file_.get(), buffer_.data(), buffer_.size());
        while (got < 0 && errno == EINTR);
        return {buffer_.data(), static_cast<std::size_t>(std::max<ssize_t>(0, got))};
    }

 private:
    std::string_view memory_;
    Descriptor file_;
    std::string buffer_;
    std::int64_t size_{0};
    bool from_file_{false};
    bool good_{true};
};

}  // namespace

std::optional<HttpClient::Impl::Failure> HttpClient::Impl::write(const HttpRequest& request,
                                                                 const std::function<bool()>& given_up) {
    BodySource source(request);
    if (!source.good()) return Failure{{.kind = ErrorKind::io, .message = "read " + request.body_file + ": it cannot be opened"}, false};
    http::request<http::buffer_body> message;
    message.version(11);
    message.method_string(request.method);
    message.target(url.path + request.target);
    message.set(http::field::host, url.authority());
    message.set(http::field::user_agent, "gpuferry-agent");
    message.keep_alive(true);
    for (const auto& [name, value] : request.headers) message.set(name, value);
    if (source.size() > 0 || request.method != "GET") message.content_length(static_cast<std::uint64_t>(source.size()));
    http::request_serializer<http::buffer_body> serializer(message);
    std::int64_t sent = 0;
    auto& body = message.body();
    body.data = nullptr;
    body.size = 0;
    body.more = source.size() > 0;
    while (!serializer.is_done()) {
        if (given_up && given_up()) return Failure{{.kind = ErrorKind::conflict, .message = "cancelled"}, false};
        auto ec = piece([&](auto done) { http::async_write_some(*stream, serializer, done); });
        if (ec == http::error::need_buffer) {
            const auto next = source.next();
            if (next.empty()) return Failure{{.kind = ErrorKind::io, .message = "read " + request.body_file + ": it became shorter"}, false};
            sent += static_cast<std::int64_t>(next.size());
            body.data = const_cast<char*>(next.data());
            body.size = next.size();
            body.more = sent < source.size();
            ec = {};
        }
        if (ec) return Failure{{.kind = ErrorKind::unavailable, .message = "send to " + url.authority() + ": " + ec.message()}, true};
    }
    return std::nullopt;
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
    auto ec = piece([&](auto done) { http::async_read_header(*stream, buffer, parser, done); });
    if (ec) return unavailable(ec, true);
    response.status = static_cast<int>(parser.get().result_int());
    for (const auto& field : parser.get()) {
        response.headers[ascii_lower(std::string_view(field.name_string()))] = std::string(field.value());
    }
    const bool to_sink = sink && response.status >= 200 && response.status < 300;
    std::string bytes(kPieceBytes, '\0');
    while (!parser.is_done()) {
        if (given_up && given_up()) return Failure{{.kind = ErrorKind::conflict, .message = "cancelled"}, false};
        parser.get().body().data = bytes.data();
        parser.get().body().size = bytes.size();
        ec = piece([&](auto done) { http::async_read_some(*stream, buffer, parser, done); });
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
