// One provider together with the world behind it, as the conformance suite sees them. An adapter is done when
// the suite passes on its bench.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "providers/clock.hpp"
#include "providers/port.hpp"
#include "scripted_server.hpp"

namespace gf::test {

enum class Op : std::uint8_t { offers, create, list, read, destroy };
enum class Fault : std::uint8_t {
    none,
    answer_lost,  // it happens, and the connection is cut instead of an answer
    error_after,  // it happens, and the answer is 502
    too_often,    // it does not happen: 429
    no_capacity,  // it does not happen: the provider's own words for "sold out"
    wrong_key,    // it does not happen: the provider's answer to a bad key
    html,         // it does not happen: 200 with a web page
    odd_shape,    // it does not happen: 200 with JSON that lacks what matters
    truncated,    // the answer ends in the middle
    later,        // it does not happen: 500 "try again in 60 s"
    echo,         // it does not happen: 400 with the whole request, headers included, in the text
};

/// What any provider can answer to any call, whatever was asked: the call has no effect.
enum class Wire : std::uint8_t {
    whole,
    retired,     // 410 with a text
    edge,        // 403 with a page of whoever stands in front of the API
    storm,       // 429 in plain text, no Retry-After
    storm_hint,  // 429 with Retry-After: 7
    cut,         // the connection is closed without a byte
    html,        // 200 with a page
    down,        // 503 with a page
    echo,        // 400 with the whole request, headers included, in a text
};

class Bench {
 public:
    virtual ~Bench() = default;
    virtual Provider& provider() = 0;
    virtual Clock& clock() = 0;
    /// Lets the provider's time pass: after it, machines that were made run, and ones that were destroyed are
    /// gone.
    virtual void pass(Millis time) = 0;
    /// All later calls of `op` meet the fault. False where this world knows no such fault.
    virtual bool fault(Op op, Fault fault) = 0;
    /// All later calls of any kind meet this. False where that cannot be.
    virtual bool wire(Wire) { return false; }
    /// Machines that exist in the world, by its own books.
    [[nodiscard]] virtual std::size_t machines() = 0;
    /// Puts a machine of somebody else there, with this name. False where that cannot be.
    virtual bool add_foreign(const std::string& name) = 0;
    /// No answer from anywhere any more. False where there is no network.
    virtual bool go_away() = 0;
    /// What the adapter has sent; empty where there is no network.
    [[nodiscard]] virtual std::vector<Received> sent() = 0;
    /// An offer to rent with; most benches take the first.
    [[nodiscard]] virtual Offer some_offer();
};

inline const std::string kKey = "key_EXAMPLE_0123456789abcdef";
inline const std::string kEnrol = "enrol_EXAMPLE_fedcba9876543210";

/// A request as the core makes it.
[[nodiscard]] LaunchRequest launch_request(const Offer& offer, int number);

using BenchMaker = std::unique_ptr<Bench> (*)();
/// Every case of the suite on a fresh bench each.
void check_conformance(BenchMaker make);

}  // namespace gf::test
