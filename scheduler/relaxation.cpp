#include "scheduler/relaxation.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "scheduler/filters.hpp"

namespace gf {
namespace {

struct Source {
    std::string_view reason;
    std::string_view spec;
    std::string_view config;
};
// Each reason of filters.cpp that is somebody's demand. "<what>_unknown" has the key of <what>.
constexpr auto kSources = std::to_array<Source>({
    {"provider_excluded", "resources.providers", ""},
    {"arch", "resources.arch", ""},
    {"spot_not_wanted", "resources.spot", ""},
    {"on_demand_not_wanted", "resources.spot", ""},
    {"spot_given_up", "retry.no_progress", ""},
    {"gpu_not_needed", "resources.cpu_only", ""},
    {"gpu_count", "resources.gpus", ""},
    {"gpu", "resources.gpu", ""},
    {"gpu_name", "resources.gpu", ""},
    {"gpu_is_a_slice", "resources.gpu", ""},
    {"vram", "resources.vram", ""},
    {"vram_above", "retry.gpu_oom", ""},
    {"precision", "resources.precision", ""},
    {"nvlink", "resources.nvlink", ""},
    {"memory_bandwidth", "resources.memory_bandwidth", ""},
    {"cpus", "resources.cpus", ""},
    {"memory", "resources.memory", ""},
    {"memory_above", "retry.host_oom", ""},
    {"disk", "resources.disk", ""},
    {"cuda", "resources.cuda", ""},
    {"driver", "resources.driver", ""},
    {"region", "resources.regions", ""},
    {"reliability", "resources.reliability", ""},
    {"verified", "secrets_on", ""},
    {"host_not_verified", "secrets_on", ""},
    {"registry_logins_paused", "image_auth", ""},
    {"local_runs_no_image", "image", ""},
    {"inet_down", "resources.inet_down", ""},
    {"lease_ends_too_soon", "limits.duration", ""},
    {"max_price", "resources.max_price", ""},
    {"agent_cannot_reach_daemon", "", "advertise_url"},
    {"quota_machines", "", "quotas.machines"},
    {"quota_usd_per_hour", "", "quotas.usd_per_hour"},
    {"quota_provider_machines", "", "quotas.providers"},
    {"quota_provider_usd_per_hour", "", "quotas.providers"},
});

constexpr std::string_view kUnknown = "_unknown";

const Source* source_of(std::string_view reason) {
    if (reason.ends_with(kUnknown)) reason.remove_suffix(kUnknown.size());
    const auto found = std::ranges::find(kSources, reason, &Source::reason);
    return found == kSources.end() ? nullptr : &*found;
}

/// "12.10.3" as one number that sorts as the version does. Nothing for other texts.
std::optional<std::int64_t> version_number(std::string_view text) {
    std::int64_t parts[3] = {0, 0, 0};
    std::size_t at = 0;
    bool digit = false;
    for (const char c : text) {
        if (c == '.') {
            if (!digit || ++at == 3) return std::nullopt;
            digit = false;
        } else if (c >= '0' && c <= '9') {
            digit = true;
            parts[at] = parts[at] * 10 + (c - '0');
            if (parts[at] > 999'999) return std::nullopt;
        } else {
            return std::nullopt;
        }
    }
    if (!digit) return std::nullopt;
    return (parts[0] * 1'000'000 + parts[1]) * 1'000'000 + parts[2];
}

std::string thousandths(std::int64_t v) {
    std::string out = std::to_string(v / 1000) + "." + std::to_string(1000 + v % 1000).substr(1);
    while (out.back() == '0') out.pop_back();
    if (out.back() == '.') out.pop_back();
    return out;
}

/// So many thousandths, rounded down. What providers tell may be no number at all: 0.
std::int64_t thousandths_of(double v) {
    return v > 0 ? static_cast<std::int64_t>(std::min(v, 1e12) * 1000) : 0;
}

bool listed(const std::vector<std::string>& list, const std::string& item) {
    return std::ranges::find(list, item) != list.end();
}

}  // namespace

std::string_view spec_key(std::string_view reason) {
    const auto* source = source_of(reason);
    return source == nullptr ? std::string_view() : source->spec;
}

std::string_view spec_key(const JobSpec& spec, std::string_view reason) {
    const auto key = spec_key(reason);
    if (key == "resources.vram" && spec.lines.contains("resources.estimate")) return "resources.estimate";
    if (reason == "provider_excluded" && spec.resources.providers.empty()) return "resources.exclude_providers";
    return key;
}

std::string_view config_key(std::string_view reason) {
    const auto* source = source_of(reason);
    return source == nullptr ? std::string_view() : source->config;
}

int line_of(const JobSpec& spec, std::string_view key) {
    const auto found = spec.lines.find(key);
    return found == spec.lines.end() ? 0 : found->second;
}

void Relaxations::put(std::string_view reason, std::string key, Kind kind, const char* verb, Want want) {
    auto& wants = wants_[{std::move(key), std::string(reason)}];
    wants.kind = kind;
    wants.verb = verb;
    wants.each.push_back(std::move(want));
}

void Relaxations::add(const Fit& fit, std::string_view reason) {
    const auto* source = source_of(reason);
    if (source == nullptr || source->spec.empty()) return;
    const std::string key(spec_key(fit.spec, reason));
    if (key == "resources.estimate") return;  // what a model needs is no wish
    const auto& r = fit.spec.resources;
    const auto& o = fit.offer;
    const auto drop = [&] { put(reason, key, Kind::drop, "leave out", {}); };
    const auto choice = [&](const char* verb, std::string set) { put(reason, key, Kind::choice, verb, {0, 0, std::move(set)}); };
    const auto at_most = [&](std::int64_t limit, std::int64_t value, std::string set) {
        put(reason, key, Kind::threshold, "lower", {limit, value, std::move(set)});
    };
    // A demand in whole units of `unit`, as much as the offer has; less than one is no demand.
    const auto whole = [&](std::int64_t have, std::int64_t unit, const char* name) {
        const std::int64_t units = have / unit;
        if (units >= 1) at_most(have, units * unit, std::to_string(units) + name);
        else at_most(0, 0, "");
    };
    if (reason.ends_with(kUnknown)) {
        if (reason == "gpu_unknown" && r.gpu.empty()) return;  // several demands need the card
        if (reason == "verified_unknown") return put("host_not_verified", key, Kind::choice, "set", {0, 0, "any"});
        return drop();
    }
    if (reason == "max_price") {
        // The larger the price that is needed the larger the change: negative, so that larger is smaller.
        constexpr std::int64_t kCent = 10'000;
        const std::int64_t needed = (fit.all_in.micros + kCent - 1) / kCent * kCent;
        return put(reason, key, Kind::threshold, "raise", {-fit.all_in.micros, -needed, dollars(needed)});
    }
    if (reason == "vram" && fit.vram && r.vram && r.vram->class_gb && !r.vram->exact) {
        const auto have = static_cast<double>(fit.vram->count);
        const auto most = static_cast<std::int64_t>(have / (kClassShare * static_cast<double>(kGiB)));
        const bool whole_card = fit.card != nullptr && card_share(fit) >= 1 && fit.card->class_gb <= most;
        const std::int64_t gb = whole_card ? fit.card->class_gb : std::min<std::int64_t>(most, fit.vram->count / kGiB);
        if (gb >= 1) at_most(most, gb, std::to_string(gb) + "GB");
        return;
    }
    if (reason == "vram" && fit.vram && r.vram && r.vram->exact && !r.vram->class_gb) {
        constexpr std::int64_t kStep = 100'000'000;
        const std::int64_t have = usable_memory(fit.card, *fit.vram).count;
        if (have >= kStep) at_most(have, have / kStep * kStep, std::to_string(have / kStep * kStep));
        return;
    }
    if (reason == "memory_bandwidth" && fit.card != nullptr && fit.card->bandwidth_gb_s)
        return whole(std::llround(card_share(fit) * static_cast<double>(*fit.card->bandwidth_gb_s * kGB)), kGB, "GB/s");
    if (reason == "cpus" && o.cpus) return whole(thousandths_of(*o.cpus), 1000, "");
    if (reason == "memory" && o.memory) return whole(o.memory->count, kGB, "GB");
    if (reason == "disk" && o.disk_max) {
        if (o.disk_max->count >= kGB) whole(o.disk_max->count, kGB, "GB");
        return;
    }
    if (reason == "inet_down" && o.inet_down_mbps) return whole(thousandths_of(*o.inet_down_mbps), 1000, "Mbps");
    if (reason == "reliability" && o.reliability) {
        const std::int64_t value = thousandths_of(*o.reliability);
        return at_most(thousandths_of(*o.reliability * 1000), value * 1000, value < 1 ? std::string() : thousandths(value));
    }
    if (reason == "cuda" || reason == "driver") {
        const std::string& have = reason == "cuda" ? o.cuda_max : o.driver;
        if (const auto version = version_number(have)) at_most(*version, *version, ">=" + have);
        return;
    }
    if (reason == "lease_ends_too_soon" && o.lease_end && *o.lease_end > fit.world.now) {
        const Millis most = *o.lease_end - fit.world.now - kLeaseMargin + fit.task.ran;
        const auto minutes = std::chrono::floor<std::chrono::minutes>(most);
        // A limit that has been run through already would end the job instead.
        if (minutes <= fit.task.ran || minutes < std::chrono::minutes{1}) return;
        return at_most(most.count(), Millis{minutes}.count(), duration_text(minutes));
    }
    if (reason == "provider_excluded") {
        const bool excluded = listed(r.exclude_providers, o.provider.get());
        const bool missing = !r.providers.empty() && !listed(r.providers, o.provider.get());
        if (excluded && missing) return;  // two changes
        if (missing) return choice("add", o.provider.get());
        return put(reason, "resources.exclude_providers", Kind::choice, "take out", {0, 0, o.provider.get()});
    }
    if (reason == "gpu_name") return choice("add", o.gpu.canonical);
    if (reason == "region") return choice("add", o.country);
    // What a model needs of each card depends on how many share it: another count would have to be estimated anew.
    if (reason == "gpu_count" && spec_key(fit.spec, "vram") == "resources.estimate") return;
    // A job that asks for a GPU does not run without one by a wish less; nor does the spec take a 0.
    if (reason == "gpu_count" && o.gpu_count == 0) return;
    if (reason == "gpu_count") return choice("set", std::to_string(o.gpu_count));
    if (reason == "arch") return choice("set", o.arch);
    if (reason == "spot_not_wanted" || reason == "on_demand_not_wanted") return choice("set", "auto");
    if (reason == "host_not_verified") return choice("set", "any");
    if (reason == "precision" || reason == "nvlink" || reason == "registry_logins_paused" || reason == "local_runs_no_image") drop();
}

std::vector<Relaxation> Relaxations::list(const JobSpec& spec) const {
    std::vector<Relaxation> out;
    // Who lets go of a demand lets in both those that do not meet it and those that do not tell.
    std::map<std::string, int> untold;
    std::set<std::string> lowered;
    for (const auto& [place, wants] : wants_) {
        if (wants.kind == Kind::threshold) lowered.insert(place.first);
        if (wants.kind == Kind::drop && place.second.ends_with(kUnknown)) untold[place.first] += static_cast<int>(wants.each.size());
    }
    for (const auto& [place, wants] : wants_) {
        const auto& [key, reason] = place;
        if (wants.kind == Kind::drop && reason.ends_with(kUnknown) && lowered.contains(key)) continue;
        Relaxation made{.reason = reason, .key = key, .line = line_of(spec, key)};
        const auto total = static_cast<int>(wants.each.size());
        switch (wants.kind) {
            case Kind::threshold: {
                const auto less = [](const Want& a, const Want& b) { return std::tie(a.value, a.set) < std::tie(b.value, b.set); };
                const auto& first = *std::ranges::max_element(wants.each, less);
                const auto& all = *std::ranges::min_element(wants.each, less);
                made.set = first.set;
                made.admits = static_cast<int>(std::ranges::count_if(wants.each, [&](const Want& w) { return w.limit >= first.value; }));
                const auto more = untold.find(key);
                made.set_all = more == untold.end() ? all.set : std::string();
                made.admits_all = total + (more == untold.end() ? 0 : more->second);
                if (made.set.empty()) made.admits = made.admits_all;
                break;
            }
            case Kind::choice: {
                std::map<std::string, int> counts;
                for (const auto& want : wants.each) ++counts[want.set];
                // The most helpful, and the first by name of equals.
                const auto best = std::ranges::max_element(counts, [](const auto& a, const auto& b) { return a.second < b.second; });
                made.set = best->first;
                made.admits = best->second;
                // A key with one value takes no second one; a list that is left out lets in all.
                const bool one_value = wants.verb == "set" || counts.size() == 1;
                made.set_all = one_value ? made.set : std::string();
                made.admits_all = one_value ? made.admits : total;
                break;
            }
            case Kind::drop:
                made.admits = made.admits_all = total;
                break;
        }
        made.text = (made.set.empty() ? std::string("leave out") : wants.verb) + " ";
        if (wants.verb == "add") made.text += made.set + " to " + key;
        else if (wants.verb == "take out") made.text += made.set + " of " + key;
        else made.text += made.set.empty() ? key : key + " to " + made.set;
        made.text += made.admits == 1 ? " and 1 offer fits" : " and " + std::to_string(made.admits) + " offers fit";
        const bool same_key = !out.empty() && out.back().key == key;
        if (same_key && out.back().admits >= made.admits) continue;
        if (same_key) out.back() = std::move(made);
        else out.push_back(std::move(made));
    }
    return out;
}

}  // namespace gf
