// The history of the market (model/market.hpp) in a file of its own, history.db. Nothing in it is a promise: it is written with
// `synchronous=NORMAL`, a crash may lose the last seconds, and whoever cannot write goes on without. Changes are kept for
// `MarketPolicy::raw`, then each day and place is one row of shares and quantiles.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/market.hpp"
#include "model/result.hpp"

namespace gf {

struct MarketPolicy {
    Millis raw{std::chrono::hours{90 * 24}};     // how long changes are kept; whole days, at least one
    Millis days{std::chrono::hours{1000 * 24}};  // how long the rows of days are kept
    std::int64_t bytes_most{1LL << 30};          // beyond, changes become days before their time, down to a week
    int places_per_batch{200};
};

/// What a book is rebuilt of.
struct MarketRemembered {
    MarketSight sight;
    MarketPoint last;
};

/// The writer. One thread at a time; one object per file. Errors are those of db/store.hpp (`busy`, `full`, `io`), and `malformed`
/// for a file that is damaged: it can be set aside.
class MarketStore {
 public:
    virtual ~MarketStore() = default;

    /// Places shown since `since`, those shown last first, at most `most`.
    [[nodiscard]] virtual Result<std::vector<MarketRemembered>> remembered(Instant since, std::size_t most) = 0;
    /// One transaction. Of changes of one key the later one wins where they have the same time. A sight of a place without any change
    /// is dropped.
    virtual Result<void> write(const std::vector<MarketChange>& changes, const std::vector<MarketSight>& sights) = 0;
    /// One batch of what has to become days or to go; the places that it dealt with, 0 = nothing is left to do. Never touches the last
    /// `raw` of the changes unless the file is too large.
    virtual Result<int> tidy(Instant now, const MarketPolicy& policy) = 0;
    /// Bytes of the file that hold something.
    [[nodiscard]] virtual Result<std::int64_t> bytes() = 0;
};

/// Opens, makes or migrates the file at `path`, mode 0600. Errors: `conflict` for a file of a newer gpuferry, `malformed` for one that
/// is damaged or of another program, `full`, `io`.
Result<std::unique_ptr<MarketStore>> open_market_store(const std::string& path);

/// What is asked of the history. Empty or absent = no demand.
struct MarketQuery {
    std::string provider;
    std::vector<std::string> cards;  // any of, canonical names
    std::optional<int> gpu_count;
    std::optional<bool> spot;
    Instant from;                    // [from, to)
    Instant to;
    std::size_t places_most{2'000};
    std::size_t points_most{1'000'000};  // of all places together
};

struct MarketDay {
    Instant day;
    MarketSum sum;
    friend bool operator==(const MarketDay&, const MarketDay&) = default;
};

struct MarketTrack {
    MarketKey key;
    std::vector<MarketPoint> points;  // as `market_window` gives them
    std::vector<MarketDay> days;      // of the span, where changes have become days already
};

/// Reads the history by a connection of its own, beside the writer. Tracks in order of key, none without points or days. Blocks for
/// the disk. Errors: `not_found` without a file, `invalid` with the bound in it when more matches than is allowed, `busy`, `io`,
/// `malformed`.
Result<std::vector<MarketTrack>> read_market(const std::string& path, const MarketQuery& query);

}  // namespace gf
