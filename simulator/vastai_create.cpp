// Renting: PUT /api/v0/asks/{id}/ (page section 4).
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "simulator/vastai_face.hpp"

namespace gf::sim {

namespace {

using nlohmann::json;

HttpResponse bad_args(const std::string& text) {
    return vast_error(400, "invalid_args", "error 400/3467: Invalid args: " + text);
}

HttpResponse ask_gone(std::int64_t ask) {
    auto body = json{
        {"success", false},
        {"error", "invalid_args"},
        {"msg", fmt::format("error 404/3603: no_such_ask Instance type by id {} is not available.", ask)},
        {"ask_id", ask}};
    return json_response(404, body);
}

HttpResponse race_lost(std::int64_t ask) {
    auto body = json{
        {"success", false},
        {"error", "no_such_ask"},
        {"msg", fmt::format("error 410/3907: no_such_ask Instance type {} is no longer available.", ask)},
        {"ask_id", ask}};
    return json_response(410, body);
}

std::string text_of(const json& body, const char* key) {
    const auto it = body.find(key);
    if (it == body.end() || it->is_null()) return {};
    if (!it->is_string()) throw std::runtime_error(fmt::format("{} must be a string", key));
    return it->get<std::string>();
}

/// An object is taken; the docker-flag string of the published specification is accepted and ignored.
Environment env_of(const json& body) {
    Environment env;
    const auto it = body.find("env");
    if (it == body.end() || !it->is_object()) return env;
    std::size_t total = 0;
    for (const auto& [name, value] : it->items()) {
        const auto text = value.is_string() ? value.get<std::string>() : value.dump();
        if (text.size() > 256)
            throw std::runtime_error("env value of " + name + " is longer than 256 characters");
        total += name.size() + text.size();
        env.emplace_back(name, text);
    }
    if (total > 32'768) throw std::runtime_error("env is larger than 32768 characters");
    return env;
}

/// "-p 8000:8000" and "-p 9000:9000/udp" -> "8000/tcp", "9000/udp".
std::vector<std::string> ports_of(const Environment& env, bool ssh) {
    std::vector<std::string> ports;
    if (ssh) ports.emplace_back("22/tcp");
    for (const auto& [name, value] : env) {
        if (!name.starts_with("-p ")) continue;
        const auto colon = name.find(':');
        auto inner = colon == std::string::npos ? name.substr(3) : name.substr(colon + 1);
        if (!inner.contains('/')) inner += "/tcp";
        if (std::ranges::find(ports, inner) == ports.end()) ports.push_back(inner);
    }
    return ports;
}

/// The CLI's space-joined spellings are what reads show.
std::string shown_runtype(const std::string& given) {
    if (given == "ssh_direct" || given == "ssh") return "ssh_direc ssh_proxy";
    if (given == "ssh_proxy") return "ssh_proxy";
    if (given == "jupyter" || given == "jupyter_direct") return "jupyter_direc ssh_direc ssh_proxy";
    if (given == "jupyter_proxy") return "jupyter_proxy ssh_proxy";
    return given;
}

bool known_runtype(const std::string& given) {
    return given == "args" || given.starts_with("ssh") || given.starts_with("jupyter");
}

}  // namespace

HttpResponse VastaiFace::create(const HttpRequest& request, std::int64_t ask_id) {
    const auto body = json::parse(request.body, nullptr, false);
    if (!body.is_object()) return vast_error(400, "invalid_request", "Invalid json body");
    Rental rental;
    rental.provider = Provider::vastai;
    std::optional<std::int64_t> bid;
    std::string target;
    try {
        rental.image = text_of(body, "image");
        if (rental.image.empty() || rental.image.size() > 1024)
            throw std::runtime_error("image must have 1 to 1024 characters");
        rental.name = text_of(body, "label");
        if (rental.name.size() > 256) {
            return vast_error(400, "label_too_long",
                              "Please limit label length to 256 characters at create.");
        }
        rental.onstart = text_of(body, "onstart");
        rental.args = text_of(body, "args_str");
        if (const auto args = body.find("args"); args != body.end() && !args->is_null()) {
            rental.arg_list = args->get<std::vector<std::string>>();
        }
        std::size_t command = rental.onstart.size() + rental.args.size();
        for (const auto& argument : rental.arg_list) command += argument.size();
        if (command > 4096)
            throw std::runtime_error("args, args_str and onstart together are longer than 4096 characters");
        auto runtype = text_of(body, "runtype");
        if (runtype.empty()) runtype = rental.arg_list.empty() && rental.args.empty() ? "ssh" : "args";
        if (!known_runtype(runtype)) throw std::runtime_error("unknown runtype '" + runtype + "'");
        rental.runtype = shown_runtype(runtype);
        rental.env = env_of(body);
        rental.ports = ports_of(rental.env, rental.runtype.contains("ssh"));
        if (rental.ports.size() > 64) throw std::runtime_error("at most 64 ports");
        const auto disk = body.contains("disk") && !body["disk"].is_null() ? micros_of(body["disk"])
                                                                           : std::int64_t{8'000'000};
        if (!disk || *disk < 8'000'000) throw std::runtime_error("disk must be at least 8 GB");
        rental.disk_gb_milli = *disk / 1000;
        if (const auto price = body.find("price"); price != body.end() && !price->is_null()) {
            bid = price->is_number() ? micros_of(*price) : std::nullopt;
            if (!bid || *bid < 1'000 || *bid > 128'000'000) {
                return vast_error(400, "invalid_price", "price must be a number from 0.001 to 128");
            }
        }
        target = text_of(body, "target_state");
        if (!target.empty() && target != "running" && target != "stopped")
            throw std::runtime_error("target_state must be running or stopped");
    } catch (const std::exception& e) {
        return bad_args(e.what());
    }
    const bool running = target != "stopped";
    bool cancel_unavail = !bid && running;
    if (const auto it = body.find("cancel_unavail"); it != body.end() && it->is_boolean())
        cancel_unavail = it->get<bool>();

    const auto ask = world_.market().find_ask(ask_id);
    const auto* host = ask ? world_.market().host(ask->host) : nullptr;
    if (host == nullptr || !host->online) return ask_gone(ask_id);
    if (world_.balance(Provider::vastai).micros <= 0) {
        return vast_error(400, "insufficient_credit", "Your account lacks credit; see the billing page.");
    }
    if (static_cast<double>(rental.disk_gb_milli) / 1000.0 > host->disk_gb)
        return bad_args("disk is larger than the space on the machine");
    if (world_.free_gpus(*host) < ask->gpus) return ask_gone(ask_id);

    rental.host = host->id;
    rental.gpu = host->gpu;
    rental.gpus = ask->gpus;
    rental.is_bid = bid.has_value();
    rental.bid_per_hour = bid.value_or(0);
    rental.gpu_per_hour = bid.value_or(host->price_per_gpu * ask->gpus);
    rental.disk_per_month = rental.disk_gb_milli * host->storage_per_gb / 1000;
    rental.disk_per_month_stopped = rental.disk_per_month;

    if (bid && *bid < least_bid(*host, ask->gpus)) {
        if (!world_.settings().low_bid_leaves_contract) return race_lost(ask_id);
        // The trap of section 4.4: an error, and a stopped instance whose storage is billed all the same.
        auto& left = world_.rent(std::move(rental), false);
        left.halt = Halt::outbid;
        return json_response(400, {{"success", false},
                                   {"error", "invalid_price"},
                                   {"msg",
                                    "error 400/3611: Bid price is below the minimum bid; the instance was "
                                    "created in the stopped state."},
                                   {"ask_id", ask_id},
                                   {"new_contract", left.contract}});
    }
    auto& lost = world_.settings().vastai_lost_races;
    if (lost > 0) {
        --lost;
        world_.market().relist(host->id);
        if (cancel_unavail) return race_lost(ask_id);
        auto& waiting = world_.rent(std::move(rental), false);
        world_.take_back(waiting, std::nullopt, std::nullopt);
        waiting.halt = Halt::none;
        waiting.want_running = true;
        waiting.phase = Phase::queued;
        return json_response(200, {{"success", true},
                                   {"new_contract", waiting.contract},
                                   {"instance_api_key", waiting.container_key}});
    }
    auto& made = world_.rent(std::move(rental), running);
    return json_response(
        200, {{"success", true}, {"new_contract", made.contract}, {"instance_api_key", made.container_key}});
}

}  // namespace gf::sim
