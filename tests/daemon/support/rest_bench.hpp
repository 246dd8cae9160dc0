// A REST server on loopback over a real store in a temporary folder, with a scripted core behind it.
#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "checkpoints/file_store.hpp"
#include "config/shipped.hpp"
#include "daemon/api/server.hpp"
#include "daemon/http/loop.hpp"
#include "daemon/secrets/sealing.hpp"
#include "db/store.hpp"
#include "scheduler/gpu_names.hpp"
#include "tests/daemon/support/curl_client.hpp"
#include "tests/daemon/support/scripted_core.hpp"
#include "tests/daemon/support/temporary_folder.hpp"

namespace gf::test {

inline const GpuNames& shipped_names() {
    static const auto names = GpuNames::parse(shipped_gpus_csv(), shipped_aliases_csv()).value();
    return names;
}

class RestBench {
 public:
    explicit RestBench(const std::function<void(ServerOptions&)>& change = {}) {
        store = open_sqlite_store(folder / "gpuferry.db").value();
        packs = checkpoints::FileStore::open(folder / "checkpoints").value();
        core = std::make_unique<ScriptedCore>(*store);
        options.listen = "127.0.0.1:0";
        options.socket_path = folder / "gpuferry.sock";
        options.data_dir = folder.path();
        options.open_reader = [this] { return store->open_reader(); };
        options.gpus = &shipped_names();
        options.store = packs.get();
        options.seal = &seal;
        if (change) change(options);
        loop = std::make_unique<http::Loop>();
        loop->start();
        server = std::make_unique<ApiServer>(*loop, *core, options);
        const auto started = server->start();
        GF_ASSERT(started.has_value());
    }
    ~RestBench() {
        server->stop();
        core.reset();
        loop->stop();
        server.reset();
    }

    /// Over the unix socket: as admin.
    [[nodiscard]] Got call(const std::string& method, const std::string& path, const std::string& body = {},
                           std::vector<std::string> headers = {}) const {
        return ask({.method = method, .url = "http://gpuferry" + path, .body = body, .headers = std::move(headers),
                    .unix_path = options.socket_path, .pin = {}, .sink = {}});
    }
    [[nodiscard]] Got get(const std::string& path, std::vector<std::string> headers = {}) const {
        return call("GET", path, {}, std::move(headers));
    }
    /// Over TCP with a token.
    [[nodiscard]] Got tcp(const std::string& method, const std::string& path, const std::string& token,
                          const std::string& body = {}, std::vector<std::string> headers = {}) const {
        if (!token.empty()) headers.push_back("Authorization: Bearer " + token);
        return ask({.method = method, .url = url(path), .body = body, .headers = std::move(headers), .unix_path = {}, .pin = {}, .sink = {}});
    }
    [[nodiscard]] std::string url(const std::string& path) const {
        return "http://127.0.0.1:" + std::to_string(server->port()) + path;
    }
    [[nodiscard]] std::string token(const std::string& role) const {
        const auto made = call("POST", "/v1/tokens", R"({"name":"test )" + role + R"(","role":")" + role + "\"}", {"Content-Type: application/json"});
        return nlohmann::json::parse(made.body).at("token");
    }
    /// Submits and answers the id.
    [[nodiscard]] std::string submit(const std::string& spec = "name: one\nrun: echo hello\nresources: {cpu_only: true}\n") const {
        const auto made = call("POST", "/v1/jobs", spec, {"Content-Type: application/yaml"});
        return nlohmann::json::parse(made.body).at("id");
    }

    SecretSeal seal{Secret(std::string(64, '7'))};
    TemporaryFolder folder;
    std::unique_ptr<Store> store;
    std::unique_ptr<checkpoints::FileStore> packs;
    std::unique_ptr<ScriptedCore> core;
    ServerOptions options;
    std::unique_ptr<http::Loop> loop;
    std::unique_ptr<ApiServer> server;
};

inline nlohmann::json parsed(const Got& got) { return nlohmann::json::parse(got.body, nullptr, false); }

}  // namespace gf::test
