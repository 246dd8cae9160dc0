#include "cli/log_follow.hpp"

#include <fmt/core.h>
#include <fmt/ostream.h>
#include <openssl/evp.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "cli/exit_code.hpp"
#include "cli/job_watch.hpp"
#include "cli/json_read.hpp"

namespace gf::cli {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr auto kDaemonAway = 10min;
constexpr auto kPauseMin = 200ms;
constexpr auto kPauseMax = 5s;

std::optional<std::string> base64_decoded(const std::string& text) {
    if (text.size() % 4 != 0) return std::nullopt;
    std::string bytes(text.size() / 4 * 3, '\0');
    const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                     reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
    if (size < 0) return std::nullopt;
    const auto padding = static_cast<std::size_t>(text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0);
    bytes.resize(static_cast<std::size_t>(size) - padding);
    return bytes;
}

/// Where the reading stands; survives reconnects.
struct Position {
    std::string attempt;
    std::int64_t offset{0};
};

struct Stream {
    Context& context;
    Position& at;
    bool ended{false};          // the server said that the log is over
    bool unexpected{false};
    bool any{false};

    void write(std::string_view bytes) {
        context.env.out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        context.env.out.flush();
    }

    /// One piece of the log. Bytes below the position were seen before the cut and are dropped.
    bool piece(const json& data) {
        if (const auto attempt = text_of(data, "attempt"); !attempt.empty() && attempt != at.attempt) {
            if (!at.attempt.empty()) at.offset = 0;
            at.attempt = attempt;
        }
        std::string bytes = text_of(data, "text");
        if (const auto coded = text_of(data, "base64"); !coded.empty()) {
            auto decoded = base64_decoded(coded);
            if (!decoded) return !(unexpected = true);
            bytes = *std::move(decoded);
        }
        const auto offset = whole_of(data, "offset").value_or(at.offset);
        const auto end = offset + static_cast<std::int64_t>(bytes.size());
        if (offset > at.offset)
            fmt::print(context.env.err, "\n[{} bytes of the log are missing here]\n", offset - at.offset);
        if (end > at.offset) {
            const auto seen = std::max<std::int64_t>(0, at.offset - offset);
            write(std::string_view(bytes).substr(static_cast<std::size_t>(seen)));
            at.offset = end;
        }
        any = true;
        return !context.env.out.fail();
    }

    bool take(const SseEvent& event) {
        if (event.name == "end") {
            ended = true;
            return false;
        }
        const auto data = json::parse(event.data, nullptr, false);
        if (data.is_discarded()) return !(unexpected = true);
        return piece(data);
    }
};

/// Reads what is left after the last event, when the job ended while nobody was connected.
void read_rest(Context& context, const Position& at, const std::string& job) {
    Call call{.path = path_of({"v1", "jobs", job, "logs"},
                              {{"attempt", at.attempt}, {"offset", std::to_string(at.offset)}}),
              .total = 0ms};
    call.sink = [&context](std::string_view bytes) {
        context.env.out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        return !context.env.out.fail();
    };
    static_cast<void>(context.client.send(call));
    context.env.out.flush();
}

}  // namespace

Outcome<bool> follow_log(Context& context, const FollowOptions& options) {
    Position at{.attempt = options.attempt, .offset = options.offset};
    std::chrono::milliseconds pause = kPauseMin;
    auto away = 0ms;
    bool said = false;
    while (true) {
        Stream stream{.context = context, .at = at};
        SseReader reader;
        Call call{.path = path_of({"v1", "jobs", options.job, "logs"}, {{"follow", "1"},
                                                                        {"attempt", at.attempt},
                                                                        {"offset", std::to_string(at.offset)}}),
                  .headers = {{"Accept", "text/event-stream"}},
                  .total = 0ms,
                  .stall = 90s};
        call.sink = [&](std::string_view bytes) {
            return reader.feed(bytes, [&](const SseEvent& event) { return stream.take(event); });
        };
        auto answer = context.client.send(call);
        if (was_interrupted(context.env)) return false;
        if (context.env.out.fail()) return true;  // the reader of our output has left
        if (stream.unexpected) return failed(kExitUnexpected, "the daemon sent a log event that cannot be read");
        if (answer && answer->status >= 300 && answer->status < 500) return std::unexpected(refusal(*answer, "GET logs"));
        if (stream.ended) return true;
        if (stream.any || (answer && answer->status < 300)) {
            pause = kPauseMin;
            away = 0ms;
            said = false;
        }
        auto job = context.client.get_json(path_of({"v1", "jobs", options.job}));
        if (job && is_final_state(text_of(*job, "state"))) {
            read_rest(context, at, options.job);
            return true;
        }
        if (!answer && !said) {
            fmt::print(context.env.err, "[log cut: {}; connecting again at byte {}]\n", shown(answer.error().text), at.offset);
            said = true;
        }
        if (!answer && away > kDaemonAway) return std::unexpected(std::move(answer).error());
        context.env.sleep(pause);
        if (was_interrupted(context.env)) return false;
        away += pause;
        pause = std::min<std::chrono::milliseconds>(pause * 2, kPauseMax);
    }
}

}  // namespace gf::cli
