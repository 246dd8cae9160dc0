#include "daemon/api/server.hpp"

#include <algorithm>

#include "daemon/api/access.hpp"
#include "daemon/api/blobs.hpp"
#include "daemon/api/routes.hpp"
#include "daemon/http/descriptor_limit.hpp"
#include "daemon/http/files.hpp"
#include "daemon/http/listener.hpp"
#include "daemon/log.hpp"

namespace gf {
namespace {

using api::Body;

/// What the head of a request told, kept until the body is here.
class Admitted final : public http::Finding {
 public:
    Admitted(const api::Route& r, std::vector<std::string> p, api::Caller c)
        : route(r), path(std::move(p)), caller(std::move(c)) {}
    const api::Route& route;
    std::vector<std::string> path;
    api::Caller caller;
};

class RestService final : public http::Service {
 public:
    explicit RestService(std::shared_ptr<api::Context> context) : context_(std::move(context)), access_(*context_) {}

    http::BodyPlan admit(const http::Request& head) override {
        http::BodyPlan plan;
        plan.refuse = decide(head, plan);
        if (plan.refuse) ++context_->answers[plan.refuse->status];
        return plan;
    }

    void serve(http::Request request, http::Answer answer) override {
        auto* found = dynamic_cast<Admitted*>(request.finding.get());
        GF_ASSERT(found != nullptr);
        const auto finding = std::move(request.finding);
        api::Call call{.api = context_, .request = std::move(request), .caller = std::move(found->caller),
                       .path = std::move(found->path), .answer = {}};
        call.answer = [context = context_, answer = std::move(answer)](http::Response response) {
            ++context->answers[response.status];
            answer(std::move(response));
        };
        found->route.handle(std::move(call));
    }

 private:
    std::optional<http::Response> decide(const http::Request& head, http::BodyPlan& plan) {
        auto match = api::find_route(head);
        if (auto foreign = access_.foreign_page(head, match.route != nullptr && match.route->open)) return foreign;
        if (match.route == nullptr) {
            // Whether a path exists is no secret (openapi.json lists them all), so this needs no token.
            if (match.allowed.empty()) return http::problem(404, "there is no " + head.path);
            auto refused = http::problem(405, head.path + " takes " + match.allowed);
            refused.headers.emplace_back("Allow", match.allowed);
            return refused;
        }
        auto verdict = access_.judge(head, *match.route);
        if (verdict.refuse) return std::move(verdict.refuse);
        if (const auto known = api::check_query(*match.route, head); !known) return http::problem(known.error());
        if (match.route->method == http::Method::post && !match.route->once && !head.header("idempotency-key").empty()) {
            // Silently ignored it would promise what does not hold: two tokens under one key.
            const auto message = "Idempotency-Key is not supported on this route";
            return http::problem(400, message, {{.field = "Idempotency-Key", .message = message, .range = {}}});
        }
        switch (match.route->body) {
            case Body::none: plan.body_max = 0; break;
            case Body::document: plan.body_max = static_cast<std::int64_t>(context_->options.body_max); break;
            case Body::blob: {
                plan.body_max = context_->options.blob_max;
                auto sink = api::begin_blob(*context_, match.path.at(0));
                if (!sink) return http::problem(sink.error());
                plan.sink = *std::move(sink);
                break;
            }
        }
        plan.finding = std::make_unique<Admitted>(*match.route, std::move(match.path), std::move(verdict.caller));
        return std::nullopt;
    }

    std::shared_ptr<api::Context> context_;
    api::Access access_;
};

/// The largest event number in the store. Doubles and then halves, because the store is asked for "after n" only.
Result<std::int64_t> newest_event(Reader& reader) {
    const auto any_after = [&reader](std::int64_t n) -> Result<bool> {
        auto found = reader.events(JobId{}, n, 1);
        if (!found) return fail(std::move(found).error());
        return !found->empty();
    };
    std::int64_t low = 0;   // there is something at or above it (or nothing at all)
    std::int64_t high = 1;
    for (;;) {
        const auto more = any_after(high);
        if (!more) return fail(more.error());
        if (!*more) break;
        low = high;
        if (high > (std::int64_t{1} << 61)) break;
        high *= 2;
    }
    while (low < high) {  // the smallest n with nothing after it
        const auto middle = low + (high - low) / 2;
        const auto more = any_after(middle);
        if (!more) return fail(more.error());
        if (*more) low = middle + 1;
        else high = middle;
    }
    return high;
}

}  // namespace

struct ApiServer::Impl {
    Impl(http::Loop& loop, CorePort& core, ServerOptions options)
        : context(std::make_shared<api::Context>(loop, core, std::move(options))), service(context) {}
    std::shared_ptr<api::Context> context;
    RestService service;
    std::unique_ptr<http::Listener> tcp;
    std::unique_ptr<http::Listener> unix_socket;
};

ApiServer::ApiServer(http::Loop& loop, CorePort& core, ServerOptions options)
    : impl_(std::make_shared<Impl>(loop, core, std::move(options))) {}

ApiServer::~ApiServer() { stop(); }

Result<void> ApiServer::start() {
    auto& context = *impl_->context;
    const auto& options = context.options;
    auto opened = options.open_reader();
    if (!opened) return fail(std::move(opened).error());
    context.reader = *std::move(opened);
    const auto newest = newest_event(*context.reader);
    if (!newest) return fail(newest.error());
    context.last_event = *newest;
    if (auto made = http::make_folders(options.data_dir + "/blobs"); !made) return made;
    if (auto made = http::make_folders(options.data_dir + "/logs"); !made) return made;
    api::remove_unfinished_blobs(options.data_dir);
    context.connections = [impl = impl_.get()] {
        return (impl->tcp ? impl->tcp->connections() : 0) + (impl->unix_socket ? impl->unix_socket->connections() : 0);
    };
    // A follower takes two descriptors, its socket and the log: a third of what the process may have, so that the store, the
    // agents and the providers are never without.
    const int connections_max = std::min(options.connections_max, std::max(16, http::raise_descriptor_limit() / 3));
    http::ListenOptions how{.connections_max = connections_max,
                            .streams_max = std::min(options.streams_max, std::max(8, connections_max / 2))};
    // The daemon's own time, by which its records are dated: what a client compares them with.
    how.now = [core = &context.core] { return core->now(); };
    if (!options.listen.empty()) {
        how.address = options.listen;
        how.tls = options.tls;
        impl_->tcp = std::make_unique<http::Listener>(context.loop, impl_->service, how);
        if (auto listening = impl_->tcp->start(); !listening) return listening;
    }
    if (!options.socket_path.empty()) {
        how.address.clear();
        how.tls = nullptr;
        how.unix_path = options.socket_path;
        impl_->unix_socket = std::make_unique<http::Listener>(context.loop, impl_->service, how);
        if (auto listening = impl_->unix_socket->start(); !listening) return listening;
    }
    return {};
}

void ApiServer::stop() {
    if (impl_->tcp) impl_->tcp->stop();
    if (impl_->unix_socket) impl_->unix_socket->stop();
}

std::uint16_t ApiServer::port() const { return impl_->tcp ? impl_->tcp->port() : 0; }

void ApiServer::events_committed(std::int64_t last_seq) {
    auto& known = impl_->context->last_event;
    auto before = known.load();
    while (before < last_seq && !known.compare_exchange_weak(before, last_seq)) {}
    impl_->context->wakeups->notify("events");
}

void ApiServer::log_grew(const JobId& job) { impl_->context->wakeups->notify("log/" + job.get()); }

}  // namespace gf
