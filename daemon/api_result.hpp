// What an API request is answered with, by the core or by the runtime in its place.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "model/result.hpp"

namespace gf {

using RequestId = std::uint64_t;  // names the API request that waits for a reply; 0 = nobody waits

struct ApiResult {
    int status{200};              // HTTP status
    std::string json;             // body
    std::string location;         // Location header, for 201
    std::optional<Error> error;   // set for status >= 400: made into problem+json
};

}  // namespace gf
