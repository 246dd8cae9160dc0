// A public SSH key that nobody can log in with, for a provider that wants one although none is used: the
// private half is never kept.
#pragma once
#include <string>

#include "model/result.hpp"

namespace gf {

/// "ssh-ed25519 AAAA… gpuferry", another one at each call. Errors: `io` when the system gives no randomness.
[[nodiscard]] Result<std::string> throwaway_public_key();

}  // namespace gf
