#include "model/secret_forms.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace gf;

namespace {

std::string masked(std::string text, std::string_view secret) {
    auto forms = secret_forms(secret);
    sort_forms(forms);
    mask_forms(text, forms);
    return text;
}

/// Independent of the code under test, bit by bit.
std::string base64_of(std::string_view bytes, std::string_view last_two) {
    const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789" + std::string(last_two);
    std::string bits;
    for (const char c : bytes)
        for (int i = 7; i >= 0; --i) bits += ((static_cast<unsigned char>(c) >> static_cast<unsigned>(i)) & 1U) != 0 ? '1' : '0';
    while (bits.size() % 6 != 0) bits += '0';
    std::string out;
    for (std::size_t at = 0; at < bits.size(); at += 6) out += digits[std::stoul(bits.substr(at, 6), nullptr, 2)];
    while (out.size() % 4 != 0) out += '=';
    return out;
}

}  // namespace

TEST_CASE("a secret is recognised in the forms in which others repeat it") {
    const struct {
        std::string secret, text, masked;
    } rows[] = {
        {"rpa_EXAMPLE111", "key rpa_EXAMPLE111.", "key ***."},
        {"pa ss/w+1", "u=pa%20ss%2Fw%2B1&x", "u=***&x"},
        {"pa ss/w+1", "u=pa%20ss%2fw%2b1&x", "u=***&x"},
        {"pa ss/w+1", "u=pa+ss%2Fw%2B1&x", "u=***&x"},
        {"a/b\"c\\d", R"({"k":"a/b\"c\\d"})", R"({"k":"***"})"},
        {"a/b\"c\\d", R"({"k":"a\/b\"c\\d"})", R"({"k":"***"})"},
        {"two\nlines\r\x01", R"(two\nlines\r\u0001)", "***"},
        {"two\nlines\x01", R"(two\nlines\x01)", "***"},
        {"n\xc3\xa9 key", "k=n%C3%A9%20key", "k=***"},
        {"a&b<c>d/", R"({"k":"a\u0026b\u003cc\u003ed/"})", R"({"k":"***"})"},
        {"a&b<c>d/", R"({"k":"a\u0026b\u003Cc\u003Ed\/"})", R"({"k":"***"})"},
        {"n\xc3\xa9&key", R"({"k":"n\u00e9&key"})", R"({"k":"***"})"},
        {"n\xc3\xa9&key", R"({"k":"n\u00E9\u0026key"})", R"({"k":"***"})"},
        {"k\xf0\x9f\x94\x91\xe2\x82\xac!", R"(k\ud83d\udd11\u20ac!)", "***"},
        {"bro\xc3ken", "bro\xc3ken", "***"},
        {"it's(a)*key!/", "u=it's(a)*key!%2F&x", "u=***&x"},
        {"it's(a)*key!/", "u=it%27s%28a%29%2Akey%21%2F&x", "u=***&x"},
        {"abcd", "abcd efgh", "*** efgh"},
        {"hf_EX/0", "0x68665F45582F30 68665f45582f30", "0x*** ***"},
        {"", "nothing to hide", "nothing to hide"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.text);
        CHECK(masked(row.text, row.secret) == row.masked);
    }
}

TEST_CASE("base64 hides a secret at none of the three alignments, in neither alphabet") {
    // With bytes that the two alphabets write differently.
    for (const std::string secret : {"rpa_EXAMPLE111", "hf_EXAMPLE0000", "k\xff\xfe?>key\xfb\xef\xbe", "0123456789"})
        for (const std::string_view last_two : {"+/", "-_"})
            for (const std::string before : {"", "u", "us", "user:", "{\"authorization\":\"Bearer "})
                for (const std::string after : {"", "\n", "\"}", "!!!"}) {
                    const auto text = base64_of(before + secret + after, last_two);
                    CAPTURE(text);
                    const auto hidden = masked(text, secret);
                    REQUIRE(hidden.find("***") != std::string::npos);
                    // At most the bits of one byte at each end are left.
                    CHECK(hidden.size() <= base64_of(before, "+/").size() + 4 + 3 + base64_of(after, "+/").size() + 4);
                }
}

TEST_CASE("each form is there once, and the longest is hidden first") {
    CHECK(secret_forms("abc") == std::vector<std::string>{"abc", "616263"});
    auto forms = secret_forms("a/b cdefgh");
    auto sorted = forms;
    sort_forms(sorted);
    CHECK(sorted.size() == forms.size());
    CHECK(std::ranges::is_sorted(sorted, [](const auto& a, const auto& b) { return a.size() > b.size(); }));
    std::vector<std::string> two{"prefix_EX", "prefix_EXAMPLE", "prefix_EX"};
    sort_forms(two);
    std::string text = "prefix_EXAMPLE";
    mask_forms(text, two);
    CHECK(text == "***");
}
