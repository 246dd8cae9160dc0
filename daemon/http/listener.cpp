#include "daemon/http/listener.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/url/parse.hpp>
#include <charconv>

#include "daemon/http/listener_impl.hpp"
#include "daemon/log.hpp"
#include "model/ascii.hpp"

namespace gf::http {
namespace {

using Tcp = asio::ip::tcp;
using Unix = asio::local::stream_protocol;
template <class Protocol>
using Acceptor = asio::basic_socket_acceptor<Protocol, Executor>;

constexpr std::string_view kTooMany =
    "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Type: application/problem+json\r\n"
    "Content-Length: 85\r\nConnection: close\r\n\r\n"
    R"({"type":"about:blank","title":"Service Unavailable","status":503,"detail":"too many"})";

bool is_loopback(const asio::ip::address& address) {
    if (address.is_v6() && address.to_v6().is_v4_mapped())
        return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback();
    return address.is_loopback();
}

Peer peer_of(asio::basic_stream_socket<Tcp, Executor>& socket) {
    error_code error;
    const auto remote = socket.remote_endpoint(error);
    const auto local = socket.local_endpoint(error);
    socket.set_option(Tcp::no_delay(true), error);
    return {.loopback = is_loopback(remote.address()) && is_loopback(local.address()),
            .address = remote.address().to_string()};
}

Peer peer_of(asio::basic_stream_socket<Unix, Executor>& socket) {
    ucred who{};
    socklen_t size = sizeof who;
    // A peer whose credentials cannot be read is nobody, not root.
    if (::getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) who.uid = static_cast<uid_t>(-1);
    return {.unix_socket = true, .uid = who.uid, .loopback = true, .address = {}};
}

/// A fresh connection until its first byte tells TLS (a handshake record is type 22) from plain HTTP.
class Opening final : public ConnectionBase {
 public:
    Opening(Socket socket, Millis patience) : socket_(std::move(socket)) { deadline_ = SteadyClock::now() + patience; }
    void abort() override {
        error_code ignored;
        socket_.close(ignored);
    }

    static Task<void> run(std::shared_ptr<Opening> self, std::shared_ptr<Listener::Impl> listener, Peer peer) {
        std::string first(1, '\0');
        const auto [error, size] = co_await self->socket_.async_read_some(asio::buffer(first), as_result);
        listener->remove(self);
        if (error || size == 0 || listener->stopping) co_return;
        if (first.front() == '\x16') {
            peer.tls = true;
            start_tls(listener, std::move(self->socket_), std::move(peer), std::move(first));
        } else {
            start_plain(listener, std::move(self->socket_), std::move(peer), std::move(first));
        }
    }

