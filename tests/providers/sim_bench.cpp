#include "sim_bench.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

#include "cloud_bench.hpp"

namespace gf::test {
namespace {

using nlohmann::json;
constexpr int kStartLooksMax = 2'000;  // 10 ms each

pid_t start(const std::vector<std::string>& arguments, const std::string& log) {
    std::vector<char*> argv;
    for (const auto& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    const pid_t pid = ::fork();
    if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that crashes leaves no simulator behind
        if (const int fd = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600); fd >= 0)
            ::dup2(fd, STDOUT_FILENO);
        ::execv(argv[0], argv.data());
        ::_exit(127);
    }
    return pid;
}

json read_ports(const std::filesystem::path& file) {
    for (int i = 0; i < kStartLooksMax; ++i) {
        std::ifstream in(file);
        const std::string text{std::istreambuf_iterator<char>(in), {}};
        if (auto ports = json::parse(text, nullptr, false); ports.is_object()) return ports;
        std::this_thread::sleep_for(std::chrono::milliseconds{10});
    }
    throw std::runtime_error("gpuferry-sim did not come up");
}

}  // namespace

SimBench::SimBench(SimSetup setup) : setup_(std::move(setup)), client_({.user_agent = "gpuferry/test"}) {
    const auto ports_file = folder_.path() / "ports.json";
    clock_ = std::make_unique<ScaledClock>(kStart, setup_.scale);
    process_ = start(
        {GF_SIM_PATH, "--no-processes", "--ports-file", ports_file.string(), "--dir",
         (folder_.path() / "sim").string(), "--time-scale", fmt::format("{}", setup_.scale), "--time-origin",
         std::to_string(unix_millis(clock_->now())), "--profile", setup_.profile, "--runpod-key", kKey,
         "--vastai-key", kKey, "--lambda-key", kKey, "--vultr-key", kKey, "--vastai-rate-limits",
         setup_.intervals ? "true" : "false", "--lambda-rate-limits", setup_.intervals ? "true" : "false"},
        (folder_.path() / "sim.log").string());
    const auto ports = read_ports(ports_file);
    upstream_ = fmt::format("http://127.0.0.1:{}", ports.at(setup_.provider).get<int>());
    admin_ = fmt::format("http://127.0.0.1:{}", ports.at("admin").get<int>());
    proxy_ = std::make_unique<ScriptedServer>([this](const Received& r) { return answer(r); });
    ProviderSetup s;
    s.version = "test";
    s.install = "testtest";
    s.local.enabled = false;
    if (setup_.provider == "lambda")
        s.lambda = {.api_key = Secret(kKey), .api_url = proxy_->url() + "/api/v1"};
    else if (setup_.provider == "vultr")
        s.vultr = {.api_key = Secret(kKey), .api_url = proxy_->url() + "/v2"};
    else if (setup_.provider == "runpod")
        s.runpod = {.api_key = Secret(kKey),
                    .api_url = proxy_->url() + "/v2",
                    .graphql_url = proxy_->url() + "/graphql",
                    .clouds = {"secure", "community"}};
    else
        s.vastai = {.api_key = Secret(kKey), .api_url = proxy_->url()};
    set_ = make_providers(s, *clock_, plain_lookup()).value();
}

SimBench::~SimBench() {
    proxy_.reset();
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
}

json SimBench::admin(const std::string& path) {
    return json::parse(client_.send({.url = admin_ + path}).body);
}
void SimBench::tell(const std::string& call, json body, const ProviderMachineId& id) {
    if (!id.empty()) {
        body["provider"] = setup_.provider;
        // Vast.ai's ids are numbers on its wire.
        body["id"] = setup_.provider == "vastai" ? json(std::stoll(id.get())) : json(id.get());
    }
    const auto answer =
        client_.send({.method = "POST", .url = admin_ + "/_sim/" + call, .body = body.dump()});
    if (answer.status != 200) throw std::runtime_error(call + ": " + answer.body);
}

json SimBench::state() {
    return admin("/_sim/state");
}
json SimBench::market() {
    return admin("/_sim/market");
}
json SimBench::bill() {
    return admin("/_sim/bill");
}

bool SimBench::fault(Op op, Fault fault) {
    // How the provider words "sold out" is the simulator's own affair and needs a sold-out market, not a
    // replaced answer.
    if (fault == Fault::no_capacity) return false;
    proxy_->settle();
    faults_[op] = fault;
    return true;
}

bool SimBench::go_away() {
    proxy_->go_away();
    return true;
}

Op SimBench::op_of(const Received& r) const {
    const auto path = r.path();
    if (setup_.provider == "lambda")
        return path == "/api/v1/instance-types"                    ? Op::offers
               : path == "/api/v1/instance-operations/launch"      ? Op::create
               : path == "/api/v1/instance-operations/terminate"   ? Op::destroy
               : path == "/api/v1/instances"                       ? Op::list
                                                                   : Op::read;
    if (setup_.provider == "vultr")
        return path.starts_with("/v2/plans") || path.starts_with("/v2/regions") ? Op::offers
               : r.method == "DELETE"                                           ? Op::destroy
               : path != "/v2/instances"                                        ? Op::read
               : r.method == "POST"                                             ? Op::create
                                                                                : Op::list;
    if (path.starts_with("/v2/catalog") || path.starts_with("/api/v0/bundles")) return Op::offers;
    if (r.method == "DELETE") return Op::destroy;
    if (path.starts_with("/api/v0/asks") || (r.method == "POST" && path == "/v2/pods")) return Op::create;
    if (path == "/v2/pods" || path == "/api/v1/instances/") return Op::list;
    return Op::read;
}

