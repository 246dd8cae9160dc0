// Reading and changing instances (page sections 5, 6, 8 and 10).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "simulator/vastai_face.hpp"

namespace gf::sim {

namespace {

using nlohmann::json;

HttpResponse no_instance(const std::string& id) {
    return vast_error(404, "no_such_instance", fmt::format("Instance {} not found.", id));
}

/// Filters work on stored columns only.
bool stored_column(const std::string& name) {
    static const std::vector<std::string> columns{
        "id",         "label",   "actual_status", "intended_status", "cur_state", "gpu_name",
        "machine_id", "host_id", "verification",  "image_uuid",      "is_bid",    "start_date"};
    return std::ranges::find(columns, name) != columns.end();
}

bool row_passes(const json& row, const json& filters) {
    for (const auto& [column, filter] : filters.items()) {
        if (!stored_column(column)) throw std::runtime_error("cannot filter on '" + column + "'");
        if (!filter.is_object()) throw std::runtime_error("filter '" + column + "' must be an object");
        const auto value = row.value(column, json(nullptr));
        for (const auto& [op, operand] : filter.items()) {
            if (op == "eq") {
                if (value != operand) return false;
            } else if (op == "in") {
                if (!operand.is_array() || std::ranges::find(operand, value) == operand.end()) return false;
            } else {
                throw std::runtime_error("operator '" + op + "' is not allowed here");
            }
        }
    }
    return true;
}

json parsed_query(const HttpRequest& request, const char* name, json otherwise) {
    const auto text = request.query_value(name);
    if (!text) return otherwise;
    auto parsed = json::parse(*text, nullptr, false);
    if (parsed.is_discarded()) throw std::runtime_error(std::string{name} + " is not JSON");
    return parsed;
}

int whole(const std::string& text, int otherwise) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size() ? value : otherwise;
}

/// `order_by` is a list of {"col","dir"}; later columns break ties, and then the id.
void sort_instances(std::vector<json>& rows, const json& order) {
    if (!order.is_array()) throw std::runtime_error("order_by must be a list");
    for (const auto& key : order) {
        if (!key.is_object() || !key.contains("col"))
            throw std::runtime_error("order_by wants {\"col\",\"dir\"}");
    }
    std::ranges::sort(rows, [&](const json& a, const json& b) {
        for (const auto& key : order) {
            const auto column = key["col"].get<std::string>();
            const auto x = a.value(column, json(nullptr));
            const auto y = b.value(column, json(nullptr));
            if (x != y) return key.value("dir", "asc") == "desc" ? y < x : x < y;
        }
        return a["id"] < b["id"];
    });
}

}  // namespace

Rental* VastaiFace::live(const std::string& id) {
    auto* rental = world_.find(Provider::vastai, id);
    if (rental == nullptr || !rental->exists()) return nullptr;
    // A new contract may be unreadable for some seconds (quirk 24).
    if (world_.now() - rental->created_at < world_.settings().vastai_read_lag) return nullptr;
    return rental;
}

json VastaiFace::actual_status(const Rental& rental) const {
    if (rental.offline) return "offline";
    if (rental.unheard) return "unknown";
    const bool comes_back = rental.phase == Phase::stopping || rental.phase == Phase::loading || rental.phase == Phase::starting;
    if (comes_back && rental.restart != Restart::none)
        return rental.restart == Restart::recycle ? "recycling" : "rebooting";
    const bool exited = world_.settings().vastai_stop_reads_exited;
    switch (rental.phase) {
        case Phase::accepted:
            return nullptr;
        case Phase::created:
            return "created";
        case Phase::loading:
        case Phase::starting:
            return "loading";
        case Phase::running:
        case Phase::stopping:
            if (rental.never_runs) return "loading";
            return rental.frozen ? "frozen" : "running";
        case Phase::stopped:
            return rental.halt == Halt::asked && exited ? "exited" : "stopped";
        case Phase::queued:
            return exited ? "exited" : "stopped";
        case Phase::exited:
            return "exited";
        case Phase::failed:
        case Phase::destroying:
        case Phase::gone:
            return "exited";
    }
    return nullptr;
}

