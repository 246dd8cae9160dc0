#include "scheduler/relaxation.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "filter_case.hpp"
#include "model/time.hpp"
#include "scheduler/version.hpp"

using namespace gf;
using namespace gf::test;
using std::chrono::hours;
using std::chrono::minutes;

namespace {

/// Sets a key as the text of a spec would: so that it is tried whether the change lets in what it says.
void apply(JobSpec& spec, const std::string& key, const std::string& verb_text, const std::string& set) {
    auto& r = spec.resources;
    const auto whole = [&] { return std::stoi(set); };
    if (key == "resources.max_price") r.max_price = UsdPerHour{*parse_decimal_micros(set)};
    else if (key == "resources.vram") r.vram = set.empty() ? std::nullopt : parse_vram(set);
    else if (key == "resources.memory") r.memory = set.empty() ? std::nullopt : parse_bytes(set);
    else if (key == "resources.disk") r.disk = *parse_bytes(set);
    else if (key == "resources.cpus") r.cpus = set.empty() ? std::nullopt : std::optional(whole());
    else if (key == "resources.inet_down") r.inet_down_mbps = set.empty() ? std::nullopt : std::optional<double>(whole());
    else if (key == "resources.reliability") r.reliability = set.empty() ? std::nullopt : std::optional(std::stod(set));
    else if (key == "resources.memory_bandwidth")
        r.memory_bandwidth = set.empty() ? std::nullopt : parse_bytes(set.substr(0, set.size() - 2));
    else if (key == "resources.cuda") r.cuda = set.empty() ? "" : set.substr(2);
    else if (key == "resources.driver") r.driver = set.empty() ? "" : set.substr(2);
    else if (key == "resources.precision") r.precision = set;
    else if (key == "resources.nvlink") r.nvlink = false;
    else if (key == "resources.arch") r.arch = set;
    else if (key == "resources.gpus") r.gpus = whole();
    else if (key == "resources.spot") r.spot = *enum_from<SpotChoice>(set);
    else if (key == "resources.exclude_providers") std::erase(r.exclude_providers, set);
    else if (key == "secrets_on") spec.secrets_on_any = set == "any";
    else if (key == "image") spec.image = set;
    else if (key == "limits.duration") spec.limits.duration = parse_duration(set);
    else if (key == "resources.gpu" || key == "resources.regions" || key == "resources.providers") {
        auto& list = key == "resources.gpu" ? r.gpu : key == "resources.regions" ? r.regions : r.providers;
        if (set.empty()) list.clear();
        else list.push_back(set);
    } else {
        FAIL("no way to apply ", key, " ", verb_text);
    }
}

int fitting(const Setting& x, const std::vector<Offer>& offers) {
    ChoiceWorld world = x.world;
    world.shown = 10'000;
    return static_cast<int>(choose(x.job, x.task, offers, world).ranked.size());
}

/// Offers around the plain one, each worse in one thing by another measure.
std::vector<Offer> various(void (*worsen)(Offer&, int)) {
    std::vector<Offer> out;
    for (int i = 0; i < 12; ++i) {
        Offer o = test::offer("vastai", std::to_string(i));
        o.cpus = 16;
        o.memory = Bytes{64 * kGB};
        o.disk_max = Bytes{500 * kGB};
        o.inet_down_mbps = 800;
        o.reliability = 0.99;
        o.cuda_max = "12.8";
        o.driver = "570.86";
        o.verified = true;
        worsen(o, i);
        out.push_back(std::move(o));
    }
    return out;
}

struct Row {
    const char* what;
    void (*demand)(Setting&);
    void (*worsen)(Offer&, int);
    const char* key;
    const char* set;
    int admits;
    int admits_all;
    const char* text_has;
};

}  // namespace

