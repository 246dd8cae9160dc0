#include "providers/vastai/mapping.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "model/region.hpp"
#include "providers/canary.hpp"
#include "providers/container_sshd.hpp"

namespace gf::vastai {
namespace {

constexpr std::int64_t kMega = 1'000'000;
constexpr std::size_t kSaidMost = 300;

bool contains_folded(std::string_view text, std::string_view words) {
    const auto same = [](char a, char b) {
        return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
    };
    return std::search(text.begin(), text.end(), words.begin(), words.end(), same) != text.end();
}

std::int64_t disk_hour(std::int64_t micros_per_gb_month, std::int64_t gb) {
    return disk_rate(micros_per_gb_month, gb, kHoursPerMonth).micros;
}

/// "Oregon, US" -> "US". The city may be missing (", US"), and the whole may be null.
std::string country_of(std::string_view geolocation) {
    const auto comma = geolocation.rfind(',');
    auto code = comma == std::string_view::npos ? geolocation : geolocation.substr(comma + 1);
    while (code.starts_with(' ')) code.remove_prefix(1);
    while (code.ends_with(' ')) code.remove_suffix(1);
    if (code.size() != 2 || std::isalpha(static_cast<unsigned char>(code[0])) == 0 ||
        std::isalpha(static_cast<unsigned char>(code[1])) == 0)
        return {};
    std::string out(code);
    std::ranges::transform(out, out.begin(), [](char c) {
        return static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    });
    return out;
}

/// GB of a disk in whole ones, or unknown.
std::optional<std::int64_t> disk_size(std::optional<double> disk_space) {
    if (!disk_space || !std::isfinite(*disk_space) || *disk_space <= 0 || *disk_space > static_cast<double>(kDiskGbMax))
        return std::nullopt;
    return static_cast<std::int64_t>(std::ceil(*disk_space));
}

/// A rate that is told of a machine, or unknown.
std::optional<std::int64_t> told_rate(const PriceReading& reading) {
    return reading.ok() && reading.micros <= kMicrosPerHourMax ? std::optional(reading.micros) : std::nullopt;
}

/// A positive figure, or unknown: 0 and null both mean that nobody told.
std::optional<double> told(std::optional<double> value) {
    return value && std::isfinite(*value) && *value > 0 ? value : std::nullopt;
}

MemoryReading gpu_memory(std::optional<double> gpu_ram, const std::string& gpu_name, const GpuLookup& lookup) {
    // "MB" are MiB in truth: a 24 GB card shows the driver's own 24564.
    const auto v = told(gpu_ram);
    return v ? read_gpu_memory(*v, kMiB, "vastai", gpu_name, lookup) : MemoryReading{};
}

std::string trimmed(std::string_view text) {
    const auto first = text.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) return {};
    return std::string(text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1));
}

bool is_port(std::optional<std::int64_t> port) {
    return port && *port > 0 && *port < 65'535;
}

/// Direct where the host maps the port; else the proxy, which serves containers with Vast.ai's own sshd alone and is off by
/// one for those with a notebook.
std::optional<SshEndpoint> ssh_of(const Instance& i) {
    if (auto ip = trimmed(i.public_ipaddr); !ip.empty() && is_port(i.direct_ssh_port))
        return SshEndpoint{.host = std::move(ip), .port = static_cast<int>(*i.direct_ssh_port)};
    const bool jupyter = contains_folded(i.image_runtype, "jupyter");
    if (!jupyter && !contains_folded(i.image_runtype, "ssh")) return std::nullopt;
    if (i.ssh_host.empty() || !is_port(i.ssh_port)) return std::nullopt;
    return SshEndpoint{.host = trimmed(i.ssh_host), .port = static_cast<int>(*i.ssh_port) + (jupyter ? 1 : 0)};
}

/// cpu_ram is the whole machine's; our share goes by the cores.
std::optional<Bytes> memory_share(const Ask& ask) {
    const auto ram = told(ask.cpu_ram);
    const auto cores = told(ask.cpu_cores);
    const auto ours = told(ask.cpu_cores_effective);
    if (!ram || !cores || !ours || *ram > 1e9) return std::nullopt;
    return Bytes{static_cast<std::int64_t>(*ram * std::min(1.0, *ours / *cores)) * kMega};
}

