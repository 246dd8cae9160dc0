// Renting at Vultr: POST /instances and POST /bare-metals (page sections 3 and 5).
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "simulator/vultr_face.hpp"

namespace gf::sim {

namespace {

using nlohmann::json;

HttpResponse bad(const std::string& text) {
    return vultr_error(400, text);
}

/// A text field; "" if it is absent, nothing if it is no text.
std::optional<std::string> text_of(const json& body, const char* key) {
    const auto it = body.find(key);
    if (it == body.end() || it->is_null()) return std::string{};
    if (!it->is_string()) return std::nullopt;
    return it->get<std::string>();
}

std::optional<std::vector<std::string>> texts_of(const json& body, const char* key) {
    const auto it = body.find(key);
    if (it == body.end() || it->is_null()) return std::vector<std::string>{};
    const bool good = it->is_array() && std::ranges::all_of(*it, [](const json& v) { return v.is_string(); });
    if (!good) return std::nullopt;
    return it->get<std::vector<std::string>>();
}

}  // namespace

std::optional<HttpResponse> VultrFace::read_image(const json& body, Rental& rental) const {
    constexpr std::array kSources{"os_id", "image_id", "app_id", "snapshot_id", "iso_id"};
    const auto given = std::ranges::count_if(
        kSources, [&](const char* key) { return body.contains(key) && !body[key].is_null(); });
    if (given != 1) return bad("Exactly one of os_id, image_id, app_id, snapshot_id or iso_id is required.");
    if (body.contains("os_id")) {
        if (!body["os_id"].is_number_integer() || vultr_system(body["os_id"].get<std::int64_t>()).empty())
            return bad("Invalid OS chosen.");
        rental.vm.os_id = body["os_id"].get<std::int64_t>();
        rental.image = vultr_system(rental.vm.os_id);
        return std::nullopt;
    }
    if (body.contains("image_id")) {
        if (body["image_id"] != "docker") return bad("Invalid application chosen.");
        rental.vm.image_id = "docker";
        rental.image = "Ubuntu 22.04 LTS x64";
        return std::nullopt;
    }
    if (body.contains("app_id")) {
        if (!body["app_id"].is_number_integer() || body["app_id"] != 37)
            return bad("Invalid application chosen.");
        rental.image = "Ubuntu 22.04 LTS x64";
        return std::nullopt;
    }
    return bad("Invalid snapshot or ISO chosen.");
}

std::optional<HttpResponse> VultrFace::read_create(const json& body, Rental& rental) const {
    for (const auto* key :
         {"region", "plan", "label", "hostname", "user_data", "script_id", "firewall_group_id"}) {
        if (!text_of(body, key)) return bad(fmt::format("Invalid value for {}: a string is wanted.", key));
    }
    rental.vm.region = *text_of(body, "region");
    rental.vm.type = *text_of(body, "plan");
    if (!vultr_region(rental.vm.region)) return bad("Invalid location.");
    const auto* plan = world_.market().vm_type(Provider::vultr, rental.vm.type);
    // A bare metal plan is none for /instances, and the other way round.
    if (plan == nullptr || (plan->kind == "vbm") != rental.vm.metal) return bad("Invalid plan chosen.");
    if (auto refused = read_image(body, rental)) return refused;
    rental.name = *text_of(body, "label");
    rental.vm.hostname = *text_of(body, "hostname");
    const auto keys = texts_of(body, "sshkey_id");
    if (!keys) return bad("sshkey_id must be an array of SSH key IDs.");
    for (const auto& id : *keys) {
        const auto key = std::ranges::find(keys_, id, &Key::id);
        if (key == keys_.end()) return bad("Invalid SSH key specified.");
        rental.vm.authorized_keys += key->text + "\n";
    }
    rental.vm.key_names = *keys;
    const auto tags = texts_of(body, "tags");
    if (!tags) return bad("tags must be an array of strings.");
    for (const auto& tag : *tags) rental.vm.tags.emplace_back(tag, "");
    const auto backups = text_of(body, "backups").value_or("?");
    if (!backups.empty() && backups != "enabled" && backups != "disabled")
        return bad("backups must be enabled or disabled.");
    if (const auto script = *text_of(body, "script_id"); !script.empty()) {
        const auto found = std::ranges::find(scripts_, script, &Script::id);
        if (found == scripts_.end()) return bad("Invalid startup script chosen.");
        rental.vm.user_data = base64_decoded(found->text).value_or("");
    }
    if (const auto data = *text_of(body, "user_data"); !data.empty()) {
        const auto decoded = base64_decoded(data);
        if (!decoded && !world_.settings().vultr_any_user_data)
            return bad("User data must be base64 encoded.");
        rental.vm.user_data = decoded.value_or(data);
    }
    if (const auto group = *text_of(body, "firewall_group_id"); !group.empty()) {
        if (std::ranges::find(firewalls_, group, &Firewall::id) == firewalls_.end())
            return bad("Invalid firewall group.");
        rental.vm.firewalls = {group};
    }
    return std::nullopt;
}

std::optional<HttpResponse> VultrFace::refuse_stock(const VmType& plan, const std::string& region) {
    auto& settings = world_.settings();
    // `locations` is no stock, and what the availability list showed may be gone by now.
    bool gone = (!plan.on_demand && !plan.preemptible) || world_.free_vms(Provider::vultr, plan, region) <= 0;
    if (!gone && settings.vultr_lost_races > 0) {
        --settings.vultr_lost_races;
        gone = true;
    } else if (!gone && settings.vultr_refusal_rate > 0) {
        gone = static_cast<double>(world_.entropy().below(1'000'000)) < settings.vultr_refusal_rate * 1e6;
    }
    if (!gone) return std::nullopt;
    return bad("Unable to create server: The selected plan is not available in the selected location.");
}

HttpResponse VultrFace::create(const HttpRequest& request, bool metal) {
    const auto body = json::parse(request.body, nullptr, false);
    if (!body.is_object()) return bad("Invalid JSON.");
    Rental rental;
    rental.provider = Provider::vultr;
    rental.vm.metal = metal;
    if (auto refused = read_create(body, rental)) return *refused;
    const auto& settings = world_.settings();
    const auto open = std::ranges::count_if(
        world_.rentals(), [](const auto& r) { return r->provider == Provider::vultr && r->exists(); });
    if (settings.vultr_instance_limit > 0 && open >= settings.vultr_instance_limit) {
        return vultr_error(
            403,
            "You have reached the maximum number of active instances for this account. Please open a "
            "support ticket to request an increase.");
    }
    if (world_.balance(Provider::vultr).micros <= 0) {
        return bad(
            "Unable to create server: Your account has insufficient funds. Please make a payment or open a "
            "support ticket.");
    }
    const auto& plan = *world_.market().vm_type(Provider::vultr, rental.vm.type);
    if (auto refused = refuse_stock(plan, rental.vm.region)) return *refused;
    rental.gpu = plan.gpu;
    rental.gpus = plan.gpus;
    rental.gpu_per_hour = plan.price_in(rental.vm.region);
    auto& made = world_.rent(std::move(rental));
    if (made.vm.hostname.empty()) made.vm.hostname = "vultr";
    auto row = metal ? metal_json(made) : machine_json(made, false);
    row["default_password"] = made.vm.secret;  // shown here and never again
    return json_response(202, {{metal ? "bare_metal" : "instance", row}});
}

}  // namespace gf::sim
