// What every command gets and how commands are added. A group of commands lives in one file, adds its
// subcommands to the parser, and sets `chosen` when one of them was typed; main then finds the daemon and
// runs it.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/client.hpp"
#include "cli/environment.hpp"
#include "cli/failure.hpp"
#include "cli/problem.hpp"
#include "cli/table.hpp"

namespace gf::cli {

struct Context {
    Environment& env;
    Client& client;
    Style style;
    bool json{false};
};

/// Runs a command; its result is the exit status.
using Action = std::function<int(Context&)>;

void add_submit_command(CLI::App& app, Action& chosen);
void add_job_commands(CLI::App& app, Action& chosen);      // ps show cancel retry hold release explain events
void add_log_command(CLI::App& app, Action& chosen);       // logs
void add_market_commands(CLI::App& app, Action& chosen);   // plan offers gpus providers
void add_estimate_command(CLI::App& app, Action& chosen);
void add_machine_commands(CLI::App& app, Action& chosen);  // machines list|adopt|destroy
void add_money_commands(CLI::App& app, Action& chosen);    // cost budget alerts
void add_checkpoint_commands(CLI::App& app, Action& chosen);  // checkpoints list|verify, outputs list|get
void add_access_commands(CLI::App& app, Action& chosen);      // token
void add_secret_commands(CLI::App& app, Action& chosen);      // secret
void add_doctor_command(CLI::App& app, Action& chosen);

/// Says what went wrong on standard error (with --json the daemon's problem goes to standard output) and
/// answers the exit status.
int report(Context& context, const Failure& failure, const SpecShown& spec = {});
/// The daemon's JSON, indented, on standard output.
int print_json(Context& context, const nlohmann::json& json);
/// Milliseconds since 1970 by this machine's clock.
[[nodiscard]] std::int64_t wall_clock_ms();
/// The same by the clock that dated the daemon's records, where it told; for "3m ago".
[[nodiscard]] std::int64_t now_ms(const Context& context);

}  // namespace gf::cli
