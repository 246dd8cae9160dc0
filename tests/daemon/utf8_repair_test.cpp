#include "daemon/api/utf8_repair.hpp"

#include <doctest/doctest.h>

#include <string>

namespace gf::api {
namespace {

std::string repaired(std::string_view bytes, std::size_t piece) {
    Utf8Repair repair;
    std::string out;
    for (std::size_t at = 0; at < bytes.size(); at += piece) repair.feed(bytes.substr(at, piece), out);
    repair.finish(out);
    return out;
}

struct Row {
    const char* what;
    std::string in;
    std::string out;
};

const Row kRows[] = {
    {"plain text", "step 1\n", "step 1\n"},
    {"two, three and four bytes", "n\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x8E\xA4", "n\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x8E\xA4"},
    {"a lone FF", "a\xFF" "b", "a\xEF\xBF\xBD" "b"},
    {"an overlong slash is two bad bytes", "\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},
    {"an overlong three-byte form", "\xE0\x80\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
    {"a surrogate", "\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
    {"above U+10FFFF", "\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
    {"a cut character before a letter is one mark", "\xE2\x82" "a", "\xEF\xBF\xBD" "a"},
    {"a cut character at the end is one mark", "x\xF0\x9F\x8E", "x\xEF\xBF\xBD"},
    {"a lone continuation", "\x80", "\xEF\xBF\xBD"},
    {"U+10FFFF itself is good", "\xF4\x8F\xBF\xBF", "\xF4\x8F\xBF\xBF"},
    {"NUL stays", std::string("a\0b", 3), std::string("a\0b", 3)},
};

TEST_CASE("repaired text does not depend on where the pieces were cut") {
    for (const auto& row : kRows) {
        CAPTURE(row.what);
        for (const std::size_t piece : {1U, 2U, 3U, 5U, 1000U}) {
            CAPTURE(piece);
            CHECK(repaired(row.in, piece) == row.out);
        }
    }
}

TEST_CASE("a character that is not finished yet is held back") {
    Utf8Repair repair;
    std::string out;
    repair.feed("n\xC3", out);
    CHECK(out == "n");
    CHECK(repair.held() == 1);
    repair.feed("\xA9!", out);
    CHECK(out == "n\xC3\xA9!");
    CHECK(repair.held() == 0);
}

}  // namespace
}  // namespace gf::api
