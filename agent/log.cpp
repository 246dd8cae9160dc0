#include "agent/log.hpp"

#include <unistd.h>

#include <string>

namespace gf::agent {

void log(std::string_view level, std::string_view text) {
    std::string line = "gpuferry-agent[" + std::to_string(::getpid()) + "] ";
    line += level;
    line += ": ";
    line += text;
    line += '\n';
    // A console that is gone must never stop the agent.
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace gf::agent
