// The history of the market: what is written is read, days replace changes, and a file that is no good is told as such.
#include "db/market_store.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "db/migrations.hpp"
#include "db/sqlite_store.hpp"
#include "tests/db/failing_vfs.hpp"
#include "tests/db/sample_rows.hpp"

using namespace gf;
using namespace gf::test;

namespace {

using std::chrono::days;
using std::chrono::hours;

/// The beginning of a day, and hours after it.
constexpr Instant kDay = Instant{days{20'000}};
constexpr Instant at(std::int64_t hour) { return kDay + hours{hour}; }

MarketKey key(const std::string& host, int count = 1, const std::string& card = "RTX 4090") {
    return {.provider = ProviderName{"vastai"}, .place = "host/" + host, .card = card, .gpu_count = count, .spot = true};
}
MarketPoint up(std::int64_t hour, std::int64_t micros) { return {at(hour), MarketState::up, UsdPerHour{micros}}; }
MarketPoint down(std::int64_t hour) { return {at(hour), MarketState::down, UsdPerHour{}}; }
MarketPoint unknown(std::int64_t hour) { return {at(hour), MarketState::unknown, UsdPerHour{}}; }
MarketSight seen(const MarketKey& k, std::int64_t hour) { return {.key = k, .seen = at(hour), .shown = at(hour), .price = {}}; }

std::vector<MarketChange> changes(const MarketKey& k, const std::vector<MarketPoint>& points) {
    std::vector<MarketChange> out;
    for (const auto& p : points) out.push_back({k, p});
    return out;
}

MarketQuery span(std::int64_t from, std::int64_t to) {
    return {.provider = {}, .cards = {}, .gpu_count = {}, .spot = {}, .from = at(from), .to = at(to)};
}

struct Bench {
    TempFolder folder{true};
    std::string path = folder.file("history.db");
    std::unique_ptr<MarketStore> store = open_market_store(path).value();

    void tidy(Instant now, const MarketPolicy& policy) {
        for (int batch = 0; batch < 1000; ++batch) {
            const auto done = store->tidy(now, policy);
            REQUIRE(done);
            if (*done == 0) return;
        }
        FAIL("it never ends");
    }
    std::vector<MarketTrack> read(const MarketQuery& query) {
        auto tracks = read_market(path, query);
        REQUIRE_MESSAGE(tracks, (tracks ? "" : tracks.error().message));
        return *std::move(tracks);
    }
};

std::vector<std::string> hosts(const std::vector<MarketTrack>& tracks) {
    std::vector<std::string> out;
    for (const auto& t : tracks) out.push_back(t.key.place.substr(5) + "x" + std::to_string(t.key.gpu_count));
    return out;
}
using Hosts = std::vector<std::string>;

}  // namespace

TEST_CASE("what is written is read, by what was asked for") {
    Bench b;
    auto other = key("9", 1, "H100");
    other.spot = false;
    other.provider = ProviderName{"lambda"};
    for (const auto& part : {changes(key("7"), {up(1, 300), down(3), up(4, 310)}), changes(key("7", 2), {up(1, 600)}), changes(other, {up(2, 2000)})})
        REQUIRE(b.store->write(part, {seen(key("7"), 10), seen(key("7", 2), 10), seen(other, 10)}));
    const auto all = b.read(span(0, 8));
    CHECK(hosts(all) == Hosts{"9x1", "7x1", "7x2"});  // in order of key: the provider first
    CHECK(all[1].points == std::vector{unknown(0), up(1, 300), down(3), up(4, 310)});
    CHECK(b.read(span(2, 8))[1].points == std::vector{up(2, 300), down(3), up(4, 310)});
    const auto with = [&](auto change) {
        auto query = span(0, 8);
        change(query);
        return hosts(b.read(query));
    };
    CHECK(with([](MarketQuery& q) { q.cards = {"H100"}; }) == Hosts{"9x1"});
    CHECK(with([](MarketQuery& q) { q.cards = {"RTX 4090", "H100", "H100"}; }) == Hosts{"9x1", "7x1", "7x2"});
    CHECK(with([](MarketQuery& q) { q.cards = {"B200"}; }) == Hosts{});
    CHECK(with([](MarketQuery& q) { q.gpu_count = 2; }) == Hosts{"7x2"});
    CHECK(with([](MarketQuery& q) { q.provider = "lambda"; }) == Hosts{"9x1"});
    CHECK(with([](MarketQuery& q) { q.spot = false; }) == Hosts{"9x1"});
    // Before the first look, and beyond what the last one stands for.
    CHECK(b.read(span(-5, 0)).empty());
    CHECK(b.read(span(5, 20))[0].points == std::vector{up(5, 2000), unknown(11)});
    CHECK(b.read(span(11, 20)).empty());
}

TEST_CASE("more than is allowed is told with the bound, and never half") {
    Bench b;
    for (int i = 0; i < 5; ++i) REQUIRE(b.store->write(changes(key(std::to_string(i)), {up(0, 1), up(1, 2), up(2, 3)}), {}));
    auto query = span(0, 3);
    query.places_most = 5;
    query.points_most = 15;
    CHECK(b.read(query).size() == 5);
    query.places_most = 4;
    const auto places = read_market(b.path, query);
    REQUIRE(!places);
    CHECK(places.error().kind == ErrorKind::invalid);
    CHECK(places.error().message.find("more than 4 places") != std::string::npos);
    query.places_most = 5;
    query.points_most = 14;
    const auto points = read_market(b.path, query);
    REQUIRE(!points);
    CHECK(points.error().message.find("more than 14 changes") != std::string::npos);
}

TEST_CASE("a point at the same moment replaces the one before, and a sight never goes back") {
    Bench b;
    REQUIRE(b.store->write(changes(key("7"), {up(1, 300)}), {seen(key("7"), 6)}));
    REQUIRE(b.store->write(changes(key("7"), {up(1, 400)}), {seen(key("7"), 3), seen(key("none"), 3)}));
    CHECK(b.read(span(1, 9))[0].points == std::vector{up(1, 400), unknown(7)});
    const auto kept = b.store->remembered(at(0), 10);
    REQUIRE(kept);
    REQUIRE(kept->size() == 1);
    CHECK(kept->front().sight == MarketSight{.key = key("7"), .seen = at(6), .shown = at(6), .price = UsdPerHour{400}});
    CHECK(kept->front().last == up(1, 400));
}

TEST_CASE("a book is rebuilt of what was shown last, with the price that it had") {
    Bench b;
    for (int i = 0; i < 4; ++i) REQUIRE(b.store->write(changes(key(std::to_string(i)), {up(i, 100 + i), down(i + 10)}), {}));
    const auto all = b.store->remembered(at(1), 2);
    REQUIRE(all);
    REQUIRE(all->size() == 2);
    CHECK((*all)[0].sight == MarketSight{.key = key("3"), .seen = at(13), .shown = at(3), .price = UsdPerHour{103}});
    CHECK((*all)[0].last == down(13));
    CHECK((*all)[1].sight.key == key("2"));
    CHECK(b.store->remembered(at(4), 10)->empty());
}

TEST_CASE("after its time a change is a day's row that says the same in sum") {
    Bench b;
    // Up and down through five days, a hole of unknown, one place that never changes, one that ended.
    std::vector<MarketPoint> points;
    for (std::int64_t h = 5; h < 5 * 24; h += 3) points.push_back(h % 9 == 2 ? down(h) : up(h, 100 + h % 50));
    points.push_back(unknown(60));
    std::ranges::sort(points, {}, &MarketPoint::at);
    points.erase(std::unique(points.begin(), points.end(), [](const auto& x, const auto& y) { return x.at == y.at; }), points.end());
    REQUIRE(b.store->write(changes(key("7"), points), {seen(key("7"), 200)}));
    REQUIRE(b.store->write(changes(key("8"), {up(7, 50)}), {seen(key("8"), 200)}));
    REQUIRE(b.store->write(changes(key("9"), {up(7, 50), unknown(9)}), {}));
    const auto before = b.read(span(0, 100));
    REQUIRE(hosts(before) == Hosts{"7x1", "8x1", "9x1"});

    const MarketPolicy policy{.raw = days{2}, .days = days{1000}, .places_per_batch = 2};
    b.tidy(at(5 * 24 + 1), policy);  // days 0, 1 and 2 go
    auto query = span(0, 100);
    const auto after = b.read(query);
    REQUIRE(hosts(after) == Hosts{"7x1", "8x1", "9x1"});
    for (std::size_t i = 0; i < 3; ++i) {
        CAPTURE(i);
        std::vector<MarketDay> expected;
        for (std::int64_t day = 0; day < 3; ++day)
            if (const auto sum = market_sum(before[i].points, at(day * 24), at(day * 24 + 24)); sum.known > Millis{0})
                expected.push_back({at(day * 24), sum});
        CHECK(after[i].days == expected);
        // What follows is untouched.
        CHECK(market_window(after[i].points, at(72), at(100), at(200)) == market_window(before[i].points, at(72), at(100), at(200)));
    }
    CHECK(after[0].days.size() == 3);
    CHECK(after[2].days.size() == 1);
    CHECK(after[2].points.empty());
    // Once more changes nothing, and the next day goes on from there.
    b.tidy(at(5 * 24 + 2), policy);
    CHECK(b.read(query)[0].days == after[0].days);
    b.tidy(at(6 * 24 + 2), policy);
    const auto later = b.read(span(0, 120));
    CHECK(later[0].days.size() == 4);
    CHECK(later[1].days.back() == MarketDay{at(72), {.known = hours{24}, .up = hours{24}, .p10 = UsdPerHour{50}, .p50 = UsdPerHour{50},
                                                      .p90 = UsdPerHour{50}, .changes = 0}});
    // The rows of days end too, and with the last of them the place.
    b.tidy(at(6 * 24 + 2), {.raw = days{2}, .days = days{3}});
    b.tidy(at(7 * 24 + 2), {.raw = days{2}, .days = days{3}});
    b.tidy(at(8 * 24 + 2), {.raw = days{2}, .days = days{3}});
    CHECK(hosts(b.read(span(0, 24 * 9))) == Hosts{"7x1", "8x1"});
}

TEST_CASE("a batch is small") {
    Bench b;
    for (int i = 0; i < 7; ++i) REQUIRE(b.store->write(changes(key(std::to_string(i)), {up(0, 1), unknown(2)}), {}));
    const MarketPolicy policy{.raw = days{1}, .days = days{1000}, .places_per_batch = 3};
    std::vector<int> batches;
    for (int i = 0; i < 5; ++i) batches.push_back(b.store->tidy(at(24 * 3), policy).value());
    CHECK(batches == std::vector{3, 3, 1, 0, 0});
}

TEST_CASE("a file that is too large gives up its oldest changes before their time, but not the last week's") {
    Bench b;
    for (int day = 0; day < 30; ++day) {
        std::vector<MarketPoint> points;
        for (int i = 0; i < 2'000; ++i) points.push_back({at(day * 24) + Seconds{40 * i}, MarketState::up, UsdPerHour{1000 + i}});
        REQUIRE(b.store->write(changes(key("7"), points), {seen(key("7"), day * 24 + 24)}));
    }
    const auto whole = b.store->bytes().value();
    const MarketPolicy roomy{.raw = days{90}, .days = days{1000}, .bytes_most = whole + 1};
    CHECK(b.store->tidy(at(30 * 24), roomy).value() == 0);
    const MarketPolicy tight{.raw = days{90}, .days = days{1000}, .bytes_most = whole / 2};
    b.tidy(at(30 * 24), tight);
    CHECK(b.store->bytes().value() <= whole / 2);
    auto query = span(0, 30 * 24);
    const auto halved = b.read(query);
    CHECK(halved[0].days.size() > 10);
    CHECK(halved[0].days.size() < 20);
    b.tidy(at(30 * 24), {.raw = days{90}, .days = days{1000}, .bytes_most = 1});
    const auto least = b.read(query);
    CHECK(least[0].days.size() == 23);
    // Unknown at first, what held at the beginning of the week, and the week.
    CHECK(least[0].points.size() == 2 + 7 * 2'000);
}

TEST_CASE("the file is private, outlives its writer, and one that is no good is told") {
    TempFolder folder(true);
    const auto path = folder.file("history.db");
    {
        const auto store = open_market_store(path);
        REQUIRE(store);
        REQUIRE((*store)->write(changes(key("7"), {up(1, 300)}), {}));
        struct stat s {};
        REQUIRE(::stat(path.c_str(), &s) == 0);
        CHECK((s.st_mode & 0777) == 0600);
    }
    CHECK(read_market(path, span(0, 2))->size() == 1);
    CHECK(open_market_store(path).value()->remembered(at(0), 9).value().size() == 1);
    CHECK(read_market(folder.file("none.db"), span(0, 2)).error().kind == ErrorKind::not_found);
    CHECK(!std::filesystem::exists(folder.file("none.db")));

    const auto noise = folder.file("noise.db");
    std::ofstream(noise) << std::string(20'000, 'x');
    CHECK(open_market_store(noise).error().kind == ErrorKind::malformed);
    CHECK(read_market(noise, span(0, 2)).error().kind == ErrorKind::malformed);
    const auto main_store = folder.file("gpuferry.db");
    REQUIRE(open_sqlite_store(main_store));
    CHECK(open_market_store(main_store).error().kind == ErrorKind::malformed);
    {
        db::Connection newer(path);
        newer.run("PRAGMA user_version = 99");
    }
    CHECK(open_market_store(path).error().kind == ErrorKind::conflict);

    // Damage in the middle of a file that opens.
    const auto torn = folder.file("torn.db");
    {
        const auto store = open_market_store(torn).value();
        for (int i = 0; i < 300; ++i) REQUIRE(store->write(changes(key(std::to_string(i)), {up(1, 300), down(2), up(3, 4)}), {}));
    }
    {
        std::fstream file(torn, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(4096);
        file << std::string(200'000, 'x');
    }
    const auto opened = open_market_store(torn);
    const auto kind = !opened ? opened.error().kind : (*opened)->write(changes(key("7"), {up(9, 1)}), {}).error().kind;
    CHECK(kind == ErrorKind::malformed);
}

TEST_CASE("a full or failing disk is told as such, and what was there stays") {
    struct Row {
        int code;
        ErrorKind kind;
    };
    for (const auto& row : {Row{SQLITE_FULL, ErrorKind::full}, Row{SQLITE_IOERR_WRITE, ErrorKind::io}}) {
        CAPTURE(row.code);
        FailingVfs disk;
        Bench b;
        REQUIRE(b.store->write(changes(key("7"), {up(1, 300)}), {}));
        disk.fail_at(1, row.code);
        const auto refused = b.store->write(changes(key("8"), {up(1, 300)}), {});
        REQUIRE(!refused);
        CHECK(refused.error().kind == row.kind);
        disk.heal();
        REQUIRE(b.store->write(changes(key("9"), {up(1, 300)}), {}));
        CHECK(hosts(b.read(span(1, 2))) == Hosts{"7x1", "9x1"});
    }
}

TEST_CASE("the states of the schema are those of the vocabulary") {
    TempFolder folder(true);
    const auto path = folder.file("history.db");
    REQUIRE(open_market_store(path));
    db::Connection file(path);
    for (const auto& [state, name] : EnumNames<MarketState>::table) {
        CAPTURE(std::string(name));
        const std::string row = "INSERT INTO changes VALUES (1, " + std::to_string(static_cast<int>(state)) + ", '" + std::string(name) + "', " +
                                (state == MarketState::up ? "5" : "NULL") + ")";
        file.run("PRAGMA foreign_keys = OFF");
        file.run(row.c_str());
    }
    CHECK_THROWS_AS(file.run("INSERT INTO changes VALUES (1, 9, 'gone', NULL)"), db::SqliteError);
    CHECK_THROWS_AS(file.run("INSERT INTO changes VALUES (1, 9, 'up', NULL)"), db::SqliteError);
}
