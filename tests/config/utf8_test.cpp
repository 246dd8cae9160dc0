#include "config/utf8.hpp"

#include <doctest/doctest.h>

using namespace gf;

TEST_CASE("only well-formed UTF-8 without control characters is readable") {
    struct Row {
        std::string_view text;
        bool readable;
    };
    using namespace std::string_view_literals;
    const Row table[] = {
        {"plain\ttext\r\n", true},
        {"Обучение №1 🎤", true},
        {"\xF4\x8F\xBF\xBF", true},   // U+10FFFF
        {"\xF4\x90\x80\x80", false},  // above it
        {"\xC0\xAF", false},          // overlong /
        {"\xE0\x80\xAF", false},
        {"\xF0\x80\x80\xAF", false},
        {"\xED\xA0\x80", false},  // a surrogate
        {"\x80", false},
        {"caf\xE9", false},
        {"\xC3", false},
        {"\xE2\x82", false},
        {"\xFF", false},
        {"\xEF\xBB\xBFname: x", false},
        {"name: \xEF\xBB\xBFx", true},  // a zero-width space elsewhere is a character
        {"\xFF\xFEn\0"sv, false},
        {"a\0b"sv, false},
        {"a\x1b[0m", false},
        {"a\x7F", false},
    };
    for (const auto& row : table) {
        CAPTURE(shown(row.text));
        CHECK(find_text_fault(row.text).has_value() != row.readable);
    }
    CHECK(find_text_fault("ok\xFF")->offset == 2);
}

TEST_CASE("characters are counted, not bytes") {
    CHECK(character_count("№1 🎤") == 4);
    CHECK(character_count("\xFF\xFF") == 2);
}

TEST_CASE("a value in a message is short and harmless") {
    CHECK(shown("two") == "two");
    CHECK(shown("a\u202eb\x01") == "a\\u{202E}b\\u{0001}");
    CHECK(shown("\xFF") == "\\xFF");
    CHECK(shown(std::string(1'000'000, 'x')).size() < 80);
}