std::optional<Instant> instant_of_unix(std::optional<double> seconds) {
    if (!seconds || !std::isfinite(*seconds) || *seconds <= 0 || *seconds > 2.5e11) return std::nullopt;
    return instant_of(static_cast<std::int64_t>(*seconds * 1000));
}

std::optional<Instant> lease_end(const Ask& ask, Instant now) {
    std::optional<Instant> end;
    if (ask.duration && std::isfinite(*ask.duration) && *ask.duration >= 0 && *ask.duration < 1e9)
        end = now + Millis{static_cast<std::int64_t>(*ask.duration * 1000)};
    const auto date = instant_of_unix(ask.end_date);
    // Both say the same where the clocks agree. A date in the past beside a remaining duration is a clock
    // that does not.
    if (date && (!end || (*date > now && *date < *end))) end = date;
    return end;
}

/// 13.0 came as the number 13.0 or 13: CUDA versions are major.minor.
std::string cuda_text(const NumberText& number) {
    if (!number || number->empty() || number->find_first_not_of("0123456789.") != std::string::npos)
        return {};
    return number->find('.') == std::string::npos ? *number + ".0" : *number;
}

struct Money {
    std::int64_t gpu{0};
    std::int64_t disk_per_gb_month{0};
    std::optional<std::int64_t> floor;
    std::string reason;  // why there is none
};

