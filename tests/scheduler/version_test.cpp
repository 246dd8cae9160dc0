#include "scheduler/version.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace gf;

TEST_CASE("versions are compared number by number") {
    struct Row {
        const char *have, *least;
        std::optional<bool> expected;
    };
    const Row table[] = {
        {"12.10", "12.9", true},
        {"12.9", "12.10", false},
        {"12.6", "12.6", true},
        {"13", "12.6", true},
        {"12", "12.0.0", true},
        {"535.183.06", "560", false},
        {"580.95.05", "560", true},
        {"560.28.03", "560.35", false},
        {"", "12", std::nullopt},
        {"12.", "12", std::nullopt},
        {".5", "1", std::nullopt},
        {"12.6-rc1", "12", std::nullopt},
        {"v12", "12", std::nullopt},
        {"1..2", "1", std::nullopt},
        {"1.2.3.4.5.6.7", "1", std::nullopt},
        {"99999999999", "1", std::nullopt},
    };
    for (const auto& row : table) {
        CAPTURE(std::string(row.have));
        CAPTURE(std::string(row.least));
        CHECK(version_at_least(row.have, row.least) == row.expected);
    }
}
