// Where users' secrets leave the store: into the lease or the create call that is on its way out, and nowhere else. The core
// has left the places empty; what is filled in here lives as long as that one message.
#include "daemon/log.hpp"
#include "daemon/runtime/runtime.hpp"

namespace gf {
namespace ap = agent_protocol;

Result<void> Runtime::tell_secrets() {
    std::map<std::string, std::int64_t> usable;
    const auto rows = store_.reader().secrets();
    if (!rows) return fail(rows.error());
    for (const SecretRecord& row : *rows) {
        const auto opened = options_.open_secret ? options_.open_secret(row) : fail(ErrorKind::auth, "secret " + row.name + " cannot be opened: there is no key");
        if (opened) usable[row.name] = static_cast<std::int64_t>(opened->reveal().size());
        else log::error("secret.unusable", {{"name", row.name}, {"error", opened.error().message}});
    }
    core_->set_secrets(std::move(usable));
    return {};
}

Result<Secret> Runtime::secret(const std::string& name) {
    auto row = store_.reader().secret(name);
    if (!row) return fail(row.error().kind, "secret " + name + " cannot be read: " + row.error().message);
    if (!*row) return fail(ErrorKind::not_found, "there is no secret " + name);
    if (!options_.open_secret) return fail(ErrorKind::auth, "secret " + name + " cannot be opened: there is no key");
    auto opened = options_.open_secret(**row);
    if (opened) log::redact("secret/" + name, *opened);
    return opened;
}

Result<void> Runtime::complete_lease(ap::Lease& lease) {
    for (auto& [name, value] : lease.secret_env) {
        auto opened = secret(name);
        if (!opened) return fail(std::move(opened).error());
        value = opened->reveal();
    }
    if (lease.registry) {
        const auto job = core_->world().jobs.find(JobId{lease.job});
        if (job == core_->world().jobs.end() || !job->second.spec || !job->second.spec->image_auth)
            return fail(ErrorKind::conflict, "job " + lease.job + " is over");
        auto opened = secret(job->second.spec->image_auth->password_secret);
        if (!opened) return fail(std::move(opened).error());
        lease.registry->password = opened->reveal();
    }
    if (const auto bytes = ap::encode(ap::ToAgent{lease}).size(); bytes > ap::kMessageBytesMax)
        return fail(ErrorKind::invalid, "run, env and secrets of job " + lease.job + " are too large for one message to its machine (" +
                                            std::to_string(bytes) + " bytes, at most " + std::to_string(ap::kMessageBytesMax) + ")");
    return {};
}

Result<void> Runtime::complete_login(LaunchRequest& request, const MachineId& machine) {
    const auto live = core_->world().machines.find(machine);
    const auto job = live == core_->world().machines.end() ? core_->world().jobs.end() : core_->world().jobs.find(live->second.row.job);
    if (job == core_->world().jobs.end() || !job->second.spec || !job->second.spec->image_auth)
        return fail(ErrorKind::unavailable, "the job of machine " + machine.get() + " is over");
    auto opened = secret(job->second.spec->image_auth->password_secret);
    if (!opened) return fail(ErrorKind::unavailable, opened.error().message);
    request.registry->password = *std::move(opened);
    return {};
}

void Runtime::end_for_agent(const MachineId& machine, const std::string& attempt, const std::string& why) {
    const auto live = core_->world().machines.find(machine);
    if (live == core_->world().machines.end()) return;
    ap::Exited over;
    over.attempt = attempt;
    over.reason = "spec";
    over.detail = why;
    enqueue(AgentSaid{.machine = machine, .message = {.boot_id = live->second.row.boot_id, .seq = 0, .body = std::move(over)}});
}

void Runtime::send_to_agent(SendToAgent& message) {
    if (!gateway_) return;
    auto* lease = std::get_if<ap::Lease>(&message.message);
    const auto done = lease ? complete_lease(*lease) : Result<void>{};
    if (!done) {
        log::warn("lease.not_sent", {{"machine", message.machine.get()}, {"job", lease->job}, {"error", done.error().message}});
        // Too large here is too large on every machine, and the agent cannot say so of what it never gets. A secret that grew since
        // the job was submitted ends here.
        if (done.error().kind == ErrorKind::invalid) return end_for_agent(message.machine, lease->attempt, done.error().message);
        // The agent says hello again on a new connection, and the core looks again at what it has.
        gateway_->close(message.machine);
        return;
    }
    gateway_->send(message.machine, message.message);
}

}  // namespace gf
