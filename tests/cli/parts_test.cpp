// The small readers and printers: tables, texts made safe, events, dates, addresses, problems.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/client.hpp"
#include "cli/endpoint.hpp"
#include "cli/json_read.hpp"
#include "cli/output_fetch.hpp"
#include "cli/problem.hpp"
#include "cli/sse.hpp"
#include "cli/table.hpp"
#include "tests/cli/scripted_server.hpp"

using namespace gf::cli;

namespace {

struct Streams {
    std::istringstream in;
    std::ostringstream out, err;
    std::map<std::string, std::string> variables;
    Environment env{
        .in = in, .out = out, .err = err, .variable = [this](const char* name) -> std::optional<std::string> {
            const auto found = variables.find(name);
            return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
        }};
};

}  // namespace

TEST_CASE("text from elsewhere cannot move the cursor, turn the writing or break a line") {
    CHECK(shown("plain ü 日本 🎤") == "plain ü 日本 🎤");
    CHECK(shown("a\x1b[2Jb") == "a\\x1b[2Jb");
    CHECK(shown("a\nb\tc") == "a\\x0ab\\x09c");
    CHECK(shown(std::string("nul\0x", 5)) == "nul\\x00x");
    CHECK(shown("\u202egnp.exe") == "\\u{202e}gnp.exe");
    CHECK(shown("bad \xff\xc0\xaf") == "bad \\xff\\xc0\\xaf");
    CHECK(shown("\xed\xa0\x80") == "\\xed\\xa0\\x80");
    CHECK(shown("\xc2\x9b") == "\\x9b");
}

TEST_CASE("widths count what a terminal shows") {
    CHECK(display_width("abc") == 3);
    CHECK(display_width("äöü") == 3);
    CHECK(display_width("日本") == 4);
    CHECK(display_width("🎤") == 2);
    CHECK(display_width("e\u0301") == 1);
}

TEST_CASE("a table lines up, is plain in a pipe and fits a terminal") {
    Streams s;
    Table table({"NAME", ">COST"});
    table.add({{"a"}, {"$1.00", Colour::good}});
    table.add({{"länger"}, {"$10.00"}});
    CHECK(table.print(Style(s.env)) == "NAME      COST\na        $1.00\nlänger  $10.00\n");

    s.env.out_is_terminal = true;
    s.env.columns = 40;
    Table wide({"A", "B"});
    wide.add({{std::string(60, 'x')}, {"y"}});
    const auto fitted = wide.print(Style(s.env));
    std::istringstream lines(fitted);
    for (std::string line; std::getline(lines, line);)
        CHECK(display_width(line) <= 40 + 20);  // 20 for colour codes
    CHECK(fitted.find("…") != std::string::npos);
    CHECK(fitted.find("\x1b[1m") != std::string::npos);

    s.variables["NO_COLOR"] = "1";
    CHECK(wide.print(Style(s.env)).find('\x1b') == std::string::npos);
}

TEST_CASE("a narrow terminal goes without the columns that one can do without, and says which") {
    Streams s;
    s.variables["NO_COLOR"] = "1";
    s.env.out_is_terminal = true;
    s.env.columns = 50;
    Table table({"OFFER", "SPOT", ">$/H", ">CPUS", "REGION"}, {false, false, false, true, true});
    const std::string id = "on_demand/1844000123456789";
    table.add({{id}, {"yes"}, {"$0.10"}, {"16"}, {"Quebec, Canada, North America"}});
    const auto narrow = table.print(Style(s.env));
    CHECK(narrow.find(id) != std::string::npos);
    CHECK(narrow.find("Quebec") == std::string::npos);
    CHECK(narrow.find("CPUS\n") != std::string::npos);
    CHECK(narrow.find("not shown: REGION;") != std::string::npos);
    s.env.columns = 120;
    CHECK(table.print(Style(s.env)).find("not shown") == std::string::npos);
    s.env.out_is_terminal = false;
    s.env.columns = 50;
    CHECK(table.print(Style(s.env)).find("North America") != std::string::npos);
}

TEST_CASE("an event stream reads the same however it is cut") {
    const std::string stream =
        ": hello\r\n\r\nid: 7\r\nevent: log\r\ndata: one\r\ndata: two\r\n\r\ndata:x\n\nevent: "
        "end\ndata:\n\nid: 9\n\ndata\n\n";
    const auto read = [&](std::size_t step) {
        std::vector<SseEvent> events;
        SseReader reader;
        for (std::size_t at = 0; at < stream.size(); at += step)
            CHECK(reader.feed(std::string_view(stream).substr(at, step), [&](const SseEvent& e) {
                events.push_back(e);
                return true;
            }));
        return events;
    };
    for (std::size_t step = 1; step <= stream.size(); ++step) {
        const auto events = read(step);
        REQUIRE(events.size() == 4);
        CHECK(events[0].name == "log");
        CHECK(events[0].id == "7");
        CHECK(events[0].data == "one\ntwo");
        CHECK(events[1].name == "message");
        CHECK(events[1].data == "x");
        CHECK(events[2].name == "end");
        CHECK(events[3].data.empty());
    }
}

