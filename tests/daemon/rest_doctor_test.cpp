#include <doctest/doctest.h>

#include "tests/daemon/support/rest_bench.hpp"

namespace gf::test {
namespace {

TEST_CASE("the check of the providers is told as it was found") {
    RestBench b;
    b.core->checks = {{"daemon", {.level = Finding::Level::ok, .what = "disk", .text = "9 GB free"}},
                      {"vastai", {.level = Finding::Level::failed, .what = "key", .text = "refused \xff"}},
                      {"vastai", {.level = Finding::Level::warning, .what = "money", .text = "1.20 dollars left"}}};
    const auto got = b.call("POST", "/v1/providers/check");
    REQUIRE(got.status == 200);
    const auto items = parsed(got).at("items");
    REQUIRE(items.size() == 3);
    CHECK(items.at(0) == nlohmann::json{{"provider", "daemon"}, {"level", "ok"}, {"what", "disk"}, {"text", "9 GB free"}});
    CHECK(items.at(1).at("level") == "failed");
    CHECK(items.at(1).at("text") == "refused \xef\xbf\xbd");  // what came from outside is made valid UTF-8
    CHECK(items.at(2).at("level") == "warning");
    CHECK(parsed(got).at("next_cursor").is_null());
    CHECK(b.core->check_rounds == 1);
}

TEST_CASE("only an operator may have the providers checked") {
    RestBench b;
    CHECK(b.tcp("POST", "/v1/providers/check", b.token("viewer")).status == 403);
    CHECK(b.tcp("POST", "/v1/providers/check", b.token("submitter")).status == 403);
    CHECK(b.core->check_rounds == 0);
    CHECK(b.tcp("POST", "/v1/providers/check", b.token("operator"), "{}", {"Content-Type: application/json"}).status == 200);
    CHECK(b.tcp("GET", "/v1/providers/check", b.token("operator")).status == 405);
    CHECK(b.call("POST", "/v1/providers/check?deep=1").status == 400);
}

}  // namespace
}  // namespace gf::test
