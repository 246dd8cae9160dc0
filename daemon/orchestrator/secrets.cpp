// Users' secrets as the core knows them: which there are and how large, never a value. A task whose job names one that is not
// there waits, and nothing is rented for it; values are put into a lease by the runtime when it leaves.
#include <nlohmann/json.hpp>

#include "daemon/orchestrator/orchestrator.hpp"
#include "daemon/orchestrator/step.hpp"
#include "daemon/secrets/sealing.hpp"
#include "model/secret_name.hpp"

namespace gf {
namespace {

constexpr char kMissing[] = "secret_missing";

}  // namespace

void Orchestrator::set_secrets(std::map<std::string, std::int64_t> bytes_by_name) {
    world_->secrets = std::move(bytes_by_name);
    world_->queue_dirty = true;
}

void Step::on(const PutSecretCommand& e, const StoredRows&) {
    const bool there = w_.secrets.contains(e.secret.name);
    w_.secrets[e.secret.name] = sealed_value_bytes(e.secret.sealed).value_or(0);
    w_.queue_dirty = true;
    out_.rows.push_back(PutSecret{e.secret});
    history({.at = now_, .kind = "command", .reason = "secret_put", .detail = e.secret.name});
    reply(e.request, there ? 200 : 201, nlohmann::json{{"name", e.secret.name}}.dump(), "/v1/secrets/" + e.secret.name);
}

void Step::on(const DropSecretCommand& e, const StoredRows&) {
    // One that is in the store and not known here is one that cannot be opened: it can be removed like any other.
    w_.secrets.erase(e.name);
    out_.rows.push_back(DropSecret{e.name});
    history({.at = now_, .kind = "command", .reason = "secret_dropped", .detail = e.name});
    reply(e.request, 204, {});
}

std::string Step::secrets_trouble(const JobSpec& spec) const {
    std::int64_t bytes = 0;
    for (const std::string& name : spec.secrets) {
        const auto found = w_.secrets.find(name);
        if (found == w_.secrets.end()) return "secret " + name + " is not there, or cannot be opened: gpuferry secret set " + name;
        bytes += found->second;
    }
    if (bytes > kJobSecretBytesMax)
        return "the values of its secrets are " + std::to_string(bytes) + " bytes together, more than " + std::to_string(kJobSecretBytesMax);
    if (spec.image_auth && !w_.secrets.contains(spec.image_auth->password_secret))
        return "secret " + spec.image_auth->password_secret + " of image_auth is not there, or cannot be opened: gpuferry secret set " +
               spec.image_auth->password_secret;
    return {};
}

bool Step::waits_for_secrets(LiveJob& job, LiveTask& task) {
    const std::string trouble = secrets_trouble(*job.spec);
    if (trouble.empty()) {
        if (job.row.reason == kMissing) move(job, job.row.state, "secret_there");
        return false;
    }
    if (job.row.reason == kMissing && job.row.detail == trouble) return true;  // written and told once
    move(task, TaskState::waiting, kMissing);
    move(job, job.row.state, kMissing, trouble);
    Decision nothing;
    nothing.wait_reason = kMissing;
    write_decision(job.row.id, nothing);
    return true;
}

}  // namespace gf
