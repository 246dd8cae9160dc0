// The conversation on one connection, over a plain or a TLS stream: read a head, ask the service what to do with the body,
// read it, wait for the answer, write it, and again. A template because Asio's streams are types; included by two files.
//
// Deadlines: the listener's sweeper ends a connection whose `deadline_` has passed, so that no operation needs a timer of
// its own. Each step that waits for the other end sets it anew. While the service thinks there is none: it always answers.
#pragma once
#include <poll.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/version.hpp>
#include <fmt/core.h>

#include <algorithm>
#include <cstdint>

#include "daemon/http/listener_impl.hpp"
#include "daemon/http/problem.hpp"
#include "daemon/http/websocket_session.hpp"

namespace gf::http {

namespace beast = boost::beast;
namespace wire = boost::beast::http;

constexpr std::size_t kBodyPiece = 256 * 1024;
constexpr std::int64_t kLingerMax = 4LL << 20;     // bytes of a refused body that are read to let the answer arrive
constexpr Millis kLingerTime{Seconds{2}};

template <class Stream>
class Connection final : public ConnectionBase, public std::enable_shared_from_this<Connection<Stream>> {
 public:
    template <class... Args>
    Connection(std::shared_ptr<Listener::Impl> listener, Peer peer, std::string first_bytes, Args&&... args)
        : listener_(std::move(listener)),
          peer_(std::move(peer)),
          stream_(std::forward<Args>(args)...),
          first_bytes_(std::move(first_bytes)),
          waiting_(listener_->loop.impl().io) {}

    void abort() override {
        error_code ignored;
        aborted_ = true;
        socket().close(ignored);
        waiting_.cancel();
        if (websocket_) websocket_->end();
        if (pending_ && pending_->resume) std::exchange(pending_->resume, nullptr)();
    }

    static Task<void> run(std::shared_ptr<Connection> self) {
        co_await self->converse();
        error_code ignored;
        self->socket().close(ignored);
        if (std::exchange(self->counted_as_stream_, false)) --self->listener_->streams;
        self->listener_->remove(self);
    }

 private:
    static constexpr bool kTls = !std::is_same_v<Stream, Socket>;
    using Parser = wire::request_parser<wire::buffer_body>;
    struct Pending {
        std::optional<Response> response;
        std::move_only_function<void()> resume;
    };

    Socket& socket() {
        if constexpr (kTls) return stream_.next_layer();
        else return stream_;
    }
    void allow(Millis time) { deadline_ = SteadyClock::now() + time; }
    [[nodiscard]] const ListenOptions& options() const { return listener_->options; }

    Task<void> converse() {
        allow(options().first_request);
        if constexpr (kTls) {
            const auto [error] = co_await stream_.async_handshake(std::move(first_bytes_), as_result);
            if (error) co_return;
        } else if (!first_bytes_.empty()) {
            const auto space = buffer_.prepare(first_bytes_.size());
            buffer_.commit(asio::buffer_copy(space, asio::buffer(first_bytes_)));
        }
        for (bool again = true; again && !aborted_;) {
            again = co_await exchange();
            allow(options().keep_alive);
        }
        if constexpr (kTls) {
            if (aborted_) co_return;
            allow(kLingerTime);
            [[maybe_unused]] const auto shut = co_await stream_.async_shutdown(as_result);
        }
    }

    /// One request and its answer. True = the connection can take another.
    Task<bool> exchange() {
        parser_.emplace();
        parser_->header_limit(options().header_max);
        parser_->body_limit(boost::none);  // the service says, see read_body
        const auto [error, size] = co_await wire::async_read_header(stream_, buffer_, *parser_, as_result);
        if (error) {
            co_await answer_unreadable(error);
            co_return false;
        }
        const auto& head = parser_->get();
        keep_alive_ = head.keep_alive();
        version_ = head.version();
        auto made = make_request(head.method_string(), head.target(), head);
        head_only_ = head.method() == wire::verb::head;
        if (!made) {
            keep_alive_ = false;
            auto refused = problem(400, made.error().message);
            co_await write(std::move(refused));
            co_return false;
        }
        if (auto unclear = unclear_end(head)) {
            keep_alive_ = false;
            auto refused = *std::move(unclear);
            co_await refuse(std::move(refused), true);
            co_return false;
        }
        Request request = *std::move(made);
        request.peer = peer_;
        request.http_1_0 = version_ < 11;
        // Clamped, not cast: a length beyond the range would turn negative and pass every limit.
        if (const auto length = parser_->content_length())
            request.content_length = static_cast<std::int64_t>(std::min<std::uint64_t>(*length, INT64_MAX));

        auto plan = listener_->service.admit(request);
        if (plan.refuse) {
            auto refused = *std::move(plan.refuse);
            co_await refuse(std::move(refused));
            co_return keep_alive_ && parser_->is_done();
        }
        if (request.content_length.value_or(0) > plan.body_max) {
            auto refused = too_large(plan.body_max);
            co_await refuse(std::move(refused));
            co_return false;
        }
        request.sink = std::move(plan.sink);
        request.finding = std::move(plan.finding);
        bool whole = parser_->is_done();
        if (!whole) {
            whole = co_await read_body(&request, plan.body_max);
        }
        if (!whole) co_return false;
        deadline_ = SteadyClock::time_point::max();
        auto answered = co_await ask(std::move(request));
        if (!answered) co_return false;
        auto response = *std::move(answered);
        if (response.websocket) {
            co_await speak_websocket(std::move(response));
            co_return false;
        }
        co_await write(std::move(response));
        co_return keep_alive_;
    }

