#include "model/spelling.hpp"

#include <doctest/doctest.h>

#include <array>

using namespace gf;

TEST_CASE("the distance counts slips, a swap of neighbours as one") {
    struct Row {
        const char *a, *b;
        std::size_t distance;
    };
    for (const auto& [a, b, distance] :
         {Row{"", "", 0}, Row{"gpus", "gpus", 0}, Row{"gpuss", "gpus", 1}, Row{"gpu", "gpus", 1},
          Row{"gpsu", "gpus", 1}, Row{"checkpiont", "checkpoint", 1}, Row{"abc", "", 3},
          Row{"kitten", "sitting", 3}, Row{"ab", "ba", 1}}) {
        CHECK(spelling_distance(a, b) == distance);
        CHECK(spelling_distance(b, a) == distance);
    }
    CHECK(spelling_distance(std::string(65, 'a'), "a") == kSpellingFar);
    CHECK(spelling_distance(std::string(64, 'a'), std::string(64, 'b')) == 64);
}

TEST_CASE("only what is near enough to be meant is suggested") {
    constexpr std::array<std::string_view, 4> known{"gpu", "gpus", "max_price", "vram"};
    CHECK(nearest_spelling("gpuss", known) == "gpus");
    CHECK(nearest_spelling("GPU", known) == "gpu");
    CHECK(nearest_spelling("max-price", known) == "max_price");
    CHECK(nearest_spelling("ram", known) == "vram");
    CHECK(!nearest_spelling("memory", known).has_value());
    CHECK(!nearest_spelling("", known).has_value());
    CHECK(!nearest_spelling(std::string(100'000, 'g'), known).has_value());
}
