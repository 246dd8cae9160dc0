#include "simulator/market.hpp"

#include <algorithm>

namespace gf::sim {

std::string_view text(Provider provider) {
    switch (provider) {
        case Provider::runpod:
            return "runpod";
        case Provider::vastai:
            return "vastai";
        case Provider::lambda:
            return "lambda";
        case Provider::vultr:
            return "vultr";
    }
    return "?";
}

std::optional<Provider> parse_provider(std::string_view name) {
    const auto* found =
        std::ranges::find(kProviders, name, [](Provider provider) { return text(provider); });
    if (found == kProviders.end()) return std::nullopt;
    return *found;
}

Market::Market() : models_(known_gpu_models()) {}

Host* Market::host(std::int64_t id) {
    const auto it = std::ranges::find(hosts_, id, &Host::id);
    return it == hosts_.end() ? nullptr : &*it;
}

const Host* Market::host(std::int64_t id) const {
    const auto it = std::ranges::find(hosts_, id, &Host::id);
    return it == hosts_.end() ? nullptr : &*it;
}

void Market::put(Host host) {
    relist(host.id);
    if (auto* known = this->host(host.id)) {
        *known = std::move(host);
        return;
    }
    hosts_.insert(std::ranges::upper_bound(hosts_, host.id, {}, &Host::id), std::move(host));
}

bool Market::remove(std::int64_t id) {
    relist(id);
    return std::erase_if(hosts_, [id](const Host& h) { return h.id == id; }) > 0;
}

const GpuModel* Market::model(std::string_view canonical) const {
    const auto it = std::ranges::find(models_, canonical, &GpuModel::canonical);
    return it == models_.end() ? nullptr : &*it;
}

void Market::put_model(GpuModel model) {
    const auto it = std::ranges::find(models_, model.canonical, &GpuModel::canonical);
    if (it != models_.end()) {
        *it = std::move(model);
    } else {
        models_.push_back(std::move(model));
    }
}

const std::vector<VmType>& Market::vm_types(Provider provider) const {
    static const std::vector<VmType> none;
    const auto it = vm_types_.find(provider);
    return it == vm_types_.end() ? none : it->second;
}

VmType* Market::vm_type(Provider provider, std::string_view name) {
    auto& types = vm_types_[provider];
    const auto it = std::ranges::find(types, name, &VmType::name);
    return it == types.end() ? nullptr : &*it;
}

const VmType* Market::vm_type(Provider provider, std::string_view name) const {
    const auto& types = vm_types(provider);
    const auto it = std::ranges::find(types, name, &VmType::name);
    return it == types.end() ? nullptr : &*it;
}

void Market::put_vm_type(Provider provider, VmType type) {
    if (auto* known = vm_type(provider, type.name)) {
        *known = std::move(type);
    } else {
        vm_types_[provider].push_back(std::move(type));
    }
}

const ImageFacts& Market::image(const std::string& reference) const {
    static const ImageFacts unknown;
    const auto it = images_.find(reference);
    return it == images_.end() ? unknown : it->second;
}

std::vector<Ask> Market::asks(std::int64_t host, int free) {
    std::vector<int> sizes;
    for (int n = 1; n <= free; n *= 2) sizes.push_back(n);
    if (free > 0 && sizes.back() != free) sizes.push_back(free);
    std::vector<Ask> result;
    for (const int size : sizes) {
        const auto known = std::ranges::find_if(
            asks_, [&](const auto& entry) { return entry.second.host == host && entry.second.gpus == size; });
        if (known != asks_.end()) {
            result.push_back(known->second);
            continue;
        }
        const Ask ask{.id = next_ask_++, .host = host, .gpus = size};
        asks_[ask.id] = ask;
        result.push_back(ask);
    }
    return result;
}

std::optional<Ask> Market::find_ask(std::int64_t id) const {
    const auto it = asks_.find(id);
    if (it == asks_.end()) return std::nullopt;
    return it->second;
}

void Market::relist(std::int64_t host) {
    std::erase_if(asks_, [host](const auto& entry) { return entry.second.host == host; });
}

}  // namespace gf::sim
