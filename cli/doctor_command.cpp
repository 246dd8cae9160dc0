// doctor: what is wrong, looked at from the outside, and what the daemon finds at its providers and around
// itself. Each line is one check; the exit status is 1 if one failed.
#include <fmt/core.h>
#include <fmt/ostream.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "cli/command.hpp"
#include "cli/exit_code.hpp"
#include "cli/json_read.hpp"
#include "model/bytes.hpp"
#include "model/time.hpp"

namespace gf::cli {
namespace {

using nlohmann::json;

constexpr std::int64_t kClockOffMax_s = 30;  // presigned URLs and reservations start to suffer beyond
constexpr std::int64_t kDiskFreeMin = 1'000'000'000;     // below it checkpoints soon do not fit
constexpr std::chrono::milliseconds kChecksMax{90'000};  // the daemon ends a round of checks after 60 s

enum class Verdict { ok, warning, failed };

struct Report {
    Context& context;
    json lines = json::array();
    bool any_failed{false};
    std::string section{};

    /// `provider`: whose section the line belongs to; empty = none.
    void add(const std::string& check, Verdict verdict, const std::string& text,
             const std::string& provider = {}) {
        const char* word = "ok";
        auto colour = Colour::good;
        if (verdict == Verdict::warning) word = "warning", colour = Colour::warn;
        if (verdict == Verdict::failed) word = "failed", colour = Colour::bad;
        any_failed = any_failed || verdict == Verdict::failed;
        lines.push_back({{"check", check}, {"verdict", word}, {"text", text}});
        if (!provider.empty()) lines.back()["provider"] = provider;
        if (context.json) return;
        if (provider != section) fmt::print(context.env.out, "\n{}\n", shown(provider));
        section = provider;
        fmt::print(context.env.out, "{}{}{} {:<10} {}\n", provider.empty() ? "" : "  ",
                   context.style.paint(colour, word), std::string(8 - std::strlen(word), ' '), shown(check),
                   shown(text));
    }
    int end() {
        if (context.json) print_json(context, json{{"checks", lines}});
        return any_failed ? kExitRefused : kExitOk;
    }
};

bool nobody_listens(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) return false;
    path.copy(address.sun_path, path.size());
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    const int done = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    const bool refused = done != 0 && errno == ECONNREFUSED;
    ::close(fd);
    return refused;
}

void check_socket(Report& report) {
    const auto& endpoint = report.context.client.endpoint();
    if (endpoint.socket.empty()) {
        report.add("address", Verdict::ok, endpoint.shown);
        return;
    }
    struct stat info{};
    if (stat(endpoint.socket.c_str(), &info) != 0)
        report.add(
            "socket", Verdict::failed,
            fmt::format("{}: {}; is gpuferryd running as this user?", endpoint.socket, std::strerror(errno)));
    else if (!S_ISSOCK(info.st_mode))
        report.add("socket", Verdict::failed, endpoint.socket + " is not a socket");
    else if (access(endpoint.socket.c_str(), W_OK) != 0)
        report.add("socket", Verdict::failed, endpoint.socket + " belongs to another user");
    else if (nobody_listens(endpoint.socket))
        report.add(
            "socket", Verdict::failed,
            endpoint.socket + ": nobody listens there; gpuferryd is not running, and this was left over");
    else
        report.add("socket", Verdict::ok, endpoint.socket);
}

void check_disk(Report& report) {
    const auto& endpoint = report.context.client.endpoint();
    if (endpoint.socket.empty()) return;  // the daemon's disk is elsewhere
    const auto folder = std::filesystem::path(endpoint.socket).parent_path().string();
    struct statvfs info{};
    if (statvfs(folder.c_str(), &info) != 0) return;
    const auto free = static_cast<std::int64_t>(info.f_bavail) * static_cast<std::int64_t>(info.f_frsize);
    report.add("disk", free < kDiskFreeMin ? Verdict::warning : Verdict::ok,
               fmt::format("{} free for {}", bytes_text(Bytes{free}), folder));
}

void check_clock(Report& report, const json& health) {
    const auto theirs = parse_rfc3339(text_of(health, "time"));
    if (!theirs) {
        report.add("clock", Verdict::warning, "the daemon does not say what time it is");
        return;
    }
    const auto off = (unix_millis(*theirs) - wall_clock_ms()) / 1000;
    report.add("clock", std::abs(off) > kClockOffMax_s ? Verdict::warning : Verdict::ok,
               fmt::format("the daemon's clock is {} s {} this one's", std::abs(off),
                           off < 0 ? "behind" : "ahead of"));
}

/// What the daemon found. Nothing = it could not be asked, which is said.
std::optional<json> checks_of_daemon(Report& report) {
    auto answer = report.context.client.send_json(Call{.method = "POST",
                                                       .path = "/v1/providers/check",
                                                       .body = "{}",
                                                       .content_type = "application/json",
                                                       .total = kChecksMax});
    if (answer) return list_at(*answer, "items");
    const auto& why = answer.error();
    if (why.status == 403)
        report.add("checks", Verdict::warning,
                   "to have the providers checked a token needs the role operator");
    else if (why.status == 404 || why.status == 405)
        report.add("checks", Verdict::warning, "this daemon is too old to check its providers");
    else
        report.add("checks", Verdict::failed, why.problem.empty() ? why.text : problem_detail(why.problem));
    return std::nullopt;
}

void show_checks(Report& report, const json& items) {
    for (const auto& item : items) {
        const auto level = text_of(item, "level");
        const auto verdict = level == "ok"        ? Verdict::ok
                             : level == "warning" ? Verdict::warning
                                                  : Verdict::failed;
        report.add(text_of(item, "what"), verdict, text_of(item, "text"), text_of(item, "provider"));
    }
}

void check_providers(Report& report, bool checked) {
    auto answer = report.context.client.get_json("/v1/providers");
    if (!answer) {
        report.add("providers", Verdict::failed, answer.error().text);
        return;
    }
    const auto& items = list_at(*answer, "items");
    std::optional<std::string> advertised;
    for (const auto& item : items) {
        const auto name = text_of(item, "name");
        const auto health = text_of(item, "health");
        const auto why = text_of(item, "reason");
        const auto verdict = health == "ok"        ? Verdict::ok
                             : health == "unknown" ? Verdict::warning
                                                   : Verdict::failed;
        report.add("provider", verdict, fmt::format("{}: {}{}", name, health, why.empty() ? "" : ", " + why));
        if (item.is_object() && item.contains("advertise_url")) advertised = text_of(item, "advertise_url");
    }
    if (items.empty())
        report.add("providers", Verdict::warning,
                   "none; set RUNPOD_API_KEY, VAST_API_KEY, LAMBDA_API_KEY or VULTR_API_KEY for the daemon");
    if (checked) return;  // the daemon itself has tried advertise_url
    if (advertised && advertised->empty())
        report.add("advertise", Verdict::failed,
                   "advertise_url is not set: rented machines cannot reach the daemon");
    else if (advertised)
        report.add("advertise", Verdict::ok, "machines dial " + *advertised);
}

int doctor(Context& context) {
    Report report{.context = context};
    check_socket(report);
    auto health = context.client.send(Call{.path = "/healthz", .total = std::chrono::milliseconds{5000}});
    if (!health) {
        report.add("daemon", Verdict::failed, health.error().text);
        report.end();
        return health.error().exit_code;
    }
    const auto about = json::parse(health->body, nullptr, false);
    const auto version = text_of(about, "version");
    report.add("daemon", health->status == 200 ? Verdict::ok : Verdict::failed,
               health->status == 200 ? (version.empty() ? "answers" : "answers, " + version)
                                     : fmt::format("/healthz says {}", health->status));
    auto ready = context.client.send(Call{.path = "/readyz", .total = std::chrono::milliseconds{5000}});
    if (ready)
        report.add("ready", ready->status == 200 ? Verdict::ok : Verdict::warning,
                   ready->status == 200
                       ? "the store is rebuilt and every provider was asked"
                       : fmt::format("/readyz says {}: not every provider has answered yet", ready->status));
    check_clock(report, about);
    auto jobs = context.client.get_json("/v1/jobs?limit=1");
    if (!jobs) {
        report.add("access", Verdict::failed,
                   jobs.error().problem.empty() ? jobs.error().text : problem_detail(jobs.error().problem));
        report.end();
        return jobs.error().exit_code;
    }
    report.add(
        "access", Verdict::ok,
        context.client.endpoint().token.empty() ? "admitted without a token" : "the token is accepted");
    const auto checks = checks_of_daemon(report);
    const bool checked = checks && !checks->empty();
    check_providers(report, checked);
    if (!checked) check_disk(report);
    auto alerts = context.client.get_json("/v1/alerts");
    if (alerts && !list_at(*alerts, "items").empty())
        report.add("alerts", Verdict::warning,
                   fmt::format("{} open; gpuferry alerts shows them", list_at(*alerts, "items").size()));
    if (checked) show_checks(report, *checks);
    return report.end();
}

}  // namespace

void add_doctor_command(CLI::App& app, Action& chosen) {
    app.add_subcommand("doctor", "check the way to the daemon, its providers, clock and disk")
        ->fallthrough()
        ->callback([&chosen] { chosen = doctor; });
}

}  // namespace gf::cli
