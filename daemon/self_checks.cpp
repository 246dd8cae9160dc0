#include "daemon/self_checks.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>

#include "checkpoints/digest.hpp"
#include "daemon/runtime/disk_guard.hpp"
#include "daemon/ssh/reach.hpp"
#include "model/bytes.hpp"
#include "providers/http_client.hpp"

namespace gf {
namespace {

using Level = Finding::Level;

constexpr std::int64_t kClockOffMax_s = 300;   // signatures and leases go by it; providers refuse at about this
constexpr std::int64_t kDiskFreeMin = 2'000'000'000;
constexpr std::size_t kAgentBytesMax = 256U << 20U;

struct Lines {
    std::vector<CheckLine> all;
    void add(Level level, std::string what, std::string text) {
        all.push_back({"daemon", {.level = level, .what = std::move(what), .text = std::move(text)}});
    }
};

std::string joined(const std::vector<std::string>& names) {
    std::string out;
    for (const auto& name : names) out += (out.empty() ? "" : ", ") + name;
    return out;
}

/// The addresses of a host, or getaddrinfo's reason.
Result<std::vector<std::string>> addresses_of(const std::string& host) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0)
        return fail(ErrorKind::unavailable, ::gai_strerror(error));
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
    std::vector<std::string> out;
    for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
        char name[NI_MAXHOST] = "";
        if (::getnameinfo(a->ai_addr, a->ai_addrlen, name, sizeof name, nullptr, 0, NI_NUMERICHOST) == 0) out.emplace_back(name);
    }
    return out;
}

/// Whether machines elsewhere could dial the place at all. False = nothing is there to be asked.
bool check_place(Lines& lines, const SelfCheckSettings& s) {
    auto host = host_in_url(s.advertise_url);
    if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
    const auto addresses = addresses_of(host);
    if (!addresses) {
        lines.add(Level::failed, "advertise_url",
                  fmt::format("{}: the name {} does not resolve here: {}", s.advertise_url, host, addresses.error().message));
        return false;
    }
    const auto closed = std::ranges::find_if(*addresses, [](const std::string& a) { return is_private_host(a.substr(0, a.find('%'))); });
    if (closed == addresses->end()) return true;
    const auto what = fmt::format("{} is {}, a private address: machines elsewhere cannot dial it", host, *closed);
    if (!s.unreached.empty())
        lines.add(Level::failed, "advertise_url", fmt::format("{}, so nothing is rented at {}", what, joined(s.unreached)));
    else if (!s.dialling.empty())
        lines.add(Level::warning, "advertise_url", fmt::format("{}; those of {} are expected to", what, joined(s.dialling)));
    else if (!s.by_ssh.empty())
        lines.add(Level::ok, "advertise_url", fmt::format("{}, and those of {} are reached by ssh", what, joined(s.by_ssh)));
    return true;
}

void check_advertise_url(Lines& lines, const SelfCheckSettings& s) {
    if (s.advertise_url.empty()) {
        if (!s.unreached.empty())
            lines.add(Level::failed, "advertise_url",
                      fmt::format("not set: machines of {} cannot find this daemon, so nothing is rented there; set it to the https address "
                                  "under which agent_listen is reached from the internet", joined(s.unreached)));
        else if (!s.by_ssh.empty())
            lines.add(Level::ok, "advertise_url", fmt::format("not set: machines of {} are reached by ssh", joined(s.by_ssh)));
        else
            lines.add(Level::ok, "advertise_url", "not set, and no cloud is configured that would need it");
        return;
    }
    if (!check_place(lines, s)) return;
    HttpClient http({.user_agent = "gpuferry-doctor", .connect_timeout = Seconds{10}, .total_timeout = Seconds{30},
                     .body_bytes_max = kAgentBytesMax});
    auto base = s.advertise_url;
    while (base.ends_with('/')) base.pop_back();
    const auto answer = http.send({.url = base + "/agent/bin/" + s.agent_sha256, .pin = s.pin});
    const std::string seen = " (seen from this machine)";
    if (answer.other_key)
        lines.add(Level::failed, "advertise_url",
                  s.advertise_url + " shows another certificate than this daemon's: agents know the daemon by its key and will refuse; "
                  "give the proxy's certificate and key in tls.cert and tls.key, or pass TLS through" + seen);
    else if (answer.delivery != Delivery::answered)
        lines.add(Level::failed, "advertise_url",
                  fmt::format("{} does not lead here: {}{}", s.advertise_url, answer.failure.empty() ? "no answer" : answer.failure, seen));
    else if (answer.status != 200)
        lines.add(Level::failed, "advertise_url",
                  fmt::format("{} answers with status {} where this daemon would send its agent: something else listens there{}",
                              s.advertise_url, answer.status, seen));
    else if (checkpoints::sha256(answer.body).hex() != s.agent_sha256)
        lines.add(Level::failed, "advertise_url",
                  s.advertise_url + " answers, but not with this daemon's agent: a proxy changes what passes through it" + seen);
    else
        lines.add(Level::ok, "advertise_url", s.advertise_url + " leads here: its key and its agent are this daemon's" + seen);
}

