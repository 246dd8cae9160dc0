#include "runpod_world.hpp"

#include <fmt/format.h>

namespace gf::test {
namespace {

using nlohmann::json;

std::string echoed(const Received& r) {
    std::string text =
        "rejected: " + r.method + " https://api.runpod.io" + r.target + "?api_key=" + kKey + " ";
    for (const auto& h : r.headers) text += h.name + ": " + h.value + " ";
    return text + r.body;
}

Answer with(Answer answer, Delivery delivery) {
    answer.delivery = delivery;
    return answer;
}

}  // namespace

json runpod_gpu(const std::string& id, double secure_price) {
    return {{"id", id},
            {"name", id},
            {"memory", 24},
            {"secure", true},
            {"community", true},
            {"price", {{"secure", secure_price}, {"community", secure_price / 2}}},
            {"maxCount", {{"secure", 8}, {"community", 4}}},
            {"availability", "MEDIUM"},
            {"dataCenters", {{{"id", "EU-RO-1"}, {"availability", "MEDIUM"}}}},
            {"cudaVersions",
             {{{"version", "12.8"}, {"available", true}}, {{"version", "13.0"}, {"available", false}}}}};
}

Answer problem(int status, const std::string& detail, std::vector<HttpHeader> headers) {
    return {.status = status,
            .body = json{{"title", "Trouble"}, {"status", status}, {"detail", detail}}.dump(),
            .content_type = "application/problem+json",
            .headers = std::move(headers)};
}

void RunpodWorld::add(const std::string& name, const json& env) {
    const auto id = fmt::format("pod{:011d}", next_++);
    pods_[id] = {{"id", id},
                 {"name", name},
                 {"env", env},
                 {"gpu", {{"id", "NVIDIA GeForce RTX 4090"}, {"count", 1}}},
                 {"cost", 0.69},
                 {"disk", 20},
                 {"createdAt", "2026-11-30T09:12:44Z"},
                 {"made", unix_millis(clock_.now())}};
}

json RunpodWorld::shown(const json& pod) const {
    auto out = pod;
    const auto age = unix_millis(clock_.now()) - out["made"].get<std::int64_t>();
    out.erase("made");
    const bool up = age > 10'000;
    // The observed profile: RUNNING from the first read, `runtime` only when the container is up.
    out["status"] = "RUNNING";
    out["runtime"] = up ? json{{"uptime", age / 1000 - 10}} : json(nullptr);
    return out;
}

Answer RunpodWorld::answer(const Received& r) {
    const auto path = r.path();
    const bool one = path.starts_with("/v2/pods/");
    const auto op = path.starts_with("/v2/catalog") ? Op::offers
                    : one && r.method == "DELETE"   ? Op::destroy
                    : one                           ? Op::read
                    : r.method == "POST"            ? Op::create
                                                    : Op::list;
    const auto it = faults_.find(op);
    const auto fault = it == faults_.end() ? Fault::none : it->second;
    if (r.header("authorization") != "Bearer " + kKey) return problem(401, "missing bearer token");
    if (path.starts_with("/v2/billing")) return {.body = json{{"records", billing}, {"metadata", {{"recordCount", billing.size()}}}}.dump()};
    if (path.starts_with("/v2/registries") && fault == Fault::none) return registry(r);
    if (path == "/graphql") return graphql(r);
    switch (fault) {
        case Fault::wrong_key:
            return problem(401, "invalid key");
        case Fault::too_often:
            return problem(429, "rate limit exceeded for the minute window", {{"Retry-After", "12"}});
        case Fault::no_capacity:
            return problem(400,
                           "There are no longer any instances available with the requested specifications. "
                           "Please refresh and try again.");
        case Fault::html:
            return {.status = 200,
                    .body = "<!DOCTYPE html><title>Maintenance</title>",
                    .content_type = "text/html"};
        case Fault::odd_shape:
            return {.body = R"({"data":null,"result":[]})"};
        case Fault::later:
            return problem(500, "upstream is busy, try again in 60 s");
        case Fault::echo:
            return problem(400, echoed(r));
        case Fault::none:
        case Fault::answer_lost:
        case Fault::error_after:
        case Fault::truncated:
            break;
    }
    Answer out;
    if (op == Op::offers) {
        out = {.body = json{{"gpus", gpus}}.dump()};
    } else if (op == Op::create) {
        out = create(r);
    } else if (op == Op::list) {
        out = list(r);
    } else {
        const auto found = pods_.find(path.substr(9));
        if (found == pods_.end()) return problem(404, "pod not found");
        if (op == Op::destroy) {
            pods_.erase(found);
            out = {.status = 204};
        } else if (r.method == "PATCH") {
            found->second.update(json::parse(r.body));
            out = {.body = shown(found->second).dump()};
        } else {
            out = {.body = shown(found->second).dump()};
        }
    }
    if (fault == Fault::answer_lost) return with(out, Delivery::nothing);
    if (fault == Fault::truncated) return with(out, Delivery::cut_body);
    if (fault == Fault::error_after)
        return {.status = 502, .body = "<html>502 Bad Gateway</html>", .content_type = "text/html"};
    return out;
}

Answer RunpodWorld::registry(const Received& r) {
    if (r.method == "GET") return {.body = json{{"registries", registries}}.dump()};
    if (r.method == "POST") {
        registries.push_back({{"id", fmt::format("reg{}", next_++)}, {"name", json::parse(r.body)["name"]}});
        return {.status = 201, .body = registries.back().dump()};
    }
    const auto id = r.path().substr(15);
    for (std::size_t i = 0; i < registries.size(); ++i)
        if (registries[i]["id"] == id) {
            if (registries_in_use.contains(id)) return problem(400, "the registry is used by a pod");
            registries.erase(i);
            return {.status = 204};
        }
    return problem(404, "resource not found");
}

Answer RunpodWorld::graphql(const Received& r) const {
    const auto query = json::parse(r.body)["query"].get<std::string>();
    if (query.find("myself") != std::string::npos)
        return {.body = R"({"data":{"myself":{"clientBalance":41.87,"currentSpendPerHr":0.69,"spendLimit":80,"underBalance":false}}})"};
    return {.status = 400, .body = R"({"errors":[{"message":"Cannot query that","extensions":{"code":"GRAPHQL_VALIDATION_FAILED"}}]})"};
}

Answer RunpodWorld::create(const Received& r) {
    const auto body = json::parse(r.body);
    for (const auto& item : body.items())
        if (std::string_view("name image gpu cloud disk env args registry ports startSsh").find(item.key()) ==
            std::string_view::npos)
            return problem(
                422, "Request validation failed.; $: additional properties '" + item.key() + "' not allowed");
    // The documented body: anything missing would have been refused.
    for (const auto* key : {"name", "image", "gpu", "cloud", "disk", "env", "args"})
        if (!body.contains(key)) return problem(422, std::string("$: missing property '") + key + "'");
    const auto args = json::parse(body["args"].get<std::string>());
    if (args["entrypoint"] != json{"/bin/sh", "-c"} || args["cmd"].size() != 1) return problem(422, "args");
    add(body["name"], body["env"]);
    auto& pod = pods_.rbegin()->second;
    pod["gpu"] = body["gpu"];
    pod["disk"] = body["disk"];
    pod["image"] = body["image"];
    pod["args"] = body["args"];
    pod["cloud"] = body["cloud"];
    auto shown_pod = shown(pod);
    shown_pod["status"] = "PROVISIONING";
    shown_pod["runtime"] = json::object();
    return {.status = 201, .body = shown_pod.dump()};
}

Answer RunpodWorld::list(const Received& r) const {
    json rows = json::array();
    for (const auto& [id, pod] : pods_) rows.push_back(shown(pod));
    if (page == 0) return {.body = json{{"pods", rows}}.dump()};
    const auto at = r.target.find("cursor=");
    const std::size_t from = at == std::string::npos ? 0 : std::stoul(r.target.substr(at + 7));
    json part = json::array();
    for (std::size_t i = from; i < std::min(from + page, rows.size()); ++i) part.push_back(rows[i]);
    const bool more = from + page < rows.size();
    return {.body = json{{"pods", part},
                         {"pagination",
                          {{"hasNextPage", more},
                           {"nextCursor", more ? json(std::to_string(from + page)) : json(nullptr)}}}}
                        .dump()};
}

}  // namespace gf::test
