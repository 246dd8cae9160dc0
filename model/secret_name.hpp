// Rules that hold wherever a user's secret is named or carried: in a job spec, in the API, in a lease.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gf {

inline constexpr std::size_t kSecretNameMax = 64;                // characters
inline constexpr std::size_t kSecretBytesMax = 64 << 10;         // of one value
inline constexpr std::size_t kJobSecretsMax = 32;                // named by one job
inline constexpr std::int64_t kJobSecretBytesMax = 256 << 10;    // of their values together: a lease is one message

/// What `is_secret_name` accepts, for messages. A refused name is never repeated: it may be a value in the wrong place.
inline constexpr std::string_view kSecretNameRule = "1 to 64 characters of A-Z, 0-9 and _, not starting with a digit or with GPUFERRY_";

/// A name becomes a variable of the job's environment; lower case is refused so that a pasted token is not taken for one.
[[nodiscard]] bool is_secret_name(std::string_view name);

/// A value can be a variable of an environment and a JSON text: 1..kSecretBytesMax bytes of UTF-8 without NUL.
[[nodiscard]] bool is_secret_value(std::string_view value);

}  // namespace gf
