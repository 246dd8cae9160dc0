// Field case A08 and its neighbours at each provider: a wrong key that is answered like a thing that is not there.
#include <doctest/doctest.h>

#include <optional>
#include <string>

#include "cloud_bench.hpp"
#include "providers/exchange.hpp"

using namespace gf;
using gf::test::LambdaBench;
using gf::test::Received;
using gf::test::RunpodBench;
using gf::test::VastBench;
using gf::test::VultrBench;
using Sent = gf::test::Answer;

namespace {

Sent json_404(std::string body, std::string type = "application/json") {
    return {.status = 404, .body = std::move(body), .content_type = std::move(type)};
}

/// Each call says that the key is the trouble, and no machine is taken for gone, not even beside a fresh proof.
template <class Bench>
void check_refused(const Sent& sent, const std::string& what) {
    CAPTURE(what);
    CAPTURE(sent.body);
    Bench b;
    const auto request = gf::test::launch_request(b.some_offer(), 1);
    REQUIRE(b.provider().list());
    b.script([&](const Received&) { return sent; });
    const ProviderMachineId id{"12345"};
    const auto seen = b.provider().read(id);
    REQUIRE(!seen);
    CHECK(seen.error().kind == ErrorKind::auth);
    b.pass(Seconds{60});
    const auto listing = b.provider().list();
    REQUIRE(!listing);
    CHECK(listing.error().kind == ErrorKind::auth);
    b.pass(Seconds{60});
    const auto destroyed = b.provider().destroy(id);
    REQUIRE(!destroyed);
    CHECK(destroyed.error().kind == ErrorKind::auth);
    b.pass(Seconds{60});
    const auto offers = b.provider().offers({.gpu_counts = {1}});
    REQUIRE(!offers);
    CHECK(offers.error().kind == ErrorKind::auth);
    b.pass(Seconds{60});
    const auto out = b.provider().launch(request);
    CHECK(out.id.empty());
    REQUIRE(out.error);
    CHECK(out.error->kind == ErrorKind::auth);
    b.pass(Seconds{60});
    const auto findings = b.provider().check();
    REQUIRE(!findings.empty());
    CHECK(findings.front().level == Finding::Level::failed);
    CHECK(findings.front().what == "key");
}

const std::string kWords[] = {"Invalid API key", "Unauthorized", "API token does not match any user",
                              "Authentication failed: no such user key"};

}  // namespace

TEST_CASE("A08 RunPod: a 404 that blames the key is a refused key, whatever its shape") {
    for (const auto& words : kWords) {
        check_refused<RunpodBench>(
            json_404(R"({"title":"Not Found","status":404,"detail":")" + words + "\"}", "application/problem+json"), "v2");
        check_refused<RunpodBench>(json_404(R"({"error":")" + words + R"(","status":404})"), "v1");
        check_refused<RunpodBench>(json_404(R"({"message":")" + words + "\"}"), "a shape of nobody's");
    }
}

TEST_CASE("A08 Vast.ai: a 404 that blames the key is a refused key, with the documented code or without") {
    for (const auto& words : kWords) {
        check_refused<VastBench>(json_404(R"({"success":false,"msg":")" + words + "\"}"), "without a code");
        check_refused<VastBench>(json_404(R"({"detail":")" + words + "\"}"), "another field");
    }
    check_refused<VastBench>(json_404(R"({"success":false,"error":"auth_error","msg":"Invalid user key"})"), "as documented");
    check_refused<VastBench>(json_404(R"({"success":false,"error":"unauthorized"})"), "a code of tomorrow");
    check_refused<VastBench>(json_404(R"({"success":false,"msg":"Session expired. Please log in again."})"),
                             "an expired second factor, as the vendor's own client expects it");
}

