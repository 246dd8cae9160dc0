#include "model/region.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace gf;

TEST_CASE("country codes and groups are known whatever their case") {
    struct Row {
        std::string typed, canonical;
    };
    for (const auto& [typed, canonical] :
         {Row{"DE", "DE"}, Row{"de", "DE"}, Row{"UK", "GB"}, Row{"eu", "EU"},
          Row{"north america", "NORTH_AMERICA"}, Row{"North-America", "NORTH_AMERICA"}, Row{"XX", ""},
          Row{"EUU", ""}, Row{"", ""}, Row{"D", ""}, Row{"E ", ""}, Row{"T B", ""}, Row{"US-KS-2", ""},
          Row{"Deutschland", ""}})
        CHECK(canonical_region(typed).value_or("") == canonical);
    CHECK(!canonical_region(std::string(1'000, 'E')).has_value());
}

TEST_CASE("a group holds its countries and no others") {
    CHECK(in_region("DE", "DE"));
    CHECK(in_region("DE", "EU"));
    CHECK(in_region("CY", "EU"));
    CHECK(!in_region("CH", "EU"));
    CHECK(!in_region("NO", "EU"));
    CHECK(in_region("NO", "EEA"));
    CHECK(in_region("CH", "EUROPE"));
    CHECK(!in_region("GB", "EU"));
    CHECK(in_region("US", "NORTH_AMERICA"));
    CHECK(!in_region("US", "SOUTH_AMERICA"));
    CHECK(!in_region("", "EU"));
    CHECK(!in_region("", ""));
    CHECK(!in_region("DE", "XX"));
    CHECK(!in_region("E ", "EUROPE"));
}

TEST_CASE("every group has a known canonical name") {
    CHECK(region_groups().size() == 8);
    for (const auto group : region_groups()) CHECK(canonical_region(group) == std::string(group));
}
