#include "config/shipped.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

using namespace gf;

namespace {

std::string file(const std::string& name) {
    std::ifstream in(std::string(GF_SOURCE_DIR) + "/config/" + name, std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
}

}  // namespace

TEST_CASE("the embedded files are those of the tree, byte for byte") {
    CHECK(shipped_gpus_csv() == file("gpus.csv"));
    CHECK(shipped_aliases_csv() == file("aliases.csv"));
    CHECK(shipped_example_yaml() == file("gpuferryd.example.yaml"));
    CHECK(shipped_gpus_csv().size() > 10'000);
}
