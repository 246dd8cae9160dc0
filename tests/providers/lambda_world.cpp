#include "lambda_world.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace gf::test {
namespace {

using nlohmann::json;

std::string echoed(const Received& r) {
    std::string text = "Invalid request data: " + r.method + " https://cloud.lambda.ai" + r.target +
                       "?api_key=" + kKey + " ";
    for (const auto& h : r.headers) text += h.name + ": " + h.value + " ";
    return text + r.body;
}

Answer with(Answer answer, Delivery delivery) {
    answer.delivery = delivery;
    return answer;
}

Answer data(const json& value) {
    return {.body = json{{"data", value}}.dump()};
}

bool has_form(const std::string& text, std::size_t least, std::size_t most, std::string_view more) {
    return text.size() >= least && text.size() <= most && std::ranges::all_of(text, [&](char c) {
               return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                      more.find(c) != std::string_view::npos;
           });
}

}  // namespace

json lambda_type(const std::string& name, const std::string& gpu, int cents, int gpus,
                 const std::vector<std::string>& regions) {
    json places = json::array();
    for (const auto& region : regions) places.push_back({{"name", region}, {"description", "somewhere"}});
    return {{"instance_type",
             {{"name", name},
              {"description", fmt::format("{}x {}", gpus, gpu)},
              {"gpu_description", gpu},
              {"price_cents_per_hour", cents},
              {"specs",
               {{"vcpus", 30 * gpus}, {"memory_gib", 200 * gpus}, {"storage_gib", 1400}, {"gpus", gpus}}}}},
            {"regions_with_capacity_available", places}};
}

Answer lambda_error(int status, const std::string& code, const std::string& message) {
    return {.status = status, .body = json{{"error", {{"code", code}, {"message", message}}}}.dump()};
}

std::string LambdaWorld::add(const std::string& name, const json& tags) {
    const auto id = fmt::format("{:032x}", 0x0920582c7ff04139 + static_cast<std::uint64_t>(next_++));
    const auto& type =
        types.contains("gpu_1x_a10") ? types["gpu_1x_a10"]["instance_type"] : types.front()["instance_type"];
    instances_[id] = {{"id", id},
                      {"name", name},
                      {"ssh_key_names", {"somebody"}},
                      {"file_system_names", json::array()},
                      {"region", {{"name", "us-west-1"}, {"description", "California, USA"}}},
                      {"instance_type", type},
                      {"actions", json::object()},
                      {"jupyter_token", "53968f128c4a4489b688c2c0a181d083"},
                      {"made", unix_millis(clock_.now())}};
    if (tags.is_array()) instances_[id]["tags"] = tags;
    return id;
}

std::string LambdaWorld::status(const json& instance) const {
    const auto now = unix_millis(clock_.now());
    if (instance.contains("forced")) return instance["forced"];
    if (instance.contains("ended"))
        return now - instance["ended"].get<std::int64_t>() < terminating.count() ? "terminating"
                                                                                 : "terminated";
    return now - instance["made"].get<std::int64_t>() < 40'000 ? "booting" : "active";
}

bool LambdaWorld::is_there(const json& instance) const {
    return !instance.contains("ended") ||
           unix_millis(clock_.now()) - instance["ended"].get<std::int64_t>() < terminating.count() + 60'000;
}

std::size_t LambdaWorld::instances() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(instances_, [](const auto& item) { return !item.second.contains("ended"); }));
}

json LambdaWorld::shown(const json& instance) const {
    auto out = instance;
    out["status"] = status(instance);
    if (out["status"] != "booting") out["ip"] = "198.51.100.2";
    for (const auto* key : {"made", "ended", "forced"}) out.erase(key);
    return out;
}

