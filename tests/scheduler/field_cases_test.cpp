// Field cases of prices and offers (B), names and memory of GPUs (C) and spot (D), as far as choosing decides them: each over what
// ranks offers (the price per hour, the price of throughput, the money to finish), because none of them may be fooled.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "filter_case.hpp"
#include "finish_world.hpp"
#include "scheduler/choice.hpp"

using namespace gf;
using test::mib;
using std::chrono::hours;
using std::chrono::minutes;

namespace {

enum class Rank { hourly, throughput, money };
constexpr Rank kRanks[] = {Rank::hourly, Rank::throughput, Rank::money};

/// A world in which offers are ranked so.
ChoiceWorld ranking(Rank rank) {
    test::FinishWorld w;
    test::add_speed(*w.history, w.family, "RTX-4090", 1'000);
    if (rank != Rank::money) w.world.expect.work = {};
    if (rank == Rank::hourly) w.world.expect.speeds = nullptr;
    return w.world;
}

Decision decide(const JobSpec& spec, const std::vector<Offer>& offers, Rank rank, const TaskRecord& task = {}) {
    return choose(spec, task, offers, ranking(rank));
}

Offer named(const char* provider, const char* id, const char* name, std::optional<Bytes> memory) {
    Offer o = test::offer(provider, id);
    o.gpu = {.canonical = test::gpu_names().canonical(provider, name, memory).value_or(""), .provider_name = name, .memory = memory};
    return o;
}

}  // namespace

TEST_CASE("a price that is none is refused by name and never the cheapest (B01)") {
    struct Row {
        std::int64_t micros;
        const char* reason;
    };
    for (const Rank rank : kRanks)
        for (const Row& row : {Row{0, "price_zero"}, {-1, "price_negative"}, {-1'000'000, "price_negative"}, {INT64_MIN / 2, "price_negative"}}) {
            CAPTURE(row.micros);
            Offer odd = test::offer("vastai", "odd"), plain = test::offer("vastai", "plain");
            odd.gpu_rate = UsdPerHour{row.micros};
            plain.gpu_rate = UsdPerHour{410'000};
            const auto decision = decide(test::job(), {odd, plain}, rank);
            REQUIRE(decision.chosen.has_value());
            CHECK(decision.chosen->offer.id == "plain");
            CHECK(decision.refused == std::map<std::string, int>{{row.reason, 1}});
            CHECK(!decide(test::job(), {odd}, rank).chosen.has_value());
            // No change of the spec makes a price of it.
            CHECK(decision.relaxations.empty());
        }
}

TEST_CASE("the floor of bids is no price (B02)") {
    for (const Rank rank : kRanks) {
        Offer on_demand = test::offer("vastai", "1");
        on_demand.gpu_rate = UsdPerHour{620'000};
        on_demand.spot_floor = UsdPerHour{10'000};
        Offer other = test::offer("vastai", "2");
        other.gpu_rate = UsdPerHour{610'000};
        CHECK(decide(test::job(), {on_demand, other}, rank).chosen->offer.id == "2");
        CHECK(decide(test::job(), {on_demand}, rank).chosen->all_in == UsdPerHour{620'000});
    }
}

TEST_CASE("a price in cents and a memory in GiB meet a cap in dollars and a class in GB (B05)") {
    JobSpec spec = test::job();
    spec.resources.max_price = UsdPerHour{2'000'000};
    spec.resources.vram = test::gb_class(24);
    Offer o = named("lambda", "gpu_1x_a10", "A10", Bytes{24 * kGiB});
    o.gpu.canonical = "A10";
    o.gpu_rate = UsdPerHour{1'290'000};
    for (const Rank rank : kRanks) {
        const auto decision = decide(spec, {o}, rank);
        REQUIRE(decision.chosen.has_value());
        CHECK(decision.chosen->all_in == UsdPerHour{1'290'000});
    }
}

TEST_CASE("disk and traffic can make the cheap offer the dear one, and the lines say so (B06)") {
    Offer x = test::offer("vastai", "x"), y = test::offer("vastai", "y");
    x.gpu_rate = UsdPerHour{300'000};
    y.gpu_rate = UsdPerHour{380'000};
    JobSpec spec = test::job();
    spec.resources.disk = Bytes{200 * kGB};
    SUBCASE("disk") {
        x.disk_micros_per_gb_month = 600'000;
        y.disk_micros_per_gb_month = 100'000;
        for (const Rank rank : kRanks) {
            const auto decision = decide(spec, {x, y}, rank);
            CHECK(decision.chosen->offer.id == "y");
            for (const auto& ranked : decision.ranked) {
                REQUIRE(ranked.lines.size() == 2);
                CHECK(ranked.lines[0].rate + ranked.lines[1].rate == ranked.all_in);
            }
        }
        const auto decision = decide(spec, {x, y}, Rank::money);
        // Ten hours: 0.2777… and 1.6666… an hour, rounded up per hour and once more in the sum.
        CHECK(test::line(*decision.ranked[0].finish, "disk") == Usd{277'780});
        CHECK(test::line(*decision.ranked[1].finish, "disk") == Usd{1'666'670});
    }
    SUBCASE("traffic") {
        x.traffic_down_micros_per_gb = 20'000;
        auto world = ranking(Rank::money);
        world.expect.work.download = Bytes{100 * kGB};
        const auto decision = choose(spec, {}, std::vector<Offer>{x, y}, world);
        CHECK(decision.chosen->offer.id == "y");
        CHECK(test::line(*decision.ranked[1].finish, "traffic_down") >= Usd{2'000'000});
        CHECK(test::line(*decision.ranked[0].finish, "traffic_down") == Usd{0});
    }
}

TEST_CASE("a lease that ends before the job is refused by name, however cheap (B08)") {
    Offer a = test::offer("vastai", "a"), b = test::offer("vastai", "b");
    a.gpu_rate = UsdPerHour{200'000};
    a.lease_end = test::kNow + hours{2};
    b.gpu_rate = UsdPerHour{290'000};
    b.lease_end = test::kNow + hours{24 * 30};
    JobSpec spec = test::job();
    spec.limits.duration = hours{10};
    for (const Rank rank : kRanks) {
        const auto decision = decide(spec, {a, b}, rank);
        CHECK(decision.chosen->offer.id == "b");
        CHECK(decision.refused == std::map<std::string, int>{{"lease_ends_too_soon", 1}});
        REQUIRE(decision.relaxations.size() == 1);
        CHECK(decision.relaxations[0].set == "1h45m");
    }
}

TEST_CASE("a country or a CPU count that is not told is not 0, and matters only to those who ask (B09)") {
    Offer o = test::offer();
    o.country.clear();
    o.cpus.reset();
    o.memory.reset();
    for (const Rank rank : kRanks) {
        CHECK(decide(test::job(), {o}, rank).chosen.has_value());
        JobSpec spec = test::job();
        spec.resources.regions = {"EU"};
        CHECK(decide(spec, {o}, rank).refused == std::map<std::string, int>{{"region_unknown", 1}});
        spec = test::job();
        spec.resources.cpus = 1;
        const auto decision = decide(spec, {o}, rank);
        CHECK(decision.refused == std::map<std::string, int>{{"cpus_unknown", 1}});
        CHECK(decision.near_misses[0].detail == "cpus is not told, 1 needed");
    }
}

TEST_CASE("one card under many names, and its relatives under none of them (C01)") {
    JobSpec spec = test::job();
    spec.resources.gpu = test::gpu_names().typed("RTX 4090").canonical;
    spec.resources.gpu_as_typed = {"RTX 4090"};
    struct Row {
        const char* name;
        std::int64_t memory;
        bool fits;
    };
    const Row table[] = {{"NVIDIA GeForce RTX 4090", 24564, true}, {"RTX_4090", 24564, true},        {"RTX 4090", 24564, true},
                         {"rtx4090", 24564, true},                 {"RTX 4090 D", 24564, false},     {"RTX 4090 Laptop", 16376, false},
                         {"RTX 4090 Ti", 24564, false},            {"GeForce RTX 409", 24564, false}};
    for (const Rank rank : kRanks)
        for (const auto& row : table) {
            CAPTURE(std::string(row.name));
            CHECK(decide(spec, {named("vastai", "1", row.name, mib(row.memory))}, rank).chosen.has_value() == row.fits);
        }
}

TEST_CASE("one name and two memories: the memory decides what the card is (C03)") {
    JobSpec spec = test::job();
    spec.resources.gpu = test::gpu_names().typed("A100").canonical;
    spec.resources.gpu_as_typed = {"A100"};
    spec.resources.vram = test::gb_class(80);
    for (const Rank rank : kRanks) {
        const auto decision =
            decide(spec, {named("vastai", "40", "A100_PCIE", mib(40960)), named("vastai", "80", "A100-SXM4-80GB", mib(81920))}, rank);
        CHECK(decision.chosen->offer.id == "80");
        CHECK(decision.chosen->offer.gpu.canonical == "A100-SXM-80GB");
        CHECK(decision.refused == std::map<std::string, int>{{"vram", 1}});
    }
}

TEST_CASE("a card that reports less than it is sold as is of its class, and is held to exact bytes (C05)") {
    JobSpec spec = test::job();
    spec.resources.gpu = {"L4"};
    spec.resources.gpu_as_typed = {"L4"};
    spec.resources.vram = test::gb_class(24);
    const Offer l4 = named("vastai", "1", "L4", mib(23034));
    for (const Rank rank : kRanks) {
        CHECK(decide(spec, {l4}, rank).chosen.has_value());
        JobSpec exact = spec;
        exact.resources.vram = test::exactly(24 * kGB);
        const auto decision = decide(exact, {l4}, rank);
        CHECK(decision.refused == std::map<std::string, int>{{"vram", 1}});
        // What would do is told, in bytes that it does have.
        REQUIRE(decision.relaxations.size() == 1);
        exact.resources.vram = parse_vram(decision.relaxations[0].set);
        REQUIRE(exact.resources.vram->exact.has_value());
        CHECK(decide(exact, {l4}, rank).chosen.has_value());
    }
}

TEST_CASE("a card of no name and no memory meets no demand by either, and divides nothing by 0 (C06)") {
    const Offer odd = named("vastai", "odd", "NVIDIA", Bytes{0});
    CHECK(odd.gpu.canonical.empty());
    for (const Rank rank : kRanks) {
        JobSpec by_name = test::job();
        by_name.resources.gpu = {"RTX-4090"};
        by_name.resources.gpu_as_typed = {"RTX 4090"};
        CHECK(decide(by_name, {odd}, rank).refused == std::map<std::string, int>{{"gpu_unknown", 1}});
        JobSpec by_memory = test::job();
        by_memory.resources.vram = test::gb_class(1);
        CHECK(decide(by_memory, {odd}, rank).refused == std::map<std::string, int>{{"gpu_unknown", 1}});
        // Who asks for nothing may have it, and it is not taken for a fast one.
        Offer plain = test::offer("vastai", "plain");
        plain.gpu_rate = UsdPerHour{odd.gpu_rate.micros - 1};
        CHECK(decide(test::job(), {odd, plain}, rank).chosen->offer.id == "plain");
        CHECK(decide(test::job(), {odd}, rank).chosen.has_value());
    }
}

TEST_CASE("a mistyped card is no card, and what is near is only said (C10)") {
    for (const char* typed : {"A100-8", "H1000", "4090", "RTX409", "RTX-4090-TI-SUPER"}) {
        CAPTURE(std::string(typed));
        CHECK(test::gpu_names().typed(typed).canonical.empty());
        CHECK(!test::gpu_names().typed(typed).suggestions.empty());
    }
    CHECK(test::gpu_names().typed("4090").suggestions.front() == "RTX-4090");  // near, and no alias all the same
    // Of the proposals for a card that nobody offers each is another card by its full name, and a user's to take.
    JobSpec spec = test::job();
    spec.resources.gpu = {"H100-SXM-80GB"};
    spec.resources.gpu_as_typed = {"H100 SXM"};
    const auto decision = decide(spec, {named("vastai", "1", "RTX 4090", mib(24564))}, Rank::money);
    CHECK(!decision.chosen.has_value());
    REQUIRE(decision.relaxations.size() == 1);
    CHECK(decision.relaxations[0].text == "add RTX-4090 to resources.gpu and 1 offer fits");
}

TEST_CASE("after a GPU ran out of memory nothing of its class is tried again, however fast or cheap (D08)") {
    JobSpec spec = test::job();
    TaskRecord task;
    task.vram_above = mib(24564);
    Offer same = test::offer("vastai", "same"), less = named("vastai", "less", "RTX 4080", mib(16376)),
          more = named("vastai", "more", "RTX A6000", mib(49140)), most = named("vastai", "most", "A100 SXM4", mib(81920));
    more.gpu_rate = UsdPerHour{500'000};
    most.gpu_rate = UsdPerHour{1'500'000};
    for (const Rank rank : kRanks) {
        const auto decision = decide(spec, {same, less, most, more}, rank, task);
        CHECK(decision.chosen->offer.id == "more");
        CHECK(decision.refused == std::map<std::string, int>{{"vram_above", 2}});
        CHECK(!decide(spec, {same, less}, rank, task).chosen.has_value());
    }
}

TEST_CASE("a market that takes machines back within minutes drives a job to on-demand (D11)") {
    test::FinishWorld w;
    test::add_speed(*w.history, w.family, "RTX-4090", 1'000);
    JobSpec spec = test::job();
    spec.checkpoint.declared = true;
    spec.checkpoint.every = minutes{10};
    Offer spot = test::offer("vastai", "spot"), on_demand = test::offer("vastai", "on_demand");
    spot.spot = true;
    spot.gpu_rate = UsdPerHour{180'000};
    const std::vector<Offer> offers{spot, on_demand};
    int losses = 0;
    while (losses < 20 && choose(spec, {}, offers, w.world).chosen->offer.id == "spot") {
        auto& market = w.history->losses[loss_market_key(spot)];
        market = observed(std::move(market), true, Millis{0}, minutes{2}, true, test::kNow);
        ++losses;
    }
    CHECK(losses >= 2);
    CHECK(losses < 20);
    // And days later it gets another chance.
    w.world.now = test::kNow + 6 * kLossHalfLife;
    test::FinishWorld later;
    later.history->losses = w.history->losses;
    test::add_speed(*later.history, later.family, "RTX-4090", 1'000);
    later.world.now = w.world.now;
    for (auto& record : later.history->speeds[{later.family, WorkUnit::step}]) record.at = later.world.now;
    CHECK(choose(spec, {}, offers, later.world).chosen->offer.id == "spot");
}
