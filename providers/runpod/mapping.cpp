#include "providers/runpod/mapping.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <nlohmann/json.hpp>

#include "providers/canary.hpp"
#include "providers/container_sshd.hpp"

namespace gf::runpod {
namespace {

bool contains_folded(std::string_view text, std::string_view words) {
    const auto same = [](char a, char b) {
        return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
    };
    return std::search(text.begin(), text.end(), words.begin(), words.end(), same) != text.end();
}

template <std::size_t N>
bool contains_any(std::string_view text, const std::array<std::string_view, N>& list) {
    return std::ranges::any_of(list, [&](auto words) { return contains_folded(text, words); });
}

// 400 is both "no capacity" and "the request is wrong"; only the text tells them apart (README.md,
// "Refusals").
constexpr std::array<std::string_view, 5> kCapacityTexts{
    "no longer any instances available",
    "no instances currently available",
    "does not have the resources to deploy your pod",
    "not enough free GPUs on the host machine",
    "no instances available with the request",
};
// Some paths send this with 400 or 500 instead of 402, so the text is looked at before the status.
constexpr std::array<std::string_view, 1> kMoneyTexts{"account balance is too low"};
// The account's own limits: every other offer meets them as well. The exact sentences are not published.
constexpr std::array<std::string_view, 3> kQuotaTexts{"quota", "spend limit", "spending limit"};

std::string upper(std::string_view text) {
    std::string out(text);
    std::ranges::transform(out, out.begin(), [](char c) {
        return static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    });
    return out;
}

MemoryReading memory_of(std::optional<double> memory_gb, const std::string& gpu_id, const GpuLookup& lookup) {
    // The catalog's "memory" is in GiB in truth: its 24, 80, 94, 141 and 180 are what the drivers report in
    // MiB over 1024.
    return memory_gb ? read_gpu_memory(*memory_gb, kGiB, "runpod", gpu_id, lookup) : MemoryReading{};
}

/// "… MIG 1g.24gb": a part of a card goes by the card's name, and only its memory tells it from the whole.
bool is_slice(std::string_view gpu_id) {
    return contains_folded(gpu_id, " MIG ");
}

int stock_of(std::string_view any_case) {
    const auto availability = upper(any_case);  // GraphQL: "Medium"
    if (availability == "NONE") return 0;
    if (availability == "LOW") return 1;
    if (availability == "MEDIUM") return 2;
    if (availability == "HIGH") return 3;
    return -1;
}

std::pair<int, int> version_of(std::string_view text) {
    int major = 0;
    int minor = 0;
    const auto* end = text.data() + text.size();
    const auto [dot, error] = std::from_chars(text.data(), end, major);
    if (error == std::errc{} && dot < end && *dot == '.') std::from_chars(dot + 1, end, minor);
    return {major, minor};
}

/// The oldest version that some host with stock has. A pod is not pinned to a version, so any of those hosts
/// may be ours and only the oldest is promised. Compared as numbers: 12.11 is above 12.2.
std::string cuda_promised(const std::vector<std::string>& available) {
    std::string lowest;
    for (const auto& v : available)
        if (!v.empty() && (lowest.empty() || version_of(v) < version_of(lowest))) lowest = v;
    return lowest;
}

UsdPerHour disk_cost(std::int64_t gb, std::int64_t micros_per_gb_month) {
    return disk_rate(micros_per_gb_month, gb, kHoursPerMonth);
}
/// GB of a disk; what is no figure counts as none.
std::int64_t disk_size(std::optional<std::int64_t> gb) {
    return gb && *gb > 0 && *gb <= kDiskGbMax ? *gb : 0;
}

Error error_with(ErrorKind kind, const Answer& answer, std::string_view what) {
    return call_error(kind, "RunPod", what, answer);
}

/// A wrong key may be answered like a pod that is not there.
bool says_bad_key(const Answer& a) {
    return doubts_key(a) && a.shape != Shape::not_json && a.shape != Shape::none;
}

bool says_no_capacity(const Answer& a) {
    return a.code == "SUPPLY_CONSTRAINT" || contains_any(a.text, kCapacityTexts);
}

/// The kind of a clean refusal of a create; nothing if the answer is not on the white-list.
std::optional<ErrorKind> refusal_of(const Answer& a) {
    if (a.delivery != Delivery::answered) return std::nullopt;
    const bool json_error = a.shape == Shape::problem || a.shape == Shape::v1 || a.shape == Shape::graphql;
    if (a.status >= 400 && json_error && contains_any(a.text, kMoneyTexts)) return ErrorKind::no_money;
    const bool may_be_quota = a.status == 200 ? a.shape == Shape::graphql : may_tell_quota(a.status);
    if (json_error && may_be_quota && contains_any(a.text, kQuotaTexts)) return ErrorKind::quota;
    if (a.status == 410) return ErrorKind::api_retired;  // the route is gone: nobody there who could rent
    if (says_bad_key(a)) return ErrorKind::auth;
    // GraphQL reports failed executions with HTTP 200, some servers of it with 400; v2 has been seen to pass such a body on.
    if ((a.status == 200 || a.status == 400) && a.shape == Shape::graphql) {
        if (says_no_capacity(a)) return ErrorKind::no_capacity;
        if (a.code == "INSUFFICIENT_BALANCE" || contains_any(a.text, kMoneyTexts)) return ErrorKind::no_money;
        return std::nullopt;
    }
    if (a.status == 400 && json_error && contains_any(a.text, kCapacityTexts)) return ErrorKind::no_capacity;
    // From here on only v2's own voice: HTML with 403 is the edge, not an authorisation decision.
    if (a.shape != Shape::problem) return std::nullopt;
    switch (a.status) {
        case 400:
            return ErrorKind::no_capacity;  // a business rule that this candidate breaks: the next one may
                                            // not
        case 401:
            return ErrorKind::auth;
        case 402:
            return ErrorKind::no_money;
        case 403:
            return ErrorKind::no_capacity;  // this pool is closed to the account: skip the candidate
        case 404:
            return ErrorKind::no_capacity;  // the type or registry is not known there
        case 405:
        case 413:
        case 422:
            return ErrorKind::refused;  // schema violation: the same request can never succeed
        default:
            return std::nullopt;
    }
}

}  // namespace

std::string offer_id(const OfferId& id) {
    return fmt::format("{}{}/{}/{}", id.spot ? "spot/" : "", id.cloud, id.gpu_id, id.count);
}

std::optional<OfferId> parse_offer_id(std::string_view text) {
    constexpr std::string_view spot = "spot/";
    const bool is_spot = text.starts_with(spot);
    if (is_spot) text.remove_prefix(spot.size());
    const auto first = text.find('/');
    const auto last = text.rfind('/');
    if (first == std::string_view::npos || last <= first + 1) return std::nullopt;
    OfferId id{.cloud = std::string(text.substr(0, first)),
               .gpu_id = std::string(text.substr(first + 1, last - first - 1))};
    const auto count = text.substr(last + 1);
    const auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), id.count);
    if (error != std::errc{} || end != count.data() + count.size() || id.count < 1) return std::nullopt;
    if (id.cloud != "secure" && id.cloud != "community") return std::nullopt;
    id.spot = is_spot;
    return id;
}

