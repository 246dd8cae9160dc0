#include "scheduler/finish_cost.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <tuple>

#include "scheduler/billing.hpp"

namespace gf {
namespace {

constexpr double kNominalHours = 4;
constexpr std::int64_t kMoneyMost = INT64_MAX / 64;  // so that the sum of the lines stays in range

/// Upwards, but not for what is less than a microsecond over: that is how doubles are.
Millis ceil_hours(double hours) {
    const double thousandths = std::round(std::clamp(hours, 0.0, kHoursMost) * 3.6e9);
    return Millis{static_cast<std::int64_t>(std::ceil(thousandths / 1000))};
}
double hours_of(Millis t) {
    return static_cast<double>(t.count()) / 3.6e6;
}

Usd bounded(__int128 micros) {
    return Usd{static_cast<std::int64_t>(std::clamp<__int128>(micros, 0, kMoneyMost))};
}
/// `cost`, bounded: a price that is beyond all sense times a thousand years stays a number.
Usd money(UsdPerHour rate, Millis held) {
    return bounded((static_cast<__int128>(rate.micros) * held.count() + 3'599'999) / 3'600'000);
}
/// So many GB (10^9 bytes) at a price, `thousandths` times, rounded up.
Usd traffic(Bytes size, std::int64_t micros_per_gb, std::int64_t thousandths) {
    if (size.count <= 0 || micros_per_gb <= 0) return Usd{0};
    constexpr std::int64_t kSizeMost = 1'000'000 * kGB, kTimesMost = 1'000'000'000;
    const __int128 whole = static_cast<__int128>(std::min(size.count, kSizeMost)) * std::min(micros_per_gb, 1'000'000 * 1'000'000L);
    const __int128 per_time = (whole + kGB - 1) / kGB;
    return bounded((per_time * std::clamp<std::int64_t>(thousandths, 0, kTimesMost) + 999) / 1000);
}

std::string figure(double v, const char* format = "%.3g") {
    char out[48];
    std::snprintf(out, sizeof out, format, v);
    return out;
}
std::string hours_text(Millis t) {
    return figure(hours_of(t), "%.2f") + " h";
}
std::string time_text(const StartTime& t) {
    return figure(static_cast<double>(t.typical.count()) / 1000, "%.0f") + " s (" +
           (t.seen > 0 ? "seen n=" + std::to_string(t.seen) : std::string("assumed")) + ")";
}

}  // namespace

bool take_peaks(JobSpec& spec, const RunHistory& history) {
    if (!spec.estimate || spec.estimate->formula_gib > 0) return false;  // none, or corrected before
    const auto family = history.peaks.find(family_of(spec));
    if (family == history.peaks.end()) return false;
    MemoryEstimate by_runs = corrected(*spec.estimate, family->second);
    if (by_runs.formula_gib <= 0) return false;
    spec.resources.vram = VramDemand{.class_gb = {}, .exact = by_runs.demand};
    spec.estimate = std::move(by_runs);
    return true;
}

std::int64_t finish_score(const FinishCost& cost, UsdPerHour all_in, UsdPerHour ranked_at, int handicap_percent) {
    const auto times = [](std::int64_t value, std::int64_t by, std::int64_t over) {
        return static_cast<std::int64_t>(std::min<__int128>(static_cast<__int128>(value) * by / over, INT64_MAX / 4));
    };
    if (cost.known) return times(cost.total.micros, 100 + handicap_percent, 100);
    return all_in.micros > 0 ? times(cost.per_unit.micros, ranked_at.micros, all_in.micros) : ranked_at.micros;
}

FinishEstimator::FinishEstimator(const JobSpec& spec, const TaskRecord& task, const Expectations& expect, Instant now)
    : spec_(spec), task_(task), expect_(expect), now_(now), work_(work_of(spec.kind)) {
    const auto& work = expect.work;
    if (!expect.history || work.family.empty()) return;
    const auto& history = *expect.history;
    const auto seen = [&](WorkUnit unit) -> const std::vector<ThroughputRecord>* {
        const auto found = history.speeds.find({work.family, unit});
        if (found == history.speeds.end()) return nullptr;
        const bool any = std::ranges::any_of(found->second, [&](const auto& r) { return !forgotten(r, now); });
        return any ? &found->second : nullptr;
    };
    const auto family_total = [&](WorkUnit unit) -> std::optional<double> {
        const auto found = history.families.find({work.family, unit});
        if (found == history.families.end() || found->second.total <= 0) return std::nullopt;
        return static_cast<double>(found->second.total) / 1000;
    };
    if (const auto* steps = seen(WorkUnit::step)) {
        const auto done = static_cast<double>(std::max<std::int64_t>(0, work.step));
        const auto more = [&](std::optional<double> total) { return total && *total > done ? total : std::nullopt; };
        std::optional<double> total = more(work.total ? std::optional(static_cast<double>(*work.total)) : std::nullopt);
        const bool own = total.has_value();
        if (!total) total = more(family_total(WorkUnit::step));
        if (total) {
            work_from_ = own ? "total of this task's progress" : "total of an earlier job of this family";
            left_ = *total - done;
            unit_ = WorkUnit::step;
            seen_ = steps;
            if (!own) stretch_to_limit();
            return;
        }
    }
    if (const auto* runs = seen(WorkUnit::run)) {
        // How far a checkpoint had come is not known without steps, so a whole run is left: too much rather than too little.
        left_ = 1;
        unit_ = WorkUnit::run;
        seen_ = runs;
        work_from_ = "whole runs of this family";
        stretch_to_limit();
    }
}

void FinishEstimator::stretch_to_limit() {
    const auto& limit = spec_.limits.duration;
    if (!spec_.limits.deadline || !limit || *limit <= task_.ran) return;
    std::optional<ThroughputRecord> best;  // with the most looks
    for (const auto& record : *seen_) {
        ThroughputRecord now = faded(record, now_);
        if (now.work <= 0 || now.busy <= Millis{0}) continue;
        if (best && std::tie(now.looks, best->place) <= std::tie(best->looks, now.place)) continue;
        best = std::move(now);
    }
    if (!best) return;
    // Milliseconds by thousandths of a unit: hours.
    const double expected = *left_ * static_cast<double>(best->busy.count()) / static_cast<double>(best->work) / 3600;
    if (expected > 0) stretch_ = std::clamp(hours_of(*limit - task_.ran) / expected, 1.0, 1e6);
}

void FinishEstimator::without_work() {
    if (!left_) return;
    left_.reset();
    unit_ = WorkUnit::step;
    work_from_ = "not known: nothing tells how fast this family goes on any of the offers";
    paces_.clear();
}

FinishEstimator::Pace FinishEstimator::pace(const Offer& offer, double share) const {
    const RunPlace place = place_of(offer, share, spec_.resources.cpu_only);
    const auto known = paces_.find(place);
    if (known != paces_.end()) return known->second;
    Pace out;
    // By the place and nothing finer: what it is kept under.
    out.prior = prior_speed(place, work_, *expect_.speeds);
    if (left_) out.learned = estimate_speed(*seen_, place, work_, *expect_.speeds, now_);
    if (!out.prior && place.share_thousandths > 0) {
        RunPlace slowest = place;
        slowest.card = expect_.speeds->slowest(work_);
        out.prior = prior_speed(slowest, work_, *expect_.speeds);
        const bool shown = out.learned.has_value();  // what it has shown itself is no guess
        if (left_ && !shown) out.learned = estimate_speed(*seen_, slowest, work_, *expect_.speeds, now_);
        out.guessed = !shown && (!left_ || out.learned);
    }
    if (out.learned) out.units = out.learned->units_per_hour;
    return paces_.emplace(place, out).first->second;
}

const LossRecord* FinishEstimator::losses(const std::string& key) const {
    if (!expect_.history || key.empty()) return nullptr;
    const auto found = expect_.history->losses.find(key);
    return found == expect_.history->losses.end() ? nullptr : &found->second;
}

const FinishEstimator::Starts& FinishEstimator::starts(const std::string& provider) const {
    const auto [place, first] = starts_.try_emplace(provider);
    if (!first) return place->second;
    const auto record = [&](StartPhase phase) -> const StartRecord* {
        if (!expect_.history) return nullptr;
        const auto found = expect_.history->starts.find(start_key(phase, provider, spec_.image));
        return found == expect_.history->starts.end() ? nullptr : &found->second;
    };
    place->second = {.boot = boot_time(record(StartPhase::boot)),
                     .image = image_time(record(StartPhase::image), !spec_.image.empty()),
                     .restore = record(StartPhase::restore)};
    return place->second;
}

double FinishEstimator::redone_hours() const {
    if (!spec_.checkpoint.declared) return -1;
    return hours_of(spec_.checkpoint.every.value_or(expect_.checkpoint_every)) / 2;
}

std::optional<double> FinishEstimator::speed(const Offer& offer, double share) const {
    const Pace p = pace(offer, share);
    if (left_) return p.units;
    return p.prior ? std::optional(p.prior->relative) : std::nullopt;
}

std::optional<Millis> FinishEstimator::run(const Offer& offer, double share) const {
    if (!left_) return std::nullopt;
    const Pace p = pace(offer, share);
    return p.units ? std::optional(ceil_hours(*left_ / *p.units * stretch_)) : std::nullopt;
}

Millis FinishEstimator::least_time(const Offer& offer, double share, double slowest) const {
    const double known = speed(offer, share).value_or(left_ ? slowest : 0), pace_taken = known > 0 ? known : 1;
    if (left_) return ceil_hours(std::min(*left_ / pace_taken, kHoursMost));
    return Millis{static_cast<std::int64_t>(std::floor(std::min(1 / pace_taken, kHoursMost) * 3.6e6))};
}

FinishCost FinishEstimator::reckon(const Offer& offer, double share, UsdPerHour disk, double slowest, bool explain, bool is_up) const {
    const Pace p = pace(offer, share);
    FinishCost out;
    out.unit = unit_;
    out.by_cores = spec_.resources.cpu_only;
    const bool local = offer.provider.get() == "local";
    const UsdPerHour rate = offer.gpu_rate + disk;
    const LossRecord* market = losses(loss_market_key(offer));
    const LossRecord* host = losses(loss_host_key(offer));
    const Hazard hazard = hazard_of(offer, market, host, now_);
    const Starts& known = starts(offer.provider.get());
    const StartTime boot = local ? StartTime{} : known.boot;
    const StartTime image = local ? StartTime{} : known.image;
    // A later machine restores what this one saved, so its size counts even where there is nothing to restore yet.
    const StartTime restore = restore_time(known.restore, expect_.work.checkpoint, offer.inet_down_mbps);
    const bool boot_billed = !expect_.boot_unbilled.contains(offer.provider.get());
    const Millis later_start = (boot_billed ? boot.typical : Millis{0}) + image.typical;
    const Millis start = is_up ? Millis{0} : later_start;
    const double redone = redone_hours();
    const bool resumes = task_.generation > 0;

    if (p.prior && !p.guessed) out.speed = p.prior->relative;
    const double scale = left_ ? p.units.value_or(slowest) : (p.prior ? p.prior->relative : 0);
    const double pace_taken = scale > 0 ? scale : 1;
    if (explain) {
        out.work_from = work_from_.empty() ? "not known" : work_from_;
        if (p.guessed)
            out.speed_from = "not known: as a " + expect_.speeds->slowest(work_) + ", the slowest card";
        else if (p.learned && p.learned->own > 0)
            out.speed_from = "observed n=" + std::to_string(p.learned->own) +
                             (p.learned->other > 0 ? ", and n=" + std::to_string(p.learned->other) + " elsewhere" : "");
        else if (p.learned)
            out.speed_from = "observed n=" + std::to_string(p.learned->other) + " elsewhere, by " +
                             (spec_.resources.cpu_only ? "the number of cores" : "the cards' prior");
        else if (!left_ && spec_.resources.cpu_only)
            out.speed_from = "prior, by the number of cores";
        else if (!left_ && p.prior)
            out.speed_from = p.prior->measured ? "prior, measured" : "prior, by rate and bandwidth";
        else
            out.speed_from = "not known: as the slowest that is";
        out.losses_from = market == nullptr && host == nullptr
                              ? std::string("prior")
                              : "prior x " + figure(hazard.factor) + ", seen " + figure(hazard.losses_seen) + " in " +
                                    figure(hazard.hours_seen) + " machine hours";
        const auto part = [&](const char* name, const StartTime& time, const char* more) {
            if (time.typical.count() <= 0) return;  // there is none
            out.start_from += (out.start_from.empty() ? "" : ", ") + std::string(name) + " " + time_text(time) + more;
        };
        part("boot", boot, boot_billed ? "" : ", not billed");
        part("image", image, "");
        part("restore", restore, "");
    }

    const double again = hours_of(later_start + restore.typical);
    if (!left_) {
        const auto& limit = spec_.limits.duration;
        const double horizon = limit && *limit > task_.ran ? hours_of(*limit - task_.ran) : kNominalHours;
        const Outlook o = outlook(hazard, horizon, 0, redone < 0 ? redone : redone + again);
        out.losses = o.losses;
        out.hopeless = o.hopeless;
        const double per = static_cast<double>(rate.micros) * (o.held / horizon) / pace_taken;
        out.per_unit = UsdPerHour{static_cast<std::int64_t>(std::ceil(std::clamp(per, 0.0, 9e15)))};
        return out;
    }

    out.known = true;
    out.units_per_hour = pace_taken;
    const double work = std::min(*left_ / pace_taken, kHoursMost);
    // A lost machine with checkpoints costs the next one's start and restore and half an interval. Without, it costs all.
    const Outlook o = outlook(hazard, work, hours_of(start), redone < 0 ? redone : redone + again - hours_of(start));
    out.losses = o.losses;
    out.hopeless = o.hopeless;
    const Millis run = ceil_hours(work);
    out.run = ceil_hours(work * stretch_);
    out.cut_off = spec_.limits.duration && task_.ran + run > *spec_.limits.duration;
    const Millis restored = resumes ? restore.typical : Millis{0};
    const Millis extra = ceil_hours(std::max(0.0, o.held - work - hours_of(start)));
    out.held = run + start + restored + extra;

    const auto machines = static_cast<std::int64_t>(std::ceil((1 + std::min(o.losses, 1e6)) * 1000));
    const auto line = [&](const char* name, Usd amount, auto note) {
        if (amount.micros == 0) return;
        out.lines.push_back({name, amount, explain ? std::string(note()) : std::string()});
        out.total += amount;
    };
    line("gpu", money(offer.gpu_rate, run),
         [&] { return dollars(offer.gpu_rate) + " $/h for " + hours_text(run) + " of work"; });
    line("disk", money(disk, run), [&] { return dollars(disk) + " $/h for the same time"; });
    // Each machine downloads; all but the first restore, and the first too where it resumes.
    const std::int64_t restores = machines - 1000 + (resumes ? 1000 : 0);
    const Usd down = traffic(expect_.work.download, offer.traffic_down_micros_per_gb, machines) +
                     traffic(expect_.work.checkpoint, offer.traffic_down_micros_per_gb, restores);
    line("traffic_down", down, [&] { return dollars(offer.traffic_down_micros_per_gb) + " $/GB"; });
    std::int64_t saves = 0;
    if (spec_.checkpoint.declared) {
        const Millis every = std::max<Millis>(Millis{1000}, spec_.checkpoint.every.value_or(expect_.checkpoint_every));
        saves = std::min<std::int64_t>(1'000'000, run / every + 1);
    }
    const Usd up = traffic(expect_.work.upload, offer.traffic_up_micros_per_gb, 1000) +
                   traffic(expect_.work.checkpoint, offer.traffic_up_micros_per_gb, saves * 1000);
    line("traffic_up", up, [&] { return dollars(offer.traffic_up_micros_per_gb) + " $/GB"; });
    line("start", money(rate, start), [&] { return hours_text(start) + " of boot and image pull"; });
    line("restore", money(rate, restored), [&] { return hours_text(restored); });
    line("interruption", money(rate, extra), [&] {
        return figure(o.losses) + " losses expected, " + hours_text(extra) + " for them" + (o.hopeless ? ", or far more" : "");
    });
    // Each machine's bill is rounded; what a machine is held for is the mean of all.
    const Millis each{static_cast<std::int64_t>(static_cast<__int128>(out.held.count()) * 1000 / machines)};
    const Millis added = billed_time(offer, each) - each;
    const Usd once = money(rate, added);
    line("rounding", bounded((static_cast<__int128>(once.micros) * machines + 999) / 1000), [&] {
        return "billed in steps of " + duration_text(offer.billing_step) + ", at least " + duration_text(offer.billing_minimum);
    });
    return out;
}

}  // namespace gf
