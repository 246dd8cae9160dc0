// Pods: create, read, change (page sections 4 to 6).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <sstream>

#include "simulator/runpod_face.hpp"
#include "simulator/runpod_schema.hpp"

namespace gf::sim {

namespace {

using nlohmann::json;

constexpr const char* kNotValid = "Action not valid for current pod status";
constexpr const char* kHostFull = "There are not enough free GPUs on the host machine to start this pod.";

std::optional<int> whole_number(const std::string& text) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

/// What the schema cannot say: rules that answer 400. Empty = fine.
std::string broken_rule(const json& body) {
    if (body.contains("gpu") == body.contains("cpu")) return "exactly one of 'gpu' or 'cpu' is required";
    if (!body.contains("disk")) return "a template id or pod configuration parameters must be provided";
    if (body.contains("mounts") && body["mounts"].contains("persistent") &&
        body["mounts"].contains("network")) {
        return "'mounts.persistent' and 'mounts.network' are mutually exclusive";
    }
    if (body.contains("gpu")) {
        const auto& gpu = body["gpu"];
        const bool allowed = gpu.contains("allowedCudaVersions") && !gpu["allowedCudaVersions"].empty();
        if (allowed && gpu.contains("minCudaVersion")) {
            return "'allowedCudaVersions' and 'minCudaVersion' are mutually exclusive";
        }
    } else {
        const auto vcpus = body["cpu"]["vcpuCount"].get<int>();
        if ((vcpus & (vcpus - 1)) != 0) return "'cpu.vcpuCount' must be a power of two";
    }
    std::ptrdiff_t http = 0;
    for (const auto& port : body.value("ports", json::array())) {
        if (port.get_ref<const std::string&>().ends_with("/http")) ++http;
    }
    if (http > 10) return "at most 10 http ports are allowed";
    return {};
}

json mounts_json(const Rental& pod) {
    json mounts = json::object();
    if (!pod.volume_path.empty()) mounts["persistent"] = {{"size", pod.volume_gb}, {"path", pod.volume_path}};
    if (!pod.network_path.empty()) {
        mounts["network"] = json::array({{{"volumeId", pod.network_volume}, {"path", pod.network_path}}});
    }
    return mounts;
}

json env_json(const Environment& env) {
    json object = json::object();
    for (const auto& [name, value] : env) object[name] = value;
    return object;
}

Environment env_of(const json& body) {
    Environment env;
    for (const auto& [name, value] : body.value("env", json::object()).items())
        env.emplace_back(name, value.get<std::string>());
    return env;
}

json ssh_json(const std::string& host, int port, const std::string& user, const std::string& command) {
    return {{"host", host}, {"port", port}, {"username", user}, {"command", command}};
}

}  // namespace

Rental* RunpodFace::visible_pod(const std::string& id) {
    auto* pod = world_.find(Provider::runpod, id);
    if (pod == nullptr || !pod->exists()) return nullptr;
    if (world_.now() - pod->created_at < world_.settings().runpod_read_lag) return nullptr;
    return pod;
}

HttpResponse RunpodFace::create_pod(const HttpRequest& request) {
    const auto parsed = valid_body(request, pod_create_schema());
    if (const auto* refused = std::get_if<HttpResponse>(&parsed)) return *refused;
    const auto& body = std::get<json>(parsed);
    if (body.contains("templateId")) return problem(404, "resource not found");
    if (!body.contains("image"))
        return problem(422, "Request validation failed.", {"$: missing property 'image'"});
    if (const auto broken = broken_rule(body); !broken.empty()) return problem(400, broken);

    Rental pod;
    pod.provider = Provider::runpod;
    pod.name = body["name"].get<std::string>();
    pod.image = body["image"].get<std::string>();
    pod.env = env_of(body);
    pod.args = body.value("args", "");
    pod.ports = body.value("ports", std::vector<std::string>{});
    pod.disk_gb_milli = body["disk"].get<std::int64_t>() * 1000;
    if (body.contains("registry") && body["registry"].is_string())
        pod.registry = body["registry"].get<std::string>();
    const auto mounts = body.value("mounts", json::object());
    if (mounts.contains("persistent")) {
        pod.volume_gb = mounts["persistent"]["size"].get<std::int64_t>();
        pod.volume_path = mounts["persistent"]["path"].get<std::string>();
    }

    Wish wish;
    wish.secure = body.value("cloud", "SECURE") == "SECURE";
    wish.data_centers = body.value("dataCenterIds", std::vector<std::string>{});
    wish.disk_gb = body["disk"].get<std::int64_t>() + pod.volume_gb;
    if (mounts.contains("network") && !mounts["network"].empty()) {
        pod.network_volume = mounts["network"][0]["volumeId"].get<std::string>();
        pod.network_path = mounts["network"][0]["path"].get<std::string>();
        const auto volume = std::ranges::find(volumes_, pod.network_volume, &NetworkVolume::id);
        if (volume == volumes_.end()) return problem(404, "network volume not found");
        // Secure Cloud only, and in the volume's own data center.
        if (!*wish.secure) return problem(400, "network volumes are only available on Secure Cloud");
        wish.data_centers = {volume->data_center};
    }
    if (body.contains("cpu")) {
        const auto vcpus = body["cpu"]["vcpuCount"].get<int>();
        if (body["cpu"]["id"] != "cpu3c") return problem(400, "cpu flavor not found");
        pod.gpu_per_hour = std::int64_t{30'000} * vcpus;
        if (const auto refused = unaffordable(pod.gpu_per_hour))
            return problem(refused->status, refused->detail);
        const auto& hosts = world_.market().hosts();
        const auto host = std::ranges::find_if(
            hosts, [](const Host& h) { return h.provider == Provider::runpod && h.secure && h.online; });
        if (host == hosts.end()) return problem(400, "There are no instances currently available");
        pod.host = host->id;
        pod.runtype = "cpu:" + std::to_string(vcpus);
    } else {
        const auto& gpu = body["gpu"];
        wish.gpu_id = gpu["id"].get<std::string>();
        wish.count = gpu.value("count", 1);
        wish.cuda_allowed = gpu.value("allowedCudaVersions", std::vector<std::string>{});
        wish.cuda_min = gpu.value("minCudaVersion", "");
        const auto placed = place(wish);
        if (const auto* refused = std::get_if<Refusal>(&placed))
            return problem(refused->status, refused->detail);
        const auto& where = std::get<Place>(placed);
        pod.host = where.host->id;
        pod.gpu = where.host->gpu;
        pod.gpus = wish.count;
        pod.gpu_per_hour = where.per_gpu * wish.count;
    }
    if (body.value("startSsh", false) && !account_keys_.empty() &&
        !body.value("env", json::object()).contains("PUBLIC_KEY")) {
        std::string keys;
        for (const auto& key : account_keys_) keys += key + "\n";
        pod.env.emplace_back("PUBLIC_KEY", keys);
    }
    set_disk_prices(pod);
    return json_response(201, pod_json(world_.rent(std::move(pod))));
}

std::string RunpodFace::pod_status(const Rental& pod) const {
    const bool observed = world_.settings().runpod_observed;
    switch (pod.phase) {
        case Phase::accepted:
            return observed ? "RUNNING" : "PROVISIONING";
        case Phase::created:
        case Phase::loading:
        case Phase::starting:
            return observed || pod.starts > 0 ? "RUNNING" : "STARTING";
        case Phase::running:
            return "RUNNING";
        case Phase::stopping:
            return pod.halt == Halt::asked && !pod.start_after_stop ? "EXITED" : "RUNNING";
        case Phase::stopped:
        case Phase::exited:
        case Phase::queued:
            return "EXITED";
        case Phase::failed:
            return "ERROR";
        case Phase::destroying:
        case Phase::gone:
            return "TERMINATED";
    }
    return "ERROR";
}

json RunpodFace::pod_json(Rental& pod) {
    const auto status = pod_status(pod);
    const auto* host = world_.market().host(pod.host);
    const bool up = pod.phase == Phase::running && !pod.never_runs && !pod.offline;
    const auto proxy_user = pod.id + "-64411eb2";
    json actions = json::array({"stop", "restart", "terminate"});
    if (status == "EXITED" || status == "ERROR") actions = {"start", "terminate"};
    if (status == "PROVISIONING" || status == "STARTING") actions = {"stop", "terminate"};

    // A first read after a start may still show the ports of the run before.
    const bool stale = world_.settings().stale_ports && !pod.ports_read_since_start && !pod.old_ports.empty();
    const auto& public_ports = stale ? pod.old_ports : pod.public_ports;
    json direct = nullptr;
    json runtime = nullptr;
    if (up) {
        json ports = json::array();
        auto ip = host == nullptr ? std::string{} : host->public_ip;
        if (!pod.ssh_host.empty()) ip = pod.ssh_host;
        for (const auto& [port, mapped] : public_ports) {
            const int number = port == "22/tcp" && pod.ssh_port > 0 ? pod.ssh_port : mapped;
            const auto slash = port.find('/');
            const auto inner = whole_number(port.substr(0, slash)).value_or(0);
            const bool tcp = port.substr(slash + 1) == "tcp";
            // HTTP goes through the proxy: its address is the host's private one, which nobody can dial.
            ports.push_back({{"private", inner},
                             {"public", number},
                             {"type", tcp ? "tcp" : "http"},
                             {"ip", tcp ? ip : std::string{"100.65.14.9"}}});
            if (inner == 22 && tcp && !ip.empty()) {
                direct = ssh_json(ip, number, "root", fmt::format("ssh root@{} -p {}", ip, number));
            }
        }
        const auto uptime = (world_.now() - pod.started_at.value_or(world_.now())).count() / 1000;
        const int util = pod.gpu_fault.utilization.value_or(0);
        runtime = {{"uptime", uptime}, {"cpu", {{"util", 5}}}, {"memory", {{"util", 8}}}, {"ports", ports}};
        if (uptime > 0)
            runtime["gpus"] =
                json(static_cast<std::size_t>(pod.gpus), json{{"util", util}, {"memoryUtil", util * 2 / 3}});
        pod.ports_read_since_start = true;
    }
    // A recorded stopped pod showed its rate; the specification says 0.
    const bool free_now = status == "EXITED" && !world_.settings().runpod_observed;
    json result{
        {"id", pod.id},
        {"name", pod.name},
        {"status", status},
        {"actions", actions},
        {"image", pod.image},
        {"args", pod.args},
        {"disk", pod.disk_gb_milli / 1000},
        {"mounts", mounts_json(pod)},
        {"ports", pod.ports},
        {"env", env_json(pod.env)},
        {"registry", pod.registry.empty() ? json(nullptr) : json(pod.registry)},
        {"cloud", host != nullptr && !host->secure ? "COMMUNITY" : "SECURE"},
        {"dataCenterId", host == nullptr ? json(nullptr) : json(host->data_center)},
        {"cudaVersion",
         host == nullptr || pod.gpus == 0 ? json(nullptr) : json(fmt::format("{:.1f}", host->cuda))},
        {"ssh",
         {{"proxy", ssh_json("ssh.runpod.io", 22, proxy_user, "ssh " + proxy_user + "@ssh.runpod.io")},
          {"direct", direct}}},
        {"template", nullptr},
        {"cost", free_now ? 0.0 : dollars_float(pod.gpu_per_hour)},
        {"locked", pod.locked},
        {"globalNetworking", {{"enabled", false}}},
        {"runtime", runtime},
        {"createdAt", whole_seconds(pod.created_at)},
        {"startedAt", pod.started_at ? json(whole_seconds(*pod.started_at)) : json(nullptr)}};
    if (pod.gpus > 0) {
        const auto* model = world_.market().model(pod.gpu);
        result["gpu"] = {{"id", model == nullptr ? pod.gpu : model->runpod_id}, {"count", pod.gpus}};
    } else {
        const auto vcpus = whole_number(pod.runtype.substr(4)).value_or(2);
        result["cpu"] = {{"id", "cpu3c"}, {"vcpuCount", vcpus}, {"memory", vcpus * 2}};
    }
    if (host != nullptr && !host->instance_overrides.empty())
        result.update(json::parse(host->instance_overrides));
    return result;
}

HttpResponse RunpodFace::list_pods(const HttpRequest& request) {
    std::size_t limit = 1000;
    if (const auto text = request.query_value("limit")) {
        const auto value = whole_number(*text);
        if (!value || *value < 1 || *value > 1000) {
            return problem(422, "Request validation failed.",
                           {"$.limit: value must be an integer from 1 to 1000"});
        }
        limit = static_cast<std::size_t>(*value);
    }
    limit = std::min(limit, static_cast<std::size_t>(std::max(1, world_.settings().runpod_page_max)));
    std::uint64_t before = UINT64_MAX;
    if (const auto cursor = request.query_value("cursor"); cursor && !cursor->empty()) {
        const auto value = cursor->starts_with("p_") ? whole_number(cursor->substr(2)) : std::nullopt;
        if (!value || *value < 0)
            return problem(422, "Request validation failed.", {"$.cursor: invalid cursor"});
        before = static_cast<std::uint64_t>(*value);
    }
    json pods = json::array();
    bool more = false;
    const auto& all = world_.rentals();
    for (auto it = all.rbegin(); it != all.rend(); ++it) {
        auto& pod = **it;
        if (pod.provider != Provider::runpod || !pod.exists() || pod.order >= before) continue;
        if (world_.now() - pod.created_at < world_.settings().runpod_list_lag) continue;
        if (pods.size() == limit) {
            more = true;
            break;
        }
        pods.push_back(pod_json(pod));
        before = pod.order;
    }
    json body{{"pods", pods}};
    if (world_.settings().runpod_pagination) {
        body["pagination"] = {{"nextCursor", more ? json(fmt::format("p_{}", before)) : json(nullptr)},
                              {"hasNextPage", more}};
    }
    return json_response(200, body);
}

HttpResponse RunpodFace::pod_action(Rental& pod, const std::string& action) {
    const auto status = pod_status(pod);
    const auto grace = world_.settings().runpod_grace;
    if (action == "terminate") {
        world_.destroy(pod, Millis{0});
        return {.status = 204, .type = {}, .body = {}, .headers = {}, .cut = false};
    }
    const bool halted = status == "EXITED" || status == "ERROR";
    if (action == "start") {
        if (!halted || pod.phase == Phase::stopping) return problem(409, kNotValid);
        if (const auto refused = unaffordable(pod.gpu_per_hour))
            return problem(refused->status, refused->detail);
        if (world_.start(pod) == StartOutcome::host_full) {
            if (!world_.settings().runpod_zero_gpus) return problem(400, kHostFull);
            // It comes back without GPUs, at the price of its processors.
            world_.set_rate(pod, 60'000);
            pod.gpus = 0;
            pod.runtype = "cpu:2";
            if (world_.start(pod) != StartOutcome::started) return problem(400, kHostFull);
        }
    } else if (action == "stop") {
        if (halted || pod.locked) return problem(409, kNotValid);
        world_.stop(pod, Halt::asked, grace);
    } else {
        if (status != "RUNNING" || pod.locked) return problem(409, kNotValid);
        world_.restart(pod, true, grace);
    }
    return json_response(200, pod_json(pod));
}

HttpResponse RunpodFace::patch_pod(Rental& pod, const HttpRequest& request) {
    const auto parsed = valid_body(request, pod_patch_schema());
    if (const auto* refused = std::get_if<HttpResponse>(&parsed)) return *refused;
    const auto& body = std::get<json>(parsed);
    if (body.contains("templateId")) return problem(404, "resource not found");
    if (body.contains("mounts")) {
        const auto& mounts = body["mounts"];
        if (mounts.contains("network") &&
            (mounts["network"].empty() || mounts["network"][0]["volumeId"] != pod.network_volume)) {
            return problem(400, "the network volume of a pod cannot be changed");
        }
        if (mounts.contains("persistent")) {
            if (pod.volume_path.empty()) return problem(400, "the kind of mount is fixed at create");
            if (mounts["persistent"]["size"].get<std::int64_t>() < pod.volume_gb)
                return problem(400, "a volume cannot shrink");
        }
    }
    if (body.contains("name")) pod.name = body["name"].get<std::string>();
    if (body.contains("locked")) pod.locked = body["locked"].get<bool>();
    world_.accrue(pod);
    bool resets = false;
    for (const auto* key : {"image", "args", "disk", "ports", "env", "mounts"})
        resets = resets || body.contains(key);
    if (body.contains("image")) pod.image = body["image"].get<std::string>();
    if (body.contains("args")) pod.args = body["args"].get<std::string>();
    if (body.contains("disk")) pod.disk_gb_milli = body["disk"].get<std::int64_t>() * 1000;
    if (body.contains("ports")) pod.ports = body["ports"].get<std::vector<std::string>>();
    if (body.contains("env")) pod.env = env_of(body);
    if (body.contains("mounts") && body["mounts"].contains("persistent")) {
        pod.volume_gb = body["mounts"]["persistent"]["size"].get<std::int64_t>();
        pod.volume_path = body["mounts"]["persistent"]["path"].get<std::string>();
    }
    set_disk_prices(pod);
    if (resets && pod_status(pod) == "RUNNING") world_.restart(pod, true, world_.settings().runpod_grace);
    return json_response(200, pod_json(pod));
}

HttpResponse RunpodFace::pod_logs(Rental& pod, const HttpRequest& request) {
    std::size_t tail = 100;
    if (const auto text = request.query_value("tail")) {
        const auto value = whole_number(*text);
        if (!value || *value < 0 || *value > 5000)
            return problem(422, "Request validation failed.", {"$.tail: value must be 0 to 5000"});
        tail = static_cast<std::size_t>(*value);
    }
    const auto source = request.query_value("source").value_or("");
    std::vector<json> lines;
    if (source != "container") {
        for (const auto& [at, line] : pod.system_log) {
            lines.push_back({{"ts", whole_seconds(at)}, {"source", "system"}, {"line", line}});
        }
    }
    if (source != "system") {
        std::istringstream output(world_.machines().output(pod.id, 1U << 20U));
        for (std::string line; std::getline(output, line);) {
            lines.push_back({{"ts", whole_seconds(world_.now())}, {"source", "container"}, {"line", line}});
        }
    }
    HttpResponse response;
    response.type = "text/event-stream";
    const auto first = lines.size() > tail ? lines.size() - tail : 0;
    for (std::size_t i = first; i < lines.size(); ++i) {
        response.body += fmt::format("id: {}/{:012}\ndata: {}\n\n", lines[i]["ts"].get<std::string>(), i + 1,
                                     lines[i].dump(-1, ' ', false, json::error_handler_t::replace));
    }
    return response;
}

}  // namespace gf::sim
