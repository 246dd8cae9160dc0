#include "providers/lambda/mapping.hpp"

#include <fmt/format.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "providers/cloud_init.hpp"

namespace gf::lambda {
namespace {

constexpr std::size_t kUserDataMax = 1'000'000;

struct RegionRow {
    std::string_view name;
    std::string_view country;
};
// Regions that are not here are accepted with an unknown country; what begins with "us-" is in the US by its
// name.
constexpr std::array kRegions{RegionRow{"europe-central-1", "DE"}, RegionRow{"asia-south-1", "IN"},
                              RegionRow{"me-west-1", "IL"},        RegionRow{"asia-northeast-1", "JP"},
                              RegionRow{"asia-northeast-2", "JP"}, RegionRow{"australia-east-1", "AU"}};

struct TypeRow {
    std::string_view name;
    int vram_gb;
};
// Only for a type whose description does not say its memory.
constexpr std::array kTypes{
    TypeRow{"gpu_1x_gh200", 96},          TypeRow{"gpu_1x_b200_sxm6", 180}, TypeRow{"gpu_2x_b200_sxm6", 180},
    TypeRow{"gpu_8x_b200_sxm6", 180},     TypeRow{"gpu_1x_h100_pcie", 80},  TypeRow{"gpu_1x_h100_sxm5", 80},
    TypeRow{"gpu_2x_h100_sxm5", 80},      TypeRow{"gpu_4x_h100_sxm5", 80},  TypeRow{"gpu_8x_h100_sxm5", 80},
    TypeRow{"gpu_8x_h100_sxm5gdr", 80},   TypeRow{"gpu_1x_a100", 40},       TypeRow{"gpu_1x_a100_sxm4", 40},
    TypeRow{"gpu_2x_a100", 40},           TypeRow{"gpu_4x_a100", 40},       TypeRow{"gpu_8x_a100", 40},
    TypeRow{"gpu_8x_a100_80gb_sxm4", 80}, TypeRow{"gpu_1x_a10", 24},        TypeRow{"gpu_1x_a6000", 48},
    TypeRow{"gpu_2x_a6000", 48},          TypeRow{"gpu_4x_a6000", 48},      TypeRow{"gpu_1x_rtx6000", 24},
    TypeRow{"gpu_8x_v100", 16},           TypeRow{"gpu_8x_v100_n", 16}};

std::optional<Bytes> gib(std::optional<std::int64_t> count) {
    if (!count || *count <= 0 || *count > 10'000'000) return std::nullopt;
    return Bytes{*count * kGiB};
}

/// Cents per hour of the whole instance as micro-dollars.
PriceReading price_of(const InstanceType& type) {
    auto reading = read_price(type.price_cents);
    // "1.29" is dollars in a field of whole cents: rented at a hundredth of its price.
    constexpr std::int64_t kCent = 1'000'000;  // as the field has it
    if (reading.ok() && reading.micros % kCent != 0) reading.reason = kPriceUnit;
    if (reading.ok()) reading.micros /= 100;
    if (reading.ok() && reading.micros > kMicrosPerHourMax) reading.reason = "price_too_large";
    return reading;
}

std::optional<Bytes> memory_of(const InstanceType& type, const GpuLookup& lookup) {
    auto gb = vram_gb(type.gpu_description);
    if (!gb)
        if (const auto* row = std::ranges::find(kTypes, type.name, &TypeRow::name); row != kTypes.end())
            gb = row->vram_gb;
    if (!gb) return std::nullopt;
    // The marketing class: what the cards report is within the table's tolerance of as many GiB.
    return read_gpu_memory(*gb, kGiB, "lambda", type.name, lookup).memory;
}

GpuIdentity gpu_of(const InstanceType& type, const GpuLookup& lookup) {
    GpuIdentity gpu{.canonical = {}, .provider_name = type.name, .memory = memory_of(type, lookup)};
    auto known = lookup("lambda", type.name, gpu.memory);
    // A type that came after this release may still have a card with a known description.
    if (!known && !type.gpu_description.empty()) known = lookup("lambda", type.gpu_description, gpu.memory);
    gpu.canonical = known.value_or("");
    return gpu;
}

bool is_arm(const InstanceType& type) {
    const auto says = [&](std::string_view word) {
        return type.gpu_description.find(word) != std::string::npos;
    };
    return says("GH200") || says("GB200") || says("GB300") || type.name.find("gh200") != std::string::npos ||
           type.name.find("gb200") != std::string::npos || type.name.find("gb300") != std::string::npos;
}

Error error_with(ErrorKind kind, const Answer& a, std::string_view what) {
    return call_error(kind, "Lambda", what, a, a.code);
}

/// What the account itself lacks, whatever was asked; by code, since messages may change.
std::optional<ErrorKind> account_trouble(const Answer& a) {
    // Whatever word stands beside a 401 of Lambda's own. A wrong key may also be answered like an instance that is not there.
    if (a.status == 401 && !a.code.empty()) return ErrorKind::auth;
    if (a.json && doubts_key(a)) return ErrorKind::auth;
    if (a.code == "global/invalid-api-key" || a.code == "global/account-inactive" ||
        a.code == "global/invalid-address" || a.code == "global/forbidden")
        return ErrorKind::auth;
    // Not of the layer below ("provider/…"), whose quota is not the account's.
    if (a.code.ends_with("/quota-exceeded") && !a.code.starts_with("provider/")) return ErrorKind::quota;
    return std::nullopt;
}

/// The kind of a clean refusal of a launch; nothing if the answer is not on the white-list.
std::optional<ErrorKind> refusal_of(const Answer& a) {
    if (a.delivery != Delivery::answered) return std::nullopt;
    if (a.status == 410) return ErrorKind::api_retired;  // the route is gone: nobody there who could rent
    if (const auto kind = account_trouble(a); kind && a.status >= 400 && a.status < 500 && a.status != 429) return kind;
    // A success by status with an error in its body is Lambda's own word too, and no instance came with it.
    const bool told = (a.status >= 400 && a.status < 500 && a.status != 408 && a.status != 429) ||
                      (a.status == 200 && a.code == "instance-operations/launch/insufficient-capacity");
    const bool own_fault = a.status == 422 && a.json;  // the request's, where no code says another thing
    if (!told || (a.code.empty() && !own_fault)) return std::nullopt;
    if (a.code == "instance-operations/launch/insufficient-capacity") return ErrorKind::no_capacity;
    // A type, region, image or key that is not there: another candidate may be, and our own key is registered
    // anew.
    if (a.code == "global/object-does-not-exist") return ErrorKind::no_capacity;
    if (a.code == "global/not-found") return ErrorKind::api_retired;  // the route
    if (a.code == "global/invalid-parameters" ||
        a.code == "instance-operations/launch/file-system-in-wrong-region" ||
        a.code == "instance-operations/launch/file-systems-not-supported")
        return ErrorKind::refused;
    if (own_fault) return ErrorKind::refused;
    // `provider/…`, `global/unknown`, `global/internal-error`, `global/conflict` and codes that came later
    // may stand beside an instance.
    return std::nullopt;
}

}  // namespace

std::string offer_id(const OfferId& id) {
    return id.type + "/" + id.region;
}

std::optional<OfferId> parse_offer_id(std::string_view text) {
    const auto slash = text.find('/');
    if (slash == std::string_view::npos || slash == 0 || slash + 1 == text.size()) return std::nullopt;
    return OfferId{.type = std::string(text.substr(0, slash)), .region = std::string(text.substr(slash + 1))};
}

std::optional<int> vram_gb(std::string_view description) {
    const auto open = description.find('(');
    if (open == std::string_view::npos) return std::nullopt;
    int gb = 0;
    const auto* begin = description.data() + open + 1;
    const auto* end = description.data() + description.size();
    const auto [rest, error] = std::from_chars(begin, end, gb);
    if (error != std::errc{} || gb <= 0) return std::nullopt;
    const std::string_view unit(rest, end);
    if (!unit.starts_with(" GB") || (unit.size() > 3 && unit[3] != ' ' && unit[3] != ')'))
        return std::nullopt;
    return gb;
}

std::string country_of(std::string_view region) {
    if (region.starts_with("us-")) return "US";
    const auto* row = std::ranges::find(kRegions, region, &RegionRow::name);
    return row == kRegions.end() ? std::string() : std::string(row->country);
}

std::optional<Drift> odd_prices(const std::vector<TypeListing>& types) {
    int odd = 0;
    int priced = 0;
    std::string example;
    for (const auto& row : types) {
        const auto price = price_of(row.type);
        if (price.reason == kPriceUnit && ++odd == 1)
            example = row.type.name + " at " + row.type.price_cents.value_or("");
        if (price.ok() || price.reason == kPriceUnit) ++priced;
    }
    // One odd row is refused for itself; some types cost whole dollars.
    if (2 * odd <= priced) return std::nullopt;
    return Drift{
        .what = std::string(kPriceUnit),
        .detail = fmt::format("{} of {} prices in the list of instance types are no whole cents ({})", odd,
                              priced, example)};
}

std::variant<Offer, RejectedOffer> offer_of(const InstanceType& type, const std::string& region,
                                            const GpuLookup& lookup) {
    const auto id = offer_id({.type = type.name, .region = region});
    const auto rejected = [&](std::string_view reason) {
        return RejectedOffer{.id = id, .reason = std::string(reason)};
    };
    if (!type.problem.empty()) return rejected("malformed");
    if (type.name.empty() || region.empty()) return rejected("id_missing");
    if (!type.gpus) return rejected("gpu_count_missing");
    if (*type.gpus < 1 || *type.gpus > 1024) return rejected("no_gpu");
    const auto price = price_of(type);
    if (!price.ok()) return rejected(price.reason);

    Offer o;
    o.provider = ProviderName{"lambda"};
    o.id = id;
    o.gpu = gpu_of(type, lookup);
    if (const auto gb = vram_gb(type.gpu_description); gb && !o.gpu.memory) return rejected(kMemoryUnit);
    o.gpu_count = static_cast<int>(*type.gpus);
    o.gpu_rate = UsdPerHour{price.micros};  // the whole instance, and the same in all regions
    o.billing_step = std::chrono::minutes{1};
    o.region = region;
    o.country = country_of(region);
    o.data_center = region;
    if (type.vcpus && *type.vcpus > 0) o.cpus = static_cast<double>(*type.vcpus);
    o.memory = gib(type.memory_gib);
    o.disk_max = gib(type.storage_gib);  // comes with the instance, at no price of its own
    o.verified = true;                   // Lambda's own machines
    o.arch = is_arm(type) ? "arm64" : "amd64";
    return o;
}

Result<LaunchCall> launch_call(const LaunchRequest& request, std::string ssh_key) {
    const auto refused = [](std::string why) {
        return fail(ErrorKind::refused, "Lambda, launch: " + std::move(why));
    };
    const auto offer = parse_offer_id(request.offer.id);
    if (!offer) return refused(fmt::format("'{}' is no offer of Lambda", request.offer.id));
    if (request.bid || request.offer.spot) return refused("Lambda has no spot market");
    LaunchCall out;
    out.type = offer->type;
    out.region = offer->region;
    out.ssh_key = std::move(ssh_key);
    out.name = request.tag.get();
    out.hostname = request.tag.get();
    // A second witness: names can be changed in the console.
    out.tags = {{.key = std::string(kTagKey), .value = request.tag.get()}};
    out.user_data = cloud_init_script(request, {.login = "ubuntu"});
    if (out.user_data.size() > kUserDataMax) return refused("user_data is longer than 1 MB");
    return out;
}

ProviderMachine machine_of(const Instance& i, const GpuLookup& lookup) {
    ProviderMachine m;
    m.id = ProviderMachineId{i.id};
    m.tag = i.name;
    for (const auto& tag : i.tags)
        if (tag.key == kTagKey) m.env_tag = tag.value;
    m.raw_state = i.status;
    if (i.type.gpus) m.gpu_count = static_cast<int>(std::clamp<std::int64_t>(*i.type.gpus, 0, 1024));
    if (!i.type.name.empty()) m.gpu = gpu_of(i.type, lookup);
    m.region = i.region;
    m.data_center = i.region;
    if (!i.ip.empty()) m.ssh = SshEndpoint{.host = i.ip, .port = 22, .user = "ubuntu"};
    m.disk_rate = UsdPerHour{0};  // within the instance's price
    const auto price = price_of(i.type);
    const auto full = price.ok() ? std::optional(UsdPerHour{price.micros}) : std::nullopt;

    // No creation time is told.
    if (i.status == "booting") {
        m.presence = Presence::booting;
        m.gpu_rate = UsdPerHour{0};  // billed from the moment that the health checks have passed
    } else if (i.status == "active") {
        m.presence = Presence::running;
        m.gpu_rate = full;
    } else if (i.status == "unhealthy") {
        // The health check fails, and may pass again: what the job does is up to its agent. Billed (assumed).
        m.presence = Presence::unknown;
        m.gpu_rate = full;
    } else if (i.status == "terminating") {
        // Will never run again, and is billed until it is gone: at what it was billed before, which is
        // nothing for one that was ended while it booted. So the rate is not told, and the last known one
        // stands.
        m.presence = Presence::failed;
    } else if (is_over(i.status)) {
        m.presence = Presence::gone;
        m.gpu_rate = UsdPerHour{0};
    } else {
        m.presence = Presence::unknown;
        m.gpu_rate = full;
    }
    return m;
}

LaunchOutcome outcome_of(const Reply<Launched>& reply) {
    LaunchOutcome out;
    const auto& a = reply.answer;
    if (reply.value) {
        out.id = ProviderMachineId{reply.value->id};
        if (a.ok()) return out;
        out.error = error_with(refusal_of(a).value_or(ErrorKind::unknown_outcome), a,
                               "launch (an id came with the error)");
        return out;
    }
    if (a.paced || a.delivery == Delivery::not_sent)
        out.error = error_with(ErrorKind::unavailable, a, "launch");
    else
        out.error = error_with(refusal_of(a).value_or(ErrorKind::unknown_outcome), a, "launch");
    return out;
}

Error read_error(const Answer& a, std::string_view what) {
    if (a.paced) return error_with(a.held, a, what);
    if (a.delivery != Delivery::answered) return error_with(ErrorKind::unavailable, a, what);
    if (a.status == 429) return error_with(ErrorKind::rate_limited, a, what);
    if (const auto kind = account_trouble(a)) return error_with(*kind, a, what);
    if (a.status == 410 || a.code == "global/not-found") return error_with(ErrorKind::api_retired, a, what);
    // Redirects are not followed, and 5xx is somebody in between or behind: nothing was learnt either way.
    if (a.status >= 500 || (a.status >= 300 && a.status < 400))
        return error_with(ErrorKind::unavailable, a, what);
    if (a.code == "global/unknown" || a.code == "global/internal-error" || a.code == "global/conflict" ||
        a.code.starts_with("provider/"))
        return error_with(ErrorKind::unavailable, a, what);
    // 401 and 403 without a word of Lambda's own are somebody else's.
    if ((a.status == 401 || a.status == 403) && a.code.empty())
        return error_with(ErrorKind::unavailable, a, what);
    return error_with(ErrorKind::malformed, a, what);
}

Error before_launch(const Answer& a, std::string_view what) {
    auto error = read_error(a, what);
    if (error.kind == ErrorKind::malformed || error.kind == ErrorKind::rate_limited)
        error.kind = ErrorKind::unavailable;
    return error;
}

Error destroy_error(const Answer& a) {
    constexpr std::string_view what = "terminate";
    if (a.paced) return error_with(a.held, a, what);
    if (a.status == 429) return error_with(ErrorKind::rate_limited, a, what);
    if (a.delivery == Delivery::not_sent) return error_with(ErrorKind::unavailable, a, what);
    if (a.delivery == Delivery::answered) {
        if (account_trouble(a) == ErrorKind::auth) return error_with(ErrorKind::auth, a, what);
        if (a.status == 410 || a.code == "global/not-found")
            return error_with(ErrorKind::api_retired, a, what);
    }
    return error_with(ErrorKind::unknown_outcome, a, what);
}

bool says_no_such_object(const Answer& a) {
    return a.delivery == Delivery::answered && (a.status == 400 || a.status == 404) &&
           a.code == "global/object-does-not-exist" && !account_trouble(a);
}

bool says_not_found(const Answer& a) {
    return a.delivery == Delivery::answered && a.status == 404 && a.code == "global/not-found";
}

bool may_be_terminating(const Answer& a) {
    // The status that comes with `global/unknown` is not known; a restart that runs is a conflict.
    return a.delivery == Delivery::answered && a.status >= 400 && a.status != 429 &&
           (a.code == "global/unknown" || a.code == "global/conflict");
}

bool is_ending(std::string_view status) {
    return status == "terminating" || is_over(status);
}

bool is_over(std::string_view status) {
    // No product makes preempted ones; a loss without notice, and final.
    return status == "terminated" || status == "preempted";
}

Finding finding_of(const Answer& a, std::string_view what) {
    const auto failed = [&](std::string thing, std::string_view advice) {
        return Finding{.level = Finding::Level::failed,
                       .what = std::move(thing),
                       .text = fmt::format("{}: {}", read_error(a, what).message, advice)};
    };
    if (a.delivery != Delivery::answered || a.paced)
        return failed(
            "api",
            "the address of the API could not be reached: look at the network and providers.lambda.api_url");
    const bool other_trouble = a.code == "global/account-inactive" || a.code == "global/invalid-address" || a.code == "global/forbidden";
    if (account_trouble(a) == ErrorKind::auth && !other_trouble)
        return failed(
            "key",
            "the key is mistyped, was deleted or has expired: make one in Lambda's console under API keys");
    if (a.code == "global/account-inactive")
        return failed(
            "money",
            "the account is inactive: verify its e-mail address and its payment method in the console");
    if (a.code == "global/invalid-address")
        return failed("money", "the billing address is not accepted: correct it in the console");
    if (a.code == "global/forbidden")
        return failed("scope", "the key may not do this: ask the team's owner for a key that may");
    if (a.code == "global/quota-exceeded")
        return failed("quota", "the account's quota is used up: ask Lambda's support for more");
    if (a.status == 429)
        return failed("api", "somebody else uses this account's one call a second: try again later");
    if (a.status == 410 || a.status == 404)
        return failed("api", "this is not Lambda's API v1: look at providers.lambda.api_url");
    return failed(std::string(what == "list instances" ? "listing" : "offers"), "try again later");
}

std::string own_prefix(std::string_view install) {
    return fmt::format("gf-{}-", install);
}

std::string key_text(std::string_view line) {
    std::array<std::string_view, 2> words{};
    for (auto& word : words) {
        const auto from = line.find_first_not_of(" \t\r\n");
        if (from == std::string_view::npos) break;
        line.remove_prefix(from);
        word = line.substr(0, line.find_first_of(" \t\r\n"));
        line.remove_prefix(word.size());
    }
    return fmt::format("{} {}", words[0], words[1]);
}

std::string key_name(std::string_view install, std::string_view public_key) {
    const auto text = key_text(public_key);
    std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
    SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
    return fmt::format("{}{:02x}{:02x}{:02x}{:02x}", own_prefix(install), digest[0], digest[1], digest[2],
                       digest[3]);
}

bool is_own_key(const SshKey& key, std::string_view install) {
    // Somebody else's key may begin like ours; the end is made of its text, so it proves itself.
    return !install.empty() && key.name == key_name(install, key.public_key);
}

const SshKey* find_key(const std::vector<SshKey>& keys, std::string_view install,
                       std::string_view public_key) {
    const SshKey* found = nullptr;
    for (const auto& key : keys) {
        if (key.name.empty() || key_text(key.public_key) != key_text(public_key)) continue;
        if (is_own_key(key, install)) return &key;
        if (found == nullptr) found = &key;
    }
    return found;
}

const SshKey* find_own(const std::vector<SshKey>& keys, std::string_view install) {
    const auto it = std::ranges::find_if(keys, [&](const SshKey& key) { return is_own_key(key, install); });
    return it == keys.end() ? nullptr : &*it;
}

}  // namespace gf::lambda
