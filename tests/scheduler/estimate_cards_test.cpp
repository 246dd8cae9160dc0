#include "scheduler/estimate/cards.hpp"

#include <algorithm>
#include <cmath>

#include "estimates.hpp"
#include "offers.hpp"
#include "scheduler/estimate/correction.hpp"

using namespace gf;
using gf::test::estimate;
using gf::test::gpu_names;

namespace {

Bytes gib(double value) {
    return Bytes{std::llround(value * static_cast<double>(kGiB))};
}

}  // namespace

TEST_CASE("cards that fit come by memory, with their room, and none that does not") {
    const auto fits = cards_that_fit(gpu_names(), gib(22.0));
    REQUIRE(fits.size() > 20);
    CHECK(std::ranges::is_sorted(fits, {}, &CardFit::usable_gib));
    const auto at = [&](std::string_view name) { return std::ranges::find(fits, name, &CardFit::canonical); };
    CHECK(at("RTX-4090") != fits.end());
    CHECK(at("L4") == fits.end());  // 22.5 GiB reported, less is usable
    CHECK(at("RTX-3060") == fits.end());
    for (const auto& fit : fits) {
        CHECK(fit.room_gib >= 0);
        CHECK(fit.usable_gib == doctest::Approx(22.0 + fit.room_gib));
        const auto* card = gpu_names().card(fit.canonical);
        REQUIRE(card != nullptr);
        CHECK(card->vendor == "nvidia");
        CHECK(card->tier != "edge");
    }
    CHECK(cards_that_fit(gpu_names(), gib(10'000)).empty());
    // To the byte: what is usable fits, one byte more does not.
    const auto* card = gpu_names().card("RTX-4090");
    REQUIRE(card != nullptr);
    const auto has_4090 = [](const std::vector<CardFit>& found) {
        return std::ranges::find(found, "RTX-4090", &CardFit::canonical) != found.end();
    };
    CHECK(has_4090(cards_that_fit(gpu_names(), usable_memory(*card))));
    CHECK_FALSE(has_4090(cards_that_fit(gpu_names(), Bytes{usable_memory(*card).count + 1})));
}

TEST_CASE("an estimate is corrected by what earlier runs took, and says why") {
    const auto formula = estimate({{"model", "Qwen/Qwen-7B"},
                                   {"method", "lora"},
                                   {"seq", "1024"},
                                   {"batch", "1"},
                                   {"checkpointing", "yes"}});
    const double p = formula.peak_gib;
    struct Case {
        std::vector<ObservedPeak> observed;
        bool corrected;
        double peak;
        double margin;
        const char* says;
    };
    const double nan = std::nan("");
    const Case cases[]{
        {{}, false, p, 1.15, "no earlier run"},
        {{{.peak_gib = 20, .same_settings = true}}, true, 20, 1.10, "1 earlier run with these settings"},
        {{{.peak_gib = 20, .same_settings = true}, {.peak_gib = 21.5, .same_settings = true}},
         true,
         21.5,
         1.05,
         "2 earlier runs"},
        {{{.peak_gib = 12, .estimated_gib = 10},
          {.peak_gib = 11, .estimated_gib = 10},
          {.peak_gib = 30, .estimated_gib = 10}},
         true,
         p * 1.2,
         1.15,
         "1.20 times"},
        {{{.peak_gib = 90, .estimated_gib = 10}}, true, p * 2, 1.15, "2.00 times"},  // held to twice
        {{{.peak_gib = 39, .same_settings = true, .ended_by_memory = true}},
         true,
         39 * 1.1,
         1.15,
         "ran out of memory"},
        {{{.peak_gib = 23, .same_settings = true, .ended_by_memory = true},
          {.peak_gib = 24, .same_settings = true}},
         true,
         24,
         1.10,
         "1 earlier run"},
        {{{.peak_gib = nan, .same_settings = true},
          {.peak_gib = -1, .same_settings = true},
          {.peak_gib = 5, .estimated_gib = nan}},
         false,
         p,
         1.15,
         "no earlier run"},
    };
    for (const auto& c : cases) {
        const auto out = correct_estimate(formula, c.observed);
        INFO(c.says);
        CHECK(out.corrected == c.corrected);
        CHECK(out.estimate.peak_gib == doctest::Approx(c.peak));
        CHECK(out.estimate.margin == doctest::Approx(c.margin));
        CHECK(out.reason.find(c.says) != std::string::npos);
        double sum = 0;
        for (const auto& part : out.estimate.parts) sum += part.gib;
        CHECK(sum == doctest::Approx(out.estimate.peak_gib));
    }
}