TEST_CASE("an endless event line ends the reading instead of the memory") {
    SseReader reader;
    const std::string piece(1 << 20, 'x');
    bool going = true;
    int pieces = 0;
    while (going && pieces < 100) {
        going = reader.feed(piece, [](const SseEvent&) { return true; });
        ++pieces;
    }
    CHECK_FALSE(going);
    CHECK(pieces == 17);
}

TEST_CASE("where the daemon is found") {
    struct Row {
        std::string what;
        EndpointChoice choice;
        std::map<std::string, std::string> variables;
        unsigned uid;
        std::string base, socket;
        int exit_code;
    };
    const std::string long_path(120, 'p');
    const Row rows[] = {
        {"root's own folder", {}, {}, 0, "http://gpuferry", "/var/lib/gpuferry/gpuferry.sock", 0},
        {"a user's home",
         {},
         {{"HOME", "/home/u"}},
         1000,
         "http://gpuferry",
         "/home/u/.local/share/gpuferry/gpuferry.sock",
         0},
        {"XDG",
         {},
         {{"HOME", "/home/u"}, {"XDG_DATA_HOME", "/x"}},
         1000,
         "http://gpuferry",
         "/x/gpuferry/gpuferry.sock",
         0},
        {"XDG must be absolute",
         {},
         {{"HOME", "/h"}, {"XDG_DATA_HOME", "x"}},
         1000,
         "http://gpuferry",
         "/h/.local/share/gpuferry/gpuferry.sock",
         0},
        {"variable", {}, {{"GPUFERRY_URL", "http://127.0.0.1:8470/"}}, 1, "http://127.0.0.1:8470", "", 0},
        {"option wins",
         {.url = "https://ferry.example.org"},
         {{"GPUFERRY_URL", "http://x"}},
         1,
         "https://ferry.example.org",
         "",
         0},
        {"socket by URL", {.url = "unix:/run/g.sock"}, {}, 1, "http://gpuferry", "/run/g.sock", 0},
        {"socket with slashes", {.url = "unix:///run/g.sock"}, {}, 1, "http://gpuferry", "/run/g.sock", 0},
        {"no scheme", {.url = "ferry.example.org"}, {}, 1, "", "", 2},
        {"other scheme", {.url = "ftp://x"}, {}, 1, "", "", 2},
        {"password in it", {.url = "http://u:p@x"}, {}, 1, "", "", 2},
        {"no host", {.url = "http://"}, {}, 1, "", "", 2},
        {"path too long", {.url = "unix:/" + long_path}, {}, 1, "", "", 2},
        {"bare token", {.url = "http://x", .token_source = "gft_secret"}, {}, 1, "", "", 2},
        {"token variable unset", {.url = "http://x", .token_source = "env:NOPE"}, {}, 1, "", "", 2},
        {"token with a line break",
         {.url = "http://x"},
         {{"GPUFERRY_TOKEN", "a\r\nX-Evil: 1"}},
         1,
         "",
         "",
         2},
        {"token file missing", {.url = "http://x", .token_source = "file:/nonexistent"}, {}, 1, "", "", 2},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        Streams s;
        s.env.uid = row.uid;
        s.variables = row.variables;
        const auto endpoint = find_endpoint(row.choice, s.env);
        if (row.exit_code != 0) {
            REQUIRE_FALSE(endpoint);
            CHECK(endpoint.error().exit_code == row.exit_code);
            CHECK(endpoint.error().text.find("gft_secret") == std::string::npos);
        } else {
            REQUIRE(endpoint);
            CHECK(endpoint->base_url == row.base);
            CHECK(endpoint->socket == row.socket);
        }
    }
}

TEST_CASE(
    "a token comes from a variable or a file, without its line break, and is warned about on plain HTTP") {
    const gf::test::TemporaryFolder folder;
    const auto file = folder.write("token", "  gft_abc\n");
    Streams s;
    CHECK(find_endpoint({.url = "https://x", .token_source = "file:" + file}, s.env)->token.reveal() ==
          "gft_abc");
    s.variables = {{"MINE", "gft_def"}};
    const auto plain =
        find_endpoint({.url = "http://ferry.example.org:80", .token_source = "env:MINE"}, s.env);
    CHECK(plain->token.reveal() == "gft_def");
    CHECK(plain->warning.find("unencrypted") != std::string::npos);
    for (const char* quiet :
         {"http://127.0.0.1:1", "http://[::1]:1", "http://localhost", "https://ferry.example.org", "unix:/x"})
        CHECK(find_endpoint({.url = quiet, .token_source = "env:MINE"}, s.env)->warning.empty());
}

