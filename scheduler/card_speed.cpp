#include "scheduler/card_speed.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "model/money.hpp"
#include "scheduler/csv.hpp"
#include "scheduler/version.hpp"

namespace gf {
namespace {

constexpr std::string_view kReference = "V100-SXM2-16GB";
constexpr double kHbmBatchShare = 0.70;  // of the bandwidth, in batches of 8 and more
constexpr double kGddrShare = 0.80;

struct Row {
    std::string card;
    int gpus{1};
    WorkKind work{};
    std::string series;
    double value{0};
    int line{0};
};

Error bad_row(int line, const std::string& what) {
    return Error{.kind = ErrorKind::malformed, .message = "throughput table, line " + std::to_string(line) + ": " + what, .line = line};
}

Result<std::vector<Row>> read_rows(const GpuNames& cards, std::string_view csv) {
    auto table = parse_csv(csv);
    if (!table) return fail(std::move(table).error());
    std::array<std::size_t, 5> at{};
    constexpr std::array<std::string_view, 5> names{"canonical_name", "gpu_count", "work", "series", "value"};
    for (std::size_t i = 0; i < names.size(); ++i) {
        at[i] = table->column(names[i]);
        if (at[i] == table->columns.size()) return fail(bad_row(1, "the column " + std::string(names[i]) + " is missing"));
    }
    std::vector<Row> out;
    for (const auto& row : table->rows) {
        const auto field = [&](std::size_t i) -> const std::string& { return row.fields[at[i]]; };
        const auto gpus = parse_decimal_micros(field(1));
        const auto work = enum_from<WorkKind>(field(2));
        const auto value = parse_decimal_micros(field(4));
        if (cards.card(field(0)) == nullptr) return fail(bad_row(row.line, field(0) + " is not in the GPU table"));
        if (!gpus || *gpus % 1'000'000 != 0 || *gpus < 1'000'000 || *gpus > 64'000'000)
            return fail(bad_row(row.line, "gpu_count must be 1..64"));
        if (!work) return fail(bad_row(row.line, "work must be training or decode"));
        if (!value || *value <= 0) return fail(bad_row(row.line, "value must be above 0"));
        out.push_back({field(0), static_cast<int>(*gpus / 1'000'000), *work, field(3), static_cast<double>(*value) / 1e6, row.line});
    }
    return out;
}

/// Logarithms of the speeds of single cards, all series of one kind of work on the scale of the first: each next one is shifted
/// by the mean difference over the cards that it shares with those before, and cards in several series get their mean.
std::map<std::string, double> joined(const std::vector<Row>& rows, WorkKind work) {
    std::vector<std::pair<std::string, std::map<std::string, double>>> series;
    for (const auto& row : rows) {
        if (row.work != work || row.gpus != 1) continue;
        const auto known = std::ranges::find(series, row.series, &std::pair<std::string, std::map<std::string, double>>::first);
        auto& values = known == series.end() ? series.emplace_back(row.series, std::map<std::string, double>{}).second : known->second;
        values[row.card] = std::log(row.value);
    }
    struct Sum {
        double of{0};
        int count{0};
        [[nodiscard]] double mean() const { return of / count; }
    };
    std::map<std::string, Sum> sums;
    for (const auto& [name, values] : series) {
        double shift = 0;
        int shared = 0;
        for (const auto& [card, value] : values)
            if (const auto found = sums.find(card); found != sums.end()) {
                shift += found->second.mean() - value;
                ++shared;
            }
        // A series without a common card is on its own scale; it is taken as it is, which holds for one V100 = 1.
        if (shared > 0) shift /= shared;
        for (const auto& [card, value] : values) {
            auto& sum = sums[card];
            sum.of += value + shift;
            ++sum.count;
        }
    }
    std::map<std::string, double> out;
    for (const auto& [card, sum] : sums) out[card] = sum.mean();
    return out;
}

using Point = std::array<double, 3>;  // 1, and the logarithms of what the speed is a power of

/// Least squares by the normal equations. Empty if they have no solution.
std::optional<Point> fitted(const std::vector<std::pair<Point, double>>& points) {
    constexpr std::size_t size = 3;
    std::array<std::array<double, size + 1>, size> m{};
    for (const auto& [x, y] : points)
        for (std::size_t i = 0; i < size; ++i) {
            for (std::size_t j = 0; j < size; ++j) m[i][j] += x[j] * x[i];
            m[i][size] += x[i] * y;
        }
    for (std::size_t i = 0; i < size; ++i) {
        std::size_t pivot = i;
        for (std::size_t k = i + 1; k < size; ++k)
            if (std::abs(m[k][i]) > std::abs(m[pivot][i])) pivot = k;
        std::swap(m[i], m[pivot]);
        if (std::abs(m[i][i]) < 1e-9) return std::nullopt;
        for (std::size_t k = 0; k < size; ++k) {
            if (k == i) continue;
            const double factor = m[k][i] / m[i][i];
            for (std::size_t j = 0; j <= size; ++j) m[k][j] -= factor * m[i][j];
        }
    }
    Point out{};
    for (std::size_t i = 0; i < size; ++i) out[i] = m[i][size] / m[i][i];
    return out;
}

double value_at(const Point& fit, const Point& x) {
    return fit[0] * x[0] + fit[1] * x[1] + fit[2] * x[2];
}

/// Dense 16-bit rate. Where the table has none: twice the FP32 rate from compute capability 7.5 on (so it is on GeForce cards with
/// tensor cores and on those Turing cards without), else the FP32 rate.
std::optional<double> rate_of(const GpuCard& card) {
    if (card.fp16_tensor_tflops && *card.fp16_tensor_tflops > 0) return card.fp16_tensor_tflops;
    if (!card.fp32_tflops || *card.fp32_tflops <= 0) return std::nullopt;
    const bool doubled = version_at_least(card.compute_capability, "7.5").value_or(false);
    return *card.fp32_tflops * (doubled ? 2 : 1);
}

bool is_hbm(const GpuCard& card) {
    return card.memory_type.starts_with("HBM");
}

std::optional<double> bandwidth_of(const GpuCard& card) {
    if (!card.bandwidth_gb_s || *card.bandwidth_gb_s <= 0) return std::nullopt;
    return static_cast<double>(*card.bandwidth_gb_s);
}

std::optional<Point> training_point(const GpuCard& card) {
    const auto rate = rate_of(card), bandwidth = bandwidth_of(card);
    if (!rate || !bandwidth) return std::nullopt;
    return Point{1, std::log(*rate), std::log(*bandwidth)};
}

}  // namespace

Result<CardSpeeds> CardSpeeds::parse(const GpuNames& cards, std::string_view throughput_csv) {
    const auto rows = read_rows(cards, throughput_csv);
    if (!rows) return fail(rows.error());
    const auto training = joined(*rows, WorkKind::training);
    auto decode = joined(*rows, WorkKind::decode);
    std::erase_if(decode, [&](const auto& entry) { return is_hbm(*cards.card(entry.first)); });

    std::vector<std::pair<Point, double>> points;
    for (const auto& [name, speed] : training)
        if (const auto x = training_point(*cards.card(name)); x) points.emplace_back(*x, speed);
    const auto by_training = fitted(points);
    // Of GDDR cards: what each GB/s is worth, the mean of the measured.
    double per_bandwidth = 0;
    int measured = 0;
    for (const auto& [name, speed] : decode)
        if (const auto bandwidth = bandwidth_of(*cards.card(name)); bandwidth) {
            per_bandwidth += speed - std::log(*bandwidth);
            ++measured;
        }
    if (!by_training || measured == 0) return fail(bad_row(1, "too few cards are measured to fit the others"));
    per_bandwidth = std::exp(per_bandwidth / measured);

    CardSpeeds out;
    for (const auto& card : cards.cards()) {
        Entry entry{.linked = card.form_factor == "sxm"};
        if (const auto found = training.find(card.canonical); found != training.end())
            entry.training = CardSpeed{std::exp(found->second), true};
        else if (const auto x = training_point(card); x)
            entry.training = CardSpeed{std::exp(value_at(*by_training, *x)), false};
        if (const auto found = decode.find(card.canonical); found != decode.end())
            entry.decode = CardSpeed{std::exp(found->second), true};
        else if (const auto bandwidth = bandwidth_of(card); bandwidth)
            entry.decode = CardSpeed{per_bandwidth * *bandwidth * (is_hbm(card) ? kHbmBatchShare / kGddrShare : 1), false};
        out.cards_[card.canonical] = entry;
    }
    const auto reference = out.cards_.find(kReference);
    if (reference == out.cards_.end() || !reference->second.training || !reference->second.decode)
        return fail(bad_row(1, std::string(kReference) + " is the unit and must be in the GPU table"));
    const double one_training = reference->second.training->relative, one_decode = reference->second.decode->relative;
    for (auto& [name, entry] : out.cards_) {
        if (entry.training) entry.training->relative /= one_training;
        if (entry.decode) entry.decode->relative /= one_decode;
    }

    const auto slowest = [&](auto part) {
        const std::pair<const std::string, Entry>* least = nullptr;
        for (const auto& entry : out.cards_)
            if (entry.second.*part && (least == nullptr || (entry.second.*part)->relative < (least->second.*part)->relative)) least = &entry;
        return least->first;  // the unit is one of them
    };
    out.slowest_training_ = slowest(&Entry::training);
    out.slowest_decode_ = slowest(&Entry::decode);

    // Each set against the single card of its own series; a set that is better than that says that nothing is lost.
    std::map<std::pair<std::string, std::string>, double> single;
    for (const auto& row : *rows)
        if (row.gpus == 1) single[{row.series, row.card}] = row.value;
    std::array<double, 2> lost{}, squares{};
    for (const auto& row : *rows) {
        const auto one = single.find({row.series, row.card});
        if (row.gpus == 1 || one == single.end()) continue;
        const std::size_t linked = out.cards_[row.card].linked ? 1 : 0;
        const double count = std::log(static_cast<double>(row.gpus));
        const double share = std::min(1.0, row.value / row.gpus / one->second);
        lost[linked] += -std::log(share) * count;
        squares[linked] += count * count;
    }
    out.loss_apart_ = squares[0] > 0 ? lost[0] / squares[0] : 0;
    out.loss_linked_ = squares[1] > 0 ? lost[1] / squares[1] : 0;
    return out;
}

std::optional<CardSpeed> CardSpeeds::card(std::string_view canonical, WorkKind work) const {
    const auto found = cards_.find(canonical);
    if (found == cards_.end()) return std::nullopt;
    return work == WorkKind::training ? found->second.training : found->second.decode;
}

double CardSpeeds::scaling(int gpus, bool linked) const {
    return std::pow(static_cast<double>(std::max(1, gpus)), 1 - (linked ? loss_linked_ : loss_apart_));
}

std::optional<CardSpeed> CardSpeeds::machine(std::string_view canonical, WorkKind work, int gpus, double share) const {
    auto speed = card(canonical, work);
    if (!speed || share <= 0) return std::nullopt;
    const auto found = cards_.find(canonical);
    speed->relative *= scaling(gpus, found->second.linked) * std::min(1.0, share);
    return speed;
}

}  // namespace gf
