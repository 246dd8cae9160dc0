#include "providers/canary.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "providers/json_reading.hpp"

using namespace gf;
using nlohmann::json;

namespace {

constexpr auto kRules = std::to_array<FieldRule>({
    {.path = "id", .kind = FieldKind::text, .required = true},
    {.path = "memory", .kind = FieldKind::number},
    {.path = "price.secure", .kind = FieldKind::number, .required = true},
    {.path = "dataCenters", .kind = FieldKind::list},
    {.path = "sold", .kind = FieldKind::boolean},
});

json row(json changes = json::object()) {
    json out{{"id", "a"},
             {"memory", 24},
             {"price", {{"secure", 0.69}}},
             {"dataCenters", json::array()},
             {"sold", true}};
    out.merge_patch(changes);
    return out;
}

json rows(int count, const json& changes) {
    json out = json::array();
    for (int i = 0; i < count; ++i) out.push_back(row(changes));
    return out;
}

std::vector<std::string> words(const std::vector<Drift>& drift) {
    std::vector<std::string> out;
    for (const auto& d : drift) {
        CHECK(!d.detail.empty());
        out.push_back(d.what);
    }
    return out;
}

/// A card table with two cards of 24 GB, and one name that it does not know.
std::optional<std::string> table(std::string_view, std::string_view name, std::optional<Bytes> memory) {
    if (name != "RTX 4090" && name != "RTX 3090") return std::nullopt;
    const auto gib = memory ? static_cast<double>(memory->count) / static_cast<double>(kGiB) : 24.0;
    return gib > 22 && gib < 26 ? std::optional<std::string>(name) : std::nullopt;
}

Offer offer(const std::string& gpu, double dollars_per_gpu, int count = 1,
            std::optional<Bytes> memory = Bytes{24 * kGiB}) {
    Offer o;
    o.gpu.provider_name = gpu;
    o.gpu.memory = memory;
    o.gpu_count = count;
    o.gpu_rate = UsdPerHour{static_cast<std::int64_t>(dollars_per_gpu * 1e6 + 0.5) * count};
    return o;
}

OfferList market(double factor) {
    OfferList list;
    list.offers = {offer("RTX 4090", 0.69 * factor), offer("RTX 4090", 0.69 * factor, 2),
                   offer("RTX 3090", 0.22 * factor), offer("H100", 2.79 * factor, 1, Bytes{80 * kGiB})};
    return list;
}

std::vector<std::string> seen(OfferCanary& canary, OfferList list) {
    canary.look(list);
    return words(list.drift);
}

}  // namespace

TEST_CASE("a shape is drift when no row has it as documented") {
    using Words = std::vector<std::string>;
    const struct {
        const char* what;
        json rows;
        Words drift;
    } table_rows[] = {
        {"as documented", rows(3, json::object()), {}},
        {"nothing", json::array(), {}},
        {"a figure became a text", rows(3, {{"memory", "24"}}), {"type_changed"}},
        {"a list became an object", rows(3, {{"dataCenters", json::object()}}), {"type_changed"}},
        {"true became 1", rows(4, {{"sold", 1}}), {"type_changed"}},
        {"an object became a figure", rows(3, {{"price", 0.69}}), {"field_missing"}},
        {"a required field is gone", rows(3, {{"id", nullptr}}), {"field_missing"}},
        {"one that may be missing is gone", rows(9, {{"memory", nullptr}}), {}},
        {"two rows settle nothing", rows(2, {{"memory", "24"}, {"id", nullptr}}), {}},
        {"both kinds", {row(), row({{"memory", "24"}}), row({{"memory", "24"}}), row({{"memory", "x"}})}, {}},
        {"rows that are none", {1, 2, 3}, {"field_missing", "field_missing"}},
    };
    for (const auto& one : table_rows) {
        CAPTURE(one.what);
        ShapeWatch watch("the test");
        CHECK(words(watch.look(count_shapes(one.rows, kRules))) == one.drift);
    }
}

TEST_CASE("what was right before is drift sooner, and heals") {
    ShapeWatch watch("the test");
    CHECK(watch.look(count_shapes(rows(1, json::object()), kRules)).empty());
    CHECK(words(watch.look(count_shapes(rows(2, {{"memory", "24"}}), kRules))) ==
          std::vector<std::string>{"type_changed"});
    CHECK(watch.look(count_shapes(rows(1, {{"memory", "24"}}), kRules))
              .empty());  // one row is refused for itself
    CHECK(watch.look(count_shapes(rows(2, json::object()), kRules)).empty());
}

TEST_CASE("rows keyed by name and pages of one listing are counted together") {
    const json keyed{{"a", row({{"memory", "1"}})}, {"b", row({{"memory", "2"}})}};
    auto all = count_shapes(keyed, kRules);
    add(all, count_shapes(rows(1, {{"memory", "3"}}), kRules));
    CHECK(all.rows == 3);
    ShapeWatch watch("the test");
    const auto drift = watch.look(all);
    REQUIRE(drift.size() == 1);
    CHECK(drift[0].detail == "the test: `memory` is documented as number, came as string in all of 3 rows");
    Shapes none;
    add(none, all);
    CHECK(none.rows == 3);
}

