// Lambda's SSH keys, file systems, firewalls and audit events (page sections 2, 6 and 7).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <regex>

#include "simulator/lambda_face.hpp"

namespace gf::sim {

namespace {

using nlohmann::json;

constexpr std::string_view kHex = "0123456789abcdef";

HttpResponse invalid(const std::string& message) {
    return lambda_error(400, "global/invalid-parameters", message);
}
HttpResponse not_found() {
    return lambda_error(404, "global/not-found", "The requested resource was not found.");
}

std::optional<std::string> text_of(const json& body, const char* key) {
    const auto it = body.is_object() ? body.find(key) : body.end();
    if (!body.is_object() || it == body.end() || !it->is_string()) return std::nullopt;
    return it->get<std::string>();
}

/// What is wrong with a list of inbound rules; empty = nothing.
std::string wrong_rules(const json& rules) {
    if (!rules.is_array()) return "rules: Input should be a list";
    for (const auto& rule : rules) {
        const auto protocol = text_of(rule, "protocol").value_or("");
        if (protocol != "tcp" && protocol != "udp" && protocol != "icmp" && protocol != "all")
            return "protocol: Input should be 'tcp', 'udp', 'icmp' or 'all'";
        const bool ranged = rule.contains("port_range") && !rule["port_range"].is_null();
        if (protocol == "icmp" && ranged) return "port_range: not allowed for icmp";
        if (protocol != "icmp" && !ranged) return "port_range: Field required";
        if (!text_of(rule, "source_network")) return "source_network: Field required";
        if (text_of(rule, "description").value_or("").size() > 128)
            return "description: String should have at most 128 characters";
    }
    return {};
}

}  // namespace

void LambdaFace::note(const std::string& what, const std::string& type, const std::string& id) {
    constexpr std::size_t kKept = 5'000;
    if (events_.size() >= kKept) events_.erase(events_.begin());
    events_.push_back({{"event_time", offset_time(world_.now())},
                       {"action", what},
                       {"resource_type", type},
                       {"resource_id", id}});
}

HttpResponse LambdaFace::ssh_keys(const HttpRequest& request, const Path& path) {
    const auto show = [](const Key& key) {
        return json{{"id", key.id}, {"name", key.name}, {"public_key", key.text}};
    };
    if (path.size() == 1 && request.method == "GET") {
        json rows = json::array();
        for (const auto& key : keys_) rows.push_back(show(key));
        return lambda_data(rows);
    }
    if (path.size() == 1 && request.method == "POST") {
        const auto body = json::parse(request.body, nullptr, false);
        const auto name = text_of(body, "name");
        if (!name || name->empty() || name->size() > 64)
            return invalid("name: String should have 1 to 64 characters");
        auto given = text_of(body, "public_key");
        if (given && given->size() > 4096)
            return invalid("public_key: String should have at most 4096 characters");
        if (given && !given->starts_with("ssh-") && !given->starts_with("ecdsa-"))
            return invalid("public_key: Invalid public key");
        if (std::ranges::find(keys_, *name, &Key::name) != keys_.end()) {
            return lambda_error(400,
                                world_.settings().lambda_duplicate_key_code ? "global/duplicate"
                                                                            : "global/invalid-parameters",
                                fmt::format("An SSH key named {} already exists.", *name));
        }
        const bool made = !given;
        if (made) given = "ssh-rsa AAAAB3NzaC1yc2E" + world_.random_text(64, kHex) + " " + *name;
        keys_.push_back({.id = world_.random_text(32, kHex), .name = *name, .text = *given});
        auto row = show(keys_.back());
        if (made) {
            row["private_key"] = "-----BEGIN RSA PRIVATE KEY-----\n" + world_.random_text(64, kHex) +
                                 "\n-----END RSA PRIVATE KEY-----\n";
        }
        note("created", "ssh-key", keys_.back().id);
        return lambda_data(row);
    }
    if (path.size() == 2 && request.method == "DELETE") {
        if (std::erase_if(keys_, [&](const Key& key) { return key.id == path[1]; }) == 0)
            return lambda_error(404, "global/object-does-not-exist", "SSH key was not found.");
        note("deleted", "ssh-key", path[1]);
        return lambda_data(json::object());
    }
    return not_found();
}

HttpResponse LambdaFace::file_systems(const HttpRequest& request, const Path& path) {
    const auto in_use = [&](const FileSystem& fs) {
        return std::ranges::any_of(world_.rentals(), [&](const auto& rental) {
            return rental->provider == Provider::lambda && rental->exists() &&
                   std::ranges::any_of(rental->vm.mounts, [&](const auto& m) { return m.first == fs.id; });
        });
    };
    const auto show = [&](const FileSystem& fs) {
        return json{{"id", fs.id},
                    {"name", fs.name},
                    {"mount_point", "/lambda/nfs/" + fs.name},
                    {"created", offset_time(fs.created)},
                    {"created_by", {{"id", "b2d0a1c4"}, {"email", "ops@example.com"}, {"status", "active"}}},
                    {"is_in_use", in_use(fs)},
                    {"region", lambda_region(fs.region)},
                    {"bytes_used", 0}};
    };
    if (path.size() == 1 && request.method == "GET") {
        json rows = json::array();
        for (const auto& fs : file_systems_) rows.push_back(show(fs));
        return lambda_data(rows);
    }
    if (path.size() == 1 && request.method == "POST") {
        const auto body = json::parse(request.body, nullptr, false);
        const auto name = text_of(body, "name");
        const auto region = text_of(body, "region");  // not region_name
        static const std::regex pattern("^[a-zA-Z]+[0-9a-zA-Z-]*$");
        if (!name || name->empty() || name->size() > 60 || !std::regex_match(*name, pattern))
            return invalid(
                "name: String should have 1 to 60 letters, digits and hyphens and begin with a letter");
        if (!region) return invalid("region: Field required");
        if (std::ranges::find(file_systems_, *name, &FileSystem::name) != file_systems_.end())
            return lambda_error(400, "global/duplicate", fmt::format("Filesystem {} already exists.", *name));
        file_systems_.push_back(
            {.id = world_.random_text(32, kHex), .name = *name, .region = *region, .created = world_.now()});
        return lambda_data(show(file_systems_.back()));
    }
    if (path.size() == 2 && request.method == "DELETE") {
        const auto fs = std::ranges::find(file_systems_, path[1], &FileSystem::id);
        if (fs == file_systems_.end())
            return lambda_error(404, "global/object-does-not-exist", "Filesystem was not found.");
        if (in_use(*fs)) {
            return lambda_error(400, "filesystems/filesystem-in-use",
                                fmt::format("Filesystem {} is in use.", fs->name));
        }
        file_systems_.erase(fs);
        return lambda_data({{"deleted_ids", {path[1]}}});
    }
    return not_found();
}

HttpResponse LambdaFace::firewall_rules(const HttpRequest& request) {
    if (request.method == "GET") return lambda_data(rules_);
    if (request.method != "PUT") return not_found();
    const auto body = json::parse(request.body, nullptr, false);
    const auto rules = body.is_object() ? body.value("data", json(nullptr)) : json(nullptr);
    if (const auto wrong = wrong_rules(rules); !wrong.empty()) return invalid(wrong);
    rules_ = rules;  // all of them
    return lambda_data(rules_);
}

json LambdaFace::ruleset_json(const Ruleset& ruleset) const {
    json users = json::array();
    for (const auto& rental : world_.rentals()) {
        const auto& ids = rental->vm.firewalls;
        if (rental->exists() && std::ranges::find(ids, ruleset.id) != ids.end()) users.push_back(rental->id);
    }
    return {{"id", ruleset.id},
            {"name", ruleset.name},
            {"region", lambda_region(ruleset.region)},
            {"rules", ruleset.rules},
            {"created", offset_time(ruleset.created)},
            {"instance_ids", users}};
}

HttpResponse LambdaFace::firewall_rulesets(const HttpRequest& request, const Path& path) {
    const auto body = json::parse(request.body, nullptr, false);
    if (path.size() == 1) {
        if (request.method == "GET") {
            json rows = json::array();
            for (const auto& ruleset : rulesets_) rows.push_back(ruleset_json(ruleset));
            return lambda_data(rows);
        }
        if (request.method != "POST") return not_found();
        const auto name = text_of(body, "name");
        const auto region = text_of(body, "region");
        if (!name || !region) return invalid("name, region, rules: Field required");
        const auto rules = body.value("rules", json(nullptr));
        if (const auto wrong = wrong_rules(rules); !wrong.empty()) return invalid(wrong);
        rulesets_.push_back({.id = world_.random_text(32, kHex),
                             .name = *name,
                             .region = *region,
                             .rules = rules,
                             .created = world_.now()});
        return lambda_data(ruleset_json(rulesets_.back()));
    }
    if (path.size() != 2) return not_found();
    if (path[1] == "global") {
        if (request.method == "PATCH") {
            const auto rules = body.is_object() ? body.value("rules", json(nullptr)) : json(nullptr);
            if (const auto wrong = wrong_rules(rules); !wrong.empty()) return invalid(wrong);
            global_rules_ = rules;
        } else if (request.method != "GET") {
            return not_found();
        }
        return lambda_data({{"id", "global"}, {"name", "Global Firewall Rules"}, {"rules", global_rules_}});
    }
    const auto ruleset = std::ranges::find(rulesets_, path[1], &Ruleset::id);
    if (ruleset == rulesets_.end())
        return lambda_error(404, "global/object-does-not-exist", "Firewall ruleset was not found.");
    if (request.method == "GET") return lambda_data(ruleset_json(*ruleset));
    if (request.method == "PATCH") {
        if (const auto name = text_of(body, "name")) ruleset->name = *name;
        if (body.is_object() && body.contains("rules")) {
            if (const auto wrong = wrong_rules(body["rules"]); !wrong.empty()) return invalid(wrong);
            ruleset->rules = body["rules"];
        }
        return lambda_data(ruleset_json(*ruleset));
    }
    if (request.method != "DELETE") return not_found();
    if (!ruleset_json(*ruleset)["instance_ids"].empty()) {
        return lambda_error(400, "firewall-rulesets/firewall-ruleset-in-use",
                            "Firewall ruleset is in use by one or more instances.");
    }
    rulesets_.erase(ruleset);
    return lambda_data(json::object());
}

HttpResponse LambdaFace::audit_events(const HttpRequest& request) const {
    constexpr std::size_t kPage = 100;
    std::size_t first = 0;
    if (const auto token = request.query_value("page_token"); token && !token->empty())
        std::from_chars(token->data(), token->data() + token->size(), first);
    const auto wanted = request.query_value("resource_type").value_or("");
    json rows = json::array();
    std::size_t at = first;
    for (; at < events_.size() && rows.size() < kPage; ++at) {
        if (wanted.empty() || events_[at]["resource_type"] == wanted) rows.push_back(events_[at]);
    }
    const json next = at < events_.size() ? json(std::to_string(at)) : json(nullptr);
    return lambda_data({{"events", rows}, {"page_token", next}});
}

}  // namespace gf::sim
