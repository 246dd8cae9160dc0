#include "providers/redaction.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace gf;

TEST_CASE("no secret is left in a foreign text") {
    const std::vector<Secret> secrets{Secret("rpa_EXAMPLE111"), Secret("pa ss/word+1")};
    const struct {
        std::string text;
        std::string shown;
    } rows[] = {
        {"bad key rpa_EXAMPLE111.", "bad key ***."},
        {"rpa_EXAMPLE111rpa_EXAMPLE111", "******"},
        {"u=pa%20ss%2Fword%2B1", "u=***"},
        {"u=pa%20ss%2fword%2b1", "u=***"},
        {"u=pa+ss%2Fword%2B1", "u=***"},
        {R"(a page that says {"k":"pa ss\/word+1"})", R"(a page that says {"k":"***"})"},
        {"Basic dTpycGFfRVhBTVBMRTExMQ==", "Basic dTp***Q=="},
        {"Basic dXM6cnBhX0VYQU1QTEUxMTE=", "Basic dXM6***E="},
        {"GET https://h/x?api_key=zzz&b=1 failed", "GET https://h/x?*** failed"},
        {"api_key=abc", "api_key=***"},
        {"{\"api_key\": \"abc\"}", "{\"api_key\": \"***\"}"},
        {"API-KEY: abc def", "API-KEY: *** def"},
        {"Authorization: Bearer abcdef0123456", "Authorization: Bearer ***"},
        {"missing bearer token", "missing bearer token"},
        {"{\"instance_api_key\":\"b1f0\"}", "{\"instance_api_key\":\"***\"}"},
        {"password=hunter2, next", "password=***, next"},
        {"There are no instances", "There are no instances"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.text);
        CHECK(shown(row.text, secrets) == row.shown);
    }
}

TEST_CASE("a foreign text is made fit to be shown") {
    CHECK(shown("a\r\nb\x1b[31m\x01") == "a b [31m ");
    CHECK(shown("n\xc3\xa9\xff\xfe ok") == "n\xc3\xa9  ok");
    CHECK(shown(std::string(1000, 'x'), {}, 10) == "xxxxxxxxxx...");
    CHECK(shown("") == "");
}

TEST_CASE("a secret on the border of what is looked at does not come through in part") {
    const std::vector<Secret> secrets{Secret("rpa_EXAMPLE111222333")};
    for (std::size_t pad = 380; pad < 420; ++pad)
        CHECK(shown(std::string(pad, 'x') + "rpa_EXAMPLE111222333", secrets).find("rpa_E") ==
              std::string::npos);
}