json VastaiFace::instance_json(Rental& rental) {
    const Host nowhere;
    const auto* found = world_.market().host(rental.host);
    const auto& host = found == nullptr ? nowhere : *found;
    const GpuModel nothing;
    const auto* model = world_.market().model(rental.gpu);
    const auto& gpu = model == nullptr ? nothing : *model;
    const bool up =
        rental.phase == Phase::running && !rental.offline && !rental.unheard && !rental.never_runs;
    const double gpu_hour = dollars_float(rental.gpu_per_hour);
    const double disk_hour = dollars_float(rental.disk_per_month) / static_cast<double>(kHoursPerMonth);
    const double disk_gb = static_cast<double>(rental.disk_gb_milli) / 1000.0;
    const auto now = world_.now();
    auto min_bid = host.floor_per_gpu * rental.gpus;
    // Whoever holds the GPUs now bids more than this one did.
    if (rental.forced_out && rental.is_bid)
        min_bid = std::max(min_bid, rental.bid_per_hour + rental.bid_per_hour / 4);
    json env = json::array();
    for (const auto& [name, value] : rental.env) env.push_back({name, value});
    const bool runs = world_.holds_gpus(rental);
    const auto next = rental.phase == Phase::stopping
                          ? "stopped"
                          : (runs || rental.phase == Phase::queued ? "running" : "stopped");
    json row{{"id", rental.contract},
             {"label", rental.name.empty() ? json(nullptr) : json(rental.name)},
             {"machine_id", rental.host},
             {"host_id", host.host_owner},
             {"bundle_id", 904'000'000 + rental.host},
             {"actual_status", actual_status(rental)},
             {"intended_status", rental.want_running ? "running" : "stopped"},
             {"cur_state", runs ? "running" : "stopped"},
             {"next_state", next},
             {"status_msg", rental.status_msg.empty() ? json(nullptr) : json(rental.status_msg)},
             {"is_bid", rental.is_bid},
             {"min_bid", dollars_float(min_bid)},
             {"dph_base", gpu_hour},
             {"dph_total", gpu_hour + disk_hour},
             {"storage_cost", dollars_float(host.storage_per_gb)},
             {"storage_total_cost", disk_hour},
             {"inet_up_cost", dollars_float(host.inet_up_per_gb)},
             {"inet_down_cost", dollars_float(host.inet_down_per_gb)},
             {"search",
              {{"gpuCostPerHour", gpu_hour}, {"diskHour", disk_hour}, {"totalHour", gpu_hour + disk_hour}}},
             {"instance",
              {{"gpuCostPerHour", runs ? gpu_hour : 0.0},
               {"diskHour", disk_hour},
               {"totalHour", (runs ? gpu_hour : 0.0) + disk_hour}}},
             {"start_date", unix_seconds(rental.created_at)},
             {"end_date", unix_seconds(rental.lease_end)},
             {"duration", static_cast<double>((rental.lease_end - now).count()) / 1000.0},
             {"uptime_mins", nullptr},
             {"gpu_name", gpu.vast_name},
             {"num_gpus", rental.gpus},
             {"gpu_ram", gpu.vast_mb},
             {"gpu_totalram", gpu.vast_mb * rental.gpus},
             {"gpu_util",
              up ? json(static_cast<double>(rental.gpu_fault.utilization.value_or(0))) : json(nullptr)},
             {"gpu_temp", up ? json(41.0) : json(nullptr)},
             {"cpu_util", up ? json(0.05) : json(nullptr)},
             {"cpu_cores", host.cpu_cores ? json(*host.cpu_cores) : json(nullptr)},
             {"cpu_cores_effective",
              host.cpu_cores.value_or(8 * host.gpus) * rental.gpus / static_cast<double>(host.gpus)},
             {"cpu_ram", host.cpu_ram_mb},
             {"mem_usage", up ? json(1.2) : json(nullptr)},
             {"mem_limit", static_cast<double>(host.cpu_ram_mb) / 1000.0 * rental.gpus / host.gpus},
             {"vmem_usage", up ? json(0.0) : json(nullptr)},
             {"disk_space", disk_gb},
             {"disk_usage", up ? json(0.4) : json(-1)},
             {"disk_util", up ? json(0.4 / std::max(disk_gb, 0.4)) : json(-1)},
             {"image_uuid", rental.image},
             {"image_runtype", rental.runtype},
             {"image_args", rental.arg_list},
             {"extra_env", env},
             {"onstart", rental.onstart},
             {"template_hash_id", nullptr},
             // The live API sends this with a newline at its end.
             {"public_ipaddr", (rental.ssh_host.empty() ? host.public_ip : rental.ssh_host) + "\n"},
             {"local_ipaddrs", "10.0.4.9 172.17.0.1 \n"},
             {"ssh_host", rental.ssh_host.empty() ? "ssh5.vast.ai" : rental.ssh_host},
             {"ssh_port", rental.ssh_port > 0 ? rental.ssh_port : 20'000 + rental.contract % 10'000},
             {"ssh_idx", "5"},
             {"direct_port_count", host.direct_ports},
             {"static_ip", host.static_ip},
             {"geolocation", host.geolocation ? json(*host.geolocation) : json(nullptr)},
             {"verification", host.verified ? "verified" : "unverified"},
             {"reliability2", host.reliability},
             {"cuda_max_good", host.cuda},
             {"driver_version", host.driver},
             {"jupyter_token", "tok-" + rental.id}};
    if (up && !rental.public_ports.empty()) {
        json ports = json::object();
        int low = 65'535;
        int high = 0;
        for (const auto& [port, mapped] : rental.public_ports) {
            const int number = port == "22/tcp" && rental.ssh_port > 0 ? rental.ssh_port : mapped;
            ports[port] = {{{"HostIp", "0.0.0.0"}, {"HostPort", std::to_string(number)}}};
            low = std::min(low, number);
            high = std::max(high, number);
        }
        row["ports"] = ports;
        row["direct_port_start"] = low;
        row["direct_port_end"] = high;
    }
    if (!host.instance_overrides.empty()) row.update(json::parse(host.instance_overrides));
    return row;
}

