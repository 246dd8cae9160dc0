#include "sim_client.hpp"

#include <curl/curl.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <thread>

#include "simulator/http.hpp"

namespace gf::sim::test {

namespace {

std::size_t take_body(char* data, std::size_t size, std::size_t n, void* into) {
    static_cast<std::string*>(into)->append(data, size * n);
    return size * n;
}

std::size_t take_header(char* data, std::size_t size, std::size_t n, void* into) {
    std::string line(data, size * n);
    const auto colon = line.find(':');
    if (colon != std::string::npos) {
        std::string name = line.substr(0, colon);
        std::ranges::transform(name, name.begin(),
                               [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
        auto value = line.substr(colon + 1);
        while (!value.empty() && std::isspace(static_cast<unsigned char>(value.back())) != 0)
            value.pop_back();
        value.erase(0, value.find_first_not_of(' '));
        (*static_cast<std::map<std::string, std::string>*>(into))[name] = value;
    }
    return size * n;
}

}  // namespace

Answer send(std::uint16_t port, const Call& call) {
    static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (ready != CURLE_OK) FAIL("libcurl does not start");
    CURL* curl = curl_easy_init();
    Answer answer;
    const auto url = "http://127.0.0.1:" + std::to_string(port) + call.path;
    const auto body =
        call.raw_body.empty() ? (call.body.is_null() ? std::string{} : call.body.dump()) : call.raw_body;
    curl_slist* headers = nullptr;
    headers = curl_slist_append(headers, "Content-Type: application/json");
    if (!call.basic.empty())
        headers = curl_slist_append(headers, ("Authorization: Basic " + base64_encoded(call.basic)).c_str());
    else if (!call.key.empty())
        headers = curl_slist_append(headers, ("Authorization: Bearer " + call.key).c_str());
    curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, call.timeout_ms);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, call.method.c_str());
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    if (!call.agent.empty()) curl_easy_setopt(curl, CURLOPT_USERAGENT, call.agent.c_str());
    if (!body.empty() || call.method == "POST" || call.method == "PUT") {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, static_cast<long>(body.size()));
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.c_str());
    }
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &take_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer.body);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &take_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, &answer.headers);
    if (curl_easy_perform(curl) == CURLE_OK) {
        long status = 0;
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
        answer.status = static_cast<int>(status);
    }
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    return answer;
}

TestSim::TestSim(const std::function<void(SimulatorOptions&)>& adjust) {
    SimulatorOptions options;
    options.processes = false;
    options.scale = 0.001;
    options.settings = Settings::of_profile(true);
    options.settings.lambda_limits = false;
    options.settings.vultr_per_second = 0;
    options.market = default_market();
    if (adjust) adjust(options);
    auto started = Simulator::start(std::move(options));
    REQUIRE_MESSAGE(started, (started ? "" : started.error().message));
    simulator_ = *std::move(started);
}

json TestSim::order(const std::string& what, const json& body) const {
    const auto answer = admin({.method = "POST", .path = "/_sim/" + what, .body = body});
    REQUIRE_MESSAGE(answer.status == 200, what, ": ", answer.status, " ", answer.body);
    return answer.parsed();
}

json TestSim::state() const {
    return admin({.path = "/_sim/state"}).parsed();
}
json TestSim::bill() const {
    return admin({.path = "/_sim/bill"}).parsed();
}

json TestSim::machine(const std::string& id) const {
    for (const auto& row : state()["machines"]) {
        if (row["id"] == id) return row;
    }
    FAIL("no machine " << id);
    return {};
}

void TestSim::until(const std::function<bool()>& done, const std::string& what) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!done()) {
        if (std::chrono::steady_clock::now() >= end)
            FAIL("waited in vain for " << what << "\n" << state().dump(1));
        std::this_thread::yield();
    }
}

void TestSim::until_phase(const std::string& id, const std::string& phase) const {
    until([&] { return machine(id)["phase"] == phase; }, id + " to be " + phase);
}

}  // namespace gf::sim::test
