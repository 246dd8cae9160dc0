#include "simulator/graphql.hpp"

#include <doctest/doctest.h>

using namespace gf::sim;
using nlohmann::json;

TEST_CASE("operations, arguments, variables and aliases are read") {
    const json variables{{"c", 2}, {"s", true}};
    const auto document = parse_graphql(
        "query Prices($c: Int!, $s: Boolean!, $v: String = \"12.8\") { # comment\n"
        " types: gpuTypes { id lowestPrice(input:{gpuCount:$c, secureCloud:$s, minCudaVersion:$v}) { "
        "stockStatus } } }",
        variables);
    REQUIRE(document);
    CHECK_FALSE(document->mutation);
    REQUIRE(document->fields.size() == 1);
    CHECK(document->fields[0].alias == "types");
    CHECK(document->fields[0].name == "gpuTypes");
    CHECK(document->fields[0].fields[1].arguments["input"] ==
          json::parse(R"({"gpuCount":2,"secureCloud":true,"minCudaVersion":"12.8"})"));
}

TEST_CASE("mutations carry enums, lists and strings with escapes") {
    const auto document = parse_graphql(
        R"(mutation { podFindAndDeployOnDemand(input: { cloudType: ALL, name: "a\"b", ports: null, gpuCount: 1, bid: 0.25,
        env: [{ key: "A", value: "1" }] }) { id } })",
        json::object());
    REQUIRE(document);
    CHECK(document->mutation);
    CHECK(
        document->fields[0].arguments["input"] ==
        json::parse(
            R"({"cloudType":"ALL","name":"a\"b","ports":null,"gpuCount":1,"bid":0.25,"env":[{"key":"A","value":"1"}]})"));
}

TEST_CASE("what is not an operation is a syntax error") {
    for (const auto* bad : {"", "{", "query {", "query { a(b: ) }", "subscription { a }", "{ a } trailing",
                            "{ ...F }", "{ a(x: \"open) }"}) {
        CAPTURE(bad);
        CHECK_FALSE(parse_graphql(bad, json::object()));
    }
    CHECK_FALSE(parse_graphql(std::string(100, '{') + std::string(100, '}'), json::object()));
}

TEST_CASE("an answer holds what was selected and nothing else") {
    const auto document = parse_graphql("{ a { x y: z missing } }", json::object());
    REQUIRE(document);
    const auto cut = selected(json::parse(R"([{"x":1,"z":2,"secret":3}])"), document->fields[0].fields);
    CHECK(cut == json::parse(R"([{"x":1,"y":2,"missing":null}])"));
}
