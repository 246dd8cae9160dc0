// What the http room's own files share of the loop. The executor is the concrete one: the type-erased default costs an
// allocation per operation.
#pragma once
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "daemon/http/loop.hpp"

namespace gf::http {

namespace asio = boost::asio;
using boost::system::error_code;

using Executor = asio::io_context::executor_type;
template <class T>
using Task = asio::awaitable<T, Executor>;
inline constexpr asio::as_tuple_t<asio::use_awaitable_t<Executor>> as_result{};
inline constexpr asio::use_awaitable_t<Executor> awaiting{};
using SteadyClock = std::chrono::steady_clock;
using Timer = asio::basic_waitable_timer<SteadyClock, asio::wait_traits<SteadyClock>, Executor>;
/// TCP and unix sockets alike, so that the connection code exists once.
using Socket = asio::basic_stream_socket<asio::generic::stream_protocol, Executor>;

struct Loop::Impl {
    explicit Impl(int blocking_threads) : pool(static_cast<std::size_t>(blocking_threads)) {}
    asio::io_context io{1};
    std::optional<asio::executor_work_guard<Executor>> guard;
    std::thread thread;
    std::promise<void> ended;
    asio::thread_pool pool;
    std::mutex mutex;  // guards queue and stopped
    std::vector<std::function<void()>> queue;
    bool stopped{false};
};

}  // namespace gf::http