TEST_CASE("what a user typed stays one part of the path") {
    CHECK(path_of({"v1", "jobs", "job_1"}) == "/v1/jobs/job_1");
    CHECK(path_of({"v1", "jobs", "../../tokens"}) == "/v1/jobs/..%2F..%2Ftokens");
    CHECK(path_of({"v1", "jobs", ".."}) == "/v1/jobs/%2E.");
    CHECK(path_of({"v1", "jobs", "a?b#c d%"}) == "/v1/jobs/a%3Fb%23c%20d%25");
    CHECK(path_of({"x"}, {{"a", ""}, {"b", "1&2"}, {"c", "é"}}) == "/x?b=1%262&c=%C3%A9");
}

TEST_CASE("paths of outputs that must not be written") {
    for (const char* good : {"a", "a/b.txt", "..a/b..", ".hidden", "a b/ü"}) CHECK(safe_relative_path(good));
    for (const auto& bad : std::vector<std::string>{"", "/", "/etc/passwd", "../x", "a/../../x", "a/..", ".",
                                                    "./a", "a//b", "a/", std::string("a\0b", 3),
                                                    std::string(300, 'x'), std::string(5000, '/')}) {
        CAPTURE(bad);
        CHECK_FALSE(safe_relative_path(bad));
    }
}

TEST_CASE("a problem with a spec shows the line and marks the column") {
    Streams s;
    const Failure failure{
        .problem = R"({"title":"Unprocessable Content","status":422,"detail":"the spec is invalid","errors":[
        {"field":"resources.gpus","line":3,"column":9,"message":"0 is out of range","range":"1..64"},
        {"field":"resources.gpuss","line":4,"column":3,"message":"unknown key","suggestion":"gpus"}]})"};
    const SpecShown spec{.name = "job.yaml", .text = "name: x\nresources:\n  gpus: 0\n  gpuss: 1\n"};
    CHECK(failure_text(failure, Style(s.env), spec) ==
          "error: job.yaml:3:9: resources.gpus: 0 is out of range (allowed: 1..64)\n"
          "    3 |   gpus: 0\n"
          "                ^\n"
          "error: job.yaml:4:3: resources.gpuss: unknown key; did you mean gpus?\n"
          "    4 |   gpuss: 1\n"
          "          ^\n");
}

TEST_CASE("columns count characters, not bytes") {
    Streams s;
    const Failure failure{.problem = R"({"errors":[{"field":"name","line":1,"column":9,"message":"bad"}]})"};
    const auto text = failure_text(failure, Style(s.env), {.name = "j", .text = "name: üä!x"});
    CHECK(text == "error: j:1:9: name: bad\n    1 | name: üä!x\n                ^\n");
}

TEST_CASE("a problem without a place, one with a place beyond the text, and no problem at all") {
    Streams s;
    const Style style(s.env);
    CHECK(failure_text({.problem = R"({"detail":"no job job_x"})"}, style) == "error: no job job_x\n");
    CHECK(failure_text({.problem = R"({"title":"Conflict"})"}, style) == "error: Conflict\n");
    CHECK(failure_text({.problem = R"({"errors":[{"line":99,"column":1,"message":"m"}]})"}, style,
                       {.name = "f", .text = "a\n"}) == "error: f:99:1: m\n");
    CHECK(failure_text({.text = "GET /: HTTP 500", .problem = "[]"}, style) == "error: GET /: HTTP 500\n");
    CHECK(failure_text({.problem = R"({"detail":"busy"})", .retry_after_s = 3}, style) ==
          "error: busy\ntry again in 3 s\n");
    CHECK(failure_text({.problem = R"({"detail":"x\u001b[31m"})"}, style) == "error: x\\x1b[31m\n");
}

TEST_CASE("members that are missing, null or of another type are nothing, never an exception") {
    const auto json = nlohmann::json::parse(
        R"({"a":{"b":{"c":"x"}},"n":null,"i":7,"big":18446744073709551615,"t":true,"l":[1]})");
    CHECK(text_of(json, "a.b.c") == "x");
    CHECK(text_of(json, "a.b").empty());
    CHECK(text_of(json, "a.x.c").empty());
    CHECK(text_of(json, "i") == "7");
    CHECK(text_of(json, "n").empty());
    CHECK(whole_of(json, "i") == 7);
    CHECK_FALSE(whole_of(json, "big"));
    CHECK_FALSE(whole_of(json, "t"));
    CHECK(true_at(json, "t"));
    CHECK_FALSE(true_at(json, "i"));
    CHECK(list_at(json, "l").size() == 1);
    CHECK(list_at(json, "i").empty());
    CHECK(text_of(nlohmann::json(3), "x").empty());
    CHECK(dollars_at(nlohmann::json{{"r", "0.39"}}, "r") == "$0.39");
    CHECK(dollars_at(nlohmann::json{{"r", "$0.39"}}, "r") == "$0.39");
    CHECK(dollars_at(json, "n") == "?");
    CHECK(ago("1970-01-01T00:00:00.000Z", 90'000) == "90s");
    CHECK(ago("1970-01-01T00:00:00.000Z", 7'200'000) == "2h");
    CHECK(ago("soon", 0) == "-");
}
