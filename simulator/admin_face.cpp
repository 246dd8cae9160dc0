#include "simulator/admin_face.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

namespace gf::sim {

namespace {

using nlohmann::json;

Provider provider_of(const json& body) {
    const auto name = body.value("provider", std::string{});
    const auto provider = parse_provider(name);
    if (!provider) throw AdminError{422, "provider must be \"runpod\", \"vastai\", \"lambda\" or \"vultr\""};
    return *provider;
}

std::string id_of(const json& body) {
    const auto it = body.find("id");
    if (it == body.end()) throw AdminError{422, "id is missing"};
    return it->is_string() ? it->get<std::string>() : it->dump();
}

std::optional<Millis> seconds_of(const json& body, const char* key) {
    const auto it = body.find(key);
    if (it == body.end() || it->is_null()) return std::nullopt;
    if (!it->is_number() || it->get<double>() < 0)
        throw AdminError{422, fmt::format("{} must be seconds, 0 or more", key)};
    return Millis{static_cast<std::int64_t>(it->get<double>() * 1000.0)};
}

json money_lines(Usd gpu, Usd disk, Usd down, Usd up) {
    return {{"gpu_micros", gpu.micros},
            {"disk_micros", disk.micros},
            {"traffic_down_micros", down.micros},
            {"traffic_up_micros", up.micros},
            {"total_micros", gpu.micros + disk.micros + down.micros + up.micros}};
}

}  // namespace

std::int64_t admin_money(const json& body, const char* key) {
    const auto it = body.find(key);
    const auto micros = it == body.end() ? std::nullopt : micros_of(*it);
    if (!micros) throw AdminError{422, fmt::format("{} must be an amount in dollars", key)};
    return *micros;
}

HttpResponse AdminFace::handle(const HttpRequest& request) {
    const auto& segments = request.segments;
    if (segments.size() < 2 || segments[0] != "_sim")
        return json_response(404, {{"detail", "see /_sim/state"}});
    const auto& what = segments[1];
    try {
        if (request.method == "GET") {
            if (what == "state") return json_response(200, state());
            if (what == "bill") return json_response(200, bill());
            if (what == "market") return json_response(200, to_json(world_.market()));
            if (what == "settings") return json_response(200, to_json(world_.settings()));
            if (what == "faults") return json_response(200, {{"rules", faults_.list()}, {"events", script_.list()}});
            if (what == "log") return logged(request);
            if (what == "time")
                return json_response(200, {{"now", rfc3339(world_.now())},
                                           {"unix_ms", unix_millis(world_.now())},
                                           {"scale", world_.clock().scale()}});
            if (what == "output") {
                const json body{{"provider", request.query_value("provider").value_or("")},
                                {"id", request.query_value("id").value_or("")}};
                return {.status = 200,
                        .type = "text/plain",
                        .body = world_.machines().output(rental(body).id, 4U << 20U),
                        .headers = {},
                        .cut = false};
            }
        }
        if (request.method == "DELETE") {
            if (what == "faults") {
                if (segments.size() > 2 && !segments[2].empty()) {
                    if (!faults_.remove(std::atoi(segments[2].c_str())))
                        throw AdminError{404, "no such rule"};
                } else {
                    faults_.clear();
                    script_.clear();
                }
                return json_response(200, {{"ok", true}});
            }
            if (what == "log") {
                log_.clear();
                return json_response(200, {{"ok", true}});
            }
        }
        if (request.method == "POST") {
            const auto body =
                request.body.empty() ? json::object() : json::parse(request.body, nullptr, false);
            if (!body.is_object() && !(what == "faults" && body.is_array()))
                throw AdminError{400, "the body must be a JSON object"};
            return json_response(200, post(what, body));
        }
        throw AdminError{404, "no such call: " + request.method + " " + request.path};
    } catch (const AdminError& e) {
        return json_response(e.status, {{"detail", e.detail}});
    } catch (const json::exception& e) {
        return json_response(422, {{"detail", e.what()}});
    }
}

Rental& AdminFace::rental(const json& body) {
    const auto provider = provider_of(body);
    const auto id = id_of(body);
    auto* found = world_.find(provider, id);
    // A script does not know ids: it names one of those that are there.
    if (found == nullptr && (id == "newest" || id == "oldest" || id == "random")) {
        std::vector<Rental*> there;
        for (const auto& each : world_.rentals()) {
            if (each->provider == provider && each->exists()) there.push_back(each.get());
        }
        if (there.empty()) throw AdminError{404, "no machine is there"};
        if (id == "random") {
            found = there[world_.entropy().below(there.size())];
        } else {
            found = id == "newest" ? there.back() : there.front();
        }
    }
    if (found == nullptr) throw AdminError{404, "no such machine"};
    return *found;
}

json AdminFace::bill_of(Rental& rental) {
    world_.accrue(rental);
    const auto& bill = rental.bill;
    auto lines = money_lines(bill.gpu(), bill.disk(), bill.traffic_down(), bill.traffic_up());
    json spans = json::array();
    for (const auto& span : bill.spans()) {
        spans.push_back({{"from", rfc3339(span.from)},
                         {"to", rfc3339(span.to)},
                         {"gpu_micros_per_hour", span.rates.gpu_micros_per_hour},
                         {"disk_micros_per_month", span.rates.disk_micros_per_month}});
    }
    lines["spans"] = spans;
    return lines;
}

json AdminFace::bill() {
    json machines = json::array();
    std::map<Provider, std::array<Usd, 4>> sums;
    for (const auto& each : world_.rentals()) {
        auto row = bill_of(*each);
        row["provider"] = text(each->provider);
        row["id"] = each->id;
        row["tag"] = each->name;
        row["open"] = each->exists();
        machines.push_back(row);
        auto& sum = sums[each->provider];
        sum[0] += each->bill.gpu();
        sum[1] += each->bill.disk();
        sum[2] += each->bill.traffic_down();
        sum[3] += each->bill.traffic_up();
    }
    json totals = json::object();
    std::int64_t all = 0;
    for (const auto provider : kProviders) {
        const auto& sum = sums[provider];
        auto lines = money_lines(sum[0], sum[1], sum[2], sum[3]);
        all += lines["total_micros"].get<std::int64_t>();
        // Lambda sends an invoice and knows no balance.
        if (provider != Provider::lambda) lines["balance_micros"] = world_.balance(provider).micros;
        lines["burn_micros_per_hour"] = world_.burn_per_hour(provider);
        totals[std::string{text(provider)}] = lines;
    }
    return {{"machines", machines}, {"totals", totals}, {"total_micros", all}};
}

json AdminFace::state() {
    json machines = json::array();
    int open = 0;
    for (const auto& each : world_.rentals()) {
        auto& r = *each;
        if (r.exists()) ++open;
        json env = json::object();
        for (const auto& [name, value] : r.env) env[name] = value;
        const auto* model = world_.market().model(r.gpu);
        machines.push_back({{"provider", text(r.provider)},
                            {"id", r.id},
                            {"tag", r.name},
                            {"phase", text(r.phase)},
                            {"halt", text(r.halt)},
                            {"exists", r.exists()},
                            {"wants_running", r.want_running},
                            {"host", r.host},
                            {"gpu", r.gpu},
                            {"card_name", model == nullptr ? "" : model->card_name},
                            {"gpus", r.gpus},
                            {"bid", r.is_bid},
                            {"bid_micros_per_hour", r.bid_per_hour},
                            {"gpu_micros_per_hour", r.gpu_per_hour},
                            {"image", r.image},
                            {"runtype", r.runtype},
                            {"args", r.args},
                            {"arg_list", r.arg_list},
                            {"onstart", r.onstart},
                            {"env", env},
                            {"ports", r.ports},
                            {"disk_gb", static_cast<double>(r.disk_gb_milli) / 1000.0},
                            {"type", r.vm.type},
                            {"region", r.vm.region},
                            {"user_data", r.vm.user_data},
                            {"hostname", r.vm.hostname},
                            {"pid", r.pid},
                            {"alive", r.alive},
                            {"starts", r.starts},
                            {"exit_code", r.exit_code ? json(*r.exit_code) : json(nullptr)},
                            {"exit_signal", r.exit_signal},
                            {"offline", r.offline},
                            {"status_msg", r.status_msg},
                            {"created_at", rfc3339(r.created_at)},
                            {"started_at", r.started_at ? json(rfc3339(*r.started_at)) : json(nullptr)},
                            {"halted_at", r.halted_at ? json(rfc3339(*r.halted_at)) : json(nullptr)},
                            {"bill_micros", (world_.accrue(r), r.bill.total().micros)}});
    }
    return {{"now", rfc3339(world_.now())},
            {"unix_ms", unix_millis(world_.now())},
            {"scale", world_.clock().scale()},
            {"isolation", world_.machines().isolation()},
            {"open_machines", open},
            {"machines", machines},
            {"balance",
             {{"runpod_micros", world_.balance(Provider::runpod).micros},
              {"vastai_micros", world_.balance(Provider::vastai).micros},
              {"vultr_micros", world_.balance(Provider::vultr).micros}}},
            {"requests", log_.counters()},
            {"faults", faults_.list()}};
}

HttpResponse AdminFace::logged(const HttpRequest& request) {
    const auto number = [&](const char* name, std::uint64_t otherwise) {
        const auto text = request.query_value(name).value_or("");
        std::uint64_t value = otherwise;
        std::from_chars(text.data(), text.data() + text.size(), value);
        return value;
    };
    const auto rows =
        log_.entries(number("since", 0), request.query_value("face").value_or(""), number("limit", 20'000));
    return json_response(200, {{"requests", rows}});
}

json AdminFace::post(const std::string& what, const json& body) {
    if (what == "market") return change_market(body);
    if (what == "faults") return add_faults(body);
    if (what == "gpu_fault") return gpu_fault(body);
    if (what == "host_fail") return host_fail(body);
    if (what == "settings") {
        const auto applied = apply_settings(world_.settings(), body);
        if (!applied) throw AdminError{422, applied.error().message};
        return to_json(world_.settings());
    }
    if (what == "time") {
        const auto by = seconds_of(body, "advance_s");
        if (!by) throw AdminError{422, "advance_s is missing"};
        // Scripted events on the way happen at their own moments.
        const auto until = world_.now() + *by;
        for (auto next = script_.next(); next && *next <= until; next = script_.next()) {
            world_.clock().advance(std::max(Millis{0}, *next - world_.now()));
            world_.advance();
            play_script();
        }
        world_.clock().advance(std::max(Millis{0}, until - world_.now()));
        world_.advance();
        world_.nudge();
        return {{"now", rfc3339(world_.now())}, {"unix_ms", unix_millis(world_.now())}};
    }
    if (what == "balance") {
        const auto it = body.find("usd");
        if (it == body.end() || !it->is_number()) throw AdminError{422, "usd must be a number"};
        // Balances below zero happen, so the sign is taken apart from the decimal parser.
        auto magnitude = json(it->get<double>() < 0 ? -it->get<double>() : it->get<double>());
        const auto micros = micros_of(magnitude).value_or(0);
        world_.set_balance(provider_of(body), Usd{it->get<double>() < 0 ? -micros : micros});
        world_.advance();
        return {{"balance_micros", world_.balance(provider_of(body)).micros}};
    }
    if (what == "take_back") {
        auto& taken = rental(body);
        if (!taken.exists()) throw AdminError{409, "the machine is gone"};
        world_.take_back(taken, seconds_of(body, "grace_s"), seconds_of(body, "for_s"));
        return {{"phase", text(taken.phase)}};
    }
    if (what == "give_back") {
        world_.give_back(rental(body));
        return {{"phase", text(rental(body).phase)}};
    }
    if (what == "stop") {
        // Somebody stops it in the console.
        world_.stop(rental(body), Halt::asked, seconds_of(body, "grace_s").value_or(Millis{0}));
        return {{"phase", text(rental(body).phase)}};
    }
    if (what == "destroy") {
        world_.destroy(rental(body), Millis{0});
        return {{"phase", text(rental(body).phase)}};
    }
    if (what == "migrate") {
        auto& old = rental(body);
        if (!old.exists()) throw AdminError{409, "the machine is gone"};
        auto& moved = world_.migrate(old);
        return {{"id", moved.id}, {"phase", text(moved.phase)}};
    }
    if (what == "ssh") {
        auto& machine = rental(body);
        machine.ssh_host = body.value("host", std::string{});
        machine.ssh_port = body.value("port", 0);
        return {{"host", machine.ssh_host}, {"port", machine.ssh_port}};
    }
    if (what == "rename") {
        rental(body).name = body.value("name", "");
        return {{"tag", rental(body).name}};
    }
    if (what == "price") {
        world_.set_rate(rental(body), admin_money(body, "per_hour"));
        return {{"gpu_micros_per_hour", rental(body).gpu_per_hour}};
    }
    if (what == "propose_price") {
        vastai_.propose_price(rental(body), admin_money(body, "per_hour"));
        return {{"ok", true}};
    }
    if (what == "traffic") {
        auto& machine = rental(body);
        const auto* host = world_.market().host(machine.host);
        const auto gb = [&](const char* key) { return body.value(key, 0.0); };
        if (host != nullptr && machine.provider == Provider::vastai) {
            machine.bill.add_traffic_down(
                Usd{static_cast<std::int64_t>(gb("down_gb") * static_cast<double>(host->inet_down_per_gb))});
            machine.bill.add_traffic_up(
                Usd{static_cast<std::int64_t>(gb("up_gb") * static_cast<double>(host->inet_up_per_gb))});
        }
        return bill_of(machine);
    }
    throw AdminError{404, "no such call: POST /_sim/" + what};
}

json AdminFace::host_fail(const json& body) {
    auto& machine = rental(body);
    const auto mode = body.value("mode", std::string{"crash"});
    const bool keep = body.value("keep_processes", false);
    world_.accrue(machine);  // what follows may change what is billed
    if (mode == "offline") {
        world_.set_offline(machine, true, keep);
    } else if (mode == "return") {
        machine.unheard = false;
        machine.never_runs = false;
        machine.frozen = false;
        world_.machines().freeze(machine.id, false);
        world_.set_offline(machine, false, true);
    } else if (mode == "unknown") {
        machine.unheard = true;
    } else if (mode == "crash") {
        // The processes die; the provider notices as it does for any container that ended.
        world_.machines().kill(machine.id);
    } else if (mode == "stop") {
        world_.stop(machine, Halt::host, seconds_of(body, "grace_s").value_or(Millis{0}));
    } else if (mode == "freeze" || mode == "thaw") {
        machine.frozen = mode == "freeze";
        world_.machines().freeze(machine.id, mode == "freeze");
    } else if (mode == "never_runs") {
        machine.never_runs = true;
    } else if (mode == "docker_fails") {
        machine.docker_fails = true;
    } else if (mode == "error") {
        world_.stop(machine, Halt::host, Millis{0});
        machine.phase = Phase::failed;
    } else if (mode == "unhealthy" || mode == "healthy") {
        machine.vm.unhealthy = mode == "unhealthy";
    } else if (mode == "zero_gpus") {
        if (machine.provider != Provider::runpod) throw AdminError{422, "only RunPod does that"};
        // A RunPod pod resumed with no GPUs, billed at the CPU rate.
        world_.set_rate(machine, 60'000);
        machine.gpus = 0;
        machine.runtype = "cpu:2";
    } else {
        throw AdminError{422,
                         "mode must be crash, stop, offline, return, unknown, freeze, thaw, never_runs, "
                         "docker_fails, error, unhealthy, healthy or zero_gpus"};
    }
    world_.market_changed();
    return {{"phase", text(machine.phase)}};
}

json AdminFace::add_faults(const json& body) {
    const auto rows = body.is_array() ? body : body.value("rules", json::array({body}));
    json ids = json::array();
    for (const auto& row : rows) {
        // "do" is an order of this face at a time of its own; all else is a rule for requests.
        const auto id = row.is_object() && row.contains("do") ? script_.add(row, world_.now())
                                                              : faults_.add(row, world_.now());
        if (!id) throw AdminError{422, id.error().message};
        ids.push_back(*id);
    }
    world_.nudge();
    return {{"ids", ids}};
}

Result<std::string> AdminFace::load_faults(const json& file) {
    try {
        (void)add_faults(file);
    } catch (const AdminError& e) {
        return fail(ErrorKind::invalid, e.detail);
    } catch (const json::exception& e) {
        return fail(ErrorKind::invalid, e.what());
    }
    return std::string{"ok"};
}

void AdminFace::play_script() {
    for (const auto& order : script_.due(world_.now())) {
        try {
            (void)post(order.what, order.body);
        } catch (const AdminError&) {
            script_.missed(order.id);  // there was no such machine at that moment
        } catch (const json::exception&) {
            script_.missed(order.id);
        }
    }
}

json AdminFace::gpu_fault(const json& body) {
    GpuFault fault;
    for (const auto& [key, value] : body.items()) {
        if (key == "count")
            fault.count = value.get<int>();
        else if (key == "memory_mib")
            fault.memory_mib = value.get<int>();
        else if (key == "name")
            fault.name = value.get<std::string>();
        else if (key == "driver")
            fault.driver = value.get<std::string>();
        else if (key == "cuinit")
            fault.cuinit = value.get<int>();
        else if (key == "no_libcuda")
            fault.no_libcuda = value.get<bool>();
        else if (key == "no_driver")
            fault.no_nvidia_smi_devices = value.get<bool>();
        else if (key == "used_mib")
            fault.used_mib = value.get<int>();
        else if (key == "utilization")
            fault.utilization = value.get<int>();
        else if (key == "disk_mib")
            fault.disk_mib = value.get<int>();
        else if (key != "provider" && key != "id")
            throw AdminError{422, "unknown key '" + key + "'"};
    }
    if (!body.contains("id")) {
        world_.next_gpu_fault()[provider_of(body)] = fault;
        return {{"applies_to", "next"}};
    }
    world_.set_gpu_fault(rental(body), fault);
    return {{"applies_to", rental(body).id}};
}

}  // namespace gf::sim
