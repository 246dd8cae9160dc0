#include "providers/vultr/mapping.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "providers/cloud_init.hpp"
#include "providers/ssh_key_text.hpp"

namespace gf::vultr {
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

// Vultr has no error codes: only the text of a 400 or 403 tells these apart, and the exact sentences are not
// published.
constexpr std::array<std::string_view, 3> kMoneyTexts{"payment method", "insufficient funds",
                                                      "account balance"};
constexpr std::array<std::string_view, 5> kQuotaTexts{"ticket", "quota", "monthly fee", "maximum number of",
                                                      "instance limit"};
// Our own fields: the same request would be refused everywhere.
constexpr std::array<std::string_view, 8> kFieldTexts{"user_data", "user data", "base64", "hostname",
                                                      "label",     "os_id",     "tags",   "operating system"};

struct CardRow {
    std::string_view name;  // as in the plan's id
    std::string_view gpu_type;
    double vram_gb;  // as Vultr counts it in the totals of plans
};
// Whole cards, to tell how many of them, or which part of one, a plan has. Whole-node plans may come without
// GPU fields.
constexpr std::array kCards{CardRow{"a16", "NVIDIA_A16", 16},     CardRow{"a40", "NVIDIA_A40", 48},
                            CardRow{"a100", "NVIDIA_A100", 80},   CardRow{"l40s", "NVIDIA_L40S", 48},
                            CardRow{"h100", "NVIDIA_H100", 80},   CardRow{"gh200", "NVIDIA_GH200", 96},
                            CardRow{"b200", "NVIDIA_B200", 192},  CardRow{"mi300x", "AMD_MI300X", 192},
                            CardRow{"mi325x", "AMD_MI325X", 256}, CardRow{"mi355x", "AMD_MI355X", 288}};
// A plan of this card was seen with a total that fits six cards and eight: without a count it cannot be told.
constexpr std::string_view kUnclearCard = "mi325x";
// Totals are marketing figures (a 180 GB card counts as 192), so a whole number of cards need only be near.
constexpr double kNear = 0.12;

bool near(double a, double b) {
    return std::abs(a - b) <= kNear * b;
}

/// "vcg-a100-12c-120g-80vram": the page asks not to parse it, and is the only source of what whole-node plans
/// leave out.
struct IdParts {
    std::string card;
    std::optional<double> ram_gb;
    std::optional<double> vram_gb;
};

std::optional<double> figure_before(std::string_view part, std::string_view unit) {
    if (!part.ends_with(unit)) return std::nullopt;
    part.remove_suffix(unit.size());
    int value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc{} || end != part.data() + part.size() || value <= 0) return std::nullopt;
    return value;
}

IdParts parts_of(std::string_view id) {
    IdParts out;
    if (!id.starts_with("vcg-")) return out;
    for (int i = 0; !id.empty(); ++i) {
        const auto part = id.substr(0, id.find('-'));
        id.remove_prefix(std::min(part.size() + 1, id.size()));
        if (i == 1) out.card = part;
        if (i < 2) continue;
        if (const auto vram = figure_before(part, "vram"))
            out.vram_gb = vram;
        else if (const auto gb = figure_before(part, "gb"))
            out.ram_gb = gb;
        else if (const auto g = figure_before(part, "g"))
            out.ram_gb = g;
    }
    return out;
}

const CardRow* card_of(const Plan& plan, const IdParts& parts) {
    for (const auto& row : kCards)
        if (!plan.gpu_type.empty()
                ? plan.gpu_type == row.gpu_type || plan.gpu_type.starts_with(std::string(row.gpu_type) + "_")
                : parts.card == row.name)
            return &row;
    return nullptr;
}

/// 2 of "2", 0.125 of "1/8" or "0.125"; nothing for anything else.
std::optional<double> count_of(std::string_view text) {
    const auto slash = text.find('/');
    const auto over = parse_decimal_micros(text.substr(0, slash));
    if (!over || *over <= 0) return std::nullopt;
    if (slash == std::string_view::npos) return static_cast<double>(*over) / 1e6;
    const auto under = parse_decimal_micros(text.substr(slash + 1));
    if (!under || *under <= 0) return std::nullopt;
    return static_cast<double>(*over) / static_cast<double>(*under);
}

