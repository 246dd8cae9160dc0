#include "daemon/http/loop.hpp"

#include <boost/asio/post.hpp>

#include "daemon/http/loop_impl.hpp"
#include "model/result.hpp"

namespace gf::http {

Loop::Loop(int blocking_threads) : impl_(std::make_unique<Impl>(blocking_threads)) {}

Loop::~Loop() { stop(); }

void Loop::start() {
    GF_ASSERT(!impl_->thread.joinable());
    impl_->guard.emplace(impl_->io.get_executor());
    impl_->thread = std::thread([this] {
        impl_->io.run();
        impl_->ended.set_value();
    });
}

void Loop::stop() {
    {
        const std::scoped_lock lock(impl_->mutex);
        if (impl_->stopped) return;
        impl_->stopped = true;
        impl_->queue.clear();
    }
    impl_->guard.reset();
    impl_->pool.join();  // what was begun on a file is finished
    if (!impl_->thread.joinable()) return;
    GF_ASSERT(std::this_thread::get_id() != impl_->thread.get_id());
    if (impl_->ended.get_future().wait_for(std::chrono::seconds(1)) != std::future_status::ready) impl_->io.stop();
    impl_->thread.join();
}

void Loop::enqueue(std::function<void()> fn) {
    bool first = false;
    {
        const std::scoped_lock lock(impl_->mutex);
        if (impl_->stopped) return;
        first = impl_->queue.empty();
        impl_->queue.push_back(std::move(fn));
    }
    if (!first) return;
    asio::post(impl_->io, [this] {
        std::vector<std::function<void()>> all;
        {
            const std::scoped_lock lock(impl_->mutex);
            all.swap(impl_->queue);
        }
        for (const auto& one : all) one();
    });
}

void Loop::work(std::function<void()> fn) {
    {
        const std::scoped_lock lock(impl_->mutex);
        if (impl_->stopped) return;
    }
    asio::post(impl_->pool, std::move(fn));
}

}  // namespace gf::http