    /// Where a body ends must be as clear to a proxy in front of us as to us: else the one reads the rest of a body as the
    /// next request, which the other never saw. Nothing = it is clear.
    static std::optional<Response> unclear_end(const wire::request_header<>& head) {
        const auto codings = head.count(wire::field::transfer_encoding);
        if (codings == 0) return std::nullopt;
        if (head.count(wire::field::content_length) > 0)
            return problem(400, "Transfer-Encoding and Content-Length are both given: where the body ends is not clear");
        if (codings == 1 && beast::iequals(head[wire::field::transfer_encoding], "chunked")) return std::nullopt;
        return problem(501, "the only Transfer-Encoding that is understood is chunked");
    }

    static Response too_large(std::int64_t max) {
        return problem(413, fmt::format("the body is larger than {} bytes", max));
    }

    Task<void> answer_unreadable(error_code error) {
        keep_alive_ = false;
        if (error == wire::error::header_limit || error == wire::error::buffer_overflow) {
            auto refused = problem(431, fmt::format("the head of the request is larger than {} bytes", options().header_max));
            co_await refuse(std::move(refused));
        } else if (error.category() == make_error_code(wire::error::bad_method).category() &&
                   error != wire::error::end_of_stream && error != wire::error::partial_message) {
            auto refused = problem(400, "this is not HTTP/1.1: " + error.message());
            co_await refuse(std::move(refused));
        }
    }

    /// Answers without having read the body, and then reads some of it: closing a socket with unread bytes resets it, and
    /// the other end may lose the answer. When the body is short enough to be here already, the connection goes on.
    /// `more_comes`: there is a body although the parser knows of none.
    Task<void> refuse(Response response, bool more_comes = false) {
        const bool unread = more_comes || !parser_->is_done();
        if (unread) keep_alive_ = false;
        co_await write(std::move(response));
        if (!unread || aborted_) co_return;
        if constexpr (!kTls) {
            error_code ignored;
            socket().shutdown(asio::socket_base::shutdown_send, ignored);
        }
        allow(kLingerTime);
        std::string rest(64 * 1024, '\0');
        for (std::int64_t dropped = 0; dropped < kLingerMax;) {
            const auto [error, size] = co_await stream_.async_read_some(asio::buffer(rest), as_result);
            if (error) break;
            dropped += static_cast<std::int64_t>(size);
        }
    }

    /// Into the request's body or its sink. False = the exchange is over (and was answered, if that was possible).
    Task<bool> read_body(Request* request, std::int64_t body_max) {
        if (!request->header("expect").empty()) {
            static constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
            const auto [error, size] = co_await asio::async_write(stream_, asio::buffer(go_on), as_result);
            if (error) co_return false;
        }
        std::int64_t total = 0;
        std::string piece;
        while (!parser_->is_done()) {
            allow(options().progress);
            auto most = kBodyPiece;
            if (request->content_length) most = std::min(most, static_cast<std::size_t>(*request->content_length - total));
            error_code error = co_await read_piece(&piece, most);
            if (error) {
                if (error.category() == make_error_code(wire::error::bad_chunk).category()) {
                    keep_alive_ = false;
                    auto refused = problem(400, "the body cannot be read: " + error.message());
                    co_await refuse(std::move(refused));
                }
                co_return false;
            }
            total += static_cast<std::int64_t>(piece.size());
            if (total > body_max) {
                auto refused = too_large(body_max);
                co_await refuse(std::move(refused));
                co_return false;
            }
            if (!request->sink) {
                if (request->body.empty()) request->body = std::move(piece);
                else request->body.append(piece);
                continue;
            }
            if (piece.empty()) continue;
            deadline_ = SteadyClock::time_point::max();
            auto* sink = request->sink.get();
            std::move_only_function<Result<void>()> put = [sink, &piece] { return sink->write(piece); };
            auto written = co_await on_worker<Result<void>>(std::move(put));
            if (!written) {
                auto refused = problem(written.error());
                co_await refuse(std::move(refused));
                co_return false;
            }
        }
        co_return true;
    }