std::optional<double> told(std::optional<double> value, double most) {
    return value && std::isfinite(*value) && *value > 0 && *value <= most ? value : std::nullopt;
}

std::optional<Bytes> memory_of(const Plan& plan) {
    const auto mb = told(plan.ram_mb, 1e9);
    if (!mb) return std::nullopt;
    // Documented in MB. Where it is the figure of the plan's own name, it is in GB.
    const auto named = parts_of(plan.id).ram_gb;
    const auto unit = named && *mb == *named ? kGiB : kMiB;
    return Bytes{static_cast<std::int64_t>(*mb * static_cast<double>(unit))};
}

PriceReading hourly(const NumberText& hourly, const NumberText& monthly) {
    auto reading = read_price(hourly);
    if (reading.reason == "price_missing") {
        // Never too low: the shortest month that Vultr counts with.
        reading = read_price(monthly);
        if (reading.ok()) reading.micros = (reading.micros + kHoursPerMonthLeast - 1) / kHoursPerMonthLeast;
    }
    if (reading.ok() && reading.micros > kMicrosPerHourMax) reading.reason = "price_too_large";
    return reading;
}

Error error_with(ErrorKind kind, const Answer& a, std::string_view what) {
    return call_error(kind, "Vultr", what, a);
}

/// Older copies of the documentation name 503 for it; a 503 of somebody in between is another thing.
bool too_often(const Answer& a) {
    return a.delivery == Delivery::answered && (a.status == 429 || (a.status == 503 && a.flat));
}

/// A wrong key may be answered like an instance that is not there.
bool says_bad_key(const Answer& a) {
    return doubts_key(a) && a.json;
}

/// The kind of a clean refusal of a create; nothing if the answer is not on the white-list.
std::optional<ErrorKind> refusal_of(const Answer& a) {
    if (a.delivery != Delivery::answered) return std::nullopt;
    if (a.status == 410) return ErrorKind::api_retired;  // the route is gone: nobody there who could rent
    if (says_bad_key(a)) return ErrorKind::auth;
    if (!a.flat) return std::nullopt;                    // from here on only Vultr's own voice
    if (may_tell_quota(a.status) && contains_any(a.text, kMoneyTexts)) return ErrorKind::no_money;
    if (may_tell_quota(a.status) && contains_any(a.text, kQuotaTexts)) return ErrorKind::quota;
    switch (a.status) {
        case 401:
            return ErrorKind::auth;  // a wrong key, or an address that is not on the key's list
        case 400:
        case 403:
            if (a.status == 403) return ErrorKind::auth;  // the sub-user lacks the right
            if (contains_any(a.text, kFieldTexts)) return ErrorKind::refused;
            return ErrorKind::no_capacity;  // no stock has no words of its own: whatever else it is, it is
                                            // this pair's
        case 404:
        case 409:
            return ErrorKind::no_capacity;
        case 405:
            return ErrorKind::api_retired;
        case 422:
            return ErrorKind::refused;
        default:
            return std::nullopt;
    }
}

Presence presence_of(const Instance& i) {
    if (i.status == "pending" || i.status == "installing") return Presence::booting;
    if (i.status == "failed") return Presence::failed;
    if (i.status == "suspended")
        return Presence::stopped;  // switched off by Vultr: abuse, unpaid, or taken back
    if (i.status != "active") return Presence::unknown;  // "resizing", and what came later
    if (i.power_status == "stopped") return Presence::stopped;
    if (i.power_status != "running") return Presence::unknown;  // it says running while pending already
    if (i.server_status == "ok") {
        // An address of zeros is none.
        return i.main_ip.empty() || i.main_ip == "0.0.0.0" ? Presence::booting : Presence::running;
    }
    // The documentation glues two of these together.
    if (i.server_status == "none" || i.server_status == "locked" || i.server_status == "installing" ||
        i.server_status == "booting" || i.server_status == "installingbooting")
        return Presence::booting;
    return Presence::unknown;
}

