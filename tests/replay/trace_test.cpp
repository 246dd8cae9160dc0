#include "replay/trace.hpp"

#include <doctest/doctest.h>

#include <string>

#include "replay/baselines.hpp"
#include "replay/grid.hpp"

using namespace gf;
using namespace gf::replay;

namespace {

TraceOptions options(std::vector<std::string> zones = {}) {
    return {.tick = std::chrono::minutes{10},
            .zones = std::move(zones),
            .spot = UsdPerHour{1'000'000},
            .on_demand = UsdPerHour{3'000'000}};
}

}  // namespace

TEST_CASE("a trace is read by its header, counts and chosen zones included") {
    const std::string csv = "tick,a,b\n5,0,3\n6,1,0\n7,16,2\n";
    const auto all = read_trace(csv, options());
    REQUIRE(all);
    CHECK(all->zones == std::vector<std::string>{"a", "b"});
    CHECK(all->first_label == 5);
    CHECK(all->up == std::vector<std::vector<std::uint8_t>>{{0, 1, 1}, {1, 0, 1}});
    CHECK(all->price(1, 2) == UsdPerHour{1'000'000});
    CHECK_FALSE(all->is_up(0, 3));
    auto counted = options({"b"});
    counted.at_least = 3;
    const auto one = read_trace(csv, counted);
    REQUIRE(one);
    CHECK(one->up == std::vector<std::vector<std::uint8_t>>{{1, 0, 0}});
}

TEST_CASE("what is no trace is refused with its line") {
    struct Row {
        const char* csv;
        ErrorKind kind;
        int line;
    };
    const Row rows[] = {
        {"tick,a\n", ErrorKind::invalid, 0},          {"tick\n1\n", ErrorKind::invalid, 0},
        {"tick,a\n1,yes\n", ErrorKind::malformed, 2}, {"tick,a\n1,1\n2,-1\n", ErrorKind::malformed, 3},
        {"tick,a\n1,1,1\n", ErrorKind::malformed, 2},
    };
    for (const auto& row : rows) {
        CAPTURE(row.csv);
        const auto read = read_trace(row.csv, options());
        REQUIRE_FALSE(read);
        CHECK(text(read.error().kind) == text(row.kind));
        CHECK(read.error().line == row.line);
    }
    CHECK_FALSE(read_trace("tick,a\n1,1\n", options({"b"})));
    CHECK_FALSE(read_trace("tick,a\n1,1\n", options({"tick"})));
    CHECK_FALSE(read_trace("tick,a\n1,1\n", TraceOptions{}));
}

TEST_CASE("prices come as changes or as constants") {
    auto trace = read_trace("tick,a,b\n3,1,1\n4,1,1\n5,1,1\n6,1,1\n", options());
    REQUIRE(trace);
    REQUIRE(read_prices(*trace, "zone,tick,spot_usd_per_h\na,0,0.5\na,5,0.75\nb,4,0.2\nother,1,9\n"));
    CHECK(trace->spot[0] == std::vector<UsdPerHour>{{500'000}, {500'000}, {750'000}, {750'000}});
    CHECK(trace->spot[1] == std::vector<UsdPerHour>(4, UsdPerHour{200'000}));
    CHECK(trace->on_demand[0] == UsdPerHour{3'000'000});
    REQUIRE(read_prices(*trace, "zone,spot_usd_per_h,ondemand_usd_per_h\na,0.1,0.9\nb,0.2,0.8\n"));
    CHECK(trace->price(0, 3) == UsdPerHour{100'000});
    CHECK(trace->on_demand[1] == UsdPerHour{800'000});
    CHECK_FALSE(read_prices(*trace, "zone,spot_usd_per_h,ondemand_usd_per_h\na,0.1,0.9\n"));  // nothing for b
    CHECK_FALSE(read_prices(*trace, "zone,tick,spot_usd_per_h\na,x,0.5\nb,1,1\n"));
    CHECK_FALSE(read_prices(*trace, "zone,price\na,0.5\n"));
}

TEST_CASE("a history of changes becomes ticks") {
    const auto trace = read_history(
        "time,key,usd_per_h,up\n"
        "2026-01-01T00:00:00Z,a,0.5,1\n"
        "2026-01-01T00:14:00Z,b,0.7,1\n"
        "2026-01-01T00:25:00Z,a,0.6,0\n"
        "2026-01-01T00:40:00Z,a,0.4,1\n",
        options());
    REQUIRE(trace);
    CHECK(trace->up == std::vector<std::vector<std::uint8_t>>{{1, 1, 1, 0, 1}, {0, 0, 1, 1, 1}});
    CHECK(trace->price(0, 2) == UsdPerHour{500'000});
    CHECK(trace->price(0, 3) == UsdPerHour{600'000});
    CHECK(trace->price(0, 4) == UsdPerHour{400'000});
    CHECK_FALSE(read_history("time,key,usd_per_h,up\n", options()));
    CHECK_FALSE(read_history("time,key,usd_per_h\nx,a,1\n", options()));
    CHECK_FALSE(read_history("time,key,usd_per_h,up\nyesterday,a,1,1\n", options()));
}

TEST_CASE("zones of one region share their traffic") {
    CHECK(region_of("us-west-2a") == "us-west-2");
    CHECK(region_of("europe-west3-c") == "europe-west3");
    CHECK(region_of("eu-ro-1") == "eu-ro-1");
    CHECK(region_of("a") == "a");
    const auto trace = read_trace("tick,us-west-2a,us-west-2b,us-east-1a\n0,1,1,1\n", options());
    REQUIRE(trace);
    const auto fees = egress_fees(*trace,
                                  {{.from = "us-east-1", .to = "*", .per_gb = UsdPerHour{10'000}},
                                   {.from = "*", .to = "*", .per_gb = UsdPerHour{20'000}}},
                                  50);
    CHECK(fees[0][1] == Usd{0});
    CHECK(fees[0][2] == Usd{1'000'000});
    CHECK(fees[2][0] == Usd{500'000});
    CHECK(egress_fees(*trace, {}, 50).empty());
}