Money plain_money_of(const Ask& ask, bool bid, std::int64_t disk_gb) {
    Money out;
    auto storage = read_price_or_zero(ask.storage_cost, "disk_price");
    if (bid) {
        // min_bid is the floor for the whole slice, GPU part only; 0 or null means that the host takes no
        // bids.
        const auto floor = read_price(ask.min_bid, "min_bid");
        if (!floor.ok()) return {.floor = {}, .reason = floor.reason};
        if (!storage.ok()) return {.floor = {}, .reason = storage.reason};
        out.floor = floor.micros;
        const auto raised = floor.micros + (floor.micros * kBidMarginPercent + 99) / 100;
        out.gpu = std::max<std::int64_t>((raised + 99) / 100 * 100,
                                         1'000);  // whole 0.0001 $, at least the 0.001 $ that is accepted
        out.disk_per_gb_month = storage.micros;
        return out;
    }
    // dph_total is the price: GPU part plus the disk at `allocated_storage`. min_bid is a floor for bids and
    // no price at all.
    const auto total = read_price(ask.dph_total);
    if (!total.ok()) return {.floor = {}, .reason = total.reason};
    if (!storage.ok()) {
        if (storage.reason != "disk_price_missing") return {.floor = {}, .reason = storage.reason};
        // The split is not told, the sum is: as one line it is right for this disk while the machine runs.
        out.gpu = total.micros;
        return out;
    }
    out.disk_per_gb_month = storage.micros;
    const auto without_disk = total.micros - disk_hour(storage.micros, disk_gb);
    if (!ask.dph_base) {
        out.gpu = without_disk > 0 ? without_disk : total.micros;
        return out;
    }
    const auto base = read_price(ask.dph_base);
    if (!base.ok()) return {.floor = {}, .reason = base.reason};
    // Where the two disagree (a server that priced another disk, a fee in the total) the dearer reading is
    // the safe one.
    out.gpu = std::max(base.micros, without_disk);
    return out;
}

Money money_of(const Ask& ask, bool bid, std::int64_t disk_gb) {
    auto money = plain_money_of(ask, bid, disk_gb);
    if (money.reason.empty() && (money.gpu > kMicrosPerHourMax || money.disk_per_gb_month > kMicrosPerGbMonthMax))
        money.reason = "price_too_large";
    return money;
}

Error error_with(ErrorKind kind, const Answer& a, std::string_view what) {
    return call_error(kind, "Vast.ai", what, a, a.code);
}

bool offer_is_taken(const Answer& a) {
    // The code is `invalid_args` as often as `no_such_ask`; the text always names it.
    if (a.code == "no_such_ask" || contains_folded(a.text, "no_such_ask")) return true;
    if (!contains_folded(a.text, "offer")) return false;
    return contains_folded(a.text, "unavailable") || contains_folded(a.text, "no longer rentable") ||
           contains_folded(a.text, "already been rented") || contains_folded(a.text, "already rented");
}

bool is_deprecated(const Answer& a) {
    return a.code == "deprecated_endpoint" ||
           (contains_folded(a.text, "deprecated") && contains_folded(a.text, "use /api/"));
}

/// The kind of a clean refusal of a create; nothing if the answer is not on the white-list.
std::optional<ErrorKind> refusal_of(const Answer& a) {
    if (a.delivery != Delivery::answered) return std::nullopt;
    const bool failed = a.status >= 400 || (a.status == 200 && a.success == false);
    if (a.status == 410 && !a.json) return ErrorKind::api_retired;  // the route is gone: nobody there who could rent
    if (!failed || !a.json || a.status == 429 || a.status >= 500) return std::nullopt;
    if (offer_is_taken(a)) return ErrorKind::no_capacity;
    if (a.code == "insufficient_credit" || a.status == 411 || contains_folded(a.text, "account lacks credit"))
        return ErrorKind::no_money;
    if (a.code == "missing_billing") return ErrorKind::no_money;
    if (a.code == "spend_rate_limit") return ErrorKind::quota;
    if (says_bad_key(a)) return ErrorKind::auth;
    // Another offer of the same account would meet the same limit.
    if (may_tell_quota(a.status) &&
        (contains_folded(a.text, "quota") || contains_folded(a.text, "spend limit") ||
         contains_folded(a.text, "spending limit") || contains_folded(a.text, "spend_rate_limit")))
        return ErrorKind::quota;
    if (is_deprecated(a) || a.status == 410) return ErrorKind::api_retired;
    if (a.status == 422) return ErrorKind::refused;  // the request's own fault, by whatever word
    if (a.status == 400) {
        if (a.code == "invalid_price")
            return ErrorKind::no_capacity;  // the floor moved: the next look at the market has a new one
        if (a.code == "invalid_args" || a.code == "invalid_request" || a.code == "no_ssh_key_for_vm" ||
            a.code == "label_too_long")
            return ErrorKind::refused;
    }
    return std::nullopt;
}

/// What Docker says of an image that cannot be had, or that holds no program to start: the same on every host. Nothing lists what
/// Vast shows of it (providers/vastai.md section 6), so that it is a hint, which counts when another host says it too.
bool blames_image(std::string_view said) {
    for (const std::string_view words :
         {"manifest unknown", "no matching manifest", "pull access denied", "repository does not exist", "invalid reference format",
          "requested access to the resource is denied"})
        if (contains_folded(said, words)) return true;
    if (contains_folded(said, "manifest for ") && contains_folded(said, "not found")) return true;
    if (!contains_folded(said, "OCI runtime create failed")) return false;
    return contains_folded(said, "executable file not found") || contains_folded(said, "exec format error") ||
           (contains_folded(said, "exec: ") && contains_folded(said, "no such file or directory"));
}

/// Where a start that failed sticks.
bool start_failed(const Instance& i) {
    return i.actual_status == "created" && (contains_folded(i.status_msg, "OCI runtime create failed") || blames_image(i.status_msg));
}

Presence presence_of(const Instance& i) {
    const bool ordered_stop =
        i.intended_status == "stopped" && i.cur_state == "stopped" && i.next_state == "stopped";
    const auto actual = i.actual_status.value_or("");
    if (actual == "frozen") return Presence::failed;  // paused with its memory, the GPU is billed on
    if (start_failed(i)) return Presence::failed;
    if (actual == "offline" || actual == "unknown")
        return Presence::unknown;  // the host is silent; it may come back
    // All three say stopped although we never ask for it: the bid was lost, or (right after a create) never
    // won. `actual_status` is only the host's last word and may lag.
    if (ordered_stop) return Presence::stopped;
    if (actual == "running") return Presence::running;
    if (actual == "stopped" || actual == "exited") return Presence::stopped;
    if (actual.empty() || actual == "created" || actual == "loading" || actual == "rebooting" ||
        actual == "recycling" || actual == "restarting")
        return Presence::booting;
    return Presence::unknown;
}

}  // namespace

