// Many agents in one process, as far as the daemon can tell: each enrols, connects by TLS and WebSocket, reports the machine that was
// offered, takes its lease and says that the job runs. For measuring what a fleet costs the daemon.
//
// Reads one machine per line from standard input: TAG ENROL_TOKEN GPUS GPU_MEMORY_BYTES DISK_BYTES GPU NAME. Ends with its input's
// end and a signal; every failure is told on standard error and costs only that agent.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/ssl.hpp>
#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>

#include "model/agent_protocol.hpp"

namespace {

namespace ap = gf::agent_protocol;
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
namespace websocket = beast::websocket;
using asio::ip::tcp;
using asio::use_awaitable;
using Plain = tcp::socket;
using Tls = asio::ssl::stream<tcp::socket>;

struct Machine {
    std::string tag;
    std::string enrol;
    int gpus{1};
    std::int64_t gpu_memory{0};
    std::int64_t disk{0};
    std::string gpu_name;
};

struct Daemon {
    tcp::endpoint address;
    asio::ssl::context tls{asio::ssl::context::tls_client};
};

template <class Stream>
Stream unconnected(asio::any_io_executor executor, Daemon& daemon) {
    if constexpr (std::is_same_v<Stream, Tls>) return Tls(std::move(executor), daemon.tls);
    else return Plain(std::move(executor));
}

/// `stream` and `daemon` outlive it.
template <class Stream>
asio::awaitable<void> connected(Stream& stream, Daemon& daemon) {
    auto& bottom = beast::get_lowest_layer(stream);
    co_await bottom.async_connect(daemon.address, use_awaitable);
    if constexpr (std::is_same_v<Stream, Tls>) co_await stream.async_handshake(Tls::client, use_awaitable);
}

ap::Hello hello(const Machine& machine) {
    ap::Hello hello;
    for (int i = 0; i < machine.gpus; ++i)
        hello.report.gpus.push_back({.name = machine.gpu_name, .memory_bytes = machine.gpu_memory, .driver = "570.124.06",
                                     .uuid = fmt::format("GPU-{}-{}", machine.tag, i)});
    hello.report.cuda_probe = "ok";
    hello.report.cuda_devices = machine.gpus;
    hello.report.cuda_version = "12.8";
    hello.report.disk_total = hello.report.disk_free = machine.disk;
    hello.report.memory_total = 64'000'000'000;
    hello.report.cpus = 16;
    hello.report.arch = "amd64";
    hello.report.workspace = "/workspace";
    return hello;
}

template <class Stream>
asio::awaitable<std::string> enrolled(std::shared_ptr<Daemon> daemon, Machine machine, std::string boot_id) {
    const auto executor = co_await asio::this_coro::executor;
    auto stream = unconnected<Stream>(executor, *daemon);
    co_await connected(stream, *daemon);
    ap::EnrolRequest asked;
    asked.machine = machine.tag;
    asked.enrol = machine.enrol;
    asked.boot_id = boot_id;
    asked.arch = "amd64";
    asked.version = "bench";
    http::request<http::string_body> request{http::verb::post, "/agent/enrol", 11};
    request.set(http::field::host, "127.0.0.1");
    request.set(http::field::content_type, "application/json");
    request.keep_alive(false);
    request.body() = ap::encode(asked);
    request.prepare_payload();
    co_await http::async_write(stream, request, use_awaitable);
    beast::flat_buffer buffer;
    http::response<http::string_body> response;
    co_await http::async_read(stream, buffer, response, use_awaitable);
    const auto answer = ap::decode_enrol_answer(response.body());
    if (response.result_int() != 200 || !answer)
        throw std::runtime_error(fmt::format("enrolment answered {}: {}", response.result_int(), response.body().substr(0, 200)));
    co_return answer->session;
}

/// Answers what the daemon says until the connection ends.
template <class Stream>
asio::awaitable<void> live(std::shared_ptr<Daemon> daemon, Machine machine) {
    const std::string boot_id = machine.tag + "-1";
    const std::string session = co_await enrolled<Stream>(daemon, machine, boot_id);
    const auto executor = co_await asio::this_coro::executor;
    websocket::stream<Stream> socket(unconnected<Stream>(executor, *daemon));
    co_await connected(socket.next_layer(), *daemon);
    const auto authorise = [session](websocket::request_type& r) { r.set(http::field::authorization, "Bearer " + session); };
    socket.set_option(websocket::stream_base::decorator(authorise));
    co_await socket.async_handshake("127.0.0.1", "/agent/ws", use_awaitable);
    socket.text(true);

    ap::FromAgent said{.boot_id = boot_id, .seq = 0, .body = hello(machine)};
    std::string text = ap::encode(said);
    co_await socket.async_write(asio::buffer(text), use_awaitable);
    std::int64_t sequence = 0;
    for (;;) {
        beast::flat_buffer buffer;
        co_await socket.async_read(buffer, use_awaitable);
        const auto heard = ap::decode_to_agent(beast::buffers_to_string(buffer.data()));
        if (!heard) continue;
        text.clear();
        if (const auto* lease = std::get_if<ap::Lease>(&*heard))
            text = ap::encode(ap::FromAgent{.boot_id = boot_id, .seq = ++sequence, .body = ap::Started{.attempt = lease->attempt, .pid = 2}});
        if (const auto* stop = std::get_if<ap::Stop>(&*heard))
            text = ap::encode(ap::FromAgent{.boot_id = boot_id, .seq = ++sequence,
                                            .body = ap::Exited{.attempt = stop->attempt, .signal = 15, .reason = "stopped"}});
        if (!text.empty()) co_await socket.async_write(asio::buffer(text), use_awaitable);
    }
}

template <class Stream>
void read_machines(asio::io_context& loop, const std::shared_ptr<Daemon>& daemon) {
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream words(line);
        Machine machine;
        words >> machine.tag >> machine.enrol >> machine.gpus >> machine.gpu_memory >> machine.disk >> std::ws;
        std::getline(words, machine.gpu_name);
        const auto tell = [tag = machine.tag](std::exception_ptr failed) {
            try {
                if (failed) std::rethrow_exception(failed);
            } catch (const boost::system::system_error& why) {
                fmt::print(stderr, "{}: {}\n", tag, why.code().message());
            } catch (const std::exception& why) {
                fmt::print(stderr, "{}: {}\n", tag, why.what());
            }
        };
        asio::post(loop, [&loop, daemon, machine, tell] { asio::co_spawn(loop, live<Stream>(daemon, machine), tell); });
    }
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app{"bench_agents: many agents in one process"};
    unsigned short port = 0;
    app.add_option("--port", port, "the daemon's agent listener on loopback")->required();
    bool plain = false;
    app.add_flag("--plain", plain, "without TLS, which the daemon allows on loopback");
    CLI11_PARSE(app, argc, argv);
    auto daemon = std::make_shared<Daemon>();
    daemon->address = tcp::endpoint(asio::ip::address_v4::loopback(), port);
    asio::io_context loop{1};
    const auto guard = asio::make_work_guard(loop);
    std::thread reader([&] { plain ? read_machines<Plain>(loop, daemon) : read_machines<Tls>(loop, daemon); });
    reader.detach();
    loop.run();
}
