// Vultr's API v2 as a client sees it, below /v2: Cloud GPU instances and bare metal. Written from the
// providers page "Vultr"; simulator/README.md has the section of each call.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "simulator/http.hpp"
#include "simulator/rate_limit.hpp"
#include "simulator/world.hpp"

namespace gf::sim {

/// Every call wants the world's lock held and the world advanced.
class VultrFace {
 public:
    explicit VultrFace(World& world) : world_(world) {}
    [[nodiscard]] HttpResponse handle(const HttpRequest& request);

 private:
    using Path = std::vector<std::string>;
    struct Key {
        std::string id;
        std::string name;
        std::string text;
        Instant created;
    };
    struct Script {
        std::string id;
        std::string name;
        std::string type;
        std::string text;  // base64
        Instant created;
    };
    struct Vpc {
        std::string id;
        std::string region;
        std::string description;
        std::string subnet;
        int mask{24};
        Instant created;
    };
    struct Firewall {
        std::string id;
        std::string description;
        nlohmann::json rules = nlohmann::json::array();
        Instant created;
    };
    struct Block {
        std::string id;
        std::string region;
        std::string label;
        std::string type;
        std::int64_t size_gb{0};
        std::string attached;
        Instant created;
    };
    /// A row of a list and the number that its place is remembered by.
    using Rows = std::vector<std::pair<std::uint64_t, nlohmann::json>>;

    // vultr_face.cpp: who calls, how often, where to.
    [[nodiscard]] std::optional<HttpResponse> refuse_caller(const HttpRequest& request, bool open) const;
    [[nodiscard]] std::optional<HttpResponse> too_frequent(const HttpRequest& request);
    [[nodiscard]] HttpResponse route(const HttpRequest& request, const Path& path);
    [[nodiscard]] HttpResponse paged(const HttpRequest& request, const char* key, const Rows& rows) const;

    // vultr_catalog.cpp
    [[nodiscard]] HttpResponse plans(const HttpRequest& request, bool metal) const;
    [[nodiscard]] HttpResponse regions(const HttpRequest& request) const;
    [[nodiscard]] HttpResponse availability(const HttpRequest& request, const std::string& region) const;
    [[nodiscard]] HttpResponse systems(const HttpRequest& request) const;
    [[nodiscard]] HttpResponse applications(const HttpRequest& request) const;
    [[nodiscard]] bool blind(const HttpRequest& request) const;

    // vultr_create.cpp
    [[nodiscard]] HttpResponse create(const HttpRequest& request, bool metal);
    [[nodiscard]] std::optional<HttpResponse> read_create(const nlohmann::json& body, Rental& rental) const;
    [[nodiscard]] std::optional<HttpResponse> read_image(const nlohmann::json& body, Rental& rental) const;
    [[nodiscard]] std::optional<HttpResponse> refuse_stock(const VmType& plan, const std::string& region);

    // vultr_instances.cpp
    [[nodiscard]] HttpResponse route_machines(const HttpRequest& request, const Path& path, bool metal);
    [[nodiscard]] HttpResponse list(const HttpRequest& request, bool metal);
    [[nodiscard]] HttpResponse part(const HttpRequest& request, Rental& rental, const std::string& what);
    [[nodiscard]] HttpResponse power(Rental& rental, const std::string& what);
    [[nodiscard]] HttpResponse patch(const HttpRequest& request, Rental& rental);
    [[nodiscard]] HttpResponse destroy(Rental& rental);
    [[nodiscard]] HttpResponse gone(bool metal) const;
    [[nodiscard]] nlohmann::json machine_json(Rental& rental, bool with_charges) const;
    [[nodiscard]] nlohmann::json metal_json(Rental& rental) const;
    [[nodiscard]] Rental* visible(const std::string& id, bool metal) const;
    [[nodiscard]] bool locked(const Rental& rental) const;

    // vultr_account.cpp
    [[nodiscard]] HttpResponse account();
    [[nodiscard]] HttpResponse billing(const HttpRequest& request, const Path& path);
    [[nodiscard]] HttpResponse ssh_keys(const HttpRequest& request, const Path& path);
    [[nodiscard]] HttpResponse scripts(const HttpRequest& request, const Path& path);
    [[nodiscard]] HttpResponse vpcs(const HttpRequest& request, const Path& path);
    [[nodiscard]] HttpResponse firewalls(const HttpRequest& request, const Path& path);
    [[nodiscard]] HttpResponse blocks(const HttpRequest& request, const Path& path);
    [[nodiscard]] std::string uuid();

    World& world_;
    TokenBuckets buckets_;
    std::vector<Key> keys_;
    std::vector<Script> scripts_;
    std::vector<Vpc> vpcs_;
    std::vector<Firewall> firewalls_;
    std::vector<Block> blocks_;
};

/// {"error":TEXT,"status":N}
[[nodiscard]] HttpResponse vultr_error(int status, const std::string& text);
[[nodiscard]] HttpResponse vultr_no_content();
/// The name of an operating system; empty = there is none of that number.
[[nodiscard]] std::string vultr_system(std::int64_t os_id);
[[nodiscard]] bool vultr_region(const std::string& id);
/// Dollars to whole cents, as Vultr writes charges.
[[nodiscard]] double vultr_cents(std::int64_t micros);

}  // namespace gf::sim
