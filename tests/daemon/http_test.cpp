// The listener and its connections by themselves, with services of a few lines.
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "daemon/http/listener.hpp"
#include "daemon/http/problem.hpp"
#include "daemon/http/wakeups.hpp"
#include "tests/daemon/support/curl_client.hpp"

namespace gf::test {
namespace {

using namespace http;

/// /echo gives the body back, /later after a turn of a blocking thread, /count streams numbers, /wait never ends.
class Echo final : public Service {
 public:
    explicit Echo(Loop& loop) : loop_(loop) {}
    BodyPlan admit(const Request& head) override {
        BodyPlan plan;
        plan.body_max = 1000;
        if (head.path == "/refused") plan.refuse = problem(403, "not for you");
        if (head.path == "/sink") {
            plan.body_max = 64 << 20;
            plan.sink = std::make_unique<Counting>(*this);
        }
        return plan;
    }
    void serve(Request request, Answer answer) override {
        ++served;
        if (request.path == "/later") {
            loop_.work([this, answer] { loop_.enqueue([answer] { answer(json(200, "\"later\"")); }); });
            return;
        }
        if (request.path == "/never") return;
        Response response;
        response.content_type = "text/plain";
        if (request.path == "/sink") {
            response.body = std::to_string(sunk.load());
        } else if (request.path == "/count" || request.path == "/blocking" || request.path == "/broken" || request.path == "/wait") {
            response.stream = std::make_unique<Numbers>(request.path);
        } else {
            response.body = request.body;
        }
        answer(std::move(response));
    }
    std::atomic<int> served{0};
    std::atomic<std::int64_t> sunk{0};

 private:
    class Counting final : public BodySink {
     public:
        explicit Counting(Echo& to) : to_(to) {}
        Result<void> write(std::string_view piece) override {
            if (piece.find("poison") != std::string_view::npos) return fail(ErrorKind::full, "no room for it");
            to_.sunk += static_cast<std::int64_t>(piece.size());
            return {};
        }

     private:
        Echo& to_;
    };
    class Numbers final : public BodyStream {
     public:
        explicit Numbers(std::string how) : how_(std::move(how)) {}
        State next(std::string& out) override {
            if (how_ == "/wait") {
                if (at_++ == 0) out += "begun\n";
                return State::wait;
            }
            out += std::to_string(at_) + "\n";
            if (how_ == "/broken" && at_ == 50) return State::broken;
            return ++at_ == 1000 ? State::end : State::more;
        }
        [[nodiscard]] bool blocking() const override { return how_ == "/blocking"; }
        [[nodiscard]] bool follows() const override { return how_ == "/wait"; }

