#include "daemon/self_checks.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>

#include "checkpoints/digest.hpp"
#include "daemon/runtime/disk_guard.hpp"
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

/// "https://[::1]:8471/x" -> "::1".
std::string host_in(const std::string& url) {
    const auto scheme = url.find("://");
    auto rest = url.substr(scheme == std::string::npos ? 0 : scheme + 3);
    rest = rest.substr(0, rest.find('/'));
    if (rest.starts_with('[')) return rest.substr(1, rest.find(']') - 1);
    return rest.substr(0, rest.find(':'));
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

void check_place(Lines& lines, const SelfCheckSettings& s) {
    const auto host = host_in(s.advertise_url);
    const auto addresses = addresses_of(host);
    if (!addresses) {
        lines.add(Level::failed, "advertise_url",
                  fmt::format("{}: the name {} does not resolve here: {}", s.advertise_url, host, addresses.error().message));
        return;
    }
    for (const auto& address : *addresses) {
        const auto reach = reach_of(address);
        if (reach != AddressReach::this_machine && reach != AddressReach::this_network) continue;
        const char* kind = reach == AddressReach::this_machine ? "an address of this machine alone" : "a private address";
        // A simulated or own cloud on the same network is reached well: what follows is for machines elsewhere.
        lines.add(Level::warning, "advertise_url",
                  fmt::format("{} is {}, {}: machines elsewhere cannot dial it, so only local jobs{} can run", host, address, kind,
                              s.ssh_reaches ? " and providers that are reached by ssh" : ""));
        return;
    }
}

void check_advertise_url(Lines& lines, const SelfCheckSettings& s) {
    if (s.advertise_url.empty()) {
        if (!s.clouds) lines.add(Level::ok, "advertise_url", "not set, and no cloud is configured that would need it");
        else if (s.ssh_reaches)
            lines.add(Level::warning, "advertise_url", "not set: machines are reached by ssh only, and providers without it are not used");
        else
            lines.add(Level::failed, "advertise_url",
                      "not set: rented machines cannot find this daemon; set it to the https address under which agent_listen is "
                      "reached from the internet");
        return;
    }
    const auto before = lines.all.size();
    check_place(lines, s);
    if (lines.all.size() > before && lines.all.back().finding.level == Level::failed) return;
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
    if (!s.ssh_reaches) return;
    for (std::size_t at = 0; at <= s.path.size();) {
        const auto colon = std::min(s.path.find(':', at), s.path.size());
        const auto program = s.path.substr(at, colon - at) + "/ssh";
        if (program != "/ssh" && ::access(program.c_str(), X_OK) == 0) return lines.add(Level::ok, "ssh", program);
        at = colon + 1;
    }
    lines.add(Level::warning, "ssh",
              "there is no ssh program in PATH: machines that cannot dial this daemon are not used (on Debian: openssh-client)");
}

}  // namespace

AddressReach reach_of(const std::string& address) {
    const auto name = address.substr(0, address.find('%'));  // without an interface
    std::array<unsigned char, 16> six{};
    std::array<unsigned char, 4> four{};
    if (::inet_pton(AF_INET6, name.c_str(), six.data()) == 1) {
        constexpr std::array<unsigned char, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
        if (std::equal(kMapped.begin(), kMapped.end(), six.begin())) {
            std::copy(six.begin() + 12, six.end(), four.begin());
        } else {
            const bool zeros = std::all_of(six.begin(), six.end() - 1, [](unsigned char b) { return b == 0; });
            if (zeros && six[15] <= 1) return AddressReach::this_machine;       // :: and ::1
            if ((six[0] & 0xfeU) == 0xfc) return AddressReach::this_network;    // fc00::/7
            if (six[0] == 0xfe && (six[1] & 0x80U) != 0) return AddressReach::this_network;  // fe80::/10, fec0::/10
            return AddressReach::everywhere;
        }
    } else if (::inet_pton(AF_INET, name.c_str(), four.data()) != 1) {
        return AddressReach::not_an_address;
    }
    if (four[0] == 127 || four[0] == 0) return AddressReach::this_machine;
    const bool own = four[0] == 10 || (four[0] == 172 && (four[1] & 0xf0U) == 16) || (four[0] == 192 && four[1] == 168) ||
                     (four[0] == 169 && four[1] == 254) || (four[0] == 100 && (four[1] & 0xc0U) == 64);
    return own ? AddressReach::this_network : AddressReach::everywhere;
}

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
