// A closed-loop HTTP load: N connections, each sends its request again as soon as the answer is there. Prints one JSON line with
// requests per second and latencies. For daemons on loopback; any answer but 2xx ends it with a failure.
#include <CLI/CLI.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;
using Request = http::request<http::string_body>;

struct Measure {
    Clock::time_point end;
    std::vector<double> milliseconds;
};

[[noreturn]] void give_up(const std::string& why) {
    fmt::print(stderr, "bench_http_load: {}\n", why);
    std::exit(1);
}

/// Runs until the end of the measure. `measure` outlives it.
asio::awaitable<void> keep_asking(tcp::socket socket, Request request, Measure* measure) {
    boost::beast::flat_buffer buffer;
    while (Clock::now() < measure->end) {
        const auto began = Clock::now();
        http::response<http::string_body> response;
        co_await http::async_write(socket, request, asio::use_awaitable);
        co_await http::async_read(socket, buffer, response, asio::use_awaitable);
        if (response.result_int() / 100 != 2)
            give_up(fmt::format("answered {}: {}", response.result_int(), response.body().substr(0, 300)));
        measure->milliseconds.push_back(std::chrono::duration<double, std::milli>(Clock::now() - began).count());
    }
}

double at(const std::vector<double>& sorted, double share) {
    return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app{"bench_http_load: requests per second of a server on loopback"};
    unsigned short port = 0;
    std::string path{"/healthz"};
    std::string body_file;
    std::string token;
    int connections = 64;
    int seconds = 5;
    app.add_option("--port", port)->required();
    app.add_option("--path", path)->capture_default_str();
    app.add_option("--post", body_file, "POST this file's content as JSON; default: GET");
    app.add_option("--token", token, "bearer token");
    app.add_option("--connections", connections)->check(CLI::Range(1, 1024))->capture_default_str();
    app.add_option("--seconds", seconds)->check(CLI::Range(1, 600))->capture_default_str();
    CLI11_PARSE(app, argc, argv);

    Request request{body_file.empty() ? http::verb::get : http::verb::post, path, 11};
    request.set(http::field::host, "127.0.0.1");
    if (!token.empty()) request.set(http::field::authorization, "Bearer " + token);
    if (!body_file.empty()) {
        std::ifstream in(body_file, std::ios::binary);
        if (!in) give_up("cannot read " + body_file);
        request.set(http::field::content_type, "application/json");
        request.body().assign(std::istreambuf_iterator<char>(in), {});
    }
    request.prepare_payload();

    asio::io_context loop{1};
    Measure measure;
    std::vector<tcp::socket> sockets;
    const tcp::endpoint server(asio::ip::address_v4::loopback(), port);
    for (int i = 0; i < connections; ++i) {
        sockets.emplace_back(loop);
        boost::system::error_code failed;
        sockets.back().connect(server, failed);
        if (failed) give_up("cannot connect: " + failed.message());
        sockets.back().set_option(tcp::no_delay(true));
    }
    const auto began = Clock::now();
    measure.end = began + std::chrono::seconds(seconds);
    for (auto& socket : sockets)
        asio::co_spawn(loop, keep_asking(std::move(socket), request, &measure), [](std::exception_ptr failed) {
            try {
                if (failed) std::rethrow_exception(failed);
            } catch (const std::exception& why) {
                give_up(why.what());
            }
        });
    loop.run();
    const double lasted = std::chrono::duration<double>(Clock::now() - began).count();

    auto& all = measure.milliseconds;
    if (all.empty()) give_up("no answer");
    std::sort(all.begin(), all.end());
    fmt::print("{{\"requests\": {}, \"per_second\": {:.1f}, \"p50_ms\": {:.2f}, \"p99_ms\": {:.2f}, \"max_ms\": {:.2f}}}\n", all.size(),
               static_cast<double>(all.size()) / lasted, at(all, 0.5), at(all, 0.99), all.back());
}
