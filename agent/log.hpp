// The agent's own words, one line each, on stderr: the provider's console shows them. Never a secret.
#pragma once
#include <string_view>

namespace gf::agent {

/// Writes "gpuferry-agent[pid] level: text" in one write, so that lines of several processes do not mix.
void log(std::string_view level, std::string_view text);

}  // namespace gf::agent