Answer SimBench::pass_on(const Received& r, bool bad_key) {
    HttpRequest request{.method = r.method,
                        .url = upstream_ + r.target,
                        .bearer = Secret(bad_key ? "key_WRONG" : kKey),
                        .body = r.body};
    if (r.header("authorization") != "Bearer " + kKey) request.bearer = Secret();
    const auto got = client_.send(request);
    Answer out{.status = got.status, .body = got.body};
    for (const auto& h : got.headers)
        if (h.name != "content-length" && h.name != "connection" && h.name != "content-type")
            out.headers.push_back(h);
    out.content_type = got.header("content-type").value_or("application/json");
    return out;
}

Answer SimBench::answer(const Received& r) {
    const auto it = faults_.find(op_of(r));
    auto out = Answer{};
    switch (it == faults_.end() ? Fault::none : it->second) {
        case Fault::none:
        case Fault::no_capacity:
            return pass_on(r);
        case Fault::wrong_key:
            return pass_on(r, true);  // the simulator's own answer to a key it does not know
        case Fault::answer_lost:
            out = pass_on(r);
            out.delivery = Delivery::nothing;
            return out;
        case Fault::truncated:
            out = pass_on(r);
            out.delivery = Delivery::cut_body;
            return out;
        case Fault::error_after:
            pass_on(r);
            return {.status = 502, .body = "Bad Gateway", .content_type = "text/plain"};
        case Fault::too_often:
            return {.status = 429, .body = "API requests too frequent", .content_type = "text/plain"};
        case Fault::html:
            return {.body = "<!DOCTYPE html>", .content_type = "text/html"};
        case Fault::odd_shape:
            return {.body = R"({"success":true,"data":null})"};
        case Fault::later:
            return {.status = 500, .body = "busy, try again in 60 s", .content_type = "text/plain"};
        case Fault::echo: {
            std::string text = r.target;
            for (const auto& h : r.headers) text += " " + h.name + ": " + h.value;
            return {
                .status = 400,
                .body = json{{"success", false}, {"error", "invalid_args"}, {"msg", text + r.body}}.dump()};
        }
    }
    return out;
}

json SimBench::upstream(const std::string& path, const json& post) {
    HttpRequest request{.url = upstream_ + path, .bearer = Secret(kKey)};
    if (!post.is_null()) {
        request.method = "POST";
        request.body = post.dump();
    }
    return json::parse(client_.send(request).body, nullptr, false);  // a 204 has none
}

json SimBench::foreign_of_lambda(const std::string& name) {
    upstream("/api/v1/ssh-keys", {{"name", "somebody"}, {"public_key", "ssh-ed25519 AAAAsomebody x"}});
    const auto types = upstream("/api/v1/instance-types").at("data");
    for (const auto& type : types)
        for (const auto& region : type.at("regions_with_capacity_available"))
            return {{"region_name", region.at("name")},
                    {"instance_type_name", type.at("instance_type").at("name")},
                    {"ssh_key_names", {"somebody"}},
                    {"name", name}};
    throw std::runtime_error("the simulator has nothing to rent at Lambda");
}

json SimBench::foreign_of_vultr(const std::string& name) {
    const auto regions = upstream("/v2/regions").at("regions");
    for (const auto& region : regions) {
        const auto id = region.at("id").get<std::string>();
        const auto plans = upstream("/v2/regions/" + id + "/availability").at("available_plans");
        for (const auto& plan : plans)
            if (plan.get<std::string>().starts_with("vcg-"))
                return {{"region", id}, {"plan", plan}, {"os_id", 1743}, {"label", name}};
    }
    throw std::runtime_error("the simulator has nothing to rent at Vultr");
}

bool SimBench::add_foreign(const std::string& name) {
    json body;
    HttpRequest request{.bearer = Secret(kKey)};
    if (setup_.provider == "lambda" || setup_.provider == "vultr") {
        request.method = "POST";
        request.url = upstream_ + (setup_.provider == "lambda" ? "/api/v1/instance-operations/launch" : "/v2/instances");
        body = setup_.provider == "lambda" ? foreign_of_lambda(name) : foreign_of_vultr(name);
    } else if (setup_.provider == "runpod") {
        request.method = "POST";
        request.url = upstream_ + "/v2/pods";
        body = {{"name", name},
                {"image", "ubuntu:22.04"},
                {"gpu", {{"id", "NVIDIA GeForce RTX 4090"}, {"count", 1}}},
                {"cloud", "SECURE"},
                {"disk", 10}};
    } else {
        const auto found = client_.send(
            {.method = "POST",
             .url = upstream_ + "/api/v0/bundles/",
             .bearer = Secret(kKey),
             .body = R"({"type":"on-demand","limit":1,"rentable":{"eq":true},"rented":{"eq":false}})"});
        const auto ask = json::parse(found.body).at("offers").at(0).at("id").get<std::int64_t>();
        request.method = "PUT";
        request.url = fmt::format("{}/api/v0/asks/{}/", upstream_, ask);
        body = {{"client_id", "me"},
                {"image", "ubuntu:22.04"},
                {"disk", 10},
                {"label", name},
                {"runtype", "ssh"}};
    }
    request.body = body.dump();
    const auto made = client_.send(request);
    if (made.status >= 300) throw std::runtime_error("the simulator refused a foreign machine: " + made.body);
    pass(Seconds{10});  // it may stay out of listings for a while
    return true;
}

}  // namespace gf::test