    /// The next bytes of the body into `piece`, at most `most`; may be none at the end of a chunked one.
    Task<error_code> read_piece(std::string* piece, std::size_t most) {
        piece->resize(std::max<std::size_t>(most, 1));
        auto& body = parser_->get().body();
        body.data = piece->data();
        body.size = piece->size();
        body.more = true;
        for (;;) {
            if (buffer_.size() > 0) {
                error_code error;
                const auto used = parser_->put(buffer_.data(), error);
                buffer_.consume(used);
                if (error == wire::error::need_buffer) error = {};
                if (error && error != wire::error::need_more) co_return error;
                const auto got = piece->size() - body.size;
                if (got > 0 || parser_->is_done()) {
                    piece->resize(got);
                    co_return error_code{};
                }
                if (used > 0 && !error) continue;  // the parser takes one part of a chunk at a time
            }
            const auto space = buffer_.prepare(64 * 1024);
            const auto [failed, size] = co_await stream_.async_read_some(space, as_result);
            if (failed) co_return failed;
            buffer_.commit(size);
        }
    }

    /// Gives the request to the service and waits for its answer; nothing if the connection was aborted meanwhile.
    Task<std::optional<Response>> ask(Request request) {
        const auto pending = std::make_shared<Pending>();
        pending_ = pending;
        Answer answer = [pending](Response response) {
            if (pending->response) return;
            pending->response = std::move(response);
            if (pending->resume) std::exchange(pending->resume, nullptr)();
        };
        listener_->service.serve(std::move(request), std::move(answer));
        if (!pending->response && !aborted_) {
            co_await until_resumed(pending);
        }
        pending_.reset();
        std::optional<Response> response;
        if (!aborted_) response = std::move(pending->response);
        co_return response;
    }

    static Task<void> until_resumed(std::shared_ptr<Pending> pending) {
        auto keep = [&pending](auto handler) { pending->resume = std::move(handler); };
        co_await asio::async_initiate<const asio::use_awaitable_t<Executor>, void()>(keep, awaiting);
    }

    template <class T>
    Task<T> on_worker(std::move_only_function<T()> job) {
        auto& loop = listener_->loop.impl();
        auto begin = [&loop, &job](auto handler) {
            asio::post(loop.pool, [&loop, &job, handler = std::move(handler)]() mutable {
                T value = job();
                asio::post(loop.io, [handler = std::move(handler), value = std::move(value)]() mutable {
                    handler(std::move(value));
                });
            });
        };
        T made = co_await asio::async_initiate<const asio::use_awaitable_t<Executor>, void(T)>(begin, awaiting);
        co_return made;
    }

    void fill(wire::response<wire::string_body>& out, Response& response) {
        out.result(static_cast<unsigned>(response.status));
        out.version(version_);
        out.set(wire::field::server, "gpuferry");
        if (!response.content_type.empty()) out.set(wire::field::content_type, response.content_type);
        out.set(wire::field::cache_control, "no-store");
        out.set("X-Content-Type-Options", "nosniff");
        if (options().now) out.set(wire::field::date, http_date(options().now()));
        for (const auto& [name, value] : response.headers) out.set(name, value);
        if (response.close) keep_alive_ = false;
    }

    Task<void> write(Response response) {
        allow(options().progress);
        if (response.stream) {
            co_await write_stream(std::move(response));
            co_return;
        }
        wire::response<wire::string_body> out;
        fill(out, response);
        out.keep_alive(keep_alive_);
        const bool bodyless = response.status == 204 || response.status == 304;
        if (!bodyless) out.content_length(response.body.size());
        if (!head_only_ && !bodyless) out.body() = std::move(response.body);
        const auto [error, size] = co_await wire::async_write(stream_, out, as_result);
        if (error) keep_alive_ = false;
    }

