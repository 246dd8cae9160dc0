// Result<T>: a value or an Error. A kind exists only where some caller acts differently on it; all else is text.
#pragma once
#include <expected>
#include <optional>
#include <string>
#include <utility>

#include "model/time.hpp"

namespace gf {

enum class ErrorKind {
    // From outside input or state.
    invalid,     // bad input: `field`, `line`, `column` say where
    not_found,   // no such thing; for a provider read this is never proof that a machine is gone (see port.hpp)
    conflict,    // the state does not allow it, or a stale number
    forbidden,   // the caller's role does not allow it
    not_yet,     // a reserved feature, or one that is not to be had there now
    // From the store or the disk.
    busy,        // store locked: try again
    full,        // disk full
    io,          // any other failure of a file or socket of our own
    // From a provider. What the core does with each is in providers/port.hpp.
    no_capacity,      // nothing to rent there now: cool the offer down, try the next one
    refused,          // the request itself is wrong: never retry it
    auth,             // key refused
    no_money,         // balance too low
    quota,            // account limit reached
    rate_limited,     // asked too often
    api_retired,      // the call is no longer served (HTTP 410): a permanent configuration error
    unavailable,      // the provider did not answer or answered 5xx to a call that changes nothing
    malformed,        // the answer is not of the documented shape
    unknown_outcome,  // a call that changes something may or may not have happened
};

struct Error {
    ErrorKind kind{ErrorKind::io};
    std::string message;                  // what was tried, on what, what came back; never a secret
    std::string field{};                  // for `invalid`: "resources.gpus"
    int line{0};                          // 1-based; 0 = not known
    int column{0};
    std::optional<Millis> retry_after{};  // for rate_limited, unavailable, busy
};

[[nodiscard]] std::string_view text(ErrorKind kind);

template <class T>
class [[nodiscard]] Result : public std::expected<T, Error> {
 public:
    using std::expected<T, Error>::expected;
};

/// `return fail(ErrorKind::invalid, "…");`
[[nodiscard]] inline std::unexpected<Error> fail(ErrorKind kind, std::string message) {
    return std::unexpected(Error{.kind = kind, .message = std::move(message)});
}
[[nodiscard]] inline std::unexpected<Error> fail(Error error) { return std::unexpected(std::move(error)); }

/// Always-on invariant check: prints and aborts, because the state is corrupt. Never for outside input.
[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);
#define GF_ASSERT(expr) ((expr) ? static_cast<void>(0) : ::gf::assertion_failed(#expr, __FILE__, __LINE__))

}  // namespace gf