     private:
        std::string how_;
        int at_{0};
    };
    Loop& loop_;
};

struct Bench {
    explicit Bench(ListenOptions options = {}) : echo(loop) {
        options.address = "127.0.0.1:0";
        loop.start();
        listener = std::make_unique<Listener>(loop, echo, options);
        REQUIRE(listener->start());
    }
    ~Bench() {
        listener->stop();
        loop.stop();
    }
    [[nodiscard]] std::string url(const std::string& path) const { return "http://127.0.0.1:" + std::to_string(listener->port()) + path; }
    [[nodiscard]] Got post(const std::string& path, const std::string& body, bool chunked = false, std::vector<std::string> headers = {}) const {
        return ask({.method = "POST", .url = url(path), .body = body, .headers = std::move(headers), .unix_path = {}, .pin = {}, .chunked = chunked, .sink = {}});
    }
    Loop loop;
    Echo echo;
    std::unique_ptr<Listener> listener;
};

std::string numbers() {
    std::string out;
    for (int i = 0; i < 1000; ++i) out += std::to_string(i) + "\n";
    return out;
}

TEST_CASE("bodies come and go, at once, later, and in pieces") {
    Bench b;
    CHECK(b.post("/echo", "hello").body == "hello");
    CHECK(b.post("/echo", "").body.empty());
    CHECK(b.post("/echo", std::string(1000, 'x'), true).body == std::string(1000, 'x'));
    CHECK(b.post("/later", "").body == "\"later\"");
    for (const char* path : {"/count", "/blocking"}) {
        CAPTURE(path);
        const auto got = b.post(path, "");
        CHECK(got.error.empty());
        CHECK(got.body == numbers());
    }
    // HTTP/1.0 has no chunks: the end of the connection is the end of the body.
    const auto old = raw(b.listener->port(), "GET /count HTTP/1.0\r\n\r\n");
    CHECK(old.substr(old.find("\r\n\r\n") + 4) == numbers());
}

TEST_CASE("a stream that breaks is seen to be broken") {
    Bench b;
    const auto got = b.post("/broken", "");
    CHECK_FALSE(got.error.empty());
    CHECK(got.body.find("49\n") != std::string::npos);
}

TEST_CASE("requests behind one another on a connection are answered in order") {
    Bench b;
    const auto got = raw(b.listener->port(),
                         "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nonePOST /later HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
                         "POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\ntwo");
    const auto one = got.find("one");
    const auto later = got.find("later");
    const auto two = got.find("two");
    CHECK(one < later);
    CHECK(later < two);
    CHECK(two != std::string::npos);
}

TEST_CASE("what is not good HTTP gets an answer and an end") {
    Bench b;
    struct Row {
        const char* what;
        std::string bytes;
        const char* status;
    };
    for (const auto& row : {Row{"no HTTP at all", "hello there\r\n\r\n", "400"}, Row{"a head without end", "GET / HTTP/1.1\r\nX: " + std::string(40'000, 'x'), "431"},
                            Row{"a bad length", "POST /echo HTTP/1.1\r\nContent-Length: x\r\n\r\n", "400"},
                            Row{"two lengths", "POST /echo HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "400"},
                            Row{"length and chunks", "POST /echo HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
                            Row{"a bad chunk", "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "400"},
                            Row{"not a path", "GET nothing HTTP/1.1\r\n\r\n", "400"}, Row{"a bad escape", "GET /a%zz HTTP/1.1\r\n\r\n", "400"},
                            Row{"too long a body", "POST /echo HTTP/1.1\r\nContent-Length: 1001\r\n\r\n", "413"},
                            Row{"a length beyond all", "POST /echo HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n", "400"}}) {
        CAPTURE(row.what);
        const auto got = raw(b.listener->port(), row.bytes);
        CHECK(got.starts_with(std::string("HTTP/1.1 ") + row.status));
    }
    CHECK(b.post("/echo", "still here").body == "still here");
}

TEST_CASE("a body whose end is not clear ends the connection, and nothing in it becomes a request") {
    Bench b;
    const std::string smuggled = "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\nsmuggled";
    struct Row {
        std::string head;
        const char* status;
    };
    for (const auto& row : {Row{"Transfer-Encoding: xchunked\r\n", "501"}, Row{"Transfer-Encoding: gzip\r\n", "501"},
                            Row{"Transfer-Encoding: gzip, chunked\r\n", "501"}, Row{"Transfer-Encoding: chunked, identity\r\n", "501"},
                            Row{"Transfer-Encoding:\r\n", "501"}, Row{"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", "501"},
                            Row{"Transfer-Encoding: xchunked\r\nContent-Length: 3\r\n", "400"},
                            Row{"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "400"}}) {
        CAPTURE(row.head);
        const auto got = raw(b.listener->port(), "POST /echo HTTP/1.1\r\nHost: x\r\n" + row.head + "\r\n" + smuggled);
        CHECK(got.starts_with(std::string("HTTP/1.1 ") + row.status));
        CHECK(got.find("HTTP/1.1 ", 1) == std::string::npos);
    }
    CHECK(b.echo.served == 0);
    const auto chunked = raw(b.listener->port(), "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: CHUNKED\r\nConnection: close\r\n\r\n2\r\nok\r\n0\r\n\r\n");
    CHECK(chunked.ends_with("ok"));
    for (const char* length : {"9223372036854775807", "9223372036854775808", "18446744073709551615"}) {
        CAPTURE(length);
        CHECK(raw(b.listener->port(), std::string("POST /echo HTTP/1.1\r\nContent-Length: ") + length + "\r\n\r\nabc").starts_with("HTTP/1.1 413"));
    }
}

TEST_CASE("answers carry the date of the clock that the listener was given") {
    CHECK(http_date(instant_of(784'111'777'000)) == "Sun, 06 Nov 1994 08:49:37 GMT");  // the example of RFC 9110
    ListenOptions dated;
    dated.now = [] { return instant_of(1'790'000'000'999); };
    CHECK(Bench(dated).post("/echo", "x").headers.at("date") == "Mon, 21 Sep 2026 14:13:20 GMT");
    CHECK_FALSE(Bench().post("/echo", "x").headers.contains("date"));
}

TEST_CASE("an answer before the whole body was read still arrives") {
    Bench b;
    const std::string large(8 << 20, 'x');
    const auto got = b.post("/echo", large);
    CHECK(got.status == 413);
    CHECK(got.body.find("1000") != std::string::npos);
    CHECK(b.post("/echo", large, true).status == 413);
    CHECK(b.post("/refused", large, false, {"Expect:"}).status == 403);
    CHECK(b.echo.served == 0);
}

TEST_CASE("a large body goes to its sink, and the sink can refuse") {
    Bench b;
    const std::string large(20 << 20, 'x');
    CHECK(b.post("/sink", large, false, {"Expect: 100-continue"}).body == std::to_string(large.size()));
    CHECK(b.post("/sink", "poison").status == 507);
}

TEST_CASE("slow ones are ended, others are not disturbed") {
    ListenOptions quick;
    quick.first_request = Millis{300};
    quick.progress = Millis{300};
    Bench b(quick);
    CHECK(raw(b.listener->port(), "GET / HT").empty());                                          // never finishes its head
    CHECK(raw(b.listener->port(), "POST /echo HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc").empty());  // nor its body
    CHECK(eventually([&] { return b.listener->connections() == 0; }));
    CHECK(b.post("/echo", "quick").body == "quick");
}

TEST_CASE("over the limit of connections there is a 503, and below it life goes on") {
    ListenOptions few;
    few.connections_max = 3;
    Bench b(few);
    std::vector<int> open;
    for (int i = 0; i < 3; ++i) open.push_back(connect_to(b.listener->port()));
    CHECK(eventually([&] { return b.listener->connections() == 3; }));
    CHECK(raw(b.listener->port(), "").starts_with("HTTP/1.1 503"));
    for (const int fd : open) ::close(fd);
    CHECK(eventually([&] { return b.listener->connections() == 0; }));
    CHECK(b.post("/echo", "in").body == "in");
}

TEST_CASE("a reader that leaves a waiting stream is noticed at once") {
    Bench b;
    const int base = open_descriptors();
    std::vector<int> open;
    for (int i = 0; i < 20; ++i) {
        open.push_back(connect_to(b.listener->port()));
        const std::string_view request = "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n";
        REQUIRE(::send(open.back(), request.data(), request.size(), 0) == static_cast<ssize_t>(request.size()));
    }
    CHECK(eventually([&] { return b.echo.served == 20; }));
    for (const int fd : open) ::close(fd);
    CHECK(eventually([&] { return b.listener->connections() == 0; }, 3));
    CHECK(open_descriptors() == base);
}

TEST_CASE("stopping ends every connection, whatever it is doing") {
    std::vector<int> open;
    {
        Bench b;
        for (const std::string_view request : {"", "GET / HT", "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n", "GET /never HTTP/1.1\r\nHost: x\r\n\r\n",
                                               "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab"}) {
            open.push_back(connect_to(b.listener->port()));
            if (!request.empty()) REQUIRE(::send(open.back(), request.data(), request.size(), 0) > 0);
        }
        CHECK(eventually([&] { return b.listener->connections() == 5 && b.echo.served == 2; }));
        b.listener->stop();
        CHECK(b.listener->connections() == 0);
    }
    for (const int fd : open) {
        char buffer[4096];
        while (::recv(fd, buffer, sizeof buffer, 0) > 0) {}
        ::close(fd);
    }
}

TEST_CASE("many notes of one topic are few wakes, and none is lost") {
    Loop loop;
    loop.start();
    const auto hub = std::make_shared<Wakeups>(loop);
    std::atomic<int> woken{0};
    std::atomic<int> other{0};
    std::optional<Wakeups::Subscription> held;
    std::optional<Wakeups::Subscription> held_other;
    std::atomic<bool> ready{false};
    loop.enqueue([&] {
        held = hub->subscribe("a", [&] { ++woken; });
        held_other = hub->subscribe("b", [&] { ++other; });
        ready = true;
    });
    CHECK(eventually([&] { return ready.load(); }));
    for (int i = 0; i < 1000; ++i) hub->notify("a");
    CHECK(eventually([&] { return woken > 0; }));
    CHECK(other == 0);
    hub->notify("b");
    CHECK(eventually([&] { return other == 1; }));
    CHECK(woken <= 1000);
    std::atomic<bool> gone{false};
    loop.enqueue([&] {
        held.reset();
        held_other.reset();
        gone = true;
    });
    CHECK(eventually([&] { return gone.load(); }));
    const int before = woken;
    hub->notify("a");
    std::atomic<bool> passed{false};
    loop.enqueue([&] { passed = true; });
    CHECK(eventually([&] { return passed.load(); }));
    CHECK(woken == before);
    loop.stop();
}

TEST_CASE("what is enqueued runs in order, and a stopped loop takes nothing") {
    Loop loop;
    loop.start();
    std::vector<int> order;
    std::atomic<bool> done{false};
    for (int i = 0; i < 100; ++i) loop.enqueue([&order, i] { order.push_back(i); });
    loop.enqueue([&] { done = true; });
    CHECK(eventually([&] { return done.load(); }));
    CHECK(std::ranges::is_sorted(order));
    CHECK(order.size() == 100);
    loop.stop();
    loop.enqueue([&] { order.clear(); });
    loop.work([&] { order.clear(); });
    CHECK(order.size() == 100);
}

}  // namespace
}  // namespace gf::test
