// Errors as `application/problem+json` (RFC 9457), for both doors of the daemon.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "daemon/http/exchange.hpp"
#include "model/result.hpp"

namespace gf::http {

struct FieldError {
    std::string field;
    int line{0};          // 0 = not known
    int column{0};
    std::string message;
    std::string range;    // the allowed range or set, for people; empty = none
};

[[nodiscard]] std::string_view status_title(int status);
/// `detail` says what was wrong with what; never a secret.
[[nodiscard]] Response problem(int status, std::string_view detail, const std::vector<FieldError>& errors = {});
/// The status that an error of the model has for the asker; `busy`, `full` and `unavailable` get a Retry-After.
[[nodiscard]] Response problem(const Error& error);
[[nodiscard]] int status_of(ErrorKind kind);
/// A JSON body.
[[nodiscard]] Response json(int status, std::string body);

}  // namespace gf::http
