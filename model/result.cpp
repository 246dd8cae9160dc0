#include "model/result.hpp"

#include <cstdio>
#include <cstdlib>

#include "model/secret.hpp"

namespace gf {

std::string_view text(ErrorKind kind) {
    switch (kind) {
        case ErrorKind::invalid: return "invalid";
        case ErrorKind::not_found: return "not_found";
        case ErrorKind::conflict: return "conflict";
        case ErrorKind::forbidden: return "forbidden";
        case ErrorKind::not_yet: return "not_yet";
        case ErrorKind::busy: return "busy";
        case ErrorKind::full: return "full";
        case ErrorKind::io: return "io";
        case ErrorKind::no_capacity: return "no_capacity";
        case ErrorKind::refused: return "refused";
        case ErrorKind::auth: return "auth";
        case ErrorKind::no_money: return "no_money";
        case ErrorKind::quota: return "quota";
        case ErrorKind::rate_limited: return "rate_limited";
        case ErrorKind::api_retired: return "api_retired";
        case ErrorKind::unavailable: return "unavailable";
        case ErrorKind::malformed: return "malformed";
        case ErrorKind::unknown_outcome: return "unknown_outcome";
    }
    return "?";
}

void assertion_failed(const char* expression, const char* file, int line) {
    std::fprintf(stderr, "gpuferry: invariant broken: %s (%s:%d)\n", expression, file, line);
    std::abort();
}

bool Secret::equals(std::string_view other) const {
    unsigned difference = value_.size() == other.size() ? 0U : 1U;
    for (std::size_t i = 0; i < value_.size() && i < other.size(); ++i)
        difference |= static_cast<unsigned>(static_cast<unsigned char>(value_[i]) ^ static_cast<unsigned char>(other[i]));
    return difference == 0;
}

}  // namespace gf
