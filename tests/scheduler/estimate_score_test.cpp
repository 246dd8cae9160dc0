// The promise about the measured rows: what bench/estimate prints, held to its bounds.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <set>

#include "estimates.hpp"
#include "scheduler/csv.hpp"

using namespace gf;

TEST_CASE(
    "strictly described rows of language models are met on average, and a run seldom needs more than the "
    "margin") {
    std::ifstream file(GF_MEASURED);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto table = parse_csv(text);
    REQUIRE(table);
    const std::set<std::string> tasks{"infer", "lora", "qlora", "full_ft", "adapter"};
    std::vector<double> errors;
    int under = 0;
    for (const auto& row : table->rows) {
        test::Fields fields;
        for (std::size_t i = 0; i < table->columns.size(); ++i)
            fields.emplace_back(table->columns[i], row.fields[i]);
        CAPTURE(row.fields[0]);
        const auto e = test::estimate(fields);  // every row has an answer
        CHECK(e.peak_gib > 0);
        if (!tasks.contains(row.fields[table->column("task")]) ||
            row.fields[table->column("strictness")] != "strict")
            continue;
        const double measured = std::stod(row.fields[table->column("peak_gib_per_gpu")]);
        errors.push_back(std::abs(e.peak_gib / measured - 1));
        if (e.with_margin_gib() < measured) ++under;
    }
    REQUIRE(errors.size() > 250);
    std::ranges::sort(errors);
    double sum = 0;
    for (const double e : errors) sum += e;
    const auto rows = static_cast<double>(errors.size());
    CHECK(sum / rows < 0.07);
    CHECK(errors[errors.size() * 9 / 10] < 0.15);
    CHECK(under / rows < 0.03);
}
