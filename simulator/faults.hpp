// Fault rules: what goes wrong with which calls. Set over the admin face; matched per request, first rule
// that fires wins. Random rates come from the simulator's seed.
#pragma once
#include <cstdint>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "model/id.hpp"
#include "model/result.hpp"
#include "model/time.hpp"
#include "simulator/http.hpp"

namespace gf::sim {

struct FaultRule {
    enum class Action {
        status,              // answer `status`, `body`, `headers`; no effect
        html,                // the same with an edge's HTML page
        cut_before,          // close the connection before anything happens
        cut_after_effect,    // do it, then close without an answer
        error_after_effect,  // do it, then answer `status`, `body`
        delay_ms,            // wait `ms` (real time), then do and answer it as usual
        delay_after_effect,  // do it, wait `ms`, then answer
        hang,                // do nothing for `ms` (default 120 s), then close
        truncate_json,       // do it, send the first half of the answer
        empty_list,          // do it, answer with the list emptied
        short_list,          // the same with the first `drop` entries left out (or those in `ids`), or but `keep`
        null_instances,      // answer 200 {"instances":null}
        merge_json,          // do it, lay `body` (an object) over the answer
        drop_field,          // do it, leave out `field` wherever the answer has it
        scale_field,         // do it, multiply `field` by `by` wherever it is a number (a changed unit)
        set_field,           // do it, put `value` in the place of `field` wherever the answer has it
        throttle,            // answer 429 as the provider does; no effect
        retired,             // answer as the provider does for calls that it no longer serves; no effect
    };
    int id{0};
    std::string provider;  // empty = every face
    std::string method;    // empty = every method
    std::string path;      // the regular expression as given; matched anywhere in the path
    std::regex pattern;
    Action action{Action::status};
    int status{500};
    std::string body;
    std::string type;  // content type of `body`; empty = chosen by its look
    std::vector<std::pair<std::string, std::string>> headers;
    std::int64_t ms{0};
    int drop{1};
    std::optional<int> keep;
    std::vector<std::string> ids;
    std::string field;  // a name at any depth, or "a.b": b of an a
    double by{1.0};
    std::string value;             // JSON
    std::optional<Instant> from;   // simulated time
    std::optional<Instant> until;  // exclusive
    std::optional<int> count;  // fires so often, then is spent
    int after{0};              // lets so many matching calls pass first
    double rate{1.0};
    int fired{0};
};

[[nodiscard]] std::string_view text(FaultRule::Action action);

/// Thread-safe.
class Faults {
 public:
    explicit Faults(std::uint64_t seed) : entropy_(seed) {}

    /// Adds one rule from JSON (keys in simulator/README.md); gives its id. `at_s` and `until_s` count from `now`.
    [[nodiscard]] Result<int> add(const nlohmann::json& rule, Instant now = {});
    void clear();
    bool remove(int id);
    [[nodiscard]] nlohmann::json list() const;
    /// The rule that fires for this call, already counted.
    [[nodiscard]] std::optional<FaultRule> match(std::string_view provider, const HttpRequest& request,
                                                 Instant now = {});

 private:
    mutable std::mutex mutex_;  // guards all below
    std::vector<FaultRule> rules_;
    Entropy entropy_;
    int next_id_{1};
};

/// Does to an answer what an after-effect rule says.
void distort(HttpResponse& response, const FaultRule& rule);
/// The answer of a rule that has no effect, in the provider's own words where the rule gives none.
[[nodiscard]] HttpResponse refusal(const FaultRule& rule, std::string_view provider = {});

}  // namespace gf::sim
