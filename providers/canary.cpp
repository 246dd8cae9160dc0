#include "providers/canary.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace gf {
namespace {

constexpr int kRowsNew = 3;              // rows that settle a shape that was never seen right
constexpr int kRowsKnown = 2;            // and one that was
constexpr std::size_t kKindsMax = 4096;  // remembered kinds of offers; a market has some hundred

// Memory of one GPU, from the smallest slice that is sold to twice the largest card. Narrower than a factor
// of 1024, so a figure makes sense in one unit only.
constexpr double kMemoryMin = 0.75 * static_cast<double>(kGiB);
constexpr double kMemoryMax = 640.0 * static_cast<double>(kGiB);

// Micro-dollars per GiB and hour. Bids of a cent for 24 GiB were seen (400), a hyperscaler's list price of an
// H100 is 150,000. Prices divided by 100 are therefore told by what was seen before alone.
constexpr std::int64_t kPerGibMin = 200;
constexpr std::int64_t kPerGibMax = 500'000;
// A slip of cents and dollars is a factor of 100; no market moves by half of that between two looks.
constexpr std::int64_t kJump = 50;

std::int64_t median(std::vector<std::int64_t>& figures) {
    const auto middle = figures.begin() + static_cast<std::ptrdiff_t>(figures.size() / 2);
    std::ranges::nth_element(figures, middle);
    return *middle;
}

std::string_view kind_name(FieldKind kind) {
    switch (kind) {
        case FieldKind::number:
            return "number";
        case FieldKind::text:
            return "text";
        case FieldKind::boolean:
            return "boolean";
        case FieldKind::list:
            return "list";
        case FieldKind::object:
            return "object";
    }
    return "?";
}

}  // namespace

void add(Shapes& to, const Shapes& more) {
    to.rows += more.rows;
    if (to.fields.empty()) {
        to.fields = more.fields;
        return;
    }
    for (std::size_t i = 0; i < to.fields.size() && i < more.fields.size(); ++i) {
        to.fields[i].right += more.fields[i].right;
        to.fields[i].wrong += more.fields[i].wrong;
        to.fields[i].missing += more.fields[i].missing;
        if (to.fields[i].found.empty()) to.fields[i].found = more.fields[i].found;
    }
}

std::vector<Drift> ShapeWatch::look(const Shapes& shapes) {
    std::vector<Drift> out;
    const std::lock_guard lock(mutex_);
    for (const auto& field : shapes.fields) {
        const auto known = known_.contains(field.rule.path);
        const int enough = known ? kRowsKnown : kRowsNew;
        if (field.right > 0) {
            if (!known) known_.emplace(field.rule.path);
        } else if (field.wrong >= enough) {
            out.push_back({.what = "type_changed",
                           .detail = fmt::format("{}: `{}` is documented as {}, came as {} in all of {} rows",
                                                 what_, field.rule.path, kind_name(field.rule.kind),
                                                 field.found, field.wrong)});
        } else if (field.rule.required && field.wrong == 0 && field.missing >= enough) {
            out.push_back(
                {.what = "field_missing",
                 .detail = fmt::format("{}: none of {} rows has `{}`", what_, shapes.rows, field.rule.path)});
        }
    }
    return out;
}

std::optional<Drift> missing_pages(std::string_view what, std::optional<std::int64_t> total,
                                   std::size_t rows) {
    if (!total || *total <= static_cast<std::int64_t>(rows)) return std::nullopt;
    return Drift{
        .what = "page_token_missing",
        .detail = fmt::format("{}: {} of {} rows came, and no token for the rest", what, rows, *total)};
}

MemoryReading read_gpu_memory(double figure, std::int64_t documented, std::string_view provider,
                              std::string_view name, const GpuLookup& lookup) {
    if (!(figure > 0)) return {};
    const auto sensible = [&](std::int64_t unit) {
        const auto bytes = figure * static_cast<double>(unit);
        return bytes >= kMemoryMin && bytes <= kMemoryMax;
    };
    const auto in_unit = [&](std::int64_t unit) {
        return Bytes{static_cast<std::int64_t>(figure * static_cast<double>(unit))};
    };
    if (sensible(documented)) return {.memory = in_unit(documented)};
    for (const std::int64_t unit : {std::int64_t{1}, std::int64_t{1024}, kMiB, kGiB})
        if (sensible(unit) && lookup(provider, name, in_unit(unit))) return {.memory = in_unit(unit)};
    return {.memory = {}, .unsettled = true};
}

