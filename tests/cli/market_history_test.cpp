#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/market_trace.hpp"
#include "tests/cli/command_run.hpp"
#include "tests/cli/scripted_server.hpp"

using namespace gf::test;
using nlohmann::json;

namespace {

json item(const std::string& zone, json points, bool spot = true, const std::string& p50 = "0.31") {
    return {{"zone", zone},       {"provider", "vastai"}, {"place", "host/7"}, {"gpu", "RTX 4090"}, {"gpus", 1},
            {"gpu_share", 1.0},   {"spot", spot},         {"known_share", 0.5}, {"up_share", 0.8},  {"p10", p50},
            {"p50", p50},         {"p90", nullptr},       {"changes", 6},       {"days", json::array()},
            {"points", std::move(points)}};
}

json answer(const std::vector<json>& items, json ticks = nullptr) {
    return {{"from", "2026-11-01T00:00:00.000Z"}, {"to", "2026-11-05T00:00:00.000Z"}, {"tick", ticks.is_null() ? json(nullptr) : json("5m")},
            {"ticks", std::move(ticks)},          {"items", std::move(items)},        {"next_cursor", nullptr}};
}

std::string csv(void (*write)(std::ostream&, const gf::cli::TraceZones&), const gf::cli::TraceZones& trace) {
    std::ostringstream out;
    write(out, trace);
    return out.str();
}

std::string whole(const std::filesystem::path& path) {
    std::ostringstream all;
    all << std::ifstream(path).rdbuf();
    return all.str();
}

/// A folder that is gone with the test.
struct Folder {
    Folder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "gf-history-XXXXXX").string();
        REQUIRE(::mkdtemp(pattern.data()) != nullptr);
        path = pattern;
    }
    ~Folder() { std::filesystem::remove_all(path); }
    std::filesystem::path path;
};

}  // namespace

TEST_CASE("a trace has no holes: what was not seen stays as it was, and says so") {
    const auto trace = gf::cli::trace_zones(
        answer({item("a,b \"c\"", json::parse(R"([[0,"unknown",null],[1,"down",null],[2,"up","0.30"],[3,"unknown",null],[5,"up","0.32"]])")),
                item("whole", json::parse(R"([[0,"up","0.20"],[4,"down",null],[5,"up","0.20"]])")),
                item("late", json::parse(R"([[2,"up","0.40"]])"))},
               6),
        0.5);
    REQUIRE(trace);
    CHECK(csv(gf::cli::write_availability, *trace) ==
          "tick,a_b__c_,whole,late\n0,0,1,1\n1,0,1,1\n2,1,1,1\n3,1,1,1\n4,1,0,1\n5,1,1,1\n");
    CHECK(csv(gf::cli::write_known, *trace) == "tick,a_b__c_,whole,late\n0,0,1,0\n1,1,1,0\n2,1,1,1\n3,0,1,1\n4,0,1,1\n5,1,1,1\n");
    CHECK(csv(gf::cli::write_prices, *trace) == "zone,tick,spot_usd_per_h\na_b__c_,0,0.30\na_b__c_,5,0.32\nwhole,0,0.20\nlate,0,0.40\n");
    CHECK(trace->carried_share == doctest::Approx(5.0 / 18));
}

TEST_CASE("zones that are hardly known or were never up are left out and counted") {
    const auto trace = gf::cli::trace_zones(answer({item("good", json::parse(R"([[0,"up","0.30"]])")),
                                                    item("half", json::parse(R"([[0,"up","0.30"],[5,"unknown",null]])")),
                                                    item("never", json::parse(R"([[0,"down",null]])")), item("nothing", json::array())},
                                                   10),
                                            0.6);
    REQUIRE(trace);
    REQUIRE(trace->zones.size() == 1);
    CHECK(trace->zones[0].name == "good");
    CHECK(trace->hardly_known == 2);
    CHECK(trace->never_up == 1);
    CHECK(gf::cli::trace_zones(answer({item("half", json::parse(R"([[0,"up","0.30"],[5,"unknown",null]])"))}, 10), 0.5)->zones.size() == 1);
}

TEST_CASE("an answer of another shape is told as such") {
    for (const char* points : {R"([[0,"up",null]])", R"([[0,"up"]])", R"([["0","up","0.3"]])", R"([[10,"up","0.3"]])", R"([[1,"up","0.3"],[1,"down",null]])",
                               R"([[-1,"up","0.3"]])", R"([3])"}) {
        CAPTURE(std::string(points));
        const auto trace = gf::cli::trace_zones(answer({item("z", json::parse(points))}, 10), 0);
        REQUIRE(!trace);
        CHECK(trace.error().exit_code == 123);
    }
    CHECK(!gf::cli::trace_zones(answer({}), 0));
}

