#include "agent/log_shipper.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "agent/clock.hpp"
#include "agent/log.hpp"

namespace gf::agent {
namespace {

constexpr std::size_t kBodyBytes = 512 * 1024;
constexpr Millis kLookEvery{100};

}  // namespace

LogShipper::LogShipper(std::unique_ptr<BulkClient> bulk, Order order)
    : bulk_(std::move(bulk)), order_(std::move(order)), spool_(order_.spool) {
    bulk_->set_cancelled([this] { return stopping_.load(); });
    thread_ = std::thread([this] { run(); });
}

LogShipper::~LogShipper() {
    stopping_ = true;
    thread_.join();
}

void LogShipper::finish(std::int64_t total) { total_ = total; }

void LogShipper::run() {
    const auto stop = [this] { return stopping_.load(); };
    RetryPause pause;
    bool asked = !order_.ask_first;
    while (!stopping_ && !done_) {
        if (!asked) {
            const auto answer = post("?offset=0", {});
            if (!answer) {
                pause.wait(stop);
                continue;
            }
            at_ = *answer;
            asked = true;
        }
        auto shipped = ship_some();
        if (fenced_) {
            done_ = true;
            order_.fenced();
            return;
        }
        if (!shipped) {
            log("info", "log: " + shipped.error().message);
            pause.wait(stop);
            continue;
        }
        pause.reset();
        if (*shipped) continue;
        if (total_ >= 0 && at_ >= total_) {
            done_ = true;
            return;
        }
        std::this_thread::sleep_for(kLookEvery);
    }
}

Result<bool> LogShipper::ship_some() {
    const std::int64_t at = at_;
    const std::int64_t total = total_;
    const bool growing = total < 0;
    if (growing && at >= order_.limits.head_max) return false;
    auto piece = spool_.read(at, kBodyBytes);
    std::int64_t next = 0;
    if (!piece || piece->offset > at) {
        // A hole: the quota has dropped it, or the disk was full. Before the end of the output a hole may still grow, so
        // only one that has bytes behind it (below the head there are no other) or the end is told.
        const std::int64_t until = piece ? piece->offset : total;
        if (!piece && growing) return false;
        if (until <= at) return false;
        auto answer = post("?offset=" + std::to_string(at) + "&skip=" + std::to_string(until - at), {});
        if (!answer) return fail(answer.error());
        next = *answer;
    } else {
        if (growing) {
            const auto room = static_cast<std::size_t>(order_.limits.head_max - at);
            if (piece->bytes.size() > room) piece->bytes.resize(room);
        }
        auto answer = post("?offset=" + std::to_string(at), piece->bytes);
        if (!answer) return fail(answer.error());
        next = *answer;
    }
    if (next == at) return fail(ErrorKind::unavailable, "the daemon took nothing at offset " + std::to_string(at));
    at_ = next;
    const std::int64_t free_to = std::min(next, order_.keep_from ? order_.keep_from() : next);
    if (free_to - discarded_to_ > order_.limits.segment_max) {
        spool_.discard_before(free_to);
        discarded_to_ = free_to;
    }
    return true;
}

Result<std::int64_t> LogShipper::post(const std::string& query, std::string_view body) {
    auto answer = bulk_->call({.method = "POST",
                               .target = "/agent/log/" + order_.attempt + query,
                               .headers = {{"Content-Type", "application/octet-stream"}},
                               .body = body});
    if (!answer) return fail(answer.error());
    if (answer->status == 409) {
        fenced_ = true;
        return fail(ErrorKind::conflict, "log: the attempt is not ours any more");
    }
    const auto json = nlohmann::json::parse(answer->body, nullptr, false);
    if (answer->status != 200 || !json.is_object() || !json.contains("acked") || !json["acked"].is_number_integer())
        return fail(ErrorKind::unavailable, "log: status " + std::to_string(answer->status));
    const auto acked = json["acked"].get<std::int64_t>();
    if (acked < 0) return fail(ErrorKind::unavailable, "log: a negative length acknowledged");
    return acked;
}

}  // namespace gf::agent
