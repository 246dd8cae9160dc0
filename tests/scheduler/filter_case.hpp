// One row of the filters' tables: what is changed in a job, an offer or the world that fit each other, and the reason that must
// come of it.
#pragma once
#include <doctest/doctest.h>

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "offers.hpp"
#include "scheduler/filters.hpp"

namespace gf::test {

struct Setting {
    JobSpec job = test::job();
    TaskRecord task;
    Offer offer = test::offer();
    ChoiceWorld world = test::world();
};

struct Case {
    const char* what;
    void (*change)(Setting&);
    const char* reason;  // "" = it fits
    const char* detail_has = "";
};

inline void card(Offer& o, const char* canonical, std::optional<Bytes> memory) {
    o.gpu = {.canonical = canonical, .provider_name = canonical, .memory = memory};
}
inline void make_local(Offer& o) {
    o.provider = ProviderName{"local"};
    o.gpu_rate = UsdPerHour{0};
}
inline VramDemand gb_class(int gb) {
    return {.class_gb = gb, .exact = {}};
}
inline VramDemand exactly(std::int64_t bytes) {
    return {.class_gb = {}, .exact = Bytes{bytes}};
}

inline void check(std::span<const Case> cases) {
    for (const auto& c : cases) {
        CAPTURE(std::string(c.what));
        Setting x;
        c.change(x);
        const std::vector<Offer> offers{x.offer};
        const Decision decision = choose(x.job, x.task, offers, x.world);
        CHECK(decision.considered == 1);
        if (std::string_view(c.reason).empty()) {
            CHECK(decision.chosen.has_value());
            CHECK(decision.refused.empty());
            continue;
        }
        CHECK(!decision.chosen.has_value());
        CHECK(decision.refused == std::map<std::string, int>{{c.reason, 1}});
        if (!std::string_view(c.detail_has).empty()) {
            REQUIRE(decision.near_misses.size() == 1);
            CHECK(decision.near_misses[0].reason == c.reason);
            CHECK(decision.near_misses[0].detail.find(c.detail_has) != std::string::npos);
            CAPTURE(decision.near_misses[0].detail);
        }
    }
}

}  // namespace gf::test
