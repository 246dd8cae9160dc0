// What a look says of the market, and how it gets into the file: nobody waits for it, and trouble with the file is a gap in it.
#include "daemon/market/recorder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "daemon/market/look.hpp"
#include "tests/daemon/support/temporary_folder.hpp"

using namespace gf;
using namespace gf::test;

namespace {

constexpr Instant kStart = instant_of(1'790'000'000'000);
constexpr Instant at(std::int64_t minute) { return kStart + std::chrono::minutes{minute}; }

Offer ask(const std::string& host, std::int64_t micros) {
    Offer o;
    o.provider = ProviderName{"vastai"};
    o.id = "bid/" + host;
    o.spot = true;
    o.exclusive = true;
    o.gpu = {.canonical = "RTX 4090", .provider_name = "RTX 4090", .memory = {}};
    o.gpu_count = 1;
    o.gpu_rate = UsdPerHour{micros};
    o.host_id = host;
    return o;
}

MarketLook whole(std::int64_t minute, std::vector<Offer> offers) {
    return look_of(ProviderName{"vastai"}, {.spot = true, .search_per_count = true}, {.gpu_counts = {1}, .demands = {.unvetted = true}},
                   {.offers = std::move(offers), .rejected = {}}, at(minute));
}

struct Bench {
    explicit Bench(std::function<void(RecorderOptions&)> change = {}) : change_(std::move(change)) { make(); }
    void make() {
        RecorderOptions options{.path = path, .policy = {}, .now = [this] { return Instant{Millis{now.load()}}; }, .held = {},
                                .disk_least = 0, .beat = std::chrono::milliseconds{1}};
        if (change_) change_(options);
        recorder = std::make_unique<MarketRecorder>(std::move(options));
    }
    void look(std::int64_t minute, std::vector<Offer> offers) {
        now = unix_millis(at(minute));
        recorder->seen(whole(minute, std::move(offers)));
    }
    /// A daemon that runs, sees these and ends.
    void session(const std::vector<std::pair<std::int64_t, std::vector<Offer>>>& looks) {
        if (!recorder) make();
        for (const auto& [minute, offers] : looks) look(minute, offers);
        recorder->start();
        recorder->stop();
        last = recorder->counters();
        recorder.reset();
    }
    /// "7 up 300 @5" of [0, minutes).
    [[nodiscard]] std::vector<std::string> told(std::int64_t minutes) const {
        std::vector<std::string> out;
        const auto tracks = read_market(path, {.provider = {}, .cards = {}, .gpu_count = {}, .spot = {}, .from = at(0), .to = at(minutes)});
        if (!tracks) return {std::string(text(tracks.error().kind))};
        for (const auto& track : *tracks)
            for (const auto& p : track.points) {
                std::string line = track.key.place.substr(5) + " " + std::string(text(p.state));
                if (p.state == MarketState::up) line += " " + std::to_string(p.price.micros);
                out.push_back(line + " @" + std::to_string((p.at - at(0)) / std::chrono::minutes{1}));
            }
        return out;
    }

    TemporaryFolder folder;
    std::string path = folder / "history.db";
    std::atomic<std::int64_t> now{unix_millis(kStart)};
    std::unique_ptr<MarketRecorder> recorder;
    MarketRecorder::Counters last;

 private:
    std::function<void(RecorderOptions&)> change_;
};
using Told = std::vector<std::string>;

}  // namespace

TEST_CASE("a look says what its answer can be held to") {
    const Capabilities searched{.spot = true, .search_per_count = true};
    const Capabilities at_once{.spot = true};
    const auto made = [](const Capabilities& can, OfferQuery asked, OfferList answer = {}) {
        return look_of(ProviderName{"p"}, can, asked, answer, at(3));
    };
    const auto plain = made(searched, {.gpu_counts = {1, 2}, .on_demand = true, .spot = false, .demands = {.gpus = {"A"}, .regions = {"EU"}}});
    CHECK(plain.at == at(3));
    CHECK(plain.gpu_counts == std::vector{1, 2});
    CHECK(plain.on_demand);
    CHECK(!plain.spot);
    CHECK(plain.cards == std::vector<std::string>{"A"});
    CHECK(plain.regions == std::vector<std::string>{"EU"});
    CHECK(!plain.by_figures);
    CHECK(!plain.drifted);

    struct Row {
        const char* what;
        OfferQuery asked;
        bool by_figures;
    };
    for (const auto& row : std::vector<Row>{{"nothing", {}, false},
                                            {"memory of a card", {.demands = {.vram_min = Bytes{1}}}, true},
                                            {"memory", {.demands = {.memory_min = Bytes{1}}}, true},
                                            {"cores", {.demands = {.cpus_min = 1}}, true},
                                            {"network", {.demands = {.inet_down_min = 1}}, true},
                                            {"reliability", {.demands = {.reliability_min = 0.9}}, true},
                                            {"lease", {.demands = {.lease_min = Millis{1}}}, true},
                                            {"CUDA", {.demands = {.cuda_min = "12.6"}}, true},
                                            {"a large disk", {.disk_gb = 500}, true},
                                            {"a small disk", {.disk_gb = 5}, false},
                                            {"the price before a rent", {.look = Look::rent}, true}}) {
        CAPTURE(row.what);
        CHECK(made(searched, row.asked).by_figures == row.by_figures);
    }
    // Only where the search itself leaves them out.
    CHECK(made(searched, {}).vetted_only);
    CHECK(!made(searched, {.demands = {.unvetted = true}}).vetted_only);
    CHECK(!made(at_once, {}).vetted_only);

    OfferList answer;
    answer.drift = {{.what = "price_unit", .detail = {}}};
    answer.rejected = {{"a", "price_zero"}, {"b", "sold_out"}, {"c", "not_rentable"}};
    answer.reads = {{.gpu_count = 1, .spot = true, .at = at(5)}, {.gpu_count = 1, .spot = true, .at = at(4)}};
    answer.reaches = {{.gpu_count = 1, .spot = true, .up_to = UsdPerHour{5}}};
    const auto told = made(searched, {}, answer);
    CHECK(told.drifted);
    CHECK(told.unreadable == std::set<std::string>{"a"});
    CHECK(told.read_at == std::map<std::pair<int, bool>, Instant>{{{1, true}, at(4)}});
    CHECK(told.reaches.size() == 1);
}

