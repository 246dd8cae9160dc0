#include "tests/cli/command_run.hpp"

#include <sstream>
#include <thread>

#include "cli/run.hpp"

namespace gf::test {

Ran run_command(std::vector<std::string> arguments, const RunOptions& options) {
    std::istringstream in(options.in);
    std::ostringstream out;
    std::ostringstream err;
    auto variables = options.variables;
    if (!options.url.empty()) variables["GPUFERRY_URL"] = options.url;
    cli::Environment env{
        .in = in,
        .out = out,
        .err = err,
        .out_is_terminal = options.terminal,
        .err_is_terminal = options.terminal,
        .in_is_terminal = options.typed.has_value(),
        .ask_hidden = [&options](const std::string&) { return options.typed->empty() ? std::nullopt : options.typed; },
        .columns = 120,
        .uid = options.uid,
        .variable = [&variables](const char* name) -> std::optional<std::string> {
            const auto found = variables.find(name);
            return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
        },
        .sleep = [](std::chrono::milliseconds) { std::this_thread::yield(); },
        .interrupted = options.interrupted,
        .catch_interrupt = {},
    };
    Ran ran;
    ran.status = cli::run(std::move(arguments), env);
    ran.out = out.str();
    ran.err = err.str();
    return ran;
}

}  // namespace gf::test
