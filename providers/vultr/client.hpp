// Vultr's API v2 in Vultr's own words: paths, JSON fields and status codes become the structs below, nothing
// is decided here. Blocking; thread-safe; paced over all calls together. Facts: README.md beside this file.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "providers/canary.hpp"
#include "providers/decimal.hpp"
#include "providers/exchange.hpp"
#include "providers/http_client.hpp"
#include "providers/pacer.hpp"

namespace gf::vultr {

/// What came back, before anybody says what it means.
struct Answer : SentAnswer {
    bool json{false};  // the body is a JSON object
    bool flat{false};  // it is Vultr's own error: {"error": text, "status": the HTTP status}
    bool malformed{false};  // a success by status, but not of the documented shape; `text` says how
    [[nodiscard]] bool success() const {
        return delivery == Delivery::answered && status >= 200 && status < 300 && !flat && !malformed;
    }
    [[nodiscard]] bool ok() const { return success() && json; }
};

template <class T>
struct Reply {
    Answer answer;
    std::optional<T> value;
};

struct Price {
    NumberText monthly;
    NumberText hourly;
    NumberText monthly_preemptible;
    NumberText hourly_preemptible;
    bool malformed{false};  // what stands there is not of the documented shape, so it has no price
};

struct Plan {
    std::string id;
    std::string type;  // "vcg", "vdm", "vc2", …
    std::optional<std::int64_t> vcpus;
    std::optional<double> ram_mb;
    std::optional<double> disk_gb;
    Price price;
    std::map<std::string, Price> location_price;  // by region, over `price`
    std::vector<std::string> locations;           // where it may exist in principle: no stock
    std::string gpu_type;                         // "NVIDIA_A100"; empty on whole nodes at times
    std::string gpu_count;                        // "8", "1/8", empty = not told
    std::optional<double> gpu_vram_gb;            // of the whole plan
    std::optional<bool> on_demand;
    std::optional<bool> preemptible;
    std::string problem;  // a field of a wrong type, with its path
};
struct Plans {
    std::vector<Plan> plans;
    Shapes shapes;
    std::vector<Drift> drift;  // an answer without its paging
};

struct Region {
    std::string id;
    std::string country;
};

struct System {
    std::int64_t id{0};
    std::string name;
    std::string arch;
    std::string family;
};

struct CreateCall {
    std::string region;
    std::string plan;
    std::int64_t os_id{0};
    std::string label;
    std::string hostname;
    std::vector<std::string> tags;
    std::string user_data;  // base64
};

struct Instance {
    std::string id;
    std::string label;
    std::string status;
    std::string power_status;
    std::string server_status;
    std::string main_ip;
    std::string region;
    std::string plan;
    std::string date_created;
    std::vector<std::string> tags;
};

struct Account {
    NumberText balance;  // negative = credit
    NumberText pending_charges;
    std::vector<std::string> acls;
};

struct PendingCharge {
    std::string description;  // "Cloud GPU (orch-job-81)"
    std::string start_date;
    std::string end_date;
    NumberText total;
};

class Client {
 public:
    Client(std::string api_url, Secret key, HttpClient& http, Clock& clock, std::uint64_t seed);

    /// GET /plans?type=, all pages.
    Reply<Plans> plans(const std::string& type);
    /// GET /regions, all pages.
    Reply<std::vector<Region>> regions();
    /// GET /regions/{id}/availability: the ids of plans of all types that are in stock there.
    Reply<std::vector<std::string>> stock(const std::string& region);
    /// GET /os, all pages.
    Reply<std::vector<System>> systems();
    /// POST /instances: one request on the wire, never repeated. `value` is set whenever the body carries an
    /// id, whatever the status.
    Reply<Instance> create(const CreateCall& call, std::span<const Secret> secrets);
    Reply<Instance> instance(const std::string& id);
    /// GET /instances, all pages; `value` only when every page was whole.
    Reply<std::vector<Instance>> instances();
    /// GET /instances?per_page=1: a success proves the key.
    Answer probe();
    Answer destroy(const std::string& id);
    Answer rename(const std::string& id, const std::string& label);
    Reply<Account> account();
    Reply<std::vector<PendingCharge>> pending_charges();

 private:
    struct Exchange {
        Answer answer;
        std::string body;
    };
    struct Pages;  // rows of all pages
    Exchange call(std::string_view endpoint, HttpRequest request, Millis patience,
                  std::span<const Secret> secrets = {});
    Pages pages(std::string_view endpoint, const std::string& path, std::string_view query,
                std::string_view key);
    std::string api_url_;
    Secret key_;
    HttpClient& http_;
    Pacer pacer_;
};

}  // namespace gf::vultr
