// Reading and changing Vultr's machines (page sections 4 and 5).
#include <fmt/format.h>

#include <algorithm>

#include "simulator/vultr_face.hpp"

namespace gf::sim {

namespace {

using nlohmann::json;

/// The three fields that together say what an instance does.
struct State {
    const char* status;
    const char* power;
    const char* server;
};

State state_of(const Rental& rental, bool locked) {
    const bool suspended = rental.halt == Halt::no_money;
    switch (rental.phase) {
        case Phase::accepted:
            return {"pending", "running", "none"};
        case Phase::created:
        case Phase::loading:
        case Phase::starting:
        case Phase::queued:
            if (rental.starts > 0) return {"active", "running", "ok"};
            return {"active", "running", locked ? "locked" : "installingbooting"};
        case Phase::running:
            return {"active", "running", locked ? "locked" : "ok"};
        case Phase::stopping:
            return {suspended ? "suspended" : "active", "running", "ok"};
        case Phase::stopped:
        case Phase::exited:
        case Phase::failed:
            return {suspended ? "suspended" : "active", "stopped", "ok"};
        case Phase::destroying:
        case Phase::gone:
            return {"active", "stopped", "locked"};
    }
    return {"active", "stopped", "ok"};
}

json plain_tags(const Rental& rental) {
    json tags = json::array();
    for (const auto& [tag, nothing] : rental.vm.tags) tags.push_back(tag);
    return tags;
}

std::string shown_ip(const Rental& rental, const char* unset) {
    if (rental.phase == Phase::accepted) return unset;
    return rental.ssh_host.empty() ? rental.vm.ip : rental.ssh_host;
}

HttpResponse wrong_method() {
    return vultr_error(405, "Method not allowed.");
}

}  // namespace

bool VultrFace::locked(const Rental& rental) const {
    return rental.vm.locked_until && world_.now() < *rental.vm.locked_until;
}

Rental* VultrFace::visible(const std::string& id, bool metal) const {
    auto* rental = world_.find(Provider::vultr, id);
    if (rental == nullptr || !rental->exists() || rental->vm.metal != metal) return nullptr;
    if (world_.now() - rental->created_at < world_.settings().vultr_read_lag) return nullptr;
    return rental;
}

HttpResponse VultrFace::gone(bool metal) const {
    if (!world_.settings().vultr_gone_400)
        return vultr_error(404, metal ? "bare metal server not found" : "instance not found");
    return vultr_error(400, metal ? "invalid server" : "invalid instance ID");
}

json VultrFace::machine_json(Rental& rental, bool with_charges) const {
    const auto state = state_of(rental, locked(rental));
    const auto* plan = world_.market().vm_type(Provider::vultr, rental.vm.type);
    const bool up = rental.phase != Phase::accepted;
    json row{{"id", rental.id},
             {"os", rental.image},
             {"ram", plan == nullptr ? 0 : plan->memory_gib * 1024},
             {"disk", plan == nullptr ? 0 : plan->storage_gb},
             {"main_ip", shown_ip(rental, "0.0.0.0")},
             {"vcpu_count", plan == nullptr ? 0 : plan->vcpus},
             {"region", rental.vm.region},
             {"plan", rental.vm.type},
             {"date_created", offset_time(rental.created_at)},
             {"status", state.status},
             {"allowed_bandwidth", 10'240},
             {"netmask_v4", up ? "255.255.254.0" : ""},
             {"gateway_v4", up ? "192.0.2.1" : "0.0.0.0"},
             {"power_status", state.power},
             {"server_status", state.server},
             {"v6_network", ""},
             {"v6_main_ip", ""},
             {"v6_network_size", 0},
             {"label", rental.name},
             {"internal_ip", ""},
             {"kvm",
              up ? "https://my.vultr.com/subs/vps/novnc/api.php?data=" + rental.vm.secret.substr(0, 8) : ""},
             {"hostname", rental.vm.hostname},
             {"os_id", rental.vm.os_id},
             {"app_id", 0},
             {"image_id", rental.vm.image_id},
             {"snapshot_id", ""},
             {"firewall_group_id", rental.vm.firewalls.empty() ? "" : rental.vm.firewalls.front()},
             {"features", json::array()},
             {"tags", plain_tags(rental)},
             {"user_scheme", "root"},
             {"vpc_only", false}};
    if (with_charges) {
        row["vpcs"] = json::array();
        world_.accrue(rental);
        row["pending_charges"] = vultr_cents(rental.bill.total().micros);
    }
    return row;
}

json VultrFace::metal_json(Rental& rental) const {
    const auto* plan = world_.market().vm_type(Provider::vultr, rental.vm.type);
    const auto state = state_of(rental, false);
    // Up when the processes are: there is no other sign than `active` and an address.
    const bool booting =
        rental.starts == 0 && rental.phase != Phase::running && rental.phase != Phase::stopped;
    return {{"id", rental.id},
            {"os", rental.image},
            {"ram", fmt::format("{} MB", plan == nullptr ? 0 : std::int64_t{plan->memory_gib} * 1024)},
            {"disk", fmt::format("8x {}GB NVMe", plan == nullptr ? 0 : plan->storage_gb)},
            {"main_ip", shown_ip(rental, "")},
            {"cpu_count", plan == nullptr ? 0 : plan->vcpus},
            {"region", rental.vm.region},
            {"date_created", offset_time(rental.created_at)},
            {"status", booting ? "pending" : state.status},
            {"netmask_v4", ""},
            {"gateway_v4", ""},
            {"plan", rental.vm.type},
            {"v6_network", ""},
            {"v6_main_ip", ""},
            {"v6_network_size", 0},
            {"label", rental.name},
            {"mac_address", 2'199'756'823'533},
            {"tags", plain_tags(rental)},
            {"os_id", rental.vm.os_id},
            {"app_id", 0},
            {"image_id", rental.vm.image_id},
            {"snapshot_id", ""},
            {"features", {"ipv6"}},
            {"user_scheme", "root"},
            {"mdisk_mode", "none"}};
}

HttpResponse VultrFace::list(const HttpRequest& request, bool metal) {
    const bool charges = request.query_value("show_pending_charges").value_or("") == "true";
    Rows rows;
    for (const auto& rental : world_.rentals()) {
        if (rental->provider != Provider::vultr || !rental->exists() || rental->vm.metal != metal) continue;
        if (world_.now() - rental->created_at < world_.settings().vultr_list_lag) continue;
        auto row = metal ? metal_json(*rental) : machine_json(*rental, charges);
        bool wanted = true;
        for (const auto* key : {"label", "main_ip", "region", "firewall_group_id", "hostname"}) {
            if (const auto value = request.query_value(key)) wanted = wanted && row.value(key, "") == *value;
        }
        if (const auto tag = request.query_value("tag"))
            wanted = wanted && std::ranges::find(row["tags"], json(*tag)) != row["tags"].end();
        if (wanted) rows.emplace_back(rental->order + 1, std::move(row));
    }
    return paged(request, metal ? "bare_metals" : "instances", rows);
}

HttpResponse VultrFace::route_machines(const HttpRequest& request, const Path& path, bool metal) {
    const auto& method = request.method;
    const auto* one = metal ? "bare_metal" : "instance";
    if (path.size() == 1) {
        if (method == "GET") return list(request, metal);
        return method == "POST" ? create(request, metal) : wrong_method();
    }
    const bool many = path.size() == 2 && (path[1] == "start" || path[1] == "halt" || path[1] == "reboot");
    if (many) {
        if (method != "POST") return wrong_method();
        const auto body = json::parse(request.body, nullptr, false);
        const auto ids = body.is_object()
                             ? body.value(metal ? "baremetal_ids" : "instance_ids", json(nullptr))
                             : json(nullptr);
        if (!ids.is_array()) return vultr_error(400, "instance_ids must be an array.");
        for (const auto& id : ids) {
            auto* rental = id.is_string() ? visible(id.get<std::string>(), metal) : nullptr;
            if (rental == nullptr) return gone(metal);
            if (auto answer = power(*rental, path[1]); answer.status != 204) return answer;
        }
        return vultr_no_content();
    }
    auto* rental = visible(path[1], metal);
    if (rental == nullptr) return gone(metal);
    if (path.size() > 2) return part(request, *rental, path[2]);
    if (method == "GET") {
        return json_response(200, {{one, metal ? metal_json(*rental) : machine_json(*rental, true)}});
    }
    if (method == "PATCH") return patch(request, *rental);
    return method == "DELETE" ? destroy(*rental) : wrong_method();
}

HttpResponse VultrFace::part(const HttpRequest& request, Rental& rental, const std::string& what) {
    if (request.method == "POST") {
        if (what == "start" || what == "halt" || what == "reboot") return power(rental, what);
        if (what != "reinstall") return vultr_error(404, "Invalid API path");
        if (locked(rental)) return vultr_error(500, "Unable to reinstall server: Server is currently locked");
        const auto body = json::parse(request.body, nullptr, false);
        if (body.is_object()) rental.vm.hostname = body.value("hostname", rental.vm.hostname);
        rental.vm.user_data_run = false;
        world_.restart(rental, true, Millis{0});
        auto row = rental.vm.metal ? metal_json(rental) : machine_json(rental, false);
        row["default_password"] = rental.vm.secret;
        return json_response(202, {{rental.vm.metal ? "bare_metal" : "instance", row}});
    }
    if (request.method != "GET") return wrong_method();
    if (what == "ipv4") {
        json rows = json::array();
        if (rental.phase != Phase::accepted) {
            rows.push_back({{"ip", shown_ip(rental, "")},
                            {"netmask", "255.255.254.0"},
                            {"gateway", "192.0.2.1"},
                            {"type", "main_ip"},
                            {"reverse", shown_ip(rental, "") + ".vultrusercontent.com"},
                            {"mac_address", "56:00:00:00:00:01"}});
        }
        return json_response(
            200,
            {{"ipv4s", rows}, {"meta", {{"total", rows.size()}, {"links", {{"next", ""}, {"prev", ""}}}}}});
    }
    if (what == "user-data")
        return json_response(200, {{"user_data", {{"data", base64_encoded(rental.vm.user_data)}}}});
    if (what == "bandwidth") {
        const auto day = rfc3339(world_.now()).substr(0, 10);
        return json_response(200, {{"bandwidth", {{day, {{"incoming_bytes", 0}, {"outgoing_bytes", 0}}}}}});
    }
    if (what == "vpcs")
        return json_response(200, {{"vpcs", json::array()},
                                   {"meta", {{"total", 0}, {"links", {{"next", ""}, {"prev", ""}}}}}});
    return vultr_error(404, "Invalid API path");
}

HttpResponse VultrFace::power(Rental& rental, const std::string& what) {
    if (rental.halt == Halt::no_money) return vultr_error(400, "Server is suspended.");
    const bool off = rental.phase == Phase::stopped || rental.phase == Phase::exited;
    if (rental.phase == Phase::destroying) return vultr_error(400, "Server is pending destruction");
    if (what == "halt") {
        world_.stop(rental, Halt::asked, world_.settings().vultr_halt);
    } else if (off) {
        // A reboot of a halted machine starts it.
        if (world_.start(rental) != StartOutcome::started) return vultr_error(500, "Unable to start server.");
    } else if (what == "reboot" && rental.phase == Phase::running) {
        world_.restart(rental, false, world_.settings().vultr_halt);
    } else if (what == "start" && rental.phase == Phase::stopping) {
        rental.start_after_stop = true;
    }
    return vultr_no_content();
}

HttpResponse VultrFace::patch(const HttpRequest& request, Rental& rental) {
    const auto body = json::parse(request.body, nullptr, false);
    if (!body.is_object()) return vultr_error(400, "Invalid JSON.");
    if (const auto label = body.find("label"); label != body.end()) {
        if (!label->is_string()) return vultr_error(400, "Invalid value for label: a string is wanted.");
        rental.name = label->get<std::string>();
    }
    if (const auto tags = body.find("tags"); tags != body.end()) {
        const bool good =
            tags->is_array() && std::ranges::all_of(*tags, [](const json& v) { return v.is_string(); });
        if (!good) return vultr_error(400, "tags must be an array of strings.");
        rental.vm.tags.clear();  // all are replaced
        for (const auto& tag : *tags) rental.vm.tags.emplace_back(tag.get<std::string>(), "");
    }
    if (body.contains("plan") && body["plan"] != rental.vm.type)
        return vultr_error(400, "Invalid plan chosen.");  // GPU plans do not change in place
    if (const auto data = body.find("user_data"); data != body.end() && data->is_string()) {
        const auto decoded = base64_decoded(data->get<std::string>());
        if (!decoded) return vultr_error(400, "User data must be base64 encoded.");
        rental.vm.user_data = *decoded;  // read at the next installation
    }
    if (const auto os = body.find("os_id"); os != body.end()) {
        if (!os->is_number_integer() || vultr_system(os->get<std::int64_t>()).empty())
            return vultr_error(400, "Invalid OS chosen.");
        rental.vm.os_id = os->get<std::int64_t>();
        rental.image = vultr_system(rental.vm.os_id);
        rental.vm.user_data_run = false;
        world_.restart(rental, true, Millis{0});
    }
    return json_response(202, {{rental.vm.metal ? "bare_metal" : "instance",
                                rental.vm.metal ? metal_json(rental) : machine_json(rental, false)}});
}

HttpResponse VultrFace::destroy(Rental& rental) {
    const auto& settings = world_.settings();
    if (rental.phase == Phase::destroying) {
        if (settings.vultr_second_delete == 204) return vultr_no_content();
        return vultr_error(settings.vultr_second_delete,
                           "Unable to destroy server: Server is already pending destruction.");
    }
    if (locked(rental))
        return vultr_error(500, "Unable to destroy server: Unable to remove VM: Server is currently locked");
    for (auto& block : blocks_) {
        if (block.attached == rental.id) block.attached.clear();  // the volume lives on
    }
    world_.destroy(rental, settings.vultr_destroy);
    return vultr_no_content();
}

}  // namespace gf::sim
