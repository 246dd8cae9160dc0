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

/// Asks until it is taken: a machine that is still being made may be locked for a while.
bool asked_to_go(Bench& b, const ProviderMachineId& id) {
    for (int i = 0; i < kPollsMax; ++i) {
        const auto out = b.provider().destroy(id);
        if (out) return true;
        if (out.error().kind != ErrorKind::unavailable || !out.error().retry_after) return false;
        b.pass(*out.error().retry_after);
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
    CHECK(asked_to_go(b, id));
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
    CHECK(asked_to_go(b, id));
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

// A06, A08, A09, A11, E02: what stands between us and the API may answer anything to anything.
void no_broken_wire_is_taken_for_news(Bench& b) {
    if (!b.wire(Wire::whole)) return;
    const auto offer = b.some_offer();
    const auto id = rent(b, 40);
    REQUIRE(comes_to(b, id, Presence::running));
    using enum ErrorKind;
    const struct {
        Wire wire;
        std::set<ErrorKind> reads;
        std::set<ErrorKind> create;
        std::set<ErrorKind> destroy;
        Millis hint;
    } rows[] = {
        {Wire::retired, {api_retired}, {api_retired}, {api_retired}, {}},
        {Wire::edge, {unavailable, malformed}, {unknown_outcome}, {unknown_outcome, unavailable}, {}},
        {Wire::storm, {rate_limited}, {unknown_outcome}, {rate_limited}, Millis{1}},
        {Wire::storm_hint, {rate_limited}, {unknown_outcome}, {rate_limited}, Seconds{7}},
        {Wire::cut, {unavailable}, {unknown_outcome}, {unknown_outcome, unavailable}, {}},
        {Wire::html, {malformed}, {unknown_outcome}, {unknown_outcome}, {}},
        {Wire::down, {unavailable}, {unknown_outcome}, {unknown_outcome, unavailable}, {}},
    };
    int number = 41;
    for (const auto& row : rows) {
        CAPTURE(static_cast<int>(row.wire));
        const auto before = b.machines();
        const auto judged = [&](const char* what, const auto& result, const std::set<ErrorKind>& kinds) {
            CAPTURE(what);
            REQUIRE(!result.has_value());
            CAPTURE(result.error().message);
            CAPTURE(text(result.error().kind));
            CHECK(kinds.contains(result.error().kind));
            no_secret(result.error());
            if (row.hint <= Millis{0}) return;
            REQUIRE(result.error().retry_after.has_value());
            CHECK(*result.error().retry_after >= std::min(row.hint, Millis{Seconds{7}}) - Millis{1});
        };
        const auto alone = [&](const auto& call) {
            // Each call by itself: what the one before was refused does not hold this one.
            b.pass(std::chrono::minutes{10});
            REQUIRE(b.wire(row.wire));
            call();
            b.wire(Wire::whole);
        };
        alone([&] { judged("list", b.provider().list(), row.reads); });
        alone([&] { judged("read", b.provider().read(id), row.reads); });
        alone([&] { judged("offers", b.provider().offers({.gpu_counts = {1}, .spot = false}), row.reads); });
        alone([&] { judged("destroy", b.provider().destroy(id), row.destroy); });
        alone([&] {
            const auto out = b.provider().launch(launch_request(offer, number++));
            CHECK(out.id.empty());
            REQUIRE(out.error.has_value());
            CAPTURE(out.error->message);
            CHECK(row.create.contains(out.error->kind));
            no_secret(*out.error);
            if (row.hint > Millis{0}) CHECK(out.error->retry_after.has_value());
        });
        CHECK(b.machines() == before);
        b.pass(std::chrono::minutes{10});
        const auto seen = b.provider().read(id);
        REQUIRE_MESSAGE(seen, (seen ? "" : seen.error().message));
        CHECK(seen->presence == Presence::running);
    }
}

void a_provider_that_is_down_is_left_alone_except_by_destroys(Bench& b) {
    if (!b.wire(Wire::whole)) return;
    const auto id = rent(b, 60);
    b.pass(std::chrono::minutes{10});
    REQUIRE(b.wire(Wire::down));
    const auto before = b.sent().size();
    for (int i = 0; i < 30; ++i) {
        const auto listing = b.provider().list();
        REQUIRE(!listing);
        CHECK(listing.error().kind == ErrorKind::unavailable);
    }
    // Five failures open the breaker. Nothing here waits, so no trial is due before the first pause is over.
    const auto asked = b.sent().size() - before;
    CHECK(asked >= 5);
    CHECK(asked <= 8);
    const auto held = b.provider().list();
    REQUIRE(!held);
    REQUIRE(held.error().retry_after.has_value());
    CHECK(*held.error().retry_after > Millis{0});
    const auto sent = b.sent().size();
    CHECK(!b.provider().destroy(id));
    CHECK(b.sent().size() == sent + 1);
    b.wire(Wire::whole);
    b.pass(std::chrono::minutes{10});
    CHECK(b.provider().list());
    CHECK(b.provider().destroy(id));
}

void a_storm_of_429_is_met_with_fewer_calls(Bench& b) {
    if (!b.wire(Wire::whole)) return;
    for (const auto wire : {Wire::storm, Wire::storm_hint}) {
        REQUIRE(b.wire(wire));
        const auto before = b.sent().size();
        const auto began = b.clock().now();
        int refused = 0;
        for (int i = 0; i < 40; ++i)
            if (!b.provider().list()) ++refused;
        CHECK(refused == 40);
        // Whoever waits long enough gets another try: one per Retry-After, or per pause that doubles from a second on until it is
        // longer than a call waits.
        const auto calls = static_cast<Millis::rep>(b.sent().size() - before);
        const Millis pause{wire == Wire::storm_hint ? 7'000 : 1'000};
        CHECK(calls <= (b.clock().now() - began) / pause + 1);
        if (wire == Wire::storm) CHECK(calls <= 20);
        b.wire(Wire::whole);
        b.pass(std::chrono::hours{2});
    }
    CHECK(b.provider().list());
}

// A08, E04: the key was good a moment ago, and is not any more.
void a_key_that_is_revoked_in_mid_flight_makes_nothing_gone(Bench& b) {
    const auto id = rent(b, 65);
    b.pass(Seconds{120});
    REQUIRE(b.provider().list());  // a fresh proof
    bool possible = true;
    for (const auto op : {Op::list, Op::read, Op::destroy}) possible = b.fault(op, Fault::wrong_key) && possible;
    if (!possible) return;
    for (int i = 0; i < 3; ++i) {
        const auto seen = b.provider().read(id);
        REQUIRE(!seen);
        CHECK(seen.error().kind == ErrorKind::auth);
        const auto destroyed = b.provider().destroy(id);
        REQUIRE(!destroyed);
        CHECK(destroyed.error().kind == ErrorKind::auth);
        b.pass(Seconds{20});
    }
}

void good_answers_show_no_drift(Bench& b) {
    rent(b, 66);
    for (int i = 0; i < 3; ++i) {
        b.pass(Seconds{60});
        const auto offers = b.provider().offers({.gpu_counts = {0, 1, 2}});
        REQUIRE_MESSAGE(offers, (offers ? "" : offers.error().message));
        for (const auto& drift : offers->drift) FAIL_CHECK(drift.what << ": " << drift.detail);
        const auto listing = b.provider().list();
        REQUIRE_MESSAGE(listing, (listing ? "" : listing.error().message));
        for (const auto& drift : listing->drift) FAIL_CHECK(drift.what << ": " << drift.detail);
    }
}

void what_is_not_there_says_so(Bench& b) {
    const auto can = b.provider().capabilities();
    const auto until = b.clock().now();
    const auto charges = b.provider().charges(until - std::chrono::hours{24}, until);
    if (can.charges) {
        REQUIRE_MESSAGE(charges, (charges ? "" : charges.error().message));
        for (const auto& c : *charges) CHECK(c.from <= c.until);
    } else {
        REQUIRE(!charges);
        CHECK(charges.error().kind == ErrorKind::not_yet);
    }
    if (!can.bids) {
        const auto raised = b.provider().raise_bid(ProviderMachineId{"987654321"}, UsdPerHour{500'000});
        REQUIRE(!raised);
        CHECK(raised.error().kind == ErrorKind::not_yet);
    }
    const auto balance = b.provider().balance();
    CHECK(balance.has_value() == can.balance);
    if (!balance) CHECK(balance.error().kind == ErrorKind::not_found);
}

void a_name_can_be_put_back_or_says_why_not(Bench& b) {
    const auto id = rent(b, 67);
    REQUIRE(comes_to(b, id, Presence::running));
    const auto named = b.provider().rename(id, "gf-testtest-00000000000000000000000099");
    const auto seen = b.provider().read(id);
    REQUIRE(seen);
    CHECK(seen->presence == Presence::running);
    if (named) {
        CHECK(seen->tag == "gf-testtest-00000000000000000000000099");
        CHECK(b.provider().rename(id, "gf-testtest-00000000000000000000000099"));  // again is harmless
    } else {
        CAPTURE(named.error().message);
        CHECK((named.error().kind == ErrorKind::not_yet || named.error().kind == ErrorKind::conflict));
    }
}

void checks_change_nothing_and_tell_a_bad_key(Bench& b) {
    const auto id = rent(b, 68);
    b.pass(Seconds{120});
    const auto before = b.machines();
    const auto sent = b.sent().size();
    const auto good = b.provider().check();
    REQUIRE(!good.empty());
    for (const auto& f : good) {
        CAPTURE(f.text);
        CHECK(!f.what.empty());
        CHECK(!f.text.empty());
        CHECK(f.level != Finding::Level::failed);
        CHECK(f.text.find(kKey) == std::string::npos);
    }
    const auto all = b.sent();
    for (std::size_t i = sent; i < all.size(); ++i) CHECK((all[i].method == "GET" || all[i].method == "POST"));
    CHECK(b.machines() == before);
    b.pass(Seconds{120});
    bool possible = true;
    for (const auto op : {Op::list, Op::read, Op::destroy}) possible = b.fault(op, Fault::wrong_key) && possible;
    if (!possible) return;
    const auto bad = b.provider().check();
    CHECK(std::ranges::any_of(bad, [](const Finding& f) {
        return f.level == Finding::Level::failed && (f.what == "key" || f.what == "scope");
    }));
    for (const auto op : {Op::list, Op::read, Op::destroy}) b.fault(op, Fault::none);
    if (!b.wire(Wire::whole)) return;
    b.pass(std::chrono::minutes{10});
    for (const auto wire : {Wire::echo, Wire::html, Wire::cut, Wire::retired, Wire::storm}) {
        CAPTURE(static_cast<int>(wire));
        REQUIRE(b.wire(wire));
        const auto found = b.provider().check();
        CHECK(std::ranges::any_of(found, [](const Finding& f) { return f.level == Finding::Level::failed; }));
        for (const auto& f : found) CHECK(f.text.find(kKey) == std::string::npos);
        for (const auto& result : {b.provider().rename(id, "x"), b.provider().tidy(), b.provider().raise_bid(id, UsdPerHour{500'000})})
            if (!result) no_secret(result.error());
        if (const auto charges = b.provider().charges(b.clock().now() - std::chrono::hours{24}, b.clock().now()); !charges)
            no_secret(charges.error());
        if (const auto balance = b.provider().balance(); !balance) no_secret(balance.error());
        b.wire(Wire::whole);
        b.pass(std::chrono::minutes{10});
    }
}

void tidying_touches_no_machine(Bench& b) {
    const auto id = rent(b, 69);
    b.pass(Seconds{120});
    const auto before = b.machines();
    CHECK(b.provider().tidy());
    CHECK(b.provider().tidy());
    CHECK(b.machines() == before);
    const auto seen = b.provider().read(id);
    REQUIRE(seen);
    CHECK(seen->presence != Presence::gone);
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
    {"no broken wire is taken for news", no_broken_wire_is_taken_for_news},
    {"a provider that is down is left alone, except by destroys", a_provider_that_is_down_is_left_alone_except_by_destroys},
    {"a storm of 429 is met with fewer calls", a_storm_of_429_is_met_with_fewer_calls},
    {"a key that is revoked in mid-flight makes nothing gone", a_key_that_is_revoked_in_mid_flight_makes_nothing_gone},
    {"good answers show no drift", good_answers_show_no_drift},
    {"what is not there says so", what_is_not_there_says_so},
    {"a name can be put back, or says why not", a_name_can_be_put_back_or_says_why_not},
    {"checks change nothing and tell a bad key", checks_change_nothing_and_tell_a_bad_key},
    {"tidying touches no machine", tidying_touches_no_machine},
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
