#include "vastai_world.hpp"

#include <fmt/format.h>

namespace gf::test {
namespace {

using nlohmann::json;

std::string echoed(const Received& r) {
    std::string text =
        "Invalid args: " + r.method + " https://console.vast.ai" + r.target + "&api_key=" + kKey + " ";
    for (const auto& h : r.headers) text += h.name + ": " + h.value + " ";
    return text + r.body;
}

Answer with(Answer answer, Delivery delivery) {
    answer.delivery = delivery;
    return answer;
}

}  // namespace

json vast_ask(std::int64_t id, const std::string& gpu, double dph_base) {
    return {{"id", id},
            {"ask_contract_id", id},
            {"machine_id", 31'000 + id % 1000},
            {"gpu_name", gpu},
            {"num_gpus", 1},
            {"gpu_ram", 24564},
            {"gpu_arch", "nvidia"},
            {"cpu_arch", "amd64"},
            {"cpu_cores", 128},
            {"cpu_cores_effective", 16.0},
            {"cpu_ram", 515820},
            {"disk_space", 843.1},
            {"inet_up", 712.3},
            {"inet_down", 874.9},
            {"inet_up_cost", 0.0044},
            {"inet_down_cost", 0.0018},
            {"geolocation", "Oregon, US"},
            {"reliability2", 0.9964},
            {"verification", "verified"},
            {"rentable", true},
            {"rented", false},
            {"external", false},
            {"is_bid", false},
            {"min_bid", 0.2133},
            {"dph_base", dph_base},
            {"storage_cost", 0.15},
            {"duration", 7776000.0},
            {"cuda_max_good", 13.0},
            {"driver_version", "580.95.05"}};
}

Answer vast_error(int status, const std::string& code, const std::string& msg) {
    return {.status = status, .body = json{{"success", false}, {"error", code}, {"msg", msg}}.dump()};
}

std::int64_t VastWorld::add(const std::string& label, const json& env) {
    const auto id = next_++;
    json pairs = json::array();
    for (const auto& item : env.items()) pairs.push_back({item.key(), item.value()});
    instances_[id] = {{"id", id},
                      {"label", label},
                      {"extra_env", pairs},
                      {"is_bid", false},
                      {"gpu_name", "RTX 4090"},
                      {"num_gpus", 1},
                      {"gpu_ram", 24564},
                      {"dph_base", 0.37},
                      {"dph_total", 0.3742},
                      {"storage_cost", 0.15},
                      {"storage_total_cost", 0.0042},
                      {"disk_space", 20.0},
                      {"machine_id", 31877},
                      {"geolocation", "Oregon, US"},
                      {"made", unix_millis(clock_.now())}};
    return id;
}

json VastWorld::shown(const json& instance) const {
    auto out = instance;
    const auto age = unix_millis(clock_.now()) - out["made"].get<std::int64_t>();
    out.erase("made");
    out["actual_status"] = age < 4'000 ? json(nullptr) : age < 10'000 ? json("loading") : json("running");
    out["intended_status"] = "running";
    out["cur_state"] = "running";
    out["next_state"] = "running";
    return out;
}

bool VastWorld::early(const std::string& endpoint, Millis interval) {
    const auto now = clock_.now();
    const auto it = last_.find(endpoint);
    const bool bad = it != last_.end() && now - it->second < interval;
    if (bad) ++too_early;
    last_[endpoint] = now;
    return bad;
}

Answer VastWorld::answer(const Received& r) {
    const auto path = r.path();
    const bool one = path.starts_with("/api/v0/instances/");
    const bool account = path == "/api/v0/users/current/";
    if (path == "/api/v0/charges/" || path == "/api/v0/instances/pending-price-increases/" || (one && r.method == "PUT"))
        return beside(r);
    const auto op = path == "/api/v0/bundles/"          ? Op::offers
                    : path.starts_with("/api/v0/asks/") ? Op::create
                    : one && r.method == "DELETE"       ? Op::destroy
                    : one || account                    ? Op::read
                                                        : Op::list;
    const auto it = faults_.find(op);
    const auto fault = it == faults_.end() ? Fault::none : it->second;
    const Millis interval = account             ? Millis{0}
                            : op == Op::offers  ? Millis{6'000}
                            : op == Op::create  ? Millis{4'500}
                            : op == Op::destroy ? Millis{3'000}
                            : op == Op::read    ? Millis{2'000}
                                                : Millis{1'000};
    if (early(fmt::format("{}{}", static_cast<int>(op), account), interval))
        return {.status = 429, .body = "API requests too frequent", .content_type = "text/plain"};
    // Searching works without a key, so it does not notice a wrong one either.
    if (op != Op::offers && r.header("authorization") != "Bearer " + kKey)
        return vast_error(404, "auth_error", "Invalid user key");
    switch (fault) {
        case Fault::wrong_key:
            return vast_error(404, "auth_error", "Invalid user key");
        case Fault::too_often:
            return {.status = 429,
                    .body = "API requests too frequent: endpoint threshold=4.5",
                    .content_type = "text/plain"};
        case Fault::no_capacity:
            return vast_error(404, "invalid_args",
                              "error 404/3603: no_such_ask Instance type by id 18442711 is not available.");
        case Fault::html:
            return {.status = 200, .body = "<!DOCTYPE html><title>Vast</title>", .content_type = "text/html"};
        case Fault::odd_shape:
            return op == Op::list ? Answer{.body = R"({"success":true,"instances":null})"}
                                  : Answer{.body = R"({"success":true,"rows":[]})"};
        case Fault::later:
            return {.status = 500, .body = R"({"success":false,"msg":"server busy, try again in 60 s"})"};
        case Fault::echo:
            return vast_error(400, "invalid_args", echoed(r));
        case Fault::none:
        case Fault::answer_lost:
        case Fault::error_after:
        case Fault::truncated:
            break;
    }
    Answer out;
    if (account) {
        out = {.body = R"({"id":481516,"credit":37.42,"balance":0.0})"};
    } else if (op == Op::offers) {
        out = search(r);
    } else if (op == Op::create) {
        out = create(r);
    } else if (op == Op::list) {
        out = list(r);
    } else {
        auto id = path.substr(18);
        if (id.ends_with('/')) id.pop_back();
        const auto found = instances_.find(std::stoll(id));
        if (op == Op::destroy) {
            if (found == instances_.end())
                return vast_error(404, "no_such_instance", "Instance " + id + " not found.");
            instances_.erase(found);
            out = {.body = R"({"success":true,"msg":"destroyed"})"};
        } else {
            out = {.body =
                       json{{"instances", found == instances_.end() ? json(nullptr) : shown(found->second)}}
                           .dump()};
        }
    }
    if (fault == Fault::answer_lost) return with(out, Delivery::nothing);
    if (fault == Fault::truncated) return with(out, Delivery::cut_body);
    if (fault == Fault::error_after)
        return {.status = 502, .body = "Bad Gateway", .content_type = "text/plain"};
    return out;
}

Answer VastWorld::beside(const Received& r) {
    const auto path = r.path();
    const bool bid = path.starts_with("/api/v0/instances/bid_price/");
    if (early(r.method + path.substr(0, 18) + (bid ? "bid" : ""), bid ? Millis{5'500} : Millis{1'000}))
        return {.status = 429, .body = "API requests too frequent", .content_type = "text/plain"};
    if (r.header("authorization") != "Bearer " + kKey) return vast_error(404, "auth_error", "Invalid user key");
    if (path == "/api/v0/charges/") {
        const auto at = r.target.find("after_token=");
        const std::size_t from = at == std::string::npos ? 0 : std::stoul(r.target.substr(at + 12));
        json rows = json::array();
        for (std::size_t i = from; i < std::min(from + charges_page, charges.size()); ++i) rows.push_back(charges[i]);
        const bool more = from + charges_page < charges.size();
        return {.body = json{{"success", true}, {"total", charges.size()}, {"count", rows.size()}, {"results", rows},
                             {"next_token", more ? json(std::to_string(from + charges_page)) : json(nullptr)}}
                            .dump()};
    }
    if (path.ends_with("pending-price-increases/"))
        return {.body = json{{"success", true}, {"pending_price_increases", price_increases}}.dump()};
    auto id = path.substr(bid ? 28 : 18);
    if (id.ends_with('/')) id.pop_back();
    const auto found = instances_.find(std::stoll(id));
    if (found == instances_.end()) return vast_error(404, "no_such_instance", "Instance " + id + " not found.");
    const auto body = json::parse(r.body);
    if (!bid) {
        found->second["label"] = body.at("label");
    } else {
        if (body.at("client_id") != "me" || body.at("price").get<double>() < 0.001)
            return vast_error(400, "invalid_args", "Please set a bid price >= 0.001.");
        found->second["dph_base"] = body.at("price");
    }
    return {.body = R"({"success":true})"};
}

Answer VastWorld::search(const Received& r) const {
    const auto q = json::parse(r.body);
    const bool bid = q["type"] == "bid";
    const double disk = q["allocated_storage"].get<double>();
    json rows = json::array();
    for (auto ask : asks) {
        if (ask["num_gpus"] != q["num_gpus"]["eq"]) continue;
        if (q.contains("gpu_name")) {
            const auto& filter = q["gpu_name"];
            const auto holds = [&](const json& list) {
                return std::find(list.begin(), list.end(), ask["gpu_name"]) != list.end();
            };
            if (filter.contains("in") && !holds(filter["in"])) continue;
            if (filter.contains("notin") && holds(filter["notin"])) continue;
        }
        ask["is_bid"] = bid;
        if (!ask.contains("dph_total") && ask["dph_base"].is_number())
            ask["dph_total"] = (bid ? ask["min_bid"].get<double>() : ask["dph_base"].get<double>()) +
                               ask["storage_cost"].get<double>() * disk / 720;
        if (rows.size() < 64) rows.push_back(ask);
    }
    return {.body = json{{"offers", rows}}.dump()};
}

Answer VastWorld::create(const Received& r) {
    const auto body = json::parse(r.body);
    if (!body["env"].is_object() || body["runtype"] != "args" || body["onstart"] != "/bin/sh" ||
        body["args"].size() != 2 || body["args"][0] != "-c" || body["cancel_unavail"] != true ||
        body["disk"].get<double>() < 8)
        return vast_error(400, "invalid_args", "error 400/3467: Invalid args: body");
    const auto id = add(body["label"], body["env"]);
    auto& made = instances_[id];
    made["is_bid"] = body.contains("price");
    if (body.contains("price")) made["dph_base"] = body["price"];
    made["disk_space"] = body["disk"];
    return {.body =
                json{{"success", true}, {"new_contract", id}, {"instance_api_key", "b1f0example"}}.dump()};
}

Answer VastWorld::list(const Received& r) const {
    const auto at = r.target.find("after_token=");
    const std::int64_t after = at == std::string::npos ? 0 : std::stoll(r.target.substr(at + 12));
    json rows = json::array();
    json token = nullptr;
    for (const auto& [id, instance] : instances_) {
        if (id <= after) continue;
        if (rows.size() == 25) {
            token = std::to_string(rows.back()["id"].get<std::int64_t>());
            break;
        }
        rows.push_back(shown(instance));
    }
    return {.body = json{
                {"success", true},
                {"instances_found", rows.size()},
                {"total_instances", instances_.size()},
                {"next_token", token},
                {"instances",
                 rows}}.dump()};
}

}  // namespace gf::test
