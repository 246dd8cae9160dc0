#include "scheduler/reputation.hpp"

#include <algorithm>
#include <cmath>

namespace gf {
namespace {

struct Place {
    std::string key;
    std::string about;
    std::int64_t out{0};      // weight from which nothing is rented there
    std::int64_t percent{0};  // of handicap per fault
    std::int64_t several{0};  // weight up to here says nothing yet: it may be one host
};

std::vector<Place> places(const Offer& offer) {
    std::vector<Place> out;
    if (!offer.host_id.empty()) out.push_back({host_key(offer), "host " + offer.host_id, kHostOut, 20, 0});
    if (!offer.host_owner.empty()) out.push_back({owner_key(offer), "owner " + offer.host_owner, kOwnerOut, 5, 1000});
    if (!offer.data_center.empty()) out.push_back({data_center_key(offer), "data centre " + offer.data_center, kDataCenterOut, 3, 1000});
    return out;
}

/// What is left after `age`, as a share.
double left_after(Millis age) {
    if (age <= Millis{0}) return 1;  // a clock that went back makes nothing worse
    return std::exp2(-static_cast<double>(age.count()) / static_cast<double>(kMarkHalfLife.count()));
}

std::int64_t scaled(std::int64_t count, double by) { return std::llround(static_cast<double>(count) * by); }

/// Of one person's counts, "2 boot failures".
void say(std::string& out, std::int64_t thousandths, std::string_view one, std::string_view many) {
    const std::int64_t count = (thousandths + 500) / 1000;
    if (count <= 0) return;
    if (!out.empty()) out += ", ";
    out += std::to_string(count) + " " + std::string(count == 1 ? one : many);
}

}  // namespace

std::string host_key(const Offer& offer) {
    return offer.host_id.empty() ? std::string() : offer.provider.get() + "/host/" + offer.host_id;
}
std::string owner_key(const Offer& offer) {
    return offer.host_owner.empty() ? std::string() : offer.provider.get() + "/owner/" + offer.host_owner;
}
std::string data_center_key(const Offer& offer) {
    return offer.data_center.empty() ? std::string() : offer.provider.get() + "/dc/" + offer.data_center;
}

HostMarkRecord faded(HostMarkRecord mark, Instant now) {
    const double left = left_after(now - mark.at);
    for (auto* count : {&mark.boot_failures, &mark.slow_pulls, &mark.early_losses, &mark.good_runs}) *count = scaled(*count, left);
    return mark;
}

std::int64_t mark_weight(const HostMarkRecord& mark, Instant now) {
    const HostMarkRecord m = faded(mark, now);
    return std::clamp<std::int64_t>(m.boot_failures + m.early_losses + m.slow_pulls / 2 - m.good_runs / 2, 0, kMarkMost);
}

bool mark_forgotten(const HostMarkRecord& mark, Instant now) {
    const HostMarkRecord m = faded(mark, now);
    return std::max({m.boot_failures, m.slow_pulls, m.early_losses}) < kMarkForgotten;
}

HostMarkRecord marked(HostMarkRecord mark, HostEvent event, std::string_view detail, Instant now, std::int64_t share) {
    if (event == HostEvent::good_run) {
        // Entered as of `at`, weighed up by what it would have lost since then.
        const double up = std::min(1024.0, 1 / left_after(now - mark.at));
        mark.good_runs = std::min(2 * kMarkMost, mark.good_runs + scaled(share, up));
        return mark;
    }
    const std::string key = mark.key;
    mark = faded(std::move(mark), now);
    mark.at = std::max(mark.at, now);
    mark.last = detail;
    const auto add = [](std::int64_t& count, std::int64_t more) { count = std::min(kMarkMost, count + more); };
    switch (event) {
        case HostEvent::boot_failure:
        case HostEvent::check_failure: add(mark.boot_failures, share); break;
        case HostEvent::slow_start: add(mark.slow_pulls, share); break;
        case HostEvent::early_loss: add(mark.early_losses, share); break;
        case HostEvent::taken_early: add(mark.early_losses, share / 4); break;  // a market that moves is not the host's fault
        case HostEvent::good_run: break;
    }
    return mark;
}

MarkChanges note_host(const HostMarks& marks, const Offer& offer, HostEvent event, std::string_view detail, Instant now,
                      std::int64_t share) {
    MarkChanges out;
    const std::string host = host_key(offer);
    const auto known = marks.find(host);
    // A host that is in disrepute already says nothing new about its owner. Of a host without a name nobody can tell whether it
    // is a new one: half.
    const bool host_was_clean = host.empty() || known == marks.end() || mark_weight(known->second, now) < kHostOut / 3;
    for (const Place& place : places(offer)) {
        const auto found = marks.find(place.key);
        if (found == marks.end() && event == HostEvent::good_run) continue;  // nothing to heal
        const bool is_host = place.key == host;
        if (!is_host && event != HostEvent::good_run && !host_was_clean) continue;
        HostMarkRecord mark = found == marks.end() ? HostMarkRecord{.key = place.key, .at = now} : found->second;
        out.put.push_back(marked(std::move(mark), event, detail, now, is_host || !host.empty() ? share : share / 2));
    }
    std::size_t size = marks.size();
    for (const auto& mark : out.put) size += marks.contains(mark.key) ? 0 : 1;
    while (size > kMarksMost) {
        const HostMarkRecord* faintest = nullptr;
        for (const auto& [key, mark] : marks) {
            const auto busy = [&](const auto& m) { return m.key == key; };
            if (std::ranges::any_of(out.put, busy) || std::ranges::find(out.drop, key) != out.drop.end()) continue;
            if (!faintest || mark_weight(mark, now) < mark_weight(*faintest, now)) faintest = &mark;
        }
        if (!faintest) break;
        out.drop.push_back(faintest->key);
        --size;
    }
    return out;
}

std::vector<std::string> faint_marks(const HostMarks& marks, Instant now) {
    std::vector<std::string> out;
    for (const auto& [key, mark] : marks)
        if (mark_forgotten(mark, now)) out.push_back(key);
    return out;
}

Standing standing(const HostMarks& marks, const Offer& offer, Instant now) {
    Standing out;
    if (marks.empty()) return out;
    std::int64_t percent = 0, heaviest = 0;
    for (const Place& place : places(offer)) {
        const auto found = marks.find(place.key);
        if (found == marks.end()) continue;
        const std::int64_t weight = mark_weight(found->second, now);
        if (weight <= place.several) continue;
        percent += (weight - place.several) * place.percent / 1000;
        // How far it is on its own way out decides whom people are told about.
        const std::int64_t share = weight * 1000 / place.out;
        if (share > heaviest) {
            heaviest = share;
            out.about = place.about;
            out.mark = &found->second;
        }
        if (weight < place.out) continue;
        const double lives = std::log2(static_cast<double>(weight) / static_cast<double>(place.out));
        const Instant until = now + Millis{std::llround(lives * static_cast<double>(kMarkHalfLife.count()))};
        out.out_until = std::max(out.out_until.value_or(until), until);
    }
    out.handicap_percent = static_cast<int>(std::min<std::int64_t>(percent, kHandicapMost));
    return out;
}

std::string standing_text(const Standing& s, Instant now) {
    if (!s.mark) return {};
    const HostMarkRecord m = faded(*s.mark, now);
    std::string counts;
    say(counts, m.boot_failures, "boot failure", "boot failures");
    say(counts, m.early_losses, "early loss", "early losses");
    say(counts, m.slow_pulls, "slow start", "slow starts");
    say(counts, m.good_runs, "good run", "good runs");
    if (counts.empty()) counts = "faults that are fading";
    std::string out = s.about + ": " + counts + " in the last days";
    if (s.out_until) out += ", out until " + rfc3339(std::chrono::ceil<Seconds>(*s.out_until));
    else if (s.handicap_percent > 0) out += ", ranked " + std::to_string(s.handicap_percent) + " % dearer";
    if (!s.mark->last.empty()) out += "; the last: " + s.mark->last;
    return out;
}

}  // namespace gf
