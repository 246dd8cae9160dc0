#include "scheduler/estimate/peaks.hpp"

#include <doctest/doctest.h>

#include "offers.hpp"
#include "scheduler/finish_cost.hpp"

using namespace gf;

namespace {

constexpr std::int64_t gib(double n) {
    return static_cast<std::int64_t>(n * static_cast<double>(kGiB));
}

MemoryEstimate formula(double peak = 20, const char* method = "lora") {
    return {.model = "m/x",
            .method = method,
            .peak_gib = peak,
            .margin = 1.15,
            .margin_reason = "by formula",
            .demand = Bytes{gib(peak * 1.15)},
            .text = "t",
            .parts_gib = {{"weights", peak * 0.75}, {"activations", peak * 0.25}},
            .notes = {"assumed"}};
}
PeakRecord asked(double peak = 20, const char* method = "lora") {
    return {.family = "voices/1", .method = method, .estimated = gib(peak), .at = test::kNow};
}

}  // namespace

TEST_CASE("a record keeps the highest peak of the runs that ended well, and the most that was not enough") {
    struct Row {
        const char* what;
        std::vector<std::pair<RunEnd, double>> runs;
        double peak;
        std::int64_t well;
        double ran_out;
    };
    const Row table[] = {{"nothing", {}, 0, 0, 0},
                         {"one run", {{RunEnd::well, 12}}, 12, 1, 0},
                         {"two, the higher counts", {{RunEnd::well, 12}, {RunEnd::well, 11}}, 12, 2, 0},
                         {"one that was cut short alone says nothing", {{RunEnd::cut_short, 12}}, 0, 0, 0},
                         {"nor a lower one", {{RunEnd::well, 12}, {RunEnd::cut_short, 3}}, 12, 1, 0},
                         {"a higher one does", {{RunEnd::well, 12}, {RunEnd::cut_short, 14}}, 14, 1, 0},
                         {"ran out", {{RunEnd::ran_out, 23}, {RunEnd::ran_out, 22}}, 0, 0, 23},
                         {"no peak was told", {{RunEnd::well, 0}, {RunEnd::ran_out, -1}}, 0, 0, 0}};
    for (const auto& row : table) {
        CAPTURE(std::string(row.what));
        PeakRecord record = asked();
        for (const auto& [how, peak] : row.runs) record = observed(record, how, gib(peak), test::kNow);
        CHECK(record.peak == gib(row.peak));
        CHECK(record.runs == row.well);
        CHECK(record.ran_out == gib(row.ran_out));
    }
}

TEST_CASE("the CUDA context is none of a job's own memory") {
    const GpuCard* card = test::gpu_names().card("RTX-4090");
    REQUIRE(card != nullptr);
    const Bytes reported = test::mib(24564);
    // What usable_memory takes off for it is taken off here.
    CHECK(without_context(card, reported, gib(10)) == gib(10) - gib(0.35));
    CHECK(without_context(nullptr, reported, gib(10)) == gib(10) - gib(0.35));
    CHECK(without_context(card, reported, gib(0.1)) == 0);
    CHECK(without_context(card, reported, -1) == 0);
}

TEST_CASE(
    "an estimate is corrected by runs of its family that asked the same question, else by how far off the "
    "formula was") {
    struct Row {
        const char* what;
        std::vector<PeakRecord> family;
        double peak, margin;  // peak 0 = as it was
        const char* says;
    };
    const auto ran = [](PeakRecord r, std::int64_t runs, double peak, double out = 0) {
        r.runs = runs, r.peak = gib(peak), r.ran_out = gib(out);
        return r;
    };
    const Row table[] = {
        {"nothing is known", {}, 0, 0, ""},
        {"one run of the same", {ran(asked(), 1, 14)}, 14, 1.10, "1 earlier run with these settings"},
        {"several", {ran(asked(), 7, 14)}, 14, 1.05, "earlier runs with these settings"},
        {"it ran out", {ran(asked(), 0, 0, 23)}, 25.3, 1.15, "ran out of memory at 23.0 GiB"},
        {"it ran out once, and then did with more", {ran(asked(), 1, 30, 23)}, 30, 1.10, "1 earlier run"},
        {"another question of the family", {ran(asked(10), 3, 12)}, 24, 1.15, "1.20 times"},
        {"the same question counts for more",
         {ran(asked(10), 3, 19), ran(asked(), 2, 14)},
         14,
         1.05,
         "with these settings"},
        {"another method says nothing", {ran(asked(20, "full"), 3, 60)}, 0, 0, ""},
        {"a record without a run", {asked()}, 0, 0, ""}};
    for (const auto& row : table) {
        CAPTURE(std::string(row.what));
        const MemoryEstimate was = formula(), out = corrected(was, row.family);
        if (row.peak == 0) {
            CHECK(out.formula_gib == 0);
            CHECK(out.demand == was.demand);
            CHECK(out.notes == was.notes);
            continue;
        }
        CHECK(out.formula_gib == 20);
        CHECK(out.peak_gib == doctest::Approx(row.peak).epsilon(0.001));
        CHECK(out.margin == doctest::Approx(row.margin));
        CHECK(static_cast<double>(out.demand.count) ==
              doctest::Approx(row.peak * row.margin * static_cast<double>(kGiB)).epsilon(0.001));
        CHECK(out.notes.front().find(row.says) != std::string::npos);
        CHECK(out.notes.back() == "assumed");
        double sum = 0;
        for (const auto& [name, size] : out.parts_gib) sum += size;
        CHECK(sum == doctest::Approx(out.peak_gib));
        // What was asked stays what was asked, and is not corrected twice.
        CHECK(formula_bytes(out) == formula_bytes(was));
        CHECK(corrected(out, row.family).peak_gib == out.peak_gib);
    }
}

TEST_CASE("a spec asks for what runs of its family took") {
    JobSpec spec = test::job();
    spec.estimate = formula();
    spec.resources.vram = VramDemand{.class_gb = {}, .exact = spec.estimate->demand};
    RunHistory history;
    CHECK_FALSE(take_peaks(spec, history));
    PeakRecord record = asked();
    record.family = family_of(spec);
    history.peaks[record.family] = {observed(record, RunEnd::well, gib(10), test::kNow)};
    JobSpec stranger = spec;
    stranger.image = "other:1";
    CHECK_FALSE(take_peaks(stranger, history));
    REQUIRE(take_peaks(spec, history));
    CHECK(spec.resources.vram->exact == spec.estimate->demand);
    CHECK(static_cast<double>(spec.estimate->demand.count) ==
          doctest::Approx(11.0 * static_cast<double>(kGiB)).epsilon(0.001));
    CHECK_FALSE(take_peaks(spec, history));  // once is enough
    JobSpec plain = test::job();
    CHECK_FALSE(take_peaks(plain, history));
}