HttpResponse VastaiFace::show(const std::string& id) {
    auto* rental = live(id);
    return json_response(200, {{"instances", rental == nullptr ? json(nullptr) : instance_json(*rental)}});
}

HttpResponse VastaiFace::list(const HttpRequest& request) {
    try {
        int limit = whole(request.query_value("limit").value_or("25"), 25);
        limit = std::min(limit <= 0 ? 5 : std::min(limit, 25), std::max(1, world_.settings().vastai_page_max));
        const auto filters = parsed_query(request, "select_filters", json::object());
        const auto columns = parsed_query(request, "select_cols", json(nullptr));
        const auto order = parsed_query(request, "order_by", json::array({{{"col", "id"}, {"dir", "asc"}}}));
        std::vector<json> rows;
        std::size_t all = 0;
        for (const auto& rental : world_.rentals()) {
            if (rental->provider != Provider::vastai || !rental->exists()) continue;
            if (world_.now() - rental->created_at < world_.settings().vastai_list_lag) continue;
            ++all;
            auto row = instance_json(*rental);
            row["volume_info"] = json::array();
            if (row_passes(row, filters)) rows.push_back(std::move(row));
        }
        json labels = json::object();
        for (const auto& row : rows) {
            const auto label = row["label"].is_string() ? row["label"].get<std::string>() : std::string{};
            labels[label] = labels.value(label, 0) + 1;
        }
        sort_instances(rows, order);
        std::size_t first = 0;
        if (const auto token = request.query_value("after_token"); token && !token->empty()) {
            // The token names the last row sent; a row that has gone meanwhile does not shift the rest.
            const auto last = token->starts_with("aft_") ? whole(token->substr(4), -1) : -1;
            if (last < 0) return vast_error(400, "invalid_args", "Invalid after_token");
            while (first < rows.size() && rows[first]["id"] != last) ++first;
            if (first < rows.size()) {
                ++first;
            } else {
                first = 0;
                while (first < rows.size() && rows[first]["id"] < last) ++first;
            }
        }
        const auto end = std::min(rows.size(), first + static_cast<std::size_t>(limit));
        json page = json::array();
        for (std::size_t i = first; i < end; ++i) {
            if (!columns.is_array()) {
                page.push_back(rows[i]);
                continue;
            }
            json picked = json::object();
            for (const auto& column : columns)
                picked[column.get<std::string>()] = rows[i].value(column.get<std::string>(), json(nullptr));
            page.push_back(picked);
        }
        const json next = end < rows.size() ? json("aft_" + rows[end - 1]["id"].dump()) : json(nullptr);
        return json_response(200, {{"success", true},
                                   {"instances_found", rows.size()},
                                   {"total_instances", all},
                                   {"label_counts", labels},
                                   {"next_token", next},
                                   {"instances", page}});
    } catch (const std::exception& e) {
        return vast_error(400, "invalid_args", fmt::format("error 400/3467: Invalid args: {}", e.what()));
    }
}

