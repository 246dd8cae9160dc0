#include "providers/decimal.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "model/offer.hpp"
#include "providers/json_reading.hpp"

using namespace gf;

TEST_CASE("B01: a price is read exactly or refused with a named reason") {
    const struct {
        std::string json;
        std::int64_t micros;
        std::string reason;
    } rows[] = {
        {"0.69", 690'000, ""},
        {"\"0.39\"", 390'000, ""},
        {"\" 0.41 \"", 410'000, ""},
        {"1", 1'000'000, ""},
        {"2.79", 2'790'000, ""},
        {"1e-3", 1'000, ""},
        {"0.1234567", 123'457, ""},
        {"null", 0, "price_missing"},
        {"0", 0, "price_zero"},
        {"0.0", 0, "price_zero"},
        {"-0.0", 0, "price_zero"},
        {"\"-0\"", 0, "price_zero"},
        {"\"-0e5\"", 0, "price_zero"},
        {"-0.00000049", 0, "price_negative"},
        {"1e-9", 0, "price_zero"},
        {"\"0.39\\n\"", 390'000, ""},
        {"\"+0.39\"", 390'000, ""},
        {"\".5\"", 500'000, ""},
        {"\"5.\"", 5'000'000, ""},
        {"\"1e\"", 0, "price_not_a_number"},
        {"\"0.39.1\"", 0, "price_not_a_number"},
        {"\"0-39\"", 0, "price_not_a_number"},
        {"\"--1\"", 0, "price_not_a_number"},
        {"\"-\"", 0, "price_not_a_number"},
        {"\".\"", 0, "price_not_a_number"},
        {"\"0.39 USD\"", 0, "price_not_a_number"},
        {"\"$0.39\"", 0, "price_not_a_number"},
        {"\"1,000.00\"", 0, "price_not_a_number"},
        {"\"0 39\"", 0, "price_not_a_number"},
        {"\"null\"", 0, "price_not_a_number"},
        {"\"  \"", 0, "price_empty"},
        {"true", 0, "price_missing"},
        {"[0.39]", 0, "price_missing"},
        {"{}", 0, "price_missing"},
        {"\"\"", 0, "price_empty"},
        {"-1", 0, "price_negative"},
        {"\"NaN\"", 0, "price_not_finite"},
        {"\"inf\"", 0, "price_not_finite"},
        {"\"-Infinity\"", 0, "price_not_finite"},
        {"1e309", 0, "price_too_large"},
        {"1e99999999999", 0, "price_too_large"},
        {"\"0x1p3\"", 0, "price_not_a_number"},
        {"\"0,39\"", 0, "price_not_a_number"},
        {"\"free\"", 0, "price_not_a_number"},
        {"1e12", 0, "price_too_large"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.json);
        const auto document = parse_json("{\"price\":" + row.json + ",\"other\":\"1e309 \\\" 5\"}");
        REQUIRE(document);
        FieldReader reader(*document, "offer");
        const auto price = read_price(reader.number("price"));
        CHECK(price.reason == row.reason);
        CHECK(price.micros == row.micros);
        CHECK(reader.text("other") == "1e309 \" 5");
    }
}

TEST_CASE("B01: where nothing is a price of its own, a zero of either sign is one") {
    for (const auto* zero : {"0", "0.0", "-0.0", "-0", "0e9", "-0.000e-3"}) {
        CAPTURE(zero);
        CHECK(read_price_or_zero(zero, "traffic_price").ok());
        CHECK(read_price_or_zero(zero, "traffic_price").micros == 0);
    }
    CHECK(read_price_or_zero("-0.01", "disk_price").reason == "disk_price_negative");
    CHECK(read_price_or_zero("0,01", "disk_price").reason == "disk_price_not_a_number");
}

TEST_CASE("one number beyond a double does not cost the whole document") {
    const auto document =
        parse_json(R"({"a":[1e309,2,-1e400],"b":)" + std::string(400, '9') + R"(,"c":0.5})");
    REQUIRE(document);
    CHECK((*document)["a"][0] == "1e309");
    CHECK((*document)["a"][1] == 2);
    CHECK((*document)["a"][2] == "-1e400");
    CHECK((*document)["c"] == 0.5);
}

TEST_CASE("what is no JSON says what it looks like") {
    const struct {
        std::string body;
        std::string says;
    } rows[] = {{"<html>", "HTML"}, {"", "empty"}, {"{\"a\":", "truncated"}, {"API requests", "plain text"}};
    for (const auto& row : rows) {
        const auto r = parse_json(row.body);
        REQUIRE(!r);
        CHECK(r.error().kind == ErrorKind::malformed);
        CHECK(r.error().message.find(row.says) != std::string::npos);
    }
}

TEST_CASE("a balance may be below zero") {
    CHECK(read_amount("41.87") == 41'870'000);
    CHECK(read_amount("-0.52") == -520'000);
    CHECK(read_amount("0") == 0);
    CHECK(read_amount(std::nullopt) == std::nullopt);
    CHECK(read_amount("NaN") == std::nullopt);
    CHECK(read_amount("-+1") == std::nullopt);
}

TEST_CASE("fields of a wrong type are named, missing ones are unknown") {
    const auto d = *parse_json(R"({"n":3,"f":3.5,"t":"x","b":true,"z":null,"o":{}})");
    FieldReader r(d, "gpus[3]");
    CHECK(r.whole("n") == 3);
    CHECK(r.text("z") == std::nullopt);
    CHECK(r.number("absent") == std::nullopt);
    CHECK(!r.problem());
    CHECK(r.whole("f") == std::nullopt);
    CHECK(r.problem() == "gpus[3].f: expected a whole number, found number");
    FieldReader q(d, "x");
    CHECK(q.number("o") == std::nullopt);
    CHECK(q.problem() == "x.o: expected a number, found object");
}

TEST_CASE("a disk's price saturates instead of turning negative") {
    static_assert(disk_rate(150'000, 60, 720).micros == 12'500);
    CHECK(disk_rate(999'999'999'000'000, 10'000, 720).micros == 13'888'888'875'000'000);
    CHECK(disk_rate(INT64_MAX, INT64_MAX, 1).micros == INT64_MAX / 4);
    CHECK(disk_rate(-5, 100, 720).micros == 0);
    CHECK(disk_rate(5, -100, 720).micros == 0);
    CHECK(disk_rate(5, 100, 0).micros == 0);
    Offer o;
    o.disk_micros_per_gb_month = INT64_MAX;
    CHECK(disk_rate(o, 10'000).micros > 0);
    CHECK((o.gpu_rate + disk_rate(o, 10'000)).micros > 0);
}

TEST_CASE("NaN and infinities spoil their own field only, and depth is bounded") {
    const auto list = parse_json(R"({"a":NaN,"b":[-Infinity,Infinity , -NaN],"c":"NaN, \" Infinity","d":0.5})");
    REQUIRE(list);
    CHECK((*list)["a"] == "NaN");
    CHECK((*list)["b"] == nlohmann::json{"-Infinity", "Infinity", "-NaN"});
    CHECK((*list)["c"] == "NaN, \" Infinity");
    CHECK((*list)["d"] == 0.5);
    CHECK(read_price(number_text((*list)["a"])).reason == "price_not_finite");
    CHECK(!parse_json("{\"a\":NaNa}"));
    CHECK(!parse_json("Nan"));
    const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
    CHECK(parse_json(nested(64)));
    CHECK(!parse_json(nested(65)));
    CHECK(!parse_json(nested(1'000'000)));
    CHECK(parse_json("\"" + std::string(100, '[') + "\""));
}
