#include <doctest/doctest.h>

#include "specs.hpp"

using namespace gf;

namespace {
const std::string kHash(64, 'a');
const std::string kValue = "\"sha256:" + std::string(64, 'a') + "\"";
}  // namespace

TEST_CASE("code is found as typed") {
    CHECK(*code_of_spec("run: x\ncode: ./src  # here\n", SpecFormat::yaml) == "./src");
    CHECK(*code_of_spec("run: x\n", SpecFormat::yaml) == "");
    CHECK(*code_of_spec("{\"code\":\"a b\"}", SpecFormat::json) == "a b");
    CHECK(code_of_spec("code: [a]\n", SpecFormat::yaml).error().field == "code");
    CHECK(code_of_spec("code: {", SpecFormat::yaml).error().kind == ErrorKind::malformed);
}

TEST_CASE("the hash takes the place of code and every other byte stays") {
    struct Row {
        SpecFormat format;
        std::string before, after;
    };
    const Row table[] = {
        {SpecFormat::yaml, "# mine\nrun: x\ncode: .   # the folder\nname: a\n",
         "# mine\nrun: x\ncode: " + kValue + "   # the folder\nname: a\n"},
        {SpecFormat::yaml, "code: .", "code: " + kValue},
        {SpecFormat::yaml, "code: 'it''s here'\r\nrun: x\r\n", "code: " + kValue + "\r\nrun: x\r\n"},
        {SpecFormat::yaml, "code: \"a \\\" b\"\nrun: x\n", "code: " + kValue + "\nrun: x\n"},
        {SpecFormat::yaml, "{code: src, run: x}", "{code: " + kValue + ", run: x}"},
        {SpecFormat::yaml, "run: x # №\ncode: папка\n", "run: x # №\ncode: " + kValue + "\n"},
        {SpecFormat::json, "{ \"code\" : \"a\\\"b\" , \"run\":\"code\"}",
         "{ \"code\" : " + kValue + " , \"run\":\"code\"}"},
        {SpecFormat::yaml, "run: \"code: .\"\ncode: .\nenv: {code: .}\n",
         "run: \"code: .\"\ncode: " + kValue + "\nenv: {code: .}\n"},
    };
    for (const auto& row : table) {
        CAPTURE(std::string(row.before));
        const auto got = spec_with_code(row.before, row.format, kHash);
        REQUIRE(got.has_value());
        CHECK(*got == row.after);
        CHECK(*code_of_spec(*got, row.format) == "sha256:" + kHash);
    }
}

TEST_CASE("code in a form that cannot be replaced in place is refused, not mangled") {
    for (const auto* text :
         {"code: |\n  src\nrun: x\n", "code: >-\n  src\n", "code: a\n  b\nrun: x\n", "run: x\n"}) {
        CAPTURE(std::string(text));
        const auto got = spec_with_code(text, SpecFormat::yaml, kHash);
        REQUIRE(!got.has_value());
        CHECK(got.error().kind == ErrorKind::invalid);
        CHECK(got.error().field == "code");
    }
}