TEST_CASE("A08 Lambda: a 404 that blames the key is a refused key, and so is a 401 of any code") {
    for (const auto& words : kWords) {
        check_refused<LambdaBench>(json_404(R"({"error":{"code":"global/not-found","message":")" + words + "\"}}"), "a route's code");
        check_refused<LambdaBench>(gf::test::lambda_error(404, "global/object-does-not-exist", words), "an object's code");
        check_refused<LambdaBench>(json_404(R"({"error":")" + words + "\"}"), "no envelope");
    }
    check_refused<LambdaBench>(gf::test::lambda_error(404, "global/invalid-api-key", "x"), "its own code");
    check_refused<LambdaBench>(gf::test::lambda_error(401, "global/unauthenticated", "x"), "a code of tomorrow");
}

TEST_CASE("A08 Vultr: a 404 that blames the key is a refused key") {
    for (const auto& words : kWords) {
        check_refused<VultrBench>(gf::test::vultr_error(404, words), "its own voice");
        check_refused<VultrBench>(json_404(R"({"error":")" + words + "\"}"), "without a status");
    }
}

/// Answers what concerns one machine (or is to make one) with `sent`; all else as it is, with a good key.
template <class Bench>
void answer_machines(Bench& b, const Sent& sent, int& listings) {
    b.script([&b, &listings, sent](const Received& r) {
        if (r.target.find("ssh-keys") != std::string::npos) return b.world.answer(r);
        if (r.method == "GET" && r.target.find("12345") == std::string::npos) {
            ++listings;
            return b.world.answer(r);
        }
        return sent;
    });
}

/// The key is asked, and is good: what is not there is gone, and a create is refused for what was asked for alone.
template <class Bench>
void check_settled(const Sent& sent, std::optional<ErrorKind> create) {
    CAPTURE(sent.body);
    Bench b;
    const auto request = gf::test::launch_request(b.some_offer(), 1);
    REQUIRE(b.provider().list());
    const ProviderMachineId id{"12345"};
    int listings = 0;
    answer_machines(b, sent, listings);
    const auto seen = b.provider().read(id);
    REQUIRE(seen);
    CHECK(seen->presence == Presence::gone);
    // A proof of before does not count where the words blame the key.
    CHECK(listings == 1);
    b.pass(Seconds{120});
    CHECK(b.provider().destroy(id));
    b.pass(Seconds{120});
    const auto out = b.provider().launch(request);
    REQUIRE(out.error);
    CAPTURE(out.error->message);
    CHECK(out.error->kind == create.value_or(ErrorKind::unknown_outcome));
}

TEST_CASE("A08 a 404 that does not tell whether thing or key is wrong is settled by the key") {
    const std::string words = "Not found or you are not authorized";
    const auto problem = [](const std::string& detail) {
        return json_404(R"({"title":"Not Found","status":404,"detail":")" + detail + "\"}", "application/problem+json");
    };
    check_settled<RunpodBench>(problem("Pod not found or you are not authorized"), ErrorKind::no_capacity);
    check_settled<VastBench>(json_404(R"({"success":false,"error":"no_such_instance","msg":")" + words + "\"}"), std::nullopt);
    check_settled<LambdaBench>(gf::test::lambda_error(404, "global/object-does-not-exist", words), ErrorKind::no_capacity);
    check_settled<VultrBench>(gf::test::vultr_error(404, words), ErrorKind::no_capacity);
}

TEST_CASE("A08 RunPod: what is wrong with a registry's login is no matter of the key") {
    gf::test::RunpodBench b;
    const auto request = gf::test::launch_request(b.some_offer(), 1);
    b.script([](const Received&) {
        return json_404(R"({"title":"Not Found","status":404,"detail":"registry credentials not found"})", "application/problem+json");
    });
    const auto out = b.provider().launch(request);
    REQUIRE(out.error);
    CHECK(out.error->kind == ErrorKind::no_capacity);
}

TEST_CASE("words of other things blame no key") {
    for (const auto* text : {"", "pod not found", "resource not found", "Instance 12345 not found.", "invalid instance ID",
                             "SSH key orch-3fa1 does not exist.", "registry credentials not found", "Specified instance does not exist.",
                             "error 404/3603: no_such_ask Instance type by id 1234567 is not available."}) {
        CAPTURE(text);
        CHECK(!blames_key(text));
    }
}