TEST_CASE("looks are in the file, and a state lasts over a restart") {
    Bench b;
    b.session({{0, {ask("7", 300), ask("8", 200)}}, {5, {ask("7", 310)}}});
    CHECK(b.told(10) == Told{"7 up 300 @0", "7 up 310 @5", "8 up 200 @0", "8 down @5"});
    CHECK(b.last.looks == 2);
    CHECK(b.last.changes == 4);
    CHECK(b.last.dropped == 0);
    b.session({{20, {ask("7", 310)}}, {40, {ask("7", 310), ask("8", 200)}}});
    CHECK(b.told(60) == Told{"7 up 300 @0", "7 up 310 @5", "8 up 200 @0", "8 down @5", "8 up 200 @40"});
    CHECK(b.last.changes == 1);
    // Down for longer than a state is carried.
    b.session({{140, {ask("7", 310)}}});
    CHECK(b.told(150) == Told{"7 up 300 @0", "7 up 310 @5", "7 unknown @40", "7 up 310 @140", "8 up 200 @0", "8 down @5", "8 up 200 @40",
                              "8 unknown @40", "8 down @140"});
}

TEST_CASE("without looks everything is unknown after a while, by itself") {
    Bench b;
    b.look(0, {ask("7", 300)});
    b.recorder->start();
    b.now = unix_millis(at(90));
    for (int i = 0; i < 5000 && b.recorder->counters().changes < 2; ++i, b.now += 60'000) std::this_thread::sleep_for(std::chrono::milliseconds{1});
    CHECK(b.told(100) == Told{"7 up 300 @0", "7 unknown @0"});
    b.recorder->stop();
}

TEST_CASE("what comes faster than it is taken in is dropped, the oldest first, and counted") {
    Bench b([](RecorderOptions& o) { o.looks_most = 3; });
    std::vector<std::pair<std::int64_t, std::vector<Offer>>> looks;
    for (std::int64_t m = 0; m < 10; ++m) looks.push_back({m, {ask("7", 300 + m)}});
    b.session(looks);
    CHECK(b.told(20) == Told{"7 unknown @0", "7 up 307 @7", "7 up 308 @8", "7 up 309 @9"});
    CHECK(b.last.dropped == 7);
    CHECK(b.last.looks == 3);
    Bench ended;
    ended.recorder->start();
    ended.recorder->stop();
    ended.look(1, {ask("7", 1)});
    CHECK(ended.recorder->counters().dropped == 1);
}

TEST_CASE("a machine of ours is not missing") {
    Bench b([](RecorderOptions& o) {
        o.held = [] { return HeldKeys{*market_key(ask("7", 0))}; };
    });
    b.session({{0, {ask("7", 300), ask("8", 200)}}, {5, {}}});
    CHECK(b.told(10) == Told{"7 up 300 @0", "8 up 200 @0", "8 down @5"});
}

TEST_CASE("a file that is damaged is set aside, and the record goes on in a new one") {
    Bench b;
    std::ofstream(b.path) << std::string(20'000, 'x');
    b.session({{0, {ask("7", 300)}}});
    CHECK(b.told(10) == Told{"7 up 300 @0"});
    CHECK(b.last.set_aside == 1);
    CHECK(std::filesystem::file_size(b.path + ".damaged") == 20'000);

    // Damage that shows while it is written to.
    std::vector<Offer> many;
    for (int i = 0; i < 300; ++i) many.push_back(ask(std::to_string(1000 + i), 300 + i));
    b.session({{1, many}});
    {
        std::fstream file(b.path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(4096);
        file << std::string(static_cast<std::size_t>(std::filesystem::file_size(b.path)) - 4096, 'x');
    }
    b.session({{10, {ask("8", 200)}}, {11, {ask("8", 210)}}});
    CHECK(b.last.set_aside == 1);
    // One that is opened just after another is not thrown away at once: the next minute sees to it.
    b.session({{12, {ask("8", 220)}}});
    CHECK(b.told(20).back() == "8 up 220 @12");
}

TEST_CASE("on a disk without room nothing is written, and afterwards file and book agree") {
    std::int64_t least = 0;
    Bench b([&](RecorderOptions& o) { o.disk_least = least; });
    b.session({{0, {ask("7", 300), ask("8", 200)}}});
    least = std::int64_t{1} << 60;
    b.session({{5, {ask("7", 400)}}, {6, {ask("7", 500)}}});
    CHECK(b.last.looks == 0);
    CHECK(b.last.dropped == 2);
    CHECK(b.last.changes == 0);
    CHECK(b.told(20) == Told{"7 up 300 @0", "8 up 200 @0"});
    least = 0;
    b.session({{10, {ask("7", 500)}}});
    CHECK(b.told(20) == Told{"7 up 300 @0", "7 up 500 @10", "8 up 200 @0", "8 down @10"});
}