std::optional<std::variant<Offer, RejectedOffer>> offer_of(const GpuType& gpu, std::string_view cloud,
                                                           int count, const GpuLookup& lookup) {
    if (gpu.id == "unknown") return std::nullopt;
    const auto id = offer_id({.cloud = std::string(cloud), .gpu_id = gpu.id, .count = count});
    if (!gpu.problem.empty()) return RejectedOffer{.id = id, .reason = "malformed"};
    if (gpu.id.empty()) return RejectedOffer{.id = id, .reason = "gpu_name_missing"};
    const bool secure = cloud == "secure";
    // A price may be shown for a type that is not sold there (placeholders such as 0.5 were seen): the
    // boolean decides.
    const auto sold = secure ? gpu.secure : gpu.community;
    if (sold && !*sold) return std::nullopt;
    if (!sold) return RejectedOffer{.id = id, .reason = "not_known_to_be_sold"};
    const auto size_max = secure ? gpu.max_secure : gpu.max_community;
    if (size_max && *size_max < count) return RejectedOffer{.id = id, .reason = "no_machine_of_that_size"};
    const auto price = read_price(secure ? gpu.price_secure : gpu.price_community);
    if (!price.ok()) return RejectedOffer{.id = id, .reason = price.reason};
    if (price.micros > kMicrosPerHourMax / count) return RejectedOffer{.id = id, .reason = "price_too_large"};
    const auto memory = memory_of(gpu.memory_gb, gpu.id, lookup);
    if (memory.unsettled) return RejectedOffer{.id = id, .reason = std::string(kMemoryUnit)};
    if (is_slice(gpu.id) && !memory.memory) return RejectedOffer{.id = id, .reason = "memory_missing"};

    Offer offer;
    offer.provider = ProviderName{"runpod"};
    offer.id = id;
    offer.gpu.provider_name = gpu.id;
    offer.gpu.memory = memory.memory;
    offer.gpu.canonical = lookup("runpod", gpu.id, offer.gpu.memory).value_or("");
    offer.gpu_count = count;
    offer.gpu_rate = UsdPerHour{price.micros * count};  // the list price is that of one GPU
    offer.disk_micros_per_gb_month = kDiskMicrosRunning;
    offer.hours_per_month = kHoursPerMonth;
    // Where a pod will stand is known only if one data center has stock; the country must not be guessed from
    // the id.
    if (gpu.data_centers.size() == 1) offer.region = offer.data_center = gpu.data_centers.front();
    offer.cloud = std::string(cloud);
    offer.verified = secure;  // the community cloud is other people's machines
    offer.cuda_max = cuda_promised(gpu.cuda_available);
    offer.stock = stock_of(gpu.availability);
    return offer;
}

