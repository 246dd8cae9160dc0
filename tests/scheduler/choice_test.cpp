#include "scheduler/choice.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "offers.hpp"

using namespace gf;
using gf::test::mib;

namespace {

Offer priced(std::string provider, std::string id, std::int64_t micros) {
    Offer o = test::offer(std::move(provider), std::move(id));
    o.gpu_rate = UsdPerHour{micros};
    return o;
}

std::vector<std::string> order(const Decision& d) {
    std::vector<std::string> out;
    for (const auto& r : d.ranked) out.push_back(r.offer.provider.get() + "/" + r.offer.id);
    return out;
}
using Order = std::vector<std::string>;

}  // namespace

TEST_CASE("the lowest all-in price wins, the local machine at equal price, then names") {
    auto local = priced("local", "this", 200'000);
    std::vector<Offer> offers{priced("vastai", "9", 200'000), priced("lambda", "b", 200'000),
                              priced("runpod", "a", 200'000), local,
                              priced("vastai", "1", 100'000), priced("vastai", "2", 300'000)};
    const Order expected{"vastai/1", "local/this", "lambda/b", "runpod/a", "vastai/9", "vastai/2"};
    std::ranges::sort(offers, {}, &Offer::id);
    int permutations = 0;
    do {
        const auto decision = choose(test::job(), {}, offers, test::world());
        REQUIRE(order(decision) == expected);
        REQUIRE(decision.chosen.has_value());
        REQUIRE(decision.chosen->offer.id == "1");
        ++permutations;
    } while (std::ranges::next_permutation(offers, {}, &Offer::id).found);
    CHECK(permutations == 720);
}

TEST_CASE("disk can make the cheap offer the dear one, and the lines add up") {
    Offer x = priced("vastai", "x", 300'000), y = priced("vastai", "y", 380'000);
    x.disk_micros_per_gb_month = 600'000;
    y.disk_micros_per_gb_month = 100'000;
    JobSpec spec = test::job();
    spec.resources.disk = Bytes{200 * kGB};
    const std::vector<Offer> offers{x, y};
    const auto decision = choose(spec, {}, offers, test::world());
    REQUIRE(decision.ranked.size() == 2);
    CHECK(decision.chosen->offer.id == "y");
    for (const auto& ranked : decision.ranked) {
        UsdPerHour sum;
        for (const auto& line : ranked.lines) sum = sum + line.rate;
        CHECK(sum == ranked.all_in);
        REQUIRE(ranked.lines.size() == 2);
        CHECK(ranked.lines[0].name == "gpu");
        CHECK(ranked.lines[1].name == "disk");
    }
    CHECK(decision.ranked[0].lines[1].rate ==
          UsdPerHour{27'778});  // 200 GB at 0.10 a month of 720 h, rounded up
    CHECK(decision.ranked[1].lines[1].rate == UsdPerHour{166'667});
}

TEST_CASE("where it is known how long a job runs, the hour that is billed for ten minutes counts") {
    Offer by_hour = priced("vultr", "h", 300'000), by_second = priced("vastai", "s", 400'000);
    by_hour.billing_step = by_hour.billing_minimum = std::chrono::hours{1};
    const std::vector<Offer> offers{by_hour, by_second};
    JobSpec spec = test::job();
    const auto chosen = [&](TaskRecord task = {}) { return choose(spec, task, offers, test::world()).chosen->offer.id; };
    CHECK(chosen() == "h");  // nobody knows
    spec.limits.duration = std::chrono::minutes{10};
    CHECK(chosen() == "s");
    spec.limits.duration = std::chrono::minutes{50};
    CHECK(chosen() == "h");  // 0.30 for the hour, 0.333 by the second
    spec.limits.duration = std::chrono::minutes{61};
    CHECK(chosen() == "s");  // 0.60 for two hours
    spec.limits.duration = std::chrono::hours{24};
    CHECK(chosen() == "h");
    TaskRecord ran;
    ran.ran = std::chrono::minutes{24 * 60 - 10};
    CHECK(chosen(ran) == "s");  // ten minutes are left
    ran.ran = std::chrono::hours{24};
    CHECK(chosen(ran) == "h");
    // The price that is shown stays the price per hour, and what it was ranked at is said.
    spec.limits.duration = std::chrono::minutes{10};
    const auto decision = choose(spec, {}, offers, test::world());
    REQUIRE(decision.ranked.size() == 2);
    CHECK(decision.ranked[1].all_in == UsdPerHour{300'000});
    CHECK(decision.ranked[1].ranked_at == UsdPerHour{1'800'000});
    CHECK(decision.ranked[1].host_note.empty());
    CHECK(decision_json(decision).find("\"ranked_at\":\"1.80\"") != std::string::npos);
}

TEST_CASE("a job for an A100 of 80 GB judges each offer by its memory and name") {
    struct Row {
        const char* name;
        std::int64_t memory;
        bool fits;
    };
    const Row rows[] = {{"A100_PCIE", 40960, false},
                        {"A100-SXM4-80GB", 81920, true},
                        {"A100X", 81920, false},
                        {"A100 SXM4", 81920, true}};
    JobSpec spec = test::job();
    spec.resources.gpu = test::gpu_names().typed("A100").canonical;
    spec.resources.gpu_as_typed = {"A100"};
    spec.resources.vram = VramDemand{.class_gb = 80, .exact = {}};
    for (const auto& row : rows) {
        CAPTURE(std::string(row.name));
        Offer o = test::offer();
        o.gpu = {.canonical = test::gpu_names().canonical("vastai", row.name, mib(row.memory)).value_or(""),
                 .provider_name = row.name,
                 .memory = mib(row.memory)};
        const std::vector<Offer> offers{o};
        CHECK(choose(spec, {}, offers, test::world()).chosen.has_value() == row.fits);
    }
    spec.resources.gpu = test::gpu_names().typed("A100X").canonical;
    Offer o = test::offer();
    o.gpu = {.canonical = "A100X-80GB", .provider_name = "A100X", .memory = mib(81920)};
    const std::vector<Offer> offers{o};
    CHECK(choose(spec, {}, offers, test::world()).chosen.has_value());
}

TEST_CASE("reasons are counted by the first filter; near misses failed exactly one") {
    std::vector<Offer> offers;
    for (int i = 0; i < 30; ++i)
        offers.push_back(priced("vastai", "dear" + std::to_string(i), 500'000 + 1'000 * i));
    Offer two = priced("runpod", "two faults", 450'000);
    two.arch = "arm64";
    offers.push_back(two);
    JobSpec spec = test::job();
    spec.resources.max_price = UsdPerHour{400'000};
    const auto decision = choose(spec, {}, offers, test::world());
    CHECK(decision.considered == 31);
    CHECK(decision.refused == std::map<std::string, int>{{"max_price", 30}, {"no_agent_for_arm64", 1}});
    REQUIRE(decision.near_misses.size() == 20);
    CHECK(decision.near_misses.front().offer.id == "dear0");
    CHECK(decision.near_misses.front().reason == "max_price");
    CHECK(decision.near_misses.front().detail == "0.50 $/h is over max_price 0.40");
    CHECK(std::ranges::is_sorted(decision.near_misses, {}, &NearMiss::all_in));
    CHECK(decision.wait_reason == "max_price");
}

TEST_CASE("at most 20 are kept of what fits") {
    std::vector<Offer> offers;
    for (int i = 0; i < 50; ++i) offers.push_back(priced("vastai", std::to_string(i), 1'000'000 - i));
    const auto decision = choose(test::job(), {}, offers, test::world());
    CHECK(decision.ranked.size() == 20);
    CHECK(decision.chosen->offer.id == "49");
    CHECK(decision.refused.empty());
    CHECK(decision.wait_reason.empty());
}

TEST_CASE("a waiting job says in one word what it waits for") {
    const std::vector<Offer> offers{test::offer()};
    const auto waits = [&](auto change) {
        JobSpec spec = test::job();
        ChoiceWorld world = test::world();
        change(spec, world);
        return choose(spec, {}, offers, world).wait_reason;
    };
    CHECK(choose(test::job(), {}, {}, test::world()).wait_reason == "no_offers");
    CHECK(waits([](auto&, auto& w) { w.paused_providers["vastai"] = "auth"; }) == "no_provider");
    CHECK(waits([](auto&, auto& w) { w.reached_providers.clear(); }) == "no_provider");
    CHECK(waits([](auto&, auto& w) { w.machines = 50; }) == "quota");
    CHECK(waits([](auto&, auto& w) { w.balances["vastai"] = Usd{1}; }) == "balance");
    CHECK(waits([](auto&, auto& w) { w.cooled_offers["vastai/1"] = "no_capacity"; }) == "cooling_down");
    CHECK(waits([](auto& s, auto&) { s.resources.max_price = UsdPerHour{1'000}; }) == "max_price");
    CHECK(waits([](auto& s, auto&) { s.resources.gpus = 8; }) == "no_offer_fits");
    CHECK(waits([](auto& s, auto&) { s.resources.providers = {"runpod"}; }) == "no_offer_fits");
}

TEST_CASE("disk is asked for in whole GB, rounded up") {
    JobSpec spec = test::job();
    for (const auto& [bytes, gb] :
         {std::pair<std::int64_t, std::int64_t>{kGB, 1}, {kGB + 1, 2}, {20 * kGB, 20}, {kGiB, 2}}) {
        spec.resources.disk = Bytes{bytes};
        CHECK(disk_gb(spec) == gb);
    }
}
