// How the core looks at a market: a job that waits gets the prices that it needs, and pays none that it has not just seen.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "bench.hpp"

using namespace gf;

namespace {

/// A core with one provider whose searches take time, as Vast.ai's do, and the rows that it would show.
class SearchBench {
 public:
    explicit SearchBench(Capabilities can = {.spot = true, .balance = true, .search_per_count = true},
                         Millis pace = Millis{7'200}, Millis market_every = Millis{0})
        : pace_(pace) {
        CoreSettings settings = CoreBench::default_settings();
        settings.market_every = market_every;
        auto opened = open_sqlite_store(":memory:");
        REQUIRE(opened.has_value());
        store = std::move(*opened);
        auto live = store->load_live();
        REQUIRE(live.has_value());
        core = std::make_unique<Orchestrator>(std::move(settings),
                                              std::vector<Orchestrator::ProviderInfo>{{ProviderName{"paced"}, can}}, 7, *live,
                                              std::map<JobId, std::shared_ptr<const JobSpec>>{}, now);
    }

    void add(const std::string& id, const std::string& gpu, const std::string& country, std::int64_t micros, bool spot = false) {
        Offer o = CoreBench::offer("paced", id, micros, spot);
        o.gpu.canonical = gpu;
        o.country = country;
        o.exclusive = true;
        rows.push_back(o);
    }

    std::string submit(JobSpec spec) {
        spec.run = "true";
        spec.name = "job" + std::to_string(specs_.size());
        spec.resources.disk = Bytes{20 * kGB};
        specs_[spec.name] = std::make_shared<JobSpec>(spec);
        apply(SubmitJob{static_cast<RequestId>(specs_.size()), spec.name, false, specs_[spec.name], "user", false, {}, "body"});
        return spec.name;
    }

    void pass(Millis time) {
        for (const Instant end = now + time; now < end;) {
            now += Millis{100};
            apply(Tick{});
            answer();
        }
    }
    [[nodiscard]] bool launched(const std::string& offer) const { return std::ranges::find(launches, offer) != launches.end(); }

    Instant now{instant_of(1'790'000'000'000)};
    std::unique_ptr<Store> store;
    std::unique_ptr<Orchestrator> core;
    std::vector<Offer> rows;
    std::map<int, std::vector<RejectedOffer>> broken_rows;  // by the count that is searched for
    std::vector<OfferQuery> looks;
    std::vector<std::string> launches;
    std::vector<Millis> ages;  // of the prices that were rented by
    std::size_t looks_before{0};  // the last launch
    Result<Usd> balance{Usd{100'000'000}};

 private:
    void apply(Event event) {
        StoredRows stored;
        Effects out = core->apply(event, stored, now);
        if (!out.rows.empty()) REQUIRE(store->commit(out.rows).has_value());
        std::vector<Event> follow;
        for (auto& effect : out.after_commit) {
            if (const auto* look = std::get_if<CallOffers>(&effect)) begin(look->query);
            if (const auto* list = std::get_if<CallList>(&effect)) follow.push_back(ListingSeen{list->provider, now, now, Listing{}});
            if (std::holds_alternative<CallBalance>(effect)) follow.push_back(BalanceSeen{ProviderName{"paced"}, balance});
            if (const auto* launch = std::get_if<CallLaunch>(&effect)) {
                const Offer& taken = launch->request.offer;
                launches.push_back(taken.id);
                looks_before = looks.size();
                ages.push_back(now - read_at_.at({taken.gpu_count, taken.spot}));
            }
            if (const auto* queue = std::get_if<ReadQueue>(&effect)) {
                QueuePage page;
                auto queued = *store->reader().queue(queue->after, queue->limit, now);
                for (auto& row : queued.tasks) page.items.push_back({row, specs_[row.job.spec]});
                page.next = std::move(queued.next);
                follow.push_back(std::move(page));
            }
        }
        for (auto& next : follow) apply(std::move(next));
    }

    /// As the adapter does it: searches one pace apart, each with the cheapest 64 rows that meet the demands.
    void begin(const OfferQuery& query) {
        looks.push_back(query);
        OfferList list;
        Instant at = std::max(now, next_search_);
        const Instant began = now;
        for (const int count : query.gpu_counts)
            for (const bool spot : {false, true}) {
                if (!(spot ? query.spot : query.on_demand)) continue;
                const int rounds = query.look == Look::sweep ? 4 : 1;
                for (int round = 0; round < rounds; ++round, at = next_search_ = at + pace_)
                    if (round == 0) {
                        list.reads.push_back({.gpu_count = count, .spot = spot, .at = at});
                        read_at_[{count, spot}] = at;
                    }
                list.rejected.insert(list.rejected.end(), broken_rows[count].begin(), broken_rows[count].end());
                std::vector<Offer> found;
                for (const Offer& o : rows)
                    if (o.gpu_count == count && o.spot == spot && query.covers(o)) found.push_back(o);
                std::ranges::sort(found, {}, [](const Offer& o) { return o.gpu_rate.micros; });
                found.resize(std::min<std::size_t>(found.size(), 64));
                list.offers.insert(list.offers.end(), found.begin(), found.end());
            }
        open_ = OffersSeen{ProviderName{"paced"}, began, at - pace_ + Millis{300}, list};
    }
    void answer() {
        if (!open_ || now < open_->ended) return;
        auto seen = *std::exchange(open_, std::nullopt);
        apply(std::move(seen));
    }

    Millis pace_;
    Instant next_search_{};
    std::map<std::pair<int, bool>, Instant> read_at_;
    std::optional<OffersSeen> open_;
    std::map<std::string, std::shared_ptr<const JobSpec>> specs_;
};

void fill(SearchBench& b) {
    for (int i = 0; i < 84; ++i) {
        b.add("d" + std::to_string(i), "CARD-" + std::to_string(i % 14), "US", 200'000 + i * 1'000);
        b.add("s" + std::to_string(i), "CARD-" + std::to_string(i % 14), "US", 250'000 + i * 1'000, true);
    }
}

}  // namespace

TEST_CASE("a job is placed within two looks however many rows a market has and however slow its searches are") {
    for (const Millis pace : {Millis{7'200}, Millis{12'000}, Millis{30'000}}) {
        CAPTURE(pace.count());
        SearchBench b({.spot = true, .search_per_count = true}, pace);
        fill(b);
        b.pass(Seconds{1});
        b.submit({});
        b.pass(10 * pace);
        REQUIRE(b.launches.size() == 1);
        CHECK(b.launched("d0"));
        CHECK(b.ages[0] <= Seconds{10});
        CHECK(b.looks_before <= 3);  // the first look of the process, the job's own, the price before the rent
    }
}

TEST_CASE("what fits is seen behind any number of cheaper rows that do not") {
    SearchBench b;
    fill(b);
    for (int i = 0; i < 2; ++i) b.add("us" + std::to_string(i), "RTX-4090", "US", 210'000);
    b.add("eu", "RTX-4090", "DE", 900'000);
    JobSpec spec;
    spec.resources.gpu = {"RTX-4090"};
    spec.resources.regions = {"EU"};
    b.submit(spec);
    b.pass(Seconds{60});
    REQUIRE(b.launches.size() == 1);
    CHECK(b.launched("eu"));
}

TEST_CASE("who takes hosts that nobody has vetted is asked for them, and nobody else gets one (I01)") {
    for (const bool any : {false, true}) {
        CAPTURE(any);
        SearchBench b;
        fill(b);
        b.add("unvetted", "CARD-1", "US", 100'000);
        b.rows.back().verified = false;
        JobSpec spec;
        spec.secrets_on_any = any;
        if (any) b.submit(spec);
        b.pass(Seconds{60});
        // The other one comes when such hosts have been seen.
        b.submit({});
        b.pass(Seconds{120});
        CHECK(b.launched("unvetted") == any);
        REQUIRE(b.launches.size() == (any ? 2U : 1U));
        CHECK(b.launches.back() == "d0");
        CHECK(std::ranges::any_of(b.looks, [](const auto& look) { return look.demands.unvetted; }) == any);
    }
}

TEST_CASE("jobs that want different things of a paced market have their looks in turn") {
    SearchBench b;
    fill(b);
    b.pass(Seconds{1});
    for (const char* gpu : {"NONE-A", "NONE-B", "NONE-C", "CARD-3"}) {
        JobSpec spec;
        spec.resources.gpu = {gpu};
        b.submit(spec);
    }
    b.pass(Seconds{150});
    CHECK(b.launches == std::vector<std::string>{"d3"});
    std::map<std::string, int> looks;
    for (const auto& look : b.looks)
        if (look.demands.gpus.size() == 1) looks[look.demands.gpus[0]] += 1;
    for (const char* gpu : {"NONE-A", "NONE-B", "NONE-C"}) CHECK(looks[gpu] >= 2);
}

TEST_CASE("demands travel to a market that is searched, none to one that answers whole") {
    JobSpec spec;
    spec.resources.gpus = 2;
    spec.resources.vram = VramDemand{.class_gb = 24, .exact = {}};
    spec.resources.memory = Bytes{64 * kGB};
    spec.resources.cpus = 8;
    spec.resources.reliability = 0.99;
    spec.resources.regions = {"US"};
    spec.limits.duration = std::chrono::hours{10};
    {
        SearchBench b;
        b.submit(spec);
        b.pass(Seconds{60});
        const auto& demands = b.looks.back().demands;
        CHECK(b.looks.back().gpu_counts == std::vector{2});
        CHECK(demands.vram_min == Bytes{static_cast<std::int64_t>(0.93 * 24 * static_cast<double>(kGiB))});
        CHECK(demands.memory_min == Bytes{64 * kGB});
        CHECK(demands.cpus_min == 8);
        CHECK(demands.reliability_min == 0.99);
        CHECK(demands.regions == std::vector<std::string>{"US"});
        CHECK(demands.lease_min == Millis{std::chrono::minutes{615}});
        CHECK(b.looks.back().look == Look::wanted);
    }
    SearchBench b({.spot = false});
    b.submit(spec);
    b.pass(Seconds{60});
    CHECK(b.looks.back().demands == OfferDemands{});
}

TEST_CASE("a job that nothing fits is no reason to ask a whole catalogue all the time, nor for counts that nobody wants") {
    SearchBench b({.spot = false}, Millis{0});
    b.add("a", "CARD", "US", 900'000);
    b.pass(Seconds{1});
    const auto before = b.looks.size();
    JobSpec spec;
    spec.resources.max_price = UsdPerHour{100'000};
    b.submit(spec);
    b.pass(Seconds{120});
    CHECK(b.looks.size() - before >= 4);
    CHECK(b.looks.size() - before <= 6);
    for (auto i = before; i < b.looks.size(); ++i) CHECK(b.looks[i].gpu_counts == std::vector{1});
    // The price falls: the next look shows it, and it is read once more only when it is old.
    b.rows[0].gpu_rate = UsdPerHour{90'000};
    b.pass(Seconds{35});
    CHECK(b.launched("a"));
    CHECK(b.ages.at(0) <= Seconds{10});
}

TEST_CASE("a balance that is not to be had any more is forgotten, one that is late is not") {
    SearchBench b;
    b.pass(Seconds{1});
    const auto shown = [&] { return b.core->view(b.now).providers.at(0).balance; };
    REQUIRE(shown() == Usd{100'000'000});
    b.balance = std::unexpected(Error{.kind = ErrorKind::unavailable, .message = "502"});
    b.pass(Seconds{61});
    CHECK(shown() == Usd{100'000'000});
    b.pass(Seconds{122});
    CHECK(!shown());  // three reads in a row without an answer
    for (const auto kind : {ErrorKind::not_found, ErrorKind::api_retired}) {
        b.balance = Usd{5'000'000};
        b.pass(Seconds{61});
        REQUIRE(shown() == Usd{5'000'000});
        b.balance = std::unexpected(Error{.kind = kind, .message = "no such call"});
        b.pass(Seconds{61});
        CHECK(!shown());
    }
}

TEST_CASE("a paced market is swept piece by piece while nobody waits, and then rarely") {
    SearchBench b;
    fill(b);
    b.pass(std::chrono::minutes{12});
    std::set<std::pair<int, bool>> seen;
    for (const auto& look : b.looks)
        if (look.look == Look::sweep) {
            CHECK(look.on_demand != look.spot);
            seen.insert({look.gpu_counts.at(0), look.spot});
        }
    CHECK(seen.size() == 8);
    const auto before = b.looks.size();
    b.pass(std::chrono::minutes{30});
    CHECK(b.looks.size() - before >= 4);
    CHECK(b.looks.size() - before <= 7);
}

TEST_CASE("a market that answers whole is looked at for its record too, by one look for all counts") {
    using std::chrono::minutes;
    for (const bool waits : {false, true}) {
        CAPTURE(waits);
        SearchBench b({.spot = true}, Millis{0}, minutes{5});
        b.add("a", "CARD", "US", 900'000);
        JobSpec spec;
        spec.resources.gpus = 3;
        spec.resources.spot = SpotChoice::never;
        spec.resources.max_price = UsdPerHour{100'000};
        if (waits) b.submit(spec);
        b.pass(std::chrono::minutes{61});
        std::size_t whole = 0;
        for (const auto& look : b.looks) {
            const std::set<int> counts(look.gpu_counts.begin(), look.gpu_counts.end());
            if (counts.contains(1) && counts.contains(8)) {
                ++whole;
                CHECK(look.on_demand);
                CHECK(look.spot);
                CHECK(look.demands == OfferDemands{});
            }
            if (waits) CHECK(counts.contains(3));
        }
        CHECK(whole >= 12);
        CHECK(whole <= 14);
        if (!waits) CHECK(b.looks.size() == whole);
        // Nobody waits longer for it, and nothing is asked more often.
        if (waits) CHECK(b.looks.size() <= 61 * 60 / 30 + 2);
    }
    SearchBench off({.spot = true}, Millis{0});
    off.pass(minutes{61});
    CHECK(off.looks.size() == 1);
    SearchBench local({.is_local = true}, Millis{0}, minutes{5});
    local.pass(minutes{61});
    CHECK(local.looks.size() == 1);
}

TEST_CASE("what one search could not use is still told after the searches that found nothing wrong") {
    SearchBench b;
    b.broken_rows[1] = {{"x", "price_zero"}, {"y", "price_negative"}};
    b.add("good", "RTX-4090", "US", 300'000);
    b.pass(std::chrono::minutes{5});
    CHECK(b.looks.size() > 4);
    const auto told = [&] { return b.core->view(b.now).providers.front().rejected_by; };
    CHECK(told() == std::map<std::string, int>{{"price_negative", 1}, {"price_zero", 1}});
    b.broken_rows.clear();
    b.pass(std::chrono::minutes{20});
    CHECK(told().empty());
}

TEST_CASE("a paced market is gone through for its record while a job waits, and the job waits hardly longer") {
    using std::chrono::minutes;
    SearchBench b({.spot = true, .search_per_count = true}, Millis{7'200}, minutes{5});
    fill(b);
    JobSpec spec;
    spec.resources.gpu = {"RTX-4090"};
    b.submit(spec);
    b.pass(std::chrono::minutes{45});
    std::set<std::pair<int, bool>> pieces;
    std::size_t looks = 0;
    for (const auto& look : b.looks) {
        if (!look.demands.gpus.empty() || (look.on_demand && look.spot)) continue;
        ++looks;
        pieces.insert({look.gpu_counts.at(0), look.spot});
        CHECK(look.look == Look::wanted);  // one search
        CHECK(look.demands == OfferDemands{});
    }
    CHECK(pieces.size() == 8);
    CHECK(looks <= 10);
    // What the job waits for appears just after a piece was begun: nothing else is rented meanwhile, and it is soon.
    const auto before = b.looks.size();
    while (!b.looks.back().demands.gpus.empty()) b.pass(Millis{100});
    REQUIRE(b.looks.size() > before);
    b.add("wanted", "RTX-4090", "US", 300'000);
    b.pass(Seconds{40});
    CHECK(b.launched("wanted"));
    CHECK(b.ages.at(0) <= Seconds{10});
}
