// Machines as real processes: what a job sees inside, and that nothing outlives its machine.
#include <doctest/doctest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "sim_client.hpp"
#include "simulator/http.hpp"
#include "simulator/process_tree.hpp"
#include "tests/skip.hpp"

using namespace gf;
using namespace gf::sim;
using namespace gf::sim::test;

namespace {

namespace fs = std::filesystem;

struct Folder {
    fs::path path;
    Folder() {
        auto name = (fs::temp_directory_path() / "gf-sim-test-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path = name;
    }
    ~Folder() {
        std::error_code ignored;
        fs::remove_all(path, ignored);
    }
};

std::function<void(SimulatorOptions&)> real(const Folder& folder, bool isolate = true) {
    return [&folder, isolate](SimulatorOptions& o) {
        o.processes = true;
        o.isolate = isolate;
        o.dir = folder.path;
        o.keeper = GF_SIM_BINARY;
        o.settings.vastai_intervals = false;
        o.settings.runpod_provision = o.settings.runpod_pull = Millis{0};
        o.settings.vastai_silent = o.settings.vastai_created = o.settings.vastai_pull = Millis{0};
        o.settings.vastai_read_lag = Millis{0};
    };
}

std::string run_pod(const TestSim& sim, const std::string& script, json extra = json::object()) {
    json body{{"name", "gf-test"},
              {"image", "i"},
              {"gpu", {{"id", "NVIDIA GeForce RTX 4090"}, {"count", 2}}},
              {"disk", 10},
              {"env", {{"GREETING", "hello world"}}},
              {"args", json{{"entrypoint", {"/bin/sh", "-c"}}, {"cmd", {script}}}.dump()}};
    body.update(extra);
    const auto answer = sim.runpod({.method = "POST", .path = "/v2/pods", .body = body});
    REQUIRE_MESSAGE(answer.status == 201, answer.body);
    return answer.parsed()["id"];
}

std::string run_instance(const TestSim& sim, const std::string& script) {
    const json query{{"gpu_name", {{"eq", "RTX 3090"}}},
                     {"num_gpus", {{"eq", 1}}},
                     {"type", "bid"},
                     {"order", json::array({json::array({"dph_total", "asc"})})}};
    const auto offer =
        sim.vastai({.method = "POST", .path = "/api/v0/bundles/", .body = query}).parsed()["offers"][0];
    const json body{{"image", "i"},
                    {"disk", 8},
                    {"label", "gf-test"},
                    {"runtype", "args"},
                    {"onstart", "/bin/sh"},
                    {"args", {"-c", script}},
                    {"price", offer["min_bid"].get<double>() + 0.01}};
    const auto answer =
        sim.vastai({.method = "PUT", .path = "/api/v0/asks/" + offer["id"].dump() + "/", .body = body});
    REQUIRE_MESSAGE(answer.status == 200, answer.body);
    return answer.parsed()["new_contract"].dump();
}

std::string output(const TestSim& sim, const std::string& provider, const std::string& id) {
    return sim.admin({.path = "/_sim/output?provider=" + provider + "&id=" + id}).body;
}

void wait_for(const TestSim& sim, const std::string& provider, const std::string& id, const std::string& text,
              std::size_t times = 1) {
    sim.until(
        [&] {
            const auto all = output(sim, provider, id);
            std::size_t found = 0;
            for (auto at = all.find(text); at != std::string::npos; at = all.find(text, at + 1)) ++found;
            return found >= times;
        },
        "the machine to print " + text);
}

/// True if this kernel lets us make namespaces; says so aloud if not.
bool isolated(const TestSim& sim) {
    sim.until([&] { return sim.state()["isolation"] != "unknown"; }, "a first start");
    const bool yes = sim.state()["isolation"] == "namespaces";
    if (!yes) gf::test::skip("this kernel refuses namespaces, the inside of a machine was not checked");
    return yes;
}

bool lives(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(file, text, '\0');
    const auto at = text.rfind(')');
    return at != std::string::npos && text[at + 2] != 'Z' && text[at + 2] != 'X';  // X: being reaped this moment
}

}  // namespace

TEST_CASE("a machine runs the client's command with the client's environment and sees the offer's GPUs") {
    const Folder folder;
    const TestSim sim(real(folder));
    const auto id =
        run_pod(sim,
                "echo \"says $GREETING in $RUNPOD_POD_ID on $(hostname 2>/dev/null || cat /etc/hostname)\"; "
                "nvidia-smi -L; "
                "nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader,nounits; "
                "nvidia-smi --query-gpu=index,utilization.gpu --format=csv; "
                "echo pid $$; ls /root | wc -l; df -B1 / | tail -1; echo ready; exec sleep 1000");
    wait_for(sim, "runpod", id, "ready");
    const auto out = output(sim, "runpod", id);
    INFO(out);
    CHECK(out.contains("says hello world in " + id));
    CHECK(out.contains("GPU 1: NVIDIA GeForce RTX 4090 (UUID: GPU-"));
    CHECK(out.contains("NVIDIA GeForce RTX 4090, 24564, 570.124.06"));
    CHECK(out.contains("index, utilization.gpu [%]\n0, 0 %"));
    if (!isolated(sim)) return;
    CHECK(out.contains("pid 1\n"));  // the command is the first process of its own namespace
    CHECK(out.contains("\n0\n"));    // and /root is its own
    CHECK(out.contains(" 100000"));  // the disk is as large as asked: 10 GB
}

TEST_CASE("libcuda answers like a driver, with faults when told") {
    const Folder folder;
    const TestSim sim(real(folder));
    const std::string probe =
        "/usr/bin/python3 -c 'import ctypes as c\n"
        "try: l=c.CDLL(\"libcuda.so.1\")\n"
        "except OSError: print(\"no libcuda\"); raise SystemExit\n"
        "print(\"init\", l.cuInit(0)); n=c.c_int(-1); print(\"count\", l.cuDeviceGetCount(c.byref(n)), "
        "n.value)\n"
        "for d in range(max(n.value, 0)):\n"
        " b=c.create_string_buffer(99); m=c.c_size_t(); l.cuDeviceGetName(b,99,d); "
        "l.cuDeviceTotalMem_v2(c.byref(m),d)\n"
        " a=c.c_int(); l.cuDeviceGetAttribute(c.byref(a),75,d); print(b.value.decode(), m.value>>20, "
        "a.value)'; ";
    const auto answer = [&](const json& fault) {
        if (!fault.is_null()) {
            auto next = fault;
            next["provider"] = "runpod";
            sim.order("gpu_fault", next);
        }
        const auto id = run_pod(sim, probe + "echo done; exec sleep 1000");
        wait_for(sim, "runpod", id, "done");
        const auto out = output(sim, "runpod", id);
        (void)sim.runpod({.method = "DELETE", .path = "/v2/pods/" + id});
        return out;
    };
    if (!fs::exists("/usr/bin/python3")) {
        gf::test::skip("no /usr/bin/python3 to load libcuda with");
        return;
    }
    CHECK(answer(nullptr).contains(
        "init 0\ncount 0 2\nNVIDIA GeForce RTX 4090 24220 8\nNVIDIA GeForce RTX 4090 24220 8\n"));
    CHECK(answer({{"cuinit", 802}}).contains("init 802\ncount 3 -1\n"));
    CHECK(answer({{"count", 1}, {"memory_mib", 12'288}, {"name", "Other"}})
              .contains("count 0 1\nOther 12115 8\ndone"));
    CHECK(answer({{"count", 0}}).contains("init 100"));
    if (isolated(sim)) CHECK(answer({{"no_libcuda", true}}).contains("no libcuda"));
}

TEST_CASE("a take-back ends every descendant, after SIGTERM and its grace or at once") {
    for (const bool isolate : {true, false}) {
        const Folder folder;
        const TestSim sim(real(folder, isolate));
        const auto id = run_instance(sim,
                                     "trap 'echo told' TERM; setsid sleep 1001 & (sleep 1002 & exec sleep "
                                     "1003) & echo ready; while :; do sleep 1004 & wait $!; done");
        wait_for(sim, "vastai", id, "ready");
        sim.until_phase(id, "running");
        const auto pid = sim.machine(id)["pid"].get<pid_t>();
        std::vector<pid_t> all;
        sim.until(
            [&] {
                all = descendants(pid);
                return all.size() >= 4;
            },
            "the children");
        all.push_back(pid);
        const json who{{"provider", "vastai"}, {"id", id}, {"grace_s", 0}};
        auto gently = who;
        gently["grace_s"] = 5;
        sim.order("take_back", gently);
        wait_for(sim, "vastai", id, "told");
        CHECK(sim.machine(id)["phase"] == "stopping");
        sim.pass(6);
        sim.until_phase(id, "stopped");
        for (const auto one : all) CHECK_FALSE(lives(one));
        CHECK(sim.machine(id)["exit_signal"] == 9);
    }
}

TEST_CASE("Vast keeps the disk of a stopped instance, RunPod wipes it and keeps the volume") {
    const Folder folder;
    const TestSim sim(real(folder));
    const auto instance = run_instance(
        sim, "echo run >> /root/runs; echo runs $(wc -l < /root/runs); echo ready; exec sleep 1000");
    wait_for(sim, "vastai", instance, "ready");
    if (!isolated(sim)) return;
    sim.order("take_back", {{"provider", "vastai"}, {"id", instance}});
    sim.until_phase(instance, "stopped");
    sim.order("give_back", {{"provider", "vastai"}, {"id", instance}});
    sim.pass(3);
    wait_for(sim, "vastai", instance, "runs 2");

    const auto pod = run_pod(sim,
                             "echo run >> /root/runs; echo run >> /data/runs; echo runs $(wc -l < "
                             "/root/runs) $(wc -l < /data/runs); exec sleep 1000",
                             {{"mounts", {{"persistent", {{"size", 10}, {"path", "/data"}}}}}});
    wait_for(sim, "runpod", pod, "runs 1 1");
    CHECK(
        sim.runpod({.method = "POST", .path = "/v2/pods/" + pod + "/action", .body = {{"action", "restart"}}})
            .status == 200);
    sim.pass(6);
    wait_for(sim, "runpod", pod, "runs 1 2");
}

TEST_CASE("what ends by itself: RunPod starts it again, Vast says how it ended") {
    const Folder folder;
    const TestSim sim(real(folder));
    const auto pod = run_pod(sim, "echo began; exit 3");
    wait_for(sim, "runpod", pod, "began");
    sim.until_phase(pod, "loading");
    sim.pass(2);
    wait_for(sim, "runpod", pod, "began", 2);
    const auto instance = run_instance(sim, "kill -KILL $$; exit 7");
    // The first process of a namespace is deaf to signals from inside it, so it exits; without one it dies.
    sim.until_phase(instance, "exited");
    CHECK(sim.machine(instance)["exit_code"] == (isolated(sim) ? 7 : 0));
}

TEST_CASE("a command that is not there fails as docker fails") {
    const Folder folder;
    const TestSim sim(real(folder));
    const auto pod = run_pod(sim, "", {{"args", "no-such-program --x"}});
    sim.until(
        [&] {
            return sim.machine(pod)["status_msg"].get<std::string>().contains("OCI runtime create failed");
        },
        "the failure");
    CHECK(sim.runpod({.path = "/v2/pods/" + pod}).parsed()["runtime"] == nullptr);
    CHECK(sim.runpod({.path = "/v2/pods/" + pod + "/logs?source=system"}).body.contains("no-such-program"));
}

TEST_CASE("a full disk is really full") {
    const Folder folder;
    const TestSim sim(real(folder));
    sim.order("gpu_fault", {{"provider", "runpod"}, {"disk_mib", 8}});
    const auto pod = run_pod(
        sim, "head -c 20000000 /dev/zero > /workspace/big && echo fits || echo full; exec sleep 1000");
    sim.until([&] { return sim.machine(pod)["phase"] == "running"; }, "it to run");
    if (!isolated(sim)) return;
    wait_for(sim, "runpod", pod, "full");
}

TEST_CASE("utilisation changes while nvidia-smi loops") {
    const Folder folder;
    const TestSim sim(real(folder));
    const auto pod = run_pod(
        sim, "exec nvidia-smi --query-gpu=utilization.gpu,memory.used --format=csv,noheader,nounits -lms 20");
    wait_for(sim, "runpod", pod, "0, 4\n");
    sim.order("gpu_fault", {{"provider", "runpod"}, {"id", pod}, {"utilization", 97}, {"used_mib", 20'000}});
    wait_for(sim, "runpod", pod, "97, 20000\n");
}

TEST_CASE("when the simulator goes, so do its machines, their mounts and their folders") {
    const Folder folder;
    pid_t pid = 0;
    std::vector<pid_t> all;
    {
        const TestSim sim(real(folder));
        const auto pod = run_pod(sim, "setsid sleep 1005 & echo ready; exec sleep 1006");
        wait_for(sim, "runpod", pod, "ready");
        sim.until_phase(pod, "running");
        pid = sim.machine(pod)["pid"].get<pid_t>();
        sim.until(
            [&] {
                all = descendants(pid);
                return !all.empty();
            },
            "its child");
    }
    CHECK_FALSE(lives(pid));
    for (const auto one : all) CHECK_FALSE(lives(one));
    CHECK(fs::is_empty(folder.path / "machines"));
    std::ifstream mounts("/proc/self/mounts");
    const std::string text{std::istreambuf_iterator<char>(mounts), {}};
    CHECK_FALSE(text.contains(folder.path.string()));
}

TEST_CASE("an image of its own: a root that has nothing but busybox") {
    const fs::path busybox = "/bin/busybox";
    if (!fs::exists(busybox)) {
        gf::test::skip("no /bin/busybox to make a root of");
        return;
    }
    const Folder folder;
    const Folder image;
    fs::create_directories(image.path / "bin");
    fs::copy_file(busybox, image.path / "bin/busybox");
    for (const auto* name : {"sh", "echo", "ls", "cat", "sleep", "hostname"}) {
        fs::create_symlink("busybox", image.path / "bin" / name);
    }
    const TestSim sim([&](SimulatorOptions& o) {
        real(folder)(o);
        o.image_root = image.path;
    });
    const auto pod =
        run_pod(sim,
                "nvidia-smi -L; ls /bin | cat; echo mine > /bin/mine; cat /bin/mine; cat /etc/hosts; "
                "echo ready; exec sleep 1000");
    if (!isolated(sim)) return;
    wait_for(sim, "runpod", pod, "ready");
    const auto out = output(sim, "runpod", pod);
    INFO(out);
    CHECK(out.contains("GPU 0: NVIDIA GeForce RTX 4090"));
    CHECK(out.contains("busybox\ncat\n"));
    CHECK(out.contains("mine\n127.0.0.1"));
    CHECK_FALSE(fs::exists(image.path / "bin/mine"));  // the image itself stays as it is
}

TEST_CASE("the program tells its ports, ends on SIGTERM with 0, and when killed takes its machines along") {
    for (const int signal : {SIGTERM, SIGKILL}) {
        const Folder folder;
        const auto ports_file = (folder.path / "ports.json").string();
        const auto dir = (folder.path / "dir").string();
        const auto settings = (folder.path / "settings.json").string();
        std::ofstream(settings) << R"({"runpod_provision_ms":0,"runpod_pull_ms":0})";
        const pid_t program = ::fork();
        REQUIRE(program >= 0);
        if (program == 0) {
            ::execl(GF_SIM_BINARY, "gpuferry-sim", "--dir", dir.c_str(), "--ports-file", ports_file.c_str(),
                    "--settings", settings.c_str(), nullptr);
            ::_exit(127);
        }
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        while (!fs::exists(ports_file) && std::chrono::steady_clock::now() < end) std::this_thread::yield();
        REQUIRE(fs::exists(ports_file));
        std::ifstream file(ports_file);
        const auto ports = json::parse(file);
        CHECK(ports["pid"] == program);
        const auto admin = ports["admin"].get<std::uint16_t>();
        const json body{{"name", "n"},
                        {"image", "i"},
                        {"gpu", {{"id", "NVIDIA L4"}}},
                        {"disk", 10},
                        {"args", "sh -c 'setsid sleep 1007 & exec sleep 1008'"}};
        CHECK(send(ports["runpod"].get<std::uint16_t>(), {.method = "POST", .path = "/v2/pods", .body = body})
                  .status == 201);
        pid_t machine = 0;
        std::vector<pid_t> children;
        while (children.empty() && std::chrono::steady_clock::now() < end) {
            const auto state = send(admin, {.path = "/_sim/state"}).parsed();
            machine = state["machines"][0]["pid"].get<pid_t>();
            if (machine != 0) children = descendants(machine);
        }
        REQUIRE_FALSE(children.empty());
        ::kill(program, signal);
        int status = 0;
        REQUIRE(::waitpid(program, &status, 0) == program);
        if (signal == SIGTERM) {
            CHECK(WIFEXITED(status));
            CHECK(WEXITSTATUS(status) == 0);
            CHECK_FALSE(lives(machine));
        }
        while (lives(machine) && std::chrono::steady_clock::now() < end) std::this_thread::yield();
        CHECK_FALSE(lives(machine));
        for (const auto child : children) CHECK_FALSE(lives(child));
    }
}

TEST_CASE("a virtual machine runs its user data once, as root, and goes on when that ends") {
    const Folder folder;
    const TestSim sim([&](SimulatorOptions& o) {
        real(folder)(o);
        o.settings.lambda_silent = o.settings.lambda_boot = Millis{0};
        o.settings.vultr_pending = o.settings.vultr_install = o.settings.vultr_locked = Millis{0};
        o.vm_docker = "#!/bin/sh\necho \"docker $*\"\n";
    });
    REQUIRE(sim.lambda({.method = "POST",
                        .path = "/api/v1/ssh-keys",
                        .body = {{"name", "gf"}, {"public_key", "ssh-ed25519 AAAA gf"}}})
                .status == 200);
    // The script leaves one process behind, and an orphan that has ended.
    const std::string script =
        "#!/bin/sh\n"
        "echo \"uid $(id -u) home=${HOME-unset} in $(pwd)\"\n"
        "nvidia-smi -L\n"
        "setsid sleep 1005 </dev/null >/dev/null 2>&1 &\n"
        "(sleep 0 & exit) \n"
        "echo done\n";
    const auto launched = sim.lambda({.method = "POST",
                                      .path = "/api/v1/instance-operations/launch",
                                      .body = {{"region_name", "us-west-1"},
                                               {"instance_type_name", "gpu_1x_a10"},
                                               {"ssh_key_names", {"gf"}},
                                               {"hostname", "gf-vm"},
                                               {"user_data", script}}});
    REQUIRE_MESSAGE(launched.status == 200, launched.body);
    const auto id = launched.parsed()["data"]["instance_ids"][0].get<std::string>();
    wait_for(sim, "lambda", id, "done");
    const auto out = output(sim, "lambda", id);
    INFO(out);
    CHECK(out.contains("home=unset"));
    CHECK(out.contains("GPU 0: NVIDIA A10 (UUID: GPU-"));
    sim.until_phase(id, "running");
    const auto first = sim.machine(id)["pid"].get<pid_t>();
    if (isolated(sim)) {
        CHECK(out.contains("uid 0 home=unset in /\n"));
        // Only what was left behind still runs; what ended has been reaped.
        sim.until([&] { return descendants(first).size() == 1; }, "the script to end");
        const auto left = descendants(first).at(0);
        CHECK(lives(first));
        CHECK(lives(left));
        // At a restart everything dies and the user data is not run again.
        sim.order("settings", {{"lambda_restart_ms", 0}});
        CHECK(sim.lambda({.method = "POST",
                          .path = "/api/v1/instance-operations/restart",
                          .body = {{"instance_ids", {id}}}})
                  .status == 200);
        sim.until([&] { return sim.machine(id)["starts"] == 2; }, "the restart");
        sim.until_phase(id, "running");
        CHECK_FALSE(lives(left));
        CHECK_FALSE(lives(first));
        CHECK(output(sim, "lambda", id) == out);
    }
    const auto last = sim.machine(id)["pid"].get<pid_t>();
    CHECK(sim.lambda({.method = "POST",
                      .path = "/api/v1/instance-operations/terminate",
                      .body = {{"instance_ids", {id}}}})
              .status == 200);
    sim.until([&] { return !lives(last); }, "the end");

    // Vultr: halted by SIGTERM to every process, started again, installed anew.
    const std::string other =
        "#!/bin/sh\n(trap 'echo told; exit' TERM; echo up; while :; do sleep 0.1; done) &\n"
        "docker run x\necho $(cat /root/.ssh/authorized_keys)\n";
    const auto key = sim.vultr({.method = "POST",
                                .path = "/v2/ssh-keys",
                                .body = {{"name", "gf"}, {"ssh_key", "ssh-ed25519 BBBB gf"}}})
                         .parsed()["ssh_key"]["id"];
    const auto made = sim.vultr({.method = "POST",
                                 .path = "/v2/instances",
                                 .body = {{"region", "ewr"},
                                          {"plan", "vcg-a16-2c-8g-2vram"},
                                          {"os_id", 1743},
                                          {"hostname", "gf-vm"},
                                          {"sshkey_id", {key}},
                                          {"user_data", base64_encoded(other)}}});
    REQUIRE_MESSAGE(made.status == 202, made.body);
    const auto vm = made.parsed()["instance"]["id"].get<std::string>();
    wait_for(sim, "vultr", vm, "up");
    if (sim.state()["isolation"] == "namespaces") {
        wait_for(sim, "vultr", vm, "docker run x");
        wait_for(sim, "vultr", vm, "ssh-ed25519 BBBB gf");
    }
    const auto act = [&](const char* what) {
        return sim.vultr({.method = "POST", .path = "/v2/instances/" + vm + "/" + what}).status;
    };
    sim.until_phase(vm, "running");
    if (sim.state()["isolation"] != "namespaces") return;
    CHECK(act("halt") == 204);
    wait_for(sim, "vultr", vm, "told");
    sim.pass(6);
    sim.until_phase(vm, "stopped");
    CHECK(act("start") == 204);
    sim.pass(20);
    sim.until_phase(vm, "running");
    CHECK(act("reinstall") == 202);
    wait_for(sim, "vultr", vm, "up", 2);
}

TEST_CASE("a virtual machine without namespaces is a process tree that ends with it") {
    const Folder folder;
    const TestSim sim([&](SimulatorOptions& o) {
        real(folder, false)(o);
        o.settings.vultr_pending = o.settings.vultr_install = o.settings.vultr_locked = Millis{0};
    });
    const std::string script = "#!/bin/sh\nnvidia-smi -L\nsetsid sleep 1006 &\necho up\n";
    const auto made = sim.vultr({.method = "POST",
                                 .path = "/v2/instances",
                                 .body = {{"region", "ewr"},
                                          {"plan", "vcg-a16-2c-8g-2vram"},
                                          {"os_id", 1743},
                                          {"user_data", base64_encoded(script)}}});
    REQUIRE_MESSAGE(made.status == 202, made.body);
    const auto vm = made.parsed()["instance"]["id"].get<std::string>();
    wait_for(sim, "vultr", vm, "up");
    CHECK(output(sim, "vultr", vm).contains("NVIDIA A16-2C"));
    sim.until_phase(vm, "running");
    const auto pid = sim.machine(vm)["pid"].get<pid_t>();
    CHECK(lives(pid));
    CHECK(sim.vultr({.method = "DELETE", .path = "/v2/instances/" + vm}).status == 204);
    sim.until([&] { return !lives(pid); }, "the end");
}