std::string offer_id(OfferId id) {
    return fmt::format("{}/{}", id.bid ? "bid" : "on_demand", id.ask);
}

std::optional<OfferId> parse_offer_id(std::string_view text) {
    OfferId id;
    if (text.starts_with("bid/")) {
        id.bid = true;
        text.remove_prefix(4);
    } else if (text.starts_with("on_demand/")) {
        text.remove_prefix(10);
    } else {
        return std::nullopt;
    }
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id.ask);
    if (error != std::errc{} || end != text.data() + text.size() || id.ask <= 0) return std::nullopt;
    return id;
}

SearchRequest search_request(const OfferQuery& query, int num_gpus, bool bid) {
    SearchRequest out{.gpu_names = {},
                      .gpu_names_not = {},
                      .num_gpus = num_gpus,
                      .bid = bid,
                      .disk_gb = std::max(query.disk_gb, kDiskGbMin)};
    // Queries know countries only, so a group is all of its countries.
    if (!query.demands.regions.empty())
        for (char a = 'A'; a <= 'Z'; ++a)
            for (char b = 'A'; b <= 'Z'; ++b) {
                const std::string code{a, b};
                if (std::ranges::any_of(query.demands.regions, [&](const auto& r) { return in_region(code, r); }))
                    out.countries.push_back(code);
            }
    if (query.demands.vram_min) out.gpu_ram = query.demands.vram_min->count / kMiB;
    // The whole machine has no less than our share.
    if (query.demands.memory_min) out.cpu_ram = query.demands.memory_min->count / kMega;
    out.cpu_cores_effective = query.demands.cpus_min;
    out.reliability = query.demands.reliability_min;
    out.inet_down = query.demands.inet_down_min;
    out.unvetted = query.demands.unvetted;
    if (query.demands.lease_min) out.duration_s = std::chrono::floor<Seconds>(*query.demands.lease_min).count();
    // 12.10 cannot be expressed as the number that the field is, so such a demand is left to the filters here.
    if (const auto dot = query.demands.cuda_min.find('.'); dot == std::string::npos || query.demands.cuda_min.size() == dot + 2)
        if (const auto micros = parse_decimal_micros(query.demands.cuda_min))
            out.cuda = static_cast<double>(*micros) / 1e6;
    return out;
}

