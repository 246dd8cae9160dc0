#include "cli/run.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <ostream>

#include "cli/command.hpp"
#include "cli/exit_code.hpp"

namespace gf::cli {
namespace {

constexpr const char* kFooter =
    "The daemon is found by its socket in this user's data folder, or by --url / GPUFERRY_URL\n"
    "(http://host:port, https://host:port, unix:/path) with a token from --token env:NAME|file:PATH,\n"
    "GPUFERRY_TOKEN or GPUFERRY_TOKEN_FILE.\n\n"
    "Exit status: 0 done; 1 refused or failed; 2 wrong usage; 120 no connection; 121 no access;\n"
    "122 no answer in time; 123 unexpected answer; 130 Ctrl-C. submit --wait ends with the job's own\n"
    "exit code, or 128+n when signal n ended it; 130 also when Ctrl-C detached it and the job goes on.\n";

int run_chosen(const Action& chosen, const EndpointChoice& choice, bool as_json, Environment& env) {
    const Style style(env);
    auto endpoint = find_endpoint(choice, env);
    if (!endpoint) {
        env.err << failure_text(endpoint.error(), style);
        return endpoint.error().exit_code;
    }
    if (!endpoint->warning.empty()) env.err << "warning: " << endpoint->warning << "\n";
    Client client(*std::move(endpoint), env);
    Context context{.env = env, .client = client, .style = style, .json = as_json};
    return chosen(context);
}

}  // namespace

int run(std::vector<std::string> arguments, Environment& env) {
    CLI::App app{"gpuferry: GPU jobs on rented machines, for the least money"};
    app.name("gpuferry");
    app.footer(kFooter);
    app.set_version_flag("--version", GF_VERSION);
    app.require_subcommand(1);
    EndpointChoice choice;
    bool as_json = false;
    app.add_option("--url", choice.url, "where the daemon is: http(s)://host:port or unix:/path");
    app.add_option("--token", choice.token_source, "where the token is: env:NAME or file:PATH");
    app.add_option("--ca", choice.ca_file, "certificate (PEM) to trust for https");
    app.add_flag("--json", as_json, "print the daemon's JSON");
    Action chosen;
    add_submit_command(app, chosen);
    add_job_commands(app, chosen);
    add_log_command(app, chosen);
    add_market_commands(app, chosen);
    add_estimate_command(app, chosen);
    add_machine_commands(app, chosen);
    add_money_commands(app, chosen);
    add_checkpoint_commands(app, chosen);
    add_access_commands(app, chosen);
    add_secret_commands(app, chosen);
    add_doctor_command(app, chosen);
    try {
        std::reverse(arguments.begin(), arguments.end());  // CLI11 takes a vector from its back
        app.parse(std::move(arguments));
    } catch (const CLI::ParseError& e) {
        return app.exit(e, env.out, env.err) == 0 ? kExitOk : kExitUsage;
    }
    try {
        return run_chosen(chosen, choice, as_json, env);
    } catch (const std::exception& e) {
        env.err << "error: " << e.what() << "\n";
        return kExitRefused;
    }
}

}  // namespace gf::cli
