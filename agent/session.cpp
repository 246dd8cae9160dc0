#include "agent/session.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <deque>

#include "agent/log.hpp"
#include "agent/network_stream.hpp"

namespace gf::agent {
namespace beast = boost::beast;
namespace websocket = beast::websocket;
namespace net = boost::asio;
namespace ap = agent_protocol;

namespace {

constexpr Millis kConnectLimit{15'000};
constexpr Millis kHandshakeLimit{30'000};
// Beast pings after half of this without a frame. Shorter than the daemon's silence (90 s), so that a connection that died
// without a word is dialled again before the daemon begins to doubt.
constexpr Millis kIdleLimit{40'000};
constexpr std::int64_t kPauseFirstMs = 200;
constexpr std::int64_t kPauseMaxMs = 30'000;

}  // namespace

/// One WebSocket on its own io_context. `send` comes from any thread; all else happens on the session's.
struct Session::Link {
    // Without compression: control frames are small, and it would make the program a third of a megabyte larger.
    using Socket = websocket::stream<NetworkStream, false>;

    Link(const Settings& s, SessionEvents& e)
        : settings(s), events(e), context(make_tls_context(s.url.tls, s.pin)), socket(io, context, s.url.tls) {}

    /// The status of the answer: 101 when the socket is open.
    Result<int> dial(const std::string& token) {
        auto reached = open_stream(io, socket.next_layer(), settings.url, settings.pin, kConnectLimit);
        if (!reached) return fail(reached.error());
        socket.next_layer().tcp().expires_never();  // the WebSocket has time-outs of its own
        socket.set_option(websocket::stream_base::timeout{kHandshakeLimit, kIdleLimit, true});
        socket.set_option(websocket::stream_base::decorator([token](websocket::request_type& request) {
            request.set(beast::http::field::user_agent, "gpuferry-agent");
            request.set(beast::http::field::authorization, "Bearer " + token);
        }));
        socket.read_message_max(ap::kMessageBytesMax);
        socket.text(true);
        socket.control_callback([this](websocket::frame_type, beast::string_view) { events.contact(); });
        websocket::response_type answer;
        const auto shaken = run_to_end(io, [&](auto done) {
            socket.async_handshake(answer, settings.url.authority(), settings.url.path + "/agent/ws", done);
        });
        if (!shaken) return 101;
        if (shaken == websocket::error::upgrade_declined) return static_cast<int>(answer.result_int());
        return fail(ErrorKind::unavailable, "WebSocket with " + settings.url.authority() + ": " + shaken.message());
    }

    /// Reads until the connection ends.
    void pump() {
        read_next();
        io.restart();
        io.run();
    }

    void read_next() {
        socket.async_read(buffer, [this](boost::system::error_code ec, std::size_t) {
            if (ec) return over(ec);
            events.contact();
            const auto bytes = buffer.cdata();
            auto message = ap::decode_to_agent({static_cast<const char*>(bytes.data()), bytes.size()});
            buffer.consume(buffer.size());
            if (message) events.message(*std::move(message));
            else if (message.error().kind != ErrorKind::not_yet) log("warn", "from the daemon: " + message.error().message);
            read_next();
        });
    }

    void over(boost::system::error_code ec) {
        if (why.empty()) why = ec.message();
        open = false;
        io.stop();
        socket.next_layer().tcp().close();
    }

    void post_send(std::string text) {
        // `this` outlives the handler: it owns the context, and callers hold the lock under which the link is let go.
        net::post(io, [this, text = std::move(text)]() mutable {
            if (!open) return;
            queue.push_back(std::move(text));
            if (queue.size() == 1) write_next();
        });
    }
    void write_next() {
        socket.async_write(net::buffer(queue.front()), [this](boost::system::error_code ec, std::size_t) {
            if (ec) return over(ec);
            queue.pop_front();
            if (!queue.empty()) write_next();
        });
    }
    void post_stop() {
        net::post(io, [this] { over(net::error::operation_aborted); });
    }

    const Settings& settings;
    SessionEvents& events;
    net::io_context io{1};
    net::ssl::context context;
    Socket socket;
    beast::flat_buffer buffer;
    std::deque<std::string> queue;
    bool open{true};
    std::string why;
};

Session::Session(const Settings& settings, std::string boot_id, std::string token, SessionEvents events, std::uint64_t seed)
    : settings_(settings),
      boot_id_(std::move(boot_id)),
      events_(std::move(events)),
      entropy_(seed),
      token_(std::move(token)) {}

Session::~Session() {
    stopping_ = true;
    {
        const std::lock_guard lock(mutex_);
        if (link_) link_->post_stop();
        wake_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
}

void Session::start() {
    thread_ = std::thread([this] { run(); });
}

void Session::send(std::string text) {
    const std::lock_guard lock(mutex_);
    if (link_) link_->post_send(std::move(text));
}

std::string Session::token() const {
    const std::lock_guard lock(mutex_);
    return token_;
}

void Session::token_refused(const std::string& token) {
    const std::lock_guard lock(mutex_);
    if (token.empty() || token != token_) return;
    token_.clear();
    if (link_) link_->post_stop();
}

void Session::run() {
    while (!stopping_) {
        auto done = token().empty() ? enrol() : Result<void>{};
        if (done) done = converse();
        if (!done) log("info", done.error().message);
        if (stopping_) return;
        pause();
    }
}

Result<void> Session::enrol() {
    HttpClient http(settings_.url, {.pin = settings_.pin});
    const std::string body = ap::encode(ap::EnrolRequest{.machine = settings_.machine,
                                                         .enrol = settings_.enrol.reveal(),
                                                         .boot_id = boot_id_,
                                                         .arch = GF_AGENT_ARCH,
                                                         .version = GF_AGENT_VERSION});
    auto answered = http.call({.method = "POST",
                               .target = "/agent/enrol",
                               .headers = {{"Content-Type", "application/json"}},
                               .body = body});
    if (!answered) return fail(answered.error());
    if (answered->status != 200 && answered->status != 201)
        return fail(ErrorKind::auth, "enrolment refused with status " + std::to_string(answered->status));
    auto answer = ap::decode_enrol_answer(answered->body);
    if (!answer) return fail(answer.error());
    if (answer->protocol < ap::kProtocolMin || answer->protocol > ap::kProtocolMax) {
        events_.refused("the daemon speaks protocol " + std::to_string(answer->protocol));
        return fail(ErrorKind::not_yet, "no common protocol version with the daemon");
    }
    events_.contact();
    {
        const std::lock_guard lock(mutex_);
        token_ = answer->session;
    }
    events_.enrolled(answer->session);
    return {};
}

Result<void> Session::converse() {
    auto link = std::make_shared<Link>(settings_, events_);
    const std::string token = this->token();
    auto status = link->dial(token);
    if (!status) return fail(status.error());
    if (*status != 101) {
        if (*status == 401) token_refused(token);
        return fail(ErrorKind::unavailable, "WebSocket refused with status " + std::to_string(*status));
    }
    failures_ = 0;
    {
        const std::lock_guard lock(mutex_);
        if (stopping_ || token_ != token) return {};
        link_ = link;
    }
    connected_ = true;
    events_.contact();
    events_.opened();
    link->pump();
    connected_ = false;
    {
        const std::lock_guard lock(mutex_);
        link_.reset();
    }
    events_.closed();
    return fail(ErrorKind::unavailable, "connection to the daemon ended: " + link->why);
}

void Session::pause() {
    const auto bound = std::min(kPauseMaxMs, kPauseFirstMs << std::min(failures_, 8));
    ++failures_;
    const auto wait = bound / 2 + static_cast<std::int64_t>(entropy_.below(static_cast<std::uint64_t>(bound)));
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, Millis{wait}, [this] { return stopping_.load(); });
}

}  // namespace gf::agent
