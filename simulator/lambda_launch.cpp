// Renting at Lambda: POST /instance-operations/launch (page section 4).
#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "simulator/lambda_face.hpp"

namespace gf::sim {

namespace {

using nlohmann::json;

constexpr std::size_t kUserDataMax = 1U << 20U;

HttpResponse invalid(const std::string& message) {
    return lambda_error(400, "global/invalid-parameters", message);
}

HttpResponse missing_thing(const std::string& message) {
    return lambda_error(400, "global/object-does-not-exist", message, "Check the name.");
}

bool matches(const std::string& text, const char* pattern) {
    return std::regex_match(text, std::regex(pattern));
}

/// What is wrong with an optional text; empty = nothing.
std::string wrong_text(const json& body, const char* key, std::size_t least, std::size_t most,
                       const char* pattern) {
    const auto it = body.find(key);
    if (it == body.end() || it->is_null()) return {};
    if (!it->is_string()) return fmt::format("{}: Input should be a valid string", key);
    const auto& text = it->get_ref<const std::string&>();
    if (text.size() < least || text.size() > most)
        return fmt::format("{}: String should have {} to {} characters", key, least, most);
    if (pattern != nullptr && !matches(text, pattern))
        return fmt::format("{}: String should match pattern '{}'", key, pattern);
    return {};
}

std::string wrong_text_list(const json& body, const char* key) {
    const auto it = body.find(key);
    if (it == body.end() || it->is_null()) return {};
    const bool good = it->is_array() && std::ranges::all_of(*it, [](const json& v) { return v.is_string(); });
    return good ? std::string{} : fmt::format("{}: Input should be a list of strings", key);
}

std::string wrong_tags(const json& body) {
    const auto it = body.find("tags");
    if (it == body.end() || it->is_null()) return {};
    if (!it->is_array()) return "tags: Input should be a list";
    for (const auto& tag : *it) {
        if (!tag.is_object() || !tag.contains("key") || !tag.contains("value"))
            return "tags: each wants a key and a value";
        auto wrong = wrong_text(tag, "key", 1, 55, "^[a-z][a-z0-9-:]+$");
        if (wrong.empty()) wrong = wrong_text(tag, "value", 0, 128, nullptr);
        if (!wrong.empty()) return "tags." + wrong;
    }
    return {};
}

}  // namespace

std::optional<HttpResponse> LambdaFace::check_shape(const json& body) const {
    for (const auto* key : {"region_name", "instance_type_name", "ssh_key_names"}) {
        if (!body.contains(key)) return invalid(fmt::format("{}: Field required", key));
    }
    for (const auto& wrong :
         {wrong_text(body, "region_name", 1, 64, nullptr),
          wrong_text(body, "instance_type_name", 1, 64, nullptr), wrong_text_list(body, "ssh_key_names"),
          wrong_text_list(body, "file_system_names"), wrong_text(body, "name", 0, 64, nullptr),
          wrong_text(body, "hostname", 1, 63, "^[a-z0-9][0-9a-z-]{0,62}$"),
          wrong_text(body, "user_data", 0, kUserDataMax, nullptr), wrong_tags(body)}) {
        if (!wrong.empty()) return invalid(wrong);
    }
    if (!body["region_name"].is_string() || !body["instance_type_name"].is_string() ||
        !body["ssh_key_names"].is_array())
        return invalid("region_name, instance_type_name, ssh_key_names: Field required");
    if (body["ssh_key_names"].size() != 1)
        return invalid("ssh_key_names: Exactly one SSH key must be specified.");
    // No longer in the schema; above 1 it is refused all the same.
    if (const auto quantity = body.find("quantity"); quantity != body.end() && !quantity->is_null()) {
        if (!quantity->is_number_integer() || quantity->get<int>() != 1)
            return invalid("quantity: Input should be less than or equal to 1");
    }
    if (const auto image = body.find("image"); image != body.end() && !image->is_null()) {
        if (!image->is_object() || image->contains("id") == image->contains("family"))
            return invalid("image: exactly one of id and family is wanted");
    }
    for (const auto& mount : body.value("file_system_mounts", json::array())) {
        auto wrong =
            !mount.is_object() || !mount.contains("file_system_id") || !mount.contains("mount_point")
                ? std::string{"Field required"}
                : wrong_text(mount, "mount_point", 1, 256, "^(/home|/lambda/nfs|/data)[//a-zA-Z0-9-]*$");
        if (!wrong.empty()) return invalid("file_system_mounts: " + wrong);
    }
    return std::nullopt;
}

std::optional<HttpResponse> LambdaFace::check_things(const json& body, Rental& rental) const {
    const auto* type = world_.market().vm_type(Provider::lambda, rental.vm.type);
    if (type == nullptr)
        return missing_thing(fmt::format("Instance type {} does not exist.", rental.vm.type));
    const auto& region = rental.vm.region;
    bool known = type->stock.contains(region) || lambda_region(region)["description"] != region;
    for (const auto& other : world_.market().vm_types(Provider::lambda))
        known = known || other.stock.contains(region);
    if (!known) return missing_thing(fmt::format("Region {} does not exist.", region));
    for (const auto& name : rental.vm.key_names) {
        const auto key = std::ranges::find(keys_, name, &Key::name);
        if (key == keys_.end()) return missing_thing(fmt::format("SSH key {} does not exist.", name));
        rental.vm.authorized_keys += key->text + "\n";
    }
    if (const auto image = body.find("image"); image != body.end() && image->is_object()) {
        if (image->contains("family") && !lambda_image_family((*image)["family"].get<std::string>()))
            return missing_thing("Specified image does not exist.");
        if (image->contains("id")) {
            const auto id = (*image)["id"].get<std::string>();
            bool found = false;
            for (const auto* family :
                 {"lambda-stack-22-04", "lambda-stack-24-04", "gpu-base-24-04", "ubuntu-24-04"})
                found = found || id == lambda_image_id(family, region, type->arch);
            if (!found) return missing_thing("Specified image does not exist in this region.");
        }
    }
    const auto mount = [&](const FileSystem& fs, const std::string& at) -> std::optional<HttpResponse> {
        if (fs.region != region) {
            return lambda_error(400, "instance-operations/launch/file-system-in-wrong-region",
                                fmt::format("Filesystem {} is not in region {}.", fs.name, region));
        }
        const bool twice =
            std::ranges::any_of(rental.vm.mounts, [&](const auto& m) { return m.first == fs.id; });
        if (!twice) rental.vm.mounts.emplace_back(fs.id, at);
        return std::nullopt;
    };
    // Mounts by id win over names for the same file system.
    for (const auto& wanted : body.value("file_system_mounts", json::array())) {
        const auto fs =
            std::ranges::find(file_systems_, wanted["file_system_id"].get<std::string>(), &FileSystem::id);
        if (fs == file_systems_.end()) return missing_thing("Specified filesystem does not exist.");
        if (auto refused = mount(*fs, wanted["mount_point"].get<std::string>())) return refused;
    }
    for (const auto& name : body.value("file_system_names", std::vector<std::string>{})) {
        const auto fs = std::ranges::find(file_systems_, name, &FileSystem::name);
        if (fs == file_systems_.end())
            return missing_thing(fmt::format("Filesystem {} does not exist.", name));
        if (auto refused = mount(*fs, "/lambda/nfs/" + name)) return refused;
    }
    for (const auto& wanted : body.value("firewall_rulesets", json::array())) {
        const auto id = wanted.value("id", std::string{});
        const auto ruleset = std::ranges::find(rulesets_, id, &Ruleset::id);
        if (ruleset == rulesets_.end() || ruleset->region != region)
            return missing_thing("Specified firewall ruleset does not exist.");
        rental.vm.firewalls.push_back(id);
    }
    return std::nullopt;
}

std::optional<HttpResponse> LambdaFace::no_capacity(const VmType& type, const std::string& region) {
    auto& settings = world_.settings();
    bool gone = world_.free_vms(Provider::lambda, type, region) <= 0;
    // Capacity may vanish between the list and the launch.
    if (!gone && settings.lambda_lost_races > 0) {
        --settings.lambda_lost_races;
        gone = true;
    } else if (!gone && settings.lambda_refusal_rate > 0) {
        gone = static_cast<double>(world_.entropy().below(1'000'000)) < settings.lambda_refusal_rate * 1e6;
    }
    if (!gone) return std::nullopt;
    return lambda_error(400, "instance-operations/launch/insufficient-capacity",
                        "Not enough capacity to fulfill launch request.",
                        "Choose an instance type with more availability, or try again later.");
}

HttpResponse LambdaFace::launch(const HttpRequest& request) {
    const auto body = json::parse(request.body, nullptr, false);
    if (!body.is_object()) return invalid("Invalid request data.");
    if (auto refused = check_shape(body)) return *refused;
    const auto& settings = world_.settings();
    if (settings.lambda_account_inactive) {
        return lambda_error(
            403, "global/account-inactive", "Your account is inactive.",
            "Make sure you have verified your email address and have a valid payment method. Contact "
            "Support if problems continue.");
    }
    Rental rental;
    rental.provider = Provider::lambda;
    rental.vm.type = body["instance_type_name"].get<std::string>();
    rental.vm.region = body["region_name"].get<std::string>();
    rental.vm.key_names = body["ssh_key_names"].get<std::vector<std::string>>();
    if (auto refused = check_things(body, rental)) return *refused;
    const auto text = [&](const char* key) {
        const auto it = body.find(key);
        return it == body.end() || it->is_null() ? std::string{} : it->get<std::string>();
    };
    rental.name = text("name");
    rental.vm.hostname = text("hostname");
    rental.vm.user_data = text("user_data");  // plain text, not base64
    for (const auto& tag : body.value("tags", json::array()))
        rental.vm.tags.emplace_back(tag["key"].get<std::string>(), tag["value"].get<std::string>());
    const auto open = std::ranges::count_if(
        world_.rentals(), [](const auto& r) { return r->provider == Provider::lambda && r->exists(); });
    if (settings.lambda_instance_limit > 0 && open >= settings.lambda_instance_limit) {
        return lambda_error(400, "global/quota-exceeded", "Quota exceeded.",
                            "Contact Support to increase your quota.");
    }
    const auto& type = *world_.market().vm_type(Provider::lambda, rental.vm.type);
    if (auto refused = no_capacity(type, rental.vm.region)) return *refused;
    rental.gpu = type.gpu;
    rental.gpus = type.gpus;
    rental.gpu_per_hour = type.price;
    auto& made = world_.rent(std::move(rental));
    if (made.vm.hostname.empty()) {
        auto address = made.vm.ip;
        std::ranges::replace(address, '.', '-');
        made.vm.hostname = address;
    }
    note("launched", "instance", made.id);
    return lambda_data({{"instance_ids", {made.id}}});
}

}  // namespace gf::sim
