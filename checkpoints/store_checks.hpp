// What every store asks of a manifest that is about to be kept.
#pragma once
#include "checkpoints/store.hpp"

namespace gf::checkpoints {

/// Every pack of the manifest is stored with its size, and its own index has the chunks where the manifest
/// says. Reads indexes only. Errors: `malformed` = not so; others = could not tell.
Result<void> check_packs(CheckpointStore& store, const JobId& job, const Manifest& manifest);

}  // namespace gf::checkpoints