Answer LambdaWorld::answer(const Received& r) {
    const auto path = r.path().substr(std::min<std::size_t>(r.path().size(), 7));  // after "/api/v1"
    const bool is_launch = path == "/instance-operations/launch";
    const bool is_key = path.starts_with("/ssh-keys");
    const auto op = path == "/instance-types"                  ? Op::offers
                    : is_launch                                ? Op::create
                    : path == "/instance-operations/terminate" ? Op::destroy
                    : path == "/instances"                     ? Op::list
                                                               : Op::read;
    const auto now = clock_.now();
    if (now - last_ < Seconds{1} || (is_launch && now - last_launch_ < Seconds{12})) ++too_early;
    last_ = now;
    if (is_launch) last_launch_ = now;
    if (r.header("authorization") != "Bearer " + kKey)
        return lambda_error(401, "global/invalid-api-key", "No API key was provided.");
    if (is_key) return keys(r);
    const auto it = faults_.find(op);
    const auto fault = it == faults_.end() ? Fault::none : it->second;
    switch (fault) {
        case Fault::wrong_key:
            return lambda_error(401, "global/invalid-api-key", "API key was invalid, expired, or deleted.");
        case Fault::too_often:
            return {.status = 429, .body = "<html>slow down</html>", .content_type = "text/html"};
        case Fault::no_capacity:
            return lambda_error(400, "instance-operations/launch/insufficient-capacity",
                                "Not enough capacity to fulfill launch request.");
        case Fault::html:
            return {
                .status = 200, .body = "<!DOCTYPE html><title>Lambda</title>", .content_type = "text/html"};
        case Fault::odd_shape:
            return {.body = R"({"data":null,"items":[]})"};
        case Fault::later:
            return lambda_error(500, "provider/internal-unavailable",
                                "Provider unavailable, try again in 60 s");
        case Fault::echo:
            return lambda_error(400, "global/invalid-parameters", echoed(r));
        case Fault::none:
        case Fault::answer_lost:
        case Fault::error_after:
        case Fault::truncated:
            break;
    }
    Answer out;
    if (op == Op::offers) {
        out = data(types);
    } else if (op == Op::create) {
        out = launch(r);
    } else if (op == Op::destroy) {
        out = terminate(r);
    } else if (op == Op::list) {
        json rows = json::array();
        for (const auto& [id, instance] : instances_)
            if (is_there(instance)) rows.push_back(shown(instance));
        out = data(rows);
    } else {
        const auto found = instances_.find(path.substr(11));
        if (found == instances_.end() || !is_there(found->second))
            return lambda_error(404, "global/object-does-not-exist", "Specified instance does not exist.");
        if (r.method == "POST") found->second["name"] = json::parse(r.body).at("name");
        out = data(shown(found->second));
    }
    if (fault == Fault::answer_lost) return with(out, Delivery::nothing);
    if (fault == Fault::truncated) return with(out, Delivery::cut_body);
    if (fault == Fault::error_after)
        return {.status = 502, .body = "<html>502 Bad Gateway</html>", .content_type = "text/html"};
    return out;
}

Answer LambdaWorld::launch(const Received& r) {
    const auto body = json::parse(r.body);
    const auto refused = [](const std::string& what) {
        return lambda_error(400, "global/invalid-parameters", what);
    };
    for (const auto& item : body.items())
        if (std::string_view("region_name instance_type_name ssh_key_names name hostname user_data tags")
                .find(item.key()) == std::string_view::npos)
            return refused("unexpected " + item.key());
    const auto type = types.find(body.at("instance_type_name").get<std::string>());
    if (type == types.end())
        return lambda_error(400, "global/object-does-not-exist", "Instance type does not exist.");
    if (body.at("ssh_key_names").size() != 1) return refused("ssh_key_names: exactly one");
    const auto known = std::ranges::any_of(
        ssh_keys, [&](const json& key) { return key.at("name") == body.at("ssh_key_names").at(0); });
    if (!known) return lambda_error(400, "global/object-does-not-exist", "SSH key does not exist.");
    const auto regions = type->at("regions_with_capacity_available");
    if (std::ranges::none_of(regions,
                             [&](const json& place) { return place.at("name") == body.at("region_name"); }))
        return lambda_error(400, "instance-operations/launch/insufficient-capacity", "Not enough capacity.");
    if (!has_form(body.at("hostname"), 1, 63, "-")) return refused("hostname");
    for (const auto& tag : body.at("tags"))
        if (!has_form(tag.at("key"), 2, 55, "-:") || tag.at("value").get<std::string>().size() > 128)
            return refused("tags");
    if (!body.at("user_data").get<std::string>().starts_with("#!/bin/sh\n")) return refused("user_data");
    const auto id = add(body.at("name"), body.at("tags"));
    auto& made = instances_[id];
    made["instance_type"] = type->at("instance_type");
    made["region"]["name"] = body.at("region_name");
    made["ssh_key_names"] = body.at("ssh_key_names");
    return data({{"instance_ids", {id}}});
}

Answer LambdaWorld::terminate(const Received& r) {
    const auto id = json::parse(r.body).at("instance_ids").at(0).get<std::string>();
    const auto found = instances_.find(id);
    if (found == instances_.end() || !is_there(found->second))
        return lambda_error(404, "global/object-does-not-exist", "Specified instance does not exist.");
    if (found->second.contains("ended") || found->second.contains("forced"))
        return lambda_error(unknown_status, "global/unknown", "An unknown error occurred.");
    found->second["ended"] = unix_millis(clock_.now());
    return data({{"terminated_instances", {shown(found->second)}}});
}

Answer LambdaWorld::keys(const Received& r) {
    if (r.method == "GET") return data(ssh_keys);
    if (r.method == "DELETE") {
        const auto id = r.path().substr(std::string("/api/v1/ssh-keys/").size());
        json left = json::array();
        for (const auto& key : ssh_keys)
            if (key.at("id") != id) left.push_back(key);
        if (left.size() == ssh_keys.size())
            return lambda_error(404, "global/object-does-not-exist", "SSH key does not exist.");
        ssh_keys = left;
        return data(json::object());
    }
    auto key = json::parse(r.body);
    for (const auto& known : ssh_keys)
        if (known.at("name") == key.at("name"))
            return lambda_error(400, "global/duplicate", "SSH key name is taken.");
    key["id"] = fmt::format("key{:029d}", next_++);
    ssh_keys.push_back(key);
    return data(key);
}

}  // namespace gf::test
