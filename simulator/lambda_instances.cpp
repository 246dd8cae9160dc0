// Reading, renaming, restarting and terminating Lambda's instances (page section 5).
#include <algorithm>

#include "simulator/lambda_face.hpp"

namespace gf::sim {

namespace {

using nlohmann::json;

json blocked(const char* code, const char* why) {
    json action{{"available", false}, {"reason_code", code}};
    if (why != nullptr) action["reason_description"] = why;
    return action;
}

json actions_json(const std::string& status) {
    const json open{{"available", true}};
    if (status == "booting") {
        const auto no = blocked("vm-has-not-launched", "The VM has not launched yet.");
        return {{"migrate", no}, {"rebuild", no}, {"restart", no}, {"cold_reboot", no}, {"terminate", open}};
    }
    if (status == "active" || status == "unhealthy") {
        return {{"migrate", blocked("vm-is-too-old", "The VM is too old to migrate.")},
                {"rebuild", open},
                {"restart", open},
                {"cold_reboot", open},
                {"terminate", open}};
    }
    const auto no = blocked("vm-is-terminating", nullptr);
    return {{"migrate", no}, {"rebuild", no}, {"restart", no}, {"cold_reboot", no}, {"terminate", no}};
}

}  // namespace

std::string LambdaFace::status(const Rental& rental) const {
    switch (rental.phase) {
        case Phase::accepted:
        case Phase::created:
        case Phase::loading:
        case Phase::starting:
        case Phase::queued:
            // A restart shows as booting once it is down.
            return "booting";
        case Phase::running:
        case Phase::stopping:
            return rental.vm.unhealthy || rental.offline ? "unhealthy" : "active";
        case Phase::exited:
        case Phase::failed:
            return "unhealthy";
        case Phase::stopped:
            return rental.halt == Halt::taken_back ? "preempted" : "unhealthy";
        case Phase::destroying:
            return "terminating";
        case Phase::gone:
            return rental.halt == Halt::taken_back ? "preempted" : "terminated";
    }
    return "unhealthy";
}

bool LambdaFace::listed(const Rental& rental, Millis lag) const {
    if (rental.provider != Provider::lambda || world_.now() - rental.created_at < lag) return false;
    if (rental.exists()) return true;
    // How long the row of a terminated instance stays is not known: a setting.
    return rental.halted_at && world_.now() - *rental.halted_at < world_.settings().lambda_terminated_kept;
}

Rental* LambdaFace::visible(const std::string& id) const {
    auto* rental = world_.find(Provider::lambda, id);
    return rental != nullptr && listed(*rental, world_.settings().lambda_read_lag) ? rental : nullptr;
}

HttpResponse LambdaFace::no_instance() const {
    return lambda_error(world_.settings().lambda_unknown_400 ? 400 : 404, "global/object-does-not-exist",
                        "Specified instance does not exist.");
}

json LambdaFace::instance_json(const Rental& rental) const {
    const auto shown = status(rental);
    const auto* type = world_.market().vm_type(Provider::lambda, rental.vm.type);
    VmType unknown;
    unknown.name = rental.vm.type;
    json mounts = json::array();
    json names = json::array();
    for (const auto& [id, at] : rental.vm.mounts) {
        mounts.push_back({{"mount_point", at}, {"file_system_id", id}});
        const auto fs = std::ranges::find(file_systems_, id, &FileSystem::id);
        if (fs != file_systems_.end()) names.push_back(fs->name);
    }
    json row{{"id", rental.id},
             {"status", shown},
             {"ssh_key_names", rental.vm.key_names},
             {"file_system_names", names},
             {"region", lambda_region(rental.vm.region)},
             {"instance_type", lambda_type_json(type == nullptr ? unknown : *type, rental.gpu_per_hour)},
             {"actions", actions_json(shown)}};
    // What is not known is left out, not null.
    if (!rental.name.empty()) row["name"] = rental.name;
    if (!mounts.empty()) row["file_system_mounts"] = mounts;
    if (!rental.vm.tags.empty()) {
        row["tags"] = json::array();
        for (const auto& [key, value] : rental.vm.tags)
            row["tags"].push_back({{"key", key}, {"value", value}});
    }
    if (!rental.vm.firewalls.empty()) {
        row["firewall_rulesets"] = json::array();
        for (const auto& id : rental.vm.firewalls) row["firewall_rulesets"].push_back({{"id", id}});
    }
    if (rental.phase != Phase::accepted) {
        row["ip"] = rental.ssh_host.empty() ? rental.vm.ip : rental.ssh_host;
        row["private_ip"] = rental.vm.private_ip;
    }
    if (rental.vm.active_since) {
        row["hostname"] = rental.vm.hostname;
        row["jupyter_token"] = rental.vm.secret;
        row["jupyter_url"] =
            "https://jupyter-" + rental.id.substr(0, 8) + ".lambdaspaces.com/?token=" + rental.vm.secret;
        row["is_reserved"] = false;
    }
    return row;
}

HttpResponse LambdaFace::list_instances() const {
    json rows = json::array();
    for (const auto& rental : world_.rentals()) {
        if (listed(*rental, world_.settings().lambda_list_lag)) rows.push_back(instance_json(*rental));
    }
    return lambda_data(rows);
}

HttpResponse LambdaFace::one_instance(const HttpRequest& request, const std::string& id) {
    auto* rental = visible(id);
    if (rental == nullptr) return no_instance();
    if (request.method == "GET") return lambda_data(instance_json(*rental));
    const auto body = json::parse(request.body, nullptr, false);
    const auto name = body.is_object() ? body.find("name") : body.end();
    if (!body.is_object() || name == body.end() || !name->is_string() ||
        name->get_ref<const std::string&>().size() > 64) {
        return lambda_error(400, "global/invalid-parameters", "name: String should have 0 to 64 characters");
    }
    rental->name = name->get<std::string>();
    return lambda_data(instance_json(*rental));
}

HttpResponse LambdaFace::operate(const HttpRequest& request, bool terminate) {
    const auto body = json::parse(request.body, nullptr, false);
    const auto ids = body.is_object() ? body.value("instance_ids", json(nullptr)) : json(nullptr);
    const bool good = ids.is_array() && !ids.empty() &&
                      std::ranges::all_of(ids, [](const json& id) { return id.is_string(); });
    if (!good)
        return lambda_error(400, "global/invalid-parameters",
                            "instance_ids: Input should be a list of strings");
    // A list with a bad id fails as a whole, and nothing is done.
    std::vector<Rental*> found;
    for (const auto& id : ids) {
        auto* rental = visible(id.get<std::string>());
        if (rental == nullptr || !rental->exists()) return no_instance();
        found.push_back(rental);
    }
    const auto& settings = world_.settings();
    for (const auto* rental : found) {
        const bool ending = rental->phase == Phase::destroying;
        if (terminate && ending && settings.lambda_second_terminate != 200)
            return lambda_error(settings.lambda_second_terminate, "global/unknown",
                                "An unknown error occurred.");
        if (!terminate && (rental->phase != Phase::running || rental->offline)) {
            return lambda_error(409, "global/conflict",
                                "The request conflicts with the current state of the resource.");
        }
    }
    json rows = json::array();
    for (auto* rental : found) {
        if (!terminate) {
            world_.restart(*rental, false, settings.lambda_restart);
            note("restarted", "instance", rental->id);
        } else if (rental->phase != Phase::destroying) {
            world_.destroy(*rental, settings.lambda_terminate);
            note("terminated", "instance", rental->id);
        }
        rows.push_back(instance_json(*rental));
    }
    return lambda_data({{terminate ? "terminated_instances" : "restarted_instances", rows}});
}

}  // namespace gf::sim
