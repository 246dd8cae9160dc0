// The agents' door on loopback, over a real database and a real checkpoint store, with a scripted core behind it.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "checkpoints/file_store.hpp"
#include "checkpoints/snapshot.hpp"
#include "daemon/gateway/gateway.hpp"
#include "db/store.hpp"
#include "tests/daemon/support/curl_client.hpp"
#include "tests/daemon/support/scripted_core.hpp"
#include "tests/daemon/support/socket_client.hpp"
#include "tests/daemon/support/temporary_folder.hpp"

namespace gf::test {

namespace ap = agent_protocol;

class GatewayBench {
 public:
    explicit GatewayBench(const std::function<void(GatewayOptions&)>& change = {}) {
        store = open_sqlite_store(folder / "gpuferry.db").value();
        packs = checkpoints::FileStore::open(folder / "checkpoints").value();
        core = std::make_unique<ScriptedCore>(*store);
        gate.id = MachineId{"mch_" + std::string(26, '1')};
        gate.state = MachineState::busy;
        gate.job = JobId{"job_" + std::string(26, '2')};
        gate.task = TaskId{"tsk_" + std::string(26, '3')};
        gate.attempt = AttemptId{"att_" + std::string(26, '4')};
        gate.attempt_number = 2;
        options.listen = "127.0.0.1:0";
        options.data_dir = folder.path();
        options.install_key = Secret("install key of the test");
        options.machine_lookup = [this](const std::string& asked) -> std::optional<MachineGate> {
            const std::scoped_lock lock(mutex);
            if (asked != tag) return std::nullopt;
            return gate;
        };
        options.open_reader = [this] { return store->open_reader(); };
        options.store = packs.get();
        if (change) change(options);
        loop = std::make_unique<http::Loop>();
        loop->start();
        gateway = std::make_unique<Gateway>(*loop, *core, options);
        GF_ASSERT(gateway->start().has_value());
    }
    ~GatewayBench() {
        gateway->stop();
        core.reset();
        loop->stop();
        gateway.reset();
    }

    /// Over TLS with the pin, as an agent does.
    [[nodiscard]] Got call(const std::string& method, const std::string& path, const std::string& token, const std::string& body = {},
                           std::vector<std::string> headers = {}) const {
        if (!token.empty()) headers.push_back("Authorization: Bearer " + token);
        return ask({.method = method, .url = "https://127.0.0.1:" + std::to_string(gateway->port()) + path, .body = body,
                    .headers = std::move(headers), .unix_path = {}, .pin = gateway->spki_pin(), .sink = {}});
    }
    [[nodiscard]] Got enrol_with(ap::EnrolRequest request) const { return call("POST", "/agent/enrol", "", ap::encode(request)); }
    [[nodiscard]] ap::EnrolRequest enrolment(const std::string& boot = "boot-1") const {
        ap::EnrolRequest request;
        request.machine = tag;
        request.enrol = enrol_token(options.install_key, gate.id);
        request.boot_id = boot;
        request.arch = "amd64";
        request.version = "test";
        return request;
    }
    [[nodiscard]] std::string enrol(const std::string& boot = "boot-1") const {
        const auto got = enrol_with(enrolment(boot));
        return nlohmann::json::parse(got.body).at("session");
    }
    void change_gate(const std::function<void(MachineGate&)>& change) {
        const std::scoped_lock lock(mutex);
        change(gate);
    }
    [[nodiscard]] std::string of_attempt(const std::string& what, const std::string& more = {}) const {
        return "/agent/" + what + "/" + gate.attempt.get() + more;
    }

    TemporaryFolder folder;
    std::string tag{"gf-abcdefgh-" + std::string(26, '1')};
    std::mutex mutex;  // guards gate
    MachineGate gate;
    std::unique_ptr<Store> store;
    std::unique_ptr<checkpoints::FileStore> packs;
    std::unique_ptr<ScriptedCore> core;
    GatewayOptions options;
    std::unique_ptr<http::Loop> loop;
    std::unique_ptr<Gateway> gateway;
};

}  // namespace gf::test
