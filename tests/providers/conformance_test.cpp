#include <doctest/doctest.h>

#include "cloud_bench.hpp"

using namespace gf::test;

TEST_CASE("the RunPod adapter keeps the contract of the port") {
    check_conformance([]() -> std::unique_ptr<Bench> { return std::make_unique<RunpodBench>(); });
}

TEST_CASE("the RunPod adapter keeps it with a listing of several pages") {
    check_conformance([]() -> std::unique_ptr<Bench> {
        auto bench = std::make_unique<RunpodBench>();
        bench->world.page = 1;
        return bench;
    });
}

TEST_CASE("the Vast.ai adapter keeps the contract of the port") {
    check_conformance([]() -> std::unique_ptr<Bench> { return std::make_unique<VastBench>(); });
}

TEST_CASE("the Lambda adapter keeps the contract of the port") {
    check_conformance([]() -> std::unique_ptr<Bench> { return std::make_unique<LambdaBench>(); });
}

TEST_CASE("the Vultr adapter keeps the contract of the port") {
    check_conformance([]() -> std::unique_ptr<Bench> { return std::make_unique<VultrBench>(); });
}

TEST_CASE("the Vultr adapter keeps it with answers of several pages") {
    check_conformance([]() -> std::unique_ptr<Bench> {
        auto bench = std::make_unique<VultrBench>();
        bench->world.page = 1;
        return bench;
    });
}
