// The table of everything that the REST face serves, and how a request finds its row in it.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/api/context.hpp"

namespace gf::api {

enum class Body : std::uint8_t { none, document, blob };

struct Route {
    http::Method method;
    std::string_view pattern;       // "/v1/jobs/{id}/cancel"; "{path...}" takes the rest
    Role role;                      // least role that may use it
    bool open;                      // needs no token at all
    Body body;
    std::string_view query;         // keys that are known, separated by spaces
    void (*handle)(Call);
    bool once{false};               // honours an Idempotency-Key
};

[[nodiscard]] std::span<const Route> routes();

struct Match {
    const Route* route{nullptr};
    std::vector<std::string> path;        // values of the {…} parts
    std::string allowed;                  // when the path is known but not with this method: "GET, POST"
};
/// HEAD finds GET's row where there is none of its own.
[[nodiscard]] Match find_route(const http::Request& request);

/// Whether every query key is known to the route. Error: `malformed` naming the key and the known ones.
Result<void> check_query(const Route& route, const http::Request& request);

}  // namespace gf::api