std::optional<std::variant<Offer, RejectedOffer>> spot_offer_of(const SpotType& gpu, std::string_view cloud, int count,
                                                                const GpuLookup& lookup) {
    if (gpu.id == "unknown") return std::nullopt;
    const auto id = offer_id({.cloud = std::string(cloud), .gpu_id = gpu.id, .count = count, .spot = true});
    const auto rejected = [&](std::string reason) { return RejectedOffer{.id = id, .reason = std::move(reason)}; };
    if (!gpu.problem.empty()) return rejected("malformed");
    if (gpu.id.empty()) return rejected("gpu_name_missing");
    // All of lowestPrice is null for what is not offered.
    if (gpu.sold == false || gpu.stock.empty()) return std::nullopt;
    if (!gpu.counts.empty() && std::ranges::find(gpu.counts, count) == gpu.counts.end())
        return rejected("no_machine_of_that_size");
    const auto floor = read_price(gpu.floor, "min_bid");  // of one GPU
    if (!floor.ok()) return rejected(floor.reason);
    if (floor.micros > kMicrosPerHourMax / count / 2) return rejected("price_too_large");
    const auto memory = memory_of(gpu.memory_gb, gpu.id, lookup);
    if (memory.unsettled) return rejected(std::string(kMemoryUnit));
    if (is_slice(gpu.id) && !memory.memory) return rejected("memory_missing");
    // Whole $0.0001, because a bid is sent per GPU.
    const auto bid = (floor.micros + (floor.micros * kBidMarginPercent + 99) / 100 + 99) / 100 * 100;

    Offer offer;
    offer.provider = ProviderName{"runpod"};
    offer.id = id;
    offer.spot = true;
    offer.gpu.provider_name = gpu.id;
    offer.gpu.memory = memory.memory;
    offer.gpu.canonical = lookup("runpod", gpu.id, offer.gpu.memory).value_or("");
    offer.gpu_count = count;
    offer.gpu_rate = UsdPerHour{bid * count};
    offer.spot_floor = UsdPerHour{floor.micros * count};
    offer.disk_micros_per_gb_month = kDiskMicrosRunning;
    offer.hours_per_month = kHoursPerMonth;
    offer.cloud = std::string(cloud);
    offer.verified = cloud == "secure";
    offer.stock = stock_of(gpu.stock);
    return offer;
}