std::variant<Offer, RejectedOffer> offer_of(const Ask& ask, bool bid, std::int64_t disk_gb, int num_gpus,
                                            Instant now, const GpuLookup& lookup) {
    const auto id = offer_id({.bid = bid, .ask = ask.id.value_or(0)});
    const auto rejected = [&](std::string reason) {
        return RejectedOffer{.id = id, .reason = std::move(reason)};
    };
    if (!ask.problem.empty()) return rejected("malformed");
    if (!ask.id || *ask.id <= 0) return rejected("id_missing");
    if (ask.gpu_name.empty()) return rejected("gpu_name_missing");
    if (!ask.num_gpus || *ask.num_gpus < 1) return rejected("gpu_count_missing");
    if (*ask.num_gpus != num_gpus) return rejected("gpu_count_not_as_asked");
    // Asked for in the query already; a server that ignores a filter must not get its rows through.
    if (ask.rentable == false || ask.rented == true) return rejected("not_rentable");
    if (ask.external == true) return rejected("brokered");
    if (ask.is_bid && *ask.is_bid != bid) return rejected("other_kind_of_renting");
    const auto memory = gpu_memory(ask.gpu_ram, ask.gpu_name, lookup);
    if (memory.unsettled) return rejected(std::string(kMemoryUnit));
    const auto money = money_of(ask, bid, disk_gb);
    if (!money.reason.empty()) return rejected(money.reason);
    const auto up = read_price_or_zero(ask.inet_up_cost, "traffic_price");
    const auto down = read_price_or_zero(ask.inet_down_cost, "traffic_price");
    for (const auto* traffic : {&up, &down})
        if (!traffic->ok() && traffic->reason != "traffic_price_missing")
            return rejected(traffic->reason);
        else if (traffic->micros > kMicrosPerGbTrafficMax)
            return rejected("price_too_large");

    Offer o;
    o.provider = ProviderName{"vastai"};
    o.id = id;
    o.spot = bid;
    o.exclusive = true;  // an ask is one slice of one machine
    if (!ask.verification.empty()) o.verified = ask.verification == "verified";
    o.gpu.provider_name = ask.gpu_name;
    o.gpu.memory = memory.memory;
    o.gpu.canonical = lookup("vastai", ask.gpu_name, o.gpu.memory).value_or("");
    o.gpu_count = num_gpus;
    o.gpu_rate = UsdPerHour{money.gpu};
    o.disk_micros_per_gb_month = money.disk_per_gb_month;
    o.hours_per_month = kHoursPerMonth;
    o.traffic_up_micros_per_gb = up.micros;
    o.traffic_down_micros_per_gb = down.micros;
    if (money.floor) o.spot_floor = UsdPerHour{*money.floor};
    o.region = ask.geolocation;
    o.country = country_of(ask.geolocation);
    if (ask.machine_id) o.host_id = std::to_string(*ask.machine_id);
    if (ask.host_id) o.host_owner = std::to_string(*ask.host_id);
    o.cpus = told(ask.cpu_cores_effective);
    o.memory = memory_share(ask);
    if (const auto disk = told(ask.disk_space); disk && *disk < static_cast<double>(kDiskGbMax))
        o.disk_max = Bytes{static_cast<std::int64_t>(*disk) * kGB};
    if (ask.reliability && *ask.reliability >= 0 && *ask.reliability <= 1) o.reliability = ask.reliability;
    o.inet_up_mbps = told(ask.inet_up);
    o.inet_down_mbps = told(ask.inet_down);
    o.lease_end = lease_end(ask, now);
    o.cuda_max = cuda_text(ask.cuda_max_good);
    o.driver = ask.driver_version;
    if (ask.cpu_arch == "arm64" || ask.cpu_arch == "aarch64") o.arch = "arm64";
    return o;
}

Result<CreateRequest> create_request(const LaunchRequest& request) {
    const auto refused = [](std::string why) {
        return fail(ErrorKind::refused, "Vast.ai, create instance: " + std::move(why));
    };
    const auto offer = parse_offer_id(request.offer.id);
    if (!offer) return refused(fmt::format("'{}' is no offer of Vast.ai", request.offer.id));
    // A create without a price rents on-demand at the full price, even of an ask that was found as a bid; one
    // with a price is interruptible. Neither may happen by accident.
    if (offer->bid != request.bid.has_value())
        return refused("a bid is needed exactly for interruptible offers");
    if (request.bid && request.bid->micros < kBidMicrosMin) return refused("bids below $0.001 are not accepted");
    CreateRequest out;
    out.ask = offer->ask;
    out.image = request.image.empty() ? std::string(kDefaultImage) : request.image;
    out.disk_gb = std::max(request.disk_gb, kDiskGbMin);
    out.label = request.tag.get();
    out.env = request.env;
    out.env["GPUFERRY_MACHINE"] = request.tag.get();  // second witness: labels can be changed in the console
    for (const auto& [name, value] : out.env)
        if (value.size() > kEnvValueMax)
            return refused(fmt::format("{} is longer than {} characters", name, kEnvValueMax));
    // In args mode `onstart` is the entrypoint, and the image's own is replaced.
    out.entrypoint = "/bin/sh";
    auto script = request.start_script;
    if (request.ssh) {
        if (!is_plain_public_key(request.ssh->client_public)) return refused("the public key for ssh is none");
        // In args mode nothing of Vast.ai's starts an sshd. Ports are keys of the environment.
        out.env["-p 22:22"] = "1";
        script = with_sshd(request.ssh->client_public, script);
    }
    out.args = {"-c", script};
    if (out.entrypoint.size() + 2 + script.size() > kArgsMax)
        return refused(fmt::format("the start script is longer than {} characters allow", kArgsMax));
    out.price = request.bid;
    if (request.registry) {
        // The value is split at blanks like a command line, and nothing says how it could be quoted.
        const auto& r = *request.registry;
        for (const auto* part : {&r.server, &r.username, &r.password.reveal()})
            if (part->empty() || part->find_first_of(" \t\r\n\"'\\") != std::string::npos)
                return refused(
                    "image_auth: Vast.ai takes no blanks, quotes or backslashes in server, user name or "
                    "password");
        out.image_login = fmt::format("-u {} -p {} {}", r.username, r.password.reveal(), r.server);
    }
    return out;
}

