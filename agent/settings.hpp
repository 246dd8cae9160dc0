// What the environment told the agent, read once; afterwards the secrets in it are wiped from the process.
#pragma once
#include <map>
#include <string>

#include "agent/url.hpp"
#include "model/result.hpp"
#include "model/secret.hpp"

namespace gf::agent {

struct Settings {
    Url url;                  // GPUFERRY_URL
    std::string machine;      // GPUFERRY_MACHINE, the tag
    Secret enrol;             // GPUFERRY_ENROL
    std::string pin;          // GPUFERRY_PIN: 64 hex digits, or empty = verify by the CA bundle
    std::string workspace;    // GPUFERRY_WORKSPACE: where jobs run; empty = chosen
    Millis notice{10'000};    // GPUFERRY_NOTICE_MS: from SIGTERM to SIGKILL as this provider does it
    std::map<std::string, std::string> env;  // everything, as it came
};

/// Errors: `invalid` with the variable: missing, a URL that is not one, plain HTTP to another machine, a pin that is none.
Result<Settings> read_settings(const std::map<std::string, std::string>& env);

/// The process's environment.
[[nodiscard]] std::map<std::string, std::string> environment_of(char** envp);
/// Overwrites the environment block: any process of the same user can read it in /proc for as long as the agent lives.
void wipe_environment(char** envp);

/// True for variables that belong to the provider or to gpuferry and never reach a job: keys of the machine or account,
/// our own address and tokens, Jupyter's tokens.
[[nodiscard]] bool is_withheld(const std::string& name);

}  // namespace gf::agent
