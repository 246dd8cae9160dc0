#include "daemon/http/tls_stream.hpp"

#include <openssl/err.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/ssl/error.hpp>
#include <cerrno>

#include "model/result.hpp"

namespace gf::http {

/// Reads what came early first, and never raises SIGPIPE, which OpenSSL's own socket BIO does.
struct TlsStream::Bio {
    static TlsStream& stream(BIO* bio) { return *static_cast<TlsStream*>(BIO_get_data(bio)); }

    static int write(BIO* bio, const char* bytes, int count) {
        BIO_clear_retry_flags(bio);
        const auto sent = ::send(stream(bio).socket_.native_handle(), bytes, static_cast<std::size_t>(count), MSG_NOSIGNAL);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
        return static_cast<int>(sent);
    }
    static int read(BIO* bio, char* bytes, int count) {
        BIO_clear_retry_flags(bio);
        auto& early = stream(bio).early_;
        if (!early.empty()) {
            const auto taken = std::min(early.size(), static_cast<std::size_t>(count));
            early.copy(bytes, taken);
            early.erase(0, taken);
            return static_cast<int>(taken);
        }
        const auto got = ::recv(stream(bio).socket_.native_handle(), bytes, static_cast<std::size_t>(count), 0);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
        return static_cast<int>(got);
    }
    static long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }
    static int create(BIO* bio) {
        BIO_set_init(bio, 1);
        return 1;
    }

    static const BIO_METHOD* method() {
        static BIO_METHOD* const made = [] {
            BIO_METHOD* m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "gpuferry socket");
            GF_ASSERT(m != nullptr);
            BIO_meth_set_write(m, write);
            BIO_meth_set_read(m, read);
            BIO_meth_set_ctrl(m, control);
            BIO_meth_set_create(m, create);
            return m;
        }();
        return made;
    }
};

TlsStream::TlsStream(Socket socket, asio::ssl::context& context)
    : socket_(std::move(socket)), ssl_(SSL_new(context.native_handle())) {
    GF_ASSERT(ssl_ != nullptr);
    BIO* bio = BIO_new(Bio::method());
    GF_ASSERT(bio != nullptr);
    BIO_set_data(bio, this);
    SSL_set_bio(ssl_.get(), bio, bio);  // owned by the SSL from here on
    SSL_set_mode(ssl_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_set_accept_state(ssl_.get());
    error_code ignored;  // a socket that cannot do this fails at its first use
    socket_.native_non_blocking(true, ignored);
}

TlsStream::Try TlsStream::outcome(int result, std::size_t bytes) {
    const int system_error = errno;
    if (result > 0) return {.bytes = bytes};
    switch (SSL_get_error(ssl_.get(), result)) {
        case SSL_ERROR_WANT_READ: return {.want = Want::readable};
        case SSL_ERROR_WANT_WRITE: return {.want = Want::writable};
        case SSL_ERROR_ZERO_RETURN: return {.error = asio::error::eof};
        case SSL_ERROR_SYSCALL:
            if (system_error != 0) return {.error = error_code(system_error, asio::error::get_system_category())};
            return {.error = asio::ssl::error::stream_truncated};
        default: break;
    }
    const auto code = ERR_get_error();
    if (ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING) return {.error = asio::ssl::error::stream_truncated};
    return {.error = error_code(static_cast<int>(code), asio::error::get_ssl_category())};
}

// The queue of OpenSSL's errors is per thread and outlives the call that filled it. A socket that was closed meanwhile is not
// touched: its number may be somebody else's by now.
TlsStream::Try TlsStream::handshake() {
    if (!socket_.is_open()) return {.error = asio::error::operation_aborted};
    ERR_clear_error();
    errno = 0;
    return outcome(SSL_do_handshake(ssl_.get()), 0);
}

TlsStream::Try TlsStream::shutdown() {
    if (!socket_.is_open()) return {.error = asio::error::operation_aborted};
    ERR_clear_error();
    errno = 0;
    const int result = SSL_shutdown(ssl_.get());
    return result >= 0 ? Try{} : outcome(result, 0);
}

TlsStream::Try TlsStream::read(asio::mutable_buffer into) {
    if (into.size() == 0) return {};
    if (!socket_.is_open()) return {.error = asio::error::operation_aborted};
    ERR_clear_error();
    errno = 0;
    std::size_t bytes = 0;
    const int result = SSL_read_ex(ssl_.get(), into.data(), into.size(), &bytes);
    return outcome(result, bytes);
}

TlsStream::Try TlsStream::write(asio::const_buffer from) {
    if (from.size() == 0) return {};
    if (!socket_.is_open()) return {.error = asio::error::operation_aborted};
    ERR_clear_error();
    errno = 0;
    std::size_t bytes = 0;
    const int result = SSL_write_ex(ssl_.get(), from.data(), from.size(), &bytes);
    auto tried = outcome(result, bytes);
    if (tried.want == Want::nothing) std::string().swap(gathered_);
    return tried;
}

}  // namespace gf::http
