#include "model/secret_name.hpp"

#include <doctest/doctest.h>

#include <string>

#include "model/image_name.hpp"

namespace gf {
namespace {

TEST_CASE("a secret's name is a variable's name in capitals") {
    for (const std::string good : {"HF_TOKEN", "_", "A", "A1", "_1", "GPUFERRY", "GPUFERRYX_A"}) {
        CAPTURE(good);
        CHECK(is_secret_name(good));
    }
    CHECK(is_secret_name(std::string(kSecretNameMax, 'A')));
    for (const std::string bad : {"", "1A", "hf_token", "A-B", "A B", "A=B", "A.B", "GPUFERRY_URL", "GPUFERRY_", "\xC3\x84"}) {
        CAPTURE(bad);
        CHECK_FALSE(is_secret_name(bad));
    }
    CHECK_FALSE(is_secret_name(std::string(kSecretNameMax + 1, 'A')));
    CHECK_FALSE(is_secret_name(std::string("A\0", 2)));
}

TEST_CASE("a secret's value is UTF-8 without NUL, whole and not too long") {
    for (const std::string good : {"x", "hf_EXAMPLE0000", "a\nb\t ", "\xC2\x80", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80", "\xF0\x90\x80\x80",
                                   "\xF4\x8F\xBF\xBF"}) {
        CAPTURE(good);
        CHECK(is_secret_value(good));
    }
    CHECK(is_secret_value(std::string(kSecretBytesMax, 'x')));
    for (const std::string bad : {"", "\x80", "\xC2", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xE2\x82", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
                                  "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "a\xC2" "a"}) {
        CAPTURE(bad);
        CHECK_FALSE(is_secret_value(bad));
    }
    CHECK_FALSE(is_secret_value(std::string("a\0b", 3)));
    CHECK_FALSE(is_secret_value(std::string(kSecretBytesMax + 1, 'x')));
}

TEST_CASE("the registry of an image is what docker takes it for") {
    struct Row {
        const char* image;
        const char* registry;
    };
    for (const auto& row : {Row{"ubuntu", "docker.io"}, Row{"ubuntu:24.04", "docker.io"}, Row{"pytorch/pytorch:2.4", "docker.io"},
                            Row{"docker.io/library/ubuntu", "docker.io"}, Row{"index.docker.io/library/ubuntu", "docker.io"},
                            Row{"ghcr.io/example/gpt-sovits:2.1", "ghcr.io"}, Row{"localhost/x", "localhost"}, Row{"localhost:5000/x", "localhost:5000"},
                            Row{"registry:5000/x/y@sha256:00", "registry:5000"}, Row{"nvcr.io/nvidia/pytorch", "nvcr.io"}, Row{"", "docker.io"}}) {
        CAPTURE(row.image);
        CHECK(registry_of(row.image) == row.registry);
    }
}

}  // namespace
}  // namespace gf
