#include "db/guard.hpp"

#include <cstdio>
#include <cstdlib>

namespace gf::db {

void broken_invariant(const std::string& what) {
    std::fprintf(stderr, "gpuferry: store invariant broken: %s\n", what.c_str());
    std::fflush(stderr);
    std::abort();
}

void expect_one_row(Connection& db, int changed, std::string_view table, const std::string& id,
                    std::string_view expected_state, const char* select_state) {
    if (changed == 1) return;
    std::string found = "no such row";
    Query row(db, select_state);
    row.put_text(id);
    if (row.step()) found = "state '" + std::string(row.take_text()) + "'";
    broken_invariant(std::string(table) + " " + id + ": expected state '" + std::string(expected_state) + "', found " +
                     found);
}

}  // namespace gf::db
