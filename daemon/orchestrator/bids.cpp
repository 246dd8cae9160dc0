// Bids of spot machines: when they are raised, and to what.
#include "daemon/orchestrator/step.hpp"

namespace gf {

void Step::on(const BidRaised&, const StoredRows&) {}

}  // namespace gf
