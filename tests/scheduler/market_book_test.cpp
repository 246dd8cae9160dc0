#include "scheduler/market_book.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace gf;

namespace {

constexpr Instant at(std::int64_t minute) { return instant_of(1'790'000'000'000 + minute * 60'000); }

Offer ask(const std::string& host, std::int64_t micros, int count = 1, bool spot = true) {
    Offer o;
    o.provider = ProviderName{"vastai"};
    o.id = "bid/" + host + std::to_string(count);
    o.spot = spot;
    o.exclusive = true;
    o.gpu = {.canonical = "RTX 4090", .provider_name = "RTX 4090", .memory = {}};
    o.gpu_count = count;
    o.gpu_rate = UsdPerHour{micros};
    o.country = "DE";
    o.host_id = host;
    return o;
}

MarketLook look_at(std::int64_t minute, std::vector<Offer> offers) {
    return {.provider = ProviderName{"vastai"}, .at = at(minute), .read_at = {}, .offers = std::move(offers), .unreadable = {},
            .gpu_counts = {1, 2}, .on_demand = true, .spot = true, .cards = {}, .regions = {}, .reaches = {}};
}

MarketKey key_of(const std::string& host, int count = 1, bool spot = true) { return *market_key(ask(host, 1, count, spot)); }

/// "7 up 300 @5": host, state, price, minute.
std::vector<std::string> told(const std::vector<MarketChange>& changes) {
    std::vector<std::string> out;
    for (const auto& c : changes) {
        std::string line = c.key.place.substr(c.key.place.find('/') + 1) + " " + std::string(text(c.point.state));
        if (c.point.state == MarketState::up) line += " " + std::to_string(c.point.price.micros);
        out.push_back(line + " @" + std::to_string((c.point.at - at(0)) / std::chrono::minutes{1}));
    }
    return out;
}
using Told = std::vector<std::string>;

}  // namespace

TEST_CASE("looks become changes: new, dearer, cheaper, gone, back") {
    MarketBook book;
    CHECK(told(book.look(look_at(0, {ask("7", 300), ask("8", 200)}), {})) == Told{"7 up 300 @0", "8 up 200 @0"});
    CHECK(told(book.look(look_at(1, {ask("7", 300), ask("8", 200)}), {})) == Told{});
    CHECK(told(book.look(look_at(2, {ask("7", 310), ask("8", 190)}), {})) == Told{"7 up 310 @2", "8 up 190 @2"});
    CHECK(told(book.look(look_at(3, {ask("8", 190)}), {})) == Told{"7 down @3"});
    CHECK(told(book.look(look_at(4, {ask("8", 190)}), {})) == Told{});
    CHECK(told(book.look(look_at(5, {ask("7", 310), ask("8", 190)}), {})) == Told{"7 up 310 @5"});
    CHECK(told(book.look(look_at(6, {}), {})) == Told{"7 down @6", "8 down @6"});
}

TEST_CASE("the cheapest offer of a key is its price, whatever it is called this time") {
    MarketBook book;
    auto dear = ask("7", 400);
    dear.id = "bid/other";
    CHECK(told(book.look(look_at(0, {dear, ask("7", 300)}), {})) == Told{"7 up 300 @0"});
    CHECK(told(book.look(look_at(1, {dear}), {})) == Told{"7 up 400 @1"});
}

TEST_CASE("absence counts only in a look that would have shown the key") {
    struct Row {
        const char* what;
        void (*change)(MarketLook&);
        bool down;
    };
    const std::vector<Row> rows{
        {"a whole look at everything", [](MarketLook&) {}, true},
        {"its answer has drifted", [](MarketLook& l) { l.drifted = true; }, false},
        {"a demand in figures", [](MarketLook& l) { l.by_figures = true; }, false},
        {"of another count", [](MarketLook& l) { l.gpu_counts = {2, 4}; }, false},
        {"of the other kind", [](MarketLook& l) { l.spot = false; }, false},
        {"of its card", [](MarketLook& l) { l.cards = {"RTX 3090", "RTX 4090"}; }, true},
        {"of other cards", [](MarketLook& l) { l.cards = {"RTX 3090"}; }, false},
        {"of its region", [](MarketLook& l) { l.regions = {"EU"}; }, true},
        {"of another region", [](MarketLook& l) { l.regions = {"US"}; }, false},
        {"its offer stood there unreadable", [](MarketLook& l) { l.unreadable = {"bid/71"}; }, false},
        {"another's did", [](MarketLook& l) { l.unreadable = {"bid/81"}; }, true},
        {"cut beyond its price", [](MarketLook& l) { l.reaches = {{1, true, "", "", UsdPerHour{301}}}; }, true},
        {"cut at its price", [](MarketLook& l) { l.reaches = {{1, true, "", "", UsdPerHour{300}}}; }, false},
        {"not read at all", [](MarketLook& l) { l.reaches = {{1, true, "", "", UsdPerHour{0}}}; }, false},
        {"the other kind was cut", [](MarketLook& l) { l.reaches = {{1, false, "", "", UsdPerHour{0}}}; }, true},
        {"its card was cut, the rest is whole", [](MarketLook& l) { l.reaches = {{1, true, "", "", {}}, {1, true, "RTX 4090", "", UsdPerHour{10}}}; }, false},
        {"its card is whole, the rest was cut", [](MarketLook& l) { l.reaches = {{1, true, "RTX 4090", "", {}}, {1, true, "", "", UsdPerHour{10}}}; }, true},
        {"its place was not read", [](MarketLook& l) { l.reaches = {{1, true, "RTX 4090", "", {}}, {1, true, "", "host/7", UsdPerHour{0}}}; }, false},
        {"another place was not read", [](MarketLook& l) { l.reaches = {{1, true, "", "host/8", UsdPerHour{0}}}; }, true},
        {"of another provider", [](MarketLook& l) { l.provider = ProviderName{"runpod"}; }, false},
        {"older than what is known", [](MarketLook& l) { l.at = at(-1); }, false},
        {"read before what is known", [](MarketLook& l) { l.read_at[{1, true}] = at(-1); }, false},
        {"only vetted hosts, and it is one", [](MarketLook& l) { l.vetted_only = true; }, true},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        MarketBook book;
        (void)book.look(look_at(0, {ask("7", 300)}), {});
        MarketLook look = look_at(5, {});
        row.change(look);
        CHECK(told(book.look(look, {})) == (row.down ? Told{"7 down @5"} : Told{}));
    }
}

TEST_CASE("a host that is known not to be vetted is not missed where only vetted ones were asked for") {
    MarketBook book;
    auto unvetted = ask("7", 300);
    unvetted.verified = false;
    (void)book.look(look_at(0, {unvetted}), {});
    auto look = look_at(5, {});
    look.vetted_only = true;
    CHECK(told(book.look(look, {})) == Told{});
    CHECK(told(book.look(look_at(6, {}), {})) == Told{"7 down @6"});
}

TEST_CASE("listed without stock is down") {
    MarketBook book;
    auto listed = ask("7", 300);
    listed.stock = 0;
    CHECK(told(book.look(look_at(0, {listed}), {})) == Told{"7 down @0"});
    listed.stock = -1;
    CHECK(told(book.look(look_at(1, {listed}), {})) == Told{"7 up 300 @1"});
    listed.stock = 0;
    CHECK(told(book.look(look_at(2, {listed}), {})) == Told{"7 down @2"});
}

TEST_CASE("a gap without looks is unknown, from the last look on") {
    MarketBook book;
    (void)book.look(look_at(0, {ask("7", 300), ask("8", 200)}), {});
    (void)book.look(look_at(10, {ask("7", 300)}), {});
    CHECK(told(book.age(at(70))) == Told{});
    CHECK(told(book.age(at(71))) == Told{"7 unknown @10", "8 unknown @10"});
    CHECK(told(book.age(at(200))) == Told{});
    CHECK(told(book.look(look_at(201, {ask("7", 300)}), {})) == Told{"7 up 300 @201", "8 down @201"});

    // The same without anything that ages in between: the look itself finds the gap.
    CHECK(told(book.look(look_at(300, {ask("7", 300)}), {})) ==
          Told{"7 unknown @201", "7 up 300 @300", "8 unknown @201", "8 down @300"});
}

TEST_CASE("what we hold ourselves is not missing, and its neighbours on that host are not judged") {
    MarketBook book;
    (void)book.look(look_at(0, {ask("7", 300, 2), ask("7", 150, 1), ask("8", 200, 2)}), {});
    const HeldKeys held{key_of("7", 2)};
    CHECK(told(book.look(look_at(40, {}), held)) == Told{"8 down @40"});
    // The one is carried on by being held; of the other nothing was learned.
    CHECK(told(book.age(at(70))) == Told{"7 unknown @0"});
    CHECK(told(book.look(look_at(80, {}), {})) == Told{"7 down @80", "7 down @80"});
}

TEST_CASE("places are the narrowest thing that lasts") {
    Offer o = ask("", 100);
    struct Row {
        std::string host, cloud, data_center, region, place;
    };
    for (const auto& row : std::vector<Row>{{"7", "", "", "Berlin, DE", "host/7"},
                                            {"", "secure", "EU-RO-1", "EU-RO-1", "cloud/secure"},
                                            {"", "", "us-east-1", "us-east-1", "data_center/us-east-1"},
                                            {"", "", "", "ams", "region/ams"},
                                            {"", "", "", "", "any"}}) {
        o.host_id = row.host;
        o.cloud = row.cloud;
        o.data_center = row.data_center;
        o.region = row.region;
        CHECK(market_key(o)->place == row.place);
    }
    o.gpu_share = 0.125;
    CHECK(market_key(o)->share == 125);
    o.gpu.canonical.clear();
    CHECK(!market_key(o));
}

TEST_CASE("the book is bounded, and what was shown longest ago goes first, not without a word") {
    MarketBook book(20);
    for (int i = 0; i < 20; ++i) (void)book.look(look_at(i, {ask(std::to_string(100 + i), 300)}), {});
    auto look = look_at(20, {ask("200", 300)});
    look.by_figures = true;
    // One has to go and one more makes room; all but the newest were down already, and the newest stays.
    const auto changes = book.look(look, {});
    CHECK(book.size() == 19);
    CHECK(told(changes) == Told{"100 unknown @19", "101 unknown @19", "200 up 300 @20"});
}

TEST_CASE("what was not shown for a week is let go") {
    MarketBook book;
    (void)book.look(look_at(0, {ask("7", 300), ask("8", 300)}), {});
    constexpr std::int64_t week = 7 * 24 * 60;
    std::vector<MarketChange> all;
    for (std::int64_t m = 30; m <= week + 30; m += 30) {
        for (auto& c : book.look(look_at(m, {ask("8", 300)}), {})) all.push_back(c);
        for (auto& c : book.age(at(m))) all.push_back(c);
    }
    CHECK(book.size() == 1);
    CHECK(told(all) == Told{"7 down @30", "7 unknown @" + std::to_string(week + 30)});
}

TEST_CASE("a state lasts over a restart, a long one leaves a gap, and prices of before serve for cut answers") {
    const auto restored = [](MarketState state, std::int64_t price) {
        MarketBook book;
        book.restore({.key = key_of("7"), .seen = at(0), .shown = at(0), .price = UsdPerHour{price}},
                     {.at = at(-60), .state = state, .price = UsdPerHour{state == MarketState::up ? price : 0}});
        return book;
    };
    CHECK(told(restored(MarketState::up, 300).look(look_at(30, {ask("7", 300)}), {})) == Told{});
    CHECK(told(restored(MarketState::up, 300).look(look_at(30, {}), {})) == Told{"7 down @30"});
    CHECK(told(restored(MarketState::up, 300).look(look_at(90, {ask("7", 300)}), {})) == Told{"7 unknown @0", "7 up 300 @90"});
    auto cut = look_at(30, {});
    cut.reaches = {{1, true, "", "", UsdPerHour{250}}};
    CHECK(told(restored(MarketState::unknown, 300).look(cut, {})) == Told{});
    CHECK(told(restored(MarketState::unknown, 200).look(cut, {})) == Told{"7 down @30"});
}

TEST_CASE("after a restart, who asks for vetted hosts alone misses nothing that was not shown since") {
    MarketBook book;
    book.restore({.key = key_of("7"), .seen = at(0), .shown = at(0), .price = UsdPerHour{300}},
                 {.at = at(-60), .state = MarketState::up, .price = UsdPerHour{300}});
    auto vetted = look_at(5, {});
    vetted.vetted_only = true;
    CHECK(told(book.look(vetted, {})) == Told{});
    vetted = look_at(6, {ask("7", 300)});
    vetted.vetted_only = true;
    CHECK(told(book.look(vetted, {})) == Told{});
    vetted = look_at(7, {});
    vetted.vetted_only = true;
    CHECK(told(book.look(vetted, {})) == Told{"7 down @7"});
}

TEST_CASE("the order of offers in an answer changes nothing") {
    std::vector<Offer> offers;
    for (int i = 0; i < 50; ++i) offers.push_back(ask(std::to_string(i % 20), 100 + i * 7 % 13, 1 + i % 2));
    const auto play = [&](auto shuffle) {
        MarketBook book(30);
        std::vector<MarketChange> all;
        for (std::int64_t m = 0; m < 200; m += 10) {
            std::vector<Offer> part(offers.begin() + m / 20, offers.end() - m / 10);
            shuffle(part);
            for (auto& c : book.look(look_at(m, part), {})) all.push_back(c);
        }
        return all;
    };
    const auto first = play([](auto&) {});
    CHECK(first.size() > 30);
    CHECK(play([](auto& part) { std::ranges::reverse(part); }) == first);
    CHECK(play([](auto& part) { std::ranges::rotate(part, part.begin() + 7); }) == first);
}

TEST_CASE("what has to be stored is what was covered since") {
    MarketBook book;
    (void)book.look(look_at(0, {ask("7", 300), ask("8", 200)}), {});
    CHECK(book.newest() == at(0));
    auto only_seven = look_at(10, {ask("7", 300)});
    only_seven.by_figures = true;
    (void)book.look(only_seven, {});
    CHECK(book.seen_after(at(0)) ==
          std::vector<MarketSight>{{.key = key_of("7"), .seen = at(10), .shown = at(10), .price = UsdPerHour{300}}});
    CHECK(book.seen_after(at(10)).empty());
}