std::string_view sale(bool preemptible) {
    return preemptible ? "preemptible" : "ondemand";
}

/// "Cloud GPU (gf-…)" -> the text in the last brackets.
std::string label_in(std::string_view description) {
    const auto close = description.rfind(')');
    const auto open = description.rfind('(', close);
    if (close == std::string_view::npos || open == std::string_view::npos) return {};
    return std::string(description.substr(open + 1, close - open - 1));
}

}  // namespace

std::string offer_id(const OfferId& id) {
    return fmt::format("{}/{}{}", id.plan, id.region, id.preemptible ? "/preemptible" : "");
}

std::optional<OfferId> parse_offer_id(std::string_view text) {
    OfferId id;
    constexpr std::string_view spot = "/preemptible";
    if (text.ends_with(spot)) {
        id.preemptible = true;
        text.remove_suffix(spot.size());
    }
    const auto slash = text.find('/');
    if (slash == std::string_view::npos || slash == 0 || slash + 1 == text.size()) return std::nullopt;
    id.plan = text.substr(0, slash);
    id.region = text.substr(slash + 1);
    return id;
}

bool has_gpu(const Plan& plan) {
    // "vdm" are whole nodes of any kind; those with GPUs have the same prefix as the slices.
    return plan.type == "vcg" || plan.id.starts_with("vcg-") || !plan.gpu_type.empty() ||
           plan.gpu_vram_gb.value_or(0) > 0;
}

bool is_preemptible(const Plan& plan) {
    // What can be had both ways is sold on demand: no field of a create says otherwise. Absent = on demand.
    return !plan.on_demand.value_or(true) && plan.preemptible.value_or(false);
}

PlanGpus gpus_of(const Plan& plan, const GpuLookup& lookup) {
    PlanGpus out;
    const auto parts = parts_of(plan.id);
    const auto* card = card_of(plan, parts);
    // The memory of the whole plan, whatever its count.
    auto total = told(plan.gpu_vram_gb, 1e5);
    if (!total) total = parts.vram_gb;
    auto count = count_of(plan.gpu_count);
    if (!plan.gpu_count.empty() && !count) {
        out.reason = "gpu_count_not_a_number";
        return out;
    }
    if (!count) {
        if (card == nullptr || !total || card->name == kUnclearCard) {
            out.reason = "gpu_count_missing";
            return out;
        }
        const auto cards = *total / card->vram_gb;
        count = cards < 1 ? cards : std::round(cards);
        if (cards > 1 && !near(cards, *count)) {
            out.reason = "gpu_count_missing";
            return out;
        }
    }
    if (*count > 1024 || (*count > 1 && *count != std::floor(*count))) {
        out.reason = "gpu_count_not_a_number";
        return out;
    }
    out.count = std::max(1, static_cast<int>(*count));
    out.share = std::min(1.0, *count);
    if (card != nullptr && total) {
        // One GPU with less memory than the card has is a slice of it, whatever its count says.
        if (out.count == 1 && out.share == 1 && *total < (1 - kNear) * card->vram_gb)
            out.share = *total / card->vram_gb;
        // A total that is one card's although there are several is a figure per card; the table settles it.
        if (out.count > 1 && near(*total, card->vram_gb) && !near(*total / out.count, card->vram_gb))
            *total *= out.count;
    }
    out.gpu.provider_name = !plan.gpu_type.empty() ? plan.gpu_type : plan.id;
    if (total) {
        const auto each = *total / out.count;
        // A slice is smaller than any card, so the table can settle whole cards only.
        const auto reading =
            out.share < 1
                ? MemoryReading{.memory = Bytes{static_cast<std::int64_t>(each * static_cast<double>(kGiB))}}
                : read_gpu_memory(each, kGiB, "vultr", out.gpu.provider_name, lookup);
        if (reading.unsettled) {
            out.reason = kMemoryUnit;
            return out;
        }
        out.gpu.memory = reading.memory;
    }
    // The plan's own row first: it knows the form of the card, which `gpu_type` leaves out. The memory of a
    // plan is a marketing figure or a slice's, so the name alone decides.
    auto known = lookup("vultr", plan.id, std::nullopt);
    if (!known && !plan.gpu_type.empty()) known = lookup("vultr", plan.gpu_type, std::nullopt);
    if (!known && card != nullptr) known = lookup("vultr", card->gpu_type, std::nullopt);
    out.gpu.canonical = known.value_or("");
    return out;
}

