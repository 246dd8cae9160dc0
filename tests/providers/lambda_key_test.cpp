// The one registered SSH key of an installation at Lambda.
#include <doctest/doctest.h>

#include "cloud_bench.hpp"
#include "providers/lambda/mapping.hpp"

using namespace gf;
using gf::test::lambda_error;
using gf::test::LambdaBench;
using gf::test::Received;
using nlohmann::json;
using Sent = gf::test::Answer;

namespace {

const std::string kHtml = "<!DOCTYPE html><title>502 Bad Gateway</title>";
const std::string kLine =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOurOurOurOurOurOurOurOurOurOurOurOurOurOu gpuferry";

Sent plain(int status, std::string body, std::string type = "application/json") {
    return {.status = status, .body = std::move(body), .content_type = std::move(type)};
}

LaunchRequest request_with_ssh(LambdaBench& b, int number, const std::string& line = kLine) {
    auto r = gf::test::launch_request(b.some_offer(), number);
    r.ssh = SshSetup{.client_public = line,
                     .host_private = Secret("-----BEGIN X-----\nPRIVATEPRIVATEPRIVATE\n"),
                     .host_public = "ssh-ed25519 AAAAhost"};
    return r;
}

}  // namespace

TEST_CASE("Lambda: one registered key per installation, made when it is missing and found by its text") {
    LambdaBench b;
    b.world.ssh_keys =
        json::array({{{"id", "k1"}, {"name", "alice"}, {"public_key", "ssh-rsa AAAAB3 alice"}}});
    REQUIRE(!b.provider().launch(request_with_ssh(b, 1)).error);
    REQUIRE(!b.provider().launch(request_with_ssh(b, 2)).error);
    REQUIRE(b.world.ssh_keys.size() == 2);
    CHECK(b.world.ssh_keys[1]["name"] == lambda::key_name("testtest", kLine));
    CHECK(b.world.ssh_keys[1]["public_key"] == kLine);
    CHECK(b.server.count("POST", "/api/v1/ssh-keys") == 1);
    CHECK(b.server.count("GET", "/api/v1/ssh-keys") == 1);
    CHECK(lambda::key_name("testtest", kLine).size() == std::string("gf-testtest-01234567").size());

    // Another daemon of the same installation: what is registered is found, whatever its comment and blanks.
    LambdaBench other;
    other.world.ssh_keys =
        json::array({{{"id", "k9"},
                      {"name", "console"},
                      {"public_key", "  " + kLine.substr(0, kLine.rfind(' ')) + "   mine\n"}}});
    REQUIRE(!other.provider().launch(request_with_ssh(other, 1)).error);
    CHECK(other.server.count("POST", "/api/v1/ssh-keys") == 0);
    CHECK(json::parse(other.server.received().back().body)["ssh_key_names"] == json::array({"console"}));
}

TEST_CASE("Lambda: without SSH a key is made that nobody can use, once") {
    LambdaBench b;
    for (int i = 1; i <= 2; ++i)
        REQUIRE(!b.provider().launch(gf::test::launch_request(b.some_offer(), i)).error);
    REQUIRE(b.world.ssh_keys.size() == 1);
    CHECK(b.world.ssh_keys[0]["public_key"].get<std::string>().starts_with("ssh-ed25519 AAAA"));
    // After a restart the one that is there serves again.
    LambdaBench later;
    later.world.ssh_keys = b.world.ssh_keys;
    REQUIRE(!later.provider().launch(gf::test::launch_request(later.some_offer(), 3)).error);
    CHECK(later.world.ssh_keys.size() == 1);
}

TEST_CASE("Lambda: a key that somebody removed is registered again at the next launch") {
    LambdaBench b;
    REQUIRE(!b.provider().launch(request_with_ssh(b, 1)).error);
    b.world.ssh_keys = json::array();
    const auto out = b.provider().launch(request_with_ssh(b, 2));
    REQUIRE(out.error);
    CHECK(out.error->kind == ErrorKind::no_capacity);
    CHECK(!b.provider().launch(request_with_ssh(b, 3)).error);
    CHECK(b.world.ssh_keys.size() == 1);
}

