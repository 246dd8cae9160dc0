#include "providers/pacer.hpp"

#include <doctest/doctest.h>

#include <array>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

using namespace gf;

namespace {

constexpr Instant kT0 = instant_of(1'796'000'000'000);

PacerRules rules(bool account_wide = false) {
    return {.endpoints = {{.name = "destroy", .interval = Millis{3'000}, .urgency = Urgency::destroy},
                          {.name = "create",
                           .interval = Millis{5'000},
                           .urgency = Urgency::machine,
                           .backoff_first = Seconds{12}},
                          {.name = "list", .interval = Millis{1'000}, .urgency = Urgency::listing},
                          {.name = "search", .interval = Millis{0}, .urgency = Urgency::search}},
            .account_wide = account_wide};
}

HttpResponse answer(int status, std::vector<HttpHeader> headers = {}, std::string body = {}) {
    HttpResponse r;
    r.delivery = Delivery::answered;
    r.status = status;
    r.headers = std::move(headers);
    r.body = std::move(body);
    return r;
}

}  // namespace

TEST_CASE("calls of one endpoint keep its interval, others do not wait for them") {
    ManualClock clock(kT0);
    Pacer pacer(clock, 1, rules());
    REQUIRE(pacer.enter("list", Seconds{60}));
    CHECK(clock.now() == kT0);
    REQUIRE(pacer.enter("destroy", Seconds{60}));
    CHECK(clock.now() == kT0);
    REQUIRE(pacer.enter("list", Seconds{60}));
    CHECK(clock.now() == kT0 + Seconds{1});
    REQUIRE(pacer.enter("list", Seconds{60}));
    CHECK(clock.now() == kT0 + Seconds{2});
}

TEST_CASE("who would wait too long is told how long, and takes no slot") {
    ManualClock clock(kT0);
    Pacer pacer(clock, 1, rules());
    REQUIRE(pacer.enter("create", Seconds{1}));
    const auto refused = pacer.enter("create", Seconds{1});
    REQUIRE(!refused);
    CHECK(refused.error().kind == ErrorKind::rate_limited);
    CHECK(refused.error().retry_after == Seconds{5});
    CHECK(clock.now() == kT0);
    clock.advance(Seconds{5});
    CHECK(pacer.enter("create", Millis{0}));
}

TEST_CASE("a 429 without Retry-After backs off exponentially with jitter, up to the bound") {
    ManualClock clock(kT0);
    Pacer pacer(clock, 7, rules());
    std::vector<Millis> waits;
    for (int i = 0; i < 8; ++i) {
        const auto wait = pacer.learn("list", answer(429, {}, "API requests too frequent"));
        REQUIRE(wait);
        waits.push_back(*wait);
    }
    // 1, 2, 4, 8, 16, 30, 30, 30 s, each up to a quarter longer.
    const std::array<std::int64_t, 8> least{1'000, 2'000, 4'000, 8'000, 16'000, 30'000, 30'000, 30'000};
    for (std::size_t i = 0; i < least.size(); ++i) {
        CAPTURE(i);
        CHECK(waits[i].count() >= least[i]);
        CHECK(waits[i].count() <= least[i] + least[i] / 4);
    }
    CHECK(!pacer.enter("list", Seconds{1}));
    CHECK(pacer.enter("destroy", Millis{0}));  // another endpoint of a provider that limits each by itself
    pacer.learn("list", answer(200));
    const auto again = pacer.learn("list", answer(429));
    CHECK(again->count() < 1'500);
}

TEST_CASE("the threshold that a 429 names becomes the interval, in all four forms of the text") {
    for (
        const std::string body :
        {"API requests too frequent: endpoint threshold=4.5",
         R"({"detail":"API requests too frequent endpoint threshold=4.5"})",
         R"({"success":false,"error":"rate_limit_exceeded","msg":"API requests too frequent endpoint threshold=4.5"})"}) {
        CAPTURE(body);
        ManualClock clock(kT0);
        Pacer pacer(clock, 1, rules());
        const auto wait = pacer.learn("search", answer(429, {}, body));
        REQUIRE(wait);
        CHECK(*wait >= Millis{5'400});
        clock.advance(*wait);
        REQUIRE(pacer.enter("search", Millis{0}));
        const auto next = pacer.enter("search", Millis{0});
        REQUIRE(!next);
        CHECK(next.error().retry_after == Millis{5'400});
    }
}

TEST_CASE("Retry-After is obeyed, for the whole account where the quota is the account's") {
    ManualClock clock(kT0);
    Pacer pacer(clock, 1, rules(true));
    CHECK(pacer.learn("search", answer(429, {{"retry-after", "12"}})) == Seconds{12});
    const auto list = pacer.enter("list", Seconds{1});
    REQUIRE(!list);
    CHECK(list.error().retry_after == Seconds{12});
    REQUIRE(pacer.enter("list", Seconds{60}));
    CHECK(clock.now() == kT0 + Seconds{12});
}

TEST_CASE("destroys are never delayed behind searches: what is left of a quota is kept for them") {
    ManualClock clock(kT0);
    Pacer pacer(clock, 1, rules(true));
    pacer.learn("search", answer(200, {{"ratelimit", R"("minute";r=12;t=30, "hour";r=2800;t=1812)"},
                                       {"ratelimit-policy", R"("minute";q=60;w=60, "hour";q=3000;w=3600)"}}));
    CHECK(pacer.enter("search", Millis{0}));  // 11 left
    CHECK(pacer.enter("search", Millis{0}));  // 10 left: the rest is not for searches
    const auto search = pacer.enter("search", Seconds{5});
    REQUIRE(!search);
    CHECK(search.error().retry_after == Seconds{30});
    CHECK(pacer.enter("list", Millis{0}));
    for (int i = 0; i < 8; ++i) {  // 9 left: creates stop at 2, destroys take all
        clock.advance(Seconds{3});
        CHECK(pacer.enter("destroy", Millis{0}));
    }
    CHECK(!pacer.enter("create", Millis{0}));
    clock.advance(Seconds{6});  // the window is over
    CHECK(pacer.enter("create", Millis{0}));
    CHECK(pacer.enter("search", Millis{0}));
}

TEST_CASE("no window and no hint holds a destroy for longer than five minutes, nor anything for more than an hour") {
    const std::vector<HttpResponse> answers{
        answer(200, {{"ratelimit", R"("day";r=0;t=604800)"}}),
        answer(429, {{"retry-after", "3600"}}),
        answer(429, {{"ratelimit", R"("day";r=0;t=604800)"}}, "try again in 99999 s"),
    };
    for (const auto& one : answers) {
        ManualClock clock(kT0);
        Pacer pacer(clock, 1, rules(true));
        pacer.learn("list", one);
        pacer.learn("destroy", one);
        const auto destroy = pacer.enter("destroy", Seconds{1});
        if (one.status == 429) {
            REQUIRE(!destroy);
            CHECK(destroy.error().retry_after <= std::chrono::minutes{5});
        } else {
            CHECK(destroy);  // a window is no refusal of a destroy
        }
        const auto list = pacer.enter("list", Seconds{1});
        REQUIRE(!list);
        CHECK(list.error().retry_after <= std::chrono::hours{1});
        clock.advance(std::chrono::minutes{5});
        CHECK(pacer.enter("destroy", Millis{0}));
        CHECK(!pacer.enter("list", Millis{0}));
        clock.advance(std::chrono::minutes{55});
        CHECK(pacer.enter("list", Millis{0}));
    }
}

TEST_CASE("an absurd threshold does not slow an endpoint down for good") {
    ManualClock clock(kT0);
    Pacer pacer(clock, 1, rules());
    const auto wait = pacer.learn("search", answer(429, {}, "API requests too frequent: endpoint threshold=3600"));
    REQUIRE(wait);
    CHECK(*wait < Seconds{40});
    clock.advance(*wait);
    REQUIRE(pacer.enter("search", Millis{0}));
    const auto next = pacer.enter("search", Millis{0});
    REQUIRE(!next);
    CHECK(next.error().retry_after == Seconds{30});
}

TEST_CASE("E03: a time to come back is read from header or text") {
    const struct {
        HttpResponse r;
        std::optional<Millis> hint;
    } rows[] = {
        {answer(500, {}, "busy, try again in 60 s"), Seconds{60}},
        {answer(500, {}, R"({"detail":"Try again in 2 minutes."})"), Seconds{120}},
        {answer(503, {{"retry-after", "30"}}, ""), Seconds{30}},
        {answer(503, {{"retry-after", "Mon, 30 Nov 2026 10:00:00 GMT"}}, "retry after 1.5 seconds"),
         Millis{1'500}},
        {answer(503,
                {{"retry-after", "Mon, 30 Nov 2026 10:01:30 GMT"}, {"date", "Mon, 30 Nov 2026 10:00:00 GMT"}}, ""),
         Seconds{90}},
        {answer(503,
                {{"retry-after", "Fri, 01 Jan 2027 00:00:10 GMT"}, {"date", "Thu, 31 Dec 2026 23:59:50 GMT"}}, ""),
         Seconds{20}},
        {answer(503,
                {{"retry-after", "Mon, 30 Nov 2026 09:00:00 GMT"}, {"date", "Mon, 30 Nov 2026 10:00:00 GMT"}}, ""),
         Millis{0}},
        {answer(503,
                {{"retry-after", "Mon, 30 Nov 2027 10:00:00 GMT"}, {"date", "Mon, 30 Nov 2026 10:00:00 GMT"}}, ""),
         std::chrono::hours{1}},
        {answer(503, {{"retry-after", "Mon, 30 Foo 2026 10:00:00 GMT"}, {"date", "Mon, 30 Nov 2026 10:00:00 GMT"}}, ""),
         std::nullopt},
        {answer(503, {{"retry-after", "-5"}}, ""), std::nullopt},
        {answer(503, {{"retry-after", "1.5"}}, ""), std::nullopt},
        {answer(500, {}, "Please wait 60 seconds before the next call."), Seconds{60}},
        {answer(500, {}, R"({"error":"busy","retry_after":60})"), Seconds{60}},
        {answer(500, {}, R"({"error":"busy","retryAfter": "60"})"), Seconds{60}},
        {answer(500, {}, "Retry after 1500 ms"), Millis{1'500}},
        {answer(500, {}, "Retry after 60000 ms"), Seconds{60}},
        {answer(500, {}, "try again in 7200000 milliseconds"), std::chrono::hours{1}},
        {answer(500, {}, "try again in 99999 minutes"), std::chrono::hours{1}},
        {answer(500, {}, "Try again in 1 hour"), std::chrono::hours{1}},
        {answer(500, {}, "please come again in 60s"), Seconds{60}},
        {answer(500, {}, "try again in a while"), std::nullopt},
        {answer(500, {}, "try again in 99999999999999999999 s"), std::nullopt},
        {answer(500, {}, "try again in 99999 s"), std::chrono::hours{1}},
    };
    for (const auto& row : rows) {
        CAPTURE(row.r.body);
        CHECK(retry_hint(row.r) == row.hint);
    }
}

TEST_CASE("unreadable RateLimit headers change nothing") {
    ManualClock clock(kT0);
    Pacer pacer(clock, 1, rules(true));
    for (const auto* text : {"", ";;;", "\"minute\";r=;t=", "\"minute\";r=x;t=5", "\"minute\";r=0;t=-5",
                             "\"minute\";r=0;t=999999999999"})
        pacer.learn("search", answer(200, {{"ratelimit", text}}));
    CHECK(pacer.enter("search", Millis{0}));
}

TEST_CASE("a scaled clock runs at its scale and a sleeper wakes when it says so") {
    ScaledClock clock(kT0, 1000);
    CHECK(clock.now() >= kT0);
    CHECK(clock.now() < kT0 + Seconds{60});
    clock.sleep_until(kT0 + Seconds{30});  // 30 ms of real time
    CHECK(clock.now() >= kT0 + Seconds{30});
    clock.sleep_until(kT0);  // in the past: at once
}

TEST_CASE("where all calls share one interval, none comes sooner after any other") {
    ManualClock clock(kT0);
    auto shared = rules();
    shared.interval_all = Seconds{1};
    Pacer pacer(clock, 1, shared);
    REQUIRE(pacer.enter("search", Seconds{60}));
    REQUIRE(pacer.enter("list", Seconds{60}));
    CHECK(clock.now() == kT0 + Seconds{1});
    REQUIRE(pacer.enter("destroy", Seconds{60}));
    CHECK(clock.now() == kT0 + Seconds{2});
    const auto refused = pacer.enter("search", Millis{999});
    REQUIRE(!refused);
    CHECK(refused.error().retry_after == Seconds{1});
    REQUIRE(pacer.enter("destroy", Seconds{60}));
    CHECK(clock.now() == kT0 + Seconds{5});  // its own interval is the longer one
}

TEST_CASE("the interval of all calls counts from the answer: the request may have arrived only then") {
    ManualClock clock(kT0);
    auto shared = rules();
    shared.interval_all = Seconds{1};
    Pacer pacer(clock, 1, shared);
    REQUIRE(pacer.enter("search", Seconds{60}));
    clock.advance(Millis{400});
    pacer.learn("search", answer(200));
    REQUIRE(pacer.enter("list", Seconds{60}));
    CHECK(clock.now() == kT0 + Millis{1'400});
}

TEST_CASE("a destroy that waits goes before searches that wait longer") {
    ManualClock clock(kT0, true);
    auto shared = rules();
    shared.interval_all = Seconds{10};
    Pacer pacer(clock, 1, shared);
    REQUIRE(pacer.enter("list", Seconds{60}));
    std::mutex mutex;
    std::vector<std::string> order;
    const auto call = [&](const char* name) {
        REQUIRE(pacer.enter(name, std::chrono::hours{1}));
        const std::lock_guard lock(mutex);
        order.emplace_back(name);
    };
    const auto passed = [&](std::size_t calls) {
        const std::lock_guard lock(mutex);
        return order.size() >= calls;
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) threads.emplace_back(call, "search");
    while (pacer.waiting() < 3) std::this_thread::yield();
    threads.emplace_back(call, "destroy");
    while (pacer.waiting() < 4) std::this_thread::yield();
    for (std::size_t calls = 1; calls <= 4; ++calls) {
        clock.advance(Seconds{10});
        while (!passed(calls) || pacer.waiting() + calls < 4) std::this_thread::yield();
    }
    for (auto& t : threads) t.join();
    CHECK(order == std::vector<std::string>{"destroy", "search", "search", "search"});
}

TEST_CASE("a destroy is held by what destroys were refused, by nothing else") {
    ManualClock clock(kT0);
    Pacer pacer(clock, 1, rules(true));
    pacer.learn("search", answer(429, {{"retry-after", "600"}, {"ratelimit", R"("minute";r=0;t=60)"}}));
    CHECK(!pacer.enter("create", Seconds{60}));
    CHECK(!pacer.enter("list", Seconds{60}));
    CHECK(pacer.enter("destroy", Millis{0}));
    CHECK(clock.now() == kT0);
    pacer.learn("destroy", answer(429, {{"retry-after", "20"}}));
    const auto refused = pacer.enter("destroy", Seconds{1});
    REQUIRE(!refused);
    CHECK(refused.error().retry_after == Seconds{20});
}

TEST_CASE("a provider that does not answer is left alone, then asked once, and destroys always go") {
    const auto cut = [] {
        HttpResponse r;
        r.delivery = Delivery::no_answer;
        return r;
    };
    const auto refused = [] {
        HttpResponse r;
        r.delivery = Delivery::not_sent;
        return r;
    };
    const struct {
        const char* what;
        std::vector<HttpResponse> answers;
        bool opens;
    } rows[] = {
        {"five cut connections", {cut(), cut(), cut(), cut(), cut()}, true},
        {"five server errors", {answer(500), answer(502), answer(503), answer(504), answer(524)}, true},
        {"refused and cut", {refused(), cut(), refused(), answer(500), refused()}, true},
        {"four", {cut(), cut(), cut(), cut()}, false},
        {"an answer between", {cut(), cut(), cut(), cut(), answer(404), cut(), cut()}, false},
        {"429 is an answer", {answer(429), answer(429), answer(429), answer(429), answer(429), answer(429)}, false},
        {"so is 401", {answer(401), answer(401), answer(401), answer(401), answer(401)}, false},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        ManualClock clock(kT0);
        Pacer pacer(clock, 1, rules());
        for (const auto& one : row.answers) pacer.learn("search", one);
        const auto create = pacer.enter("create", std::chrono::hours{1});
        CHECK(create.has_value() == !row.opens);
        if (create) continue;
        CHECK(create.error().kind == ErrorKind::unavailable);
        CHECK(clock.now() == kT0);  // at once
        REQUIRE(create.error().retry_after);
        CHECK(*create.error().retry_after >= Seconds{15});
        CHECK(*create.error().retry_after <= Millis{18'750});
        CHECK(pacer.enter("destroy", Millis{0}));
        pacer.learn("destroy", answer(204));
        CHECK(!pacer.enter("list", Millis{0}));  // a destroy that worked says nothing of the rest
        // One trial, and nobody else until it is known.
        clock.advance(*create.error().retry_after);
        CHECK(pacer.enter("list", Millis{0}));
        CHECK(!pacer.enter("create", Millis{0}));
        pacer.learn("list", cut());
        const auto longer = pacer.enter("create", Millis{0});
        REQUIRE(!longer);
        CHECK(*longer.error().retry_after >= Seconds{30});
        CHECK(*longer.error().retry_after <= Millis{37'500});
        clock.advance(*longer.error().retry_after);
        CHECK(pacer.enter("list", Millis{0}));
        pacer.learn("list", answer(200));
        CHECK(pacer.enter("create", Millis{0}));
        CHECK(pacer.enter("search", Millis{0}));
    }
}

TEST_CASE("the waits of a breaker have a bound, and a trial that never reports does not hold it for good") {
    Entropy entropy(3);
    Breaker breaker({});
    auto now = kT0;
    for (int i = 0; i < 5; ++i) breaker.heard(true, now, entropy);
    for (int i = 0; i < 12; ++i) {
        const auto wait = breaker.holds(now);
        REQUIRE(wait);
        CHECK(*wait <= Seconds{150});
        breaker.heard(true, now, entropy);  // of a call that went out before: no news
        CHECK(breaker.holds(now) == wait);
        now += *wait;
        CHECK(!breaker.holds(now));
        breaker.let_out(now);
        breaker.heard(true, now, entropy);
    }
    now += *breaker.holds(now);
    breaker.let_out(now);
    REQUIRE(breaker.holds(now));
    now += Seconds{120};
    CHECK(!breaker.holds(now));
    breaker.let_out(now);
    breaker.heard(false, now, entropy);
    CHECK(!breaker.is_open());
    for (int i = 0; i < 4; ++i) breaker.heard(true, now, entropy);
    CHECK(!breaker.is_open());  // counted anew
}

TEST_CASE("another service of a provider neither opens the breaker nor is held by it") {
    ManualClock clock(kT0);
    auto two = rules();
    two.endpoints.push_back({.name = "balance", .urgency = Urgency::search, .apart = true});
    Pacer pacer(clock, 1, two);
    for (int i = 0; i < 9; ++i) pacer.learn("balance", answer(503));
    CHECK(pacer.enter("list", Millis{0}));
    for (int i = 0; i < 5; ++i) pacer.learn("list", answer(503));
    CHECK(!pacer.enter("create", Millis{0}));
    CHECK(pacer.enter("balance", Millis{0}));
}

TEST_CASE("an endpoint can be held for what its provider says otherwise, with the same bounds") {
    ManualClock clock(kT0);
    Pacer pacer(clock, 1, rules());
    CHECK(pacer.hold("search", Seconds{600}) == Seconds{600});
    CHECK(!pacer.enter("search", Seconds{599}));
    CHECK(pacer.enter("list", Millis{0}));
    CHECK(pacer.hold("search", Seconds{10}) == Seconds{10});  // never shortens
    CHECK(!pacer.enter("search", Seconds{599}));
    CHECK(pacer.hold("search", std::chrono::hours{24}) == std::chrono::hours{1});
    CHECK(pacer.hold("destroy", std::chrono::hours{24}) == std::chrono::minutes{5});
    CHECK(pacer.enter("search", std::chrono::hours{1}));
}

TEST_CASE("neither a refusal nor a quota passes between a provider and another service of it") {
    ManualClock clock(kT0);
    auto two = rules(true);
    two.endpoints.push_back({.name = "balance", .urgency = Urgency::search, .apart = true});
    two.endpoints.push_back({.name = "spot", .urgency = Urgency::machine, .apart = true});
    const std::vector<HttpHeader> empty{{"retry-after", "600"},
                                        {"ratelimit-policy", "\"hour\";q=100;w=3600"},
                                        {"ratelimit", "\"hour\";r=0;t=600"}};
    SUBCASE("from the other service") {
        Pacer pacer(clock, 1, two);
        REQUIRE(pacer.learn("balance", answer(429, empty)) == Seconds{600});
        for (const char* mine : {"create", "list", "search", "spot"}) {
            CAPTURE(mine);
            CHECK(pacer.enter(mine, Millis{0}));
        }
        CHECK(!pacer.enter("balance", Seconds{599}));
    }
    SUBCASE("to the other service") {
        Pacer pacer(clock, 1, two);
        pacer.learn("search", answer(429, empty));
        CHECK(!pacer.enter("create", Millis{0}));
        CHECK(pacer.enter("balance", Millis{0}));
        CHECK(pacer.enter("spot", Millis{0}));
    }
    SUBCASE("its calls are not counted") {
        Pacer pacer(clock, 1, two);
        pacer.learn("list", answer(200, {{"ratelimit-policy", "\"hour\";q=100;w=3600"}, {"ratelimit", "\"hour\";r=11;t=600"}}));
        for (int i = 0; i < 5; ++i) REQUIRE(pacer.enter("balance", Millis{0}));
        CHECK(pacer.enter("search", Millis{0}));  // the tenth is the last that is left for others
        CHECK(!pacer.enter("search", Millis{0}));
    }
}
