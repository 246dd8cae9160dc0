// What happens when a row is not as the core believes: the process ends, loudly, before anything of the batch is
// committed. It means two writers on one store or a broken core, and going on would spend money on a wrong belief.
#pragma once
#include <string>
#include <string_view>

#include "db/sqlite.hpp"

namespace gf::db {

/// Prints "store invariant broken: …" and aborts.
[[noreturn]] void broken_invariant(const std::string& what);

/// Checks the changed-row count of a guarded update; on a miss looks the row up with `select_state` (one parameter, the
/// id; one column, the state) so that the message names what was found.
void expect_one_row(Connection& db, int changed, std::string_view table, const std::string& id,
                    std::string_view expected_state, const char* select_state);

}  // namespace gf::db
