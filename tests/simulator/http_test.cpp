#include "simulator/http.hpp"

#include <doctest/doctest.h>

#include "simulator/request_log.hpp"

using namespace gf::sim;

TEST_CASE("a target is split into decoded segments and query") {
    HttpRequest r;
    r.target = "/v2/catalog/gpus/NVIDIA%20GeForce%20RTX%204090?a=1+2&b=%7B%7D&c";
    parse_target(r);
    CHECK(r.path == "/v2/catalog/gpus/NVIDIA%20GeForce%20RTX%204090");
    REQUIRE(r.segments.size() == 4);
    CHECK(r.segments[3] == "NVIDIA GeForce RTX 4090");
    CHECK(r.query_value("a") == "1 2");
    CHECK(r.query_value("b") == "{}");
    CHECK(r.query_value("c") == "");
    CHECK_FALSE(r.query_value("d"));
    HttpRequest slash;
    slash.target = "/api/v0/asks/7/";
    parse_target(slash);
    CHECK(slash.segments.back().empty());
}

TEST_CASE("counters go by endpoint and keys never reach the log") {
    CHECK(endpoint_of("/api/v0/instances/24880101/ssh/12/") == "/api/v0/instances/{id}/ssh/{id}/");
    CHECK(endpoint_of("/v2/pods/k3v9x2m8q1ztwa/action") == "/v2/pods/{id}/action");
    CHECK(endpoint_of("/v2/network-volumes") == "/v2/network-volumes");
    CHECK(endpoint_of("/v2/catalog/gpus/NVIDIA%20L4") == "/v2/catalog/gpus/{id}");
    CHECK(without_key("/x?api_key=secret&a=1") == "/x?api_key=***&a=1");
    CHECK(without_key("/x?a=1&api_key=secret") == "/x?a=1&api_key=***");
}

TEST_CASE("base64 is strict and comes back") {
    for (const std::string text : {"", "f", "fo", "foo", "foob", "#!/bin/sh\n\xff"}) {
        CAPTURE(text);
        CHECK(base64_decoded(base64_encoded(text)) == text);
    }
    CHECK(base64_encoded("foob") == "Zm9vYg==");
    CHECK(base64_decoded("Zm9v\nYg==\n") == "foob");
    for (const auto* bad : {"#!/bin/sh", "Zm9vYg", "Zm=v", "Z===", "Zm9v*g==", "===="}) {
        CAPTURE(bad);
        CHECK_FALSE(base64_decoded(bad));
    }
}
