// What a user could change so that more offers fit: which line of the spec a refusal comes from, and the smallest change of that
// line alone that lets an offer in. Pure.
//
// Only offers that fail by exactly one filter count, so that the change is enough. "set" is always a value that the spec takes as
// it stands there; figures are rounded to what people write (whole cents, GB, Mbps, minutes), towards letting the offer in.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/job_spec.hpp"

namespace gf {

struct Fit;

/// The key of the spec that a refusal reason comes from ("resources.max_price"); empty where it is no line of the spec's doing (the
/// market, a provider, a quota). A reason that is not known gives empty too.
[[nodiscard]] std::string_view spec_key(std::string_view reason);
/// The same for one spec, which may have said it by another key: memory by resources.estimate, providers by exclude_providers.
[[nodiscard]] std::string_view spec_key(const JobSpec& spec, std::string_view reason);
/// The key of the configuration that it comes from ("quotas.machines"); empty = none.
[[nodiscard]] std::string_view config_key(std::string_view reason);
/// The line of the submitted text on which `key` was written; 0 = it was not.
[[nodiscard]] int line_of(const JobSpec& spec, std::string_view key);

struct Relaxation {
    std::string reason;  // of the refusal
    std::string key;     // "resources.max_price"
    int line{0};         // of the submitted text; 0 = not written there
    std::string set;     // the value that lets the first offer in; empty = leave the key out
    int admits{0};       // offers that it lets in
    std::string set_all; // the value that lets all in that this key alone keeps out
    int admits_all{0};
    std::string text;    // "raise resources.max_price to 0.43 and 12 offers fit"
    friend bool operator==(const Relaxation&, const Relaxation&) = default;
};

/// Collects, offer by offer. The order in which they come does not matter.
class Relaxations {
 public:
    /// `fit` fails by `reason` and by nothing else.
    void add(const Fit& fit, std::string_view reason);
    /// One per key that a change of would help, in the order of keys; of two reasons of one key the more helpful.
    [[nodiscard]] std::vector<Relaxation> list(const JobSpec& spec) const;

 private:
    /// What one offer wants of a key.
    struct Want {
        std::int64_t limit{0};  // the most demanding value that lets it in; larger = a smaller change
        std::int64_t value{0};  // the same as people write it, at most `limit`
        std::string set;
    };
    enum class Kind : std::uint8_t {
        threshold,  // a smaller demand lets in all that a larger one does
        choice,     // each value lets in its own offers
        drop,       // only leaving the key out helps
    };
    struct Wants {
        Kind kind{Kind::drop};
        std::string verb;
        std::vector<Want> each;
    };
    void put(std::string_view reason, std::string key, Kind kind, const char* verb, Want want);

    std::map<std::pair<std::string, std::string>, Wants> wants_;  // by key and reason
};

}  // namespace gf