void OfferCanary::look(OfferList& list) {
    const auto odd = std::ranges::count(list.rejected, kMemoryUnit, &RejectedOffer::reason);
    const auto told =
        std::ranges::count_if(list.offers, [](const Offer& o) { return o.gpu.memory.has_value(); });
    if (odd > 0 && odd >= told)
        list.drift.push_back(
            {.what = "memory_unit",
             .detail = fmt::format("{} of {} offers have a GPU memory that makes sense in no unit", odd,
                                   odd + told)});

    struct Kind {
        std::string gpu_name;
        std::vector<std::int64_t> per_gpu;
    };
    std::map<std::string, Kind> kinds;
    std::vector<std::int64_t> per_gib;
    std::set<std::string> names;
    bool listed = true;  // prices of the provider's own list; where hosts set theirs, some park a card at a
                         // price nobody pays
    for (const auto& o : list.offers) {
        if (o.gpu_count < 1 || o.gpu_rate.micros <= 0) continue;
        const auto each = o.gpu_rate.micros / o.gpu_count;
        auto& kind = kinds[fmt::format("{}/{}/{}/{}/{}", o.gpu.provider_name,
                                       o.gpu.memory ? o.gpu.memory->count / kGiB : 0, o.gpu_share, o.cloud, o.spot)];
        kind.gpu_name = o.gpu.provider_name;
        kind.per_gpu.push_back(each);
        listed = listed && !o.exclusive;
        if (!o.gpu.memory || o.gpu.memory->count <= 0) continue;
        names.insert(o.gpu.provider_name);
        per_gib.push_back(
            static_cast<std::int64_t>(static_cast<double>(each) / static_cast<double>(o.gpu.memory->count) *
                                      static_cast<double>(kGiB)));
    }
    if (kinds.empty()) return;

    bool plausible = true;
    if (!per_gib.empty() && (listed || names.size() > 1)) {
        const auto middle = median(per_gib);
        plausible = middle >= kPerGibMin && middle <= kPerGibMax;
        if (!plausible)
            list.drift.push_back(
                {.what = "price_unit",
                 .detail =
                     fmt::format("an hour of one GiB of GPU memory costs ${} in the middle of {} "
                                 "offers: between ${} and ${} was expected",
                                 dollars(middle), per_gib.size(), dollars(kPerGibMin), dollars(kPerGibMax))});
    }
    const std::lock_guard lock(mutex_);
    std::vector<std::int64_t> up;
    std::vector<std::int64_t> down;
    for (auto& [key, kind] : kinds) {
        const auto it = seen_.find(key);
        if (it == seen_.end()) continue;
        const auto now = median(kind.per_gpu);
        up.push_back(now / std::max<std::int64_t>(it->second, 1));
        down.push_back(it->second / std::max<std::int64_t>(now, 1));
    }
    // One kind alone is a price that somebody changed, unless it is the whole market.
    const bool enough = up.size() > 1 || (up.size() == 1 && seen_.size() == 1);
    if (enough && plausible) {
        const auto rise = median(up);
        const auto fall = median(down);
        if (rise >= kJump || fall >= kJump) {
            plausible = false;
            list.drift.push_back(
                {.what = "price_unit",
                 .detail = rise >= kJump ? fmt::format("{} kinds of offers cost about {} times what they did",
                                                       up.size(), rise)
                                         : fmt::format("{} kinds of offers cost about 1/{} of what they did",
                                                       up.size(), fall)});
        }
    }
    // What is off is not learnt: when the answers are whole again, they are compared with what was whole.
    if (!plausible) return;
    for (auto& [key, kind] : kinds) {
        const auto middle = median(kind.per_gpu);
        if (seen_.size() < kKindsMax || seen_.contains(key)) seen_[key] = middle;
        if (ranges_.size() >= kKindsMax && !ranges_.contains(kind.gpu_name)) continue;
        auto& range = ranges_.try_emplace(kind.gpu_name, Range{.least = middle, .most = middle}).first->second;
        range.least = std::min(range.least, middle);
        range.most = std::max(range.most, middle);
    }
}

std::optional<OfferCanary::Range> OfferCanary::seen(const std::string& gpu_name) const {
    const std::lock_guard lock(mutex_);
    const auto it = ranges_.find(gpu_name);
    return it == ranges_.end() ? std::nullopt : std::optional(it->second);
}

RateCanary::Way RateCanary::way_of(const ProviderMachine& machine) const {
    // A machine that stands or boots may cost nothing: that is no price.
    if (!machine.gpu_rate || machine.gpu_rate->micros <= 0) return Way::unknown;
    const auto rate = machine.gpu_rate->micros;
    auto out = Way::unknown;
    const auto compare = [&](std::int64_t least, std::int64_t most) {
        if (rate / kJump >= std::max<std::int64_t>(most, 1))
            out = Way::up;
        else if (least / kJump >= rate)
            out = Way::down;
        else if (out == Way::unknown)
            out = Way::same;
    };
    if (const auto it = seen_.find(machine.id); it != seen_.end()) compare(it->second, it->second);
    if (machine.gpu && machine.gpu_count && *machine.gpu_count > 0)
        if (const auto range = market_.seen(machine.gpu->provider_name))
            compare(range->least * *machine.gpu_count, range->most * *machine.gpu_count);
    return out;
}

void RateCanary::look(Listing& listing) {
    const std::lock_guard lock(mutex_);
    int same = 0;
    int up = 0;
    int down = 0;
    for (const auto& machine : listing.machines) {
        const auto way = way_of(machine);
        same += way == Way::same ? 1 : 0;
        up += way == Way::up ? 1 : 0;
        down += way == Way::down ? 1 : 0;
    }
    const bool off = same == 0 && (up == 0) != (down == 0);
    if (off)
        listing.drift.push_back(
            {.what = "price_unit",
             .detail = fmt::format("all {} machines whose rates can be compared cost {}{} what they did or what their cards "
                                   "are offered for",
                                   up + down, up > 0 ? "at least " : "at most 1/", up > 0 ? fmt::format("{} times", kJump) : fmt::format("{} of", kJump))});
    std::map<ProviderMachineId, std::int64_t> now;
    for (const auto& machine : listing.machines) {
        if (const auto it = seen_.find(machine.id); it != seen_.end()) now.insert(*it);
        // What is off is not learnt, what costs nothing now had a price.
        if (!off && machine.gpu_rate && machine.gpu_rate->micros > 0) now[machine.id] = machine.gpu_rate->micros;
    }
    seen_ = std::move(now);
}

void RateCanary::look(ProviderMachine& machine) const {
    const std::lock_guard lock(mutex_);
    const auto way = way_of(machine);
    if (way != Way::up && way != Way::down) return;
    machine.gpu_rate.reset();
    machine.disk_rate.reset();
}

}  // namespace gf