CreateRequest create_request(const LaunchRequest& request, const OfferId& offer, std::string registry_id) {
    CreateRequest out;
    out.name = request.tag.get();
    out.image = request.image.empty() ? std::string(kDefaultImage) : request.image;
    out.gpu_id = offer.gpu_id;
    out.gpu_count = offer.count;
    out.cloud = upper(offer.cloud);
    out.disk_gb = std::max<std::int64_t>(request.disk_gb, 1);  // always sent: leaving it out was refused once
    out.env = request.env;
    out.env["GPUFERRY_MACHINE"] = request.tag.get();  // second witness: names can be changed in the console
    // An image may name another user; the agent starts as root and drops to the job's (providers/runpod.md, quirk 20).
    out.env["RUNPOD_POD_USER"] = "0";
    auto script = request.start_script;
    if (request.ssh) {
        // The account's keys are left alone: the pod's own PUBLIC_KEY wins over them.
        out.env["PUBLIC_KEY"] = request.ssh->client_public;
        out.ports = {"22/tcp"};
        out.start_ssh = true;
        script = with_sshd(request.ssh->client_public, script);
    }
    if (request.bid) out.bid_micros_per_gpu = request.bid->micros / offer.count;
    // The JSON form sets entrypoint and command without any shell quoting of RunPod's own in between.
    out.args = nlohmann::json{{"entrypoint", {"/bin/sh", "-c"}}, {"cmd", {script}}}.dump();
    out.registry_id = std::move(registry_id);
    return out;
}

