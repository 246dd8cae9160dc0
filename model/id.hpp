// Ids: a prefix and 26 characters of Crockford base 32, sortable by time: 48 bits of milliseconds, 80 of entropy.
// The maker is pure: time and entropy come in.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "model/time.hpp"

namespace gf {

/// A small deterministic generator (splitmix64). Seeded from the operating system by the runtime and from the seed
/// by the simulation. For ids and jitter, never for keys or tokens.
class Entropy {
 public:
    explicit Entropy(std::uint64_t seed) : state_(seed) {}
    [[nodiscard]] std::uint64_t next();
    /// Uniform in [0, bound); 0 for bound 0.
    [[nodiscard]] std::uint64_t below(std::uint64_t bound);

 private:
    std::uint64_t state_;
};

class IdMaker {
 public:
    explicit IdMaker(Entropy entropy) : entropy_(entropy) {}
    /// Ids made later sort later, also when the wall clock stepped back: never smaller than the largest made or
    /// noted so far.
    [[nodiscard]] std::string make(std::string_view prefix, Instant now);
    /// Tells the maker of an id in the store, so that new ones sort after it.
    void note(std::string_view id);

 private:
    Entropy entropy_;
    std::int64_t last_ms_{0};
};

/// The 26 characters after the prefix; empty if `id` has not that form.
[[nodiscard]] std::string_view id_body(std::string_view id);
/// The time in the id, in milliseconds; 0 if `id` has not the form.
[[nodiscard]] std::int64_t id_millis(std::string_view id);

/// "gf-<install 8>-<machine 26>": 38 characters of [a-z0-9-], the name of a machine at its provider.
[[nodiscard]] std::string machine_tag(std::string_view install, std::string_view machine_id);
struct TagParts {
    std::string install;
    std::string machine_id;  // with the "mch_" prefix
};
/// True in `.install` non-empty only for a well-formed tag.
[[nodiscard]] TagParts parse_machine_tag(std::string_view tag);

}  // namespace gf
