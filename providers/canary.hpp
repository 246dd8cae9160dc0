// The drift canary: tells when a provider's answers no longer look as documented, or their figures are in
// another unit. Every adapter shows it what came; what it finds goes into OfferList::drift and
// Listing::drift, and the core stops launching there. One odd row is never drift (it is refused for itself):
// drift is what all rows say, or most of them. No IO, no clock.
//
//   client   count_shapes(rows, rules) (providers/json_reading.hpp) makes `Shapes`, carried in the reply
//   mapping  read_gpu_memory for the memory of a card; RejectedOffer{.reason = kMemoryUnit} where unsettled
//   adapter  ShapeWatch::look and OfferCanary::look at the end of `offers`, ShapeWatch::look and RateCanary::look
//            at the end of `list`, RateCanary::look in `read`
//
// Thread-safe. What a watch remembers lives as long as the process: a unit that really changed for good, and
// that is plausible in both readings, stops launching until somebody has looked and restarts the daemon.
#pragma once
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "providers/gpu_lookup.hpp"
#include "providers/port.hpp"

namespace gf {

enum class FieldKind : std::uint8_t { number, text, boolean, list, object };

/// A field as documented. Null and absent are the same here.
struct FieldRule {
    std::string_view path;  // "price.secure": a field of a field
    FieldKind kind{FieldKind::text};
    bool required{false};  // some row of any answer has it
};

struct FieldCount {
    FieldRule rule;
    int right{0};
    int wrong{0};  // of another type; a figure in quotes is one
    int missing{0};
    std::string found;  // what came instead, first seen: "string"
};

/// How often each field came in which shape, over the rows of one answer.
struct Shapes {
    int rows{0};
    std::vector<FieldCount> fields;
};

/// Adds the rows of another page or call of the same rules.
void add(Shapes& to, const Shapes& more);

/// Compares answers with the documentation, and with what this process has seen before.
class ShapeWatch {
 public:
    /// `what` is named in the findings: "the GPU catalog".
    explicit ShapeWatch(std::string what) : what_(std::move(what)) {}
    /// "type_changed": no row has the field in its type, three rows (two, once it was seen right) have it in
    /// another. "field_missing": no row has a required field, of as many rows. Fewer rows say nothing.
    std::vector<Drift> look(const Shapes& shapes);

 private:
    std::string what_;
    std::mutex mutex_;  // guards known_
    std::set<std::string, std::less<>> known_;
};

/// "page_token_missing": fewer rows came than the answer itself counts, and nothing says where the rest is.
/// In a listing of machines this is an error (its completeness is in doubt), never drift beside a short list.
[[nodiscard]] std::optional<Drift> missing_pages(std::string_view what, std::optional<std::int64_t> total,
                                                 std::size_t rows);

/// Reason of a rejected offer whose memory is in no unit that makes sense.
inline constexpr std::string_view kMemoryUnit = "memory_unit";

struct MemoryReading {
    std::optional<Bytes> memory;  // absent = not told, or not to be settled
    bool unsettled{false};
};

/// The memory of one GPU from a figure that is documented in units of `documented` bytes (kGiB, kMiB). A
/// figure that makes no sense so (24564 GiB, 24 MiB) is read in bytes, KiB, MiB or GiB where the table of
/// cards knows a card of that name with that memory; else it is unsettled. Figures of 0 and below are not
/// told.
[[nodiscard]] MemoryReading read_gpu_memory(double figure, std::int64_t documented, std::string_view provider,
                                            std::string_view name, const GpuLookup& lookup);

/// Looks at a whole market answer and appends what it finds to `list.drift`.
///   "price_unit"   the prices are about a hundred times what they were, or a hundredth, or what no card ever
///   cost "memory_unit"  half of the rows or more have a memory that cannot be settled
class OfferCanary {
 public:
    void look(OfferList& list);

    /// Between which figures the middle prices of one GPU, micro-dollars per hour, have been in whole answers, over all kinds of
    /// offers of a card of this name (a parked card does not stretch it); nothing for one that was never offered.
    struct Range {
        std::int64_t least{0};
        std::int64_t most{0};
    };
    [[nodiscard]] std::optional<Range> seen(const std::string& gpu_name) const;

 private:
    mutable std::mutex mutex_;  // guards what follows
    std::map<std::string, std::int64_t>
        seen_;  // kind of offer -> its median price per GPU, micro-dollars per hour
    std::map<std::string, Range> ranges_;  // by the provider's name of the card
};

/// Looks at what machines cost. A rate is off when it is fifty times or more what the same machine showed before or what the
/// dearest kind of offer of its card has cost, or a fiftieth or less of the former or of the cheapest kind. A market may do that
/// to one machine, never to all.
class RateCanary {
 public:
    /// `market` is asked for the prices of cards and must outlive this.
    explicit RateCanary(const OfferCanary& market) : market_(market) {}
    /// Appends "price_unit" to `listing.drift` when all rates that can be compared, of one machine at least, are off in one
    /// direction. For whole listings: what is not in one is forgotten.
    void look(Listing& listing);
    /// A machine that was read by itself, which carries no drift: a rate that is off becomes unknown, with that of its disk.
    /// The next listing tells whether it is the machine's price or the unit.
    void look(ProviderMachine& machine) const;

 private:
    enum class Way : std::uint8_t { unknown, same, up, down };
    [[nodiscard]] Way way_of(const ProviderMachine& machine) const;  // with mutex_ held
    const OfferCanary& market_;
    mutable std::mutex mutex_;  // guards seen_
    std::map<ProviderMachineId, std::int64_t> seen_;  // GPU rate that was last believed, micro-dollars per hour
};

}  // namespace gf