ProviderMachine machine_of(const Instance& i, const GpuLookup& lookup) {
    ProviderMachine m;
    m.id = ProviderMachineId{std::to_string(i.id)};
    m.tag = i.label;
    m.env_tag = i.machine_mark;
    m.presence = presence_of(i);
    m.raw_state = fmt::format("{} (intended {}, contract {})", i.actual_status.value_or("nothing reported"),
                              i.intended_status.empty() ? "?" : i.intended_status,
                              i.cur_state.empty() ? "?" : i.cur_state);
    if (start_failed(i) && blames_image(i.status_msg)) m.image_fault = i.status_msg.substr(0, kSaidMost);
    m.spot = i.is_bid.value_or(false);
    if (i.num_gpus) m.gpu_count = static_cast<int>(std::clamp<std::int64_t>(*i.num_gpus, 0, 1024));
    if (!i.gpu_name.empty()) {
        const auto memory = gpu_memory(i.gpu_ram, i.gpu_name, lookup).memory;
        m.gpu = GpuIdentity{.canonical = lookup("vastai", i.gpu_name, memory).value_or(""),
                            .provider_name = i.gpu_name,
                            .memory = memory};
    }
    m.region = i.geolocation;
    if (i.machine_id) m.host_id = std::to_string(*i.machine_id);
    m.created_at = instant_of_unix(i.start_date);
    m.lease_end = instant_of_unix(i.end_date);

    // The disk: what is shown for it, else computed from its price.
    const auto per_gb = read_price_or_zero(i.storage_cost);
    auto disk = told_rate(read_price_or_zero(i.storage_total_cost));
    if (!disk && per_gb.ok() && disk_size(i.disk_space))
        disk = disk_hour(per_gb.micros, *disk_size(i.disk_space));
    if (disk && *disk > kMicrosPerHourMax) disk.reset();
    if (m.presence == Presence::stopped)
        // Stopped instances may pay a higher storage rate, shown in the live block alone.
        if (const auto live = told_rate(read_price_or_zero(i.live_disk_hour))) disk = std::max(disk.value_or(0), *live);
    // The GPU: dph_total is the rate *while running*, whatever the state.
    auto gpu = told_rate(read_price(i.dph_base));
    if (const auto total = told_rate(read_price(i.dph_total)); !gpu && total)
        gpu = std::max<std::int64_t>(*total - disk.value_or(0), 0);

    const auto actual = i.actual_status.value_or("");
    if (actual == "offline") {
        m.gpu_rate = UsdPerHour{0};  // the host is off the net: neither GPU nor storage is charged
        m.disk_rate = UsdPerHour{0};
    } else {
        if (disk) m.disk_rate = UsdPerHour{*disk};
        // GPU time is billed in `running` and `frozen` only, not while loading. With `unknown` the last word
        // may have been running.
        const bool gpu_billed =
            actual == "frozen" || m.presence == Presence::running || m.presence == Presence::unknown;
        if (!gpu_billed)
            m.gpu_rate = UsdPerHour{0};
        else if (gpu)
            m.gpu_rate = UsdPerHour{*gpu};
    }
    // There is no reason code; a floor above what we pay says it as clearly as it gets.
    const auto floor = read_price(i.min_bid);
    if (m.spot && floor.ok() && floor.micros <= kMicrosPerHourMax) m.spot_floor = UsdPerHour{floor.micros};
    if (m.presence == Presence::running) m.ssh = ssh_of(i);
    m.outbid = m.spot && m.presence == Presence::stopped && floor.ok() && gpu && floor.micros > *gpu;
    return m;
}

