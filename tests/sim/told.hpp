// Events, rows and effects in a line each: what the trace of a run is made of, and what a replayed seed prints.
#pragma once
#include <string>

#include "daemon/core.hpp"

namespace gf::sim {

std::string told(const Event& event);
std::string told(const RowChange& row);
std::string told(const Effect& effect);

}  // namespace gf::sim
