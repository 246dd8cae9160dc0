#include "tests/daemon/support/socket_client.hpp"

#include <sys/socket.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/ssl.hpp>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>

namespace gf::test {

namespace asio = boost::asio;
namespace beast = boost::beast;
using Tcp = asio::ip::tcp;

/// After the handshake the stream is the loop's thread's alone: a stream may not be read and written by two threads at a time.
struct SocketClient::Impl {
    asio::io_context io{1};
    asio::executor_work_guard<asio::io_context::executor_type> guard{io.get_executor()};
    asio::ssl::context context{asio::ssl::context::tls_client};
    std::unique_ptr<beast::websocket::stream<Tcp::socket>> plain;
    std::unique_ptr<beast::websocket::stream<asio::ssl::stream<Tcp::socket>>> secure;
    beast::flat_buffer buffer;
    int status{0};
    std::thread loop;
    std::mutex mutex;  // guards all below
    std::condition_variable changed;
    std::deque<std::string> messages;
    bool over{false};
    std::string reason;

    template <class F>
    void with(F f) {
        if (secure) f(*secure);
        else f(*plain);
    }
    Tcp::socket& socket() { return secure ? secure->next_layer().next_layer() : plain->next_layer(); }

    void read_next() {
        with([this](auto& stream) {
            stream.async_read(buffer, [this, &stream](boost::system::error_code error, std::size_t) {
                const std::scoped_lock lock(mutex);
                if (error) {
                    over = true;
                    reason = std::string(stream.reason().reason.c_str(), stream.reason().reason.size());
                } else {
                    messages.push_back(beast::buffers_to_string(buffer.data()));
                    buffer.consume(buffer.size());
                    read_next();
                }
                changed.notify_all();
            });
        });
    }

    /// Runs `begin` on the loop's thread and waits until it says that it is done.
    template <class Begin>
    void ask(Begin begin) {
        const auto done = std::make_shared<std::promise<void>>();
        asio::post(io, [begin = std::move(begin), done] { begin([done] { done->set_value(); }); });
        if (loop.joinable()) done->get_future().wait_for(std::chrono::seconds(10));
    }

    /// Until the bytes are with the kernel, or cannot be.
    void write(std::string bytes, bool text) {
        const auto kept = std::make_shared<std::string>(std::move(bytes));
        ask([this, kept, text](auto done) {
            with([&](auto& stream) {
                stream.text(text);
                stream.async_write(asio::buffer(*kept), [kept, done](boost::system::error_code, std::size_t) { done(); });
            });
        });
    }
};

SocketClient::SocketClient(int port, const std::string& token, bool tls) : impl_(std::make_unique<Impl>()) {
    auto& i = *impl_;
    Tcp::socket socket(i.io);
    boost::system::error_code error;
    socket.connect(Tcp::endpoint(asio::ip::address_v4::loopback(), static_cast<std::uint16_t>(port)), error);
    if (tls) {
        i.secure = std::make_unique<beast::websocket::stream<asio::ssl::stream<Tcp::socket>>>(std::move(socket), i.context);
        if (!error) i.secure->next_layer().handshake(asio::ssl::stream_base::client, error);
    } else {
        i.plain = std::make_unique<beast::websocket::stream<Tcp::socket>>(std::move(socket));
    }
    beast::websocket::response_type answer;
    i.with([&](auto& stream) {
        stream.set_option(beast::websocket::stream_base::decorator([&token](beast::websocket::request_type& request) {
            request.set(beast::http::field::authorization, "Bearer " + token);
        }));
        if (!error) stream.handshake(answer, "127.0.0.1", "/agent/ws", error);
    });
    i.status = static_cast<int>(answer.result_int());
    if (error) {
        i.over = true;
        return;
    }
    i.read_next();
    i.loop = std::thread([&i] { i.io.run(); });
}

SocketClient::~SocketClient() {
    cut();
    impl_->guard.reset();
    impl_->io.stop();
    if (impl_->loop.joinable()) impl_->loop.join();
}

int SocketClient::status() const { return impl_->status; }

void SocketClient::send(const std::string& text) { impl_->write(text, true); }

void SocketClient::send_binary(const std::string& bytes) { impl_->write(bytes, false); }

std::optional<std::string> SocketClient::receive(int seconds) {
    std::unique_lock lock(impl_->mutex);
    impl_->changed.wait_for(lock, std::chrono::seconds(seconds), [this] { return !impl_->messages.empty() || impl_->over; });
    if (impl_->messages.empty()) return std::nullopt;
    auto message = std::move(impl_->messages.front());
    impl_->messages.pop_front();
    return message;
}

bool SocketClient::ended(int seconds) {
    std::unique_lock lock(impl_->mutex);
    return impl_->changed.wait_for(lock, std::chrono::seconds(seconds), [this] { return impl_->over; });
}

std::string SocketClient::reason() const {
    const std::scoped_lock lock(impl_->mutex);
    return impl_->reason;
}

void SocketClient::cut() {
    impl_->ask([&i = *impl_](auto done) {
        if (i.socket().is_open()) ::shutdown(i.socket().native_handle(), SHUT_RDWR);
        done();
    });
}

}  // namespace gf::test