    Task<void> write_stream(Response response) {
        auto& stream = *response.stream;
        if (stream.follows() && listener_->streams >= options().streams_max) {
            auto refused = problem(503, fmt::format("more than {} connections follow a log or the events already",
                                                    options().streams_max));
            refused.headers.emplace_back("Retry-After", "5");
            co_await write(std::move(refused));
            co_return;
        }
        const bool chunked = !response.stream_length && version_ >= 11;
        if (!response.stream_length && !chunked) keep_alive_ = false;  // HTTP/1.0: the end of the connection is the end
        wire::response<wire::string_body> head;
        fill(head, response);
        head.keep_alive(keep_alive_);
        if (response.stream_length) head.content_length(static_cast<std::uint64_t>(*response.stream_length));
        else if (chunked) head.chunked(true);
        wire::response_serializer<wire::string_body> serializer(head);
        const auto [error, size] = co_await wire::async_write_header(stream_, serializer, as_result);
        if (error) {
            keep_alive_ = false;
            co_return;
        }
        if (head_only_) co_return;
        if (stream.follows()) {
            ++listener_->streams;
            counted_as_stream_ = true;
            watch_for_leaving();
        }
        stream.on_wake([self = this->weak_from_this()] {
            const auto alive = self.lock();
            if (!alive) return;
            alive->woken_ = true;
            alive->waiting_.cancel();
        });
        const bool whole = co_await pump(&stream, chunked);
        if (std::exchange(counted_as_stream_, false)) --listener_->streams;
        if (!whole) {
            keep_alive_ = false;
            if (!aborted_) abort();  // cut, not closed politely: the reader must see that the body is not whole
        }
    }

    Task<bool> pump(BodyStream* stream, bool chunked) {
        std::string piece;
        for (;;) {
            woken_ = false;
            piece.clear();
            auto state = BodyStream::State::broken;
            if (stream->blocking()) {
                deadline_ = SteadyClock::time_point::max();
                std::move_only_function<BodyStream::State()> read = [stream, &piece] { return stream->next(piece); };
                state = co_await on_worker<BodyStream::State>(std::move(read));
            } else {
                state = stream->next(piece);
            }
            if (aborted_ || left_) co_return false;
            if (!piece.empty()) {
                allow(options().progress);
                error_code failed;
                if (chunked) {
                    const auto chunk = wire::make_chunk(asio::const_buffer(piece.data(), piece.size()));
                    const auto [error, size] = co_await asio::async_write(stream_, chunk, as_result);
                    failed = error;
                } else {
                    const auto [error, size] = co_await asio::async_write(stream_, asio::buffer(piece), as_result);
                    failed = error;
                }
                if (failed) co_return false;
            }
            if (state == BodyStream::State::broken) co_return false;
            if (state == BodyStream::State::end) break;
            if (state == BodyStream::State::wait && !woken_) {
                deadline_ = SteadyClock::time_point::max();
                waiting_.expires_after(stream->idle());
                [[maybe_unused]] const auto waited = co_await waiting_.async_wait(as_result);
                if (aborted_ || left_) co_return false;
            } else if (piece.empty() || !stream->blocking()) {
                // A stream that always has more must not keep the loop from the other connections.
                co_await asio::post(listener_->loop.impl().io, awaiting);
            }
        }
        if (chunked) {
            allow(options().progress);
            const auto [error, size] = co_await asio::async_write(stream_, wire::make_chunk_last(), as_result);
            if (error) co_return false;
        }
        co_return true;
    }

    /// A reader that leaves while nothing is written would otherwise be noticed only at the next write.
    void watch_for_leaving() {
        socket().async_wait(asio::socket_base::wait_read, [self = this->weak_from_this()](error_code error) {
            const auto alive = self.lock();
            if (!alive || error) return;
            pollfd state{.fd = alive->socket().native_handle(), .events = POLLRDHUP, .revents = 0};
            if (state.fd < 0 || ::poll(&state, 1, 0) <= 0) return;
            alive->left_ = true;
            alive->waiting_.cancel();
        });
    }

    Task<void> speak_websocket(Response response) {
        deadline_ = SteadyClock::time_point::max();
        const auto session = std::make_shared<WebSocketSession<Stream>>(stream_, *response.websocket, response);
        websocket_ = session.get();
        session_ = session;
        const bool accepted = co_await session->accept(&parser_->get());
        parser_.reset();  // nothing of the request is needed for the hours or days that follow
        if (accepted) co_await session->run(session);
        websocket_ = nullptr;
        session_.reset();
        response.websocket->closed();
    }

    std::shared_ptr<Listener::Impl> listener_;
    Peer peer_;
    Stream stream_;
    std::string first_bytes_;
    beast::flat_buffer buffer_;
    std::optional<Parser> parser_;
    std::shared_ptr<Pending> pending_;
    Timer waiting_;               // a following stream between two pieces
    WebSocketEnd* websocket_{nullptr};
    std::shared_ptr<void> session_;
    unsigned version_{11};
    bool keep_alive_{false};
    bool head_only_{false};
    bool aborted_{false};
    bool left_{false};
    bool woken_{false};
    bool counted_as_stream_{false};
};

}  // namespace gf::http