TEST_CASE("a missing page is told by the answer's own count") {
    CHECK(!missing_pages("x", std::nullopt, 5));
    CHECK(!missing_pages("x", 5, 5));
    CHECK(!missing_pages("x", 4, 5));
    const auto drift = missing_pages("x", 30, 25);
    REQUIRE(drift);
    CHECK(drift->what == "page_token_missing");
}

TEST_CASE("the memory of a card is settled where the table of cards can settle it") {
    const struct {
        double figure;
        std::int64_t documented;
        const char* name;
        std::optional<double> gib;
        bool unsettled;
    } figures[] = {
        {24, kGiB, "RTX 4090", 24.0, false},
        {24564, kGiB, "RTX 4090", 24564.0 / 1024, false},  // MB for GB
        {24, kMiB, "RTX 4090", 24.0, false},               // GB for MB
        {24564, kMiB, "RTX 4090", 24564.0 / 1024, false},
        {25757220864.0, kMiB, "RTX 4090", 25757220864.0 / 1073741824, false},  // bytes
        {25153536, kMiB, "RTX 4090", 25153536.0 / 1048576, false},             // KiB
        {48, kGiB, "RTX 4090", 48.0, false},    // makes sense as it is: a card that the table does not know
        {141, kGiB, "new card", 141.0, false},  // so does an unknown name
        {144384, kGiB, "new card", {}, true},   // an unknown name in another unit is settled by nobody
        {81920, kGiB, "RTX 4090", {}, true},    // 80 GiB is no 4090
        {24e12, kMiB, "RTX 4090", {}, true},
        {0, kMiB, "RTX 4090", {}, false},
        {-5, kGiB, "RTX 4090", {}, false},
    };
    for (const auto& f : figures) {
        CAPTURE(f.figure);
        CAPTURE(f.name);
        const auto reading = read_gpu_memory(f.figure, f.documented, "x", f.name, table);
        CHECK(reading.unsettled == f.unsettled);
        REQUIRE(reading.memory.has_value() == f.gib.has_value());
        if (f.gib)
            CHECK(static_cast<double>(reading.memory->count) / static_cast<double>(kGiB) ==
                  doctest::Approx(*f.gib));
    }
}

TEST_CASE("cents for dollars are told from a market that moves") {
    using Words = std::vector<std::string>;
    struct Row {
        double factor;
        Words drift;
    };
    const Row first[] = {
        {1, {}}, {0.2, {}}, {4, {}}, {100, {"price_unit"}}, {0.01, {}}, {0.001, {"price_unit"}}};
    const Row later[] = {
        {1, {}}, {0.2, {}}, {4, {}}, {100, {"price_unit"}}, {0.01, {"price_unit"}}, {0.001, {"price_unit"}}};
    for (const auto& one : first) {  // by what cards cost at all
        CAPTURE(one.factor);
        OfferCanary canary;
        CHECK(seen(canary, market(one.factor)) == one.drift);
    }
    for (const auto& one : later) {  // and against what was seen before
        CAPTURE(one.factor);
        OfferCanary canary;
        CHECK(seen(canary, market(1)).empty());
        CHECK(seen(canary, market(one.factor)) == one.drift);
        CHECK(seen(canary, market(one.factor)) == one.drift);  // what is off is not learnt
        CHECK(seen(canary, market(1)).empty());
    }
}

TEST_CASE("without a memory only what was seen before can tell") {
    OfferList dollars;
    dollars.offers = {offer("one", 1.0, 1, std::nullopt), offer("two", 2.0, 1, std::nullopt)};
    auto cents = dollars;
    for (auto& o : cents.offers) o.gpu_rate.micros *= 100;
    OfferCanary canary;
    CHECK(seen(canary, dollars).empty());
    CHECK(seen(canary, cents) == std::vector<std::string>{"price_unit"});
    OfferCanary fresh;
    CHECK(seen(fresh, cents).empty());
}

TEST_CASE("one dear offer is no drift, nor one card that its host has parked at a price nobody pays") {
    OfferCanary canary;
    auto list = market(1);
    list.offers.push_back(offer("RTX 4090", 96));
    CHECK(seen(canary, list).empty());
    OfferList parked;
    parked.offers = {offer("RTX 5090", 90)};
    parked.offers[0].exclusive = true;
    CHECK(seen(canary, parked).empty());
    parked.offers[0].exclusive = false;  // in the provider's own list
    CHECK(seen(canary, parked) == std::vector<std::string>{"price_unit"});
    CHECK(seen(canary, {}).empty());
}

