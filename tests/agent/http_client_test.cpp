#include "agent/http_client.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "agent/descriptor.hpp"
#include "agent_process.hpp"

namespace gf::agent {
namespace {

namespace net = boost::asio;
using tcp = net::ip::tcp;

/// Answers each connection with what `script` does to it.
template <class Script>
class OneServer {
 public:
    explicit OneServer(Script script) : acceptor_(io_, tcp::endpoint(net::ip::make_address("127.0.0.1"), 0)), script_(std::move(script)) {
        thread_ = std::thread([this] {
            while (true) {
                boost::system::error_code ec;
                tcp::socket socket(io_);
                acceptor_.accept(socket, ec);
                if (ec || stopping_) return;
                ++connections;
                script_(std::move(socket));
            }
        });
    }
    ~OneServer() {
        stopping_ = true;
        net::io_context io;
        tcp::socket waker(io);
        boost::system::error_code ignored;
        waker.connect(acceptor_.local_endpoint(), ignored);
        thread_.join();
    }
    [[nodiscard]] Url url(bool tls = false, const std::string& host = "127.0.0.1") const {
        return {.tls = tls, .host = host, .port = acceptor_.local_endpoint().port(), .path = ""};
    }
    std::atomic<int> connections{0};

 private:
    net::io_context io_{1};
    tcp::acceptor acceptor_;
    Script script_;
    std::atomic<bool> stopping_{false};
    std::thread thread_;
};

std::string read_head(auto& stream) {
    std::string text;
    boost::system::error_code ec;
    net::read_until(stream, net::dynamic_buffer(text), "\r\n\r\n", ec);
    return text;
}
void say(auto& stream, const std::string& text) {
    boost::system::error_code ignored;
    net::write(stream, net::buffer(text), ignored);
}

TEST_CASE("requests share a connection, and one that the server closed meanwhile is made anew") {
    OneServer server([](tcp::socket socket) {
        for (int i = 0; i < 2; ++i) {
            if (read_head(socket).empty()) return;
            say(socket, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    HttpClient http(server.url(), {});
    for (int i = 0; i < 5; ++i) {
        const auto answer = http.call({.target = "/x"});
        REQUIRE(answer.has_value());
        CHECK(answer->body == "ok");
    }
    CHECK(server.connections == 3);
}

TEST_CASE("chunked and unending bodies are read, odd ones are refused") {
    OneServer server([](tcp::socket socket) {
        const auto head = read_head(socket);
        if (head.find("/chunked") != std::string::npos)
            say(socket, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
        else if (head.find("/close") != std::string::npos)
            say(socket, "HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\nuntil the end");
        else if (head.find("/cut") != std::string::npos)
            say(socket, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort");
        else
            say(socket, "this is not HTTP\r\n\r\n");
    });
    HttpClient http(server.url(), {});
    CHECK(http.call({.target = "/chunked"})->body == "abcde");
    const auto closed = http.call({.target = "/close"});
    REQUIRE(closed.has_value());
    CHECK(closed->status == 404);
    CHECK(closed->body == "until the end");
    CHECK(http.call({.target = "/cut"}).error().kind == ErrorKind::unavailable);
    CHECK(http.call({.target = "/odd"}).error().kind == ErrorKind::unavailable);
}

TEST_CASE("a server that goes silent is left after the idle time") {
    OneServer server([](tcp::socket socket) {
        read_head(socket);
        say(socket, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
        read_head(socket);  // until the client leaves
    });
    HttpClient http(server.url(), {}, {.connect = Millis{5'000}, .idle = Millis{200}});
    const auto answer = http.call({.target = "/x"});
    REQUIRE_FALSE(answer.has_value());
    CHECK(answer.error().kind == ErrorKind::unavailable);
}

TEST_CASE("an answer that comes before the whole body was sent is heard") {
    OneServer server([](tcp::socket socket) {
        read_head(socket);
        say(socket, "HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        boost::system::error_code ignored;
        socket.shutdown(tcp::socket::shutdown_send, ignored);
        std::string rest(1 << 20, '\0');
        while (!ignored) socket.read_some(net::buffer(rest), ignored);
    });
    HttpClient http(server.url(), {});
    const std::string body(32 << 20, 'x');
    const auto answer = http.call({.method = "PUT", .target = "/x", .headers = {}, .body = body});
    REQUIRE(answer.has_value());
    CHECK(answer->status == 409);
}

TEST_CASE("a body sink gets the pieces of a success only, and may end it") {
    OneServer server([](tcp::socket socket) {
        const auto head = read_head(socket);
        const std::string status = head.find("/bad") != std::string::npos ? "500 Oops" : "200 OK";
        say(socket, "HTTP/1.1 " + status + "\r\nContent-Length: 5\r\nConnection: close\r\n\r\nbytes");
    });
    HttpClient http(server.url(), {});
    std::string taken;
    const auto take = [&](std::string_view bytes) {
        taken += bytes;
        return true;
    };
    CHECK(http.call({.target = "/good"}, take)->body.empty());
    CHECK(taken == "bytes");
    taken.clear();
    CHECK(http.call({.target = "/bad"}, take)->body == "bytes");
    CHECK(taken.empty());
    CHECK(http.call({.target = "/good"}, [](std::string_view) { return false; }).error().kind == ErrorKind::conflict);
    http.cancelled = [] { return true; };
    CHECK(http.call({.target = "/good"}).error().kind == ErrorKind::conflict);
}

TEST_CASE("nobody there is unavailable") {
    Url url;
    {
        net::io_context io;
        tcp::acceptor acceptor(io, tcp::endpoint(net::ip::make_address("127.0.0.1"), 0));
        url = {.tls = false, .host = "127.0.0.1", .port = acceptor.local_endpoint().port(), .path = ""};
    }
    CHECK(HttpClient(url, {}).call({}).error().kind == ErrorKind::unavailable);
    url.host = "no-such-host.invalid";
    CHECK(HttpClient(url, {}).call({}).error().kind == ErrorKind::unavailable);
}

TEST_CASE("over TLS the pinned key is trusted and no other, and without a pin an unknown issuer is not") {
    const agent_test::TemporaryFolder folder;
    const std::string key = folder.path() + "/key.pem", cert = folder.path() + "/cert.pem", pin_file = folder.path() + "/pin";
    const std::string make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
                             " -addext subjectAltName=DNS:localhost -keyout " + key + " -out " + cert + " 2>/dev/null && openssl x509 -in " + cert +
                             " -noout -pubkey | openssl pkey -pubin -outform der | sha256sum | cut -c1-64 > " + pin_file;
    REQUIRE(std::system(make.c_str()) == 0);
    const std::string pin = read_small_file(pin_file).substr(0, 64);
    net::ssl::context context(net::ssl::context::tls_server);
    context.use_certificate_chain_file(cert);
    context.use_private_key_file(key, net::ssl::context::pem);
    std::atomic<int> heard{0};
    OneServer server([&](tcp::socket socket) {
        net::ssl::stream<tcp::socket> tls(std::move(socket), context);
        boost::system::error_code ec;
        tls.handshake(net::ssl::stream_base::server, ec);
        if (ec) return;
        if (read_head(tls).empty()) return;
        ++heard;
        say(tls, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nsecret");
    });
    HttpClient pinned(server.url(true, "localhost"), {.pin = pin});
    const auto good = pinned.call({.target = "/x"});
    REQUIRE(good.has_value());
    CHECK(good->body == "secret");
    CHECK(heard == 1);
    auto other = pin;
    other[0] = other[0] == '0' ? '1' : '0';
    HttpClient wrong(server.url(true, "localhost"), {.pin = other});
    CHECK(wrong.call({.target = "/x"}).error().kind == ErrorKind::auth);
    HttpClient unpinned(server.url(true, "localhost"), {});
    CHECK(unpinned.call({.target = "/x"}).error().kind == ErrorKind::auth);
    CHECK(heard == 1);  // to those it was never told anything
}

}  // namespace
}  // namespace gf::agent
