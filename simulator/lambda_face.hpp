// Lambda Cloud as a client sees it, below /api/v1. Written from the providers page "Lambda";
// simulator/README.md has the section of each call.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "simulator/http.hpp"
#include "simulator/rate_limit.hpp"
#include "simulator/world.hpp"

namespace gf::sim {

/// Every call wants the world's lock held and the world advanced.
class LambdaFace {
 public:
    explicit LambdaFace(World& world) : world_(world) {}
    [[nodiscard]] HttpResponse handle(const HttpRequest& request);

 private:
    using Path = std::vector<std::string>;
    struct Key {
        std::string id;
        std::string name;
        std::string text;
    };
    struct FileSystem {
        std::string id;
        std::string name;
        std::string region;
        Instant created;
    };
    struct Ruleset {
        std::string id;
        std::string name;
        std::string region;
        nlohmann::json rules;
        Instant created;
    };

    // lambda_face.cpp: who calls, how often, where to.
    [[nodiscard]] std::optional<HttpResponse> refuse_caller(const HttpRequest& request) const;
    [[nodiscard]] std::optional<HttpResponse> too_frequent(bool launch);
    [[nodiscard]] HttpResponse route(const HttpRequest& request, const Path& path);
    [[nodiscard]] HttpResponse instance_types() const;
    [[nodiscard]] HttpResponse regions() const;
    [[nodiscard]] HttpResponse images() const;

    // lambda_launch.cpp
    [[nodiscard]] std::optional<HttpResponse> check_shape(const nlohmann::json& body) const;
    [[nodiscard]] std::optional<HttpResponse> check_things(const nlohmann::json& body, Rental& rental) const;
    [[nodiscard]] HttpResponse launch(const HttpRequest& request);
    [[nodiscard]] std::optional<HttpResponse> no_capacity(const VmType& type, const std::string& region);

    // lambda_instances.cpp
    [[nodiscard]] HttpResponse list_instances() const;
    [[nodiscard]] HttpResponse one_instance(const HttpRequest& request, const std::string& id);
    [[nodiscard]] HttpResponse operate(const HttpRequest& request, bool terminate);
    [[nodiscard]] nlohmann::json instance_json(const Rental& rental) const;
    [[nodiscard]] std::string status(const Rental& rental) const;
    [[nodiscard]] Rental* visible(const std::string& id) const;
    [[nodiscard]] bool listed(const Rental& rental, Millis lag) const;
    [[nodiscard]] HttpResponse no_instance() const;

    // lambda_account.cpp
    [[nodiscard]] HttpResponse ssh_keys(const HttpRequest& request, const Path& path);
    [[nodiscard]] HttpResponse file_systems(const HttpRequest& request, const Path& path);
    [[nodiscard]] HttpResponse firewall_rules(const HttpRequest& request);
    [[nodiscard]] HttpResponse firewall_rulesets(const HttpRequest& request, const Path& path);
    [[nodiscard]] HttpResponse audit_events(const HttpRequest& request) const;
    [[nodiscard]] nlohmann::json ruleset_json(const Ruleset& ruleset) const;
    void note(const std::string& what, const std::string& type, const std::string& id);

    World& world_;
    TokenBuckets buckets_;
    std::size_t refusals_{0};  // rotates the forms of 429
    std::vector<Key> keys_;
    std::vector<FileSystem> file_systems_;
    std::vector<Ruleset> rulesets_;
    nlohmann::json rules_ = nlohmann::json::array();
    nlohmann::json global_rules_ = nlohmann::json::array();
    std::vector<nlohmann::json> events_;
};

/// {"error":{"code":...,"message":...}}
[[nodiscard]] HttpResponse lambda_error(int status, const std::string& code, const std::string& message,
                                        const std::string& suggestion = {});
/// {"data":...}
[[nodiscard]] HttpResponse lambda_data(const nlohmann::json& data);
[[nodiscard]] nlohmann::json lambda_region(const std::string& name);
/// The type as it stands in lists and in instances, at `price` micro-dollars per hour.
[[nodiscard]] nlohmann::json lambda_type_json(const VmType& type, std::int64_t price);
/// The same id for the same image in the same place.
[[nodiscard]] std::string lambda_image_id(const std::string& family, const std::string& region,
                                          const std::string& arch);
/// The families that GET /images knows.
[[nodiscard]] bool lambda_image_family(const std::string& family);

}  // namespace gf::sim
