#include "daemon/secrets/sealing.hpp"

#include <doctest/doctest.h>

#include <set>

namespace gf {
namespace {

const Secret kKey(std::string(64, '7'));
constexpr char kValue[] = "hf_EXAMPLE0000";

TEST_CASE("what is sealed opens again, byte for byte") {
    const SecretSeal seal(kKey);
    for (const auto& value : {std::string("x"), std::string(kValue), std::string("two\nlines \xE2\x82\xAC"), std::string(64 << 10, 'v')}) {
        const auto sealed = seal.seal("HF_TOKEN", Secret(value));
        CHECK(sealed_value_bytes(sealed) == static_cast<std::int64_t>(value.size()));
        if (value.size() > 1) CHECK(sealed.find(value) == std::string::npos);
        const auto opened = seal.open("HF_TOKEN", sealed);
        REQUIRE(opened);
        CHECK(opened->reveal() == value);
        // Another process with the same key.
        CHECK(SecretSeal(kKey).open("HF_TOKEN", sealed).value().reveal() == value);
    }
}

TEST_CASE("a stored secret of an earlier version still opens") {
    // Made by a second implementation: HKDF-SHA-256 without salt, AES-256-GCM with the name as associated data.
    const SecretSeal seal(kKey);
    const auto opened = seal.open("HF_TOKEN", "gfs1:8add35c5:000102030405060708090a0b90453f4865c9fd392cd4c05c348691be0912bad2e298489caffed3261f22");
    REQUIRE(opened);
    CHECK(opened->reveal() == kValue);
}

TEST_CASE("the same value is never sealed to the same text") {
    const SecretSeal seal(kKey);
    std::set<std::string> texts, nonces;
    for (int i = 0; i < 1000; ++i) {
        const auto sealed = seal.seal("A", Secret(kValue));
        texts.insert(sealed);
        nonces.insert(sealed.substr(0, 14 + 24));
    }
    CHECK(texts.size() == 1000);
    CHECK(nonces.size() == 1000);
}

TEST_CASE("not a character of a sealed text can be changed, cut or added") {
    const SecretSeal seal(kKey);
    const auto sealed = seal.seal("HF_TOKEN", Secret(kValue));
    for (std::size_t i = 0; i < sealed.size(); ++i) {
        CAPTURE(i);
        for (const char other : {'0', '1', 'f', 'A', ':', '\0'}) {
            auto changed = sealed;
            if (changed[i] == other) continue;
            changed[i] = other;
            const auto opened = seal.open("HF_TOKEN", changed);
            REQUIRE_FALSE(opened);
            CHECK(opened.error().message.find("HF_TOKEN") != std::string::npos);
            CHECK(opened.error().message.find(kValue) == std::string::npos);
        }
        CHECK_FALSE(seal.open("HF_TOKEN", sealed.substr(0, i)));
        CHECK_FALSE(seal.open("HF_TOKEN", sealed.substr(i + 1)));
    }
    for (const char* more : {"0", "00", "ff", " ", "\n"}) CHECK_FALSE(seal.open("HF_TOKEN", sealed + more));
    CHECK_FALSE(seal.open("HF_TOKEN", ""));
}

TEST_CASE("a row under another name does not open") {
    const SecretSeal seal(kKey);
    const auto sealed = seal.seal("HF_TOKEN", Secret(kValue));
    for (const char* other : {"HF_TOKEN2", "hf_token", "", "HF_TOKE"}) {
        const auto opened = seal.open(other, sealed);
        REQUIRE_FALSE(opened);
        CHECK(opened.error().kind == ErrorKind::malformed);
    }
}

TEST_CASE("another key opens nothing, and that is said as such") {
    const auto sealed = SecretSeal(kKey).seal("HF_TOKEN", Secret(kValue));
    for (const std::string& other : {std::string(64, '8'), std::string(63, '7') + "8", std::string("7"), std::string()}) {
        const auto opened = SecretSeal(Secret(other)).open("HF_TOKEN", sealed);
        REQUIRE_FALSE(opened);
        CHECK(opened.error().kind == ErrorKind::auth);
        CHECK(opened.error().message.find("secret HF_TOKEN cannot be opened") != std::string::npos);
        CHECK(opened.error().message.find("install_key") != std::string::npos);
    }
    // Also when the name of the key is made to fit.
    auto forged = SecretSeal(Secret(std::string(64, '8'))).seal("HF_TOKEN", Secret("x"));
    forged.replace(5, 8, sealed, 5, 8);
    CHECK(SecretSeal(kKey).open("HF_TOKEN", forged).error().kind == ErrorKind::malformed);
}

}  // namespace
}  // namespace gf
