// What the doctor finds: rounds of checks over scripted providers, and the daemon's look at its own place over loopback.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <future>

#include "checkpoints/digest.hpp"
#include "daemon/http/listener.hpp"
#include "daemon/runtime/provider_checks.hpp"
#include "daemon/self_checks.hpp"
#include "tests/daemon/support/temporary_folder.hpp"

namespace gf::test {
namespace {

using Level = Finding::Level;

/// Answers its check when it is let go.
class Patient final : public Provider {
 public:
    explicit Patient(std::string name, std::vector<Finding> findings = {}) : name_(std::move(name)), findings_(std::move(findings)) {}
    [[nodiscard]] ProviderName name() const override { return ProviderName{name_}; }
    [[nodiscard]] Capabilities capabilities() const override { return {}; }
    Result<OfferList> offers(const OfferQuery&) override { return OfferList{}; }
    LaunchOutcome launch(const LaunchRequest&) override { return {}; }
    Result<Listing> list() override { return Listing{}; }
    Result<ProviderMachine> read(const ProviderMachineId&) override { return fail(ErrorKind::unavailable, "no"); }
    Result<void> destroy(const ProviderMachineId&) override { return {}; }
    Result<Usd> balance() override { return fail(ErrorKind::not_found, "no"); }
    std::vector<Finding> check() override {
        ++asked;
        if (held) gate.get_future().wait();
        return findings_;
    }
    std::atomic<int> asked{0};
    bool held{false};  // set before the first check
    std::promise<void> gate;

