#include "scheduler/csv.hpp"

#include <doctest/doctest.h>

using namespace gf;
using Fields = std::vector<std::string>;

TEST_CASE("quoted fields keep commas, quotes and line ends") {
    const auto table = parse_csv("a,b\n1,\"x, \"\"y\"\"\nz\"\r\n\n2,\n");
    REQUIRE(table.has_value());
    CHECK(table->columns == Fields{"a", "b"});
    REQUIRE(table->rows.size() == 2);
    CHECK(table->rows[0].fields == Fields{"1", "x, \"y\"\nz"});
    CHECK(table->rows[0].line == 2);
    CHECK(table->rows[1].fields == Fields{"2", ""});
    CHECK(table->rows[1].line == 5);
    CHECK(table->column("b") == 1);
    CHECK(table->column("c") == 2);
}

TEST_CASE("a table that is cut or uneven is refused with the line") {
    CHECK(parse_csv("").error().line == 1);
    CHECK(parse_csv("a,b\n1,2\n3\n").error().line == 3);
    CHECK(parse_csv("a,b\n1,\"2\n3,4\n").error().line == 2);
    CHECK(parse_csv("a,b").has_value());
}
