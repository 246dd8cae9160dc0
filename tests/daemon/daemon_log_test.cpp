#include "daemon/log.hpp"

#include <doctest/doctest.h>

namespace gf::log {
namespace {

TEST_CASE("a value cannot forge a line or a field") {
    CHECK(line("api.listening", {{"address", "127.0.0.1:8470"}}) == "api.listening address=127.0.0.1:8470");
    CHECK(line("x", {{"reason", "two words"}}) == "x reason=\"two words\"");
    CHECK(line("x", {{"name", "a\nerror y=1"}}) == "x name=\"a\\nerror y=1\"");
    CHECK(line("x", {{"name", "say \"hi\" \\"}}) == "x name=\"say \\\"hi\\\" \\\\\"");
    CHECK(line("x", {{"name", ""}}) == "x name=\"\"");
    CHECK(line("x", {{"name", std::string("a\x1b[31m")}}) == "x name=\"a\\x1b[31m\"");
    CHECK(line("x", {{"n", 42}}) == "x n=42");
}

TEST_CASE("a registered secret is in no line, in any of its forms") {
    redact("account", Secret("rpa_EXAMPLE111/+"));
    CHECK(line("x", {{"url", "https://h/?api_key=rpa_EXAMPLE111/+"}}) == "x url=\"https://h/?api_key=***\"");
    CHECK(line("x", {{"url", "https://h/?k=rpa_EXAMPLE111%2F%2B"}}).find("EXAMPLE") == std::string::npos);
    // base64 of "user:rpa_EXAMPLE111/+": the secret does not begin at a multiple of three bytes.
    CHECK(line("x", {{"auth", "dXNlcjpycGFfRVhBTVBMRTExMS8r"}}).find("RVhBTVBMRT") == std::string::npos);
}

TEST_CASE("a short secret does not blank out ordinary text") {
    redact("short", Secret("ok"));
    CHECK(line("x", {{"state", "ok"}}) == "x state=ok");
}

TEST_CASE("a secret is masked whatever characters it has, alone and inside of what somebody else has escaped") {
    for (const char* value : {"say\"quoted\"EXAMPLE", "back\\slash\\EXAMPLE", "two\nlines\nEXAMPLE", "tab\tEXAMPLE", "bell\x07""EXAMPLE",
                              "two words EXAMPLE", "k=EXAMPLE"}) {
        redact("odd", Secret(value));
        CHECK(line("x", {{"said", value}}) == "x said=***");
        CHECK(line("x", {{"said", "it was " + std::string(value) + "."}}) == "x said=\"it was ***.\"");
    }
    redact("odd", Secret("two\nlines\nEXAMPLE"));
    CHECK(line("two\nlines\nEXAMPLE", {}) == "***");
    CHECK(line("x", {{"json", R"({"value":"two\nlines\nEXAMPLE"})"}}).find("EXAMPLE") == std::string::npos);
}

TEST_CASE("of each owner the newest two values are hidden, and none once it is forgotten") {
    for (int i = 0; i < 1000; ++i) redact("rotating", Secret("token_" + std::to_string(10'000 + i) + "_x"));
    redact("another", Secret("token_10000_y"));
    CHECK(line("x", {{"t", "token_10997_x"}}) == "x t=token_10997_x");
    CHECK(line("x", {{"t", "token_10998_x"}}) == "x t=***");
    CHECK(line("x", {{"t", "token_10999_x"}}) == "x t=***");
    redact("rotating", Secret("token_10998_x"));  // in use again: now the other one is the older
    redact("rotating", Secret("token_11000_x"));
    CHECK(line("x", {{"t", "token_10998_x"}}) == "x t=***");
    CHECK(line("x", {{"t", "token_10999_x"}}) == "x t=token_10999_x");
    forget("rotating");
    CHECK(line("x", {{"t", "token_10998_x"}}) == "x t=token_10998_x");
    CHECK(line("x", {{"t", "token_10000_y"}}) == "x t=***");
    forget("nobody");
}

TEST_CASE("a secret that begins like another one is hidden to its end") {
    redact("short", Secret("prefix_EX"));
    redact("long", Secret("prefix_EXAMPLE_TAIL"));
    CHECK(line("x", {{"t", "prefix_EXAMPLE_TAIL"}}) == "x t=***");
}

}  // namespace
}  // namespace gf::log
