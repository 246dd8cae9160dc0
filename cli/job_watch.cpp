#include "cli/job_watch.hpp"

#include <fmt/core.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/exit_code.hpp"
#include "cli/explain_text.hpp"
#include "cli/json_read.hpp"
#include "cli/listing.hpp"
#include "model/enum_text.hpp"
#include "model/states.hpp"

namespace gf::cli {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr auto kDaemonAway = 10min;

std::string state_line(const json& job) {
    auto line = text_of(job, "state");
    if (const auto reason = text_of(job, "reason"); !reason.empty() && reason != line)
        line += " (" + reason + ")";
    if (const auto detail = text_of(job, "detail"); !detail.empty()) line += ": " + detail;
    return shown(line);
}

}  // namespace

bool is_final_state(const std::string& state) {
    const auto known = enum_from<JobState>(state);
    return known && is_final(*known);
}

int exit_status_of(const json& job) {
    if (text_of(job, "state") == "succeeded") return kExitOk;
    for (const char* key : {"exit_signal", "signal"})
        if (const auto signal = whole_of(job, key); signal && *signal > 0 && *signal < 128)
            return 128 + static_cast<int>(*signal);
    if (const auto code = whole_of(job, "exit_code"); code && *code > 0 && *code <= 255)
        return static_cast<int>(*code);
    return kExitRefused;
}

Outcome<json> wait_for_end(Context& context, const std::string& id) {
    std::string last;
    auto pause = 250ms;
    auto away = 0ms;
    while (true) {
        auto job = context.client.get_json(path_of({"v1", "jobs", id}));
        if (was_interrupted(context.env)) return failed(kExitOk, "detached");
        if (!job) {
            // A daemon that restarts does not disturb the job; a refusal will not get better by asking again.
            const bool may_pass = job.error().status == 0 || job.error().status >= 500;
            if (!may_pass || away > kDaemonAway) return std::unexpected(std::move(job).error());
            if (away == 0ms) fmt::print(context.env.err, "{}; asking again\n", shown(job.error().text));
            context.env.sleep(2s);
            away += 2s;
            continue;
        }
        away = 0ms;
        if (auto line = state_line(*job); line != last) {
            if (!context.json) fmt::print(context.env.err, "{}\n", line);
            last = std::move(line);
            pause = 250ms;
        }
        if (is_final_state(text_of(*job, "state"))) return job;
        context.env.sleep(pause);
        if (was_interrupted(context.env)) return failed(kExitOk, "detached");
        pause = std::min<std::chrono::milliseconds>(pause * 2, 2s);
    }
}

void show_first_offer(Context& context, const std::string& id, std::chrono::milliseconds patience) {
    std::string why;
    std::string state;
    for (auto waited = 0ms; waited <= patience; waited += 250ms) {
        auto job = context.client.get_json(path_of({"v1", "jobs", id}));
        if (!job || was_interrupted(context.env)) return;
        state = text_of(*job, "state");
        auto explained = context.client.get_json(path_of({"v1", "jobs", id, "explain"}));
        if (explained) {
            const auto& nested = member(*explained, "decision");
            const auto& decision = nested.is_object() ? nested : *explained;
            if (const auto& chosen = member(decision, "chosen"); chosen.is_object()) {
                const auto& offer = member(chosen, "offer").is_object() ? member(chosen, "offer") : chosen;
                const auto price = dollars_at(chosen, member(chosen, "all_in").is_null() ? "rate" : "all_in");
                fmt::print(context.env.out, "offer {} at {}/h all-in\n", shown(offer_line(offer)), price);
                return;
            }
            why = text_of(decision, "wait_reason");
            if (why.empty()) why = text_of(*explained, "reason");
        }
        if (is_final_state(state)) {
            fmt::print(context.env.out, "{}\n", state_line(*job));
            return;
        }
        context.env.sleep(250ms);
    }
    fmt::print(context.env.out, "{}: no offer yet{}; gpuferry explain {} tells more\n", shown(state),
               why.empty() ? "" : " (" + shown(why) + ")", shown(id));
}

}  // namespace gf::cli
