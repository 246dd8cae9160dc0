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
    redact(Secret("rpa_EXAMPLE111/+"));
    CHECK(line("x", {{"url", "https://h/?api_key=rpa_EXAMPLE111/+"}}) == "x url=\"https://h/?api_key=***\"");
    CHECK(line("x", {{"url", "https://h/?k=rpa_EXAMPLE111%2F%2B"}}).find("EXAMPLE") == std::string::npos);
    // base64 of "user:rpa_EXAMPLE111/+": the secret does not begin at a multiple of three bytes.
    CHECK(line("x", {{"auth", "dXNlcjpycGFfRVhBTVBMRTExMS8r"}}).find("RVhBTVBMRT") == std::string::npos);
}

TEST_CASE("a short secret does not blank out ordinary text") {
    redact(Secret("ok"));
    CHECK(line("x", {{"state", "ok"}}) == "x state=ok");
}

}  // namespace
}  // namespace gf::log
