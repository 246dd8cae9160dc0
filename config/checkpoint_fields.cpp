#include <array>

#include "config/job_fields.hpp"

namespace gf {
namespace {

constexpr Millis kMonth = std::chrono::hours{30 * 24};
constexpr Millis kYear = std::chrono::hours{366 * 24};

void read_every(Walk& walk, const Node& node, JobDraft& draft) {
    if (node.kind == Node::Kind::scalar && node.text == "auto") {
        draft.spec.checkpoint.every.reset();
        return;
    }
    const auto value = node.kind == Node::Kind::scalar ? parse_duration(node.text) : std::nullopt;
    if (value && *value >= Seconds{1} && *value <= std::chrono::hours{7 * 24})
        draft.spec.checkpoint.every = value;
    else
        walk.wrong(node, "auto, or a duration from 1s to 7d (\"90s\", \"15m\")");
}

void read_patterns(Walk& walk, const Node& node, std::vector<std::string>& into) {
    walk.list(node, 64, [&](const Node& item) {
        if (auto pattern = folder_path(walk, item)) into.push_back(std::move(*pattern));
    });
}

std::optional<std::string> file_name(Walk& walk, const Node& node) {
    auto name = line_text(walk, node, 255);
    if (name && (name->find('/') != std::string::npos || *name == "." || *name == "..")) {
        walk.wrong(node, "the name of a file, without a folder");
        return std::nullopt;
    }
    return name;
}

constexpr auto kTrigger = std::to_array<JobField>({
    {"touch",
     [](Walk& w, const Node& n, JobDraft& d) {
         if (auto v = folder_path(w, n)) d.spec.checkpoint.trigger_touch = std::move(*v);
     }},
});

constexpr auto kCheckpoint = std::to_array<JobField>({
    {"path",
     [](Walk& w, const Node& n, JobDraft& d) {
         if (auto v = folder_path(w, n)) d.spec.checkpoint.path = std::move(*v);
     }},
    {"every", read_every},
    {"keep",
     [](Walk& w, const Node& n, JobDraft& d) {
         if (const auto v = w.integer(n, 1, 1'000)) d.spec.checkpoint.keep = static_cast<int>(*v);
     }},
    {"signal",
     [](Walk& w, const Node& n, JobDraft& d) {
         constexpr std::array<std::string_view, 6> names{"SIGTERM", "SIGINT", "SIGUSR1",
                                                         "SIGUSR2", "SIGHUP", "SIGQUIT"};
         if (auto v = w.one_of(n, names)) d.spec.checkpoint.signal = std::move(*v);
     }},
    {"signal_to",
     [](Walk& w, const Node& n, JobDraft& d) {
         constexpr std::array<std::string_view, 2> names{"group", "leader"};
         if (const auto v = w.one_of(n, names)) d.spec.checkpoint.signal_leader_only = *v == "leader";
     }},
    {"grace",
     [](Walk& w, const Node& n, JobDraft& d) {
         if (const auto v = w.duration(n, Millis{0}, std::chrono::hours{1})) d.spec.checkpoint.grace = *v;
     }},
    {"marker",
     [](Walk& w, const Node& n, JobDraft& d) {
         if (auto v = file_name(w, n)) d.spec.checkpoint.marker = std::move(*v);
     }},
    {"incomplete",
     [](Walk& w, const Node& n, JobDraft& d) {
         if (auto v = file_name(w, n)) d.spec.checkpoint.incomplete = std::move(*v);
     }},
    {"unit", [](Walk& w, const Node& n, JobDraft& d) { read_patterns(w, n, d.spec.checkpoint.unit); }},
    {"exclude", [](Walk& w, const Node& n, JobDraft& d) { read_patterns(w, n, d.spec.checkpoint.exclude); }},
    {"trigger", [](Walk& w, const Node& n, JobDraft& d) { read_section<JobDraft>(w, n, kTrigger, d); }},
});

constexpr char kDeadline[] = "use limits.duration";
constexpr char kBudget[] = "use limits.duration and resources.max_price";

constexpr auto kLimits = std::to_array<JobField>({
    {"budget", reserved<kBudget>},
    {"duration",
     [](Walk& w, const Node& n, JobDraft& d) {
         if (const auto v = w.duration(n, Seconds{1}, kYear)) d.spec.limits.duration = v;
     }},
    {"deadline", reserved<kDeadline>},
    {"wait",
     [](Walk& w, const Node& n, JobDraft& d) {
         if (const auto v = w.duration(n, Seconds{1}, kMonth)) d.spec.limits.wait = v;
     }},
});

template <int RetrySpec::* Member>
void read_count(Walk& walk, const Node& node, JobDraft& draft) {
    if (const auto v = walk.integer(node, 0, 1'000)) draft.spec.retry.*Member = static_cast<int>(*v);
}

void read_gpu_oom(Walk& walk, const Node& node, JobDraft& draft) {
    constexpr std::array<std::string_view, 2> names{"never", "bigger_gpu"};
    const auto v = walk.one_of(node, names);
    if (!v) return;
    draft.spec.retry.gpu_oom_bigger = *v == "bigger_gpu";
    draft.spec.retry.gpu_oom = draft.spec.retry.gpu_oom_bigger ? 3 : 0;
}

constexpr auto kRetry = std::to_array<JobField>({
    {"spot_lost", read_count<&RetrySpec::spot_lost>},
    {"host_fault", read_count<&RetrySpec::host_fault>},
    {"start_timeout", read_count<&RetrySpec::start_timeout>},
    {"host_oom", read_count<&RetrySpec::host_oom>},
    {"no_progress", read_count<&RetrySpec::no_progress>},
    {"user_error", read_count<&RetrySpec::user_error>},
    {"gpu_oom", read_gpu_oom},
});

}  // namespace

std::span<const JobField> checkpoint_fields() {
    return kCheckpoint;
}
std::span<const JobField> limit_fields() {
    return kLimits;
}
std::span<const JobField> retry_fields() {
    return kRetry;
}

}  // namespace gf
