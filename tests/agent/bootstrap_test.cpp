#include "agent/bootstrap.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "agent/descriptor.hpp"
#include "agent_process.hpp"
#include "checkpoints/digest.hpp"
#include "fake_daemon.hpp"

namespace gf::agent_test {
namespace {

namespace fs = std::filesystem;

std::string tool_path(const std::string& name) {
    for (const char* folder : {"/usr/bin/", "/bin/", "/usr/sbin/"})
        if (::access((folder + name).c_str(), X_OK) == 0) return folder + name;
    return {};
}

/// Runs the start script with a PATH of nothing but these tools. Waits for `done`, then ends what was started.
struct ScriptRun {
    TemporaryFolder folder;
    std::string marker{folder.path() + "/started"};
    FakeDaemon daemon;
    // The "agent" is small, but is fetched, checked and executed as the real one.
    std::string agent{"#!/bin/sh\n[ \"$1\" = --version ] && exit 0\necho \"$GPUFERRY_URL\" > " + marker + "\n"};
    std::string hash{checkpoints::sha256(agent).hex()};

    bool run(const std::string& shell, const std::string& url, const std::vector<std::string>& tools,
             const std::function<bool()>& done, int seconds = 30) {
        const std::string bin = folder.path() + "/bin";
        fs::create_directories(bin);
        for (const auto& tool : tools) {
            const auto path = tool_path(tool);
            REQUIRE_MESSAGE(!path.empty(), "scripts/install-deps brings " << tool);
            fs::create_symlink(path, bin + "/" + tool);
        }
        const std::string script = start_script({.url = url, .sha256 = hash});
        REQUIRE_FALSE(script.empty());
        const std::string path_entry = "PATH=" + bin, home = "HOME=" + folder.path();
        const auto shell_path = tool_path(shell);
        const pid_t pid = ::fork();
        if (pid == 0) {
            ::setsid();
            if (!std::getenv("GF_SHOW")) {
                ::close(2);
            }
            char* env[] = {const_cast<char*>(path_entry.c_str()), const_cast<char*>(home.c_str()), nullptr};
            if (shell == "busybox") {
                char* argv[] = {const_cast<char*>("sh"), const_cast<char*>("-c"), const_cast<char*>(script.c_str()), nullptr};
                ::execve(shell_path.c_str(), argv, env);
            } else {
                char* argv[] = {const_cast<char*>(shell.c_str()), const_cast<char*>("-c"), const_cast<char*>(script.c_str()), nullptr};
                ::execve(shell_path.c_str(), argv, env);
            }
            ::_exit(127);
        }
        const bool reached = eventually(done, seconds);
        ::kill(-pid, SIGKILL);
        ::waitpid(pid, nullptr, 0);
        for (const auto& entry : fs::directory_iterator("/tmp"))
            if (entry.path().filename() == ".gpuferry-agent." + std::to_string(pid)) fs::remove(entry.path());
        return reached;
    }
    bool started() const { return fs::exists(marker) && agent::read_small_file(marker).ends_with("\n"); }
};

TEST_CASE("the start script fits and takes nothing that needs quoting") {
    const std::string hash(64, 'a');
    const auto script = start_script({.url = "https://ferry-with-a-long-name.department.example.org:8471/some/prefix", .sha256 = hash});
    CHECK_FALSE(script.empty());
    CHECK(script.size() <= kStartScriptBytesMax);
    MESSAGE("start script: " << script.size() << " bytes");
    CHECK(script.find("http://ferry-with-a-long-name.department.example.org:8471/some/prefix/agent/bin/") != std::string::npos);
    CHECK(start_script({.url = "https://ferry.example.org", .sha256 = hash}).find("http://ferry.example.org:443/agent/bin/") != std::string::npos);
    for (const char* url : {"", "ferry.example.org", "ftp://x", "https://x/", "https://", "https://x;reboot", "https://$(id)", "https://a b",
                            "https://x:8x", "https://'x'"}) {
        CAPTURE(url);
        CHECK(start_script({.url = url, .sha256 = hash}).empty());
    }
    CHECK(start_script({.url = "https://x", .sha256 = "abc"}).empty());
    CHECK(start_script({.url = "https://x", .sha256 = std::string(64, 'A')}).empty());
}

TEST_CASE("each tool alone fetches the agent") {
    const std::vector<std::string> common{"sha256sum", "chmod", "rm", "sleep"};
    for (const std::string tool : {"curl", "wget", "python3", "perl", "bash", "busybox"}) {
        ScriptRun run;
        run.daemon.with([&](DaemonState& s) { s.binaries[run.hash] = run.agent; });
        auto tools = common;
        tools.push_back(tool);
        if (tool == "bash") tools.push_back("cat");
        CAPTURE(tool);
        CHECK(run.run("dash", run.daemon.url(), tools, [&] { return run.started(); }));
        CHECK(agent::read_small_file(run.marker) == run.daemon.url() + "\n");
    }
}

TEST_CASE("each tool alone checks the hash") {
    for (const std::string tool : {"sha256sum", "busybox", "shasum", "openssl", "python3", "perl"}) {
        ScriptRun run;
        run.daemon.with([&](DaemonState& s) { s.binaries[run.hash] = run.agent; });
        std::vector<std::string> tools{"curl", "chmod", "rm", "sleep", tool};
        if (tool == "shasum") tools.push_back("perl");
        CAPTURE(tool);
        CHECK(run.run("dash", run.daemon.url(), tools, [&] { return run.started(); }));
    }
}

TEST_CASE("other shells understand the script") {
    for (const std::string shell : {"bash", "busybox"}) {
        ScriptRun run;
        run.daemon.with([&](DaemonState& s) { s.binaries[run.hash] = run.agent; });
        CAPTURE(shell);
        CHECK(run.run(shell, run.daemon.url(), {"curl", "sha256sum", "chmod", "rm", "sleep"}, [&] { return run.started(); }));
    }
}

TEST_CASE("an https address falls back to plain HTTP on the same port, where the hash is the trust") {
    for (const std::string tool : {"curl", "wget", "python3", "perl"}) {
        ScriptRun run;
        run.daemon.with([&](DaemonState& s) { s.binaries[run.hash] = run.agent; });
        auto url = run.daemon.url();
        url.replace(0, 4, "https");
        CAPTURE(tool);
        CHECK(run.run("dash", url, {tool, "sha256sum", "chmod", "rm", "sleep"}, [&] { return run.started(); }));
    }
}

TEST_CASE("bytes with another hash are never run, and the script goes on trying") {
    ScriptRun run;
    run.daemon.with([&](DaemonState& s) { s.binaries[run.hash] = run.agent + "# changed on the way\n"; });
    bool asked_often = false;
    run.run("dash", run.daemon.url(), {"curl", "sha256sum", "chmod", "rm", "sleep"}, [&] {
        run.daemon.with([&](DaemonState& s) { asked_often = s.binary_requests > 8; });
        return asked_often || run.started();
    });
    CHECK(asked_often);
    CHECK_FALSE(run.started());
}

TEST_CASE("a daemon that comes up later is reached") {
    ScriptRun run;
    run.daemon.with([&](DaemonState& s) { s.binaries[run.hash] = run.agent; });
    run.daemon.away();
    int looks = 0;
    CHECK(run.run("dash", run.daemon.url(), {"curl", "sha256sum", "chmod", "rm", "sleep"}, [&] {
        if (++looks == 50) run.daemon.back();
        return run.started();
    }));
}

}  // namespace
}  // namespace gf::agent_test
