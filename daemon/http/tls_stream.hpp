// The server's side of TLS over a socket. Asio's own stream keeps two record buffers and a pair of memory BIOs for each connection,
// 80 KB in all (measured); agents are thousands, and silent nearly always. Here OpenSSL reads and writes the socket itself and
// has buffers only while a record is under way.
//
// Meets Asio's AsyncReadStream and AsyncWriteStream. One read and one write may be open at a time; all on the loop's thread.
#pragma once
#include <openssl/ssl.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/beast/core/role.hpp>
#include <memory>
#include <string>
#include <utility>

#include "daemon/http/loop_impl.hpp"

namespace gf::http {

class TlsStream {
 public:
    using executor_type = Executor;
    using next_layer_type = Socket;

    /// `context` outlives the stream.
    TlsStream(Socket socket, asio::ssl::context& context);
    TlsStream(const TlsStream&) = delete;
    TlsStream& operator=(const TlsStream&) = delete;

    executor_type get_executor() { return socket_.get_executor(); }
    next_layer_type& next_layer() { return socket_; }

    /// `first` = bytes that were already read from the socket. Completes with (error).
    template <class Token>
    auto async_handshake(std::string first, Token&& token) {
        early_ = std::move(first);
        return begin<void(error_code)>([](TlsStream& s) { return s.handshake(); }, token);
    }
    /// Sends our farewell and does not wait for the other's: who closes next does not read any more. Completes with (error).
    template <class Token>
    auto async_shutdown(Token&& token) {
        return begin<void(error_code)>([](TlsStream& s) { return s.shutdown(); }, token);
    }
    template <class Buffers, class Token>
    auto async_read_some(const Buffers& buffers, Token&& token) {
        asio::mutable_buffer into;
        for (auto it = asio::buffer_sequence_begin(buffers); it != asio::buffer_sequence_end(buffers) && into.size() == 0; ++it)
            into = asio::mutable_buffer(*it);
        return begin<void(error_code, std::size_t)>([into](TlsStream& s) { return s.read(into); }, token);
    }
    template <class Buffers, class Token>
    auto async_write_some(const Buffers& buffers, Token&& token) {
        asio::const_buffer from;
        for (auto it = asio::buffer_sequence_begin(buffers); it != asio::buffer_sequence_end(buffers) && from.size() == 0; ++it)
            from = asio::const_buffer(*it);
        // A head of a few bytes and its body are one record, not two.
        if (from.size() < kGathered && from.size() < asio::buffer_size(buffers)) {
            gathered_.resize(std::min(kGathered, asio::buffer_size(buffers)));
            asio::buffer_copy(asio::buffer(gathered_), buffers);
            from = asio::buffer(gathered_);
        }
        return begin<void(error_code, std::size_t)>([from](TlsStream& s) { return s.write(from); }, token);
    }

 private:
    static constexpr std::size_t kGathered = 16 * 1024;

    enum class Want : std::uint8_t { nothing, readable, writable };
    /// What came of one try. While it wants something, it is to be made again when the socket is so.
    struct Try {
        Want want{Want::nothing};
        error_code error;
        std::size_t bytes{0};
    };
    Try handshake();
    Try shutdown();
    Try read(asio::mutable_buffer into);
    Try write(asio::const_buffer from);
    Try outcome(int result, std::size_t bytes);

    template <class Attempt, bool kCounts>
    struct Operation {
        TlsStream& stream;
        Attempt attempt;
        Try last;
        bool deferred{false};  // the completion may come from here, which is no longer the initiating function
        bool over{false};

        template <class Self>
        void operator()(Self& self, error_code error = {}) {
            if (error) last = Try{.error = error};
            else if (!over) last = attempt(stream);
            if (last.want != Want::nothing) {
                deferred = true;
                auto& socket = stream.socket_;
                return socket.async_wait(last.want == Want::readable ? Socket::wait_read : Socket::wait_write, std::move(self));
            }
            if (!deferred) {
                deferred = over = true;
                return asio::post(stream.get_executor(), std::move(self));
            }
            if constexpr (kCounts) self.complete(last.error, last.bytes);
            else self.complete(last.error);
        }
    };

    template <class Signature, class Attempt, class Token>
    auto begin(Attempt attempt, Token& token) {
        constexpr bool counts = std::is_same_v<Signature, void(error_code, std::size_t)>;
        return asio::async_compose<Token, Signature>(Operation<Attempt, counts>{*this, std::move(attempt), {}}, token, socket_);
    }

    struct Free {
        void operator()(SSL* ssl) const { SSL_free(ssl); }
    };
    struct Bio;  // OpenSSL's way to the socket

    Socket socket_;
    std::unique_ptr<SSL, Free> ssl_;
    std::string early_;     // was read from the socket before OpenSSL came
    std::string gathered_;  // of the write that is open
};

/// How Beast ends a WebSocket over this stream.
template <class Handler>
void async_teardown(boost::beast::role_type, TlsStream& stream, Handler&& handler) {
    stream.async_shutdown(std::forward<Handler>(handler));
}
inline void teardown(boost::beast::role_type, TlsStream& stream, error_code& error) { stream.next_layer().close(error); }

}  // namespace gf::http
