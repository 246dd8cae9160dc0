#include "vultr_world.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace gf::test {
namespace {

using nlohmann::json;

std::string echoed(const Received& r) {
    std::string text =
        "Invalid request: " + r.method + " https://api.vultr.com" + r.target + "&api_key=" + kKey + " ";
    for (const auto& h : r.headers) text += h.name + ": " + h.value + " ";
    return text + r.body;
}

Answer with(Answer answer, Delivery delivery) {
    answer.delivery = delivery;
    return answer;
}

std::size_t figure(const std::string& target, const std::string& name, std::size_t otherwise) {
    const auto at = target.find(name + "=");
    return at == std::string::npos ? otherwise : std::stoul(target.substr(at + name.size() + 1));
}

}  // namespace

json vultr_plan(const std::string& id, const std::string& gpu_type, const json& count, double vram,
                double hourly) {
    return {{"id", id},
            {"vcpu_count", 12},
            {"ram", 122880},
            {"disk", 1400},
            {"disk_count", 1},
            {"monthly_cost", hourly * 730},
            {"hourly_cost", hourly},
            {"monthly_cost_preemptible", hourly * 365},
            {"hourly_cost_preemptible", hourly / 2},
            {"type", "vcg"},
            {"locations", {"ewr", "fra", ""}},
            {"location_cost", json::array()},
            {"gpu_vram_gb", vram},
            {"gpu_type", gpu_type},
            {"gpu_count", count},
            {"deploy_ondemand", true},
            {"deploy_preemptible", false}};
}

json vultr_region(const std::string& id, const std::string& country) {
    return {{"id", id}, {"city", "Somewhere"}, {"country", country}, {"options", json::array()}};
}

Answer vultr_error(int status, const std::string& text, std::vector<HttpHeader> headers) {
    return {.status = status,
            .body = json{{"error", text}, {"status", status}}.dump(),
            .headers = std::move(headers)};
}

std::string VultrWorld::add(const std::string& label, const json& tags) {
    const auto id = fmt::format("4f0f12e5-1f84-404f-aa84-{:012d}", next_++);
    instances_[id] = {{"id", id},
                      {"label", label},
                      {"region", "ewr"},
                      {"plan", plans.empty() ? json("vc2-1c-1gb") : plans.front().at("id")},
                      {"date_created", "2026-11-30T09:12:44+00:00"},
                      {"tags", tags.is_array() ? tags : json::array()},
                      {"default_password", "v5{Fkvb#2ycPGwHs"},
                      {"made", unix_millis(clock_.now())}};
    return id;
}

bool VultrWorld::is_there(const json& instance) const {
    return !instance.contains("ended") ||
           unix_millis(clock_.now()) - instance["ended"].get<std::int64_t>() < destroying.count();
}

std::size_t VultrWorld::instances() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(instances_, [](const auto& item) { return !item.second.contains("ended"); }));
}

json VultrWorld::shown(const json& instance) const {
    auto out = instance;
    const auto age = unix_millis(clock_.now()) - out["made"].get<std::int64_t>();
    for (const auto* key : {"made", "ended", "default_password"}) out.erase(key);
    out["status"] = age < 10'000 ? "pending" : "active";
    out["power_status"] = "running";
    out["server_status"] = age < 10'000 ? "none" : age < 20'000 ? "installingbooting" : "ok";
    out["main_ip"] = age < 10'000 ? "0.0.0.0" : "192.0.2.123";
    out["pending_charges"] = 7.19;
    if (out.contains("forced")) out.update(out["forced"]);
    out.erase("forced");
    return out;
}

Answer VultrWorld::rows(const Received& r, const std::string& key, const json& all) const {
    const auto from = figure(r.target, "cursor", 0);
    const auto most = std::min(page, figure(r.target, "per_page", 100));
    if (most > 500) return vultr_error(400, "Invalid per_page.");
    json part = json::array();
    for (std::size_t i = from; i < std::min(from + most, all.size()); ++i) part.push_back(all[i]);
    const bool more = from + most < all.size();
    return {.body = json{{key, part},
                         {"meta",
                          {{"total", all.size()},
                           {"links", {{"next", more ? std::to_string(from + most) : ""}, {"prev", ""}}}}}}
                        .dump()};
}

