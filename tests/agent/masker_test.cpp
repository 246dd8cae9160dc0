#include "agent/masker.hpp"

#include <doctest/doctest.h>

#include "model/id.hpp"

namespace gf::agent {
namespace {

TEST_CASE("secrets are covered with as many stars, wherever the chunks are cut") {
    const std::vector<std::string> secrets{"hf_EXAMPLE0000", "abab", "EXAMPLE0000-more"};
    const std::string text = "x hf_EXAMPLE0000 y ababab z hf_EXAMPLE0000-more hf_EXA end abab";
    const std::string expected = "x ************** y ****** z ******************* hf_EXA end ****";
    REQUIRE(text.size() == expected.size());
    for (std::size_t step = 1; step <= text.size(); ++step) {
        Masker masker(secrets);
        std::string out;
        for (std::size_t at = 0; at < text.size(); at += step) out += masker.feed(std::string_view(text).substr(at, step));
        out += masker.finish();
        CAPTURE(step);
        CHECK(out == expected);
    }
}

TEST_CASE("random cuts of random text never let a secret through and never change the length") {
    Entropy entropy(7);
    const std::vector<std::string> secrets{"aabaa", "abba", "bbbbbb"};
    for (int round = 0; round < 500; ++round) {
        std::string text;
        for (int i = 0; i < 200; ++i) text.push_back(entropy.below(2) == 0 ? 'a' : 'b');
        Masker whole(secrets), cut(secrets);
        std::string once = whole.feed(text);
        once += whole.finish();
        std::string pieces;
        for (std::size_t at = 0; at < text.size();) {
            const auto size = 1 + entropy.below(9);
            pieces += cut.feed(std::string_view(text).substr(at, size));
            at += size;
        }
        pieces += cut.finish();
        REQUIRE(pieces == once);
        REQUIRE(pieces.size() == text.size());
        for (const auto& secret : secrets) REQUIRE(pieces.find(secret) == std::string::npos);
    }
}

TEST_CASE("ordinary output is not held back, the beginning of a secret is") {
    Masker masker({"hf_EXAMPLE"});
    CHECK(masker.feed("loss 0.5\n") == "loss 0.5\n");
    CHECK(masker.feed("token hf_").empty() == false);
    CHECK(masker.feed("other\n") == "hf_other\n");
    CHECK(masker.finish().empty());
}

TEST_CASE("texts too short to be secrets are left alone") {
    Masker masker({"", "1", "abc"});
    CHECK(masker.feed("1 abc 1") == "1 abc 1");
}

}  // namespace
}  // namespace gf::agent
