#include "daemon/api/lease_size.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "model/agent_protocol.hpp"

namespace gf::api {
namespace {
namespace ap = agent_protocol;

/// The value, or as many bytes where it cannot be seen. No reference into it is kept.
Result<std::string> value_of(Reader& reader, const SecretSeal* seal, const std::string& name) {
    const auto row = reader.secret(name);
    if (!row) return fail(row.error());
    if (!*row) return std::string();
    if (seal != nullptr)
        if (auto opened = seal->open(name, (*row)->sealed)) return opened->reveal();
    return std::string(static_cast<std::size_t>(sealed_value_bytes((*row)->sealed).value_or(0)), 'x');
}

std::size_t sum(const std::map<std::string, std::string>& all) {
    std::size_t bytes = 0;
    for (const auto& [name, value] : all) bytes += name.size() + value.size();
    return bytes;
}

/// With everything else as long as it can become: ids, counts and times are the core's.
ap::Lease largest(const JobSpec& spec) {
    constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
    constexpr int kMostInt = std::numeric_limits<int>::max();
    const std::string id(64, 'i');
    CheckpointSpec checkpoint = spec.checkpoint;
    checkpoint.grace = Millis{kMost};
    return {.attempt = id, .number = kMostInt, .job = id, .task = id, .task_index = kMostInt, .task_count = kMostInt, .image = spec.image,
            .container = true, .registry = {}, .shm_bytes = kMost, .run = spec.run, .env = spec.env, .secret_env = {}, .user = spec.user,
            .keep_entrypoint = spec.keep_entrypoint, .code_sha256 = spec.code_sha256, .checkpoint = checkpoint, .checkpoint_every_ms = kMost,
            .generation = kMost, .step = kMost, .outputs = spec.outputs, .progress_regex = spec.progress_regex,
            .progress_file = spec.progress_file, .success_exit = spec.success_exit, .success_product = spec.success_product,
            .duration_ms = kMost, .dead_man_ms = kMost, .log_bytes_max = kMost};
}

}  // namespace

Result<std::optional<http::FieldError>> lease_too_large(Reader& reader, const SecretSeal* seal, const JobSpec& spec) {
    ap::Lease lease = largest(spec);
    for (const std::string& name : spec.secrets) {
        auto value = value_of(reader, seal, name);
        if (!value) return fail(std::move(value).error());
        lease.secret_env.emplace(name, *std::move(value));
    }
    if (spec.image_auth) {
        auto value = value_of(reader, seal, spec.image_auth->password_secret);
        if (!value) return fail(std::move(value).error());
        lease.registry = ap::RegistryAccess{.server = spec.image, .username = spec.image_auth->username, .password = *std::move(value)};
    }
    const auto bytes = ap::encode(ap::ToAgent{lease}).size();
    if (bytes <= ap::kMessageBytesMax) return std::nullopt;
    const std::pair<const char*, std::size_t> parts[] = {{"run", spec.run.size()}, {"env", sum(spec.env)}, {"secrets", sum(lease.secret_env)}};
    const auto most = std::ranges::max_element(parts, {}, &std::pair<const char*, std::size_t>::second);
    return std::optional(http::FieldError{.field = most->first,
                                          .message = "what a machine is told of the job (run, env, the values of its secrets and the rest, "
                                                     "escaped as JSON) is " + std::to_string(bytes) + " bytes long; put what is large into code",
                                          .range = "at most " + std::to_string(ap::kMessageBytesMax) + " bytes"});
}

}  // namespace gf::api
