// Why a command could not do what it was asked: the exit status, a text for people, and the daemon's own
// problem+json where there was one.
#pragma once
#include <expected>
#include <string>
#include <utility>

namespace gf::cli {

struct Failure {
    int exit_code{1};
    std::string text;      // one line, for people; never a token
    std::string problem;   // body of an application/problem+json answer; empty = none
    int status{0};         // HTTP status of that answer; 0 = none came
    int retry_after_s{0};  // seconds, from Retry-After; 0 = not told
    bool never_sent{false};  // there was no connection: the request cannot have had an effect
};

template <class T>
using Outcome = std::expected<T, Failure>;

[[nodiscard]] inline std::unexpected<Failure> failed(int exit_code, std::string text) {
    return std::unexpected(Failure{.exit_code = exit_code, .text = std::move(text)});
}

}  // namespace gf::cli
