#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/command_run.hpp"
#include "tests/cli/scripted_server.hpp"

using namespace gf::test;

namespace {

namespace fs = std::filesystem;

bool holds(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

struct Published {
    std::string path;
    std::string bytes;
    std::string sent;    // what really comes, where that differs
    std::string sha256;  // what the list says, where that differs
    bool executable{false};
};

/// Serves the list and the files.
ScriptedServer::Script publishing(std::vector<Published> files) {
    return [files = std::move(files)](const Request& request, Wire& wire) {
        constexpr std::string_view kFiles = "/v1/jobs/job_1/outputs/files/";
        if (request.path() == "/v1/jobs/job_1/outputs") {
            nlohmann::json items = nlohmann::json::array();
            for (const auto& f : files)
                items.push_back({{"path", f.path},
                                 {"bytes", f.bytes.size()},
                                 {"executable", f.executable},
                                 {"sha256", f.sha256.empty() ? sha256_hex(f.bytes) : f.sha256}});
            wire.reply(200, nlohmann::json{{"items", items}, {"next_cursor", nullptr}}.dump());
            return;
        }
        for (const auto& f : files)
            if (request.path() == std::string(kFiles) + f.path) {
                wire.reply(200, f.sent.empty() ? f.bytes : f.sent, "application/octet-stream");
                return;
            }
        wire.reply(404, R"({"detail":"no such file"})", "application/problem+json");
    };
}

/// Every name below a folder.
std::vector<std::string> names_below(const std::string& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
        names.push_back(entry.path().string().substr(folder.size() + 1));
    std::sort(names.begin(), names.end());
    return names;
}

}  // namespace

TEST_CASE("outputs come complete, verified and with their folders") {
    const TemporaryFolder folder;
    const std::string big(3 << 20, '\xA5');
    const ScriptedServer server(publishing({{"out/model.bin", big, {}, {}, false},
                                            {"run.sh", "#!/bin/sh\n", {}, {}, true},
                                            {"empty", "", {}, {}, false}}));
    const auto ran = run_command({"outputs", "get", "job_1", folder.path() + "/new"}, {.url = server.url()});
    CAPTURE(ran.err);
    CHECK(ran.status == 0);
    CHECK(holds(ran.out, "3 files"));
    CHECK(read_file(folder.path() + "/new/out/model.bin") == big);
    CHECK((fs::status(folder.path() + "/new/run.sh").permissions() & fs::perms::owner_exec) !=
          fs::perms::none);
    CHECK(names_below(folder.path() + "/new") ==
          std::vector<std::string>{"empty", "out", "out/model.bin", "run.sh"});

    SUBCASE("what is there already is not fetched again; what differs is replaced only by --force") {
        folder.write("new/run.sh", "changed");
        std::filesystem::remove(folder.path() + "/new/empty");
        const auto refused =
            run_command({"outputs", "get", "job_1", folder.path() + "/new"}, {.url = server.url()});
        CHECK(refused.status == 1);
        CHECK(holds(refused.err, "already there with other content: run.sh;"));
        CHECK(read_file(folder.path() + "/new/run.sh") == "changed");
        CHECK_FALSE(fs::exists(folder.path() + "/new/empty"));
        folder.write("new/empty", "");
        const auto before = server.seen().size();
        const auto again =
            run_command({"outputs", "get", "--force", "job_1", folder.path() + "/new"}, {.url = server.url()});
        CHECK(again.status == 0);
        CHECK(server.seen().size() == before + 2);  // the list and one file
        CHECK(read_file(folder.path() + "/new/run.sh") == "#!/bin/sh\n");
    }
}

TEST_CASE("a list that names a place outside the folder writes nothing at all") {
    for (const std::string bad :
         {"../escaped", "/tmp/gpuferry-escaped", "a/../../escaped", "a//b", "", "."}) {
        CAPTURE(bad);
        const TemporaryFolder folder;
        const ScriptedServer server(publishing({{"good", "1", {}, {}, false}, {bad, "evil", {}, {}, false}}));
        const auto ran =
            run_command({"outputs", "get", "job_1", folder.path() + "/in"}, {.url = server.url()});
        CHECK(ran.status == 1);
        CHECK(names_below(folder.path()).empty());
    }
}

TEST_CASE("a link inside the folder does not lead the files elsewhere") {
    const TemporaryFolder folder;
    const TemporaryFolder elsewhere;
    REQUIRE(symlink(elsewhere.path().c_str(), (folder.path() + "/out").c_str()) == 0);
    const auto victim = elsewhere.write("victim", "untouched");
    REQUIRE(symlink(victim.c_str(), (folder.path() + "/plain").c_str()) == 0);
    const ScriptedServer server(publishing({{"out/x", "evil", {}, {}, false}}));
    const auto ran = run_command({"outputs", "get", "job_1", folder.path()}, {.url = server.url()});
    CHECK(ran.status == 1);
    CHECK(names_below(elsewhere.path()) == std::vector<std::string>{"victim"});
    // A link in the place of a file is replaced by the file when told so; what it pointed at stays as it was.
    const ScriptedServer other(publishing({{"plain", "new", {}, {}, false}}));
    CHECK(run_command({"outputs", "get", "job_1", folder.path()}, {.url = other.url()}).status == 1);
    CHECK(run_command({"outputs", "get", "--force", "job_1", folder.path()}, {.url = other.url()}).status == 0);
    CHECK(read_file(victim) == "untouched");
    CHECK(read_file(folder.path() + "/plain") == "new");
}

TEST_CASE("wrong bytes are not kept, and a good old file stays") {
    struct Row {
        std::string what;
        Published file;
        const char* said;
    };
    const Row rows[] = {
        {"other bytes of the same size", {"f", "right", "wrong", {}, false}, "SHA-256"},
        {"too short", {"f", "right", "rig", {}, false}, "3 bytes came"},
        {"too long", {"f", "right", "right and more", {}, false}, "more bytes came"},
        {"a hash that is none", {"f", "right", {}, "abc", false}, "cannot be written"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        const TemporaryFolder folder;
        folder.write("f", "old one");
        const ScriptedServer server(publishing({row.file}));
        const auto ran = run_command({"outputs", "get", "--force", "job_1", folder.path()}, {.url = server.url()});
        CAPTURE(ran.err);
        CHECK(ran.status == 1);
        CHECK(holds(ran.err, row.said));
        CHECK(read_file(folder.path() + "/f") == "old one");
        CHECK(names_below(folder.path()) == std::vector<std::string>{"f"});
    }
}

TEST_CASE("a connection cut in a file leaves no half file") {
    const TemporaryFolder folder;
    const ScriptedServer server([](const Request& request, Wire& wire) {
        if (request.path() == "/v1/jobs/job_1/outputs") {
            wire.reply(200,
                       R"({"items":[{"path":"f","bytes":5,"sha256":")" + sha256_hex("right") + R"("}]})");
            return;
        }
        wire.raw("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nri");
        wire.cut();
    });
    CHECK(run_command({"outputs", "get", "job_1", folder.path()}, {.url = server.url()}).status == 120);
    CHECK(names_below(folder.path()).empty());
}

TEST_CASE("Ctrl-C in a file leaves no half file") {
    const TemporaryFolder folder;
    std::atomic<bool> interrupted{false};
    const ScriptedServer server([&](const Request& request, Wire& wire) {
        if (request.path() == "/v1/jobs/job_1/outputs")
            return wire.reply(200, R"({"items":[{"path":"f","bytes":5,"sha256":")" + sha256_hex("right") + R"("}]})");
        wire.raw("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nri");
        interrupted = true;
        wire.hang();
    });
    const auto ran = run_command({"outputs", "get", "job_1", folder.path()}, {.url = server.url(), .interrupted = &interrupted});
    CHECK(ran.status == 130);
    CHECK(names_below(folder.path()).empty());
}

TEST_CASE("a job without outputs says so") {
    const TemporaryFolder folder;
    const ScriptedServer server(publishing({}));
    CHECK(run_command({"outputs", "get", "job_1", folder.path()}, {.url = server.url()}).status == 1);
    CHECK(run_command({"outputs", "list", "job_1"}, {.url = server.url()}).status == 0);
}
