// The command line of gpuferry-replay, as a function so that tests call it. Reads files; writes to the two
// streams.
#pragma once
#include <iosfwd>

namespace gf::replay {

/// Exit status: 0 done; 1 a file could not be read or understood; 2 usage; 3 with --no-miss, a deadline was
/// missed that on-demand alone would have made.
int run(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace gf::replay
