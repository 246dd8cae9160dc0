// Machines that are reached through an ssh tunnel because they cannot reach us.
#include "daemon/orchestrator/step.hpp"

namespace gf {

void Step::on(const TunnelChanged&, const StoredRows&) {}

}  // namespace gf
