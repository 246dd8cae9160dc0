#include "filter_case.hpp"

using namespace gf;
using namespace gf::test;

TEST_CASE("host figures: enough, too little, and not told") {
    const Case cases[] = {
        {"cpus",
         [](Setting& x) {
             x.job.resources.cpus = 8;
             x.offer.cpus = 8.0;
         },
         ""},
        {"cpus short",
         [](Setting& x) {
             x.job.resources.cpus = 8;
             x.offer.cpus = 7.5;
         },
         "cpus", "7.5 is less than 8"},
        {"cpus unknown", [](Setting& x) { x.job.resources.cpus = 8; }, "cpus_unknown"},
        {"cpus not asked", [](Setting& x) { x.offer.cpus = std::nullopt; }, ""},
        {"memory",
         [](Setting& x) {
             x.job.resources.memory = Bytes{32 * kGB};
             x.offer.memory = Bytes{32 * kGB};
         },
         ""},
        {"memory short",
         [](Setting& x) {
             x.job.resources.memory = Bytes{32 * kGB};
             x.offer.memory = Bytes{32 * kGB - 1};
         },
         "memory"},
        {"memory unknown", [](Setting& x) { x.job.resources.memory = Bytes{32 * kGB}; }, "memory_unknown"},
        {"disk short",
         [](Setting& x) {
             x.job.resources.disk = Bytes{100 * kGB};
             x.offer.disk_max = Bytes{99 * kGB};
         },
         "disk"},
        {"disk rounded up",
         [](Setting& x) {
             x.job.resources.disk = Bytes{99 * kGB + 1};
             x.offer.disk_max = Bytes{99 * kGB + 1};
         },
         "disk"},
        {"disk unknown", [](Setting& x) { x.job.resources.disk = Bytes{100 * kGB}; }, ""},
        {"cuda",
         [](Setting& x) {
             x.job.resources.cuda = "12.6";
             x.offer.cuda_max = "12.10";
         },
         ""},
        {"cuda short",
         [](Setting& x) {
             x.job.resources.cuda = "12.6";
             x.offer.cuda_max = "12.5";
         },
         "cuda"},
        {"cuda unknown", [](Setting& x) { x.job.resources.cuda = "12.6"; }, "cuda_unknown"},
        {"driver short",
         [](Setting& x) {
             x.job.resources.driver = "560";
             x.offer.driver = "535.183.06";
         },
         "driver"},
        {"driver",
         [](Setting& x) {
             x.job.resources.driver = "560";
             x.offer.driver = "560.35.03";
         },
         ""},
        {"driver no version",
         [](Setting& x) {
             x.job.resources.driver = "560";
             x.offer.driver = "unknown";
         },
         "driver_unknown"},
        {"region EU", [](Setting& x) { x.job.resources.regions = {"EU"}; }, ""},
        {"region by country", [](Setting& x) { x.job.resources.regions = {"US", "DE"}; }, ""},
        {"region other",
         [](Setting& x) {
             x.job.resources.regions = {"EU"};
             x.offer.country = "CH";
         },
         "region", "CH is not in EU"},
        {"region EEA",
         [](Setting& x) {
             x.job.resources.regions = {"EEA"};
             x.offer.country = "NO";
         },
         ""},
        {"region unknown",
         [](Setting& x) {
             x.job.resources.regions = {"EU"};
             x.offer.country = "";
         },
         "region_unknown"},
        {"no region asked", [](Setting& x) { x.offer.country = ""; }, ""},
        {"reliability",
         [](Setting& x) {
             x.job.resources.reliability = 0.98;
             x.offer.reliability = 0.98;
         },
         ""},
        {"reliability short",
         [](Setting& x) {
             x.job.resources.reliability = 0.98;
             x.offer.reliability = 0.9;
         },
         "reliability"},
        {"reliability unknown", [](Setting& x) { x.job.resources.reliability = 0.98; },
         "reliability_unknown"},
        {"secrets on a vetted host",
         [](Setting& x) {
             x.job.secrets = {"HF_TOKEN"};
             x.offer.verified = true;
         },
         ""},
        {"secrets on a host that is not vetted (I01)",
         [](Setting& x) {
             x.job.secrets = {"HF_TOKEN"};
             x.offer.verified = false;
         },
         "host_not_verified", "the host is not vetted"},
        {"secrets where nothing is told of the host", [](Setting& x) { x.job.secrets = {"HF_TOKEN"}; }, "verified_unknown"},
        {"a registry login is a secret too",
         [](Setting& x) {
             x.job.image_auth = ImageAuthSpec{.username = "bot", .password_secret = "TOKEN"};
             x.offer.verified = false;
         },
         "host_not_verified"},
        {"secrets_on: any",
         [](Setting& x) {
             x.job.secrets = {"HF_TOKEN"};
             x.job.secrets_on_any = true;
             x.offer.verified = false;
         },
         ""},
        {"a registry login where none is taken now",
         [](Setting& x) {
             x.job.image_auth = ImageAuthSpec{.username = "bot", .password_secret = "TOKEN"};
             x.offer.verified = true;
             x.world.no_logins = {x.offer.provider.get()};
         },
         "registry_logins_paused", "no login for a private image"},
        {"a registry login, and another provider takes none",
         [](Setting& x) {
             x.job.image_auth = ImageAuthSpec{.username = "bot", .password_secret = "TOKEN"};
             x.offer.verified = true;
             x.world.no_logins = {"elsewhere"};
         },
         ""},
        {"a public image where no login is taken", [](Setting& x) { x.world.no_logins = {x.offer.provider.get()}; }, ""},
        {"no secrets, any host", [](Setting& x) { x.offer.verified = false; }, ""},
        {"inet short",
         [](Setting& x) {
             x.job.resources.inet_down_mbps = 200;
             x.offer.inet_down_mbps = 199;
         },
         "inet_down", "199 Mbps"},
        {"inet unknown", [](Setting& x) { x.job.resources.inet_down_mbps = 200; }, "inet_down_unknown"},
    };
    check(cases);
}

