#include "cli/log_follow.hpp"

#include <fmt/core.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string_view>

#include "cli/exit_code.hpp"
#include "cli/json_read.hpp"
#include "cli/sse.hpp"

namespace gf::cli {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr auto kDaemonAway = 10min;
constexpr std::chrono::milliseconds kPauseMin = 200ms;
constexpr std::chrono::milliseconds kPauseMax = 5s;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD stands for bytes that were no UTF-8

std::optional<std::int64_t> offset_of(const std::string& id) {
    const auto number = json::parse(id, nullptr, false);
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() > (1ULL << 60)) return std::nullopt;
    return number.get<std::int64_t>();
}

/// One job's log as it arrives; lives through reconnects.
class Follower {
 public:
    Follower(Context& context, const FollowOptions& options)
        : context_(context),
          options_(options),
          at_(options.offset),
          raw_(context.client.endpoint(), context.env) {}

    Outcome<bool> run();

 private:
    enum class Next { more, over, again, broken, gone };

    Next take(const SseEvent& event);
    Next bytes_until(const json& message, std::int64_t end);
    Next object_until(const json& message, std::int64_t end);
    Next fetch_raw(std::int64_t end);
    void write(std::string_view bytes);
    [[nodiscard]] std::string path(std::int64_t offset, bool follow) const;

    Context& context_;
    const FollowOptions& options_;
    std::int64_t at_;  // everything before it is on standard output
    Client raw_;       // a second connection, because the first is inside its callback
    std::optional<Failure> trouble_;
};

std::string Follower::path(std::int64_t offset, bool follow) const {
    return path_of({"v1", "jobs", options_.job, "logs"}, {{"attempt", options_.attempt},
                                                          {"offset", std::to_string(offset)},
                                                          {"follow", follow ? "1" : ""},
                                                          {"format", follow ? "json" : ""}});
}

void Follower::write(std::string_view bytes) {
    context_.env.out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    context_.env.out.flush();
    at_ += static_cast<std::int64_t>(bytes.size());
}

Follower::Next Follower::fetch_raw(std::int64_t end) {
    Call call{.path = path(at_, false), .total = 0ms};
    call.sink = [&](std::string_view bytes) {
        const auto wanted = static_cast<std::size_t>(end - at_);
        write(bytes.substr(0, std::min(bytes.size(), wanted)));
        return at_ < end && !context_.env.out.fail();
    };
    const auto answer = raw_.send(call);
    if (answer && answer->status >= 300) trouble_ = refusal(*answer, "GET logs");
    if (trouble_) return Next::broken;
    return at_ >= end ? Next::more : Next::again;
}

Follower::Next Follower::object_until(const json& message, std::int64_t end) {
    context_.env.out << one_line(message) << "\n";
    context_.env.out.flush();
    at_ = end;
    return context_.env.out.fail() ? Next::gone : Next::more;
}

Follower::Next Follower::bytes_until(const json& message, std::int64_t end) {
    const auto& member_text = member(message, "text");
    const auto from = whole_of(message, "offset");
    if (!member_text.is_string() || !from || end < *from) {
        trouble_ = Failure{.exit_code = kExitUnexpected,
                           .text = "the daemon sent a log message that cannot be read"};
        return Next::broken;
    }
    if (end <= at_) return Next::more;  // seen before a cut
    if (context_.json) return object_until(message, end);
    const std::string_view text = member_text.get_ref<const std::string&>();
    const bool exact = static_cast<std::int64_t>(text.size()) == end - *from &&
                       text.find(kReplacement) == std::string_view::npos;
    if (exact && *from <= at_)
        write(text.substr(static_cast<std::size_t>(at_ - *from)));
    else if (const auto next = fetch_raw(end); next != Next::more)
        return next;
    return context_.env.out.fail() ? Next::gone : Next::more;
}

Follower::Next Follower::take(const SseEvent& event) {
    if (event.name == "end") return Next::over;
    if (event.name != "message") return Next::more;  // "attempt", and what later daemons may add
    const auto end = offset_of(event.id);
    const auto message = json::parse(event.data, nullptr, false);
    return bytes_until(message, end.value_or(-1));
}

Outcome<bool> Follower::run() {
    auto pause = kPauseMin;
    std::chrono::milliseconds away{0};
    bool said = false;
    while (true) {
        SseReader reader;
        auto next = Next::more;
        const auto before = at_;
        Call call{.path = path(at_, true),
                  .headers = {{"Accept", "text/event-stream"}},
                  .total = 0ms,
                  .stall = 90s};
        call.sink = [&](std::string_view bytes) {
            const bool readable = reader.feed(bytes, [&](const SseEvent& event) {
                next = take(event);
                return next == Next::more;
            });
            if (!readable && next == Next::more) {
                trouble_ = Failure{.exit_code = kExitUnexpected,
                                   .text = "the daemon sent an event line without an end"};
                next = Next::broken;
            }
            return next == Next::more;
        };
        auto answer = context_.client.send(call);
        if (was_interrupted(context_.env)) return false;
        if (next == Next::over || next == Next::gone) return true;
        if (trouble_) return std::unexpected(*std::move(trouble_));
        if (answer && answer->status >= 300 && answer->status < 500)
            return std::unexpected(refusal(*answer, "GET logs"));
        const bool served = answer && answer->status < 300;
        if (at_ > before || served) {
            pause = kPauseMin;
            away = 0ms;
            said = false;
        }
        auto failure = answer ? refusal(*answer, "GET logs") : std::move(answer).error();
        if (!served && !said) {
            fmt::print(context_.env.err, "[log cut: {}; connecting again at byte {}]\n", shown(failure.text),
                       at_);
            said = true;
        }
        if (away > kDaemonAway) return std::unexpected(std::move(failure));
        context_.env.sleep(pause);
        if (was_interrupted(context_.env)) return false;
        away += pause;
        pause = std::min(pause * 2, kPauseMax);
    }
}

}  // namespace

Outcome<bool> follow_log(Context& context, const FollowOptions& options) {
    return Follower(context, options).run();
}

}  // namespace gf::cli