HttpResponse VastaiFace::change(Rental& rental, const json& body) {
    if (rental.phase == Phase::destroying) return no_instance(rental.id);
    if (const auto label = body.find("label"); label != body.end()) {
        const auto text = label->is_string() ? label->get<std::string>() : std::string{};
        if (text.size() > 1024) {
            return vast_error(400, "label_too_long",
                              "Please limit label length to 1024 characters, ideally less than 128.");
        }
        rental.name = text;
        return json_response(
            200, {{"success", true}, {"msg", fmt::format("label for {} set to '{}'", rental.id, text)}});
    }
    const auto state = body.value("state", std::string{});
    if (state == "stopped") {
        world_.stop(rental, Halt::asked, world_.settings().vastai_stop);
        return json_response(200, {{"success", true}});
    }
    if (state != "running")
        return vast_error(400, "invalid_args",
                          "error 400/3467: Invalid args: state must be running or stopped");
    if (world_.balance(Provider::vastai).micros <= 0) {
        return vast_error(400, "insufficient_credit", "Your account lacks credit; see the billing page.");
    }
    if (rental.phase != Phase::stopped && rental.phase != Phase::exited && rental.phase != Phase::queued) {
        return json_response(200, {{"success", true}});
    }
    switch (world_.start(rental)) {
        case StartOutcome::started:
            return json_response(200, {{"success", true}});
        case StartOutcome::queued:
        case StartOutcome::host_full:
            return json_response(
                200, {{"success", false},
                      {"msg", "Required resources are currently unavailable, state change queued."}});
        case StartOutcome::lease_over:
            return vast_error(400, "invalid_args",
                              "error 400/3467: Invalid args: the contract of this instance has ended");
    }
    return json_response(200, {{"success", true}});
}

HttpResponse VastaiFace::destroy(const std::string& id) {
    auto* rental = world_.find(Provider::vastai, id);
    if (rental == nullptr || !rental->exists() || rental->phase == Phase::destroying) {
        if (world_.settings().vastai_destroyed_not_found)
            return vast_error(404, "not_found", "Instance not found");
        return vast_error(404, "no_such_instance", "Instance with that ID does not exist.");
    }
    world_.destroy(*rental, world_.settings().vastai_destroy);
    return json_response(200, {{"success", true}, {"msg", fmt::format("Instance {} destroyed.", id)}});
}

