// Vast.ai as a client sees it, below /api/v0 and /api/v1. Written from the providers page "Vast.ai";
// simulator/README.md has the section of each call.
#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "simulator/http.hpp"
#include "simulator/rate_limit.hpp"
#include "simulator/world.hpp"

namespace gf::sim {

/// Every call wants the world's lock held and the world advanced.
class VastaiFace {
 public:
    explicit VastaiFace(World& world) : world_(world) {}
    [[nodiscard]] HttpResponse handle(const HttpRequest& request);

    /// A host's proposal to raise the price of a contract; for tests.
    void propose_price(Rental& rental, std::int64_t gpu_per_hour);

 private:
    struct Caller {
        std::string identity;
        Rental* own{nullptr};  // a container's own key: its instance
    };
    using Path = std::vector<std::string>;

    // vastai_face.cpp: who calls, how often, where to.
    [[nodiscard]] std::optional<HttpResponse> refuse_caller(const HttpRequest& request, Caller& caller);
    [[nodiscard]] std::optional<HttpResponse> too_frequent(const HttpRequest& request, const Caller& caller,
                                                           const std::string& endpoint);
    [[nodiscard]] HttpResponse route(const HttpRequest& request, const Caller& caller, const Path& path);
    [[nodiscard]] HttpResponse route_instances(const HttpRequest& request, const Caller& caller,
                                               const Path& path);
    [[nodiscard]] HttpResponse too_often(double threshold);

    // vastai_search.cpp
    [[nodiscard]] HttpResponse search(const HttpRequest& request, const nlohmann::json& query);
    [[nodiscard]] nlohmann::json offer(const Host& host, const Ask& ask, bool rentable, bool bid,
                                       double storage_gb);
    [[nodiscard]] std::int64_t least_bid(const Host& host, int gpus) const;
    [[nodiscard]] HttpResponse gpu_metrics();

    // vastai_create.cpp
    [[nodiscard]] HttpResponse create(const HttpRequest& request, std::int64_t ask_id);

    // vastai_instances.cpp
    [[nodiscard]] HttpResponse show(const std::string& id);
    [[nodiscard]] HttpResponse list(const HttpRequest& request);
    [[nodiscard]] HttpResponse change(Rental& rental, const nlohmann::json& body);
    [[nodiscard]] HttpResponse destroy(const std::string& id);
    [[nodiscard]] HttpResponse set_bid(const HttpRequest& request, const std::string& id);
    [[nodiscard]] HttpResponse restart(const std::string& id, bool wipe);
    [[nodiscard]] HttpResponse bulk(const HttpRequest& request);
    [[nodiscard]] HttpResponse request_logs(const HttpRequest& request, const std::string& id);
    [[nodiscard]] HttpResponse result_file(const std::string& token);
    [[nodiscard]] HttpResponse instance_ssh(const HttpRequest& request, const Path& path);
    [[nodiscard]] nlohmann::json instance_json(Rental& rental);
    [[nodiscard]] nlohmann::json actual_status(const Rental& rental) const;
    [[nodiscard]] Rental* live(const std::string& id);

    // vastai_account.cpp
    [[nodiscard]] HttpResponse current_user();
    [[nodiscard]] HttpResponse account_ssh(const HttpRequest& request, const Path& path);
    [[nodiscard]] HttpResponse charges(const HttpRequest& request);
    [[nodiscard]] HttpResponse invoices(const HttpRequest& request);
    [[nodiscard]] HttpResponse price_increases(const HttpRequest& request, const Path& path);

    struct Proposal {
        std::int64_t id{0};
        std::string rental;
        std::int64_t gpu_per_hour{0};
    };
    struct LogRequest {
        std::string rental;
        std::size_t tail{0};
        Instant ready;
    };

    World& world_;
    Intervals intervals_;
    std::size_t refusals_{0};  // rotates the forms of 429
    std::map<std::string, LogRequest> log_requests_;
    std::vector<std::pair<std::int64_t, std::string>> account_keys_;
    std::int64_t next_key_{101};
    std::vector<Proposal> proposals_;
    std::int64_t next_proposal_{5'501};
};

/// {"success":false,"error":...,"msg":...}
[[nodiscard]] HttpResponse vast_error(int status, const std::string& error, const std::string& text);
/// Seconds since 1970 as the API's float.
[[nodiscard]] double unix_seconds(Instant at);

}  // namespace gf::sim
