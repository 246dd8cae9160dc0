// Plans, regions, stock and images at Vultr (page section 2).
#include <algorithm>
#include <array>

#include "simulator/vultr_face.hpp"

namespace gf::sim {

namespace {

using nlohmann::json;

struct Region {
    const char* id;
    const char* city;
    const char* country;
    const char* continent;
};
constexpr std::array<Region, 33> kRegions{{{"ams", "Amsterdam", "NL", "Europe"},
                                           {"atl", "Atlanta", "US", "North America"},
                                           {"blr", "Bangalore", "IN", "Asia"},
                                           {"bom", "Mumbai", "IN", "Asia"},
                                           {"cdg", "Paris", "FR", "Europe"},
                                           {"del", "Delhi NCR", "IN", "Asia"},
                                           {"dfw", "Dallas", "US", "North America"},
                                           {"ewr", "New Jersey", "US", "North America"},
                                           {"fra", "Frankfurt", "DE", "Europe"},
                                           {"hnl", "Honolulu", "US", "North America"},
                                           {"icn", "Seoul", "KR", "Asia"},
                                           {"itm", "Osaka", "JP", "Asia"},
                                           {"jnb", "Johannesburg", "ZA", "Africa"},
                                           {"lax", "Los Angeles", "US", "North America"},
                                           {"lhr", "London", "GB", "Europe"},
                                           {"mad", "Madrid", "ES", "Europe"},
                                           {"man", "Manchester", "GB", "Europe"},
                                           {"mel", "Melbourne", "AU", "Australia"},
                                           {"mex", "Mexico City", "MX", "North America"},
                                           {"mia", "Miami", "US", "North America"},
                                           {"nrt", "Tokyo", "JP", "Asia"},
                                           {"ord", "Chicago", "US", "North America"},
                                           {"sao", "São Paulo", "BR", "South America"},
                                           {"scl", "Santiago", "CL", "South America"},
                                           {"sea", "Seattle", "US", "North America"},
                                           {"sgp", "Singapore", "SG", "Asia"},
                                           {"sjc", "Silicon Valley", "US", "North America"},
                                           {"sto", "Stockholm", "SE", "Europe"},
                                           {"syd", "Sydney", "AU", "Australia"},
                                           {"tlv", "Tel Aviv", "IL", "Asia"},
                                           {"waw", "Warsaw", "PL", "Europe"},
                                           {"yto", "Toronto", "CA", "North America"},
                                           {"dca", "Washington", "US", "North America"}}};

constexpr std::array kPlanTypes{"all",   "vc2",   "vdc",   "vhf",   "vhp", "voc",
                                "voc-g", "voc-c", "voc-m", "voc-s", "vcg", "vdm"};

struct System {
    std::int64_t id;
    const char* name;
    const char* arch;
    const char* family;
};
constexpr std::array<System, 5> kSystems{{{1743, "Ubuntu 22.04 LTS x64", "x64", "ubuntu"},
                                          {2284, "Ubuntu 24.04 LTS x64", "x64", "ubuntu"},
                                          {2136, "Debian 12 x64 (bookworm)", "x64", "debian"},
                                          {2482, "Ubuntu 24.04 LTS arm64", "arm64", "ubuntu"},
                                          {159, "Custom", "x64", "iso"}}};

/// Cloud GPU plans have a month of 730 hours, bare metal one of 672.
double monthly(const VmType& plan, std::int64_t hourly) {
    return vultr_cents(hourly * (plan.kind == "vbm" ? 672 : 730));
}

void add_prices(json& row, const VmType& plan, std::int64_t hourly, std::int64_t preemptible) {
    row["monthly_cost"] = monthly(plan, hourly);
    row["hourly_cost"] = dollars_float(hourly);
    row["monthly_cost_preemptible"] = monthly(plan, preemptible);
    row["hourly_cost_preemptible"] = dollars_float(preemptible);
}

json plan_json(const VmType& plan, const Settings& settings, bool blind) {
    const bool metal = plan.kind == "vbm";
    json row{{"id", plan.name},
             {"ram", std::int64_t{plan.memory_gib} * 1024},
             {"disk", plan.storage_gb},
             {"disk_count", metal ? 8 : 1},
             {"bandwidth", 10'240},
             {"invoice_type", "hourly"},
             {"locations", plan.kind == "vdm" ? std::vector<std::string>{} : plan.locations},
             {"deploy_ondemand", plan.on_demand},
             {"deploy_preemptible", plan.preemptible}};
    const auto preemptible = plan.preemptible_price > 0 ? plan.preemptible_price : plan.price;
    add_prices(row, plan, plan.price, preemptible);
    if (metal) {
        row["cpu_count"] = plan.vcpus / 2;
        row["cpu_cores"] = plan.vcpus / 2;
        row["cpu_threads"] = plan.vcpus;
        row["physical_cpus"] = 2;
        row["cpu_manufacturer"] = plan.arch == "arm64" ? "NVIDIA" : "AMD";
        row["cpu_model"] = plan.arch == "arm64" ? "Grace" : "EPYC 7713";
        row["cpu_mhz"] = 2000;
        row["type"] = "NVMe";
    } else {
        row["vcpu_count"] = plan.vcpus;
        row["type"] = plan.kind;
        row["disk_type"] = plan.kind == "vdm" ? "DEDICATEDMETAL" : "CLOUDGPU";
        row["cpu_vendor"] = "AMD";
        row["vcpu_type"] = "thread";
        row["storage_type"] = "local_storage";
        json per_region = json::object();
        for (const auto& [region, price] : plan.location_price) {
            per_region[region] = json::object();
            add_prices(per_region[region], plan, price, price);
        }
        row["location_cost"] =
            per_region.empty() && settings.vultr_location_cost_array ? json::array() : per_region;
    }
    // Whole nodes tell their GPUs to known callers only.
    const bool untold = blind && plan.kind != "vcg";
    if (!plan.gpu.empty() && !untold) {
        row["gpu_vram_gb"] = plan.vram_gb;
        row["gpu_type"] = plan.gpu_type;
        row["gpu_brand"] = plan.gpu_type.starts_with("AMD") ? "amd" : "nvidia";
        if (plan.share.empty()) {
            row["gpu_count"] = plan.gpus;
        } else if (settings.vultr_string_counts) {
            row["gpu_count"] = plan.share;
        }
    }
    if (!plan.overrides.empty()) row.update(json::parse(plan.overrides));
    return row;
}

}  // namespace

std::string vultr_system(std::int64_t os_id) {
    const auto* found = std::ranges::find(kSystems, os_id, &System::id);
    return found == kSystems.end() ? std::string{} : found->name;
}

bool vultr_region(const std::string& id) {
    return std::ranges::find(kRegions, id, [](const Region& r) { return std::string{r.id}; }) !=
           kRegions.end();
}

bool VultrFace::blind(const HttpRequest& request) const {
    return world_.settings().vultr_keyless_empty && !request.bearer();
}

HttpResponse VultrFace::plans(const HttpRequest& request, bool metal) const {
    const auto type = request.query_value("type").value_or("all");
    if (!metal && std::ranges::find(kPlanTypes, type) == kPlanTypes.end())
        return vultr_error(400, "Invalid plan type.");
    Rows rows;
    std::uint64_t n = 0;
    for (const auto& plan : world_.market().vm_types(Provider::vultr)) {
        ++n;
        if ((plan.kind == "vbm") != metal) continue;
        if (!metal && type != "all" && type != plan.kind) continue;
        rows.emplace_back(n, plan_json(plan, world_.settings(), blind(request)));
    }
    return paged(request, metal ? "plans_metal" : "plans", rows);
}

HttpResponse VultrFace::regions(const HttpRequest& request) const {
    Rows rows;
    for (const auto& region : kRegions) {
        rows.emplace_back(rows.size() + 1, json{{"id", region.id},
                                                {"city", region.city},
                                                {"country", region.country},
                                                {"continent", region.continent},
                                                {"options", {"ddos_protection", "block_storage_high_perf"}},
                                                {"connectivity", {"10g"}}});
    }
    return paged(request, "regions", rows);
}

HttpResponse VultrFace::availability(const HttpRequest& request, const std::string& region) const {
    if (!vultr_region(region)) return vultr_error(404, "Invalid location.");
    const auto type = request.query_value("type").value_or("");
    json ids = json::array();
    if (blind(request)) return json_response(200, {{"available_plans", ids}});
    for (const auto& plan : world_.market().vm_types(Provider::vultr)) {
        if (!type.empty() && type != "all" && type != plan.kind) continue;
        if (!plan.on_demand && !plan.preemptible) continue;
        if (world_.free_vms(Provider::vultr, plan, region) > 0) ids.push_back(plan.name);
    }
    return json_response(200, {{"available_plans", ids}});
}

HttpResponse VultrFace::systems(const HttpRequest& request) const {
    Rows rows;
    for (const auto& system : kSystems) {
        rows.emplace_back(
            rows.size() + 1,
            json{{"id", system.id}, {"name", system.name}, {"arch", system.arch}, {"family", system.family}});
    }
    return paged(request, "os", rows);
}

HttpResponse VultrFace::applications(const HttpRequest& request) const {
    const auto type = request.query_value("type").value_or("all");
    const auto app = [](int id, const char* name, const char* image, const char* kind) {
        return json{{"id", id},
                    {"name", name},
                    {"short_name", image[0] == '\0' ? "cuda" : image},
                    {"deploy_name", std::string{name} + " on Ubuntu 22.04 x64"},
                    {"type", kind},
                    {"vendor", "vultr"},
                    {"image_id", image}};
    };
    Rows rows;
    if (type == "all" || type == "marketplace")
        rows.emplace_back(1, app(1028, "Docker", "docker", "marketplace"));
    if (type == "all" || type == "one-click") rows.emplace_back(2, app(37, "CUDA", "", "one-click"));
    return paged(request, "applications", rows);
}

}  // namespace gf::sim
