// The history as server-sent events. The id of each is its number; a reader that comes back with Last-Event-ID goes on after
// it, or gets `reset` when the store does not have what came after it any more (or never had: a store that was rolled back).
#include <charconv>

#include "daemon/api/event_stream.hpp"
#include "daemon/api/handlers.hpp"
#include "daemon/api/json_views.hpp"

namespace gf::api {
namespace {

constexpr int kEventsPerTurn = 100;

class FollowEvents final : public http::BodyStream {
 public:
    FollowEvents(std::shared_ptr<Context> api, std::int64_t after, bool reset)
        : api_(std::move(api)), after_(after), reset_(reset) {}

    void on_wake(std::function<void()> wake) override { subscription_ = api_->wakeups->subscribe("events", std::move(wake)); }

    State next(std::string& out) override {
        if (!started_) {
            started_ = true;
            out += "retry: 1000\n\n";
            if (reset_) append_event(out, after_, "reset", "{}");
        }
        const auto rows = api_->reader->events(JobId{}, after_, kEventsPerTurn);
        if (!rows) return State::broken;
        for (const auto& row : *rows) {
            append_event(out, row.seq, {}, dump(event_view(row)));
            after_ = row.seq;
        }
        if (!rows->empty()) heartbeat_.wrote();
        else heartbeat_.beat(out);
        return static_cast<int>(rows->size()) == kEventsPerTurn ? State::more : State::wait;
    }
    [[nodiscard]] bool follows() const override { return true; }
    [[nodiscard]] Millis idle() const override { return Seconds{1}; }

 private:
    std::shared_ptr<Context> api_;
    std::int64_t after_;
    bool reset_;
    bool started_{false};
    Heartbeat heartbeat_;
    http::Wakeups::Subscription subscription_;
};

}  // namespace

void follow_events(Call call) {
    auto& context = call.context();
    const auto newest = context.last_event.load();
    const auto asked = number_in_query(call.request, "after", -1, 0, std::int64_t{1} << 60);
    if (!asked) return fail_with(call, asked.error());
    std::int64_t after = *asked;
    if (const auto last = call.request.header("last-event-id"); !last.empty()) {
        const auto [stop, error] = std::from_chars(last.data(), last.data() + last.size(), after);
        if (error != std::errc{} || stop != last.data() + last.size() || after < 0)
            return fail_with(call, Error{.kind = ErrorKind::malformed, .message = "Last-Event-ID is the number of an event", .field = "Last-Event-ID"});
    }
    bool reset = false;
    if (after < 0) {
        after = newest;
    } else {
        const auto oldest = call.reader().events(JobId{}, 0, 1);
        if (!oldest) return fail_with(call, oldest.error());
        const bool pruned = !oldest->empty() && after + 1 < oldest->front().seq && after > 0;
        bool ahead = false;
        if (after > newest) {  // the store may be newer than what we were told: look at it before saying so
            const auto there = call.reader().events(JobId{}, after - 1, 1);
            if (!there) return fail_with(call, there.error());
            ahead = there->empty();
        }
        reset = pruned || ahead;
        if (reset) after = newest;
    }
    http::Response response;
    response.content_type = "text/event-stream";
    response.stream = std::make_unique<FollowEvents>(call.api, after, reset);
    call.answer(std::move(response));
}

}  // namespace gf::api
