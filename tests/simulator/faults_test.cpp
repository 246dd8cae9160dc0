#include "simulator/faults.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using namespace gf::sim;
using nlohmann::json;

namespace {

HttpRequest request(const std::string& method, const std::string& target) {
    HttpRequest r;
    r.method = method;
    r.target = target;
    parse_target(r);
    return r;
}

FaultRule rule_of(const json& given) {
    Faults faults(1);
    REQUIRE(faults.add(given));
    auto rule = faults.match("vastai", request("GET", "/x"));
    REQUIRE(rule);
    return *rule;
}

}  // namespace

TEST_CASE("a rule fires for its face, method and path, after so many calls and so often") {
    Faults faults(1);
    REQUIRE(faults.add({{"provider", "runpod"},
                        {"match", {{"method", "POST"}, {"path", "^/v2/pods$"}}},
                        {"action", "status"},
                        {"status", 503},
                        {"after", 1},
                        {"count", 2}}));
    const auto post = request("POST", "/v2/pods");
    CHECK_FALSE(faults.match("vastai", post));
    CHECK_FALSE(faults.match("runpod", request("GET", "/v2/pods")));
    CHECK_FALSE(faults.match("runpod", request("POST", "/v2/pods/x")));
    CHECK_FALSE(faults.match("runpod", post));  // lets one pass first
    CHECK(faults.match("runpod", post)->status == 503);
    CHECK(faults.match("runpod", post));
    CHECK_FALSE(faults.match("runpod", post));  // spent
}

TEST_CASE("a rate is random but comes from the seed") {
    const auto run = [](std::uint64_t seed) {
        Faults faults(seed);
        REQUIRE(faults.add({{"action", "cut_before"}, {"rate", 0.3}}));
        std::string pattern;
        for (int i = 0; i < 400; ++i)
            pattern += faults.match("runpod", request("GET", "/v2/pods")) ? '1' : '0';
        return pattern;
    };
    CHECK(run(7) == run(7));
    CHECK(run(7) != run(8));
    const auto hits = std::ranges::count(run(7), '1');
    CHECK(hits > 60);
    CHECK(hits < 180);
}

TEST_CASE("rules that make no sense are refused") {
    Faults faults(1);
    for (const auto* bad : {R"({})", R"({"action":"explode"})", R"({"action":"status","status":99})",
                            R"({"action":"hang","match":{"path":"("}})", R"({"action":"hang","colour":1})",
                            R"({"action":"hang","match":{"verb":"GET"}})"}) {
        CAPTURE(bad);
        CHECK_FALSE(faults.add(json::parse(bad)));
    }
}

TEST_CASE("listings can be emptied, shortened, nulled and torn") {
    const auto list = json_response(200, {{"success", true},
                                          {"instances_found", 2},
                                          {"next_token", "t"},
                                          {"instances", {{{"id", 1}}, {{"id", 2}}}}});
    auto empty = list;
    distort(empty, rule_of({{"action", "empty_list"}}));
    CHECK(json::parse(empty.body)["instances"].empty());
    CHECK(json::parse(empty.body)["instances_found"] == 0);
    CHECK(json::parse(empty.body)["next_token"] == nullptr);

    auto shorter = list;
    distort(shorter, rule_of({{"action", "short_list"}, {"ids", {"2"}}}));
    CHECK(json::parse(shorter.body)["instances"] == json::parse(R"([{"id":1}])"));

    auto nothing = list;
    distort(nothing, rule_of({{"action", "null_instances"}}));
    CHECK(json::parse(nothing.body) == json::parse(R"({"instances":null})"));

    auto torn = list;
    distort(torn, rule_of({{"action", "truncate_json"}}));
    CHECK(json::parse(torn.body, nullptr, false).is_discarded());

    auto merged = list;
    distort(merged, rule_of({{"action", "merge_json"}, {"body", {{"success", false}}}}));
    CHECK(json::parse(merged.body)["success"] == false);
}
