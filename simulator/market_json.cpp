// The market file and its print-out. Keys are documented in simulator/README.md; an unknown key is an error,
// because a mistyped one would silently give another market.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "simulator/json_reader.hpp"
#include "simulator/market.hpp"

namespace gf::sim {

namespace {

using nlohmann::json;

Host read_host(const json& row, const Market& market, const std::string& where) {
    Reader in(row, where);
    Host host;
    std::string provider;
    std::string cloud = "SECURE";
    in.get("provider", provider);
    const auto parsed = parse_provider(provider);
    if (!parsed || rents_vms(*parsed)) throw std::runtime_error(where + ".provider must be \"runpod\" or \"vastai\"");
    in.get("id", host.id);
    if (host.id <= 0) throw std::runtime_error(where + ".id must be a positive integer");
    if (const auto* known = market.host(host.id)) host = *known;
    host.provider = *parsed;
    in.get("gpu", host.gpu);
    if (market.model(host.gpu) == nullptr) {
        throw std::runtime_error(where + ".gpu: no model '" + host.gpu + "' (see gpu_models)");
    }
    in.get("gpus", host.gpus);
    in.get("taken", host.taken);
    in.get("online", host.online);
    in.get("disk_gb", host.disk_gb);
    in.get("cuda", host.cuda);
    in.get("driver", host.driver);
    in.get("public_ip", host.public_ip);
    in.get("fails", host.fails);
    if (in.take("cloud") != nullptr) {
        in.get("cloud", cloud);
        host.secure = cloud == "SECURE";
    }
    in.get("data_center", host.data_center);
    in.money("price_per_gpu", host.price_per_gpu);
    in.money("floor_per_gpu", host.floor_per_gpu);
    in.money("storage_per_gb_month", host.storage_per_gb);
    in.money("inet_up_per_gb", host.inet_up_per_gb);
    in.money("inet_down_per_gb", host.inet_down_per_gb);
    in.get("host_id", host.host_owner);
    in.get("cpu_cores", host.cpu_cores);
    in.get("cpu_ram_mb", host.cpu_ram_mb);
    in.get("cpu_name", host.cpu_name);
    in.get("reliability", host.reliability);
    in.get("verified", host.verified);
    in.get("datacenter", host.datacenter);
    in.get("external", host.external);
    in.get("static_ip", host.static_ip);
    in.get("direct_ports", host.direct_ports);
    in.get("geolocation", host.geolocation);
    in.get("lease_s", host.lease_s);
    in.get("inet_up_mbps", host.inet_up_mbps);
    in.get("inet_down_mbps", host.inet_down_mbps);
    in.object_text("offer_overrides", host.offer_overrides);
    in.object_text("instance_overrides", host.instance_overrides);
    in.done();
    if (!host.fails.empty() && host.fails != "docker_fails" && host.fails != "never_runs") {
        throw std::runtime_error(where + ".fails must be \"docker_fails\" or \"never_runs\"");
    }
    if (host.gpus < 1 || host.gpus > 64) throw std::runtime_error(where + ".gpus must be 1..64");
    return host;
}

void read_model(Market& market, const std::string& name, const json& row) {
    Reader in(row, "gpu_models." + name);
    GpuModel model;
    if (const auto* known = market.model(name)) model = *known;
    model.canonical = name;
    in.get("runpod_id", model.runpod_id);
    in.get("runpod_name", model.runpod_name);
    in.get("pool", model.pool);
    in.get("runpod_gb", model.runpod_gb);
    in.get("vast_name", model.vast_name);
    in.get("vast_mb", model.vast_mb);
    in.get("card_name", model.card_name);
    in.get("card_mib", model.card_mib);
    in.get("compute_cap", model.compute_cap);
    in.get("bandwidth_gb_s", model.bandwidth_gb_s);
    in.get("tflops", model.tflops);
    in.done();
    market.put_model(std::move(model));
}

void read_type_price(Market& market, const std::string& gpu, const json& row) {
    Reader in(row, "runpod_prices." + gpu);
    auto& price = market.type_prices()[gpu];
    in.money("secure", price.secure);
    in.money("community", price.community);
    in.money("secure_spot", price.secure_spot);
    in.money("community_spot", price.community_spot);
    in.object_text("overrides", price.overrides);
    in.done();
}

void read_image(Market& market, const std::string& reference, const json& row) {
    Reader in(row, "images." + reference);
    ImageFacts facts;
    in.get("entrypoint", facts.entrypoint);
    in.get("cmd", facts.cmd);
    in.get("env", facts.env);
    in.get("pull_ms", facts.pull_ms);
    in.get("root", facts.root);
    in.get("missing", facts.missing);
    in.done();
    market.put_image(reference, std::move(facts));
}

void read_regions(Reader& in, const char* key, const std::string& where, std::map<std::string, int>& stock) {
    const auto* value = in.take(key);
    if (value == nullptr) return;
    stock.clear();
    for (const auto& [region, count] : value->items()) {
        if (!count.is_number_integer() || count.get<int>() < 0)
            throw std::runtime_error(where + "." + key + " must be whole numbers, 0 or more, by region");
        stock[region] = count.get<int>();
    }
}

/// The provider and the type of one row; what the market knows already is kept where the row is silent.
std::pair<Provider, VmType> read_vm_type(const json& row, const Market& market, const std::string& where) {
    Reader in(row, where);
    std::string name;
    in.get("provider", name);
    const auto provider = parse_provider(name);
    if (!provider || !rents_vms(*provider))
        throw std::runtime_error(where + ".provider must be \"lambda\" or \"vultr\"");
    VmType type;
    in.get("name", type.name);
    if (type.name.empty()) throw std::runtime_error(where + ".name is missing");
    if (const auto* known = market.vm_type(*provider, type.name)) type = *known;
    in.get("gpu", type.gpu);
    if (!type.gpu.empty() && market.model(type.gpu) == nullptr)
        throw std::runtime_error(where + ".gpu: no model '" + type.gpu + "' (see gpu_models)");
    in.get("gpus", type.gpus);
    if (type.gpus < 0 || type.gpus > 64) throw std::runtime_error(where + ".gpus must be 0..64");
    in.get("share", type.share);
    in.get("vram_gb", type.vram_gb);
    in.money("price", type.price);
    in.get("vcpus", type.vcpus);
    in.get("memory_gib", type.memory_gib);
    in.get("storage_gb", type.storage_gb);
    read_regions(in, "stock", where, type.stock);
    in.object_text("overrides", type.overrides);
    in.get("arch", type.arch);
    in.get("gpu_description", type.gpu_description);
    in.get("description", type.description);
    in.get("kind", type.kind);
    if (type.kind != "vcg" && type.kind != "vdm" && type.kind != "vbm")
        throw std::runtime_error(where + ".kind must be \"vcg\", \"vdm\" or \"vbm\"");
    in.get("gpu_type", type.gpu_type);
    in.get("locations", type.locations);
    if (const auto* prices = in.take("location_price")) {
        type.location_price.clear();
        for (const auto& [region, price] : prices->items()) {
            const auto micros = micros_of(price);
            if (!micros) throw std::runtime_error(where + ".location_price must be amounts in dollars by region");
            type.location_price[region] = *micros;
        }
    }
    in.money("preemptible_price", type.preemptible_price);
    in.get("on_demand", type.on_demand);
    in.get("preemptible", type.preemptible);
    in.done();
    return {*provider, std::move(type)};
}

void read_vm_types(Market& market, Reader& in, const char* key) {
    const auto* rows = in.take(key);
    if (rows == nullptr) return;
    std::size_t n = 0;
    for (const auto& row : *rows) {
        auto [provider, type] = read_vm_type(row, market, fmt::format("{}[{}]", key, n++));
        market.put_vm_type(provider, std::move(type));
    }
}

json to_json(Provider provider, const VmType& type) {
    return {{"provider", text(provider)}, {"name", type.name},   {"gpu", type.gpu},
            {"gpus", type.gpus},          {"share", type.share}, {"price", dollars_float(type.price)},
            {"stock", type.stock},        {"arch", type.arch},   {"on_demand", type.on_demand},
            {"preemptible", type.preemptible}};
}

void apply(Market& market, const json& file) {
    Reader in(file, "market");
    if (const auto* models = in.take("gpu_models")) {
        for (const auto& [name, row] : models->items()) read_model(market, name, row);
    }
    if (const auto* hosts = in.take("hosts")) {
        while (!market.hosts().empty()) market.remove(market.hosts().front().id);
        std::size_t n = 0;
        for (const auto& row : *hosts) market.put(read_host(row, market, fmt::format("hosts[{}]", n++)));
    }
    if (const auto* hosts = in.take("add_hosts")) {
        std::size_t n = 0;
        for (const auto& row : *hosts) market.put(read_host(row, market, fmt::format("add_hosts[{}]", n++)));
    }
    if (const auto* gone = in.take("remove_hosts")) {
        for (const auto& id : *gone) market.remove(id.get<std::int64_t>());
    }
    if (file.contains("vm_types")) {
        market.clear_vm_types(Provider::lambda);
        market.clear_vm_types(Provider::vultr);
    }
    read_vm_types(market, in, "vm_types");
    read_vm_types(market, in, "add_vm_types");
    if (const auto* prices = in.take("runpod_prices")) {
        for (const auto& [gpu, row] : prices->items()) read_type_price(market, gpu, row);
    }
    if (const auto* images = in.take("images")) {
        for (const auto& [reference, row] : images->items()) read_image(market, reference, row);
    }
    in.done();
}

}  // namespace

std::optional<std::int64_t> micros_of(const json& value) {
    if (value.is_string()) return parse_decimal_micros(value.get_ref<const std::string&>());
    if (value.is_number()) return parse_decimal_micros(value.dump());
    return std::nullopt;
}

double dollars_float(std::int64_t micros) {
    return static_cast<double>(micros) / 1e6;
}

Result<std::string> apply_market(Market& market, const json& file) {
    try {
        Market next = market;
        apply(next, file);
        market = std::move(next);
    } catch (const std::exception& e) {
        return fail(ErrorKind::invalid, e.what());
    }
    return fmt::format("{} hosts", market.hosts().size());
}

json to_json(const Host& host) {
    json row{{"provider", text(host.provider)},
             {"id", host.id},
             {"gpu", host.gpu},
             {"gpus", host.gpus},
             {"taken", host.taken},
             {"online", host.online},
             {"disk_gb", host.disk_gb},
             {"cuda", host.cuda},
             {"driver", host.driver},
             {"public_ip", host.public_ip}};
    if (host.provider == Provider::runpod) {
        row["cloud"] = host.secure ? "SECURE" : "COMMUNITY";
        row["data_center"] = host.data_center;
    } else {
        row["price_per_gpu"] = dollars_float(host.price_per_gpu);
        row["floor_per_gpu"] = dollars_float(host.floor_per_gpu);
        row["storage_per_gb_month"] = dollars_float(host.storage_per_gb);
        row["geolocation"] = host.geolocation ? json(*host.geolocation) : json(nullptr);
        row["cpu_cores"] = host.cpu_cores ? json(*host.cpu_cores) : json(nullptr);
        row["reliability"] = host.reliability;
        row["verified"] = host.verified;
        row["lease_s"] = host.lease_s;
    }
    return row;
}

json to_json(const Market& market) {
    json hosts = json::array();
    for (const auto& host : market.hosts()) hosts.push_back(to_json(host));
    json prices = json::object();
    for (const auto& [gpu, price] : market.type_prices()) {
        prices[gpu] = {{"secure", dollars_float(price.secure)},
                       {"community", dollars_float(price.community)}};
    }
    json types = json::array();
    for (const auto provider : kProviders) {
        for (const auto& type : market.vm_types(provider)) types.push_back(to_json(provider, type));
    }
    return {{"hosts", hosts}, {"runpod_prices", prices}, {"vm_types", types}};
}

}  // namespace gf::sim