TEST_CASE("the smallest change of each demand is said, and lets in exactly what it says") {
    const Row table[] = {
        {"max_price, to whole cents", [](Setting& x) { x.job.resources.max_price = UsdPerHour{400'000}; },
         [](Offer& o, int i) { o.gpu_rate = UsdPerHour{421'300 + 3'000 * i}; }, "resources.max_price", "0.43", 3, 12,
         "raise resources.max_price to 0.43 and 3 offers fit"},
        {"max_price, one offer", [](Setting& x) { x.job.resources.max_price = UsdPerHour{400'000}; },
         [](Offer& o, int i) { o.gpu_rate = UsdPerHour{410'000 + 100'000 * i}; }, "resources.max_price", "0.41", 1, 12, "and 1 offer fits"},
        {"vram class", [](Setting& x) { x.job.resources.vram = gb_class(48); },
         [](Offer& o, int i) { card(o, i % 2 == 0 ? "RTX-4090" : "RTX-4080", mib(i % 2 == 0 ? 24564 : 16376)); }, "resources.vram", "24GB",
         6, 12, "lower resources.vram to 24GB"},
        {"exact vram", [](Setting& x) { x.job.resources.vram = exactly(40 * kGB); },
         [](Offer& o, int i) { card(o, i % 3 == 0 ? "RTX-4090" : "RTX-4080", mib(i % 3 == 0 ? 24564 : 16376)); }, "resources.vram",
         "24900000000", 4, 12, "lower"},
        {"memory", [](Setting& x) { x.job.resources.memory = Bytes{128 * kGB}; },
         [](Offer& o, int i) { o.memory = Bytes{(64 + i % 4 * 10) * kGB + 5}; }, "resources.memory", "94GB", 3, 12, "lower"},
        {"disk", [](Setting& x) { x.job.resources.disk = Bytes{900 * kGB}; },
         [](Offer& o, int i) { o.disk_max = Bytes{(100 + 50 * i) * kGB + 1}; }, "resources.disk", "650GB", 1, 12, "lower"},
        {"cpus", [](Setting& x) { x.job.resources.cpus = 32; }, [](Offer& o, int i) { o.cpus = 8.5 + i % 2 * 8; }, "resources.cpus", "16", 6,
         12, "lower resources.cpus to 16"},
        {"cpus, where some do not tell", [](Setting& x) { x.job.resources.cpus = 32; },
         [](Offer& o, int i) { if (i < 5) o.cpus.reset(); else o.cpus = i < 8 ? 16 : 8; }, "resources.cpus", "16", 3, 12, "lower resources.cpus to 16"},
        {"none tells", [](Setting& x) { x.job.resources.cpus = 32; }, [](Offer& o, int) { o.cpus.reset(); }, "resources.cpus", "", 12, 12,
         "leave out"},
        {"less than one cpu", [](Setting& x) { x.job.resources.cpus = 1; }, [](Offer& o, int) { o.cpus = 0.5; }, "resources.cpus", "", 12, 12,
         "leave out"},
        {"some cpus and less than one", [](Setting& x) { x.job.resources.cpus = 32; },
         [](Offer& o, int i) { o.cpus = i % 2 == 0 ? 0.5 : 8; }, "resources.cpus", "8", 6, 12, "lower resources.cpus to 8"},
        {"inet_down", [](Setting& x) { x.job.resources.inet_down_mbps = 2'000; },
         [](Offer& o, int i) { o.inet_down_mbps = 900.7 + i; }, "resources.inet_down", "911Mbps", 1, 12, "lower"},
        {"reliability", [](Setting& x) { x.job.resources.reliability = 0.999; },
         [](Offer& o, int i) { o.reliability = i < 4 ? 0.9954 : 0.97; }, "resources.reliability", "0.995", 4, 12, "lower"},
        {"memory bandwidth", [](Setting& x) { x.job.resources.memory_bandwidth = Bytes{3'000 * kGB}; },
         [](Offer& o, int i) { if (i == 3) card(o, "A100-SXM-80GB", mib(81920)); }, "resources.memory_bandwidth", "2039GB/s", 1, 12, "lower"},
        {"cuda", [](Setting& x) { x.job.resources.cuda = "13.0"; }, [](Offer& o, int i) { o.cuda_max = i < 5 ? "12.10" : "12.9"; },
         "resources.cuda", ">=12.10", 5, 12, "lower"},
        {"driver", [](Setting& x) { x.job.resources.driver = "600"; }, [](Offer& o, int i) { o.driver = i < 2 ? "580.65.06" : "570.1"; },
         "resources.driver", ">=580.65.06", 2, 12, "lower"},
        {"gpu name", [](Setting& x) { x.job.resources.gpu = {"H100-SXM-80GB"}; },
         [](Offer& o, int i) { if (i < 4) card(o, "RTX-3090", mib(24576)); }, "resources.gpu", "RTX-4090", 8, 12,
         "add RTX-4090 to resources.gpu and 8 offers fit"},
        {"region", [](Setting& x) { x.job.resources.regions = {"US"}; }, [](Offer& o, int i) { o.country = i < 7 ? "DE" : "FR"; },
         "resources.regions", "DE", 7, 12, "add DE"},
        {"region not told", [](Setting& x) { x.job.resources.regions = {"US"}; }, [](Offer& o, int) { o.country.clear(); },
         "resources.regions", "", 12, 12, "leave out resources.regions"},
        {"providers", [](Setting& x) { x.job.resources.providers = {"lambda"}; },
         [](Offer& o, int i) { if (i < 5) o.provider = ProviderName{"runpod"}; }, "resources.providers", "vastai", 7, 12, "add vastai"},
        {"exclude_providers", [](Setting& x) { x.job.resources.exclude_providers = {"vastai"}; }, [](Offer&, int) {},
         "resources.exclude_providers", "vastai", 12, 12, "take out vastai of resources.exclude_providers"},
        {"gpus", [](Setting& x) { x.job.resources.gpus = 8; }, [](Offer& o, int i) { o.gpu_count = i < 3 ? 4 : 2; }, "resources.gpus", "2", 9,
         9, "set resources.gpus to 2"},
        {"spot never", [](Setting& x) { x.job.resources.spot = SpotChoice::never; }, [](Offer& o, int) { o.spot = true; }, "resources.spot",
         "auto", 12, 12, "set resources.spot to auto"},
        {"spot always", [](Setting& x) { x.job.resources.spot = SpotChoice::always; }, [](Offer&, int) {}, "resources.spot", "auto", 12, 12,
         "set"},
        {"arch",
         [](Setting& x) {
             x.job.resources.arch = "arm64";
             x.world.agent_archs = {"amd64", "arm64"};
         },
         [](Offer&, int) {}, "resources.arch", "amd64", 12, 12, "set"},
        {"precision", [](Setting& x) { x.job.resources.precision = "fp8"; }, [](Offer& o, int) { card(o, "RTX-3090", mib(24576)); },
         "resources.precision", "", 12, 12, "leave out"},
        {"nvlink", [](Setting& x) { x.job.resources.nvlink = true; }, [](Offer&, int) {}, "resources.nvlink", "", 12, 12, "leave out"},
        {"secrets: hosts that are not vetted and hosts that do not tell", [](Setting& x) { x.job.secrets = {"HF_TOKEN"}; },
         [](Offer& o, int i) { o.verified = i < 6 ? std::optional(false) : std::nullopt; }, "secrets_on", "any", 12, 12, "set secrets_on to any"},
        {"an image where the local machine runs none", [](Setting& x) { x.job.image = "a:1"; }, [](Offer& o, int) { make_local(o); }, "image",
         "", 12, 12, "leave out image"},
        {"lease, to whole minutes", [](Setting& x) { x.job.limits.duration = hours{10}; },
         [](Offer& o, int i) { o.lease_end = kNow + minutes{75 + 10 * i} + std::chrono::seconds{17}; }, "limits.duration", "2h50m", 1, 12,
         "lower limits.duration to 2h50m"},
        {"lease of a task that ran",
         [](Setting& x) {
             x.job.limits.duration = hours{10};
             x.task.ran = hours{2};
         },
         [](Offer& o, int) { o.lease_end = kNow + minutes{75}; }, "limits.duration", "3h", 12, 12, "lower"},
        {"cpus not told", [](Setting& x) { x.job.resources.cpus = 4; }, [](Offer& o, int) { o.cpus.reset(); }, "resources.cpus", "", 12, 12,
         "leave out resources.cpus"},
    };
    for (const auto& row : table) {
        CAPTURE(std::string(row.what));
        Setting x;
        row.demand(x);
        const auto offers = various(row.worsen);
        REQUIRE(fitting(x, offers) == 0);
        const auto decision = choose(x.job, x.task, offers, x.world);
        REQUIRE(decision.relaxations.size() == 1);
        const auto& r = decision.relaxations[0];
        CAPTURE(r.text);
        CHECK(r.key == row.key);
        CHECK(r.set == row.set);
        CHECK(r.admits == row.admits);
        CHECK(r.admits_all == row.admits_all);
        CHECK(r.text.find(row.text_has) != std::string::npos);
        Setting first = x, all = x;
        apply(first.job, r.key, r.text, r.set);
        CHECK(fitting(first, offers) == r.admits);
        apply(all.job, r.key, r.text, r.set_all);
        CHECK(fitting(all, offers) == r.admits_all);
    }
}

TEST_CASE("no change is proposed that would not be enough, or that is not the user's to make") {
    struct None {
        const char* what;
        void (*change)(Setting&);
    };
    const None table[] = {
        {"two demands at once",
         [](Setting& x) {
             x.job.resources.max_price = UsdPerHour{100'000};
             x.job.resources.cpus = 64;
             x.offer.cpus = 8;
         }},
        {"a card that is too small after it ran out of memory", [](Setting& x) { x.task.vram_above = mib(24564); }},
        {"memory that ran out",
         [](Setting& x) {
             x.task.memory_above = Bytes{64 * kGB};
             x.offer.memory = Bytes{32 * kGB};
         }},
        {"a paused provider", [](Setting& x) { x.world.paused_providers["vastai"] = "auth"; }},
        {"a price that is none", [](Setting& x) { x.offer.gpu_rate = UsdPerHour{0}; }},
        {"a machine without GPUs for a job that asks for one",
         [](Setting& x) {
             card(x.offer, "", {});
             x.offer.gpu_count = 0;
         }},
        {"a quota", [](Setting& x) { x.world.machines = 50; }},
        {"a lease that has ended", [](Setting& x) { x.offer.lease_end = kNow - hours{1}; }},
        {"a card of no name for a demand by memory",
         [](Setting& x) {
             x.job.resources.vram = gb_class(24);
             card(x.offer, "", {});
         }},
        {"a disk of nothing", [](Setting& x) { x.offer.disk_max = Bytes{5}; }},
    };
    for (const auto& row : table) {
        CAPTURE(std::string(row.what));
        Setting x;
        row.change(x);
        const auto decision = choose(x.job, x.task, std::vector<Offer>{x.offer}, x.world);
        CHECK(!decision.chosen.has_value());
        CHECK(decision.relaxations.empty());
    }
}

TEST_CASE("each reason has its key, and the line where it was written") {
    CHECK(spec_key("max_price") == "resources.max_price");
    CHECK(spec_key("cpus_unknown") == "resources.cpus");
    CHECK(spec_key("gpu_unknown") == "resources.gpu");
    CHECK(spec_key("verified_unknown") == "secrets_on");
    CHECK(spec_key("lease_ends_too_soon") == "limits.duration");
    CHECK(spec_key("vram_above") == "retry.gpu_oom");
    for (const char* none : {"quota_machines", "provider_auth", "out_of_stock", "bid_below_floor", "no_agent_for_arm64", "", "made up"})
        CHECK(spec_key(none).empty());
    CHECK(config_key("quota_machines") == "quotas.machines");
    CHECK(config_key("agent_cannot_reach_daemon") == "advertise_url");
    CHECK(config_key("max_price").empty());

    Setting x;
    x.job.resources.max_price = UsdPerHour{100'000};
    x.job.lines = {{"resources", 3}, {"resources.max_price", 7}};
    Offer arm = x.offer;
    arm.arch = "arm64";
    arm.id = "2";
    x.world.agent_archs = {"amd64", "arm64"};
    Offer far = x.offer;
    far.provider = ProviderName{"elsewhere"};
    const auto decision = choose(x.job, {}, std::vector<Offer>{x.offer, arm, far}, x.world);
    REQUIRE(decision.sources.size() == 3);
    CHECK(decision.sources[0].reason == "agent_cannot_reach_daemon");
    CHECK(decision.sources[0].of_config);
    CHECK(decision.sources[1].key == "resources.arch");
    CHECK(decision.sources[1].line == 0);  // not written there: the default
    CHECK(decision.sources[2].key == "resources.max_price");
    CHECK(decision.sources[2].line == 7);
    const auto out = nlohmann::json::parse(decision_json(decision));
    CHECK(out["sources"]["max_price"] == nlohmann::json::parse(R"({"key":"resources.max_price","line":7})"));
    CHECK(out["sources"]["agent_cannot_reach_daemon"] == nlohmann::json::parse(R"({"config":"advertise_url"})"));
    CHECK(out["near_misses"][0]["key"] == "resources.max_price");
    REQUIRE(out["relaxations"].size() == 1);
    CHECK(out["relaxations"][0]["set"] == "0.30");
    CHECK(out["relaxations"][0]["line"] == 7);
    CHECK(out["relaxations"][0]["admits"] == 1);
    CHECK(!out["relaxations"][0].contains("admits_all"));
}

TEST_CASE("figures that are no numbers, or beyond all sense, are no figures to propose") {
    for (const double odd : {std::nan(""), -std::numeric_limits<double>::infinity(), -1e300, 0.0, -0.5}) {
        CAPTURE(odd);
        for (const char* key : {"resources.cpus", "resources.inet_down", "resources.reliability"}) {
            CAPTURE(std::string(key));
            Setting x;
            const std::string k = key;
            if (k == "resources.cpus") {
                x.job.resources.cpus = 4;
                x.offer.cpus = odd;
            } else if (k == "resources.inet_down") {
                x.job.resources.inet_down_mbps = 100;
                x.offer.inet_down_mbps = odd;
            } else {
                x.job.resources.reliability = 0.9;
                x.offer.reliability = odd;
            }
            const auto decision = choose(x.job, {}, std::vector<Offer>{x.offer}, x.world);
            REQUIRE(decision.relaxations.size() == 1);
            CHECK(decision.relaxations[0].key == key);
            CHECK(decision.relaxations[0].set.empty());
        }
    }
    Setting x;
    x.job.limits.duration = hours{1};
    x.offer.lease_end = Instant{Millis{INT64_MIN}};
    CHECK(choose(x.job, {}, std::vector<Offer>{x.offer}, x.world).relaxations.empty());
}

TEST_CASE("what was said by another key is told by that key") {
    Setting x;
    x.job.resources.vram = exactly(100 * kGB);
    x.job.lines = {{"resources.estimate", 5}};
    auto decision = choose(x.job, {}, std::vector<Offer>{x.offer}, x.world);
    REQUIRE(decision.sources.size() == 1);
    CHECK(decision.sources[0].key == "resources.estimate");
    CHECK(decision.sources[0].line == 5);
    CHECK(decision.near_misses[0].key == "resources.estimate");
    CHECK(decision.relaxations.empty());  // what a model needs is no wish
    x.job = job();
    x.job.resources.exclude_providers = {"vastai"};
    decision = choose(x.job, {}, std::vector<Offer>{x.offer}, x.world);
    CHECK(decision.sources[0].key == "resources.exclude_providers");
    x.job.resources.providers = {"lambda"};
    CHECK(choose(x.job, {}, std::vector<Offer>{x.offer}, x.world).sources[0].key == "resources.providers");
    CHECK(choose(x.job, {}, std::vector<Offer>{x.offer}, x.world).relaxations.empty());  // two changes
}

TEST_CASE("a change is proposed beside a choice, and keys come in their order") {
    Setting x;
    x.job.resources.max_price = UsdPerHour{350'000};
    x.job.resources.cpus = 8;
    std::vector<Offer> offers;
    for (int i = 0; i < 5; ++i) {
        Offer o = test::offer("vastai", std::to_string(i));
        o.cpus = i == 4 ? 4 : 16;
        o.gpu_rate = UsdPerHour{i < 4 ? 300'000 + 40'000 * i : 300'000};
        offers.push_back(o);
    }
    const auto decision = choose(x.job, {}, offers, x.world);
    REQUIRE(decision.chosen.has_value());
    REQUIRE(decision.relaxations.size() == 2);
    CHECK(decision.relaxations[0].key == "resources.cpus");
    CHECK(decision.relaxations[1].key == "resources.max_price");
    CHECK(decision.relaxations[1].set == "0.38");
    CHECK(decision.relaxations[1].admits == 1);
    CHECK(decision.relaxations[1].set_all == "0.42");
    CHECK(decision.relaxations[1].admits_all == 2);
    std::ranges::reverse(offers);
    CHECK(choose(x.job, {}, offers, x.world).relaxations == decision.relaxations);
}
