#include <doctest/doctest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/command_run.hpp"
#include "tests/cli/scripted_server.hpp"

using namespace gf::test;

namespace {

bool holds(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

std::int64_t offset_in(const Request& request) {
    const auto at = request.target.find("offset=");
    return at == std::string::npos ? 0 : std::stoll(request.target.substr(at + 7));
}

std::string message(std::int64_t from, std::int64_t end, const std::string& text) {
    const nlohmann::json data{{"attempt", 1}, {"offset", from}, {"text", text}};
    return "id: " + std::to_string(end) + "\ndata: " + data.dump() + "\n\n";
}

void open_stream(Wire& wire) {
    wire.raw(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\nretry: 1000\n\n");
}

void end_stream(Wire& wire, std::int64_t at) {
    wire.raw("id: " + std::to_string(at) + "\nevent: end\ndata: {}\n\n");
    wire.cut();
}

}  // namespace

TEST_CASE("logs prints the raw bytes") {
    const std::string bytes(
        "a\x00\xff\xfe"
        "b\r\n",
        7);
    const ScriptedServer server([&](const Request&, Wire& wire) { wire.reply(200, bytes, "text/plain"); });
    const auto ran = run_command({"logs", "job_1"}, {.url = server.url()});
    CHECK(ran.status == 0);
    CHECK(ran.out == bytes);
}

TEST_CASE("a followed log that is cut anywhere comes out whole, no byte twice") {
    std::string log;
    for (int i = 0; i < 40; ++i) log += "line " + std::to_string(i) + " ü 🎤 \"quoted\" \\ \r\n";
    for (const std::size_t step : {1U, 7U, 64U}) {
        for (const std::size_t per_connection : {1U, 5U, 1000U}) {
            if (step == 1 && per_connection == 1) continue;  // thousands of connections; the others cover it
            CAPTURE(step);
            CAPTURE(per_connection);
            const ScriptedServer server([&](const Request& request, Wire& wire) {
                open_stream(wire);
                auto at = static_cast<std::size_t>(offset_in(request));
                for (std::size_t sent = 0; sent < per_connection && at < log.size(); ++sent) {
                    auto end = std::min(log.size(), at + step);
                    // The daemon never cuts inside a character.
                    while (end < log.size() && (static_cast<unsigned char>(log[end]) & 0xC0U) == 0x80U) ++end;
                    wire.raw(message(static_cast<std::int64_t>(at), static_cast<std::int64_t>(end),
                                     log.substr(at, end - at)));
                    at = end;
                }
                if (at == log.size()) return end_stream(wire, static_cast<std::int64_t>(at));
                wire.raw("id: 1\ndata: {\"half");  // cut in the middle of an event
                wire.cut();
            });
            const auto ran = run_command({"logs", "--follow", "job_1"}, {.url = server.url()});
            CHECK(ran.status == 0);
            CHECK(ran.out == log);
        }
    }
}

TEST_CASE("pieces that come again after a reconnect are dropped") {
    int connection = 0;
    const ScriptedServer server([&](const Request&, Wire& wire) {
        open_stream(wire);
        wire.raw(message(0, 5, "hello"));
        if (++connection == 1) return wire.cut();
        wire.raw(message(3, 9, "lo wor"));
        end_stream(wire, 9);
    });
    CHECK(run_command({"logs", "-f", "job_1"}, {.url = server.url()}).out == "hello wor");
}

TEST_CASE("followed with --json each message is an object on a line of its own") {
    int connection = 0;
    const ScriptedServer server([&](const Request&, Wire& wire) {
        open_stream(wire);
        wire.raw(message(0, 6, "hello\n"));
        if (++connection == 1) return wire.cut();
        wire.raw(message(6, 9, "\xEF\xBF\xBD\n"));
        end_stream(wire, 9);
    });
    const auto ran = run_command({"--json", "logs", "-f", "job_1"}, {.url = server.url()});
    CHECK(ran.status == 0);
    CHECK(ran.out == "{\"attempt\":1,\"offset\":0,\"text\":\"hello\\n\"}\n{\"attempt\":1,\"offset\":6,\"text\":\"\xEF\xBF\xBD\\n\"}\n");
    for (const auto& request : server.seen()) CHECK(holds(request.target, "follow=1"));  // nothing is fetched raw
}

TEST_CASE("with --json the lines of all pages are one list") {
    const ScriptedServer server([&](const Request& request, Wire& wire) {
        const auto at = offset_in(request);
        auto items = nlohmann::json::array();
        for (auto i = at; i < std::min<std::int64_t>(at + 2, 5); ++i) items.push_back({{"attempt", 1}, {"offset", i}, {"text", ""}});
        const auto next = at + static_cast<std::int64_t>(items.size());
        wire.reply(200, nlohmann::json{{"items", items}, {"next_offset", next}, {"over", next == 5}, {"next_cursor", nullptr}}.dump());
    });
    const auto ran = run_command({"--json", "logs", "job_1"}, {.url = server.url()});
    CHECK(ran.status == 0);
    const auto whole = nlohmann::json::parse(ran.out);
    CHECK(whole.at("items").size() == 5);
    CHECK(whole.at("items").at(4).at("offset") == 4);
    CHECK(whole.at("next_offset") == 5);
    CHECK(whole.at("over") == true);
    const auto nothing = run_command({"--json", "logs", "--offset", "5", "job_1"}, {.url = server.url()});
    CHECK(nlohmann::json::parse(nothing.out).at("items").empty());
}

TEST_CASE("bytes that are no UTF-8 are fetched raw, and so is a real U+FFFD") {
    const std::string raw = "ok \xff\xfe x \xEF\xBF\xBD tail";
    const auto end = static_cast<std::int64_t>(raw.size());
    const ScriptedServer server([&](const Request& request, Wire& wire) {
        if (!holds(request.target, "follow=1"))
            return wire.reply(
                200, raw.substr(static_cast<std::size_t>(offset_in(request))) + " more that came since",
                "text/plain");
        open_stream(wire);
        wire.raw(message(0, 3, "ok "));
        wire.raw(message(3, end - 5, "\xEF\xBF\xBD\xEF\xBF\xBD x \xEF\xBF\xBD"));
        wire.raw(message(end - 5, end, " tail"));
        end_stream(wire, end);
    });
    const auto ran = run_command({"logs", "-f", "job_1"}, {.url = server.url()});
    CHECK(ran.status == 0);
    CHECK(ran.out == raw);
}

TEST_CASE("a gap in the messages is filled from the raw log, not skipped") {
    const std::string raw = "0123456789";
    const ScriptedServer server([&](const Request& request, Wire& wire) {
        if (!holds(request.target, "follow=1"))
            return wire.reply(200, raw.substr(static_cast<std::size_t>(offset_in(request))), "text/plain");
        open_stream(wire);
        wire.raw(message(0, 2, "01"));
        wire.raw(message(6, 10, "6789"));
        end_stream(wire, 10);
    });
    CHECK(run_command({"logs", "-f", "job_1"}, {.url = server.url()}).out == raw);
}

TEST_CASE("the follower outlives a daemon that is away, and says so once") {
    std::atomic<int> calls{0};
    const ScriptedServer server([&](const Request& request, Wire& wire) {
        const int call = ++calls;
        if (call > 1 && call < 5) return wire.cut();
        if (call == 5) return wire.reply(503, R"({"detail":"starting"})", "application/problem+json");
        open_stream(wire);
        if (call == 1) {
            wire.raw(message(0, 2, "ab"));
            return wire.cut();
        }
        CHECK(offset_in(request) == 2);
        wire.raw(message(2, 4, "cd"));
        end_stream(wire, 4);
    });
    const auto ran = run_command({"logs", "-f", "job_1"}, {.url = server.url()});
    CHECK(ran.status == 0);
    CHECK(ran.out == "abcd");
    CHECK(holds(ran.err, "connecting again at byte 2"));
    CHECK(ran.err.find("log cut") == ran.err.rfind("log cut"));
}

TEST_CASE("a follower whose daemon never comes back gives up with 120") {
    std::atomic<int> calls{0};
    const ScriptedServer server([&](const Request&, Wire& wire) {
        ++calls;
        wire.cut();
    });
    const auto ran = run_command({"logs", "-f", "job_1"}, {.url = server.url()});
    CHECK(ran.status == 120);
    CHECK(calls > 50);
    CHECK(calls < 500);
}

TEST_CASE("refusals and nonsense end the following") {
    struct Row {
        std::string what;
        ScriptedServer::Script script;
        int status;
    };
    const Row rows[] = {
        {"no such job",
         [](const Request&, Wire& w) { w.reply(404, R"({"detail":"no"})", "application/problem+json"); }, 1},
        {"no access",
         [](const Request&, Wire& w) { w.reply(401, R"({"detail":"no"})", "application/problem+json"); },
         121},
        {"not JSON",
         [](const Request&, Wire& w) {
             open_stream(w);
             w.raw("id: 3\ndata: abc\n\n");
             w.hang();
         },
         123},
        {"no id",
         [](const Request&, Wire& w) {
             open_stream(w);
             w.raw("data: {\"offset\":0,\"text\":\"abc\"}\n\n");
             w.hang();
         },
         123},
        {"an id that is none",
         [](const Request&, Wire& w) {
             open_stream(w);
             w.raw("id: -3\ndata: {\"offset\":0,\"text\":\"a\"}\n\n");
             w.hang();
         },
         123},
        {"an end before the start",
         [](const Request&, Wire& w) {
             open_stream(w);
             w.raw(message(9, 3, "a"));
             w.hang();
         },
         123},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        const ScriptedServer server(row.script);
        CHECK(run_command({"logs", "-f", "job_1"}, {.url = server.url()}).status == row.status);
    }
}

TEST_CASE("Ctrl-C detaches from a silent log at once and says that the job goes on") {
    std::atomic<bool> interrupted{false};
    const ScriptedServer server([&](const Request&, Wire& wire) {
        open_stream(wire);
        wire.raw(message(0, 2, "ab"));
        interrupted = true;
        wire.hang();
    });
    const auto ran = run_command({"logs", "-f", "job_1"}, {.url = server.url(), .interrupted = &interrupted});
    CHECK(ran.status == 0);
    CHECK(holds(ran.err, "detached; the job goes on"));
}

TEST_CASE("a job and attempt are asked for as given") {
    const ScriptedServer server([](const Request&, Wire& wire) {
        open_stream(wire);
        end_stream(wire, 7);
    });
    CHECK(run_command({"logs", "-f", "job_1", "--attempt", "2", "--offset", "7"}, {.url = server.url()})
              .status == 0);
    CHECK(server.seen().at(0).target == "/v1/jobs/job_1/logs?attempt=2&offset=7&follow=1&format=json");
}