TEST_CASE("a lease must outlast the job") {
    using std::chrono::hours;
    using std::chrono::minutes;
    const Case cases[] = {
        {"10 h job, 2 h lease",
         [](Setting& x) {
             x.job.limits.duration = hours{10};
             x.offer.lease_end = kNow + hours{2};
         },
         "lease_ends_too_soon", "needed are 10h"},
        {"10 h job, 30 d lease",
         [](Setting& x) {
             x.job.limits.duration = hours{10};
             x.offer.lease_end = kNow + hours{24 * 30};
         },
         ""},
        {"margin missing",
         [](Setting& x) {
             x.job.limits.duration = hours{10};
             x.offer.lease_end = kNow + hours{10} + minutes{14};
         },
         "lease_ends_too_soon"},
        {"margin there",
         [](Setting& x) {
             x.job.limits.duration = hours{10};
             x.offer.lease_end = kNow + hours{10} + minutes{15};
         },
         ""},
        {"what ran already counts",
         [](Setting& x) {
             x.job.limits.duration = hours{10};
             x.task.ran = hours{9};
             x.offer.lease_end = kNow + hours{2};
         },
         ""},
        {"no duration: an hour", [](Setting& x) { x.offer.lease_end = kNow + minutes{74}; },
         "lease_ends_too_soon"},
        {"no duration: enough", [](Setting& x) { x.offer.lease_end = kNow + minutes{75}; }, ""},
        {"over already", [](Setting& x) { x.offer.lease_end = kNow - hours{1}; }, "lease_ends_too_soon"},
    };
    check(cases);
}

TEST_CASE("the market's passing state") {
    const Case cases[] = {
        {"cooling down", [](Setting& x) { x.world.cooled_offers["vastai/1"] = "no_capacity"; },
         "offer_cooling_down", "no_capacity"},
        {"another provider's offer of that id",
         [](Setting& x) { x.world.cooled_offers["runpod/1"] = "no_capacity"; }, ""},
        {"bad host",
         [](Setting& x) {
             x.offer.host_id = "h7";
             x.world.bad_hosts["vastai/h7"] = "smaller GPU";
         },
         "bad_host", "smaller GPU"},
        {"unknown host", [](Setting& x) { x.world.bad_hosts["vastai/"] = "x"; }, ""},
        {"taken", [](Setting& x) { x.world.taken_offers.insert("vastai/1"); }, "offer_taken"},
        {"none in stock", [](Setting& x) { x.offer.stock = 0; }, "out_of_stock"},
        {"stock not told", [](Setting& x) { x.offer.stock = -1; }, ""},
    };
    check(cases);
}