PriceReading price_in(const Plan& plan, const std::string& region, bool preemptible) {
    const auto of = [&](const Price& p) {
        return preemptible ? hourly(p.hourly_preemptible, p.monthly_preemptible)
                           : hourly(p.hourly, p.monthly);
    };
    if (const auto here = plan.location_price.find(region); here != plan.location_price.end()) {
        if (here->second.malformed) return {.micros = 0, .reason = "malformed"};
        if (auto reading = of(here->second); reading.reason != "price_missing") return reading;
    }
    return of(plan.price);
}

std::variant<Offer, RejectedOffer> offer_of(const Plan& plan, const Region& region, const GpuLookup& lookup) {
    const bool preemptible = is_preemptible(plan);
    const auto id = offer_id({.plan = plan.id, .region = region.id, .preemptible = preemptible});
    const auto rejected = [&](std::string_view reason) {
        return RejectedOffer{.id = id, .reason = std::string(reason)};
    };
    if (!plan.problem.empty()) return rejected("malformed");
    if (plan.id.empty() || region.id.empty()) return rejected("id_missing");
    if (!plan.on_demand.value_or(true) && !preemptible) return rejected("not_for_sale");
    auto gpus = gpus_of(plan, lookup);
    if (!gpus.reason.empty()) return rejected(gpus.reason);
    const auto price = price_in(plan, region.id, preemptible);
    if (!price.ok()) return rejected(price.reason);

    Offer o;
    o.provider = ProviderName{"vultr"};
    o.id = id;
    o.spot = preemptible;
    o.arch = gpus.gpu.canonical.starts_with("GH200") ? "arm64" : "amd64";
    o.gpu = std::move(gpus.gpu);
    o.gpu_count = gpus.count;
    o.gpu_share = gpus.share;
    o.gpu_rate = UsdPerHour{price.micros};
    if (preemptible) o.spot_floor = o.gpu_rate;  // a price, and no auction
    o.billing_step = std::chrono::hours{1};
    o.billing_minimum = std::chrono::hours{1};
    o.region = region.id;
    o.country = region.country.size() == 2 ? region.country : std::string();
    o.data_center = region.id;
    if (plan.vcpus && *plan.vcpus > 0) o.cpus = static_cast<double>(*plan.vcpus);
    o.memory = memory_of(plan);
    // Comes with the plan, at no price of its own.
    if (const auto disk = told(plan.disk_gb, static_cast<double>(kDiskGbMax)))
        o.disk_max = Bytes{static_cast<std::int64_t>(*disk) * kGB};
    o.verified = true;  // Vultr's own machines
    return o;
}

std::optional<std::int64_t> system_id(const std::vector<System>& systems) {
    for (const auto& s : systems)
        if (s.id > 0 && s.family == "ubuntu" && s.arch == "x64" && s.name.starts_with("Ubuntu 22.04"))
            return s.id;
    return std::nullopt;
}

Result<CreateCall> create_call(const LaunchRequest& request, std::int64_t os_id) {
    const auto offer = parse_offer_id(request.offer.id);
    if (!offer || offer->preemptible != request.offer.spot)
        return fail(ErrorKind::refused,
                    fmt::format("Vultr, create instance: '{}' is no offer of Vultr", request.offer.id));
    CreateCall out;
    out.plan = offer->plan;
    out.region = offer->region;
    out.os_id = os_id;
    out.label = request.tag.get();
    out.hostname = request.tag.get();
    // A second witness: labels can be changed in the console.
    out.tags = {std::string(kTagKey) + request.tag.get(),
                std::string(kSaleKey) + std::string(sale(request.offer.spot))};
    out.user_data = base64(cloud_init_script(request, {.login = "root"}));
    return out;
}