TEST_CASE("Lambda: trouble with the key is a clean refusal, and nothing is launched") {
    const struct {
        std::string what;
        std::string method;
        Sent sent;
        ErrorKind kind;
    } rows[] = {
        {"list", "GET", plain(500, kHtml, "text/html"), ErrorKind::unavailable},
        {"list odd", "GET", plain(200, R"({"data":{}})"), ErrorKind::unavailable},
        {"list too often", "GET", plain(429, ""), ErrorKind::unavailable},
        {"wrong key", "GET", lambda_error(401, "global/invalid-api-key", "x"), ErrorKind::auth},
        {"quota", "POST", lambda_error(400, "global/quota-exceeded", "x"), ErrorKind::quota},
        {"refused", "POST", lambda_error(400, "global/invalid-parameters", "x"), ErrorKind::unavailable},
        {"lost", "POST", {.delivery = gf::test::Delivery::nothing}, ErrorKind::unavailable}};
    for (const auto& row : rows) {
        CAPTURE(row.what);
        LambdaBench b;
        const auto request = request_with_ssh(b, 1);
        b.script([&](const Received& r) {
            return r.path() == "/api/v1/ssh-keys" && r.method == row.method ? row.sent : b.world.answer(r);
        });
        const auto out = b.provider().launch(request);
        REQUIRE(out.error);
        CHECK(out.error->kind == row.kind);
        CHECK(out.id.empty());
        CHECK(b.server.count("POST", "/api/v1/instance-operations/launch") == 0);
    }
    // A name that is taken means that somebody was quicker: the key is there.
    LambdaBench b;
    const auto request = request_with_ssh(b, 1);
    b.script([&](const Received& r) {
        if (r.path() == "/api/v1/ssh-keys" && r.method == "POST") {
            auto key = json::parse(r.body);
            key["id"] = "k1";
            b.world.ssh_keys.push_back(key);
            return lambda_error(400, "global/duplicate", "taken");
        }
        return b.world.answer(r);
    });
    CHECK(!b.provider().launch(request).error);
}

TEST_CASE("Lambda: tidying removes our keys when no machine of ours is left, and nobody else's") {
    LambdaBench b;
    const std::string old_line = "ssh-ed25519 AAAAold gpuferry";
    b.world.ssh_keys = json::array({{{"id", "k1"}, {"name", "alice"}, {"public_key", "ssh-rsa AAAAB3 alice"}},
                                    {{"id", "k2"},
                                     {"name", lambda::key_name("testtest", old_line)},
                                     {"public_key", old_line}},  // ours, of before
                                    {{"id", "k3"},
                                     {"name", lambda::key_name("otherone", old_line)},
                                     {"public_key", old_line}},  // another installation's
                                    {{"id", "k4"},
                                     {"name", "gf-testtest-deadbeef"},
                                     {"public_key", "ssh-rsa AAAAB3 somebody"}}});  // only looks like ours
    const auto out = b.provider().launch(request_with_ssh(b, 1));
    REQUIRE(!out.error);
    CHECK(b.world.ssh_keys.size() == 5);
    REQUIRE(b.provider().tidy());
    CHECK(b.world.ssh_keys.size() == 5);  // a machine of ours is there
    REQUIRE(b.provider().destroy(out.id));
    REQUIRE(b.provider().tidy());
    CHECK(b.world.ssh_keys.size() == 5);  // still ending
    b.pass(Seconds{30});
    REQUIRE(b.provider().tidy());
    json names = json::array();
    for (const auto& key : b.world.ssh_keys) names.push_back(key["id"]);
    CHECK(names == json::array({"k1", "k3", "k4"}));
    const auto calls = b.server.received().size();
    REQUIRE(b.provider().tidy());
    CHECK(b.server.received().size() == calls + 1);  // nothing of ours: one look
    // And the next launch registers it again.
    CHECK(!b.provider().launch(request_with_ssh(b, 2)).error);
}

TEST_CASE("Lambda: a listing that cannot be read keeps the keys") {
    LambdaBench b;
    REQUIRE(!b.provider().launch(request_with_ssh(b, 1)).error);
    b.script([&](const Received& r) {
        return r.path() == "/api/v1/instances" ? plain(200, R"({"data":null})") : b.world.answer(r);
    });
    CHECK(!b.provider().tidy());
    CHECK(b.world.ssh_keys.size() == 1);
}
