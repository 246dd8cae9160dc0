#include "providers/pacer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

namespace gf {
namespace {

constexpr Millis kHintMax{std::chrono::hours{1}};
// An interval that a 429 names is kept for good, so a slip in it would be too. No endpoint of a provider is slower.
constexpr Millis kIntervalMax{Seconds{30}};

/// Longest wait that an answer can impose on calls of this urgency. A destroy is tried again before a window or a hint is over:
/// being refused costs one call, a machine that nobody destroys costs money.
Millis hold_max(Urgency u) {
    return u == Urgency::destroy ? Millis{std::chrono::minutes{5}} : kHintMax;
}

constexpr int kWakeUpsMax =
    100;  // a waiter looks again after each sleep; a 429 of another thread may have moved its slot

/// Calls that a window keeps back from this urgency, at most a quarter of the quota. A search may not take
/// the calls that ten destroys would need.
std::int64_t reserve(Urgency u, std::int64_t quota) {
    std::int64_t calls = 0;
    switch (u) {
        case Urgency::destroy:  // held by none
            calls = 0;
            break;
        case Urgency::machine:
            calls = 2;
            break;
        case Urgency::listing:
            calls = 5;
            break;
        case Urgency::search:
            calls = 10;
            break;
    }
    return quota > 0 ? std::min(calls, quota / 4) : calls;
}

std::string folded(std::string_view text) {
    std::string out(text);
    std::ranges::transform(out, out.begin(), [](char c) {
        return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    });
    return out;
}

/// Reads "4.5" at the start of `text` as thousandths: milliseconds where it counts seconds. Not above `most` whole ones.
std::optional<std::int64_t> thousandths_at(std::string_view text, std::int64_t most) {
    std::size_t at = 0;
    while (at < text.size() && (text[at] == ' ' || text[at] == '=' || text[at] == ':' || text[at] == '"')) ++at;
    std::int64_t whole = 0;
    const auto* begin = text.data() + at;
    const auto [end, error] = std::from_chars(begin, text.data() + text.size(), whole);
    if (error != std::errc{} || whole < 0) return std::nullopt;
    std::int64_t out = std::min(whole, most) * 1000;
    const auto* p = end;
    if (p < text.data() + text.size() && *p == '.') {
        std::int64_t unit = 100;
        for (++p; p < text.data() + text.size() && *p >= '0' && *p <= '9'; ++p, unit /= 10)
            out += (*p - '0') * unit;
    }
    return out;
}

/// The same as seconds, up to `kHintMax`.
std::optional<Millis> seconds_at(std::string_view text) {
    const auto thousandths = thousandths_at(text, kHintMax.count());
    return thousandths ? std::optional(std::min(Millis{*thousandths}, kHintMax)) : std::nullopt;
}

/// "Mon, 30 Nov 2026 10:00:00 GMT", the one form of RFC 9110 that is still written.
std::optional<Instant> http_date(std::string_view text) {
    constexpr auto months = std::to_array<std::string_view>(
        {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"});
    const auto comma = text.find(", ");
    if (comma != 3) return std::nullopt;
    text.remove_prefix(comma + 2);
    if (text.size() != 24 || text[2] != ' ' || text[6] != ' ' || text[11] != ' ' || !text.ends_with(" GMT")) return std::nullopt;
    const auto month = std::ranges::find(months, text.substr(3, 3));
    if (month == months.end()) return std::nullopt;
    return parse_rfc3339(fmt::format("{}-{:02}-{}T{}Z", text.substr(7, 4), month - months.begin() + 1, text.substr(0, 2),
                                     text.substr(12, 8)));
}

/// "endpoint threshold=4.5" in a 429 text: the interval that this endpoint wants.
std::optional<Millis> threshold_in(std::string_view body) {
    constexpr std::string_view word = "threshold=";
    const auto at = body.find(word);
    return at == std::string_view::npos ? std::nullopt : seconds_at(body.substr(at + word.size()));
}

std::optional<std::int64_t> parameter(std::string_view item, std::string_view name) {
    const auto key = fmt::format(";{}=", name);
    std::string packed;
    for (const char c : item)
        if (c != ' ') packed += c;
    const auto at = packed.find(key);
    if (at == std::string::npos) return std::nullopt;
    std::int64_t value = 0;
    const auto* begin = packed.data() + at + key.size();
    const auto [end, error] = std::from_chars(begin, packed.data() + packed.size(), value);
    return error == std::errc{} ? std::optional(value) : std::nullopt;
}

std::vector<std::string_view> items(std::string_view list) {
    std::vector<std::string_view> out;
    for (std::size_t at = 0; at < list.size();) {
        const auto comma = std::min(list.find(',', at), list.size());
        auto item = list.substr(at, comma - at);
        while (item.starts_with(' ')) item.remove_prefix(1);
        if (!item.empty()) out.push_back(item);
        at = comma + 1;
    }
    return out;
}

std::string_view window_name(std::string_view item) {
    return item.substr(0, item.find(';'));
}

}  // namespace

Pacer::Pacer(Clock& clock, std::uint64_t seed, PacerRules rules)
    : clock_(clock), rules_(std::move(rules)), entropy_(seed), breaker_(rules_.breaker) {
    for (const auto& rule : rules_.endpoints) endpoints_[rule.name].rule = rule;
}

Pacer::Endpoint& Pacer::endpoint(std::string_view name) {
    const auto it = endpoints_.find(name);
    GF_ASSERT(it != endpoints_.end());
    return it->second;
}

Instant Pacer::earliest(const Endpoint& e, Instant now) const {
    const auto most = hold_max(e.rule.urgency);
    auto at = std::max({now, e.next, e.blocked_until});
    // What other calls were refused, or have used up, is no word on a destroy: trying costs one call, waiting costs a machine.
    // Nor is it any on another service.
    if (e.rule.urgency == Urgency::destroy || e.rule.apart) return at;
    at = std::max(at, std::min(account_blocked_until_, account_blocked_at_ + most));
    for (const auto& [name, window] : windows_)
        if (window.resets_at > now && window.remaining <= reserve(e.rule.urgency, window.quota))
            at = std::max(at, std::min(window.resets_at, window.told_at + most));
    return at;
}

std::size_t Pacer::waiting() const {
    const std::lock_guard lock(mutex_);
    return waiters_.size();
}

bool Pacer::somebody_is_more_urgent(Urgency than, Instant now) const {
    return std::ranges::any_of(waiters_,
                               [&](const Waiter& w) { return w.urgency < than && w.ready <= now; });
}

Result<void> Pacer::enter(std::string_view name, Millis patience) {
    const auto started = clock_.now();
    std::list<Waiter>::iterator waiting;
    for (int i = 0;; ++i) {
        Instant at;
        {
            const std::lock_guard lock(mutex_);
            // Only here, so that nobody takes the slot between a waiter's waking and its looking.
            if (i > 0) waiters_.erase(waiting);
            if (i == kWakeUpsMax) break;
            auto& e = endpoint(name);
            const auto now = clock_.now();
            if (const auto wait = guarded(e.rule) ? breaker_.holds(now) : std::nullopt) {
                Error error{.kind = ErrorKind::unavailable,
                            .message = fmt::format("{}: the last calls brought no answer or a server's error; the next "
                                                   "one goes out in {}",
                                                   name, duration_text(std::max(*wait, Millis{1}))),
                            .retry_after = std::max(*wait, Millis{1})};
                return fail(std::move(error));
            }
            const auto ready = earliest(e, now);
            at = std::max(ready, next_of_all_);
            // Where all calls share one interval, a slot that is free goes to the most urgent of those who wait for it.
            if (at <= now && rules_.interval_all > Millis{0} && somebody_is_more_urgent(e.rule.urgency, now))
                at = now + rules_.interval_all;
            // A slot that is free now is taken also by who has slept too long for it.
            if (at > now && at - started > patience) {
                Error error{.kind = ErrorKind::rate_limited,
                            .message = fmt::format("{}: our own pacing allows the next call in {}", name,
                                                   duration_text(std::max(at - now, Millis{1}))),
                            .retry_after = at - now};
                return fail(std::move(error));
            }
            if (at <= now) {
                e.next = now + e.rule.interval;
                next_of_all_ = now + rules_.interval_all;
                if (guarded(e.rule)) breaker_.let_out(now);
                if (!e.rule.apart)
                    for (auto& [key, window] : windows_) --window.remaining;
                return {};
            }
            waiting = waiters_.insert(waiters_.end(), {.urgency = e.rule.urgency, .ready = ready});
        }
        clock_.sleep_until(at);
    }
    return fail(Error{.kind = ErrorKind::rate_limited,
                      .message = fmt::format("{}: other calls kept taking the slot", name),
                      .retry_after = Millis{1000}});
}

std::optional<Millis> Pacer::learn(std::string_view name, const HttpResponse& response) {
    const std::lock_guard lock(mutex_);
    const auto now = clock_.now();
    auto& e = endpoint(name);
    // How long a request was on its way is not known, only that it had arrived by now: a call that was slow, with a new
    // connection say, must not be met at the other end by a quick one behind it.
    if (rules_.interval_all > Millis{0}) next_of_all_ = std::max(next_of_all_, now + rules_.interval_all);
    if (guarded(e.rule))
        breaker_.heard(response.delivery != Delivery::answered || response.status >= 500, now, entropy_);
    if (response.delivery != Delivery::answered) return std::nullopt;
    if (const auto limits = response.header("ratelimit"); limits && !e.rule.apart)
        learn_windows(*limits, response.header("ratelimit-policy").value_or(""), now);
    if (response.status != 429) {
        e.backoff = Millis{0};
        return std::nullopt;
    }
    // The interval asked for is what the text names, or at least ours; each further 429 doubles the wait.
    // Jitter of up to a quarter keeps several daemons on one account from coming back together.
    auto wait = std::max({e.backoff * 2, e.rule.backoff_first, Millis{1000}});
    if (const auto threshold = threshold_in(response.body)) {
        const auto interval = std::min(*threshold + *threshold / 5, kIntervalMax);
        e.rule.interval = std::max(e.rule.interval, interval);
        wait = std::max(wait, interval);
    }
    wait = std::min(wait, rules_.backoff_max);
    e.backoff = wait;
    wait +=
        Millis{static_cast<std::int64_t>(entropy_.below(static_cast<std::uint64_t>(wait.count()) / 4 + 1))};
    if (const auto hint = retry_hint(response)) wait = std::max(*hint, Millis{1});
    if (rules_.account_wide && !e.rule.apart && now + wait > account_blocked_until_) {
        account_blocked_until_ = now + wait;
        account_blocked_at_ = now;
    }
    wait = std::min(wait, hold_max(e.rule.urgency));
    e.blocked_until = std::max(e.blocked_until, now + wait);
    return wait;
}

Millis Pacer::hold(std::string_view name, Millis wait) {
    const std::lock_guard lock(mutex_);
    auto& e = endpoint(name);
    wait = std::min(wait, hold_max(e.rule.urgency));
    e.blocked_until = std::max(e.blocked_until, clock_.now() + wait);
    return wait;
}

void Pacer::learn_windows(std::string_view header, std::string_view policy, Instant now) {
    for (const auto item : items(header)) {
        const auto remaining = parameter(item, "r");
        const auto reset = parameter(item, "t");
        if (!remaining || !reset || *reset < 0 || *reset > 7 * 86'400) continue;
        auto& window = windows_[std::string(window_name(item))];
        window.remaining = *remaining;
        window.resets_at = now + Seconds{*reset};
        window.told_at = now;
        for (const auto rule : items(policy))
            if (window_name(rule) == window_name(item))
                window.quota = parameter(rule, "q").value_or(window.quota);
    }
}

std::optional<Millis> retry_hint(const HttpResponse& response) {
    if (const auto header = response.header("retry-after")) {
        if (header->find_first_not_of("0123456789") == std::string_view::npos)
            if (const auto wait = seconds_at(*header)) return wait;
        // A date is one of the sender's clock, so it is held against what that clock said, never against ours.
        const auto until = http_date(*header);
        const auto date = until ? response.header("date") : std::nullopt;
        const auto from = date ? http_date(*date) : std::nullopt;
        if (from) return std::clamp(Millis{*until - *from}, Millis{0}, kHintMax);
    }
    const auto text = folded(response.body.substr(0, 4096));
    for (const std::string_view phrase : {"again in ", "retry in ", "retry after ", "again after ", "retry_after\"", "retryafter\"", "wait "}) {
        const auto at = text.find(phrase);
        if (at == std::string::npos) continue;
        const auto rest = std::string_view(text).substr(at + phrase.size());
        // In whatever unit: an hour of milliseconds is the most that is told of it.
        const auto amount = thousandths_at(rest, kHintMax.count());
        if (!amount) continue;
        auto unit = rest.substr(std::min(rest.find_first_not_of("0123456789."), rest.size()));
        while (unit.starts_with(' ')) unit.remove_prefix(1);
        if (unit.starts_with("ms") || unit.starts_with("milli")) return std::min(Millis{*amount / 1000}, kHintMax);
        return std::min(Millis{*amount} * (unit.starts_with("min") ? 60 : unit.starts_with('h') ? 3600 : 1), kHintMax);
    }
    return std::nullopt;
}

}  // namespace gf
