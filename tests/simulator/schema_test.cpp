#include "simulator/runpod_schema.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using namespace gf::sim;
using nlohmann::json;

TEST_CASE("a create body is judged field by field, in the validator's words") {
    struct Row {
        const char* body;
        const char* complaint;  // empty = none
    };
    const Row rows[] = {
        {R"({"name":"a","image":"i","gpu":{"id":"g"},"disk":10})", ""},
        {R"({"image":"i"})", "$: missing property 'name'"},
        {R"({"name":"a","bogus":1})", "$: additional properties 'bogus' not allowed"},
        {R"({"name":"a","interruptible":true,"gpuTypeIds":[]})",
         "$: additional properties 'gpuTypeIds', 'interruptible' not allowed"},
        {R"({"name":""})", "$.name: minLength: got 0, want 1"},
        {R"({"name":"a","disk":"60"})", "$.disk: got string, want integer"},
        {R"({"name":"a","disk":0})", "$.disk: minimum: got 0, want 1"},
        {R"({"name":"a","cloud":"ALL"})", "$.cloud: value must be one of 'SECURE', 'COMMUNITY'"},
        {R"({"name":"a","ports":["53/udp"]})",
         "$.ports[0]: '53/udp' does not match pattern '^\\d+/(tcp|http)$'"},
        {R"({"name":"a","env":{"A":1}})", "$.env.A: got integer, want string"},
        {R"({"name":"a","gpu":{"id":"g","minRamPerGpu":8}})",
         "$.gpu: additional properties 'minRamPerGpu' not allowed"},
        {R"({"name":"a","mounts":{"persistent":{"size":5,"path":"/w"}}})",
         "$.mounts.persistent.size: minimum: got 5, want 10"},
        {R"({"name":"a","registry":null})", ""},
        {R"([])", "$: got array, want object"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.body);
        const auto errors = schema_errors(pod_create_schema(), json::parse(row.body));
        if (*row.complaint == 0) {
            CHECK(errors.empty());
        } else {
            REQUIRE_FALSE(errors.empty());
            CHECK(errors[0] == row.complaint);
        }
    }
    CHECK(schema_errors(pod_action_schema(), json{{"action", "reset"}})[0] ==
          "$.action: value must be one of 'start', 'stop', 'restart', 'terminate'");
}

TEST_CASE("at most fifty variables") {
    json body{{"name", "a"}, {"env", json::object()}};
    for (int i = 0; i < 51; ++i) body["env"]["V" + std::to_string(i)] = "x";
    CHECK(schema_errors(pod_create_schema(), body).size() == 1);
}
