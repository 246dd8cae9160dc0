// POST /_sim/market: a market file, or changes in place to hosts and to types of virtual machines.
#include <nlohmann/json.hpp>

#include "simulator/admin_face.hpp"

namespace gf::sim {

using nlohmann::json;

void AdminFace::set_host(const json& row, Host host) {
    if (row.contains("price_per_gpu")) host.price_per_gpu = admin_money(row, "price_per_gpu");
    if (row.contains("floor_per_gpu")) host.floor_per_gpu = admin_money(row, "floor_per_gpu");
    if (row.contains("storage_per_gb_month")) host.storage_per_gb = admin_money(row, "storage_per_gb_month");
    host.taken = row.value("taken", host.taken);
    host.online = row.value("online", host.online);
    host.fails = row.value("fails", host.fails);
    host.lease_s = row.value("lease_s", host.lease_s);
    if (row.contains("offer_overrides")) host.offer_overrides = row["offer_overrides"].dump();
    if (row.contains("instance_overrides")) host.instance_overrides = row["instance_overrides"].dump();
    if (row.value("existing", false) && row.contains("price_per_gpu")) {
        for (const auto& each : world_.rentals()) {
            if (each->host == host.id && !each->is_bid)
                world_.set_rate(*each, host.price_per_gpu * each->gpus);
        }
    }
    world_.market().put(std::move(host));
}

int AdminFace::set_vm_types(const json& row) {
    int changed = 0;
    for (const auto provider : {Provider::lambda, Provider::vultr}) {
        if (row.contains("provider") && row["provider"] != text(provider)) continue;
        for (auto type : std::vector<VmType>(world_.market().vm_types(provider))) {
            if (row.contains("vm_type") && row["vm_type"] != type.name) continue;
            if (row.contains("gpu") && row["gpu"] != type.gpu) continue;
            if (const auto stock = row.find("stock"); stock != row.end()) {
                if (stock->is_object()) {
                    for (const auto& [region, count] : stock->items()) type.stock[region] = count.get<int>();
                } else {
                    for (auto& [region, count] : type.stock) count = stock->get<int>();
                }
            }
            if (row.contains("price")) type.price = admin_money(row, "price");
            if (row.contains("preemptible_price"))
                type.preemptible_price = admin_money(row, "preemptible_price");
            type.on_demand = row.value("on_demand", type.on_demand);
            type.preemptible = row.value("preemptible", type.preemptible);
            if (row.contains("overrides")) type.overrides = row["overrides"].dump();
            if (row.value("existing", false)) {
                for (const auto& each : world_.rentals()) {
                    if (each->provider == provider && each->exists() && each->vm.type == type.name)
                        world_.set_rate(*each, type.price_in(each->vm.region));
                }
            }
            world_.market().put_vm_type(provider, std::move(type));
            ++changed;
        }
    }
    return changed;
}

json AdminFace::change_market(const json& body) {
    // {"set":{...}} changes what is there in place; everything else is a market file.
    json file = body;
    int changed = 0;
    if (const auto set = body.find("set"); set != body.end()) {
        file.erase("set");
        const auto rows = set->is_array() ? *set : json::array({*set});
        for (const auto& row : rows) {
            const auto provider = row.contains("provider")
                                      ? parse_provider(row["provider"].get<std::string>())
                                      : std::optional<Provider>{};
            if (row.contains("vm_type") || (provider && rents_vms(*provider))) {
                changed += set_vm_types(row);
                continue;
            }
            for (const auto& host : std::vector<Host>(world_.market().hosts())) {
                if (row.contains("host") && host.id != row["host"].get<std::int64_t>()) continue;
                if (row.contains("gpu") && host.gpu != row["gpu"].get<std::string>()) continue;
                if (provider && host.provider != *provider) continue;
                set_host(row, host);
                ++changed;
            }
        }
    }
    const auto applied = apply_market(world_.market(), file);
    if (!applied) throw AdminError{422, applied.error().message};
    world_.market_changed();
    return {{"changed", changed}, {"hosts", world_.market().hosts().size()}};
}

}  // namespace gf::sim
