// Vast.ai's API in Vast.ai's own words: paths, JSON fields and status codes become the structs below, nothing
// is decided here. Blocking; thread-safe; paced per endpoint. Facts: README.md beside this file.
#pragma once
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

namespace gf::vastai {

/// What came back, before anybody says what it means.
struct Answer : SentAnswer {
    bool json{false};  // the body is a JSON object; a 429 and others may be plain text
    std::optional<bool> success;  // HTTP 200 with success:false happens
    std::string code;  // `error`
    bool malformed{false};  // a success by status, but not of the documented shape; `text` says how
    [[nodiscard]] bool ok() const {
        return delivery == Delivery::answered && status >= 200 && status < 300 && json &&
               success.value_or(true) && !malformed;
    }
};

template <class T>
struct Reply {
    Answer answer;
    std::optional<T> value;
    Shapes shapes{};  // of the rows of a list
};

struct SearchRequest {
    std::vector<std::string> gpu_names;      // empty = all
    std::vector<std::string> gpu_names_not;  // left out, when `gpu_names` is empty
    int num_gpus{1};
    bool bid{false};
    std::int64_t disk_gb{8};
    // Demands; empty or absent = none. Whoever states one does not get rows where the figure is null.
    std::vector<std::string> countries{};   // two letters
    std::optional<std::int64_t> gpu_ram{};  // "MB" per GPU, at least
    std::optional<std::int64_t> cpu_ram{};  // MB of the whole machine, at least
    std::optional<int> cpu_cores_effective{};
    std::optional<double> reliability{};
    std::optional<double> inet_down{};
    std::optional<std::int64_t> duration_s{};
    std::optional<double> cuda{};
    bool unvetted{false};  // hosts that are not verified too
};

struct Ask {
    std::optional<std::int64_t> id;
    std::string gpu_name;
    std::optional<std::int64_t> num_gpus;
    std::optional<double> gpu_ram;  // "MB" per GPU
    std::string gpu_arch;
    std::string cpu_arch;
    std::optional<double> cpu_cores;  // of the whole machine
    std::optional<double> cpu_cores_effective;
    std::optional<double> cpu_ram;  // MB of the whole machine
    NumberText dph_base;
    NumberText dph_total;
    NumberText min_bid;
    NumberText storage_cost;  // $/GB/month of 720 h
    NumberText inet_up_cost;  // $/GB
    NumberText inet_down_cost;
    std::optional<double> inet_up;  // Mbps
    std::optional<double> inet_down;
    std::optional<double> disk_space;  // GB
    std::optional<double> reliability;
    std::optional<double> duration;  // s until the offer's end
    std::optional<double> end_date;  // unix s
    NumberText cuda_max_good;
    std::string driver_version;
    std::string geolocation;  // "City, CC"
    std::optional<std::int64_t> machine_id;
    std::optional<std::int64_t> host_id;  // who runs the machine
    std::string verification;
    std::optional<bool> rentable;
    std::optional<bool> rented;
    std::optional<bool> external;
    std::optional<bool> is_bid;
    std::string problem;  // a field of a wrong type, with its path
};

struct CreateRequest {
    std::int64_t ask{0};
    std::string image;
    std::int64_t disk_gb{8};
    std::string label;
    std::map<std::string, std::string> env;
    std::string entrypoint;
    std::vector<std::string> args;
    std::optional<UsdPerHour> price;  // present = interruptible, whatever was searched
    std::string image_login;
};
struct Created {
    std::int64_t contract{0};
};

struct Instance {
    std::int64_t id{0};
    std::string label;
    std::string machine_mark;                  // GPUFERRY_MACHINE of extra_env; nothing else of it is kept
    std::optional<std::string> actual_status;  // null = nothing reported yet
    std::string intended_status;
    std::string cur_state;
    std::string next_state;
    std::string status_msg;
    std::optional<bool> is_bid;
    NumberText dph_base;
    NumberText dph_total;
    NumberText min_bid;
    NumberText storage_cost;
    NumberText storage_total_cost;
    NumberText live_disk_hour;  // instance.diskHour
    std::string gpu_name;
    std::optional<std::int64_t> num_gpus;
    std::optional<double> gpu_ram;
    std::optional<double> disk_space;
    std::string geolocation;
    std::optional<std::int64_t> machine_id;
    std::string public_ipaddr;  // may end in a line break
    std::optional<std::int64_t> direct_ssh_port;  // ports["22/tcp"][0].HostPort
    std::string ssh_host;                         // of the proxy
    std::optional<std::int64_t> ssh_port;
    std::string image_runtype;
    std::optional<double> start_date;
    std::optional<double> end_date;
};

/// `instances` of a single read: an object, or null for an unknown or destroyed id.
struct Shown {
    std::optional<Instance> instance;
};

/// One row of the charges. They outlive the instance.
struct ChargeRow {
    std::optional<double> start;  // unix s
    std::optional<double> end;
    std::string source;  // "instance-24880153"
    std::string label;   // metadata.label
    NumberText amount;   // dollars, all items
};

/// A host wants more for a running contract.
struct PriceIncrease {
    std::int64_t contract{0};
    NumberText old_per_second;
    NumberText new_per_second;
};

class Client {
 public:
    Client(std::string api_url, Secret key, HttpClient& http, Clock& clock, std::uint64_t seed);

    /// POST /api/v0/bundles/: at most 64 rows whatever is asked. Works without a key, so it proves nothing
    /// about it.
    Reply<std::vector<Ask>> search(const SearchRequest& request);
    /// PUT /api/v0/asks/{id}/: one request on the wire, never repeated. `value` is set whenever the body
    /// carries `new_contract`, whatever the status.
    Reply<Created> create(const CreateRequest& request, std::span<const Secret> secrets);
    Reply<Shown> show(const std::string& id);
    /// GET /api/v1/instances/, all pages; `value` only when every page was whole.
    Reply<std::vector<Instance>> list();
    Answer destroy(const std::string& id);
    /// GET /api/v0/users/current/: the credit left in dollars; a success proves the key.
    Reply<NumberText> account();
    /// PUT /api/v0/instances/{id}/ with a label alone.
    Answer label(const std::string& id, const std::string& label);
    /// PUT /api/v0/instances/bid_price/{id}/: $/h for all GPUs.
    Answer bid(const std::string& id, UsdPerHour price);
    /// GET /api/v0/charges/ of instances, all pages. The days are unix seconds of their first and last second.
    Reply<std::vector<ChargeRow>> charges(std::int64_t first_day, std::int64_t last_day);
    /// GET /api/v0/instances/pending-price-increases/
    Reply<std::vector<PriceIncrease>> price_increases();

 private:
    struct Exchange {
        Answer answer;
        std::string body;
    };
    Exchange call(std::string_view endpoint, HttpRequest request, Millis patience,
                  std::span<const Secret> secrets = {});
    [[nodiscard]] Millis until_reset(const HttpResponse& response) const;
    std::string api_url_;
    Secret key_;
    HttpClient& http_;
    Clock& clock_;
    Pacer pacer_;
};

inline constexpr std::size_t kSearchRowsMax = 64;

}  // namespace gf::vastai
