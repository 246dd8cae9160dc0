// Runs one command line in this process against a server and keeps what it printed.
#pragma once
#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gf::test {

struct Ran {
    int status{-1};
    std::string out;
    std::string err;
};

struct RunOptions {
    std::string url;  // added as GPUFERRY_URL; empty = none
    std::map<std::string, std::string> variables;
    std::string in;
    std::optional<std::string> typed;  // standard input is a terminal, where this is typed at the prompt; empty = Ctrl-C
    bool terminal{false};
    std::atomic<bool>* interrupted{nullptr};
    unsigned uid{1000};
};

/// Pauses of the command take no time: they only give other threads a turn.
[[nodiscard]] Ran run_command(std::vector<std::string> arguments, const RunOptions& options);

}  // namespace gf::test
