// Vultr's account, money, keys, scripts, networks and block volumes (page sections 6, 7 and 8).
#include <fmt/format.h>

#include <algorithm>

#include "simulator/vultr_face.hpp"

namespace gf::sim {

namespace {

using nlohmann::json;

constexpr std::string_view kHex = "0123456789abcdef";

json parsed(const HttpRequest& request) {
    auto body = json::parse(request.body, nullptr, false);
    return body.is_object() ? body : json::object();
}

std::string text_of(const json& body, const char* key) {
    const auto it = body.find(key);
    return it != body.end() && it->is_string() ? it->get<std::string>() : std::string{};
}

HttpResponse wrong_method() {
    return vultr_error(405, "Method not allowed.");
}

}  // namespace

std::string VultrFace::uuid() {
    const auto hex = [&](std::size_t n) { return world_.random_text(n, kHex); };
    return fmt::format("{}-{}-4{}-8{}-{}", hex(8), hex(4), hex(3), hex(3), hex(12));
}

HttpResponse VultrFace::account() {
    const auto charges = world_.billed(Provider::vultr).micros;
    // A negative balance is credit; what is still to be invoiced stands beside it.
    const auto credit = world_.balance(Provider::vultr).micros + charges;
    return json_response(200, {{"account",
                                {{"name", "Example Account"},
                                 {"email", "ops@example.com"},
                                 {"acls", {"subscriptions", "provisioning", "billing"}},
                                 {"balance", -vultr_cents(credit)},
                                 {"pending_charges", vultr_cents(charges)},
                                 {"last_payment_date", offset_time(world_.opened_at())},
                                 {"last_payment_amount", -vultr_cents(credit)}}}});
}

HttpResponse VultrFace::billing(const HttpRequest& request, const Path& path) {
    if (path.size() == 2 && path[1] == "history") return paged(request, "billing_history", {});
    if (path.size() == 2 && path[1] == "invoices") return paged(request, "billing_invoices", {});
    if (path.size() != 2 || path[1] != "pending-charges") return vultr_error(404, "Invalid API path");
    json rows = json::array();
    for (const auto& rental : world_.rentals()) {
        if (rental->provider != Provider::vultr) continue;
        world_.accrue(*rental);
        const auto& bill = rental->bill;
        if (bill.steps() == 0) continue;
        const auto* product = rental->vm.metal ? "Bare Metal" : "Cloud GPU";
        rows.push_back({{"description", fmt::format("{} ({})", product, rental->name)},
                        {"start_date", offset_time(rental->created_at)},
                        {"end_date", offset_time(rental->exists() ? world_.now() : *rental->halted_at)},
                        {"units", bill.steps()},
                        {"unit_type", "hours"},
                        {"unit_price", dollars_float(rental->gpu_per_hour)},
                        {"total", vultr_cents(bill.total().micros)},
                        {"product", product}});
    }
    return json_response(200, {{"pending_charges", rows}});
}

HttpResponse VultrFace::ssh_keys(const HttpRequest& request, const Path& path) {
    const auto show = [](const Key& key) {
        return json{{"id", key.id},
                    {"date_created", offset_time(key.created)},
                    {"name", key.name},
                    {"ssh_key", key.text}};
    };
    const auto body = parsed(request);
    if (path.size() == 1) {
        if (request.method == "GET") {
            Rows rows;
            for (const auto& key : keys_) rows.emplace_back(rows.size() + 1, show(key));
            return paged(request, "ssh_keys", rows);
        }
        if (request.method != "POST") return wrong_method();
        if (text_of(body, "name").empty()) return vultr_error(400, "Invalid name.");
        const auto text = text_of(body, "ssh_key");
        if (!text.starts_with("ssh-") && !text.starts_with("ecdsa-"))
            return vultr_error(400, "Invalid SSH key.");
        // The same name or text twice is taken.
        keys_.push_back({.id = uuid(), .name = text_of(body, "name"), .text = text, .created = world_.now()});
        return json_response(201, {{"ssh_key", show(keys_.back())}});
    }
    const auto key = std::ranges::find(keys_, path[1], &Key::id);
    if (path.size() != 2 || key == keys_.end()) return vultr_error(404, "SSH key not found");
    if (request.method == "GET") return json_response(200, {{"ssh_key", show(*key)}});
    if (request.method == "DELETE") {
        keys_.erase(key);
        return vultr_no_content();
    }
    if (request.method != "PATCH") return wrong_method();
    if (body.contains("name")) key->name = text_of(body, "name");
    if (body.contains("ssh_key")) key->text = text_of(body, "ssh_key");
    return vultr_no_content();
}

HttpResponse VultrFace::scripts(const HttpRequest& request, const Path& path) {
    const auto show = [](const Script& script, bool whole) {
        json row{{"id", script.id},
                 {"date_created", offset_time(script.created)},
                 {"date_modified", offset_time(script.created)},
                 {"name", script.name},
                 {"type", script.type}};
        if (whole) row["script"] = script.text;
        return row;
    };
    const auto body = parsed(request);
    if (path.size() == 1) {
        if (request.method == "GET") {
            Rows rows;
            for (const auto& script : scripts_) rows.emplace_back(rows.size() + 1, show(script, false));
            return paged(request, "startup_scripts", rows);
        }
        if (request.method != "POST") return wrong_method();
        const auto text = text_of(body, "script");
        if (text.empty() || !base64_decoded(text)) return vultr_error(400, "Script must be base64 encoded");
        const auto type = body.value("type", std::string{"boot"});
        if (type != "boot" && type != "pxe") return vultr_error(400, "Invalid script type.");
        scripts_.push_back({.id = uuid(),
                            .name = text_of(body, "name"),
                            .type = type,
                            .text = text,
                            .created = world_.now()});
        return json_response(201, {{"startup_script", show(scripts_.back(), true)}});
    }
    const auto script = std::ranges::find(scripts_, path[1], &Script::id);
    if (path.size() != 2 || script == scripts_.end()) return vultr_error(404, "Startup script not found");
    if (request.method == "GET") return json_response(200, {{"startup_script", show(*script, true)}});
    if (request.method != "DELETE") return wrong_method();
    scripts_.erase(script);
    return vultr_no_content();
}

HttpResponse VultrFace::vpcs(const HttpRequest& request, const Path& path) {
    const auto show = [](const Vpc& vpc) {
        return json{{"id", vpc.id},
                    {"region", vpc.region},
                    {"description", vpc.description},
                    {"v4_subnet", vpc.subnet},
                    {"v4_subnet_mask", vpc.mask},
                    {"date_created", offset_time(vpc.created)}};
    };
    const auto body = parsed(request);
    if (path.size() == 1) {
        if (request.method == "GET") {
            Rows rows;
            for (const auto& vpc : vpcs_) rows.emplace_back(rows.size() + 1, show(vpc));
            return paged(request, "vpcs", rows);
        }
        if (request.method != "POST") return wrong_method();
        if (!vultr_region(text_of(body, "region"))) return vultr_error(400, "Invalid location.");
        vpcs_.push_back({.id = uuid(),
                         .region = text_of(body, "region"),
                         .description = text_of(body, "description"),
                         .subnet = fmt::format("10.{}.0.0", 99 + vpcs_.size() % 100),
                         .mask = 24,
                         .created = world_.now()});
        return json_response(201, {{"vpc", show(vpcs_.back())}});
    }
    const auto vpc = std::ranges::find(vpcs_, path[1], &Vpc::id);
    if (path.size() != 2 || vpc == vpcs_.end()) return vultr_error(404, "VPC not found");
    if (request.method == "GET") return json_response(200, {{"vpc", show(*vpc)}});
    if (request.method == "PUT") {
        vpc->description = text_of(body, "description");
        return vultr_no_content();
    }
    if (request.method != "DELETE") return wrong_method();
    vpcs_.erase(vpc);
    return vultr_no_content();
}

HttpResponse VultrFace::firewalls(const HttpRequest& request, const Path& path) {
    const auto show = [](const Firewall& group) {
        return json{{"id", group.id},
                    {"description", group.description},
                    {"date_created", offset_time(group.created)},
                    {"rule_count", group.rules.size()},
                    {"max_rule_count", 50}};
    };
    const auto body = parsed(request);
    if (path.size() == 1) {
        if (request.method == "GET") {
            Rows rows;
            for (const auto& group : firewalls_) rows.emplace_back(rows.size() + 1, show(group));
            return paged(request, "firewall_groups", rows);
        }
        if (request.method != "POST") return wrong_method();
        firewalls_.push_back(
            {.id = uuid(), .description = text_of(body, "description"), .created = world_.now()});
        return json_response(201, {{"firewall_group", show(firewalls_.back())}});
    }
    const auto group = std::ranges::find(firewalls_, path[1], &Firewall::id);
    if (group == firewalls_.end()) return vultr_error(404, "Firewall group not found");
    if (path.size() == 3 && path[2] == "rules") {
        if (request.method == "GET") {
            Rows rows;
            for (const auto& rule : group->rules) rows.emplace_back(rows.size() + 1, rule);
            return paged(request, "firewall_rules", rows);
        }
        if (request.method != "POST") return wrong_method();
        auto protocol = text_of(body, "protocol");
        std::ranges::transform(protocol, protocol.begin(),
                               [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
        const auto ip_type = text_of(body, "ip_type");
        if (ip_type != "v4" && ip_type != "v6") return vultr_error(400, "Invalid ip_type.");
        json rule{{"id", group->rules.size() + 1},
                  {"ip_type", ip_type},
                  {"action", "accept"},
                  {"protocol", protocol},
                  {"port", text_of(body, "port")},
                  {"subnet", text_of(body, "subnet")},
                  {"subnet_size", body.value("subnet_size", 0)},
                  {"source", ""},
                  {"notes", text_of(body, "notes")}};
        group->rules.push_back(rule);
        return json_response(201, {{"firewall_rule", rule}});
    }
    if (path.size() != 2) return vultr_error(404, "Invalid API path");
    if (request.method == "GET") return json_response(200, {{"firewall_group", show(*group)}});
    if (request.method != "DELETE") return wrong_method();
    firewalls_.erase(group);
    return vultr_no_content();
}

HttpResponse VultrFace::blocks(const HttpRequest& request, const Path& path) {
    const auto show = [&](const Block& block) {
        const auto* machine = world_.find(Provider::vultr, block.attached);
        return json{{"id", block.id},
                    {"date_created", offset_time(block.created)},
                    {"cost", block.size_gb / 10},
                    {"pending_charges", 0},
                    {"status", "active"},
                    {"size_gb", block.size_gb},
                    {"region", block.region},
                    {"attached_to_instance", block.attached},
                    {"attached_to_instance_ip", machine == nullptr ? "" : machine->vm.ip},
                    {"attached_to_instance_label", machine == nullptr ? "" : machine->name},
                    {"label", block.label},
                    {"mount_id", block.region + "-" + block.id.substr(0, 8)},
                    {"block_type", block.type},
                    {"bootable", false}};
    };
    const auto body = parsed(request);
    if (path.size() == 1) {
        if (request.method == "GET") {
            Rows rows;
            for (const auto& block : blocks_) rows.emplace_back(rows.size() + 1, show(block));
            return paged(request, "blocks", rows);
        }
        if (request.method != "POST") return wrong_method();
        const auto size = body.value("size_gb", std::int64_t{0});
        const auto type = body.value("block_type", std::string{"high_perf"});
        if (size < (type == "storage_opt" ? 40 : 10)) return vultr_error(400, "Invalid size.");
        if (!vultr_region(text_of(body, "region"))) return vultr_error(400, "Invalid location.");
        blocks_.push_back({.id = uuid(),
                           .region = text_of(body, "region"),
                           .label = text_of(body, "label"),
                           .type = type,
                           .size_gb = size,
                           .attached = {},
                           .created = world_.now()});
        return json_response(202, {{"block", show(blocks_.back())}});
    }
    const auto block = std::ranges::find(blocks_, path[1], &Block::id);
    if (block == blocks_.end()) return vultr_error(404, "Block storage not found");
    if (path.size() == 3 && request.method == "POST" && path[2] == "attach") {
        if (!block->attached.empty())
            return vultr_error(400, "Block storage is already attached to a server.");
        const auto* machine = visible(text_of(body, "instance_id"), false);
        if (machine == nullptr || machine->vm.region != block->region)
            return vultr_error(400, "Invalid instance chosen.");
        if (locked(*machine)) return vultr_error(500, "Unable to attach: Server is currently locked");
        block->attached = machine->id;
        return vultr_no_content();
    }
    if (path.size() == 3 && request.method == "POST" && path[2] == "detach") {
        block->attached.clear();
        return vultr_no_content();
    }
    if (path.size() != 2) return vultr_error(404, "Invalid API path");
    if (request.method == "GET") return json_response(200, {{"block", show(*block)}});
    if (request.method == "DELETE") {
        blocks_.erase(block);
        return vultr_no_content();
    }
    if (request.method != "PATCH") return wrong_method();
    if (body.value("size_gb", block->size_gb) < block->size_gb)
        return vultr_error(400, "Block storage cannot be made smaller.");
    block->size_gb = body.value("size_gb", block->size_gb);
    if (body.contains("label")) block->label = text_of(body, "label");
    return vultr_no_content();
}

}  // namespace gf::sim