TEST_CASE("the history is a table with the cheapest first") {
    std::mutex mutex;
    std::string asked;
    ScriptedServer server([&](const Request& r, Wire& wire) {
        const std::scoped_lock lock(mutex);
        asked = r.target;
        auto never = item("never", json::array(), false, "");
        never["p10"] = never["p50"] = nullptr;
        never["known_share"] = 0.0;
        never["up_share"] = nullptr;
        wire.reply(200, answer({item("dear", json::array(), true, "0.90"), never, item("cheap", json::array(), true, "0.10")}).dump());
    });
    const auto ran = run_command({"offers", "--history", "--gpu", "RTX 4090", "--gpus", "1", "--spot", "--from", "2026-11-01", "--provider", "vastai"},
                                 {.url = server.url()});
    CHECK(ran.status == 0);
    CHECK(asked == "/v1/offers/history?gpu=RTX%204090&gpus=1&provider=vastai&spot=1&from=2026-11-01");
    const auto at = [&](const std::string& part) { return ran.out.find(part); };
    CHECK(at("$0.10") < at("$0.90"));
    CHECK(at("50.0%") != std::string::npos);
    CHECK(at("80.0%") != std::string::npos);
    CHECK(at("3.0") != std::string::npos);  // six changes in two known days
    const auto cut = run_command({"offers", "--history", "--limit", "1"}, {.url = server.url()});
    CHECK(cut.out.find("$0.90") == std::string::npos);
    CHECK(cut.err.find("and 2 more") != std::string::npos);
    CHECK(asked == "/v1/offers/history");
    const auto raw = run_command({"offers", "--history", "--json"}, {.url = server.url()});
    CHECK(json::parse(raw.out).at("items").size() == 3);
    const auto ago = run_command({"offers", "--history", "--from", "30d", "--on-demand"}, {.url = server.url()});
    CHECK(ago.status == 0);
    CHECK(asked.find("spot=0&from=20") != std::string::npos);
}

TEST_CASE("traces are written for gpuferry-replay, and nothing is written over") {
    std::mutex mutex;
    std::vector<std::string> asked;
    ScriptedServer server([&](const Request& r, Wire& wire) {
        const std::scoped_lock lock(mutex);
        asked.push_back(r.target);
        const bool spot = r.target.find("spot=1") != std::string::npos;
        wire.reply(200, (spot ? answer({item("z", json::parse(R"([[0,"up","0.30"],[1,"down",null]])"))}, 3)
                              : answer({item("od", json::array(), false, "0.55"), item("od2", json::array(), false, "0.52")}))
                            .dump());
    });
    Folder folder;
    const auto into = (folder.path / "traces").string();
    const auto ran = run_command({"offers", "--history", "--out", into, "--tick", "10m"}, {.url = server.url()});
    CHECK(ran.status == 0);
    REQUIRE(asked.size() == 2);
    CHECK(asked[0] == "/v1/offers/history?spot=1&tick=10m");
    CHECK(asked[1] == "/v1/offers/history?gpu=RTX%204090&gpus=1&spot=0");
    CHECK(whole(folder.path / "traces/availability.csv") == "tick,z\n0,1\n1,0\n2,0\n");
    CHECK(whole(folder.path / "traces/prices.csv") == "zone,tick,spot_usd_per_h\nz,0,0.30\n");
    CHECK(whole(folder.path / "traces/known.csv") == "tick,z\n0,1\n1,1\n2,1\n");
    CHECK(ran.err.find("--on-demand 0.52") != std::string::npos);
    std::ofstream(folder.path / "traces/prices.csv") << "mine";
    std::filesystem::remove(folder.path / "traces/availability.csv");
    const auto again = run_command({"offers", "--history", "--out", into}, {.url = server.url()});
    CHECK(again.status == 1);
    CHECK(again.err.find("prices.csv is there already") != std::string::npos);
    CHECK(whole(folder.path / "traces/prices.csv") == "mine");
    CHECK(!std::filesystem::exists(folder.path / "traces/availability.csv"));
    CHECK(asked.back() == "/v1/offers/history?spot=1&tick=5m");
}

TEST_CASE("options of the history go with it alone") {
    for (const auto& arguments : std::vector<std::vector<std::string>>{{"offers", "--from", "7d"},
                                                                       {"offers", "--out", "x"},
                                                                       {"offers", "--history", "--tick", "5m"},
                                                                       {"offers", "--history", "--spot", "--on-demand"},
                                                                       {"offers", "--history", "--out", "x", "--known", "2"}}) {
        CHECK(run_command(arguments, {.url = "http://127.0.0.1:1"}).status == 2);
    }
}
