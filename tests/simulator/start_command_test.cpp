#include "simulator/start_command.hpp"

#include <doctest/doctest.h>

using namespace gf::sim;
using Words = std::vector<std::string>;

TEST_CASE("words are split as a shell splits them") {
    struct Row {
        const char* text;
        Words words;
    };
    const Row rows[] = {
        {"", {}},
        {"  a  b\tc\n", {"a", "b", "c"}},
        {"bash -lc 'python a.py'", {"bash", "-lc", "python a.py"}},
        {R"(a "b \"c\" $x" d\ e)", {"a", "b \"c\" $x", "d e"}},
        {"'' \"\"", {"", ""}},
        {R"('a\b')", {R"(a\b)"}},
    };
    for (const auto& row : rows) {
        CAPTURE(row.text);
        const auto words = shell_words(row.text);
        REQUIRE(words);
        CHECK(*words == row.words);
    }
    CHECK_FALSE(shell_words("a 'b"));
}

TEST_CASE("RunPod's args replace CMD as a plain string, or set both in their JSON form") {
    const Words entrypoint{"/entry"};
    const Words cmd{"default"};
    struct Row {
        const char* args;
        Words argv;
    };
    const Row rows[] = {
        {"", {"/entry", "default"}},
        {"run 'one two'", {"/entry", "run", "one two"}},
        {R"({"entrypoint":["/bin/sh","-c"],"cmd":["echo hi"]})", {"/bin/sh", "-c", "echo hi"}},
        {R"({"entrypoint":["/bin/true"]})", {"/bin/true"}},
        {R"({"cmd":["x"]})", {"/entry", "x"}},
        {R"( {"entrypoint":[],"cmd":["bare"]})", {"bare"}},
        {"{not json", {"/entry", "{not", "json"}},
    };
    for (const auto& row : rows) {
        CAPTURE(row.args);
        const auto argv = runpod_argv(row.args, entrypoint, cmd);
        REQUIRE(argv);
        CHECK(*argv == row.argv);
    }
    CHECK_FALSE(runpod_argv(R"({"entrypoint":"sh","cmd":[1]})", {}, {}));
    CHECK(runpod_argv("", {}, {})->front() == "/bin/sh");
}

TEST_CASE("Vast's onstart is the entrypoint in args mode and a script in ssh mode") {
    CHECK(vast_args_argv("/bin/sh", {"-c", "x"}, {"/entry"}, {"cmd"}) == Words{"/bin/sh", "-c", "x"});
    CHECK(vast_args_argv("", {"y"}, {"/entry"}, {"cmd"}) == Words{"/entry", "y"});
    CHECK(vast_args_argv("", {}, {"/entry"}, {"cmd"}) == Words{"/entry", "cmd"});
    CHECK(vast_ssh_argv("echo 'quoted' $HOME").back() == "echo 'quoted' $HOME");
}
