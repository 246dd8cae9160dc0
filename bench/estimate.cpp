// Scores the estimate on bench/vram_measured.csv: how far it is off, row by row and in groups, and how often
// a run would not have fitted with the margin. `--cv` leaves one source, one family of models or one program
// out at a time, fits the constants on the rest from the neutral ones, and scores what was left out.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "config/shipped.hpp"
#include "scheduler/csv.hpp"
#include "scheduler/estimate/estimate.hpp"

namespace {

using namespace gf;

struct Row {
    std::map<std::string, std::string> field;
    EstimateRequest request;
    double measured{0};
    [[nodiscard]] const std::string& at(const std::string& name) const { return field.at(name); }
};

std::vector<Row> read_rows(const std::string& path) {
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto table = parse_csv(text);
    if (!table) {
        fmt::print(stderr, "{}: {}\n", path, table.error().message);
        std::exit(1);
    }
    std::vector<Row> rows;
    for (const auto& line : table->rows) {
        Row row;
        std::vector<EstimateField> fields;
        for (std::size_t i = 0; i < table->columns.size(); ++i) {
            row.field[table->columns[i]] = line.fields[i];
            fields.emplace_back(table->columns[i], line.fields[i]);
        }
        row.measured = std::stod(row.at("peak_gib_per_gpu"));
        auto request = read_estimate_request(fields, true);
        if (!request) {
            fmt::print(stderr, "{}: {}\n", row.at("id"), request.error().message);
            std::exit(1);
        }
        row.request = *std::move(request);
        rows.push_back(std::move(row));
    }
    return rows;
}

bool language(const Row& row) {
    static const std::set<std::string> tasks{"infer", "lora", "qlora", "full_ft", "adapter"};
    return tasks.contains(row.at("task"));
}

struct Score {
    std::vector<double> errors;  // signed
    int under{0};
    int wide{0};  // the margin overshoots by more than a quarter
    void add(const Estimate& e, double measured) {
        errors.push_back(e.peak_gib / measured - 1);
        if (e.with_margin_gib() < measured) ++under;
        if (e.with_margin_gib() > 1.25 * measured) ++wide;
    }
    [[nodiscard]] double mean_absolute() const {
        double sum = 0;
        for (const double e : errors) sum += std::abs(e);
        return errors.empty() ? 0 : 100 * sum / static_cast<double>(errors.size());
    }
    [[nodiscard]] double mean() const {
        double sum = 0;
        for (const double e : errors) sum += e;
        return errors.empty() ? 0 : 100 * sum / static_cast<double>(errors.size());
    }
    [[nodiscard]] double percentile(double p) const {
        std::vector<double> sizes;
        for (const double e : errors) sizes.push_back(std::abs(e));
        std::ranges::sort(sizes);
        if (sizes.empty()) return 0;
        const auto at = static_cast<std::size_t>(std::ceil(p * static_cast<double>(sizes.size())));
        return 100 * sizes[std::min(sizes.size() - 1, at == 0 ? 0 : at - 1)];
    }
    void print(const std::string& name) const {
        fmt::print(
            "{:<58} {:>4} rows  mean abs {:5.1f} %  p90 {:5.1f} %  mean {:+5.1f} %  under with margin {:>2} "
            "({:.1f} %)  over +25 % {}\n",
            name, errors.size(), mean_absolute(), percentile(0.9), mean(), under,
            errors.empty() ? 0.0 : 100.0 * under / static_cast<double>(errors.size()), wide);
    }
};

Score score(const std::vector<const Row*>& rows, const ModelCatalog& catalog, const Constants& constants) {
    Score s;
    for (const auto* row : rows)
        if (const auto e = estimate_vram(row->request, catalog, constants)) s.add(*e, row->measured);
    return s;
}

/// What a fit makes small: the mean absolute error, and rows too low count a little more than rows too high.
double loss(const std::vector<const Row*>& rows, const ModelCatalog& catalog, const Constants& constants) {
    double sum = 0;
    for (const auto* row : rows) {
        const auto e = estimate_vram(row->request, catalog, constants);
        if (!e) continue;
        const double x = e->peak_gib / row->measured - 1;
        sum += std::abs(x) * (x < 0 ? 1.1 : 1.0) + x * x;
    }
    return sum;
}

/// Coordinate search from the neutral constants: each constant is moved while it helps, in ever smaller
/// steps.
Constants fitted(const std::vector<const Row*>& rows, const ModelCatalog& catalog) {
    Constants c = Constants::neutral();
    auto knobs = tunables(c);
    double best = loss(rows, catalog, c);
    for (double step = 0.2; step > 0.02; step /= 2)
        for (int round = 0; round < 2; ++round)
            for (auto& knob : knobs)
                for (const double sign : {-1.0, 1.0})
                    while (true) {
                        const double before = *knob.value;
                        *knob.value = std::clamp(before + sign * step * (knob.most - knob.least), knob.least,
                                                 knob.most);
                        const double now = *knob.value == before ? best : loss(rows, catalog, c);
                        if (now < best - 1e-9) {
                            best = now;
                            continue;
                        }
                        *knob.value = before;
                        break;
                    }
    return c;
}

void cross_validate(const std::vector<const Row*>& rows, const ModelCatalog& catalog, const std::string& what,
                    const std::function<std::string(const Row&)>& group) {
    std::set<std::string> names;
    for (const auto* row : rows) names.insert(group(*row));
    Score all;
    for (const auto& name : names) {
        std::vector<const Row*> rest, out;
        for (const auto* row : rows) (group(*row) == name ? out : rest).push_back(row);
        const Score s = score(out, catalog, fitted(rest, catalog));
        s.print("  without " + name);
        all.errors.insert(all.errors.end(), s.errors.begin(), s.errors.end());
        all.under += s.under;
        all.wide += s.wide;
    }
    all.print("left out by " + what + ", all");
}

}  // namespace

