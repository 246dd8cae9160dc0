#include <doctest/doctest.h>

#include "agent/command.hpp"
#include "agent/cuda_probe.hpp"
#include "agent/machine_report.hpp"
#include "agent/monitor.hpp"
#include "agent/nvidia_smi.hpp"
#include "agent/processes.hpp"
#include "agent/system_figures.hpp"
#include "agent/user_account.hpp"
#include "agent_process.hpp"
#include "model/bytes.hpp"

#include <signal.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

namespace gf::agent {
namespace {

TEST_CASE("nvidia-smi's table of GPUs is read, its error texts are not") {
    const auto gpus = parse_gpu_reports(
        "NVIDIA GeForce RTX 4090, 24564, 560.35.03, GPU-6f1a\nNVIDIA A100-SXM4-80GB, 81920, 560.35.03, GPU-7b\r\n");
    REQUIRE(gpus.size() == 2);
    CHECK(gpus[0].name == "NVIDIA GeForce RTX 4090");
    CHECK(gpus[0].memory_bytes == 24'564 * kMiB);
    CHECK(gpus[0].driver == "560.35.03");
    CHECK(gpus[1].uuid == "GPU-7b");
    CHECK(parse_gpu_reports("No devices were found\n").empty());
    CHECK(parse_gpu_reports("").empty());
    const auto unknown = parse_gpu_reports("NVIDIA, [N/A], 1, x\n");
    REQUIRE(unknown.size() == 1);
    CHECK(unknown[0].memory_bytes == 0);
}

TEST_CASE("a sample that the card does not give is unknown and not zero") {
    const auto full = parse_gpu_sample("1, 97, 20480, 71");
    REQUIRE(full.has_value());
    CHECK(full->index == 1);
    CHECK(full->sample.util_percent == 97);
    CHECK(full->sample.memory_used == 20'480 * kMiB);
    CHECK(full->sample.temperature_c == 71);
    const auto partial = parse_gpu_sample("0, [N/A], [Unknown Error], 50");
    REQUIRE(partial.has_value());
    CHECK(partial->sample.util_percent == -1);
    CHECK(partial->sample.memory_used == -1);
    CHECK_FALSE(parse_gpu_sample("Unable to determine the device handle").has_value());
    CHECK_FALSE(parse_gpu_sample("-1, 1, 1, 1").has_value());
}

TEST_CASE("the highest memory of a GPU is kept until an attempt begins") {
    const agent_test::TemporaryFolder folder;
    // Goes up and down again, and says one more thing when the file is there.
    std::ofstream(folder.path() + "/nvidia-smi") << "#!/bin/sh\nprintf '0, 5, 100, 40\\n1, 5, [N/A], 40\\n0, 90, 300, 60\\n0, 7, 200, 50\\n'\n"
                                                 << "until test -e " << folder.path() << "/more; do sleep 0.05; done\n"
                                                 << "printf '0, 8, 250, 50\\n'\nexec sleep 60\n";
    ::chmod((folder.path() + "/nvidia-smi").c_str(), 0755);
    set_command_environment({{"PATH", folder.path() + ":/usr/bin:/bin"}});
    {
        Monitor monitor(folder.path(), true);
        const auto used = [&](std::int64_t mib) {
            agent_protocol::Heartbeat beat;
            for (int i = 0; i < 1200; ++i) {
                beat = monitor.sample();
                if (!beat.gpus.empty() && beat.gpus[0].memory_used == mib * kMiB) break;
                std::this_thread::sleep_for(Millis{50});
            }
            REQUIRE(!beat.gpus.empty());
            REQUIRE(beat.gpus[0].memory_used == mib * kMiB);
            return beat;
        };
        const auto first = used(200);
        CHECK(first.gpus[0].memory_peak == 300 * kMiB);
        REQUIRE(first.gpus.size() == 2);
        CHECK(first.gpus[1].memory_peak == -1);  // the card does not tell
        monitor.forget_peaks();
        std::ofstream(folder.path() + "/more") << "x";
        CHECK(used(250).gpus[0].memory_peak == 250 * kMiB);
    }
    set_command_environment({{"PATH", "/usr/bin:/bin"}});
}

TEST_CASE("figures of /proc and of the cgroup are read") {
    const auto cpu = parse_cpu_times("cpu  10 1 5 80 4 0 0 0 3 0\ncpu0 1 1 1 1\n");
    CHECK(cpu.all == 100);
    CHECK(cpu.busy == 16);
    const auto net = parse_net_figures(
        "Inter-|   Receive\n face |bytes\n    lo: 99 1 0 0 0 0 0 0 99 1 0 0 0 0 0 0\n  eth0: 1000 2 0 0 0 0 0 0 500 2 0 0 0 0 0 0\n"
        "eth1:7 2 0 0 0 0 0 0 3 2 0 0 0 0 0 0\n");
    CHECK(net.rx == 1007);
    CHECK(net.tx == 503);
    CHECK(meminfo_bytes("MemTotal:       1024 kB\nMemFree: 5 kB\n", "MemTotal") == 1024 * 1024);
    CHECK(meminfo_bytes("MemFree: 5 kB\n", "MemTotal") == -1);
    CHECK(parse_cpu_max("150000 100000\n") == doctest::Approx(1.5));
    CHECK(parse_cpu_max("max 100000\n") == 0);
    CHECK(parse_cpu_max("") == 0);
}

TEST_CASE("this machine has CPUs, memory and disk") {
    CHECK(usable_cpus() > 0);
    CHECK(memory_total() > 64 * kMiB);
    CHECK(memory_used() > 0);
    CHECK(memory_used() < 1LL << 50);
    CHECK(disk_figures("/").total > 0);
    CHECK(disk_figures("/nonexistent").total == 0);
    CHECK(cpu_times().all > 0);
    CHECK(oom_kill_count() >= 0);
}

TEST_CASE("the CUDA probe's words are read") {
    const auto ok = read_cuda_probe("driver 12080\ncount 2\nname A\nmemory 7\nname B C\nmemory 8\nresult 0\n", 0, false);
    CHECK(ok.result == "ok");
    CHECK(ok.version == "12.8");
    CHECK(ok.devices == 2);
    CHECK(ok.names == std::vector<std::string>{"A", "B C"});
    CHECK(ok.memory_bytes == std::vector<std::int64_t>{7, 8});
    CHECK(read_cuda_probe("result 802\n", 1 << 8, false).result == "error_802");
    CHECK(read_cuda_probe("driver 12080\nresult 100\n", 1 << 8, false).result == "error_100");
    CHECK(read_cuda_probe("", 127 << 8, false).result == "no_libcuda");
    CHECK(read_cuda_probe("", -1, true).result == "no_loader");
    CHECK(read_cuda_probe("", -1, false).result == "not_run");
    CHECK(read_cuda_probe("driver 1\n", -2, false).result == "error_timeout");
    CHECK(read_cuda_probe("", SIGSEGV, false).result == "error_signal_11");
}

TEST_CASE("the CUDA probe finds the host's libcuda through the host's loader") {
    set_command_environment({{"LD_LIBRARY_PATH", GF_FAKE_CUDA_OK}});
    auto probe = run_cuda_probe(Millis{20'000});
    CHECK(probe.result == "ok");
    CHECK(probe.devices == 2);
    CHECK(probe.version == "12.8");
    CHECK(probe.names == std::vector<std::string>{"NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090"});
    set_command_environment({{"LD_LIBRARY_PATH", GF_FAKE_CUDA_802}});
    probe = run_cuda_probe(Millis{20'000});
    CHECK(probe.result == "error_802");
    set_command_environment({{"LD_LIBRARY_PATH", GF_FAKE_CUDA_HANGS}});
    probe = run_cuda_probe(Millis{300});
    CHECK(probe.result == "error_timeout");
    set_command_environment({});
}

TEST_CASE("commands are run, bounded in time, and told apart from those that are not there") {
    set_command_environment({{"PATH", "/usr/bin:/bin"}, {"KEPT", "1"}, {"RUNPOD_API_KEY", "secret"}});
    const auto ran = run_command("sh", {"-c", "echo $KEPT-$RUNPOD_API_KEY-$LC_ALL; exit 3"}, Millis{20'000});
    CHECK(ran.started);
    CHECK(ran.output == "1--C\n");
    CHECK(ran.wait_status == 3 << 8);
    const auto slow = run_command("sleep", {"600"}, Millis{100});
    CHECK(slow.timed_out);
    const auto missing = run_command("gf-no-such-program", {}, Millis{1000});
    CHECK_FALSE(missing.started);
    set_command_environment({});
}

TEST_CASE("users are found by name and by number") {
    const std::string passwd = "root:x:0:0:root:/root:/bin/sh\nbroken\nworker:x:1001:1002:Worker,,,:/home/w:/bin/sh\n";
    const std::string group = "root:x:0:\nworker:x:1002:\nvideo:x:44:worker,other\nrender:x:105:other\n";
    const auto named = find_user("worker", passwd, group);
    REQUIRE(named.has_value());
    CHECK(named->uid == 1001);
    CHECK(named->gid == 1002);
    CHECK(named->groups == std::vector<unsigned>{1002, 44});
    CHECK(named->home == "/home/w");
    const auto grouped = find_user("worker:video", passwd, group);
    REQUIRE(grouped.has_value());
    CHECK(grouped->gid == 44);
    const auto number = find_user("5000:6000", passwd, group);
    REQUIRE(number.has_value());
    CHECK(number->uid == 5000);
    CHECK(number->gid == 6000);
    CHECK(find_user("1001", passwd, group)->name == "worker");
    CHECK_FALSE(find_user("nobody-here", passwd, group).has_value());
    CHECK_FALSE(find_user("worker:no-group", passwd, group).has_value());
    CHECK_FALSE(find_user("", passwd, group).has_value());
}

TEST_CASE("signals have names and numbers") {
    CHECK(signal_number("SIGTERM") == SIGTERM);
    CHECK(signal_number("usr1") == SIGUSR1);
    CHECK(signal_number("INT") == SIGINT);
    CHECK(signal_number("10") == 10);
    for (const char* bad : {"", "SIG", "TERMINATE", "0", "-9", "65", "9x"}) CHECK(signal_number(bad) == 0);
}

}  // namespace
}  // namespace gf::agent
