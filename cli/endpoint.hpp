// Where the daemon is and how to show who we are: a unix socket on this machine, or a URL with a token.
#pragma once
#include <string>

#include "cli/environment.hpp"
#include "cli/failure.hpp"
#include "model/secret.hpp"

namespace gf::cli {

struct Endpoint {
    std::string
        base_url;        // without a trailing slash: "http://127.0.0.1:8470"; "http://gpuferry" with a socket
    std::string socket;  // path; empty = TCP
    Secret token;        // empty = none
    std::string ca_file;  // PEM; empty = the system's roots
    bool loopback{false};  // this machine, by TCP
    std::string shown;    // for messages: the socket's path or the URL
    std::string warning;  // said once on stderr, e.g. a token over plain HTTP to another machine
};

/// As typed on the command line; empty = not given.
struct EndpointChoice {
    std::string url;  // http://…, https://… or unix:/path
    std::string
        token_source;  // env:NAME or file:PATH, never the token: a command line is in the process list
    std::string ca_file;
};

/// The folder where a daemon of this user keeps its data: /var/lib/gpuferry for root, else
/// $XDG_DATA_HOME/gpuferry or ~/.local/share/gpuferry.
[[nodiscard]] std::string default_data_dir(const Environment& env);

/// Order: the command line, then GPUFERRY_URL, GPUFERRY_TOKEN or GPUFERRY_TOKEN_FILE, GPUFERRY_CA, then the
/// socket in the default data folder. Failures: usage. Reads the token file; opens no connection.
[[nodiscard]] Outcome<Endpoint> find_endpoint(const EndpointChoice& choice, const Environment& env);

}  // namespace gf::cli
