#include "model/id.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

namespace gf {
namespace {

TEST_CASE("ids sort in the order in which they were made, also when the clock steps back") {
    IdMaker maker(Entropy{1});
    std::string last;
    std::set<std::string> seen;
    for (const std::int64_t ms : {1'000LL, 1'000LL, 2'000LL, 500LL, 500LL, 3'000LL}) {
        const auto id = maker.make("job_", instant_of(ms));
        CHECK(id > last);
        CHECK(id_body(id).size() == 26);
        CHECK(seen.insert(id).second);
        last = id;
    }
}

TEST_CASE("ids made after a note sort after the noted one") {
    IdMaker old(Entropy{1});
    const auto stored = old.make("mch_", instant_of(9'000));
    IdMaker maker(Entropy{2});
    maker.note(stored);
    CHECK(maker.make("mch_", instant_of(1)) > stored);
}

TEST_CASE("the time in an id is the time it was made") {
    IdMaker maker(Entropy{3});
    CHECK(id_millis(maker.make("att_", instant_of(1'732'957'964'000))) == 1'732'957'964'000);
    CHECK(id_millis("att_short") == 0);
    CHECK(id_body("noprefix").empty());
    CHECK(id_body("job_IIIIIIIIIIIIIIIIIIIIIIIIII").empty());
}

TEST_CASE("a machine tag is 38 plain characters and leads back to the machine") {
    IdMaker maker(Entropy{4});
    const auto machine = maker.make("mch_", instant_of(1'732'957'964'000));
    const auto tag = machine_tag("ab12cd34", machine);
    CHECK(tag.size() == 38);
    CHECK(parse_machine_tag(tag).install == "ab12cd34");
    CHECK(parse_machine_tag(tag).machine_id == machine);
    const std::vector<std::string> foreign_tags{"", "my-pod", "gf-AB12CD34-" + tag.substr(12), tag + "x", tag.substr(1)};
    for (const auto& foreign : foreign_tags)
        CHECK(parse_machine_tag(foreign).install.empty());
}

TEST_CASE("the same seed gives the same ids and a bound is kept") {
    IdMaker one(Entropy{5}), two(Entropy{5});
    CHECK(one.make("x_", instant_of(7)) == two.make("x_", instant_of(7)));
    Entropy entropy(6);
    for (int i = 0; i < 1'000; ++i) CHECK(entropy.below(10) < 10);
    CHECK(entropy.below(0) == 0);
}

}  // namespace
}  // namespace gf
