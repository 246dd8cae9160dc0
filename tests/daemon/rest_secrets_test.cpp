// /v1/secrets: values go in and never come out, whatever is asked and however it is refused.
#include <doctest/doctest.h>

#include <filesystem>

#include "daemon/log.hpp"
#include "model/secret_name.hpp"
#include "tests/daemon/support/rest_bench.hpp"

namespace gf::test {
namespace {

const std::string kJson = "Content-Type: application/json";
const std::string kYaml = "Content-Type: application/yaml";
const std::string kValue = "hf_EXAMPLE0000";

std::string body_of(const std::string& value) { return nlohmann::json{{"value", value}}.dump(); }

/// Every byte that the server has left in its folder.
std::string all_files(const RestBench& b) {
    std::string all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(b.folder.path()))
        if (entry.is_regular_file()) all += read_file(entry.path());
    return all;
}

TEST_CASE("a secret is put, listed, replaced and removed, and its value is nowhere to be read (I01)") {
    RestBench b;
    const auto made = b.call("PUT", "/v1/secrets/HF_TOKEN", body_of(kValue), {kJson});
    CHECK(made.status == 201);
    CHECK(b.call("PUT", "/v1/secrets/OTHER", body_of("another_EXAMPLE"), {kJson}).status == 201);
    b.core->set_now(b.core->now() + Seconds{60});
    CHECK(b.call("PUT", "/v1/secrets/HF_TOKEN", body_of(kValue), {kJson}).status == 200);

    const auto list = b.get("/v1/secrets");
    REQUIRE(list.status == 200);
    const auto items = parsed(list).at("items");
    REQUIRE(items.size() == 2);
    CHECK(items[0].at("name") == "HF_TOKEN");
    CHECK(items[0].at("set_by") == "socket");
    CHECK(items[0].at("created_at") != items[0].at("updated_at"));
    CHECK(items[1].at("name") == "OTHER");
    const auto page = parsed(b.get("/v1/secrets?limit=1"));
    CHECK(page.at("items").size() == 1);
    CHECK(parsed(b.get("/v1/secrets?limit=1&cursor=" + page.at("next_cursor").get<std::string>())).at("items").at(0).at("name") == "OTHER");
    const auto one = b.get("/v1/secrets/HF_TOKEN");
    CHECK(one.status == 200);
    CHECK(parsed(one) == items[0]);

    const auto stored = b.store->reader().secret("HF_TOKEN").value().value();
    CHECK(b.seal.open("HF_TOKEN", stored.sealed).value().reveal() == kValue);
    for (const auto& got : {made, list, one}) CHECK(got.body.find("EXAMPLE") == std::string::npos);
    CHECK(all_files(b).find("EXAMPLE") == std::string::npos);
    CHECK(all_files(b).find(stored.sealed) != std::string::npos);  // the search does see what is stored

    const auto gone = b.call("DELETE", "/v1/secrets/HF_TOKEN");
    CHECK(gone.status == 204);
    CHECK(gone.body.empty());
    CHECK(b.get("/v1/secrets/HF_TOKEN").status == 404);
    CHECK(b.call("DELETE", "/v1/secrets/HF_TOKEN").status == 404);
}

TEST_CASE("no refusal repeats what was sent") {
    RestBench b;
    struct Row {
        std::string path, body;
        int status;
    };
    const std::string set = "/v1/secrets/HF_TOKEN";
    for (const auto& row : {Row{set, "hf_EXAMPLE0000", 400}, Row{set, "{\"value\":\"hf_EXAMPLE0000", 400}, Row{set, "{\"value\":hf_EXAMPLE0000}", 400},
                            Row{set, "", 400}, Row{set, "\"hf_EXAMPLE0000\"", 400}, Row{set, "[\"hf_EXAMPLE0000\"]", 400},
                            Row{set, "{\"value\":\"\xFF hf_EXAMPLE0000\"}", 400}, Row{set, "{\"value\":\"\\ud800 hf_EXAMPLE0000\"}", 400},
                            Row{set, "{\"hf_EXAMPLE0000\":\"value\"}", 422}, Row{set, "{\"value\":\"x\",\"hf_EXAMPLE0000\":1}", 422}, Row{set, "{}", 422},
                            Row{set, "{\"value\":{\"x\":\"hf_EXAMPLE0000\"}}", 422}, Row{set, "{\"value\":7}", 422}, Row{set, "{\"value\":\"\"}", 422},
                            Row{set, "{\"value\":null}", 422}, Row{set, "{\"value\":\"hf_EXAMPLE0000\\u0000\"}", 422},
                            Row{set, body_of("hf_EXAMPLE" + std::string(kSecretBytesMax, 'v')), 422},
                            Row{set, body_of("hf_EXAMPLE" + std::string(2 << 20, 'v')), 413},
                            Row{"/v1/secrets/hf_EXAMPLE0000", body_of("x"), 422}, Row{"/v1/secrets/GPUFERRY_EXAMPLE", body_of("x"), 422},
                            Row{"/v1/secrets/1EXAMPLE", body_of("x"), 422}, Row{"/v1/secrets/A-EXAMPLE", body_of("x"), 422}}) {
        CAPTURE(row.path);
        CAPTURE(row.body.substr(0, 60));
        const auto got = b.call("PUT", row.path, row.body, {kJson});
        CHECK(got.status == row.status);
        CHECK(got.body.find("EXAMPLE") == std::string::npos);
    }
    CHECK(b.call("PUT", set, body_of(std::string(kSecretBytesMax, 'v')), {kJson}).status == 201);
    // A value that was typed where the name belongs.
    for (const char* method : {"GET", "DELETE"}) CHECK(b.call(method, "/v1/secrets/hf_EXAMPLE0000").body.find("EXAMPLE") == std::string::npos);
    CHECK(b.core->seen_of<PutSecretCommand>().size() == 1);
    CHECK(b.core->seen_of<DropSecretCommand>().empty());
}

TEST_CASE("submitters see names, operators set values, viewers see nothing") {
    RestBench b;
    CHECK(b.call("PUT", "/v1/secrets/A", body_of(kValue), {kJson}).status == 201);
    struct Row {
        const char* role;
        int list, show, put, drop;
    };
    for (const auto& row : {Row{"viewer", 403, 403, 403, 403}, Row{"submitter", 200, 200, 403, 403}, Row{"operator", 200, 200, 200, 204}}) {
        CAPTURE(row.role);
        const auto token = b.token(row.role);
        CHECK(b.tcp("GET", "/v1/secrets", token).status == row.list);
        CHECK(b.tcp("GET", "/v1/secrets/A", token).status == row.show);
        CHECK(b.tcp("PUT", "/v1/secrets/A", token, body_of("another_EXAMPLE"), {kJson}).status == row.put);
        CHECK(b.tcp("DELETE", "/v1/secrets/A", token).status == row.drop);
    }
    const auto puts = b.core->seen_of<PutSecretCommand>();
    REQUIRE(puts.size() == 2);
    CHECK(puts[1].secret.principal.starts_with("tok_"));
}

TEST_CASE("a job that names a secret that is not there is refused, and told which") {
    RestBench b;
    const std::string spec = "run: echo\nimage: ghcr.io/a/b:1\nsecrets: [A, HF_TOKEN]\nimage_auth: {username: bot, password: REGISTRY}\n";
    const auto refused = [&](const std::string& field, const std::string& name) {
        const auto got = b.call("POST", "/v1/jobs", spec, {kYaml, "Idempotency-Key: k"});
        CHECK(got.status == 422);
        CHECK(parsed(got).at("errors").at(0).at("field") == field);
        CHECK(parsed(got).at("detail").get<std::string>().find("there is no secret " + name) != std::string::npos);
    };
    refused("secrets[0]", "A");
    CHECK(b.call("PUT", "/v1/secrets/A", body_of(kValue), {kJson}).status == 201);
    refused("secrets[1]", "HF_TOKEN");
    CHECK(b.call("PUT", "/v1/secrets/HF_TOKEN", body_of(kValue), {kJson}).status == 201);
    refused("image_auth.password", "REGISTRY");
    CHECK(b.core->seen_of<SubmitJob>().empty());
    CHECK(b.call("PUT", "/v1/secrets/REGISTRY", body_of(kValue), {kJson}).status == 201);
    CHECK(b.call("POST", "/v1/jobs", spec, {kYaml, "Idempotency-Key: k"}).status == 201);
    // A plan rents nothing and hands over nothing.
    CHECK(b.call("POST", "/v1/plan", "run: x\nsecrets: [NOT_THERE]\n", {kYaml}).status == 200);
    CHECK(all_files(b).find("EXAMPLE") == std::string::npos);
}

TEST_CASE("the values of one job's secrets have a bound together") {
    RestBench b;
    std::string names;
    for (const char* name : {"A", "B", "C", "D", "E"}) {
        CHECK(b.call("PUT", std::string("/v1/secrets/") + name, body_of(std::string(60'000, 'v')), {kJson}).status == 201);
        names += (names.empty() ? "" : ", ") + std::string(name);
    }
    CHECK(b.call("POST", "/v1/jobs", "run: x\nsecrets: [A, B, C, D]\n", {kYaml}).status == 201);
    const auto got = b.call("POST", "/v1/jobs", "run: x\nsecrets: [" + names + "]\n", {kYaml});
    CHECK(got.status == 422);
    CHECK(parsed(got).at("errors").at(0).at("range") == "at most 262144 bytes");
}

TEST_CASE("a job of which a machine could not be told in one message is refused, with what takes the room") {
    RestBench b;
    const auto submit = [&](const nlohmann::json& spec) { return b.call("POST", "/v1/jobs", spec.dump(), {kJson}); };
    const auto refused = [&](const nlohmann::json& spec, const std::string& field) {
        const auto got = submit(spec);
        CHECK(got.status == 422);
        CHECK(parsed(got).at("errors").at(0).at("field") == field);
        CHECK(parsed(got).at("errors").at(0).at("range") == "at most 1048576 bytes");
    };
    nlohmann::json env;
    for (int i = 0; i < 14; ++i) env["BIG_" + std::to_string(i)] = std::string(30'000, 'v');
    // A value of control characters takes six bytes each as JSON: four secrets that are allowed by their sum.
    for (const char* name : {"A", "B", "C", "D"})
        CHECK(b.call("PUT", std::string("/v1/secrets/") + name, body_of(std::string(60'000, '\x01')), {kJson}).status == 201);
    CHECK(submit({{"run", "x"}, {"secrets", {"A", "B"}}}).status == 201);
    refused({{"run", "x"}, {"secrets", {"A", "B", "C", "D"}}}, "secrets");
    refused({{"run", "x"}, {"secrets", {"A", "B"}}, {"env", env}}, "env");
    CHECK(submit({{"run", "x"}, {"env", env}}).status == 201);
    CHECK(b.core->seen_of<SubmitJob>().size() == 2);
}

TEST_CASE("what the log hides of a secret ends with it") {
    RestBench b;
    const auto shown = [](const std::string& value) { return log::line("x", {{"t", value}}); };
    CHECK(b.call("PUT", "/v1/secrets/HF_TOKEN", body_of("hf_first_EXAMPLE"), {kJson}).status == 201);
    CHECK(b.call("PUT", "/v1/secrets/HF_TOKEN", body_of("hf_second_EXAMPLE"), {kJson}).status == 200);
    CHECK(shown("hf_first_EXAMPLE") == "x t=***");
    CHECK(shown("hf_second_EXAMPLE") == "x t=***");
    CHECK(b.call("PUT", "/v1/secrets/HF_TOKEN", body_of("hf_third_EXAMPLE"), {kJson}).status == 200);
    CHECK(shown("hf_first_EXAMPLE") == "x t=hf_first_EXAMPLE");
    CHECK(b.call("DELETE", "/v1/secrets/HF_TOKEN").status == 204);
    CHECK(shown("hf_third_EXAMPLE") == "x t=hf_third_EXAMPLE");
}

TEST_CASE("a server without a key takes no secrets") {
    RestBench b([](ServerOptions& options) { options.seal = nullptr; });
    CHECK(b.call("PUT", "/v1/secrets/A", body_of(kValue), {kJson}).status == 501);
    CHECK(b.core->seen_of<PutSecretCommand>().empty());
}

}  // namespace
}  // namespace gf::test
