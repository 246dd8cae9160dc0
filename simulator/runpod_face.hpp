// RunPod as a client sees it: REST v2 below /v2, GraphQL at /graphql, v1 as a gravestone. Written from
// the providers page "RunPod"; simulator/README.md has the section of each call.
#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "simulator/graphql.hpp"
#include "simulator/http.hpp"
#include "simulator/rate_limit.hpp"
#include "simulator/world.hpp"

namespace gf::sim {

/// Every call wants the world's lock held and the world advanced.
class RunpodFace {
 public:
    explicit RunpodFace(World& world) : world_(world) {}
    [[nodiscard]] HttpResponse handle(const HttpRequest& request);

    /// Bodies over this answer 413.
    static constexpr std::size_t kBodyMax = 102'400;

 private:
    struct Caller {
        std::string key;
        Rental* own{nullptr};  // a pod-scoped key's pod
    };
    struct NetworkVolume {
        std::string id;
        std::string name;
        int size{0};
        std::string data_center;
        std::string type{"STANDARD"};
    };
    struct Registry {
        std::string id;
        std::string name;
    };

    // runpod_face.cpp: who calls, how often, where to.
    [[nodiscard]] HttpResponse rest(const HttpRequest& request);
    [[nodiscard]] std::optional<Caller> caller(const std::string& key);
    [[nodiscard]] HttpResponse route(const HttpRequest& request, const Caller& caller);
    [[nodiscard]] HttpResponse route_pods(const HttpRequest& request, const Caller& caller,
                                          const std::vector<std::string>& path);
    [[nodiscard]] HttpResponse route_catalog(const HttpRequest& request,
                                             const std::vector<std::string>& path);

    // runpod_pods.cpp
    [[nodiscard]] HttpResponse create_pod(const HttpRequest& request);
    [[nodiscard]] HttpResponse list_pods(const HttpRequest& request);
    [[nodiscard]] HttpResponse pod_action(Rental& pod, const std::string& action);
    [[nodiscard]] HttpResponse patch_pod(Rental& pod, const HttpRequest& request);
    [[nodiscard]] HttpResponse pod_logs(Rental& pod, const HttpRequest& request);
    [[nodiscard]] Rental* visible_pod(const std::string& id);
    [[nodiscard]] nlohmann::json pod_json(Rental& pod);
    [[nodiscard]] std::string pod_status(const Rental& pod) const;

    // runpod_placement.cpp: shared by REST and GraphQL.
    struct Wish {
        std::string gpu_id;
        int count{1};
        std::optional<bool> secure;  // absent = any cloud
        std::vector<std::string> data_centers;
        std::vector<std::string> cuda_allowed;
        std::string cuda_min;
        std::int64_t disk_gb{0};
        std::optional<std::int64_t> bid_per_gpu;
    };
    struct Refusal {
        int status{400};
        std::string detail;
        std::string code;  // GraphQL's extensions.code
    };
    struct Place {
        const Host* host{nullptr};
        std::int64_t per_gpu{0};
    };
    [[nodiscard]] std::variant<Place, Refusal> place(const Wish& wish);
    [[nodiscard]] std::optional<Refusal> unaffordable(std::int64_t per_hour);
    [[nodiscard]] std::int64_t price(const std::string& gpu, bool secure, bool spot) const;
    void set_disk_prices(Rental& pod) const;

    // runpod_catalog.cpp
    [[nodiscard]] HttpResponse list_gpus(const HttpRequest& request, const std::string& one);
    [[nodiscard]] HttpResponse list_data_centers(const HttpRequest& request, const std::string& one);
    [[nodiscard]] nlohmann::json gpu_json(const GpuModel& model, const nlohmann::json* availability) const;

    // runpod_account.cpp
    [[nodiscard]] HttpResponse network_volumes(const HttpRequest& request,
                                               const std::vector<std::string>& path);
    [[nodiscard]] HttpResponse registries(const HttpRequest& request, const std::vector<std::string>& path);
    [[nodiscard]] HttpResponse ssh_keys(const HttpRequest& request);
    [[nodiscard]] HttpResponse billing(const HttpRequest& request, const std::string& product);

    // runpod_graphql.cpp
    [[nodiscard]] HttpResponse graphql(const HttpRequest& request);
    [[nodiscard]] nlohmann::json resolve(const GraphField& field, const Caller* caller);
    [[nodiscard]] nlohmann::json graph_pod(Rental& pod);
    [[nodiscard]] nlohmann::json graph_gpu_type(const GpuModel& model, const GraphField& field);
    [[nodiscard]] nlohmann::json graph_deploy(const nlohmann::json& input, bool spot);
    [[nodiscard]] nlohmann::json graph_account(const GraphField& field, const Caller* caller);
    [[nodiscard]] std::string graph_keys() const;
    [[nodiscard]] Rental& graph_find(const nlohmann::json& input, const Caller* caller, const char* doing);

    World& world_;
    Quotas quotas_;
    std::vector<NetworkVolume> volumes_;
    std::vector<Registry> registries_;
    std::vector<std::string> account_keys_;
};

/// application/problem+json.
[[nodiscard]] HttpResponse problem(int status, const std::string& detail,
                                   const std::vector<std::string>& errors = {});
/// Parses and validates a body: the value, or the 422 to answer.
[[nodiscard]] std::variant<nlohmann::json, HttpResponse> valid_body(const HttpRequest& request,
                                                                    const nlohmann::json& schema);
/// RFC 3339 without a fraction, as RunPod writes it.
[[nodiscard]] std::string whole_seconds(Instant at);

}  // namespace gf::sim
