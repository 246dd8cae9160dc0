#include "support.hpp"

using namespace gf::checkpoints;

TEST_CASE("SHA-256 gives the published values, whole and in pieces") {
    CHECK(sha256("").hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK(sha256("abc").hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    Sha256 pieces;
    pieces.add("a");
    pieces.add("");
    pieces.add("bc");
    CHECK(pieces.finish() == sha256("abc"));
    CHECK_MESSAGE(pieces.finish() == sha256(""), "finish starts anew");
}

TEST_CASE("only 64 lower-case hexadecimal digits are a digest") {
    const std::string good = sha256("abc").hex();
    REQUIRE(Digest::from_hex(good));
    CHECK(Digest::from_hex(good)->hex() == good);
    std::string upper = good;
    for (char& c : upper) c = static_cast<char>(c >= 'a' && c <= 'f' ? c - 32 : c);
    for (const std::string& bad : {std::string{}, good.substr(1), good + "0", upper, "g" + good.substr(1),
                                   "../../../" + good.substr(9), good.substr(0, 63) + std::string(1, '\0')})
        CHECK_FALSE(Digest::from_hex(bad));
}
