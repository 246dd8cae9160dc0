// How many descriptors this process may have.
#pragma once

namespace gf::http {

/// Raises the soft limit to the hard one (shells often start programs with 1,024, enough for a few hundred followers) and
/// answers what it is now. The listeners keep their connections below a share of it.
int raise_descriptor_limit();

}  // namespace gf::http
