// Logs, events, costs and outputs: what is read from the disk and the history.
#include <doctest/doctest.h>

#include <fstream>
#include <thread>

#include "daemon/api/json_views.hpp"
#include "daemon/gateway/log_files.hpp"
#include "tests/daemon/support/rest_bench.hpp"

namespace gf::test {
namespace {

struct LogBench : RestBench {
    std::string job{submit()};
    TaskId task;
    std::vector<AttemptRecord> attempts;

    LogBench() {
        task = store->reader().tasks(JobId{job}).value().at(0).id;
    }
    /// A further attempt; the one before is over.
    void attempt() {
        std::vector<RowChange> rows;
        if (!attempts.empty()) {
            attempts.back().state = AttemptState::ended;
            attempts.back().cause = Cause::spot_lost;
            attempts.back().ended_at = core->now();
            rows.push_back(PutAttempt{attempts.back(), AttemptState::leased});
        }
        const int number = static_cast<int>(attempts.size()) + 1;
        AttemptRecord row{.id = AttemptId{"att_" + std::string(25, '0') + std::to_string(number)}, .task = task, .job = JobId{job},
                          .number = number, .state = AttemptState::leased, .cause = {}, .detail = {}, .machine = machine(number),
                          .created_at = core->now(), .started_at = {}, .ended_at = {}, .exit_code = {}, .exit_signal = {}};
        rows.push_back(PutAttempt{row, std::nullopt});
        attempts.push_back(row);
        core->commit(std::move(rows));
    }
    MachineId machine(int number) {
        MachineRecord row;
        row.id = MachineId{"mch_" + std::string(25, '0') + std::to_string(number)};
        row.tag = MachineTag{"gf-abcdefgh-" + std::string(25, '0') + std::to_string(number)};
        row.provider = ProviderName{"vastai"};
        row.state = MachineState::booting;
        row.provider_id = ProviderMachineId{"p" + std::to_string(number)};
        row.job = JobId{job};
        row.task = task;
        row.attempt = number;
        row.created_at = core->now();
        row.rate = UsdPerHour{400'000};
        core->commit({PutMachine{row, std::nullopt}});
        return row.id;
    }
    void finish() {
        attempts.back().state = AttemptState::ended;
        attempts.back().cause = Cause::succeeded;
        attempts.back().ended_at = core->now();
        auto row = store->reader().job(JobId{job}).value().value();
        row.state = JobState::succeeded;
        row.ended_at = core->now();
        core->commit({PutAttempt{attempts.back(), AttemptState::leased}, PutJob{row, JobState::queued}});
    }
    void write(const std::string& bytes) {
        const auto path = folder / ("logs/" + job + "/" + attempts.back().id.get() + ".log");
        std::filesystem::create_directories(std::filesystem::path(path).parent_path());
        std::ofstream(path, std::ios::binary | std::ios::app) << bytes;
        server->log_grew(JobId{job});
    }
    [[nodiscard]] std::string logs(const std::string& query = {}) const { return "/v1/jobs/" + job + "/logs" + query; }
};

struct Sse {
    std::string text;      // all data of messages
    std::vector<std::string> ids, names, data;
};

Sse read_sse(const std::string& body) {
    Sse out;
    std::string id;
    std::string name;
    std::string data;
    bool any = false;
    std::size_t at = 0;
    while (at < body.size()) {
        const auto end = body.find('\n', at);
        const auto line = body.substr(at, end - at);
        at = end == std::string::npos ? body.size() : end + 1;
        if (line.empty()) {
            if (any) {
                out.ids.push_back(id);
                out.names.push_back(name);
                out.data.push_back(data);
                if (name.empty()) out.text += data;
            }
            name.clear();
            data.clear();
            any = false;
        } else if (line.starts_with("id: ")) {
            id = line.substr(4);
        } else if (line.starts_with("event: ")) {
            name = line.substr(7);
        } else if (line.starts_with("data: ")) {
            if (any) data += '\n';
            data += line.substr(6);
            any = true;
        }
    }
    return out;
}

TEST_CASE("the raw log is the bytes, from any offset, over all attempts") {
    LogBench b;
    CHECK(b.get(b.logs()).body.empty());
    b.attempt();
    b.write("first \xFF\n");
    b.attempt();
    b.write("second\n");
    const std::string whole = "first \xFF\nsecond\n";
    const auto got = b.get(b.logs());
    CHECK(got.status == 200);
    CHECK(got.headers.at("content-type").starts_with("text/plain"));
    CHECK(got.body == whole);
    for (std::size_t offset = 0; offset <= whole.size(); ++offset) {
        CAPTURE(offset);
        CHECK(b.get(b.logs("?offset=" + std::to_string(offset))).body == whole.substr(offset));
    }
    CHECK(b.get(b.logs("?offset=999")).body.empty());
    CHECK(b.get(b.logs("?attempt=2")).body == "second\n");
    CHECK(b.get(b.logs("?attempt=2&offset=3")).body == "ond\n");
    CHECK(b.get(b.logs("?attempt=3")).status == 404);
}

TEST_CASE("lines as JSON: bad bytes replaced, offsets those of the raw log") {
    LogBench b;
    b.attempt();
    b.write("n\xC3\xA9 \xFF\nline two\nunfinished");
    auto got = parsed(b.get(b.logs("?format=json")));
    REQUIRE(got.at("items").size() == 2);
    CHECK(got["items"][0]["text"] == "n\xC3\xA9 \xEF\xBF\xBD");
    CHECK(got["items"][1]["offset"] == 6);
    CHECK(got["items"][1]["attempt"] == 1);
    CHECK(got["next_offset"] == 15);  // the last line may still grow
    CHECK(got["over"] == false);
    b.finish();
    got = parsed(b.get(b.logs("?format=json")));
    REQUIRE(got.at("items").size() == 3);
    CHECK(got["items"][2]["text"] == "unfinished");
    CHECK(got["over"] == true);
    got = parsed(b.get(b.logs("?format=json&limit=1&offset=6")));
    REQUIRE(got.at("items").size() == 1);
    CHECK(got["items"][0]["text"] == "line two");
    CHECK(got["next_offset"] == 15);
}

TEST_CASE("a long line is cut between characters, not inside of one") {
    LogBench b;
    b.attempt();
    std::string line = "x";
    while (line.size() < 200'000) line += "\xE2\x82\xAC";  // three bytes: no cut at 64 KiB falls between two of them by chance
    b.write(line + "\n" + std::string(70'000, '\xFF') + "\n");
    b.finish();
    std::string text;
    std::int64_t at = 0;
    for (const auto& item : parsed(b.get(b.logs("?format=json"))).at("items")) {
        if (text.size() >= line.size()) break;
        CHECK(item.at("offset") == at);
        const auto piece = item.at("text").get<std::string>();
        CHECK(piece.find("\xEF\xBF\xBD") == std::string::npos);
        at += static_cast<std::int64_t>(piece.size());
        text += piece;
    }
    CHECK(text == line);
    CHECK(parsed(b.get(b.logs("?format=json"))).at("next_offset") == line.size() + 70'002);
}

TEST_CASE("a followed log has every byte once, split characters whole, over all attempts to the end") {
    LogBench b;
    b.attempt();
    std::string body;
    std::thread reader([&] {
        body = ask({.url = "http://gpuferry" + b.logs("?follow=1"), .body = {}, .headers = {}, .unix_path = b.options.socket_path, .pin = {}, .sink = {}}).body;
    });
    // One byte per write, as in "né" from a slow program.
    for (const char c : std::string("n\xC3\xA9 one\n\xFF")) b.write(std::string(1, c));
    b.attempt();
    b.write("two\r\nand ");
    b.write("\xE2\x82");
    b.write("\xAC\n");
    b.finish();
    reader.join();
    const auto sse = read_sse(body);
    CHECK(sse.text == "n\xC3\xA9 one\n\xEF\xBF\xBDtwo\nand \xE2\x82\xAC\n");
    CHECK(sse.names.front() == "attempt");
    CHECK(sse.names.back() == "end");
    CHECK(sse.ids.back() == std::to_string(9 + 5 + 4 + 4));
}

TEST_CASE("a follower that comes back with any id goes on exactly there") {
    LogBench b;
    b.attempt();
    b.write("hello w\xC3\xB6rld\n");
    b.finish();
    const std::string whole = "hello w\xC3\xB6rld\n";
    for (std::size_t id = 0; id <= whole.size(); ++id) {
        if (id == 8) continue;  // inside of a character: no id that was given
        CAPTURE(id);
        const auto got = b.get(b.logs("?follow=1"), {"Last-Event-ID: " + std::to_string(id)});
        CHECK(read_sse(got.body).text == whole.substr(id));
    }
    CHECK(b.get(b.logs("?follow=1"), {"Last-Event-ID: x"}).status == 400);
    const auto json = read_sse(b.get(b.logs("?follow=1&format=json&attempt=1")).body);
    REQUIRE(json.data.size() == 3);
    CHECK(nlohmann::json::parse(json.data[1]).at("text") == whole);
}

TEST_CASE("followers that leave take their descriptors along") {
    LogBench b;
    b.attempt();
    b.write("hello\n");
    REQUIRE(b.get(b.logs()).status == 200);
    const int base = open_descriptors();
    const std::string request = "GET " + b.logs("?follow=1") + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + b.token("viewer") + "\r\n\r\n";
    for (int round = 0; round < 5; ++round) {
        std::vector<int> open;
        for (int i = 0; i < 60; ++i) {
            const int fd = connect_to(b.server->port());
            REQUIRE(fd >= 0);
            REQUIRE(::write(fd, request.data(), request.size()) == static_cast<ssize_t>(request.size()));
            open.push_back(fd);
        }
        // Half leave before they have read anything, half after the first bytes came.
        for (std::size_t i = 0; i < open.size(); ++i) {
            char byte = 0;
            if (i % 2 == 0) REQUIRE(::read(open[i], &byte, 1) == 1);
            ::close(open[i]);
        }
        CHECK(b.get("/healthz").status == 200);
    }
    CHECK(eventually([&] { return open_descriptors() <= base + 2; }));
    CAPTURE(open_descriptors());
    CHECK(open_descriptors() <= base + 2);
}

TEST_CASE("more followers than allowed are told so, and others still get answers") {
    RestBench b([](ServerOptions& o) { o.streams_max = 2; });
    const auto token = b.token("viewer");
    const std::string request = "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + token + "\r\n\r\n";
    std::vector<int> open;
    for (int i = 0; i < 2; ++i) {
        open.push_back(connect_to(b.server->port()));
        REQUIRE(::write(open.back(), request.data(), request.size()) > 0);
        char byte = 0;
        REQUIRE(::read(open.back(), &byte, 1) == 1);
    }
    CHECK(b.tcp("GET", "/v1/events", token).status == 503);
    CHECK(b.tcp("GET", "/v1/jobs", token).status == 200);
    for (const int fd : open) ::close(fd);
    CHECK(eventually([&] {
        bool streaming = false;
        (void)ask({.url = b.url("/v1/events"), .body = {}, .headers = {"Authorization: Bearer " + token}, .unix_path = {}, .pin = {},
                   .sink = [&](std::string_view) { streaming = true; return false; }});
        return streaming;
    }));
}

TEST_CASE("events: from an id on, live, and reset when the store cannot go on from there") {
    RestBench b;
    const auto job = b.submit();
    const auto list = parsed(b.get("/v1/jobs/" + job + "/events"));
    REQUIRE(list.at("items").size() == 1);
    const auto seq = list["items"][0]["seq"].get<std::int64_t>();
    b.server->events_committed(seq);
    const auto read = [&](const std::string& query, std::vector<std::string> headers, const std::string& until, const std::function<void()>& meanwhile) {
        std::string body;
        bool begun = false;
        std::mutex mutex;
        std::thread reader([&] {
            (void)ask({.url = "http://gpuferry/v1/events" + query, .body = {}, .headers = std::move(headers), .unix_path = b.options.socket_path, .pin = {},
                       .sink = [&](std::string_view bytes) {
                           const std::scoped_lock lock(mutex);
                           body += bytes;
                           begun = true;
                           return body.find(until) == std::string::npos;
                       }});
        });
        CHECK(eventually([&] { const std::scoped_lock lock(mutex); return begun; }));
        meanwhile();
        reader.join();
        return body;
    };
    const auto nothing = [] {};
    CHECK(read("?after=0", {}, "\"queued\"", nothing).find("id: " + std::to_string(seq) + "\n") != std::string::npos);
    CHECK(read("", {"Last-Event-ID: 0"}, "\"queued\"", nothing).find("event: reset") == std::string::npos);
    const auto live = read("", {}, "second", [&] {
        b.core->commit({AddEvent{{.at = b.core->now(), .kind = "note", .job = {}, .task = {}, .machine = {}, .state = {}, .reason = {}, .detail = "second"}}});
        b.server->events_committed(seq + 1);
    });
    CHECK(live.find("\"queued\"") == std::string::npos);
    CHECK(read("", {"Last-Event-ID: 999"}, "event: reset", nothing).find("event: reset") != std::string::npos);
    CHECK(b.get("/v1/events", {"Last-Event-ID: abc"}).status == 400);
}

TEST_CASE("the cost is the ledger's intervals at their real rates, open ones up to now") {
    LogBench b;
    b.attempt();
    const auto start = b.core->now();
    const auto machine = b.attempts.at(0).machine;
    const auto row = [&](int number, Instant from, std::optional<Instant> until, int gpu, bool known = true) {
        return PutLedger{{.machine = machine, .number = number, .job = JobId{b.job}, .project = "default", .provider = ProviderName{"vastai"},
                          .from = from, .until = until, .gpu_rate = UsdPerHour{gpu}, .disk_rate = UsdPerHour{10'000}, .rate_known = known}};
    };
    using std::chrono::hours;
    b.core->commit({row(1, start, start + hours(1), 400'000), row(2, start + hours(1), std::nullopt, 800'000)});
    b.core->set_now(start + hours(2));
    auto got = parsed(b.get("/v1/jobs/" + b.job + "/cost"));
    CHECK(got.at("total") == "1.22");  // 0.40 + 0.80 + 2 h of disk at 0.01
    CHECK(got.at("at_least") == false);
    CHECK(got.at("lines").size() == 2);
    CHECK(got["lines"][0]["gpu_cost"] == "0.40");
    CHECK(got["lines"][1]["until"].is_null());
    const auto all = parsed(b.get("/v1/cost?group_by=provider"));
    CHECK(all.at("total") == "1.22");
    CHECK(all.at("lines").at(0).at("group") == "vastai");
    // Slices at any instant add up to the whole.
    const auto middle = rfc3339(start + std::chrono::minutes(95));
    const auto before = parsed(b.get("/v1/cost?to=" + middle)).at("total").get<std::string>();
    const auto after = parsed(b.get("/v1/cost?from=" + middle)).at("total").get<std::string>();
    CHECK(*parse_decimal_micros(before) + *parse_decimal_micros(after) == 1'220'000);
    b.core->commit({row(2, start + hours(1), std::nullopt, 800'000, false)});
    CHECK(parsed(b.get("/v1/jobs/" + b.job + "/cost")).at("at_least") == true);
}

TEST_CASE("while a create's outcome is not known every total that it may belong to is at least") {
    LogBench b;
    const auto start = b.core->now();
    auto row = b.store->reader().machine(b.machine(1)).value().value();
    const auto costs = [&b](const std::string& query) { return parsed(b.get("/v1/cost?" + query)); };
    const auto hold = [&](std::optional<Instant> released) {
        b.core->commit({PutReservation{{.machine = row.id, .job = JobId{b.job}, .project = "voices", .amount = Usd{1'000'000}, .from = start,
                                        .until = start + std::chrono::hours(1), .released_at = released}}});
    };
    hold(std::nullopt);
    CHECK(costs("group_by=job").at("at_least") == false);
    row.state = MachineState::unknown;
    row.provider_id = {};
    b.core->commit({PutMachine{row, MachineState::booting}});
    b.core->set_now(start + std::chrono::minutes(5));
    for (const auto& [by, group] : {std::pair<std::string, std::string>{"job", b.job}, {"provider", "vastai"}, {"project", "voices"}, {"machine", row.id.get()}}) {
        CAPTURE(by);
        const auto got = costs("group_by=" + by);
        CHECK(got.at("at_least") == true);
        REQUIRE(got.at("lines").size() == 1);
        CHECK(got["lines"][0].at("group") == group);
        CHECK(got["lines"][0].at("at_least") == true);
    }
    CHECK(costs("to=" + rfc3339(start)).at("at_least") == false);
    hold(start + std::chrono::minutes(5));
    CHECK(costs("group_by=job").at("at_least") == false);
}

TEST_CASE("each machine is shown with its dead-man figure") {
    LogBench b;
    b.attempt();
    CHECK_FALSE(parsed(b.get("/v1/machines")).at("items").at(0).contains("dead_man"));
    const auto row = b.store->reader().machine(b.attempts.at(0).machine).value().value();
    CHECK(api::machine_view(row, std::chrono::hours(2)).at("dead_man") == "2h");
}

TEST_CASE("a machine shows what is wrong with the way to it, and nothing when it is well") {
    MachineRecord row;
    const auto detail = [&row](const std::string& noted) {
        row.agent_detail = noted;
        return api::machine_view(row, Millis{0}).value("detail", "");
    };
    CHECK(detail("").empty());
    CHECK(detail("not json").empty());
    CHECK(detail(R"({"cuda":"12.8"})").empty());
    CHECK(detail(R"({"tunnel":{"up":true,"reason":"up","detail":"root@203.0.113.5:22, port 23456 there"}})").empty());
    CHECK(detail(R"({"tunnel":{"up":false,"reason":"login_refused","detail":"Permission denied"}})") == "ssh tunnel login_refused: Permission denied");
    CHECK(detail(R"({"tunnel":{"up":true,"reason":"agent_not_started","detail":"no folder"}})") == "ssh tunnel agent_not_started: no folder");
}

TEST_CASE("attempts and machines have the fields that others rely on") {
    LogBench b;
    b.attempt();
    const auto attempt = parsed(b.get("/v1/jobs/" + b.job + "/attempts")).at("items").at(0);
    for (const char* field : {"number", "state", "reason", "machine", "exit_code"}) CHECK(attempt.contains(field));
    CHECK_FALSE(attempt.contains("started_at"));
    CHECK(attempt["number"] == 1);
    const auto machine = parsed(b.get("/v1/machines")).at("items").at(0);
    for (const char* field : {"id", "provider", "provider_id", "state", "job", "rate", "tag"}) CHECK(machine.contains(field));
    CHECK(machine["rate"] == "0.40");
    CHECK(b.call("DELETE", "/v1/machines/" + machine["id"].get<std::string>()).status == 200);
    CHECK(b.core->seen_of<CommandMachine>().at(0).verb == MachineVerb::destroy);
}

}  // namespace
}  // namespace gf::test