ProviderMachine machine_of(const Instance& i, const Plan* plan, const GpuLookup& lookup) {
    ProviderMachine m;
    m.id = ProviderMachineId{i.id};
    m.tag = i.label;
    bool sold = false;  // whether it tells how
    for (const auto& tag : i.tags) {
        if (tag.starts_with(kTagKey)) m.env_tag = tag.substr(kTagKey.size());
        if (!tag.starts_with(kSaleKey)) continue;
        const auto how = std::string_view(tag).substr(kSaleKey.size());
        sold = how == sale(true) || how == sale(false);
        m.spot = how == sale(true);
    }
    m.presence = presence_of(i);
    m.raw_state =
        fmt::format("{}, power {}, server {}", i.status, i.power_status.empty() ? "?" : i.power_status,
                    i.server_status.empty() ? "?" : i.server_status);
    m.region = i.region;
    m.data_center = i.region;
    m.created_at = parse_rfc3339(i.date_created);
    if (!i.main_ip.empty() && i.main_ip != "0.0.0.0")
        m.ssh = SshEndpoint{.host = i.main_ip, .port = 22, .user = "root"};
    m.disk_rate = UsdPerHour{0};  // within the plan's price
    if (plan == nullptr) return m;
    // An instance does not tell its price. Billed from its creation until it is destroyed, also while it is
    // stopped. One without our tag was sold as its plan is now, as far as anybody knows.
    if (!sold) m.spot = is_preemptible(*plan);
    if (const auto price = price_in(*plan, i.region, m.spot); price.ok())
        m.gpu_rate = UsdPerHour{price.micros};
    if (!has_gpu(*plan)) {
        m.gpu_count = 0;
        return m;
    }
    if (auto gpus = gpus_of(*plan, lookup); gpus.reason.empty()) {
        m.gpu_count = gpus.count;
        m.gpu = std::move(gpus.gpu);
    }
    return m;
}

LaunchOutcome outcome_of(const Reply<Instance>& reply) {
    LaunchOutcome out;
    const auto& a = reply.answer;
    constexpr std::string_view what = "create instance";
    if (reply.value) {
        out.id = ProviderMachineId{reply.value->id};
        if (a.ok()) return out;
        out.error = error_with(refusal_of(a).value_or(ErrorKind::unknown_outcome), a,
                               "create instance (an id came with the error)");
        return out;
    }
    if (a.paced || a.delivery == Delivery::not_sent)
        out.error = error_with(ErrorKind::unavailable, a, what);
    else
        out.error = error_with(refusal_of(a).value_or(ErrorKind::unknown_outcome), a, what);
    return out;
}

Error read_error(const Answer& a, std::string_view what) {
    if (a.paced) return error_with(a.held, a, what);
    if (too_often(a)) return error_with(ErrorKind::rate_limited, a, what);
    if (a.delivery != Delivery::answered) return error_with(ErrorKind::unavailable, a, what);
    if (says_bad_key(a)) return error_with(ErrorKind::auth, a, what);
    // 401 and 403 without Vultr's own words are somebody else's.
    if (a.status == 401 || a.status == 403)
        return error_with(a.flat ? ErrorKind::auth : ErrorKind::unavailable, a, what);
    if (a.status == 405 || a.status == 410) return error_with(ErrorKind::api_retired, a, what);
    // Redirects are not followed, and 5xx is somebody in between or behind: nothing was learnt either way.
    if (a.status >= 500 || (a.status >= 300 && a.status < 400))
        return error_with(ErrorKind::unavailable, a, what);
    return error_with(ErrorKind::malformed, a, what);
}

Error before_create(const Answer& a, std::string_view what) {
    auto error = read_error(a, what);
    if (error.kind == ErrorKind::malformed || error.kind == ErrorKind::rate_limited)
        error.kind = ErrorKind::unavailable;
    return error;
}