 private:
    std::string name_;
    std::vector<Finding> findings_;
};

const Finding kKeyRefused{.level = Level::failed, .what = "key", .text = "the key is refused"};
constexpr std::chrono::minutes kLong{5};

std::vector<CheckLine> answer_of(ProviderChecks& checks) {
    std::promise<std::vector<CheckLine>> answer;
    checks.ask([&](std::vector<CheckLine> lines) { answer.set_value(std::move(lines)); });
    return answer.get_future().get();
}

const CheckLine* line(const std::vector<CheckLine>& lines, std::string_view what) {
    const auto found = std::ranges::find(lines, what, [](const CheckLine& l) { return std::string_view(l.finding.what); });
    return found == lines.end() ? nullptr : &*found;
}

TEST_CASE("a round of checks asks every provider once and keeps their order") {
    Lanes lanes;
    Patient one("alpha", {kKeyRefused, {.level = Level::ok, .what = "listing", .text = "3 machines"}});
    Patient two("beta");
    ProviderChecks checks(lanes, {&one, &two}, [] { return std::vector<CheckLine>{{"daemon", {.what = "disk", .text = "x"}}}; }, kLong);
    const auto lines = answer_of(checks);
    REQUIRE(lines.size() == 4);
    CHECK(lines[0].provider == "daemon");
    CHECK(lines[1].provider == "alpha");
    CHECK(lines[1].finding.text == "the key is refused");
    CHECK(lines[2].finding.what == "listing");
    CHECK(lines[3].provider == "beta");
    CHECK(lines[3].finding.level == Level::warning);  // a check that finds nothing has checked nothing
    CHECK(one.asked == 1);
    (void)answer_of(checks);
    CHECK(one.asked == 2);  // nothing is remembered
    checks.stop();
    lanes.stop(kLong);
}

TEST_CASE("who asks while a round is running gets its answer") {
    Lanes lanes;
    Patient slow("slow", {kKeyRefused});
    slow.held = true;
    ProviderChecks checks(lanes, {&slow}, {}, kLong);
    std::promise<std::size_t> first, second;
    checks.ask([&](const std::vector<CheckLine>& lines) { first.set_value(lines.size()); });
    while (slow.asked == 0) std::this_thread::yield();
    checks.ask([&](const std::vector<CheckLine>& lines) { second.set_value(lines.size()); });
    slow.gate.set_value();
    CHECK(first.get_future().get() == 1);
    CHECK(second.get_future().get() == 1);
    CHECK(slow.asked == 1);
    checks.stop();
    lanes.stop(kLong);
}

TEST_CASE("a provider that does not answer is told as such and not asked twice") {
    Lanes lanes;
    Patient stuck("stuck", {kKeyRefused});
    stuck.held = true;
    Patient quick("quick", {{.level = Level::ok, .what = "key", .text = "good"}});
    ProviderChecks checks(lanes, {&quick, &stuck}, {}, std::chrono::milliseconds{50});
    for (int round = 0; round < 2; ++round) {
        const auto lines = answer_of(checks);
        REQUIRE(lines.size() == 2);
        CHECK(lines[1].provider == "stuck");
        CHECK(lines[1].finding.level == Level::failed);
        CHECK(lines[1].finding.text.starts_with("no answer within"));
    }
    CHECK(stuck.asked == 1);
    stuck.gate.set_value();
    checks.stop();
    lanes.stop(kLong);
}

TEST_CASE("a round that is running at the end answers, and later ones do at once") {
    Lanes lanes;
    Patient stuck("stuck");
    stuck.held = true;
    ProviderChecks checks(lanes, {&stuck}, {}, kLong);
    std::promise<std::size_t> answer;
    checks.ask([&](const std::vector<CheckLine>& lines) { answer.set_value(lines.size()); });
    checks.stop();
    CHECK(answer.get_future().get() == 1);
    CHECK(answer_of(checks).empty());
    stuck.gate.set_value();
    lanes.stop(kLong);
}

/// Sends `body` for the agent's path and says a fixed time in Date.
class Place final : public http::Service {
 public:
    http::BodyPlan admit(const http::Request&) override { return {}; }
    void serve(http::Request request, http::Answer answer) override {
        http::Response response{.status = request.path == path ? 200 : 404, .content_type = "application/octet-stream", .body = body};
        answer(std::move(response));
    }
    std::string path, body;
};

class PlaceBench {
 public:
    PlaceBench() {
        own = *http::load_or_make_tls(folder / "own");
        other = *http::load_or_make_tls(folder / "other");
        place.body = "an agent";
        settings.agent_sha256 = checkpoints::sha256(place.body).hex();
        place.path = "/agent/bin/" + settings.agent_sha256;
        settings.data_dir = folder.path();
        settings.pin = own.spki_pin;
        settings.dialling = {"vastai"};
        settings.wall = [] { return instant_of(1'796'112'000'000); };
        settings.zones = folder.path();
        loop.start();
    }
    ~PlaceBench() {
        if (listener) listener->stop();
        loop.stop();
    }
    /// https with a certificate, or http without.
    std::string listen(const http::Tls* tls, Instant date = instant_of(1'796'112'000'000)) {
        http::ListenOptions how{.address = "127.0.0.1:0"};
        how.tls = tls ? tls->identity : nullptr;
        how.now = [date] { return date; };
        listener = std::make_unique<http::Listener>(loop, place, how);
        const auto started = listener->start();
        GF_ASSERT(started.has_value());
        return (tls ? "https://127.0.0.1:" : "http://127.0.0.1:") + std::to_string(listener->port());
    }
    /// The last line about advertise_url.
    Finding reached() {
        Finding last;
        for (const auto& l : self_checks(settings))
            if (l.finding.what == "advertise_url") last = l.finding;
        return last;
    }
    TemporaryFolder folder;
    http::Tls own, other;
    Place place;
    SelfCheckSettings settings;
    http::Loop loop;
    std::unique_ptr<http::Listener> listener;
};

TEST_CASE("advertise_url that leads here is known by key and agent") {
    PlaceBench b;
    b.settings.advertise_url = b.listen(&b.own);
    const auto good = b.reached();
    CHECK(good.level == Level::ok);
    CHECK(good.text.find("seen from this machine") != std::string::npos);
    // A loopback address is no place for machines elsewhere, and that is said beside.
    const auto lines = self_checks(b.settings);
    CHECK(line(lines, "advertise_url")->finding.level == Level::warning);
    CHECK(line(lines, "advertise_url")->finding.text.find("a private address") != std::string::npos);

    b.place.body = "a page of a proxy";
    CHECK(b.reached().level == Level::failed);
    CHECK(b.reached().text.find("not with this daemon's agent") != std::string::npos);
    b.place.path = "/elsewhere";
    CHECK(b.reached().text.find("status 404") != std::string::npos);
}

TEST_CASE("advertise_url with another certificate is told from one that does not answer") {
    PlaceBench b;
    b.settings.advertise_url = b.listen(&b.other);
    const auto other = b.reached();
    CHECK(other.level == Level::failed);
    CHECK(other.text.find("another certificate") != std::string::npos);
    b.listener->stop();
    const auto silent = b.reached();
    CHECK(silent.level == Level::failed);
    CHECK(silent.text.find("does not lead here") != std::string::npos);
    b.settings.advertise_url = "https://no-such-host.invalid:8471";
    CHECK(b.reached().level == Level::failed);
    CHECK(b.reached().text.find("does not resolve") != std::string::npos);
}

TEST_CASE("a missing or private advertise_url is as bad as the ways that are left") {
    PlaceBench b;
    b.settings.dialling = {};
    CHECK(b.reached().level == Level::ok);  // no cloud
    b.settings.by_ssh = {"runpod", "lambda"};
    CHECK(b.reached().level == Level::ok);
    CHECK(b.reached().text.find("runpod, lambda are reached by ssh") != std::string::npos);
    b.settings.unreached = {"vultr"};
    CHECK(b.reached().level == Level::failed);
    CHECK(b.reached().text.find("machines of vultr cannot find this daemon") != std::string::npos);

    b.settings.advertise_url = b.listen(&b.own);
    const auto first = [&b] { return line(self_checks(b.settings), "advertise_url")->finding; };
    CHECK(first().level == Level::failed);
    CHECK(first().text.find("nothing is rented at vultr") != std::string::npos);
    b.settings.unreached = {};
    CHECK(first().level == Level::ok);
    CHECK(first().text.find("reached by ssh") != std::string::npos);
}

TEST_CASE("a clock that is off by more than five minutes is told") {
    for (const auto& [off_s, level] : {std::pair{0, Level::ok}, {299, Level::ok}, {-302, Level::failed}, {7200, Level::failed}}) {
        CAPTURE(off_s);
        PlaceBench b;
        const auto now = instant_of(1'796'112'000'000);
        b.settings.apis = {{"vastai", b.listen(nullptr, now + Seconds{off_s})}};
        const auto lines = self_checks(b.settings);
        const auto* clock = line(lines, "clock");
        REQUIRE(clock != nullptr);
        CHECK(clock->finding.level == level);
        if (level == Level::failed) CHECK(clock->finding.text.find(off_s > 0 ? "behind vastai" : "ahead of vastai") != std::string::npos);
    }
    PlaceBench silent;  // an API that does not answer says nothing about the clock
    silent.settings.apis = {{"vastai", "http://127.0.0.1:1"}};
    CHECK(line(self_checks(silent.settings), "clock") == nullptr);
}

TEST_CASE("disk, time zones and ssh") {
    PlaceBench b;
    b.settings.time_zone = "Europe/Berlin";
    auto lines = self_checks(b.settings);
    CHECK(line(lines, "disk")->finding.text.find("free in " + b.folder.path()) != std::string::npos);
    CHECK(line(lines, "time_zones")->finding.level == Level::failed);
    CHECK(line(lines, "ssh") == nullptr);  // nobody needs it
    write_file(b.folder / "Europe/Berlin", "TZif");
    b.settings.by_ssh = {"runpod"};
    lines = self_checks(b.settings);
    CHECK(line(lines, "time_zones")->finding.level == Level::ok);
    CHECK(line(lines, "ssh")->finding.level == Level::failed);
    CHECK(line(lines, "ssh")->finding.text.find("found no ssh program") != std::string::npos);  // whatever PATH leads to
    b.settings.ssh = b.folder / "bin/ssh";
    CHECK(line(self_checks(b.settings), "ssh")->finding.text.find("not there any more") != std::string::npos);
    write_file(b.folder / "bin/ssh", "#!/bin/sh\n");
    std::filesystem::permissions(b.folder / "bin/ssh", std::filesystem::perms::owner_all);
    lines = self_checks(b.settings);
    CHECK(line(lines, "ssh")->finding.level == Level::ok);
    CHECK(line(lines, "ssh")->finding.text == b.folder / "bin/ssh");
    b.settings.data_dir = "/nonexistent";
    CHECK(line(self_checks(b.settings), "disk")->finding.level == Level::failed);
}

}  // namespace
}  // namespace gf::test
