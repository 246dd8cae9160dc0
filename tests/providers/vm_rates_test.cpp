// The rates of whole machines in another unit than before, at the providers that rent such.
#include <doctest/doctest.h>

#include <string>

#include "cloud_bench.hpp"

using namespace gf;
using gf::test::LambdaBench;
using gf::test::Received;
using gf::test::VultrBench;
using nlohmann::json;

namespace {

void all_times(json& value, const std::string& field, double factor) {
    if (value.is_object() && value.contains(field)) value[field] = value[field].get<double>() * factor;
    if (value.is_structured())
        for (auto& item : value) all_times(item, field, factor);
}

/// The world's answers with one money field in another unit.
template <class Bench>
void in_unit(Bench& b, const std::string& field, double factor) {
    b.script([&b, field, factor](const Received& r) {
        auto answer = b.world.answer(r);
        auto body = json::parse(answer.body);
        all_times(body, field, factor);
        answer.body = body.dump();
        return answer;
    });
}

template <class Bench>
void check_off(Bench& b, const char* says) {
    const auto off = b.provider().list();
    REQUIRE(off);
    REQUIRE(off->machines.size() == 2);
    REQUIRE(off->drift.size() == 1);
    CHECK(off->drift[0].what == "price_unit");
    CHECK(off->drift[0].detail.find(says) != std::string::npos);
    b.pass(Seconds{60});
    const auto one = b.provider().read(off->machines.front().id);
    REQUIRE(one);
    CHECK(one->presence == off->machines.front().presence);  // what is no money is as it was told
    CHECK(!one->gpu_rate);
    CHECK(!one->disk_rate);
}

template <class Bench>
void check_whole(Bench& b, std::int64_t micros) {
    const auto whole = b.provider().list();
    REQUIRE(whole);
    REQUIRE(whole->machines.size() == 2);
    CHECK(whole->drift.empty());
    for (const auto& m : whole->machines) CHECK(m.gpu_rate == UsdPerHour{micros});
    b.pass(Seconds{60});
    CHECK(b.provider().read(whole->machines.front().id)->gpu_rate == UsdPerHour{micros});
}

}  // namespace

TEST_CASE("Lambda: rates in another unit are drift of the listing, and unknown where an instance is read by itself") {
    LambdaBench b;
    for (int i = 0; i < 2; ++i) b.world.add("gf-" + std::to_string(i), nullptr);
    b.pass(std::chrono::minutes{10});
    SUBCASE("of what they were") { check_whole(b, 1'290'000); }
    SUBCASE("of what the types are offered for") { REQUIRE(b.provider().offers({.gpu_counts = {1}})); }
    b.pass(Seconds{60});
    in_unit(b, "price_cents_per_hour", 100);
    check_off(b, "50 times");
    b.pass(Seconds{60});
    in_unit(b, "price_cents_per_hour", 1);
    check_whole(b, 1'290'000);
    b.pass(Seconds{60});
    // The other way: a hundredth of 129 cents is no whole number of cents, so that is told already; of 12,900 it is one.
    in_unit(b, "price_cents_per_hour", 1.0 / 129);
    check_off(b, "1/50");
}

TEST_CASE("Vultr: plans in another unit are drift of the listing, and unknown where an instance is read by itself") {
    VultrBench b;
    for (int i = 0; i < 2; ++i) b.world.add("gf-" + std::to_string(i), nullptr);
    SUBCASE("of what they were") { check_whole(b, 2'397'000); }
    SUBCASE("of what the plans are offered for") { REQUIRE(b.provider().offers({.gpu_counts = {1}})); }
    // An instance tells no price: the plans are read again after an hour.
    for (const double factor : {100.0, 0.01}) {
        CAPTURE(factor);
        b.pass(std::chrono::hours{1});
        in_unit(b, "hourly_cost", factor);
        check_off(b, factor > 1 ? "50 times" : "1/50");
        b.pass(std::chrono::hours{1});
        in_unit(b, "hourly_cost", 1);
        check_whole(b, 2'397'000);
    }
}
