#include "db/offer_json.hpp"

#include <nlohmann/json.hpp>
#include <type_traits>

namespace gf::db {
namespace {

using nlohmann::json;

// One list of fields for both directions. `field(key, member)` is called for each in order.
template <class O, class Field>
void offer_fields(O& o, Field field) {
    field("provider", o.provider);
    field("id", o.id);
    field("spot", o.spot);
    field("gpu_count", o.gpu_count);
    field("gpu_share", o.gpu_share);
    field("gpu_rate", o.gpu_rate);
    field("billing_step", o.billing_step);
    field("billing_minimum", o.billing_minimum);
    field("disk_micros_per_gb_month", o.disk_micros_per_gb_month);
    field("hours_per_month", o.hours_per_month);
    field("traffic_up_micros_per_gb", o.traffic_up_micros_per_gb);
    field("traffic_down_micros_per_gb", o.traffic_down_micros_per_gb);
    field("spot_floor", o.spot_floor);
    field("region", o.region);
    field("country", o.country);
    field("host_id", o.host_id);
    field("host_owner", o.host_owner);
    field("data_center", o.data_center);
    field("cloud", o.cloud);
    field("cpus", o.cpus);
    field("memory", o.memory);
    field("disk_max", o.disk_max);
    field("reliability", o.reliability);
    field("verified", o.verified);
    field("inet_down_mbps", o.inet_down_mbps);
    field("inet_up_mbps", o.inet_up_mbps);
    field("lease_end", o.lease_end);
    field("cuda_max", o.cuda_max);
    field("driver", o.driver);
    field("arch", o.arch);
    field("stock", o.stock);
    field("exclusive", o.exclusive);
}

template <class G, class Field>
void gpu_fields(G& g, Field field) {
    field("canonical", g.canonical);
    field("provider_name", g.provider_name);
    field("memory", g.memory);
}

template <class T>
json plain(const T& v) { return json(v); }
json plain(const ProviderName& v) { return v.get(); }
json plain(Bytes v) { return v.count; }
json plain(Millis v) { return v.count(); }
json plain(UsdPerHour v) { return v.micros; }
json plain(Instant v) { return unix_millis(v); }

template <class T>
void write(json& to, const char* key, const T& v) { to[key] = plain(v); }
template <class T>
void write(json& to, const char* key, const std::optional<T>& v) {
    if (v) to[key] = plain(*v);
}

template <class T>
void set(const json& from, T& v) { v = from.get<T>(); }
void set(const json& from, ProviderName& v) { v = ProviderName{from.get<std::string>()}; }
void set(const json& from, Bytes& v) { v = Bytes{from.get<std::int64_t>()}; }
void set(const json& from, Millis& v) { v = Millis{from.get<std::int64_t>()}; }
void set(const json& from, UsdPerHour& v) { v = UsdPerHour{from.get<std::int64_t>()}; }
void set(const json& from, Instant& v) { v = instant_of(from.get<std::int64_t>()); }

template <class T>
void read(const json& from, const char* key, T& v) {
    if (const auto found = from.find(key); found != from.end() && !found->is_null()) set(*found, v);
}
template <class T>
void read(const json& from, const char* key, std::optional<T>& v) {
    if (const auto found = from.find(key); found != from.end() && !found->is_null()) set(*found, v.emplace());
}

}  // namespace

std::string offer_json(const Offer& offer) {
    json whole = json::object();
    offer_fields(offer, [&](const char* key, const auto& member) { write(whole, key, member); });
    json gpu = json::object();
    gpu_fields(offer.gpu, [&](const char* key, const auto& member) { write(gpu, key, member); });
    whole["gpu"] = std::move(gpu);
    // A provider's text that is not UTF-8 must not stop the machine's row from being written.
    return whole.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<Offer> parse_offer_json(std::string_view text) {
    try {
        const auto whole = json::parse(text);
        Offer offer;
        offer_fields(offer, [&](const char* key, auto& member) { read(whole, key, member); });
        const auto& gpu = whole.at("gpu");
        gpu_fields(offer.gpu, [&](const char* key, auto& member) { read(gpu, key, member); });
        return offer;
    } catch (const json::exception& failure) {
        return fail(ErrorKind::malformed, std::string("stored offer: ") + failure.what());
    }
}

}  // namespace gf::db