HttpResponse VastaiFace::set_bid(const HttpRequest& request, const std::string& id) {
    const auto body = json::parse(request.body, nullptr, false);
    auto* rental = live(id);
    if (rental == nullptr) return no_instance(id);
    const auto price = body.is_object() && body.contains("price") && body["price"].is_number()
                           ? micros_of(body["price"])
                           : std::nullopt;
    if (!price || *price < 1'000) return vast_error(400, "invalid_args", "Please set a bid price >= 0.001.");
    if (*price > 32'000'000LL * rental->gpus)
        return vast_error(400, "invalid_price", "bid price is too high");
    if (!rental->is_bid)
        return vast_error(400, "invalid_args", "error 400/3467: Invalid args: not an interruptible instance");
    world_.set_bid(*rental, *price);
    return json_response(200, {{"success", true}});
}

HttpResponse VastaiFace::restart(const std::string& id, bool wipe) {
    auto* rental = live(id);
    if (rental == nullptr || rental->phase == Phase::destroying) return no_instance(id);
    if (rental->phase != Phase::running && rental->phase != Phase::exited) {
        return vast_error(400, "invalid_args", "error 400/3467: Invalid args: the instance is not running");
    }
    world_.restart(*rental, wipe, world_.settings().vastai_stop);
    return json_response(200, {{"success", true}});
}

HttpResponse VastaiFace::bulk(const HttpRequest& request) {
    const auto body = json::parse(request.body, nullptr, false);
    const bool destroys = request.method == "DELETE";
    const char* key = destroys ? "instance_ids" : "ids";
    if (!body.is_object() || !body.contains(key) || !body[key].is_array())
        return vast_error(400, "invalid_request", "Invalid json body");
    json failed = json::array();
    for (const auto& id : body[key]) {
        const auto text = id.dump();
        if (destroys) {
            if (destroy(text).status != 200) failed.push_back(id);
            continue;
        }
        auto* rental = live(text);
        if (rental == nullptr || change(*rental, {{"state", body.value("state", "")}}).status != 200)
            failed.push_back(id);
    }
    return json_response(200, {{"success", failed.empty()}, {"failed", failed}});
}

HttpResponse VastaiFace::request_logs(const HttpRequest& request, const std::string& id) {
    if (live(id) == nullptr) return no_instance(id);
    const auto body = json::parse(request.body, nullptr, false);
    const auto tail = body.is_object() && body.contains("tail") && body["tail"].is_string()
                          ? body["tail"].get<std::string>()
                          : "1000";
    const auto token = world_.random_text(24, "0123456789abcdef");
    // The file is there about ten seconds later, 404 until then, and asks for no key.
    log_requests_[token] = {.rental = id,
                            .tail = static_cast<std::size_t>(std::clamp(whole(tail, 1000), 0, 100'000)),
                            .ready = world_.now() + Millis{2'000}};
    const auto host = request.header("host");
    return json_response(
        200, {{"success", true}, {"result_url", fmt::format("http://{}/_result/{}", host, token)}});
}

HttpResponse VastaiFace::result_file(const std::string& token) {
    const auto it = log_requests_.find(token);
    HttpResponse response;
    response.type = "text/plain";
    if (it == log_requests_.end() || world_.now() < it->second.ready) {
        response.status = 404;
        response.body = "<Error><Code>NoSuchKey</Code></Error>";
        return response;
    }
    const auto text = world_.machines().output(it->second.rental, 4U << 20U);
    std::size_t lines = 0;
    std::size_t at = text.size();
    while (at > 0 && (text[at - 1] != '\n' || at == text.size() || ++lines < it->second.tail)) --at;
    response.body = text.substr(at);
    return response;
}

HttpResponse VastaiFace::instance_ssh(const HttpRequest& request, const Path& path) {
    auto* rental = live(path[2]);
    if (rental == nullptr) return no_instance(path[2]);
    auto& keys = rental->ssh_keys;
    if (path.size() == 4 && request.method == "POST") {
        const auto body = json::parse(request.body, nullptr, false);
        const auto key = body.is_object() ? body.value("ssh_key", std::string{}) : std::string{};
        if (key.empty()) return vast_error(400, "no_ssh_key", "No ssh key given.");
        keys.emplace_back(next_key_++, key);
        return json_response(200, {{"success", true}, {"msg", "SSH key attached successfully"}});
    }
    if (path.size() == 4 && request.method == "GET") {
        json rows = json::array();
        for (const auto& [id, key] : keys) rows.push_back({{"id", id}, {"public_key", key}});
        // A JSON text inside JSON, as the live API sends it.
        return json_response(200, {{"success", true}, {"ssh_keys", rows.dump()}});
    }
    if (path.size() == 5 && request.method == "DELETE") {
        const auto gone =
            std::erase_if(keys, [&](const auto& entry) { return std::to_string(entry.first) == path[4]; });
        if (gone == 0) return vast_error(404, "no_such_key", "No such key.");
        return json_response(200, {{"success", true}});
    }
    return vast_error(405, "invalid_request", "Method not allowed");
}

}  // namespace gf::sim