 private:
    Socket socket_;
};

template <class Protocol>
Task<void> accept_all(std::shared_ptr<Listener::Impl> listener, std::shared_ptr<Acceptor<Protocol>> acceptor) {
    while (!listener->stopping) {
        asio::basic_stream_socket<Protocol, Executor> socket(listener->loop.impl().io);
        const auto [error] = co_await acceptor->async_accept(socket, as_result);
        if (listener->stopping || error == asio::error::operation_aborted) break;
        if (error) {
            // Out of descriptors or memory: wait for connections to end rather than spin.
            log::warn("http.accept_failed", {{"address", listener->options.address}, {"reason", error.message()}});
            Timer pause(listener->loop.impl().io);
            pause.expires_after(std::chrono::milliseconds(100));
            [[maybe_unused]] const auto waited = co_await pause.async_wait(as_result);
            continue;
        }
        auto peer = peer_of(socket);
        if (listener->open_count.load() >= listener->options.connections_max) {
            error_code ignored;
            socket.non_blocking(true, ignored);
            socket.write_some(asio::buffer(kTooMany), ignored);
            continue;
        }
        if (listener->options.tls == nullptr) {
            start_plain(listener, Socket(std::move(socket)), std::move(peer), {});
        } else {
            auto opening = std::make_shared<Opening>(Socket(std::move(socket)), listener->options.first_request);
            listener->add(opening);
            asio::co_spawn(listener->loop.impl().io.get_executor(),
                           Opening::run(std::move(opening), listener, std::move(peer)), asio::detached);
        }
    }
}

Task<void> sweep(std::shared_ptr<Listener::Impl> listener) {
    while (!listener->stopping) {
        listener->sweeper.expires_after(std::chrono::seconds(1));
        [[maybe_unused]] const auto waited = co_await listener->sweeper.async_wait(as_result);
        const auto now = SteadyClock::now();
        std::vector<std::shared_ptr<ConnectionBase>> late;
        for (const auto& connection : listener->open)
            if (connection->deadline() < now) late.push_back(connection);
        for (const auto& connection : late) connection->abort();
    }
}

template <class Protocol>
void run_acceptor(const std::shared_ptr<Listener::Impl>& impl, std::shared_ptr<Acceptor<Protocol>> acceptor) {
    impl->close_acceptor = [acceptor] {
        error_code ignored;
        acceptor->close(ignored);
    };
    // On the loop's thread: an accept that completes at once must not run beside this one.
    impl->loop.enqueue([impl, acceptor = std::move(acceptor)]() mutable {
        const auto executor = impl->loop.impl().io.get_executor();
        asio::co_spawn(executor, accept_all<Protocol>(impl, std::move(acceptor)), asio::detached);
        asio::co_spawn(executor, sweep(impl), asio::detached);
    });
}

Result<Tcp::endpoint> tcp_endpoint(Loop& loop, const std::string& address) {
    const auto colon = address.rfind(':');
    if (colon == std::string::npos) return fail(ErrorKind::invalid, "listen address " + address + " has no port");
    auto host = address.substr(0, colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    std::uint16_t port = 0;
    const auto* end = address.data() + address.size();
    const auto [stop, bad] = std::from_chars(address.data() + colon + 1, end, port);
    if (bad != std::errc{} || stop != end)
        return fail(ErrorKind::invalid, "listen address " + address + " has no port in 0..65535");
    error_code error;
    auto parsed = asio::ip::make_address(host, error);
    if (!error) return Tcp::endpoint(parsed, port);
    Tcp::resolver resolver(loop.impl().io);
    const auto found = resolver.resolve(host, std::to_string(port), Tcp::resolver::passive, error);
    if (error || found.empty()) return fail(ErrorKind::io, "listen on " + address + ": " + error.message());
    return found.begin()->endpoint();
}

Result<void> listen_tcp(const std::shared_ptr<Listener::Impl>& impl) {
    const auto& address = impl->options.address;
    auto endpoint = tcp_endpoint(impl->loop, address);
    if (!endpoint) return fail(std::move(endpoint).error());
    auto acceptor = std::make_shared<Acceptor<Tcp>>(impl->loop.impl().io);
    error_code error;
    acceptor->open(endpoint->protocol(), error);
    if (!error) acceptor->set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor->bind(*endpoint, error);
    if (!error) acceptor->listen(1024, error);
    if (error) return fail(ErrorKind::io, "listen on " + address + ": " + error.message());
    impl->port = acceptor->local_endpoint(error).port();
    run_acceptor<Tcp>(impl, std::move(acceptor));
    return {};
}

Result<void> listen_unix(const std::shared_ptr<Listener::Impl>& impl) {
    const auto& path = impl->options.unix_path;
    if (path.size() >= sizeof(sockaddr_un::sun_path))
        return fail(ErrorKind::io, fmt::format("the socket path {} is {} bytes long, at most {} are possible", path,
                                               path.size(), sizeof(sockaddr_un::sun_path) - 1));
    struct stat info {};
    // A socket file outlives its daemon; the lock on the data folder says that no other daemon uses it now.
    if (::lstat(path.c_str(), &info) == 0) {
        if (!S_ISSOCK(info.st_mode)) return fail(ErrorKind::io, path + " is there and is not a socket");
        ::unlink(path.c_str());
    }
    auto acceptor = std::make_shared<Acceptor<Unix>>(impl->loop.impl().io);
    error_code error;
    acceptor->open(Unix(), error);
    // fchmod on the socket before bind sets the mode of the file that bind makes, so that it is never open to others.
    if (!error) ::fchmod(acceptor->native_handle(), 0600);
    if (!error) acceptor->bind(Unix::endpoint(path), error);
    if (!error) ::chmod(path.c_str(), 0600);
    if (!error) acceptor->listen(1024, error);
    if (error) return fail(ErrorKind::io, "listen on " + path + ": " + error.message());
    run_acceptor<Unix>(impl, std::move(acceptor));
    return {};
}

}  // namespace

void Listener::Impl::add(std::shared_ptr<ConnectionBase> connection) {
    open.insert(std::move(connection));
    open_count.fetch_add(1);
}

void Listener::Impl::remove(const std::shared_ptr<ConnectionBase>& connection) {
    if (open.erase(connection) == 0) return;
    open_count.fetch_sub(1);
    if (open.empty() && all_gone) {
        all_gone->set_value();
        all_gone.reset();
    }
}

Listener::Listener(Loop& loop, Service& service, ListenOptions options)
    : impl_(std::make_shared<Impl>(loop, service, std::move(options))) {}

Listener::~Listener() { stop(); }

Result<void> Listener::start() {
    return impl_->options.unix_path.empty() ? listen_tcp(impl_) : listen_unix(impl_);
}

void Listener::stop() {
    if (!impl_->close_acceptor) return;
    const auto done = std::make_shared<std::promise<void>>();
    auto waiting = done->get_future();
    impl_->loop.enqueue([impl = impl_, done] {
        impl->stopping = true;
        impl->close_acceptor();
        impl->sweeper.cancel();
        if (impl->open.empty()) {
            done->set_value();
            return;
        }
        impl->all_gone = done;
        const auto all = impl->open;
        for (const auto& connection : all) connection->abort();
    });
    // Every connection ends at its abort; the bound is for one that waits for a blocking thread.
    if (waiting.wait_for(std::chrono::seconds(10)) != std::future_status::ready)
        log::error("http.stop_timed_out", {{"address", impl_->options.address}, {"open", connections()}});
    impl_->close_acceptor = nullptr;
    if (!impl_->options.unix_path.empty()) ::unlink(impl_->options.unix_path.c_str());
}

std::uint16_t Listener::port() const { return impl_->port; }

int Listener::connections() const { return impl_->open_count.load(); }

Result<Request> make_request(std::string_view method, std::string_view target, const boost::beast::http::fields& fields) {
    namespace urls = boost::urls;
    Request request;
    if (method == "GET") request.method = Method::get;
    else if (method == "HEAD") request.method = Method::head;
    else if (method == "POST") request.method = Method::post;
    else if (method == "PUT") request.method = Method::put;
    else if (method == "DELETE") request.method = Method::delete_;
    const auto parsed = urls::parse_origin_form({target.data(), target.size()});
    if (parsed.has_error()) return fail(ErrorKind::malformed, "the request target is not a path");
    request.path.assign(parsed->encoded_path().data(), parsed->encoded_path().size());
    for (const auto& segment : parsed->encoded_segments()) {
        std::string decoded;
        segment.decode({}, urls::string_token::assign_to(decoded));
        request.segments.push_back(std::move(decoded));
    }
    for (const auto& parameter : parsed->encoded_params()) {
        urls::encoding_opts as_form;
        as_form.space_as_plus = true;
        std::string key;
        std::string value;
        parameter.key.decode(as_form, urls::string_token::assign_to(key));
        parameter.value.decode(as_form, urls::string_token::assign_to(value));
        request.query.emplace_back(std::move(key), std::move(value));
    }
    for (const auto& field : fields) {
        request.headers.emplace_back(ascii_lower(std::string_view(field.name_string())), std::string(field.value()));
    }
    return request;
}

}  // namespace gf::http