LaunchOutcome outcome_of(const Reply<Created>& reply) {
    LaunchOutcome out;
    const auto& a = reply.answer;
    constexpr std::string_view what = "create instance";
    if (reply.value) {
        out.id = ProviderMachineId{std::to_string(reply.value->contract)};
        if (a.ok()) return out;
        // A bid that is too low leaves a stopped, billed instance behind its error.
        out.error = error_with(refusal_of(a).value_or(ErrorKind::unknown_outcome), a,
                               "create instance (a contract came with the error)");
        return out;
    }
    if (a.paced || a.delivery == Delivery::not_sent)
        out.error = error_with(ErrorKind::unavailable, a, what);
    else
        out.error = error_with(refusal_of(a).value_or(ErrorKind::unknown_outcome), a, what);
    return out;
}

bool says_bad_key(const Answer& a) {
    if (a.delivery != Delivery::answered || !a.json) return false;
    if (a.code == "auth_error")
        return a.status == 401 || a.status == 403 || a.status == 404 || a.status == 200;
    if (contains_folded(a.text, "invalid user key") || contains_folded(a.text, "does not match any user"))
        return true;
    return a.status == 401 || (a.status == 404 && !a.key_good && (blames_key(a.code) || blames_key(a.text)));
}

bool says_no_such_instance(const Answer& a) {
    if (a.delivery != Delivery::answered || !a.json || says_bad_key(a)) return false;
    if (a.status != 404 && !(a.status == 200 && a.success == false)) return false;
    return a.code == "no_such_instance" || a.code == "not_found" || contains_folded(a.text, "not found") ||
           contains_folded(a.text, "does not exist");
}

Error read_error(const Answer& a, std::string_view what) {
    if (a.paced) return error_with(a.held, a, what);
    if (a.delivery != Delivery::answered) return error_with(ErrorKind::unavailable, a, what);
    if (says_bad_key(a)) return error_with(ErrorKind::auth, a, what);
    if (a.status == 429) return error_with(ErrorKind::rate_limited, a, what);
    if (a.status == 410 || is_deprecated(a)) return error_with(ErrorKind::api_retired, a, what);
    if (a.status >= 500 || (a.status >= 300 && a.status < 400))
        return error_with(ErrorKind::unavailable, a, what);
    return error_with(ErrorKind::malformed, a, what);
}

Error destroy_error(const Answer& a) {
    constexpr std::string_view what = "destroy instance";
    if (a.paced || a.status == 429) return error_with(ErrorKind::rate_limited, a, what);
    if (a.delivery == Delivery::not_sent) return error_with(ErrorKind::unavailable, a, what);
    if (says_bad_key(a)) return error_with(ErrorKind::auth, a, what);
    if (a.delivery == Delivery::answered && (a.status == 410 || is_deprecated(a)))
        return error_with(ErrorKind::api_retired, a, what);
    return error_with(ErrorKind::unknown_outcome, a, what);
}

Error change_error(const Answer& a, std::string_view what, ErrorKind unclear) {
    if (a.paced) return error_with(a.held, a, what);
    if (a.delivery == Delivery::not_sent) return error_with(ErrorKind::unavailable, a, what);
    if (a.delivery == Delivery::no_answer) return error_with(unclear, a, what);
    if (says_bad_key(a)) return error_with(ErrorKind::auth, a, what);
    if (a.status == 429) return error_with(ErrorKind::rate_limited, a, what);
    if (says_no_such_instance(a)) return error_with(ErrorKind::not_found, a, what);
    if (a.status == 410 || is_deprecated(a)) return error_with(ErrorKind::api_retired, a, what);
    if (a.json && a.status == 400) return error_with(ErrorKind::refused, a, what);
    return error_with(unclear, a, what);
}

std::optional<Charge> charge_of(const ChargeRow& row) {
    const auto from = instant_of_unix(row.start);
    const auto until = instant_of_unix(row.end);
    const auto micros = read_amount(row.amount);
    if (!from || !until || !micros) return std::nullopt;
    constexpr std::string_view prefix = "instance-";
    Charge out{.machine = {}, .tag = row.label, .from = *from, .until = *until, .amount = Usd{*micros}};
    if (row.source.starts_with(prefix)) out.machine = ProviderMachineId{row.source.substr(prefix.size())};
    return out;
}

}  // namespace gf::vastai
