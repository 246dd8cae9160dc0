// A connection after its upgrade: text frames in order to a SocketHandler, and queued ones out.
#pragma once
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/websocket.hpp>
#include <deque>
#include <memory>
#include <string>

#include "daemon/http/exchange.hpp"
#include "daemon/http/listener_impl.hpp"

namespace gf::http {

class WebSocketEnd {
 public:
    virtual ~WebSocketEnd() = default;
    virtual void end() = 0;
};

constexpr std::size_t kQueuedBytesMax = 16U << 20;

/// Foreign machines may flood: this many frames per second are read for long, and this many at once.
constexpr double kFramesPerSecond = 200;
constexpr double kFramesBurst = 2000;

template <class Stream>
class WebSocketSession final : public SocketPeer,
                               public WebSocketEnd,
                               public std::enable_shared_from_this<WebSocketSession<Stream>> {
 public:
    WebSocketSession(Stream& stream, SocketHandler& handler, const Response& how)
        : socket_(stream), handler_(handler), more_(stream.get_executor()) {
        namespace ws = boost::beast::websocket;
        ws::stream_base::timeout times{};
        times.handshake_timeout = std::chrono::seconds(15);
        times.idle_timeout = how.websocket_silence;
        times.keep_alive_pings = true;
        socket_.set_option(times);
        socket_.read_message_max(how.websocket_message_max);
        socket_.auto_fragment(false);  // it would keep 4 KB for each session to cut messages with
        more_.expires_at(SteadyClock::time_point::max());
    }

    void send(std::string text) override {
        if (over_) return;
        queued_bytes_ += text.size();
        queue_.push_back(std::move(text));
        if (queued_bytes_ > kQueuedBytesMax) end();
        else more_.cancel();
    }
    void close(std::string_view why) override {
        if (closing_ || over_) return;
        closing_ = true;
        reason_ = boost::beast::websocket::close_reason(boost::beast::websocket::close_code::policy_error,
                                                        boost::beast::string_view(why.substr(0, 120)));
        more_.cancel();
    }
    void end() override {
        over_ = true;
        error_code ignored;
        boost::beast::get_lowest_layer(socket_).close(ignored);
        more_.cancel();
    }

    /// Answers `head`, the request to upgrade. False = it could not be.
    template <class Head>
    Task<bool> accept(const Head* head) {
        const auto [error] = co_await socket_.async_accept(*head, as_result);
        co_return !error;
    }

    /// After `accept`, until the end.
    Task<void> run(std::shared_ptr<WebSocketSession> self) {
        handler_.opened(self);
        asio::co_spawn(socket_.get_executor(), write_all(self), asio::detached);
        co_await read_all();
        over_ = true;
        more_.cancel();
        while (writing_) {
            // The writer uses the connection's stream; it ends at once, since the socket is closed.
            error_code ignored;
            boost::beast::get_lowest_layer(socket_).close(ignored);
            co_await asio::post(socket_.get_executor(), awaiting);
        }
    }

 private:
    Task<void> read_all() {
        double allowance = kFramesBurst;
        auto last = SteadyClock::now();
        boost::beast::flat_buffer buffer;
        while (!over_) {
            const auto [error, size] = co_await socket_.async_read(buffer, as_result);
            if (error || over_) co_return;
            const auto now = SteadyClock::now();
            allowance = std::min(kFramesBurst, allowance + std::chrono::duration<double>(now - last).count() * kFramesPerSecond);
            last = now;
            if (!socket_.got_text()) {
                close("only text frames are spoken here");
                co_await drain();
                co_return;
            }
            auto text = boost::beast::buffers_to_string(buffer.data());
            buffer.consume(buffer.size());
            const auto taken = handler_.message(std::move(text));
            if (!taken) {
                close(taken.error().message);
                co_await drain();
                co_return;
            }
            allowance -= 1;
            if (allowance >= 0) continue;
            Timer pause(socket_.get_executor());
            pause.expires_after(std::chrono::milliseconds(50));
            [[maybe_unused]] const auto waited = co_await pause.async_wait(as_result);
        }
    }

    /// Reads until the close handshake is done or the socket ends; the writer sends our close frame.
    Task<void> drain() {
        boost::beast::flat_buffer buffer;
        for (int frames = 0; frames < 64 && !over_; ++frames) {
            const auto [error, size] = co_await socket_.async_read(buffer, as_result);
            if (error) co_return;
            buffer.consume(buffer.size());
        }
    }

    Task<void> write_all([[maybe_unused]] std::shared_ptr<WebSocketSession> self) {
        writing_ = true;
        socket_.text(true);
        while (!over_) {
            if (queue_.empty()) {
                if (closing_) {
                    [[maybe_unused]] const auto closed = co_await socket_.async_close(reason_, as_result);
                    break;
                }
                [[maybe_unused]] const auto waited = co_await more_.async_wait(as_result);
                continue;
            }
            const auto text = std::move(queue_.front());
            queue_.pop_front();
            queued_bytes_ -= text.size();
            const auto [error, size] = co_await socket_.async_write(asio::buffer(text), as_result);
            if (error) break;
        }
        writing_ = false;
    }

    boost::beast::websocket::stream<Stream&> socket_;
    SocketHandler& handler_;
    Timer more_;  // cancelled when there is something to write
    std::deque<std::string> queue_;
    std::size_t queued_bytes_{0};
    boost::beast::websocket::close_reason reason_;
    bool closing_{false};
    bool over_{false};
    bool writing_{false};
};

}  // namespace gf::http
