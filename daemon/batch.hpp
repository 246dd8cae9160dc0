// Events that are applied one after another and committed together. Kept apart from the runtime so that the simulation commits
// by the same rule.
#pragma once
#include <vector>

#include "daemon/core.hpp"

namespace gf {

/// What a batch has decided and the store does not show yet.
struct Batch {
    std::vector<RowChange> rows;
    std::vector<Effect> effects;

    void add(Effects decided);
    /// True if a row that `want` names is changed in here: the store would answer with the old one, so the batch has to be
    /// committed before the event is applied. Only for rows that are not live; linear in the batch.
    [[nodiscard]] bool hides(const RowRequest& want) const;
};

/// The rows that `want` names, except the parsed spec. An unreadable store is an error and never an empty answer: "no row" means
/// something to the core.
[[nodiscard]] Result<StoredRows> read_stored(Reader& reader, const RowRequest& want);

}  // namespace gf
