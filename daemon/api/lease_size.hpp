// How large a job's lease will be. All that an agent is told of a job travels in one message, which has a bound: what cannot be
// sent is refused before a machine is rented for it.
#pragma once
#include <optional>

#include "daemon/http/problem.hpp"
#include "daemon/secrets/sealing.hpp"
#include "db/store.hpp"
#include "model/job_spec.hpp"

namespace gf::api {

/// Why a lease of this job would not fit, in the field that takes the most room; nothing if it fits. The values of its secrets are
/// opened to be measured as they are written; one that is not there, or cannot be opened, is counted by its bytes. Blocks for
/// reads. Errors: of the store.
Result<std::optional<http::FieldError>> lease_too_large(Reader& reader, const SecretSeal* seal, const JobSpec& spec);

}  // namespace gf::api