ProviderMachine machine_of(const Pod& pod, const GpuLookup& lookup) {
    ProviderMachine m;
    m.id = ProviderMachineId{pod.id};
    m.tag = pod.name;
    m.env_tag = pod.machine_mark;
    m.raw_state = pod.has_runtime ? pod.status + ", container up" : pod.status;
    m.region = m.data_center = pod.data_center;
    m.created_at = parse_rfc3339(pod.created_at);
    if (pod.gpu_count) m.gpu_count = static_cast<int>(std::clamp<std::int64_t>(*pod.gpu_count, 0, 1024));
    if (!pod.gpu_id.empty())
        m.gpu = GpuIdentity{.canonical = lookup("runpod", pod.gpu_id, std::nullopt).value_or(""),
                            .provider_name = pod.gpu_id,
                            .memory = std::nullopt};
    const auto cost = read_price_or_zero(pod.cost);
    const auto running_disk =
        disk_cost(disk_size(pod.disk_gb) + disk_size(pod.volume_gb), kDiskMicrosRunning);

    if (pod.status == "RUNNING") {
        // RUNNING comes before the image is pulled; the container is there when `runtime` is.
        m.presence = pod.has_runtime ? Presence::running : Presence::booting;
    } else if (pod.status == "PROVISIONING" || pod.status == "STARTING") {
        m.presence = Presence::booting;
    } else if (pod.status == "EXITED") {
        m.presence = Presence::stopped;
    } else if (pod.status == "ERROR") {
        m.presence = Presence::failed;
    } else if (pod.status == "TERMINATED") {
        m.presence = Presence::gone;
    } else {
        m.presence = Presence::unknown;
    }

    // A pod that does not run keeps showing its last port.
    if (m.presence == Presence::running && !pod.ssh_host.empty() && pod.ssh_port && *pod.ssh_port > 0 &&
        *pod.ssh_port <= 65'535)
        m.ssh = SshEndpoint{.host = pod.ssh_host,
                            .port = static_cast<int>(*pod.ssh_port),
                            .user = pod.ssh_user.empty() ? "root" : pod.ssh_user};
    if (m.presence == Presence::stopped) {
        // The GPU is free again whatever `cost` says (a recorded stopped pod still showed its full price),
        // the container disk is wiped, and a volume costs double.
        m.gpu_rate = UsdPerHour{0};
        m.disk_rate = disk_cost(disk_size(pod.volume_gb), kVolumeMicrosStopped);
    } else if (m.presence == Presence::gone) {
        m.gpu_rate = UsdPerHour{0};
        m.disk_rate = UsdPerHour{0};
    } else {
        // Billed from the moment a machine is assigned, so also while the image is pulled (user reports;
        // assumed).
        if (cost.ok() && cost.micros <= kMicrosPerHourMax) m.gpu_rate = UsdPerHour{cost.micros};
        if (pod.disk_gb) m.disk_rate = running_disk;
    }
    return m;
}

LaunchOutcome outcome_of(const Reply<Pod>& reply) {
    LaunchOutcome out;
    const auto& a = reply.answer;
    if (reply.value) {
        out.id = ProviderMachineId{reply.value->id};
        if (a.success() && a.shape == Shape::object) {
            const auto cost = read_price(reply.value->cost);
            if (cost.ok() && cost.micros <= kMicrosPerHourMax)
                out.rate = UsdPerHour{cost.micros} +
                           disk_cost(disk_size(reply.value->disk_gb) + disk_size(reply.value->volume_gb),
                                     kDiskMicrosRunning);
            return out;
        }
        // Unparsed or cut answers may still carry an id, and an id beside an error is a machine to be
        // destroyed first.
        out.error = error_with(refusal_of(a).value_or(ErrorKind::unknown_outcome), a,
                               "create pod (an id came with the error)");
        return out;
    }
    if (a.paced || a.delivery == Delivery::not_sent) {
        out.error = error_with(ErrorKind::unavailable, a, "create pod");
        return out;
    }
    out.error = error_with(refusal_of(a).value_or(ErrorKind::unknown_outcome), a, "create pod");
    return out;
}

SpotOutcome spot_outcome_of(const Reply<Pod>& reply) {
    SpotOutcome out{.launch = outcome_of(reply)};
    const auto& a = reply.answer;
    if (!out.launch.error || !out.launch.id.empty() || a.delivery != Delivery::answered) return out;
    // A query that does not pass the schema is not executed: the mutation is gone, or is another one now. 401 and 403 in JSON
    // are this service's word on the key, which v2 may still take.
    const bool spoken = a.shape != Shape::not_json && a.shape != Shape::none;
    const bool never_executed = a.code == "GRAPHQL_VALIDATION_FAILED";
    out.closed = never_executed || a.status == 410 || (a.status == 400 && a.shape == Shape::graphql) ||
                 ((a.status == 401 || a.status == 403 || a.status == 404) && spoken);
    // Who says what is wrong with the account or the stock does execute, and the core must hear that.
    const auto said = refusal_of(a);
    const bool of_account = said == ErrorKind::no_money || said == ErrorKind::quota;
    if (!never_executed && (of_account || (said == ErrorKind::no_capacity && says_no_capacity(a)))) out.closed = false;
    if (out.closed) out.launch.error->kind = ErrorKind::no_capacity;
    return out;
}

std::optional<Charge> charge_of(const BillingRecord& record) {
    const auto from = parse_rfc3339(record.start);
    const auto until = parse_rfc3339(record.end);
    const auto micros = read_amount(record.amount);
    if (record.pod_id.empty() || !from || !until || !micros) return std::nullopt;
    return Charge{.machine = ProviderMachineId{record.pod_id}, .tag = {}, .from = *from, .until = *until, .amount = Usd{*micros}};
}

Error read_error(const Answer& a, std::string_view what) {
    if (a.paced) return error_with(a.held, a, what);
    if (a.delivery != Delivery::answered) return error_with(ErrorKind::unavailable, a, what);
    const bool own_voice = a.shape == Shape::problem || a.shape == Shape::v1 || a.shape == Shape::graphql;
    if (says_bad_key(a)) return error_with(ErrorKind::auth, a, what);
    switch (a.status) {
        case 401:
            return error_with(own_voice ? ErrorKind::auth : ErrorKind::unavailable, a, what);
        case 403:
            // Whatever is not v2's (or GraphQL's) own voice is the edge in front of it, which knows no keys.
            return error_with(own_voice && a.shape != Shape::v1 ? ErrorKind::auth : ErrorKind::unavailable, a, what);
        case 402:
            return error_with(ErrorKind::no_money, a, what);
        case 410:
            return error_with(ErrorKind::api_retired, a, what);
        case 429:
            return error_with(ErrorKind::rate_limited, a, what);
        default:
            break;
    }
    // Redirects are not followed and 5xx is somebody in between or behind: nothing was learnt either way.
    if (a.status >= 500 || (a.status >= 300 && a.status < 400))
        return error_with(ErrorKind::unavailable, a, what);
    return error_with(ErrorKind::malformed, a, what);
}

Error login_error(const Answer& a, std::string_view what, bool stores) {
    auto error = read_error(a, what);
    if (closed_to_account(a)) {
        error.kind = ErrorKind::refused;
        error.message += "; a private image needs a key with read and write for registries";
    } else if (error.kind == ErrorKind::malformed && stores && (a.status == 400 || a.status == 422)) {
        error.kind = ErrorKind::refused;
    } else if (error.kind == ErrorKind::rate_limited) {
        error.kind = ErrorKind::unavailable;
    } else if (a.delivery == Delivery::answered &&
               (error.kind == ErrorKind::malformed || error.kind == ErrorKind::api_retired || error.kind == ErrorKind::unavailable)) {
        error.kind = ErrorKind::not_yet;
    }
    return error;
}

bool closed_to_account(const Answer& a) {
    return a.delivery == Delivery::answered && a.status == 403 && a.shape == Shape::problem;
}

bool says_no_such_pod(const Answer& a) {
    if (a.delivery != Delivery::answered) return false;
    if (a.status == 404) return a.shape == Shape::problem && !says_bad_key(a);
    return a.status == 200 && (a.shape == Shape::graphql || a.shape == Shape::v1) &&
           contains_folded(a.text, "not found");
}

Result<void> destroyed(const Answer& a) {
    if (a.success() && (a.shape == Shape::none || a.shape == Shape::object)) return {};
    if (says_no_such_pod(a)) return {};
    constexpr std::string_view what = "terminate pod";
    if (a.paced) return fail(error_with(ErrorKind::rate_limited, a, what));
    if (a.delivery == Delivery::not_sent) return fail(error_with(ErrorKind::unavailable, a, what));
    if (a.delivery == Delivery::answered) {
        if ((a.status == 401 && a.shape == Shape::problem) || says_bad_key(a)) return fail(error_with(ErrorKind::auth, a, what));
        if (a.status == 403 && a.shape == Shape::problem) return fail(error_with(ErrorKind::auth, a, what));
        if (a.status == 410) return fail(error_with(ErrorKind::api_retired, a, what));
        if (a.status == 429) return fail(error_with(ErrorKind::rate_limited, a, what));
    }
    return fail(error_with(ErrorKind::unknown_outcome, a, what));
}

}  // namespace gf::runpod
