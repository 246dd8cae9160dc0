// A job's log: raw bytes, lines as JSON, or followed as server-sent events.
//
// Followed, the concatenated data of the messages is the log (bad UTF-8 replaced, line ends as the format has them); the id
// of each is the offset after it, which is what Last-Event-ID brings back. With format=json each message is an object with
// the text exact. Two further events: `attempt` when the text goes on with another attempt, `end` when nothing more comes.
#include <charconv>

#include "daemon/api/event_stream.hpp"
#include "daemon/api/handlers.hpp"
#include "daemon/api/job_log.hpp"
#include "daemon/api/json_views.hpp"
#include "daemon/api/utf8_repair.hpp"

namespace gf::api {
namespace {

constexpr std::size_t kPiece = 64 * 1024;           // bytes read in one turn of the loop
constexpr std::size_t kJsonBytesMax = 1 << 20;      // bytes of log in one JSON answer
constexpr std::size_t kLineBytesMax = 64 * 1024;    // a longer line is given in several items, cut between characters

struct Wanted {
    int attempt{0};
    std::int64_t offset{0};
    bool follow{false};
    bool as_json{false};
    std::size_t lines{1000};
};

Result<Wanted> wanted_of(const http::Request& request) {
    Wanted wanted;
    const auto attempt = number_in_query(request, "attempt", 0, 1, 1'000'000);
    if (!attempt) return fail(attempt.error());
    const auto offset = number_in_query(request, "offset", 0, 0, std::int64_t{1} << 60);
    if (!offset) return fail(offset.error());
    const auto follow = flag_in_query(request, "follow");
    if (!follow) return fail(follow.error());
    const auto lines = number_in_query(request, "limit", 1000, 1, 10'000);
    if (!lines) return fail(lines.error());
    const auto* format = request.query_value("format");
    if (format != nullptr && *format != "json" && *format != "raw")
        return fail(Error{.kind = ErrorKind::malformed, .message = "format must be raw or json", .field = "format"});
    wanted.attempt = static_cast<int>(*attempt);
    wanted.offset = *offset;
    wanted.follow = *follow;
    wanted.as_json = format != nullptr && *format == "json";
    wanted.lines = static_cast<std::size_t>(*lines);
    if (const auto last = request.header("last-event-id"); wanted.follow && !last.empty()) {
        std::int64_t id = 0;
        const auto [stop, error] = std::from_chars(last.data(), last.data() + last.size(), id);
        if (error != std::errc{} || stop != last.data() + last.size() || id < 0)
            return fail(Error{.kind = ErrorKind::malformed, .message = "Last-Event-ID is a byte offset", .field = "Last-Event-ID"});
        wanted.offset = id;
    }
    return wanted;
}

/// The bytes that are there now, over all parts.
class RawLog final : public http::BodyStream {
 public:
    RawLog(JobLog log, LogPlace place, std::int64_t left) : log_(std::move(log)), place_(place), left_(left) {}

    State next(std::string& out) override {
        if (left_ == 0) return State::end;
        auto bytes = log_.read(place_.part, place_.offset, std::min<std::size_t>(256 * 1024, static_cast<std::size_t>(left_)));
        if (!bytes) return State::broken;
        if (bytes->empty()) {
            if (place_.part + 1 >= log_.parts().size()) return State::broken;  // shorter than when it was measured
            ++place_.part;
            place_.offset = 0;
            return State::more;
        }
        place_.offset += static_cast<std::int64_t>(bytes->size());
        left_ -= static_cast<std::int64_t>(bytes->size());
        out += *bytes;
        return left_ == 0 ? State::end : State::more;
    }
    [[nodiscard]] bool blocking() const override { return true; }

 private:
    JobLog log_;
    LogPlace place_;
    std::int64_t left_;
};

std::int64_t size_from(const JobLog& log, const LogPlace& place) {
    std::int64_t total = -place.offset;
    for (auto i = place.part; i < log.parts().size(); ++i) total += log.size_of(i);
    return std::max<std::int64_t>(0, total);
}

http::Response raw_answer(JobLog log, std::int64_t offset) {
    const auto place = find_place(log, offset);
    const auto left = size_from(log, place);
    http::Response response;
    response.content_type = "text/plain; charset=utf-8";
    response.headers.emplace_back("Gpuferry-Log-Offset", std::to_string(place.before + place.offset));
    response.headers.emplace_back("Gpuferry-Log-Size", std::to_string(place.before + place.offset + left));
    response.stream_length = left;
    response.stream = std::make_unique<RawLog>(std::move(log), place, left);
    return response;
}

Json line_view(int attempt, std::int64_t offset, std::string_view bytes) {
    Utf8Repair repair;
    std::string text;
    repair.feed(bytes, text);
    repair.finish(text);
    Json out;
    out["attempt"] = attempt;
    out["offset"] = offset;
    out["text"] = std::move(text);
    return out;
}

/// Bytes at the end that begin a character and do not end it.
std::size_t unfinished_bytes(std::string_view bytes) {
    Utf8Repair repair;
    std::string ignored;
    repair.feed(bytes, ignored);
    return repair.held();
}

/// Whole lines from `offset` on; a last line without its end is given once nothing can be added to it, or when it is too long
/// to wait for its end.
http::Response json_answer(JobLog log, const Wanted& wanted) {
    auto place = find_place(log, wanted.offset);
    std::vector<Json> items;
    std::size_t taken = 0;
    bool whole = false;
    while (items.size() < wanted.lines && taken < kJsonBytesMax) {
        auto bytes = log.read(place.part, place.offset, kLineBytesMax);
        if (!bytes) return http::problem(bytes.error());
        const bool part_over = place.part + 1 < log.parts().size() || log.over();
        if (bytes->empty()) {
            whole = place.part + 1 >= log.parts().size();
            if (whole) break;
            place.before += place.offset;
            place.offset = 0;
            ++place.part;
            continue;
        }
        std::size_t used = 0;
        const int number = log.parts()[place.part].number;
        while (used < bytes->size() && items.size() < wanted.lines) {
            const auto end = bytes->find('\n', used);
            const bool cut = end == std::string::npos;
            if (cut && used > 0) break;                                            // read on from the line's beginning
            if (cut && bytes->size() < kLineBytesMax && !part_over) break;         // may still grow
            auto length = (cut ? bytes->size() : end) - used;
            if (cut && bytes->size() == kLineBytesMax) length -= unfinished_bytes(std::string_view(*bytes).substr(used));
            items.push_back(line_view(number, place.before + place.offset + static_cast<std::int64_t>(used),
                                      std::string_view(*bytes).substr(used, length)));
            used += length + (cut ? 0 : 1);
        }
        place.offset += static_cast<std::int64_t>(used);
        taken += used;
        if (used == 0) break;
    }
    Json out;
    out["items"] = Json::array();
    for (auto& item : items) out["items"].push_back(std::move(item));
    out["next_offset"] = place.before + place.offset;
    out["over"] = whole && log.over();
    out["next_cursor"] = nullptr;
    return http::json(200, dump(out));
}

class FollowLog final : public http::BodyStream {
 public:
    FollowLog(std::shared_ptr<Context> api, JobLog log, const Wanted& wanted)
        : api_(std::move(api)), log_(std::move(log)), place_(find_place(log_, wanted.offset)), as_json_(wanted.as_json) {}

    void on_wake(std::function<void()> wake) override {
        subscription_ = api_->wakeups->subscribe("log/" + log_.job().get(), std::move(wake));
    }

    State next(std::string& out) override {
        if (!started_) {
            started_ = true;
            out += "retry: 1000\n\n";
            if (!log_.parts().empty()) tell_attempt(out);
        }
        auto bytes = log_.read(place_.part, place_.offset, kPiece);
        if (!bytes) return State::broken;
        if (!bytes->empty()) {
            emit(out, *bytes);
            heartbeat_.wrote();
            return State::more;
        }
        // At the end of what is there. Which attempts there are is read before the last look at the file, so that no
        // byte can come in between: an attempt that has ended gets none.
        if (settled_) {
            settled_ = false;
            if (place_.part + 1 < log_.parts().size()) {
                flush(out);
                place_.before += place_.offset;
                place_.offset = 0;
                ++place_.part;
                tell_attempt(out);
                return State::more;
            }
            if (log_.over()) {
                flush(out);
                append_event(out, position(), "end", "{}");
                return State::end;
            }
            heartbeat_.beat(out);
            return State::wait;
        }
        const auto had = log_.parts().size();
        if (!log_.refresh(*api_->reader)) return State::broken;
        if (had == 0 && !log_.parts().empty()) tell_attempt(out);
        settled_ = true;
        return State::more;
    }
    [[nodiscard]] bool follows() const override { return true; }
    [[nodiscard]] Millis idle() const override { return Seconds{1}; }

 private:
    [[nodiscard]] std::int64_t position() const {
        return place_.before + place_.offset - static_cast<std::int64_t>(repair_.held());
    }
    void tell_attempt(std::string& out) const {
        Json data;
        data["attempt"] = log_.parts().at(place_.part).number;
        data["offset"] = position();
        append_event(out, position(), "attempt", dump(data));
    }
    void emit(std::string& out, std::string_view bytes) {
        const auto from = position();
        std::string text;
        repair_.feed(bytes, text);
        place_.offset += static_cast<std::int64_t>(bytes.size());
        message(out, from, std::move(text));
    }
    void flush(std::string& out) {
        const auto from = position();
        std::string text;
        repair_.finish(text);
        message(out, from, std::move(text));
    }
    void message(std::string& out, std::int64_t from, std::string text) const {
        if (text.empty()) return;
        if (!as_json_) return append_event(out, position(), {}, text);
        Json data;
        data["attempt"] = log_.parts().at(place_.part).number;
        data["offset"] = from;
        data["text"] = std::move(text);
        append_event(out, position(), {}, dump(data));
    }

    std::shared_ptr<Context> api_;
    JobLog log_;
    LogPlace place_;
    bool as_json_;
    bool started_{false};
    bool settled_{false};
    Utf8Repair repair_;
    Heartbeat heartbeat_;
    http::Wakeups::Subscription subscription_;
};

}  // namespace

void read_log(Call call) {
    const auto wanted = wanted_of(call.request);
    if (!wanted) return fail_with(call, wanted.error());
    const auto job = find_job(call);
    if (!job) return;
    JobLog log(call.context().options.data_dir, job->id, wanted->attempt);
    if (const auto known = log.refresh(call.reader()); !known) return fail_with(call, known.error());
    if (wanted->attempt != 0 && log.parts().empty())
        return call.answer(http::problem(404, job->id.get() + " has no attempt " + std::to_string(wanted->attempt)));
    if (wanted->follow) {
        http::Response response;
        response.content_type = "text/event-stream";
        response.stream = std::make_unique<FollowLog>(call.api, std::move(log), *wanted);
        return call.answer(std::move(response));
    }
    const auto shared = std::make_shared<JobLog>(std::move(log));
    in_background(std::move(call), [shared, wanted = *wanted](const Call&, Reader&) {
        return wanted.as_json ? json_answer(std::move(*shared), wanted) : raw_answer(std::move(*shared), wanted.offset);
    });
}

}  // namespace gf::api