/// "Tue, 01 Dec 2026 08:00:00 GMT" as RFC 9110 has it.
std::optional<Instant> parsed_date(const std::string& text) {
    std::tm parts{};
    const char* end = ::strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
    if (end == nullptr || *end != '\0') return std::nullopt;
    return instant_of(static_cast<std::int64_t>(::timegm(&parts)) * 1000);
}

void check_clock(Lines& lines, const SelfCheckSettings& s) {
    HttpClient http({.user_agent = "gpuferry-doctor", .connect_timeout = Seconds{5}, .total_timeout = Seconds{10}});
    std::string agree;
    for (const auto& api : s.apis) {
        const auto answer = http.send({.url = api.url});  // whatever the status, the header Date comes with it
        const auto header = answer.header("date");
        const auto theirs = header ? parsed_date(std::string(*header)) : std::nullopt;
        if (!theirs) continue;
        const auto off = std::chrono::duration_cast<Seconds>(*theirs - s.wall()).count();
        if (std::abs(off) <= kClockOffMax_s) {
            agree += (agree.empty() ? "" : ", ") + api.provider;
            continue;
        }
        lines.add(Level::failed, "clock",
                  fmt::format("this machine's clock is {} s {} {}'s: costs, leases and signatures go by it; set it by NTP",
                              std::abs(off), off > 0 ? "behind" : "ahead of", api.provider));
    }
    if (!agree.empty()) lines.add(Level::ok, "clock", "agrees with " + agree);
}

void check_disk(Lines& lines, const SelfCheckSettings& s) {
    struct statvfs info{};
    if (::statvfs(s.data_dir.c_str(), &info) != 0)
        return lines.add(Level::failed, "disk", fmt::format("{}: {}", s.data_dir, std::strerror(errno)));
    const auto free = static_cast<std::int64_t>(info.f_bavail) * static_cast<std::int64_t>(info.f_frsize);
    const auto text = fmt::format("{} free in {}", bytes_text(Bytes{free}), s.data_dir);
    if (free < 2 * DiskGuard::kBallast) lines.add(Level::failed, "disk", text + ": new work is refused");
    else if (free < kDiskFreeMin) lines.add(Level::warning, "disk", text + ": checkpoints and outputs may soon not fit");
    else lines.add(Level::ok, "disk", text);
}

void check_time_zones(Lines& lines, const SelfCheckSettings& s) {
    std::error_code failed;
    const auto place = std::filesystem::path(s.zones) / s.time_zone;
    if (std::filesystem::exists(place, failed)) lines.add(Level::ok, "time_zones", s.time_zone.empty() ? s.zones : s.time_zone);
    else
        lines.add(Level::failed, "time_zones",
                  place.string() + " is not there: budgets count their days by it (on Debian: the package tzdata)");
}

void check_ssh(Lines& lines, const SelfCheckSettings& s) {
    if (s.by_ssh.empty()) return;
    // Looked for when the daemon started: what it found may be gone since, and what came since it does not know.
    if (!s.ssh.empty() && ::access(s.ssh.c_str(), X_OK) == 0) return lines.add(Level::ok, "ssh", s.ssh);
    const auto what = s.ssh.empty() ? std::string("the daemon has found no ssh program at its start") : fmt::format("{} is not there any more", s.ssh);
    lines.add(Level::failed, "ssh",
              fmt::format("{}: machines of {} cannot be reached; install it (on Debian: openssh-client) and start the daemon again", what, joined(s.by_ssh)));
}

}  // namespace

std::vector<CheckLine> self_checks(const SelfCheckSettings& settings) {
    Lines lines;
    check_advertise_url(lines, settings);
    check_clock(lines, settings);
    check_disk(lines, settings);
    check_time_zones(lines, settings);
    check_ssh(lines, settings);
    return std::move(lines.all);
}

}  // namespace gf
