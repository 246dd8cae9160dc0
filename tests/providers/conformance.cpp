// The provider port as a suite of cases. It knows no provider: what differs is in Capabilities or behind the
// Bench.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "bench.hpp"

namespace gf::test {
namespace {

constexpr int kPollsMax = 200;  // reads until a state is reached, with the bench's time passing between them

const ProviderMachine* by_tag(const Listing& listing, const MachineTag& tag) {
    const auto it = std::ranges::find(listing.machines, tag.get(), &ProviderMachine::tag);
    return it == listing.machines.end() ? nullptr : &*it;
}

bool comes_to(Bench& b, const ProviderMachineId& id, Presence wanted) {
    for (int i = 0; i < kPollsMax; ++i) {
        const auto seen = b.provider().read(id);
        if (seen && seen->presence == wanted) return true;
        b.pass(Seconds{3});
    }
    return false;
}

ProviderMachineId rent(Bench& b, int number) {
    const auto out = b.provider().launch(launch_request(b.some_offer(), number));
    REQUIRE_MESSAGE(!out.error, (out.error ? out.error->message : ""));
    REQUIRE(!out.id.empty());
    return out.id;
}

void no_secret(const Error& error) {
    CAPTURE(error.message);
    CHECK(error.message.find(kKey) == std::string::npos);
    CHECK(error.message.find(kEnrol) == std::string::npos);
    CHECK(!error.message.empty());
}

void offers_are_usable(Bench& b) {
    const auto list = b.provider().offers({.gpu_counts = {0, 1}});
    REQUIRE(list);
    REQUIRE(!list->offers.empty());
    std::set<std::string> ids;
    for (const auto& o : list->offers) {
        CAPTURE(o.id);
        CHECK(ids.insert(o.id).second);
        CHECK(o.provider == b.provider().name());
        CHECK((o.gpu_count == 1 || (o.gpu_count == 0 && b.provider().capabilities().is_local)));
        CHECK((o.gpu_rate.micros > 0 || (o.gpu_rate.micros == 0 && b.provider().capabilities().is_local)));
        CHECK((!o.spot || (b.provider().capabilities().spot && o.spot_floor.has_value())));
        if (o.gpu.memory) CHECK(o.gpu.memory->count > 0);
        if (o.cpus) CHECK(*o.cpus > 0);
    }
}

void a_market_can_be_asked_in_part(Bench& b) {
    const auto none = b.provider().offers({.gpu_counts = {1}, .on_demand = false, .spot = false});
    REQUIRE(none);
    CHECK(none->offers.empty());
    const auto on_demand = b.provider().offers({.gpu_counts = {0, 1}, .spot = false});
    REQUIRE(on_demand);
    for (const auto& o : on_demand->offers) CHECK(!o.spot);
}

void a_launch_makes_one_machine_that_is_found_by_its_tag(Bench& b) {
    const auto before = b.machines();
    const auto request = launch_request(b.some_offer(), 1);
    const auto out = b.provider().launch(request);
    REQUIRE_MESSAGE(!out.error, (out.error ? out.error->message : ""));
    REQUIRE(!out.id.empty());
    CHECK(b.machines() == before + 1);
    REQUIRE(comes_to(b, out.id, Presence::running));
    const auto seen = b.provider().read(out.id);
    REQUIRE(seen);
    CHECK(seen->id == out.id);
    CHECK(seen->tag == request.tag.get());
    CHECK(seen->gpu_count == request.offer.gpu_count);
    REQUIRE(seen->gpu_rate.has_value());
    CHECK(seen->gpu_rate->micros <=
          std::max(request.offer.gpu_rate.micros, request.bid.value_or(UsdPerHour{0}).micros));
    const auto listing = b.provider().list();
    REQUIRE(listing);
    const auto* listed = by_tag(*listing, request.tag);
    REQUIRE(listed != nullptr);
    CHECK(listed->id == out.id);
    if (b.provider().capabilities().listing_has_env) CHECK(listed->env_tag == request.tag.get());
}

void a_destroyed_machine_is_gone_and_stays_so(Bench& b) {
    const auto id = rent(b, 2);
    REQUIRE(comes_to(b, id, Presence::running));
    REQUIRE(b.provider().destroy(id));
    for (int i = 0; i < kPollsMax; ++i) {
        const auto seen = b.provider().read(id);
        if (seen && seen->presence == Presence::gone) break;
        b.pass(Seconds{3});
        CHECK(b.provider().destroy(id));  // asking again is harmless
    }
    const auto seen = b.provider().read(id);
    REQUIRE(seen);
    CHECK(seen->presence == Presence::gone);
    CHECK(seen->id == id);
    const auto listing = b.provider().list();
    REQUIRE(listing);
    CHECK(std::ranges::find(listing->machines, id, &ProviderMachine::id) == listing->machines.end());
    CHECK(b.machines() == 0);
    CHECK(b.provider().destroy(id));
}

void two_machines_are_told_apart(Bench& b) {
    const auto first = rent(b, 3);
    b.pass(Seconds{20});
    const auto offers = b.provider().offers({.gpu_counts = {0, 1}});
    REQUIRE(offers);
    const auto free =
        std::ranges::find_if(offers->offers, [](const Offer& o) { return !o.spot && o.stock != 0; });
    if (free == offers->offers.end()) return;  // a machine of one slot
    const auto second = b.provider().launch(launch_request(*free, 4));
    REQUIRE_MESSAGE(!second.error, (second.error ? second.error->message : ""));
    CHECK(second.id != first);
    REQUIRE(comes_to(b, second.id, Presence::running));
    REQUIRE(b.provider().destroy(first));
    REQUIRE(comes_to(b, first, Presence::gone));
    const auto other = b.provider().read(second.id);
    REQUIRE(other);
    CHECK(other->presence == Presence::running);
}

void machines_of_others_are_listed_under_their_own_names(Bench& b) {
    if (!b.add_foreign("somebody-elses")) return;
    const auto listing = b.provider().list();
    REQUIRE(listing);
    const auto* foreign = by_tag(*listing, MachineTag{"somebody-elses"});
    REQUIRE(foreign != nullptr);
    CHECK(foreign->env_tag.empty());
}

// E01, A02: the request left, no answer came.
void a_create_without_an_answer_is_of_unknown_outcome(Bench& b) {
    for (const auto fault : {Fault::answer_lost, Fault::error_after, Fault::truncated}) {
        CAPTURE(static_cast<int>(fault));
        const auto request = launch_request(b.some_offer(), 10 + static_cast<int>(fault));
        const auto before = b.machines();
        if (!b.fault(Op::create, fault)) continue;
        const auto out = b.provider().launch(request);
        b.fault(Op::create, Fault::none);
        CHECK(out.id.empty());
        REQUIRE(out.error.has_value());
        CHECK(out.error->kind == ErrorKind::unknown_outcome);
        CHECK(b.machines() == before + 1);  // exactly one create call reached the world
        b.pass(Seconds{120});
        const auto listing = b.provider().list();
        REQUIRE(listing);
        CHECK(by_tag(*listing, request.tag) != nullptr);
        b.pass(Seconds{60});
    }
}

// A09
void a_create_that_came_too_early_is_of_unknown_outcome(Bench& b) {
    const auto request = launch_request(b.some_offer(), 20);
    if (!b.fault(Op::create, Fault::too_often)) return;
    const auto out = b.provider().launch(request);
    REQUIRE(out.error.has_value());
    CHECK(out.error->kind == ErrorKind::unknown_outcome);
    REQUIRE(out.error->retry_after.has_value());
    CHECK(*out.error->retry_after > Millis{0});
}

// A01
void no_capacity_is_a_clean_refusal(Bench& b) {
    const auto request = launch_request(b.some_offer(), 21);
    if (!b.fault(Op::create, Fault::no_capacity)) return;
    const auto out = b.provider().launch(request);
    CHECK(out.id.empty());
    REQUIRE(out.error.has_value());
    CHECK(out.error->kind == ErrorKind::no_capacity);
    CHECK(b.machines() == 0);
}

// A08
void a_refused_key_is_told_and_proves_nothing(Bench& b) {
    const auto request = launch_request(b.some_offer(), 23);
    const auto id = rent(b, 22);
    b.pass(Seconds{120});
    bool possible = true;
    for (const auto op : {Op::create, Op::list, Op::read, Op::destroy})
        possible = b.fault(op, Fault::wrong_key) && possible;
    if (!possible) return;
    const auto listing = b.provider().list();
    REQUIRE(!listing);
    CHECK(listing.error().kind == ErrorKind::auth);
    const auto seen = b.provider().read(id);
    REQUIRE(!seen);
    CHECK(seen.error().kind == ErrorKind::auth);
    const auto destroyed = b.provider().destroy(id);
    REQUIRE(!destroyed);
    CHECK(destroyed.error().kind == ErrorKind::auth);
    const auto out = b.provider().launch(request);
    REQUIRE(out.error.has_value());
    CHECK(out.error->kind == ErrorKind::auth);
    for (const auto op : {Op::create, Op::list, Op::read, Op::destroy}) b.fault(op, Fault::none);
    b.pass(Seconds{60});
    const auto again = b.provider().read(id);
    REQUIRE(again);
    CHECK(again->presence != Presence::gone);
}

// A05, A06, A11
void an_odd_answer_is_never_an_empty_fleet(Bench& b) {
    const auto id = rent(b, 24);
    const struct {
        Fault fault;
        ErrorKind kind;
    } rows[] = {{Fault::odd_shape, ErrorKind::malformed},     {Fault::html, ErrorKind::malformed},
                {Fault::truncated, ErrorKind::unavailable},   {Fault::answer_lost, ErrorKind::unavailable},
                {Fault::error_after, ErrorKind::unavailable}, {Fault::too_often, ErrorKind::rate_limited}};
    for (const auto& row : rows) {
        CAPTURE(static_cast<int>(row.fault));
        b.pass(Seconds{120});
        if (!b.fault(Op::list, row.fault)) continue;
        b.fault(Op::read, row.fault);
        const auto listing = b.provider().list();
        REQUIRE(!listing);
        CHECK(listing.error().kind == row.kind);
        const auto seen = b.provider().read(id);
        REQUIRE(!seen);
        CHECK(seen.error().kind == row.kind);
        if (row.fault == Fault::too_often) {
            REQUIRE(listing.error().retry_after.has_value());
            CHECK(*listing.error().retry_after > Millis{0});
        }
        b.fault(Op::list, Fault::none);
        b.fault(Op::read, Fault::none);
    }
    b.pass(Seconds{120});
    CHECK(b.provider().list());
}

void an_odd_market_answer_is_an_error(Bench& b) {
    for (const auto fault : {Fault::odd_shape, Fault::html, Fault::truncated}) {
        CAPTURE(static_cast<int>(fault));
        if (!b.fault(Op::offers, fault)) continue;
        const auto offers = b.provider().offers({});
        REQUIRE(!offers);
        CHECK((offers.error().kind == ErrorKind::malformed || offers.error().kind == ErrorKind::unavailable));
        b.fault(Op::offers, Fault::none);
        b.pass(Seconds{30});
    }
    CHECK(b.provider().offers({}));
}

// E02, E03
void a_failed_destroy_says_so_and_when_to_ask_again(Bench& b) {
    const auto id = rent(b, 25);
    if (!b.fault(Op::destroy, Fault::later)) return;
    const auto out = b.provider().destroy(id);
    REQUIRE(!out);
    CHECK(out.error().kind == ErrorKind::unknown_outcome);
    REQUIRE(out.error().retry_after.has_value());
    CHECK(*out.error().retry_after >= Seconds{60});
    b.fault(Op::destroy, Fault::none);
    b.pass(Seconds{61});
    CHECK(b.provider().destroy(id));
}

// I01
void no_error_text_shows_a_secret(Bench& b) {
    const auto request = launch_request(b.some_offer(), 27);
    const auto id = rent(b, 26);
    b.pass(Seconds{120});
    if (!b.fault(Op::create, Fault::echo)) return;
    for (const auto op : {Op::list, Op::read, Op::destroy, Op::offers}) b.fault(op, Fault::echo);
    const auto out = b.provider().launch(request);
    REQUIRE(out.error.has_value());
    no_secret(*out.error);
    const auto listing = b.provider().list();
    REQUIRE(!listing);
    no_secret(listing.error());
    const auto seen = b.provider().read(id);
    REQUIRE(!seen);
    no_secret(seen.error());
    const auto destroyed = b.provider().destroy(id);
    REQUIRE(!destroyed);
    no_secret(destroyed.error());
    const auto offers = b.provider().offers({});
    REQUIRE(!offers);
    no_secret(offers.error());
}

void the_key_travels_in_a_header_only(Bench& b) {
    const auto id = rent(b, 28);
    b.pass(Seconds{30});
    CHECK(b.provider().list());
    CHECK(b.provider().destroy(id));
    for (const auto& r : b.sent()) {
        CAPTURE(r.target);
        CHECK(r.target.find(kKey) == std::string::npos);
        CHECK(r.body.find(kKey) == std::string::npos);
        for (const auto& h : r.headers)
            if (h.name != "authorization") CHECK(h.value.find(kKey) == std::string::npos);
        CHECK(r.header("authorization") == "Bearer " + kKey);
        CHECK(r.header("user-agent") == "gpuferry/test");
    }
}

void a_provider_that_is_not_there_is_unavailable(Bench& b) {
    const auto request = launch_request(b.some_offer(), 30);
    const auto id = rent(b, 29);
    const auto before = b.machines();
    b.pass(Seconds{120});
    if (!b.go_away()) return;
    const auto listing = b.provider().list();
    REQUIRE(!listing);
    CHECK(listing.error().kind == ErrorKind::unavailable);
    const auto seen = b.provider().read(id);
    REQUIRE(!seen);
    CHECK(seen.error().kind == ErrorKind::unavailable);
    CHECK(!b.provider().destroy(id));
    const auto out = b.provider().launch(request);
    REQUIRE(out.error.has_value());
    CHECK(out.error->kind == ErrorKind::unavailable);
    CHECK(b.machines() == before);
}

// A04, E04
void an_id_that_never_was_is_gone_by_an_authenticated_read_only(Bench& b) {
    const auto seen = b.provider().read(ProviderMachineId{"987654321"});
    REQUIRE(seen);
    CHECK(seen->presence == Presence::gone);
    CHECK(b.provider().destroy(ProviderMachineId{"987654321"}));
}

struct Case {
    const char* name;
    void (*run)(Bench&);
};

constexpr Case kCases[] = {
    {"offers are usable", offers_are_usable},
    {"a market can be asked in part", a_market_can_be_asked_in_part},
    {"a launch makes one machine that is found by its tag",
     a_launch_makes_one_machine_that_is_found_by_its_tag},
    {"a destroyed machine is gone and stays so", a_destroyed_machine_is_gone_and_stays_so},
    {"two machines are told apart", two_machines_are_told_apart},
    {"machines of others are listed under their own names",
     machines_of_others_are_listed_under_their_own_names},
    {"a create without an answer is of unknown outcome", a_create_without_an_answer_is_of_unknown_outcome},
    {"a create that came too early is of unknown outcome",
     a_create_that_came_too_early_is_of_unknown_outcome},
    {"no capacity is a clean refusal", no_capacity_is_a_clean_refusal},
    {"a refused key is told and proves nothing", a_refused_key_is_told_and_proves_nothing},
    {"an odd answer is never an empty fleet", an_odd_answer_is_never_an_empty_fleet},
    {"an odd market answer is an error", an_odd_market_answer_is_an_error},
    {"a failed destroy says so and when to ask again", a_failed_destroy_says_so_and_when_to_ask_again},
    {"no error text shows a secret", no_error_text_shows_a_secret},
    {"the key travels in a header only", the_key_travels_in_a_header_only},
    {"a provider that is not there is unavailable", a_provider_that_is_not_there_is_unavailable},
    {"an id that never was is gone by an authenticated read only",
     an_id_that_never_was_is_gone_by_an_authenticated_read_only},
};

}  // namespace

Offer Bench::some_offer() {
    const auto list = provider().offers({.gpu_counts = {0, 1}, .spot = false});
    REQUIRE_MESSAGE(list, (list ? "" : list.error().message));
    const auto it = std::ranges::find_if(list->offers, [](const Offer& o) { return o.stock != 0; });
    REQUIRE(it != list->offers.end());
    return *it;
}

LaunchRequest launch_request(const Offer& offer, int number) {
    LaunchRequest r;
    r.tag = MachineTag{fmt::format("gf-testtest-{:026d}", number)};
    r.offer = offer;
    r.disk_gb = 20;
    if (offer.spot) r.bid = offer.gpu_rate;
    r.env = {{"GPUFERRY_URL", "http://127.0.0.1:1"},
             {"GPUFERRY_MACHINE", r.tag.get()},
             {"GPUFERRY_ENROL", kEnrol},
             {"GPUFERRY_PIN", ""}};
    r.start_script = "echo \"it's $GPUFERRY_MACHINE\" && exec sleep 1000";
    return r;
}

void check_conformance(BenchMaker make) {
    for (const auto& c : kCases) {
        INFO("case: " << std::string(c.name));
        const auto bench = make();
        c.run(*bench);
    }
}

}  // namespace gf::test
