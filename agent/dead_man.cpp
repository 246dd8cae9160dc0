#include "agent/dead_man.hpp"

#include <nlohmann/json.hpp>

#include "agent/bulk_client.hpp"
#include "agent/log.hpp"

namespace gf::agent {
namespace {

// With the reserved time over, a daemon that was heard this recently is left to end the machine itself.
constexpr Millis kRecently{120'000};

std::string value_of(const std::map<std::string, std::string>& env, const std::string& name, const std::string& otherwise = {}) {
    const auto found = env.find(name);
    return found == env.end() || found->second.empty() ? otherwise : found->second;
}

}  // namespace

DeadManVerdict dead_man_verdict(const DeadManClock& clock, Millis now) {
    const Millis silent = now - clock.last_contact;
    if (silent >= clock.silence_max) return DeadManVerdict::end_machine;
    if (!clock.reserved_end || now < *clock.reserved_end) return DeadManVerdict::alive;
    return silent < std::min(kRecently, clock.silence_max) ? DeadManVerdict::stop_job : DeadManVerdict::end_machine;
}

std::vector<SelfEndCall> self_end_calls(const std::map<std::string, std::string>& env, bool data_unsent) {
    std::vector<SelfEndCall> calls;
    // Vast: a key that can stop and destroy its own instance only (providers/vastai.md). A stopped one keeps its disk, which
    // bills little and holds what could not be sent.
    const auto vast_id = value_of(env, "CONTAINER_ID");
    const Secret vast_key(value_of(env, "CONTAINER_API_KEY"));
    if (!vast_id.empty() && !vast_key.empty()) {
        const auto base = value_of(env, "VAST_API_URL", "https://console.vast.ai");
        const auto target = "/api/v0/instances/" + vast_id + "/";
        if (data_unsent)
            calls.push_back({.what = "Vast: stop", .base = base, .method = "PUT", .target = target, .body = R"({"state":"stopped"})", .bearer = vast_key});
        else
            calls.push_back({.what = "Vast: destroy", .base = base, .method = "DELETE", .target = target, .body = "{}", .bearer = vast_key});
    }
    // RunPod: a pod-scoped key. That it may terminate by REST v2 is not confirmed; by GraphQL it may (until 2027).
    const auto pod = value_of(env, "RUNPOD_POD_ID");
    const Secret pod_key(value_of(env, "RUNPOD_API_KEY"));
    if (!pod.empty() && !pod_key.empty()) {
        calls.push_back({.what = "RunPod: terminate", .base = value_of(env, "RUNPOD_API_URL", "https://api.runpod.io/v2"),
                         .method = "DELETE", .target = "/pods/" + pod, .body = {}, .bearer = pod_key});
        const nlohmann::json query = {{"query", "mutation { podTerminate(input: {podId: \"" + pod + "\"}) }"}};
        calls.push_back({.what = "RunPod: terminate by GraphQL", .base = value_of(env, "RUNPOD_GRAPHQL_URL", "https://api.runpod.io/graphql"),
                         .method = "POST", .target = "", .body = query.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), .bearer = pod_key});
    }
    return calls;
}

bool end_this_machine(const std::vector<SelfEndCall>& calls, int rounds, const std::function<bool()>& stop) {
    RetryPause pause;
    for (int round = 0; round < rounds && !stop(); ++round) {
        for (const auto& call : calls) {
            const auto url = parse_url(call.base);
            if (!url || (!url->tls && !url->is_loopback())) continue;
            HttpClient http(*url, {});
            http.cancelled = stop;
            const auto answer = http.call({.method = call.method,
                                           .target = call.target,
                                           .headers = {{"Authorization", "Bearer " + call.bearer.reveal()},
                                                       {"Content-Type", "application/json"}},
                                           .body = call.body});
            const bool graphql_error = answer && call.method == "POST" && answer->body.find("\"errors\"") != std::string::npos;
            log("warn", "dead-man switch: " + call.what + ": " +
                            (answer ? "status " + std::to_string(answer->status) : answer.error().message));
            // "Not found" is never a success: this machine exists, and both clouds say 404 for a key without the right to it.
            if (answer && !graphql_error && answer->status >= 200 && answer->status < 300) return true;
        }
        if (!pause.wait(stop)) return false;
    }
    return false;
}

}  // namespace gf::agent