Answer VultrWorld::answer(const Received& r) {
    const auto path = r.path().substr(std::min<std::size_t>(r.path().size(), 3));  // after "/v2"
    const bool one = path.starts_with("/instances/");
    const auto op = path.starts_with("/plans") || path.starts_with("/regions") ? Op::offers
                    : one && r.method == "DELETE"                              ? Op::destroy
                    : one                                                      ? Op::read
                    : r.method == "POST"                                       ? Op::create
                                                                               : Op::list;
    const auto it = faults_.find(op);
    const auto fault = it == faults_.end() || path == "/os" ? Fault::none : it->second;
    if (r.header("authorization") != "Bearer " + kKey) return vultr_error(401, "Invalid API token.");
    switch (fault) {
        case Fault::wrong_key:
            return vultr_error(401, "Invalid API token.");
        case Fault::too_often:
            return vultr_error(429, "Rate limit reached - please try your request again later.",
                               {{"Retry-After", "1"}});
        case Fault::no_capacity:
            return vultr_error(400, "The plan is not available in the selected region.");
        case Fault::html:
            return {
                .status = 200, .body = "<!DOCTYPE html><title>Vultr</title>", .content_type = "text/html"};
        case Fault::odd_shape:
            return {.body = R"({"data":null,"meta":{"total":0,"links":{"next":"","prev":""}}})"};
        case Fault::later:
            return vultr_error(500, "Unable to destroy server, try again in 60 s");
        case Fault::echo:
            return vultr_error(400, echoed(r));
        case Fault::none:
        case Fault::answer_lost:
        case Fault::error_after:
        case Fault::truncated:
            break;
    }
    Answer out;
    if (path == "/plans") {
        const auto at = r.target.find("type=");
        const auto type = r.target.substr(at + 5, r.target.find('&', at) - at - 5);
        json of_type = json::array();
        for (const auto& plan : plans)
            if (type == "all" || plan.value("type", "") == type) of_type.push_back(plan);
        out = rows(r, "plans", of_type);
    } else if (path == "/regions") {
        out = rows(r, "regions", regions);
    } else if (path.starts_with("/regions/")) {
        const auto region = path.substr(9, path.find('/', 9) - 9);
        out = {.body = json{{"available_plans", stock[region]}}.dump()};
    } else if (path == "/os") {
        out = rows(r, "os",
                   {{{"id", 2284}, {"name", "Ubuntu 24.04 LTS x64"}, {"arch", "x64"}, {"family", "ubuntu"}},
                    {{"id", 1743}, {"name", "Ubuntu 22.04 LTS x64"}, {"arch", "x64"}, {"family", "ubuntu"}}});
    } else if (path == "/account") {
        out = {.body = json{{"account", account}}.dump()};
    } else if (path == "/billing/pending-charges") {
        out = {.body = json{{"pending_charges", charges}}.dump()};
    } else if (op == Op::create) {
        out = create(r);
    } else if (op == Op::list) {
        json all = json::array();
        for (const auto& [id, instance] : instances_)
            if (is_there(instance)) all.push_back(shown(instance));
        out = rows(r, "instances", all);
    } else {
        const auto found = instances_.find(path.substr(11));
        // A malformed id and one that is not there any more are answered alike.
        if (found == instances_.end() || !is_there(found->second))
            return vultr_error(400, "invalid instance ID");
        auto& instance = found->second;
        if (op == Op::destroy) {
            if (instance.contains("ended"))
                return vultr_error(500, "Unable to destroy server: Server is already pending destruction.");
            if (unix_millis(clock_.now()) - instance["made"].get<std::int64_t>() < locked.count())
                return vultr_error(
                    500, "Unable to destroy server: Unable to remove VM: Server is currently locked");
            instance["ended"] = unix_millis(clock_.now());
            out = {.status = 204};
        } else {
            if (r.method == "PATCH") instance["label"] = json::parse(r.body).at("label");
            out = {.status = r.method == "PATCH" ? 202 : 200,
                   .body = json{{"instance", shown(instance)}}.dump()};
        }
    }
    if (fault == Fault::answer_lost) return with(out, Delivery::nothing);
    if (fault == Fault::truncated) return with(out, Delivery::cut_body);
    if (fault == Fault::error_after)
        return {.status = 502, .body = "<html>502 Bad Gateway</html>", .content_type = "text/html"};
    return out;
}

Answer VultrWorld::create(const Received& r) {
    const auto body = json::parse(r.body);
    const std::string region = body.at("region");
    const std::string plan = body.at("plan");
    const auto& here = stock[region];
    if (std::ranges::none_of(plans, [&](const json& p) { return p.at("id") == plan; }))
        return vultr_error(400, "Invalid plan chosen.");
    if (std::ranges::find(here, plan) == here.end())
        return vultr_error(400, "The plan is not available in the selected region.");
    if (body.at("os_id") != 1743 || body.at("backups") != "disabled" || body.at("activation_email") != false)
        return vultr_error(400, "Invalid os_id.");
    const auto id = add(body.at("label"), body.at("tags"));
    auto& made = instances_[id];
    made["region"] = region;
    made["plan"] = plan;
    auto answer = shown(made);
    answer["default_password"] = made["default_password"];
    return {.status = 202, .body = json{{"instance", answer}}.dump()};
}

}  // namespace gf::test
