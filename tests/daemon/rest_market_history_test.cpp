#include <doctest/doctest.h>

#include "db/market_store.hpp"
#include "tests/daemon/support/rest_bench.hpp"

namespace gf::test {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

/// A day's beginning, so that texts are short.
constexpr Instant kFrom = Instant{std::chrono::days{20'000}};
const std::string kSpan = "from=2024-10-04&to=2024-10-05";

MarketKey key(const std::string& host, bool spot = true, const std::string& card = "RTX-4090", int count = 1) {
    return {.provider = ProviderName{"vastai"}, .place = "host/" + host, .card = card, .gpu_count = count, .spot = spot};
}

class HistoryBench {
 public:
    HistoryBench()
        : rest([this](ServerOptions& o) {
              o.read_market = [this](const MarketQuery& query) {
                  asked = query;
                  return read_market(path, query);
              };
          }) {}
    void add(const MarketKey& k, const std::vector<MarketPoint>& points) {
        auto store = open_market_store(path).value();
        for (const auto& p : points) REQUIRE(store->write({{k, p}}, {}));
        REQUIRE(store->write({}, {{.key = k, .seen = kFrom + hours{23}, .shown = kFrom, .price = {}}}));
    }
    [[nodiscard]] nlohmann::json get(const std::string& query) {
        const auto got = rest.get("/v1/offers/history" + (query.empty() ? "" : "?" + query));
        CHECK_MESSAGE(got.status == 200, got.body);
        return parsed(got);
    }

    TemporaryFolder folder;
    std::string path = folder / "history.db";
    MarketQuery asked;
    RestBench rest;
};

MarketPoint up(Millis after, std::int64_t micros) { return {kFrom + after, MarketState::up, UsdPerHour{micros}}; }
MarketPoint down(Millis after) { return {kFrom + after, MarketState::down, UsdPerHour{}}; }

TEST_CASE("the history of offers is told with its sums, at times or at ticks") {
    HistoryBench b;
    b.add(key("7"), {up(hours{0}, 300'000), down(hours{6}), up(hours{12} + minutes{7}, 412'500)});
    b.add(key("8", false), {up(hours{2}, 500'000)});
    const auto all = b.get(kSpan);
    CHECK(all.at("from") == "2024-10-04T00:00:00.000Z");
    CHECK(all.at("tick").is_null());
    CHECK(all.at("next_cursor").is_null());
    REQUIRE(all.at("items").size() == 2);
    const auto& seven = all.at("items").at(0);
    CHECK(seven.at("zone") == "vastai/host/7/RTX-4090 x1/spot");
    CHECK(seven.at("gpu") == "RTX-4090");
    CHECK(seven.at("spot") == true);
    CHECK(seven.at("known_share") == 1.0);
    CHECK(seven.at("up_share") == doctest::Approx(0.7451));
    CHECK(seven.at("p10") == "0.30");
    CHECK(seven.at("p50") == "0.4125");
    CHECK(seven.at("changes") == 2);
    CHECK(seven.at("points") == nlohmann::json::parse(R"([["2024-10-04T00:00:00.000Z","up","0.30"],["2024-10-04T06:00:00.000Z","down",null],
                                                          ["2024-10-04T12:07:00.000Z","up","0.4125"]])"));
    CHECK(seven.at("days").empty());
    CHECK(all.at("items").at(1).at("points").at(0) == nlohmann::json::parse(R"(["2024-10-04T00:00:00.000Z","unknown",null])"));

    const auto ticks = b.get(kSpan + "&tick=10m&spot=1");
    CHECK(ticks.at("tick") == "10m");
    CHECK(ticks.at("ticks") == 144);
    REQUIRE(ticks.at("items").size() == 1);
    CHECK(ticks.at("items").at(0).at("points") == nlohmann::json::parse(R"([[0,"up","0.30"],[36,"down",null],[73,"up","0.4125"]])"));
}

TEST_CASE("what is asked of the history reaches the store as it was meant") {
    HistoryBench b;
    (void)b.get(kSpan + "&gpu=rtx+4090&gpus=2&provider=vastai&spot=0");
    CHECK(b.asked.cards == std::vector<std::string>{"RTX-4090"});
    CHECK(b.asked.gpu_count == 2);
    CHECK(b.asked.provider == "vastai");
    CHECK(b.asked.spot == false);
    CHECK(b.asked.from == kFrom);
    CHECK(b.asked.to == kFrom + hours{24});
    const auto plain = b.get("");  // before anything was recorded
    CHECK(plain.at("items").empty());
    CHECK(!b.asked.spot);
    CHECK(!b.asked.gpu_count);
    CHECK(b.asked.to - b.asked.from == hours{7 * 24});
    CHECK(b.asked.places_most == 2000);
}

TEST_CASE("the bounds of the history are named") {
    HistoryBench b;
    struct Row {
        std::string query;
        int status;
        std::string field, says;
    };
    for (const auto& row : std::vector<Row>{{"from=2024-01-01&to=2024-03-31", 200, "", ""},
                                            {"from=2024-01-01&to=2024-04-01", 422, "from", "90 days"},
                                            {"from=2024-01-02&to=2024-01-02", 422, "from", "before to"},
                                            {"from=2024-01-01&to=2024-03-31&tick=38880ms", 200, "", ""},
                                            {"from=2024-01-01&to=2024-03-31&tick=10s", 422, "tick", "200000 ticks: tick must be at least 38s881ms"},
                                            {kSpan + "&tick=5", 400, "tick", "with its unit"},
                                            {kSpan + "&tick=0s", 400, "tick", "with its unit"},
                                            {"from=yesterday", 400, "from", "RFC 3339"},
                                            {"gpu=RTX+4O90", 400, "gpu", "is not a known GPU"},
                                            {"gpus=0", 400, "gpus", "1..64"},
                                            {"spot=auto", 400, "spot", "0 or 1"},
                                            {"limit=5", 400, "limit", "unknown query key"}}) {
        CAPTURE(row.query);
        const auto got = b.rest.get("/v1/offers/history?" + row.query);
        CHECK(got.status == row.status);
        if (row.status == 200) continue;
        CHECK(parsed(got).at("errors").at(0).at("field") == row.field);
        CHECK(got.body.find(row.says) != std::string::npos);
    }
    {
        auto store = open_market_store(b.path).value();
        std::vector<MarketChange> changes;
        for (int i = 0; i < 2001; ++i) changes.push_back({key(std::to_string(i)), up(hours{1}, 5)});
        REQUIRE(store->write(changes, {}));
    }
    const auto many = b.rest.get("/v1/offers/history?" + kSpan);
    CHECK(many.status == 422);
    CHECK(many.body.find("more than 2000 places") != std::string::npos);
}

TEST_CASE("a viewer reads the history; without one it is not found, and a damaged one is our trouble") {
    HistoryBench b;
    CHECK(b.rest.tcp("GET", "/v1/offers/history", b.rest.token("viewer")).status == 200);
    CHECK(b.rest.tcp("GET", "/v1/offers/history", "").status == 401);
    write_file(b.path, std::string(20'000, 'x'));
    CHECK(b.rest.get("/v1/offers/history").status == 500);
    const RestBench none;
    CHECK(none.get("/v1/offers/history").status == 404);
}

TEST_CASE("days that were summed up stand beside the points") {
    HistoryBench b;
    b.add(key("7"), {up(hours{0}, 300'000), down(hours{6})});
    {
        auto store = open_market_store(b.path).value();
        while (store->tidy(kFrom + std::chrono::days{3}, {.raw = std::chrono::days{1}}).value() > 0) {}
    }
    const auto all = b.get(kSpan);
    REQUIRE(all.at("items").size() == 1);
    REQUIRE(all.at("items").at(0).at("days").size() == 1);
    const auto& day = all.at("items").at(0).at("days").at(0);
    CHECK(day.at("day") == "2024-10-04");
    CHECK(day.at("up_share") == 0.25);
    CHECK(day.at("p50") == "0.30");
}

}  // namespace
}  // namespace gf::test
