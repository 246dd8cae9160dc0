// One made-up offer that is at least as good as each of several, by every figure that the demand and the
// money filters read: what those refuse of it, they refuse of each. Its country says nothing (the region is
// judged otherwise), and neither do its names.
#pragma once
#include "model/offer.hpp"

namespace gf {

/// Makes `best` at least as good as `offer` too. To start with, `best` is a copy of one of them.
void improve(Offer& best, const Offer& offer);

}  // namespace gf
