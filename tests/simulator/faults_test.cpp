#include "simulator/faults.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "simulator/fault_script.hpp"

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

TEST_CASE("every provider's list can be emptied and shortened, counts and page tokens included") {
    const auto bent = [](const json& body, json rule) {
        auto answer = json_response(200, body);
        distort(answer, rule_of(rule));
        return json::parse(answer.body);
    };
    const json empty{{"action", "empty_list"}};
    const json keep{{"action", "short_list"}, {"keep", 1}};
    const json lambda{{"data", {{{"id", "a"}}, {{"id", "b"}}}}};
    CHECK(bent(lambda, empty)["data"].empty());
    CHECK(bent(lambda, keep)["data"] == json::parse(R"([{"id":"a"}])"));
    CHECK(bent(lambda, {{"action", "short_list"}})["data"] == json::parse(R"([{"id":"b"}])"));
    const json types{{"data", {{"x", {{"instance_type", 1}}}, {"y", {{"instance_type", 2}}}}}};
    CHECK(bent(types, empty)["data"].empty());
    CHECK(bent(types, {{"action", "short_list"}, {"ids", {"x"}}})["data"].size() == 1);
    // One instance is no list.
    const json one{{"data", {{"id", "a"}, {"instance_type", {{"name", "x"}}}}}};
    CHECK(bent(one, empty) == one);
    const json vultr{{"instances", {{{"id", "a"}}, {{"id", "b"}}}},
                     {"meta", {{"total", 2}, {"links", {{"next", "abc"}, {"prev", ""}}}}}};
    CHECK(bent(vultr, empty)["meta"]["total"] == 0);
    CHECK(bent(vultr, empty)["meta"]["links"]["next"] == "");
    CHECK(bent(vultr, keep)["meta"]["total"] == 1);
    CHECK(bent(vultr, keep)["meta"]["links"]["next"] == "abc");
    const json stock{{"available_plans", {"p", "q"}}};
    CHECK(bent(stock, {{"action", "short_list"}, {"ids", {"p"}}})["available_plans"] == json::array({"q"}));
    const json pods{{"pods", {{{"id", "a"}}}}, {"pagination", {{"nextCursor", "p_1"}, {"hasNextPage", true}}}};
    CHECK(bent(pods, empty)["pagination"]["hasNextPage"] == false);
    const json graph{{"data", {{"gpuTypes", {{{"id", "a"}}, {{"id", "b"}}}}}}};
    CHECK(bent(graph, keep)["data"]["gpuTypes"].size() == 1);
}

TEST_CASE("units drift, fields go and change their type, at any depth or below a name") {
    const json body{{"meta", {{"total", 3}, {"links", {{"next", "abc"}, {"prev", ""}}}}},
                    {"price_cents_per_hour", 129},
                    {"plans", {{{"ram", 1024}, {"hourly_cost", 2.5}}, {{"ram", 2048}}}}};
    const auto bent = [&](const json& rule) {
        auto answer = json_response(200, body);
        distort(answer, rule_of(rule));
        return json::parse(answer.body);
    };
    const auto scaled = bent({{"action", "scale_field"}, {"field", "ram"}, {"by", 1000}});
    CHECK(scaled["plans"][0]["ram"] == 1'024'000);
    CHECK(scaled["plans"][1]["ram"] == 2'048'000);
    CHECK(scaled["plans"][0]["ram"].is_number_integer());
    CHECK(bent({{"action", "scale_field"}, {"field", "hourly_cost"}, {"by", 100}})["plans"][0]["hourly_cost"] == 250.0);
    CHECK(bent({{"action", "scale_field"}, {"field", "price_cents_per_hour"}, {"by", 0.01}})["price_cents_per_hour"] ==
          doctest::Approx(1.29));
    CHECK_FALSE(bent({{"action", "drop_field"}, {"field", "links.next"}})["meta"]["links"].contains("next"));
    CHECK(bent({{"action", "drop_field"}, {"field", "other.next"}})["meta"]["links"]["next"] == "abc");
    CHECK(bent({{"action", "set_field"}, {"field", "ram"}, {"value", "1024"}})["plans"][0]["ram"] == "1024");
    CHECK(bent({{"action", "set_field"}, {"field", "total"}, {"value", nullptr}})["meta"]["total"] == nullptr);
    Faults faults(1);
    for (const auto* bad : {R"({"action":"drop_field"})", R"({"action":"scale_field","field":"a"})",
                            R"({"action":"set_field","field":"a"})", R"({"action":"html","at_s":-1})"}) {
        CAPTURE(bad);
        CHECK_FALSE(faults.add(json::parse(bad)));
    }
}

TEST_CASE("a rule may hold for a time, and providers throttle and retire in their own words") {
    Faults faults(1);
    const auto start = gf::instant_of(1'000'000);
    REQUIRE(faults.add({{"action", "throttle"}, {"at_s", 10}, {"until_s", 20}}, start));
    const auto ask = [&](int seconds) {
        return faults.match("vultr", request("GET", "/v2/plans"), start + std::chrono::seconds(seconds));
    };
    CHECK_FALSE(ask(9));
    REQUIRE(ask(10));
    CHECK(ask(19));
    CHECK_FALSE(ask(20));
    const auto rule = *ask(15);
    CHECK(refusal(rule, "vultr").status == 429);
    CHECK(json::parse(refusal(rule, "vultr").body)["status"] == 429);
    CHECK(json::parse(refusal(rule, "lambda").body)["error"].contains("code"));
    CHECK(refusal(rule, "vastai").body == "API requests too frequent");
    CHECK(refusal(rule, "runpod").type == "application/problem+json");
    auto retired = rule;
    retired.action = FaultRule::Action::retired;
    for (const auto* provider : {"runpod", "vastai", "lambda", "vultr"})
        CHECK(refusal(retired, provider).status == 410);
    CHECK(json::parse(refusal(retired, "vastai").body)["error"] == "deprecated_endpoint");
}

TEST_CASE("scripted events come at their time, again if told, so often and by chance") {
    FaultScript script;
    const auto start = gf::instant_of(5'000'000);
    const auto at = [&](int seconds) { return start + std::chrono::seconds(seconds); };
    REQUIRE(script.add({{"do", "balance"}, {"with", {{"usd", 0}}}, {"at_s", 60}}, start));
    REQUIRE(script.add({{"do", "take_back"}, {"at_s", 30}, {"every_s", 30}, {"count", 2}}, start));
    REQUIRE(script.add({{"do", "stop"}, {"rate", 0.0}}, start));
    REQUIRE(script.add({{"do", "destroy"}, {"every_s", 10}, {"until_s", 5}}, start));
    CHECK(script.next() == at(0));
    CHECK(script.due(at(0)).size() == 1);  // the one without a time comes at once; chance forbids the other
    CHECK(script.due(at(29)).empty());
    CHECK(script.due(at(30)).front().what == "take_back");
    const auto both = script.due(at(60));
    REQUIRE(both.size() == 2);
    CHECK(both[0].what == "balance");
    CHECK(script.due(at(600)).empty());
    CHECK_FALSE(script.next());
    for (const auto* bad : {R"({"do":"time"})", R"({"do":"faults"})", R"({"do":"stop","every_s":0})",
                            R"({"do":"stop","when":1})", R"({"do":"stop","at_s":-1})"}) {
        CAPTURE(bad);
        CHECK_FALSE(script.add(json::parse(bad), start));
    }
}
