// A test that cannot be tried on this machine says so here, so that it is counted as skipped: doctest knows skipping only before
// a test begins, and a test that returns early would be counted as passed.
#pragma once
#include <doctest/doctest.h>

#include <cstdio>
#include <string>

namespace gf::test {

/// The line that tests/runner.py counts. The caller returns after it, or goes on with what can be tried.
inline void skip(const std::string& why) {
    std::printf("\nSKIPPED %s: %s\n", doctest::getContextOptions()->currentTest->m_name, why.c_str());
    std::fflush(stdout);
}

}  // namespace gf::test
