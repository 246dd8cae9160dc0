// An agent whose PATH begins with a docker of the tests (fake_docker.py): its engine runs beside the agent, not below it.
#pragma once
#include <nlohmann/json.hpp>
#include <sstream>

#include "agent/descriptor.hpp"
#include "agent_bench.hpp"
#include "tests/skip.hpp"

namespace gf::agent_test {

struct DockerBench : Bench {
    TemporaryFolder docker;
    std::optional<AgentProcess> engine;

    DockerBench() {
        fs::create_directories(docker.path() + "/bin");
        fs::create_directories(docker.path() + "/answers");
        fs::copy_file(GF_FAKE_DOCKER, docker.path() + "/bin/docker");
        const std::string start = docker.path() + "/start";
        std::ofstream(start) << "#!/bin/sh\nexec python3 " << GF_FAKE_DOCKER << " serve " << docker.path() << "\n";
        for (const auto& file : {start, docker.path() + "/bin/docker"}) fs::permissions(file, fs::perms(0755));
        env["PATH"] = docker.path() + "/bin:" + env["PATH"];
        engine.emplace(start, std::map<std::string, std::string>{{"PATH", env["PATH"]}});
        REQUIRE(eventually([&] { return fs::exists(docker.path() + "/ready"); }));
    }
    ~DockerBench() {
        engine->signal(SIGTERM);  // takes the containers along
        engine->wait(20);
    }

    [[nodiscard]] std::string file(const std::string& name) const {
        std::stringstream text;
        text << std::ifstream(docker.path() + "/" + name).rdbuf();
        return text.str();
    }
    /// The first process in the container, once it is there.
    [[nodiscard]] static pid_t first_process() {
        pid_t first = 0;
        REQUIRE(eventually([&] {
            for (const pid_t pid : processes_with("door.sock"))
                if (agent::read_small_file("/proc/" + std::to_string(pid) + "/comm") == "gpuferry-first\n") first = pid;
            return first > 0;
        }));
        return first;
    }
    void put(const std::string& name, const std::string& text) const { std::ofstream(docker.path() + "/" + name) << text; }
    /// What the next calls of a verb answer instead of working.
    void answer(const std::string& verb, const std::string& say, int code) const {
        std::ofstream(docker.path() + "/answers/" + verb, std::ios::app) << nlohmann::json{{"say", say}, {"code", code}}.dump() << "\n";
    }
    /// The arguments of each call of a verb ("run", "pull", "image").
    [[nodiscard]] std::vector<std::vector<std::string>> calls(const std::string& verb) const {
        std::vector<std::vector<std::string>> found;
        std::istringstream lines(file("calls.jsonl"));
        for (std::string line; std::getline(lines, line);) {
            const auto argv = nlohmann::json::parse(line).at("argv").get<std::vector<std::string>>();
            const bool with_config = argv.at(0) == "--config";
            if (argv.at(with_config ? 2 : 0) == verb) found.push_back(argv);
        }
        return found;
    }
    [[nodiscard]] bool no_container() const {
        return eventually([&] { return file("containers").empty(); });
    }
    std::vector<std::string> said(const std::string& phase) {
        std::vector<std::string> details;
        daemon.with([&](DaemonState& s) {
            for (const auto& m : s.messages)
                if (const auto* p = std::get_if<ap::Preparing>(&m.body); p && p->phase == phase) details.push_back(p->detail);
        });
        return details;
    }
};

inline ap::Lease contained_lease(std::string command) {
    ap::Lease lease = lease_of(std::move(command));
    lease.image = "ghcr.io/example/train:1";
    lease.container = true;
    return lease;
}

}  // namespace gf::agent_test
