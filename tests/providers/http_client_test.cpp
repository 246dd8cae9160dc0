#include "providers/http_client.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <thread>

#include "scripted_server.hpp"

using namespace gf;
using gf::test::Received;
using gf::test::ScriptedServer;
using Way = gf::test::Delivery;
using Sent = gf::test::Answer;

namespace {

HttpClient quick_client(std::size_t body_max = 1 << 20) {
    return HttpClient({.user_agent = "gpuferry/1.2.3",
                       .connect_timeout = Millis{2'000},
                       .total_timeout = Millis{5'000},
                       .body_bytes_max = body_max,
                       .ca_file = {}});
}

}  // namespace

TEST_CASE("a request carries our own user agent, the bearer key in a header and a JSON body") {
    ScriptedServer server(
        [](const Received&) { return Sent{.body = "{}", .headers = {{"Retry-After", "7"}}}; });
    auto client = quick_client();
    const auto r = client.send({.method = "POST",
                                .url = server.url() + "/x?y=1",
                                .bearer = Secret("rpa_EXAMPLE"),
                                .body = R"({"a":1})"});
    CHECK(r.delivery == gf::Delivery::answered);
    CHECK(r.status == 200);
    CHECK(r.body == "{}");
    CHECK(r.header("retry-after") == "7");
    CHECK(!r.header("ratelimit"));
    const auto got = server.received().at(0);
    CHECK(got.method == "POST");
    CHECK(got.target == "/x?y=1");
    CHECK(got.header("user-agent") == "gpuferry/1.2.3");
    CHECK(got.header("authorization") == "Bearer rpa_EXAMPLE");
    CHECK(got.header("content-type") == "application/json");
    CHECK(got.header("expect").empty());
    CHECK(got.body == R"({"a":1})");
}

TEST_CASE("an address that must not be used is refused before anything is sent") {
    auto client = quick_client();
    for (const std::string url :
         {"http://203.0.113.7/v2", "http://127.evil.example/", "http://1270.0.0.1/", "ftp://127.0.0.1/x",
          "file:///etc/passwd", "https://user:pass@127.0.0.1/", "nonsense", ""}) {
        CAPTURE(url);
        const auto r = client.send({.url = url});
        CHECK(r.delivery == gf::Delivery::not_sent);
        CHECK(r.status == 0);
        CHECK(!r.failure.empty());
    }
    CHECK(base_url_problem("https://api.runpod.io/v2") == std::nullopt);
    CHECK(base_url_problem("http://localhost:8080") == std::nullopt);
    CHECK(base_url_problem("http://[::1]:8080/v2") == std::nullopt);
    CHECK(base_url_problem("http://127.8.9.1:8080") == std::nullopt);
    CHECK(base_url_problem("http://192.168.1.10").has_value());
    CHECK(base_url_problem("https://api.runpod.io/v2?api_key=x").has_value());
    CHECK(base_url_problem("https://u@api.runpod.io").has_value());
}

TEST_CASE("what was never sent is told from what got no answer") {
    ScriptedServer server([](const Received& r) {
        if (r.target == "/nothing") return Sent{.delivery = Way::nothing};
        if (r.target == "/headers") return Sent{.delivery = Way::cut_headers};
        if (r.target == "/body") return Sent{.body = R"({"id":"abcdefgh"})", .delivery = Way::cut_body};
        if (r.target == "/slow") return Sent{.body = "{}", .delay = Seconds{30}};
        return Sent{.body = std::string(4096, 'x')};
    });
    auto client = quick_client(1000);
    const struct {
        std::string target;
        int status;
    } rows[] = {{"/nothing", 0}, {"/headers", 0}, {"/body", 200}, {"/slow", 0}, {"/large", 200}};
    for (const auto& row : rows) {
        CAPTURE(row.target);
        const auto r = client.send({.url = server.url() + row.target, .timeout = Millis{700}});
        CHECK(r.delivery == gf::Delivery::no_answer);
        CHECK(r.status == row.status);
        CHECK(!r.failure.empty());
    }
    const auto url = server.url();
    server.go_away();
    CHECK(client.send({.url = url + "/x"}).delivery == gf::Delivery::not_sent);
    CHECK(client.send({.url = "https://gpuferry.invalid/"}).delivery == gf::Delivery::not_sent);
}

TEST_CASE("a create is written to the wire once, although its connection is closed under it") {
    // The first answer leaves the connection open; the server then closes it without answering the next
    // request on it. libcurl takes that for a stale connection and sends the request again, which the second
    // test shows.
    const auto script = [](const Received& r) {
        return r.target == "/warm" ? Sent{.body = "{}"} : Sent{.delivery = Way::nothing};
    };
    auto client = quick_client();
    SUBCASE("with once") {
        ScriptedServer server(script);
        CHECK(client.send({.url = server.url() + "/warm"}).status == 200);
        const auto r =
            client.send({.method = "POST", .url = server.url() + "/pods", .body = "{}", .once = true});
        CHECK(r.delivery == gf::Delivery::no_answer);
        CHECK(server.count("POST", "/pods") == 1);
    }
    SUBCASE("and an ordinary request is repeated") {
        ScriptedServer server(script);
        CHECK(client.send({.url = server.url() + "/warm"}).status == 200);
        const auto r = client.send({.method = "GET", .url = server.url() + "/pods"});
        CHECK(r.delivery == gf::Delivery::no_answer);
        CHECK(server.count("GET", "/pods") == 2);
    }
}

TEST_CASE("redirects are answers, not directions") {
    ScriptedServer server([](const Received&) {
        return Sent{.status = 302, .body = "{}", .headers = {{"Location", "http://127.0.0.1:1/secret"}}};
    });
    auto client = quick_client();
    const auto r = client.send({.url = server.url() + "/a", .bearer = Secret("k_EXAMPLE")});
    CHECK(r.delivery == gf::Delivery::answered);
    CHECK(r.status == 302);
    CHECK(server.received().size() == 1);
}

TEST_CASE("loopback is never reached through a proxy") {
    ScriptedServer proxy([](const Received&) { return Sent{.status = 599, .body = "proxied"}; });
    ScriptedServer server([](const Received&) { return Sent{.body = "direct"}; });
    ::setenv("http_proxy", proxy.url().c_str(), 1);
    auto client = quick_client();
    const auto r = client.send({.url = server.url() + "/a"});
    ::unsetenv("http_proxy");
    CHECK(r.body == "direct");
    CHECK(proxy.received().empty());
}

TEST_CASE("a line break in a key or header sends nothing") {
    ScriptedServer server([](const Received&) { return Sent{.body = "{}"}; });
    auto client = quick_client();
    CHECK(client.send({.url = server.url(), .bearer = Secret("k\r\nX-Evil: 1")}).delivery ==
          gf::Delivery::not_sent);
    CHECK(client.send({.url = server.url(), .headers = {{"A", "b\nX-Evil: 1"}}}).delivery ==
          gf::Delivery::not_sent);
    CHECK(server.received().empty());
}

TEST_CASE("many threads share the client and its connections") {
    ScriptedServer server([](const Received& r) { return Sent{.body = r.target}; });
    auto client = quick_client();
    std::vector<std::thread> threads;
    std::atomic<int> right{0};
    for (int t = 0; t < 8; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 25; ++i) {
                const auto target = "/" + std::to_string(t) + "/" + std::to_string(i);
                if (client.send({.url = server.url() + target}).body == target) ++right;
            }
        });
    for (auto& t : threads) t.join();
    CHECK(right == 200);
    int connections = 0;
    for (const auto& r : server.received()) connections = std::max(connections, r.connection);
    CHECK(connections <= 16);
}

TEST_CASE("a TLS certificate that nobody vouches for sends nothing") {
    // A plain-text server in the place of a TLS one: the handshake fails before any request.
    ScriptedServer server([](const Received&) { return Sent{.body = "{}"}; });
    auto client = quick_client();
    auto url = server.url();
    url.replace(0, 4, "https");
    const auto r = client.send({.url = url, .bearer = Secret("k_EXAMPLE")});
    CHECK(r.delivery == gf::Delivery::not_sent);
    CHECK(server.received().empty());
}