int main(int argc, char** argv) {
    std::string path = "bench/vram_measured.csv";
    bool cv = false, fit = false;
    int worst = 0;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        if (word == "--cv")
            cv = true;
        else if (word == "--fit")
            fit = true;
        else if (word == "--worst" && i + 1 < argc)
            worst = std::stoi(argv[++i]);
        else
            path = word;
    }
    const auto catalog = ModelCatalog::parse(shipped_models_csv());
    if (!catalog) {
        fmt::print(stderr, "{}\n", catalog.error().message);
        return 1;
    }
    const auto rows = read_rows(path);
    std::vector<const Row*> strict, loose, media;
    for (const auto& row : rows) {
        if (!language(row))
            media.push_back(&row);
        else
            (row.at("strictness") == "strict" ? strict : loose).push_back(&row);
    }
    Constants shipped = Constants::shipped();
    if (fit) {
        shipped = fitted(strict, *catalog);
        Constants start = Constants::neutral();
        const auto before = tunables(start);
        auto after = tunables(shipped);
        for (std::size_t i = 0; i < after.size(); ++i)
            fmt::print("{:<40} {:8.3f} -> {:8.3f}\n", after[i].name, *before[i].value, *after[i].value);
    }
    std::map<std::string, std::vector<const Row*>> groups;
    for (const auto* row : strict) groups[row->at("task") + ", " + row->at("framework")].push_back(row);
    for (const auto& [name, members] : groups) score(members, *catalog, shipped).print(name);
    score(strict, *catalog, Constants::neutral()).print("language models, strict, neutral constants");
    score(strict, *catalog, shipped).print("language models, strict");
    score(loose, *catalog, shipped).print("language models, loosely described rows");
    groups.clear();
    for (const auto* row : media) groups[row->at("task") + " (" + row->at("strictness") + ")"].push_back(row);
    for (const auto& [name, members] : groups) score(members, *catalog, shipped).print(name);
    if (worst > 0) {
        std::vector<std::pair<double, std::string>> lines;
        for (const auto& row : rows) {
            const auto e = estimate_vram(row.request, *catalog, shipped);
            if (!e) {
                fmt::print("{}: {}\n", row.at("id"), e.error().message);
                continue;
            }
            const double x = e->peak_gib / row.measured - 1;
            std::string line = fmt::format(
                "{} {:+.1f} %{} {} {} {} {} {} b{} s{}+{} n{} {} = {} | {:.2f}", row.at("id"), 100 * x,
                e->with_margin_gib() < row.measured ? " UNDER" : "", row.at("strictness"), row.at("task"),
                row.at("model"), row.at("framework"), row.at("quantization"), row.at("batch_per_gpu"),
                row.at("seq_len"), row.at("gen_len"), row.at("gpu_count"), row.at("parallelism"),
                row.at("peak_gib_per_gpu"), e->peak_gib);
            for (const auto& part : e->parts) line += fmt::format(" {} {:.2f}", part.name, part.gib);
            lines.emplace_back(-std::abs(x), std::move(line));
        }
        std::ranges::sort(lines);
        for (std::size_t i = 0; i < lines.size() && i < static_cast<std::size_t>(worst); ++i)
            fmt::print("{}\n", lines[i].second);
    }
    if (cv) {
        cross_validate(strict, *catalog, "source",
                       [](const Row& r) { return r.at("source").substr(0, r.at("source").find(" (")); });
        cross_validate(strict, *catalog, "family of models", [&](const Row& r) {
            std::vector<std::string> notes;
            const auto shape = resolve_model(r.request, *catalog, notes);
            return !shape || shape->family.empty() ? std::string("not in the table") : shape->family;
        });
        cross_validate(strict, *catalog, "tenths of the models", [](const Row& r) {
            return std::to_string(std::hash<std::string>{}(r.at("hf_id")) % 10);
        });
    }
    return 0;
}