Error destroy_error(const Answer& a) {
    constexpr std::string_view what = "destroy instance";
    if (a.paced) return error_with(a.held, a, what);
    if (too_often(a)) return error_with(ErrorKind::rate_limited, a, what);
    if (a.delivery == Delivery::not_sent) return error_with(ErrorKind::unavailable, a, what);
    if (says_bad_key(a)) return error_with(ErrorKind::auth, a, what);
    if (a.delivery == Delivery::answered && a.flat) {
        if (a.status == 401 || a.status == 403) return error_with(ErrorKind::auth, a, what);
        if (contains_folded(a.text, "locked")) {
            // Nothing happened, and nothing will until the lock is off: mostly the first minutes after a
            // create.
            auto error = error_with(ErrorKind::unavailable, a, what);
            error.retry_after = std::max(a.retry_after.value_or(kLockedFor), kLockedFor);
            return error;
        }
    }
    if (a.delivery == Delivery::answered && (a.status == 405 || a.status == 410))
        return error_with(ErrorKind::api_retired, a, what);
    return error_with(ErrorKind::unknown_outcome, a, what);
}

bool says_no_such_instance(const Answer& a) {
    if (a.delivery != Delivery::answered || !a.flat || says_bad_key(a)) return false;
    if (a.status == 404) return true;
    return a.status == 400 &&
           (contains_folded(a.text, "invalid instance") || contains_folded(a.text, "invalid server") ||
            contains_folded(a.text, "not found"));
}

bool says_pending_destruction(const Answer& a) {
    return a.delivery == Delivery::answered && a.flat && contains_folded(a.text, "pending destruction");
}

Result<Usd> available(const Account& account) {
    const auto balance = read_amount(account.balance);
    if (!balance) return fail(ErrorKind::malformed, "Vultr, read the account: `balance` is not a number");
    const auto pending =
        account.pending_charges ? read_amount(account.pending_charges) : std::optional<std::int64_t>(0);
    if (!pending)
        return fail(ErrorKind::malformed, "Vultr, read the account: `pending_charges` is not a number");
    if (*balance >= 0)
        return fail(ErrorKind::not_found,
                    fmt::format("Vultr, read the account: no credit was paid in, so the payment method pays "
                                "what is due (${} so far)",
                                dollars(Usd{*balance + std::max<std::int64_t>(*pending, 0)})));
    return Usd{-*balance - *pending};
}

std::vector<Charge> charges_of(const std::vector<PendingCharge>& rows, Instant from, Instant until) {
    std::vector<Charge> out;
    for (const auto& row : rows) {
        const auto label = label_in(row.description);
        const auto begin = parse_rfc3339(row.start_date);
        const auto end = parse_rfc3339(row.end_date);
        const auto total = read_amount(row.total);
        if (label.empty() || !begin || !end || !total || *end <= from || *begin >= until) continue;
        const auto same = std::ranges::find(out, label, &Charge::tag);
        if (same == out.end()) {
            out.push_back(
                {.machine = {}, .tag = label, .from = *begin, .until = *end, .amount = Usd{*total}});
            continue;
        }
        same->from = std::min(same->from, *begin);
        same->until = std::max(same->until, *end);
        same->amount += Usd{*total};
    }
    return out;
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
            "the address of the API could not be reached: look at the network and providers.vultr.api_url");
    if (a.status == 401 && a.flat && contains_folded(a.text, "unauthorized ip"))
        return failed(
            "key",
            "the key is good, but its list of addresses does not have the one that we come from: add it in "
            "Vultr's console under API, access control");
    if ((a.status == 401 && a.flat) || says_bad_key(a))
        return failed("key",
                      "the key is mistyped or was replaced: copy it again from Vultr's console under API");
    if (a.status == 403 && a.flat)
        return failed("scope",
                      "the key's user lacks a right: it needs subscriptions and provisioning (and billing "
                      "for the balance)");
    if (too_often(a)) return failed("api", "too many calls come from this address: try again later");
    if (a.status == 404 || a.status == 405 || a.status == 410)
        return failed("api", "this is not Vultr's API v2: look at providers.vultr.api_url");
    return failed(what == "list instances" ? "listing" : "offers", "try again later");
}

}  // namespace gf::vultr
