// RunPod's REST v2 (and GraphQL for the balance and the legacy spot market) in RunPod's own words: paths, JSON fields
// and status codes become the structs below, nothing is decided here. Blocking; thread-safe; paced. The GraphQL calls
// are in graphql.cpp. Facts: README.md beside this file.
#pragma once
#include <atomic>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "providers/canary.hpp"
#include "providers/decimal.hpp"
#include "providers/exchange.hpp"
#include "providers/http_client.hpp"
#include "providers/pacer.hpp"

namespace gf::runpod {

/// Which API an error body came from; a white-list of refusals must know that it was v2's own voice.
enum class Shape : std::uint8_t {
    none,      // no body
    problem,   // {title, status, detail} with status equal to the HTTP status: v2
    v1,        // {"error": …}
    graphql,   // {"errors": [{message}], "data": …}
    object,    // any other JSON
    not_json,  // HTML of the edge, plain text, truncated JSON
};

/// What came back, before anybody says what it means.
struct Answer : SentAnswer {
    Shape shape{Shape::none};
    std::string code;  // GraphQL's extensions.code
    [[nodiscard]] bool success() const {
        return delivery == Delivery::answered && status >= 200 && status < 300;
    }
};

/// `value` is set exactly when the answer is a success of the documented shape.
template <class T>
struct Reply {
    Answer answer;
    std::optional<T> value;
    Shapes shapes{};  // of the rows of a list
};

struct GpuType {
    std::string id;  // matched byte for byte, double spaces included
    std::optional<double> memory_gb;
    std::optional<bool> secure;
    std::optional<bool> community;
    NumberText price_secure;  // $/h of one GPU
    NumberText price_community;
    std::optional<std::int64_t> max_secure;  // size of the largest machine, no stock
    std::optional<std::int64_t> max_community;
    std::string availability;                 // NONE LOW MEDIUM HIGH; empty = not told
    std::vector<std::string> data_centers;    // ids with stock
    std::vector<std::string> cuda_available;  // "12.8"
    std::string problem;                      // a field of a wrong type, with its path
};

struct Pod {
    std::string id;
    std::string name;
    std::string status;
    std::string gpu_id;
    std::optional<std::int64_t> gpu_count;
    std::string cloud;
    std::string data_center;
    NumberText cost;  // $/h of the whole pod's compute
    std::optional<std::int64_t> disk_gb;
    std::optional<std::int64_t> volume_gb;  // mounts.persistent
    std::string machine_mark;  // env GPUFERRY_MACHINE; no other variable is kept: they hold secrets
    bool has_runtime{false};   // `runtime` is neither null nor {}
    std::string ssh_host;      // ssh.direct; stale where the pod does not run
    std::optional<std::int64_t> ssh_port;
    std::string ssh_user;
    std::string created_at;
};

struct CreateRequest {
    std::string name;
    std::string image;
    std::string gpu_id;
    int gpu_count{1};
    std::string cloud;  // SECURE | COMMUNITY
    std::int64_t disk_gb{1};
    std::map<std::string, std::string> env;
    std::string args;
    std::string registry_id;  // empty = none
    std::vector<std::string> ports{};  // "22/tcp"
    bool start_ssh{false};
    std::int64_t bid_micros_per_gpu{0};  // of a spot pod, $/h
};

/// A GPU type of the legacy spot market.
struct SpotType {
    std::string id;
    std::optional<double> memory_gb;
    std::optional<bool> sold;  // in the cloud that was asked for
    NumberText floor;          // $/h of one GPU: lowestPrice.minimumBidPrice
    std::string stock;         // High Medium Low None, mixed case; empty = not offered
    std::vector<std::int64_t> counts;  // availableGpuCounts; empty = not told
    std::string problem;
};

struct BillingRecord {
    std::string pod_id;
    std::string start;  // RFC 3339
    std::string end;
    NumberText amount;  // dollars, all lines
};

struct Account {
    NumberText balance;  // dollars
    NumberText spend_per_hour;
    NumberText spend_limit;  // $/h
    std::optional<bool> under_balance;
};

struct Registry {
    std::string id;
    std::string name;
};

struct ClientSettings {
    std::string api_url;
    std::string graphql_url;  // empty = neither balance nor spot
    Secret key;
};

class Client {
 public:
    Client(ClientSettings settings, HttpClient& http, Clock& clock, std::uint64_t seed);

    /// GET /catalog/gpus with availability. `cloud` is SECURE or COMMUNITY, `count` GPUs per pod.
    Reply<std::vector<GpuType>> gpus(const std::string& cloud, int count);
    /// POST /pods: one request on the wire, never repeated. `value` is set whenever the body carries a pod
    /// id, whatever the status.
    Reply<Pod> create(const CreateRequest& request, std::span<const Secret> secrets);
    Reply<Pod> pod(const std::string& id);
    /// GET /pods, all pages; `value` only when every page was whole.
    Reply<std::vector<Pod>> pods();
    /// GET /pods, one row: shows that the key is good.
    Answer probe();
    Answer terminate(const std::string& id);
    /// PATCH /pods/{id} with a name alone. Editing a pod whose container is up resets that container.
    Answer rename(const std::string& id, const std::string& name);
    /// GET /billing/pods in hours; the window snaps to whole ones. Times in RFC 3339.
    Reply<std::vector<BillingRecord>> billing(const std::string& start, const std::string& end);
    Reply<std::vector<Registry>> registries();
    Reply<Registry> create_registry(const std::string& name, const std::string& username,
                                    const Secret& password);
    /// 400 while a pod uses it.
    Answer delete_registry(const std::string& id);
    /// GraphQL myself.clientBalance, dollars.
    Reply<std::string> balance();
    /// The same with what limits a create, for people.
    Reply<Account> account();
    /// GraphQL gpuTypes.lowestPrice. `cloud` is SECURE or COMMUNITY, `count` GPUs per pod.
    Reply<std::vector<SpotType>> spot_types(const std::string& cloud, int count);
    /// GraphQL podRentInterruptable: one request on the wire, never repeated. `value` as in `create`.
    Reply<Pod> rent_spot(const CreateRequest& request, std::span<const Secret> secrets);

    [[nodiscard]] bool has_balance() const { return !settings_.graphql_url.empty(); }

 private:
    struct Exchange {
        Answer answer;
        std::string body;
    };
    Exchange call(std::string_view endpoint, HttpRequest request, std::span<const Secret> secrets = {});
    Exchange graphql(std::string_view endpoint, const std::string& query, bool once = false,
                     std::span<const Secret> secrets = {});
    ClientSettings settings_;
    HttpClient& http_;
    Pacer pacer_;
    std::atomic<bool> pages_{false};  // a listing has had its `pagination` once
};

}  // namespace gf::runpod