TEST_CASE("memory that nobody can settle is drift when half of the market has it") {
    const RejectedOffer odd{.id = "x", .reason = std::string(kMemoryUnit)};
    OfferCanary canary;
    auto list = market(1);
    list.rejected = {odd, odd, {.id = "y", .reason = "price_zero"}};
    CHECK(seen(canary, list).empty());
    list.rejected.insert(list.rejected.end(), {odd, odd});
    CHECK(seen(canary, list) == std::vector<std::string>{"memory_unit"});
}

TEST_CASE("cents for dollars are told from what machines cost") {
    const auto machine = [](const std::string& id, double dollars_per_hour, const std::string& gpu = {}, int count = 1) {
        ProviderMachine m;
        m.id = ProviderMachineId{id};
        m.gpu_rate = UsdPerHour{static_cast<std::int64_t>(dollars_per_hour * 1e6 + 0.5)};
        m.disk_rate = UsdPerHour{1'000};
        m.gpu_count = count;
        if (!gpu.empty()) m.gpu = GpuIdentity{.canonical = {}, .provider_name = gpu, .memory = {}};
        return m;
    };
    const auto told = [](RateCanary& canary, std::vector<ProviderMachine> machines) {
        Listing listing{.machines = std::move(machines)};
        canary.look(listing);
        return words(listing.drift);
    };
    using Words = std::vector<std::string>;
    const Words none;
    const Words off{"price_unit"};
    OfferCanary market_canary;

    SUBCASE("by what the same machines showed before") {
        RateCanary canary(market_canary);
        CHECK(told(canary, {machine("a", 0.69), machine("b", 2.0)}) == none);
        CHECK(told(canary, {machine("a", 69), machine("b", 200)}) == off);
        CHECK(told(canary, {machine("a", 69), machine("b", 200)}) == off);  // what is off is not learnt
        CHECK(told(canary, {machine("a", 0.0069), machine("b", 0.02)}) == off);
        CHECK(told(canary, {machine("a", 69), machine("b", 2.0)}) == none);  // one alone is a price that somebody changed
        CHECK(told(canary, {machine("a", 0.69), machine("b", 200)}) == none);
        CHECK(told(canary, {machine("a", 69), machine("b", 2.0)}) == none);  // one up, one down
        CHECK(told(canary, {machine("a", 69 * 49.0), machine("b", 2.0 * 49)}) == none);
    }
    SUBCASE("what costs nothing, is not told or is new says nothing") {
        RateCanary canary(market_canary);
        CHECK(told(canary, {machine("a", 0.69), machine("b", 2.0)}) == none);
        auto untold = machine("b", 0);
        untold.gpu_rate.reset();
        CHECK(told(canary, {machine("a", 0), untold}) == none);
        CHECK(told(canary, {machine("a", 69), machine("new", 0.5), untold}) == off);
        CHECK(told(canary, {machine("a", 0), machine("b", 200)}) == off);  // what it was is still known
        CHECK(told(canary, {}) == none);
        CHECK(told(canary, {machine("a", 69)}) == none);  // a machine that was gone is another one
    }
    SUBCASE("by what their cards are offered for") {
        RateCanary canary(market_canary);
        CHECK(told(canary, {machine("a", 69, "RTX 4090")}) == none);  // no market yet
        CHECK(seen(market_canary, market(1)).empty());
        CHECK(told(canary, {machine("a", 69, "RTX 4090")}) == off);
        CHECK(told(canary, {machine("b", 138, "RTX 4090", 2), machine("c", 279, "H100")}) == off);
        CHECK(told(canary, {machine("b", 1.38, "RTX 4090", 2), machine("c", 279, "H100")}) == none);
        CHECK(told(canary, {machine("d", 0.0069, "RTX 4090")}) == off);
        CHECK(told(canary, {machine("e", 69, "a card that is not offered")}) == none);
        CHECK(told(canary, {machine("f", 34.4, "RTX 4090")}) == none);
        CHECK(told(canary, {machine("g", 34.5, "RTX 4090")}) == off);
        auto parked = market(1);
        parked.offers.push_back(offer("RTX 4090", 96));
        CHECK(seen(market_canary, parked).empty());
        CHECK(told(canary, {machine("k", 69, "RTX 4090")}) == off);
        // A market in cents is not learnt, so it does not vouch for machines in cents.
        CHECK(seen(market_canary, market(100)) == off);
        CHECK(told(canary, {machine("h", 69, "RTX 4090")}) == off);
    }
    SUBCASE("a machine read by itself keeps its rates only where they are not off") {
        RateCanary canary(market_canary);
        CHECK(told(canary, {machine("a", 0.69)}) == none);
        auto good = machine("a", 0.8);
        canary.look(good);
        CHECK(good.gpu_rate == UsdPerHour{800'000});
        auto cents = machine("a", 69);
        canary.look(cents);
        CHECK(!cents.gpu_rate);
        CHECK(!cents.disk_rate);
        auto stopped = machine("a", 0);
        canary.look(stopped);
        CHECK(stopped.gpu_rate == UsdPerHour{0});
        CHECK(stopped.disk_rate == UsdPerHour{1'000});
    }
}
