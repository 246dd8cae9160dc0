#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/command_run.hpp"
#include "tests/cli/scripted_server.hpp"

using namespace gf::test;
using nlohmann::json;

namespace {

bool holds(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

constexpr const char* kAnswer =
    R"({"model":"a/b","method":"qlora","gpus":2,"peak_gib_per_gpu":17.3,"margin":1.15,"margin_reason":"adapters",
  "with_margin_gib_per_gpu":19.9,"parts":{"overhead":0.3,"weights":17.0},"notes":["no length given: 2048 tokens"],
  "fits":[{"gpu":"RTX-3090","usable_gib":23.2,"room_gib":3.3},{"gpu":"RTX-4090","usable_gib":23.3,"room_gib":3.4}]})";

ScriptedServer::Script answering(const std::string& body) {
    return [=](const Request&, Wire& wire) { wire.reply(200, body, "application/json", {}); };
}

struct File {
    explicit File(const std::string& name, const std::string& text)
        : path((std::filesystem::temp_directory_path() / (name + "-" + std::to_string(::getpid()) + ".json"))
                   .string()) {
        std::ofstream(path) << text;
    }
    ~File() { std::filesystem::remove(path); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    std::string path;
};

}  // namespace

TEST_CASE("what was typed, a row and a config become one question") {
    const File row("row", R"({"hf_id":"Qwen/Qwen-7B","batch_per_gpu":"4","seq_len":"","notes":"n"})");
    const File config("config", R"({"num_hidden_layers":2})");
    struct Case {
        std::vector<std::string> arguments;
        json body;
    };
    const Case cases[]{
        {{"estimate", "a/b"}, {{"model", "a/b"}}},
        {{"estimate", "a/b", "--method", "lora", "--seq", "512", "--batch", "2", "--gpus", "8",
          "--parallelism", "zero3"},
         {{"model", "a/b"},
          {"method", "lora"},
          {"seq", "512"},
          {"batch", "2"},
          {"gpus", "8"},
          {"parallelism", "zero3"}}},
        {{"estimate", "--json", "-f", row.path},
         {{"hf_id", "Qwen/Qwen-7B"}, {"batch_per_gpu", "4"}, {"seq_len", ""}, {"notes", "n"}}},
        {{"estimate", "-f", row.path, "--set", "kv_dtype=int8"},
         {{"hf_id", "Qwen/Qwen-7B"},
          {"batch_per_gpu", "4"},
          {"seq_len", ""},
          {"notes", "n"},
          {"kv_dtype", "int8"}}},
        {{"estimate", config.path, "--seq", "9"}, {{"config", {{"num_hidden_layers", 2}}}, {"seq", "9"}}},
        {{"estimate", "mine", "--config", config.path},
         {{"model", "mine"}, {"config", {{"num_hidden_layers", 2}}}}},
    };
    for (const auto& c : cases) {
        const ScriptedServer server(answering(kAnswer));
        const auto ran = run_command(c.arguments, {.url = server.url()});
        CAPTURE(ran.err);
        CHECK(ran.status == 0);
        REQUIRE(server.seen().size() == 1);
        CHECK(server.seen()[0].method == "POST");
        CHECK(server.seen()[0].target == "/v1/estimate");
        CHECK(json::parse(server.seen()[0].body) == c.body);
    }
}

TEST_CASE("the parts, the margin and the cards are shown, and --json is what the daemon said") {
    const ScriptedServer server(answering(kAnswer));
    const auto ran = run_command({"estimate", "a/b"}, {.url = server.url()});
    CHECK(holds(ran.out, "estimate: 17.30 GiB x 1.15 (adapters) = 19.90 GiB on each of 2 GPUs"));
    CHECK(ran.out.find("weights") < ran.out.find("overhead"));
    CHECK(holds(ran.out, "RTX-4090"));
    CHECK(holds(ran.err, "note: no length given: 2048 tokens"));
    const auto plain = run_command({"--json", "estimate", "a/b"}, {.url = server.url()});
    CHECK(json::parse(plain.out) == json::parse(kAnswer));
    const ScriptedServer none(answering(
        R"({"model":"a/b","method":"full","gpus":1,"peak_gib_per_gpu":900,"margin":1.2,"parts":{},"fits":[]})"));
    CHECK(holds(run_command({"estimate", "a/b"}, {.url = none.url()}).out, "fits on no card"));
}

TEST_CASE("nothing is asked when there is no question") {
    const ScriptedServer server(answering(kAnswer));
    const File list("list", "[{}]");
    struct Case {
        std::vector<std::string> arguments;
        int status;
        const char* says;
    };
    for (const auto& c : {Case{{"estimate"}, 2, "needs a model"},
                          Case{{"estimate", "-f", "/nowhere/row.json"}, 1, "cannot read"},
                          Case{{"estimate", "-f", list.path}, 1, "one row at a time"},
                          Case{{"estimate", "a/b", "--set", "seq"}, 2, "NAME=VALUE"}}) {
        const auto ran = run_command(c.arguments, {.url = server.url()});
        CHECK(ran.status == c.status);
        CHECK(holds(ran.err, c.says));
    }
    CHECK(server.seen().empty());
}
