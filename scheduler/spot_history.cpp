#include "scheduler/spot_history.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include "scheduler/spot_hazard.hpp"

namespace gf {
namespace {

double hours(Millis span) {
    return static_cast<double>(span.count()) / 3'600'000.0;
}

/// "name" with the characters that separate fields written as %xx.
void append_name(std::string& out, std::string_view name) {
    static constexpr char kHex[] = "0123456789abcdef";
    for (const char c : name) {
        if (c == ' ' || c == '%' || c == '\n') {
            const auto byte = static_cast<unsigned char>(c);
            out += '%';
            out += kHex[byte >> 4];
            out += kHex[byte & 15];
        } else {
            out += c;
        }
    }
}

class Fields {
 public:
    explicit Fields(std::string_view text) : text_(text) {}
    std::optional<std::string_view> word() {
        if (text_.empty()) return std::nullopt;
        const auto end = text_.find(' ');
        const auto found = text_.substr(0, end);
        text_ = end == std::string_view::npos ? std::string_view() : text_.substr(end + 1);
        return found;
    }
    template <class T>
    std::optional<T> number(int base = 10) {
        const auto found = word();
        T value{};
        if (!found) return std::nullopt;
        const auto [end, error] = std::from_chars(found->data(), found->data() + found->size(), value, base);
        if (error != std::errc{} || end != found->data() + found->size()) return std::nullopt;
        return value;
    }
    std::optional<std::string> name() {
        const auto found = word();
        if (!found) return std::nullopt;
        std::string out;
        for (std::size_t n = 0; n < found->size(); ++n) {
            if ((*found)[n] != '%') {
                out += (*found)[n];
                continue;
            }
            unsigned byte = 0;
            if (n + 2 >= found->size()) return std::nullopt;
            const char* at = found->data() + n + 1;
            const auto [end, error] = std::from_chars(at, at + 2, byte, 16);
            if (error != std::errc{} || end != at + 2) return std::nullopt;
            out += static_cast<char>(byte);
            n += 2;
        }
        return out;
    }
    [[nodiscard]] bool done() const { return text_.empty(); }

 private:
    std::string_view text_;
};

}  // namespace

SpotHistory::KeySet SpotHistory::bit(std::string_view key) const {
    const auto found = std::find(keys_.begin(), keys_.end(), key);
    return found == keys_.end() ? 0 : KeySet{1} << (found - keys_.begin());
}

void SpotHistory::observe(Instant now, std::span<const SpotSeen> seen) {
    if (!rows_.empty() && now < last_) return;
    std::vector<const SpotSeen*> sorted;
    for (const auto& one : seen) sorted.push_back(&one);
    std::sort(sorted.begin(), sorted.end(), [](const SpotSeen* a, const SpotSeen* b) {
        return std::tie(a->key, a->up, a->rate) < std::tie(b->key, b->up, b->rate);
    });
    Row row = rows_.empty() ? Row{} : rows_.back();
    row.from = now;
    for (const auto* one : sorted) {
        KeySet mark = bit(one->key);
        if (mark == 0) {
            if (keys_.size() >= kSpotKeysMax) continue;
            mark = KeySet{1} << keys_.size();
            keys_.push_back(one->key);
            rates_.push_back(one->rate);
        }
        rates_[static_cast<std::size_t>(std::countr_zero(mark))] = one->rate;
        row.known |= mark;
        row.up = one->up ? row.up | mark : row.up & ~mark;
    }
    last_ = now;
    if (!rows_.empty() && rows_.back().known == row.known && rows_.back().up == row.up) return;
    if (!rows_.empty() && rows_.back().from == now) rows_.pop_back();
    rows_.push_back(row);
    if (rows_.size() > kSpotLooksMax)
        rows_.erase(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(rows_.size() - kSpotLooksMax));
}

std::string SpotHistory::text() const {
    std::string out = "spot1 " + std::to_string(unix_millis(last_)) + ' ' + std::to_string(keys_.size());
    for (std::size_t n = 0; n < keys_.size(); ++n) {
        out += ' ';
        append_name(out, keys_[n]);
        out += ' ' + std::to_string(rates_[n].micros);
    }
    out += ' ' + std::to_string(rows_.size());
    for (const auto& row : rows_) {
        out += ' ' + std::to_string(unix_millis(row.from)) + ' ' + std::to_string(row.known) + ' ' +
               std::to_string(row.up);
    }
    return out;
}

Result<SpotHistory> SpotHistory::parse(std::string_view text) {
    const auto wrong = [] { return fail(ErrorKind::malformed, "not a stored history of spot capacity"); };
    Fields fields(text);
    SpotHistory out;
    if (fields.word() != "spot1") return wrong();
    const auto last = fields.number<std::int64_t>();
    const auto keys = fields.number<std::size_t>();
    if (!last || !keys || *keys > kSpotKeysMax) return wrong();
    out.last_ = instant_of(*last);
    for (std::size_t n = 0; n < *keys; ++n) {
        auto name = fields.name();
        const auto rate = fields.number<std::int64_t>();
        if (!name || !rate) return wrong();
        out.keys_.push_back(std::move(*name));
        out.rates_.push_back(UsdPerHour{*rate});
    }
    const auto rows = fields.number<std::size_t>();
    if (!rows || *rows > kSpotLooksMax) return wrong();
    for (std::size_t n = 0; n < *rows; ++n) {
        const auto from = fields.number<std::int64_t>();
        const auto known = fields.number<KeySet>();
        const auto up = fields.number<KeySet>();
        if (!from || !known || !up) return wrong();
        if (!out.rows_.empty() && instant_of(*from) <= out.rows_.back().from) return wrong();
        out.rows_.push_back({.from = instant_of(*from), .known = *known, .up = *up});
    }
    if (!fields.done()) return wrong();
    return out;
}

SpellStats spell_stats(const SpotHistory& history, SpotHistory::KeySet keys, Instant now) {
    SpellStats stats;
    const auto& rows = history.rows();
    Instant since{};
    bool begun = false;  // the beginning of the spell was seen
    for (std::size_t n = 0; n < rows.size(); ++n) {
        const auto& row = rows[n];
        if ((row.known & keys) == 0) continue;
        const Instant from = row.from;
        const Instant to = n + 1 < rows.size() ? rows[n + 1].from : std::max(now, from);
        const bool up = (row.up & keys) != 0;
        const double fade = std::exp(-hours(now - from) / kSpotMemoryHours);
        const double span = hours(to - from);
        const double span_fade = std::exp(-std::max(hours(now - from) - span / 2, 0.0) / kSpotMemoryHours);
        if (!stats.known || up != stats.up) {
            if (stats.known) {
                (stats.up ? stats.ends : stats.returns) += fade;
                begun = true;
            }
            stats.known = true;
            stats.up = up;
            since = from;
        }
        const double lead = begun ? 0 : kUnseenAgeHours;
        const double age = hours(from - since) + lead;
        (up ? stats.ends_expected : stats.returns_expected) +=
            span_fade * spell_hazard(up ? Spell::up : Spell::down, age, age + span);
        if (up) stats.up_h += span_fade * span;
        const double kept = std::exp(-span / kSpotRecentHours);
        stats.recent = stats.recent * kept + (up ? 1 - kept : 0);
        stats.recent_seen = stats.recent_seen * kept + 1 - kept;
        stats.seen_h += span_fade * span;
        stats.age_h = age + span;
    }
    return stats;
}

}  // namespace gf
