// Offers (page section 3).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "simulator/vastai_face.hpp"

namespace gf::sim {

namespace {

using nlohmann::json;

constexpr std::size_t kOffersMax = 64;

/// NaN for a text that is not a number.
double number_in(const std::string& text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size() ? value : std::nan("");
}

/// -1, 0, 1, or nothing when the two cannot be compared.
std::optional<int> compare(const json& a, const json& b) {
    if (a.is_number() && (b.is_number() || b.is_string())) {
        // The vendor's own client sends the numbers of a filter as text.
        const auto x = a.get<double>();
        const auto y = b.is_number() ? b.get<double>() : number_in(b.get_ref<const std::string&>());
        if (!(x == x && y == y)) return std::nullopt;
        return x < y ? -1 : (x > y ? 1 : 0);
    }
    if (a.is_string() && b.is_string())
        return a.get_ref<const std::string&>().compare(b.get_ref<const std::string&>());
    if (a.is_boolean() && b.is_boolean())
        return static_cast<int>(a.get<bool>()) - static_cast<int>(b.get<bool>());
    return std::nullopt;
}

bool contains(const json& list, const json& value) {
    return std::ranges::any_of(list, [&](const json& entry) { return compare(value, entry) == 0; });
}

/// One operator on one field. Throws for an operator that does not exist.
bool holds(const json& value, const std::string& op, const json& operand) {
    if (op == "in" || op == "notin" || op == "nin") {
        if (!operand.is_array()) throw std::runtime_error("operator '" + op + "' wants a list");
        return contains(operand, value) == (op == "in");
    }
    const auto order = compare(value, operand);
    if (op == "eq") return order == 0;
    if (op == "neq") return order != 0;
    if (op == "gt") return order && *order > 0;
    if (op == "lt") return order && *order < 0;
    if (op == "gte") return order && *order >= 0;
    if (op == "lte") return order && *order <= 0;
    throw std::runtime_error("unknown operator '" + op + "'");
}

/// What a filter looks at: query-only keys first, then the row's own fields.
json queried(const json& row, const std::string& key) {
    if (key == "id") return nullptr;  // a filter on `id` matches nothing
    if (key == "verified") return row["verification"] == "verified";
    if (key == "datacenter") return row["hosting_type"].get<int>() >= 1;
    if (key == "geolocation") {
        // Queries use the two-letter country.
        if (!row["geolocation"].is_string()) return nullptr;
        const auto& place = row["geolocation"].get_ref<const std::string&>();
        return place.size() >= 2 ? json(place.substr(place.size() - 2)) : json(nullptr);
    }
    const auto it = row.find(key);
    return it == row.end() ? json(nullptr) : *it;
}

bool special(const std::string& key) {
    return key == "order" || key == "type" || key == "limit" || key == "allocated_storage" ||
           key == "disable_bundling";
}

bool passes(const json& row, const json& query) {
    for (const auto& [key, filter] : query.items()) {
        if (special(key)) continue;
        if (!filter.is_object())
            throw std::runtime_error("filter '" + key + "' must be an object {op: value}");
        const auto value = queried(row, key);
        for (const auto& [op, operand] : filter.items()) {
            if (!holds(value, op, operand)) return false;
            // Rows whose field is null match no comparison, and a filter on `id` matches nothing at all.
            if (key == "id") return false;
        }
    }
    return true;
}

void sort_rows(std::vector<json>& rows, const json& order) {
    if (!order.is_array()) throw std::runtime_error("order must be a list of [field, direction]");
    for (const auto& key : order) {
        if (!key.is_array() || key.size() != 2 || !key[0].is_string() || !key[1].is_string()) {
            throw std::runtime_error("order must be a list of [field, direction]");
        }
    }
    // Rows without the field come last, whatever the direction; ties go by id.
    std::ranges::sort(rows, [&](const json& a, const json& b) {
        for (const auto& key : order) {
            const auto field = key[0].get<std::string>();
            const auto x = a.value(field, json(nullptr));
            const auto y = b.value(field, json(nullptr));
            if (x.is_null() != y.is_null()) return y.is_null();
            const auto c = compare(x, y);
            if (c && *c != 0) return key[1] == "desc" ? *c > 0 : *c < 0;
        }
        return a["id"] < b["id"];
    });
}

/// "580.95.05" -> 580095005.
std::int64_t driver_number(const std::string& version) {
    std::int64_t number = 0;
    const char* at = version.data();
    const char* const end = version.data() + version.size();
    for (int part = 0; part < 3; ++part) {
        int value = 0;
        at = std::from_chars(at, end, value).ptr;
        number = number * 1000 + value;
        if (at != end) ++at;
    }
    return number;
}

double rounded(double value, int digits) {
    const double unit = std::pow(10.0, digits);
    return std::round(value * unit) / unit;
}

}  // namespace

std::int64_t VastaiFace::least_bid(const Host& host, int gpus) const {
    std::vector<std::int64_t> candidates{host.floor_per_gpu};
    for (const auto& rental : world_.rentals()) {
        if (rental->host != host.id || !rental->is_bid || !world_.holds_gpus(*rental)) continue;
        // Just above a standing bid.
        candidates.push_back(rental->bid_per_hour / std::max(1, rental->gpus) + 100);
    }
    std::ranges::sort(candidates);
    for (const auto bid : candidates) {
        if (bid >= host.floor_per_gpu && world_.free_gpus(host, bid) >= gpus) return bid * gpus;
    }
    return host.floor_per_gpu * gpus;
}

json VastaiFace::offer(const Host& host, const Ask& ask, bool rentable, bool bid, double storage_gb) {
    const auto* model = world_.market().model(host.gpu);
    const GpuModel nothing;
    const auto& gpu = model == nullptr ? nothing : *model;
    const auto n = ask.gpus;
    const auto share = static_cast<double>(n) / host.gpus;
    const auto min_bid = host.floor_per_gpu > 0 ? least_bid(host, n) : 0;
    const auto base = host.price_per_gpu * n;
    const double disk_hour =
        storage_gb * dollars_float(host.storage_per_gb) / static_cast<double>(kHoursPerMonth);
    const double gpu_hour = dollars_float(bid ? min_bid : base);
    const double total = gpu_hour + disk_hour;
    const auto now = world_.now();
    const auto end = world_.opened_at() + std::chrono::seconds(host.lease_s);
    const double dlperf = gpu.tflops * 1.2 * n;
    json row{{"id", ask.id},
             {"ask_contract_id", ask.id},
             {"bundle_id", 904'000'000 + host.id},
             {"bundled_results", 1},
             {"machine_id", host.id},
             {"host_id", host.host_owner},
             {"hosting_type", host.datacenter ? 1 : 0},
             {"gpu_name", gpu.vast_name},
             {"num_gpus", n},
             {"gpu_ram", gpu.vast_mb},
             {"gpu_total_ram", gpu.vast_mb * n},
             {"gpu_frac", share},
             {"gpu_arch", "nvidia"},
             {"gpu_mem_bw", gpu.bandwidth_gb_s * 0.9},
             {"gpu_lanes", 16},
             {"gpu_max_power", 450.0},
             {"compute_cap", gpu.compute_cap},
             {"cuda_max_good", host.cuda},
             {"driver_version", host.driver},
             {"driver_vers", driver_number(host.driver)},
             {"dlperf", rounded(dlperf, 2)},
             {"total_flops", gpu.tflops * n},
             {"cpu_name", host.cpu_name},
             {"cpu_cores", host.cpu_cores ? json(*host.cpu_cores) : json(nullptr)},
             {"cpu_cores_effective", host.cpu_cores.value_or(8 * host.gpus) * share},
             {"cpu_ram", host.cpu_ram_mb},
             {"cpu_ghz", 3.5},
             {"cpu_arch", "amd64"},
             {"has_avx", 1},
             {"disk_space", rounded(host.disk_gb, 1)},
             {"disk_bw", 3120.5},
             {"disk_name", "Samsung 990"},
             {"pci_gen", 4.0},
             {"pcie_bw", 24.9},
             {"bw_nvlink", 0.0},
             {"mobo_name", "ROMED8-2T"},
             {"os_version", "22.04"},
             {"inet_up", host.inet_up_mbps},
             {"inet_down", host.inet_down_mbps},
             {"inet_up_cost", dollars_float(host.inet_up_per_gb)},
             {"inet_down_cost", dollars_float(host.inet_down_per_gb)},
             {"internet_up_cost_per_tb", dollars_float(host.inet_up_per_gb) * 1000},
             {"internet_down_cost_per_tb", dollars_float(host.inet_down_per_gb) * 1000},
             {"direct_port_count", host.direct_ports},
             {"static_ip", host.static_ip},
             {"public_ipaddr", host.public_ip},
             {"geolocation", host.geolocation ? json(*host.geolocation) : json(nullptr)},
             {"reliability", host.reliability},
             {"reliability2", host.reliability},
             {"expected_reliability", host.reliability},
             {"verification", host.verified ? "verified" : "unverified"},
             {"vericode", host.verified ? 1 : 0},
             {"rentable", rentable},
             {"rented", !rentable},
             {"external", host.external},
             {"is_bid", bid},
             {"min_bid", min_bid > 0 ? json(dollars_float(min_bid)) : json(nullptr)},
             {"dph_base", gpu_hour},
             {"dph_total", total},
             {"storage_cost", dollars_float(host.storage_per_gb)},
             {"storage_total_cost", disk_hour},
             {"search",
              {{"gpuCostPerHour", gpu_hour},
               {"diskHour", disk_hour},
               {"totalHour", total},
               {"discountTotalHour", 0},
               {"discountedTotalPerHour", total}}},
             {"discount_rate", 0.0},
             {"credit_discount_max", 0.1},
             {"dlperf_per_dphtotal", rounded(dlperf / std::max(total, 1e-6), 2)},
             {"flops_per_dphtotal", rounded(gpu.tflops * n / std::max(total, 1e-6), 2)},
             {"score", rounded(dlperf / std::max(total, 1e-6) * host.reliability, 2)},
             {"start_date", unix_seconds(world_.opened_at())},
             {"end_date", unix_seconds(end)},
             {"duration", static_cast<double>((end - now).count()) / 1000.0},
             {"vms_enabled", false},
             {"rn", 1}};
    if (!host.offer_overrides.empty()) row.update(json::parse(host.offer_overrides));
    return row;
}

HttpResponse VastaiFace::search(const HttpRequest&, const json& query) {
    if (!query.is_object()) return vast_error(400, "invalid_request", "Invalid json body");
    try {
        const auto type = query.value("type", std::string{"on-demand"});
        if (type != "on-demand" && type != "ondemand" && type != "bid" && type != "reserved") {
            throw std::runtime_error("type must be on-demand, bid or reserved");
        }
        const bool bid = type == "bid";
        const double storage =
            query.contains("allocated_storage") ? query["allocated_storage"].get<double>() : 8.0;
        std::vector<json> rows;
        for (const auto& host : world_.market().hosts()) {
            if (host.provider != Provider::vastai || !host.online) continue;
            if (bid && host.floor_per_gpu <= 0) continue;
            if (world_.opened_at() + std::chrono::seconds(host.lease_s) <= world_.now()) continue;
            const int free = world_.free_gpus(host);
            auto asks = world_.market().asks(host.id, free);
            const bool taken = asks.empty();
            // A full machine is still listed to those who do not filter: rented, not rentable.
            if (taken) asks.push_back({.id = 18'000'000 + host.id, .host = host.id, .gpus = host.gpus});
            for (const auto& ask : asks) {
                auto row = offer(host, ask, !taken, bid, storage);
                if (passes(row, query)) rows.push_back(std::move(row));
            }
        }
        sort_rows(rows, query.value("order", json::array({{"score", "desc"}})));
        std::size_t limit = kOffersMax;
        if (query.contains("limit") && query["limit"].is_number_integer() &&
            query["limit"].get<std::int64_t>() > 0) {
            limit = std::min(limit, static_cast<std::size_t>(query["limit"].get<std::int64_t>()));
        }
        if (rows.size() > limit) rows.resize(limit);
        return json_response(200, {{"offers", rows}});
    } catch (const std::exception& e) {
        return vast_error(400, "invalid_args", fmt::format("error 400/3467: Invalid args: {}", e.what()));
    }
}

HttpResponse VastaiFace::gpu_metrics() {
    json rows = json::array();
    for (const auto& model : world_.market().models()) {
        int total = 0;
        int available = 0;
        std::vector<std::int64_t> prices;
        for (const auto& host : world_.market().hosts()) {
            if (host.provider != Provider::vastai || host.gpu != model.canonical) continue;
            total += host.gpus;
            available += host.online ? world_.free_gpus(host) : 0;
            prices.push_back(host.price_per_gpu);
        }
        if (prices.empty()) continue;
        std::ranges::sort(prices);
        const auto at = [&](double share) {
            return dollars_float(
                prices[static_cast<std::size_t>(share * static_cast<double>(prices.size() - 1))]);
        };
        rows.push_back({{"gpu_name", model.vast_name},
                        {"total", total},
                        {"available", available},
                        {"price_p10", at(0.1)},
                        {"price_p50", at(0.5)},
                        {"price_p90", at(0.9)},
                        {"usage", total > 0 ? static_cast<double>(total - available) / total : 0.0}});
    }
    return json_response(200, {{"success", true}, {"gpus", rows}});
}

}  // namespace gf::sim
