#include "providers/local/mapping.hpp"

#include <fmt/format.h>

#include <map>
#include <tuple>

namespace gf::local {
namespace {

Offer plain_offer(const Hardware& h) {
    Offer o;
    o.provider = ProviderName{"local"};
    o.verified = true;  // the user's own
    o.exclusive = true;
    o.host_id = h.host;
    o.region = "local";
    o.arch = h.arch;
    o.disk_max = h.disk_free;
    return o;
}

/// A share of the machine's electricity, rounded up.
UsdPerHour share(UsdPerHour whole, std::int64_t part, std::int64_t of) {
    return {of > 0 ? (whole.micros * part + of - 1) / of : whole.micros};
}

Offer gpu_offer(const Hardware& h, const std::vector<const Card*>& cards, const LocalMarket& market,
                const GpuLookup& lookup) {
    auto o = plain_offer(h);
    std::vector<std::string> uuids;
    for (const auto* c : cards) uuids.push_back(c->uuid);
    const auto count = static_cast<std::int64_t>(cards.size());
    const auto all = static_cast<std::int64_t>(h.cards.size());
    o.id = offer_id(uuids);
    o.gpu.provider_name = cards.front()->name;
    o.gpu.memory = cards.front()->memory;
    o.gpu.canonical = lookup("nvidia-smi", o.gpu.provider_name, o.gpu.memory).value_or("");
    o.gpu_count = static_cast<int>(count);
    o.gpu_rate = share(market.electricity, count, all);
    o.driver = cards.front()->driver;
    o.cuda_max = h.cuda;
    // Nothing divides the CPUs and the memory but good manners: each card brings its share of them.
    o.cpus = static_cast<double>(h.cpus) * static_cast<double>(count) / static_cast<double>(all);
    o.memory = Bytes{h.memory.count / all * count};
    return o;
}

}  // namespace

InUse in_use(const std::vector<MachineFile>& running) {
    InUse out;
    for (const auto& m : running) {
        out.gpus.insert(m.gpus.begin(), m.gpus.end());
        if (is_cpu_offer(m.offer)) out.cpu_slots.insert(m.offer);
    }
    return out;
}

std::string offer_id(const std::vector<std::string>& uuids) {
    std::string id = "gpu/";
    for (std::size_t i = 0; i < uuids.size(); ++i) id += (i > 0 ? "+" : "") + uuids[i];
    return id;
}

std::vector<std::string> cards_of(std::string_view id) {
    std::vector<std::string> out;
    if (!id.starts_with("gpu/")) return out;
    id.remove_prefix(4);
    while (!id.empty()) {
        const auto plus = std::min(id.find('+'), id.size());
        if (plus > 0) out.emplace_back(id.substr(0, plus));
        id.remove_prefix(std::min(plus + 1, id.size()));
    }
    return out;
}

bool is_cpu_offer(std::string_view id) {
    return id.starts_with("cpu/") && id.size() > 4 &&
           id.find_first_not_of("0123456789", 4) == std::string_view::npos;
}

OfferList offers_of(const Hardware& h, const InUse& used, const OfferQuery& query, const LocalMarket& market,
                    const GpuLookup& lookup) {
    OfferList out;
    if (!query.on_demand) return out;
    if (!h.gpu_trouble.empty()) out.rejected.push_back({.id = "gpu", .reason = "driver_trouble"});
    for (int slot = 1; slot <= market.cpu_machines; ++slot) {
        auto o = plain_offer(h);
        o.id = fmt::format("cpu/{}", slot);
        o.gpu_rate = market.electricity;
        o.cpus = h.cpus;
        o.memory = h.memory;
        if (used.cpu_slots.contains(o.id))
            out.rejected.push_back({.id = o.id, .reason = "in_use"});
        else
            out.offers.push_back(std::move(o));
    }
    std::map<std::tuple<std::string, std::int64_t, std::string>, std::vector<const Card*>> kinds;
    for (const auto& card : h.cards) {
        if (used.gpus.contains(card.uuid))
            out.rejected.push_back({.id = offer_id({card.uuid}), .reason = "in_use"});
        else if (is_busy(card))
            out.rejected.push_back({.id = offer_id({card.uuid}), .reason = "used_by_others"});
        else
            kinds[{card.name, card.memory ? card.memory->count : 0, card.driver}].push_back(&card);
    }
    for (const int count : std::set<int>(query.gpu_counts.begin(), query.gpu_counts.end())) {
        if (count < 1) continue;
        const auto size = static_cast<std::size_t>(count);
        for (const auto& [kind, cards] : kinds)
            for (std::size_t at = 0; at + size <= cards.size(); at += size)
                out.offers.push_back(gpu_offer(h,
                                               {cards.begin() + static_cast<std::ptrdiff_t>(at),
                                                cards.begin() + static_cast<std::ptrdiff_t>(at + size)},
                                               market, lookup));
    }
    return out;
}

ProviderMachine machine_of(const MachineFile& file, const GpuLookup& lookup) {
    ProviderMachine m;
    m.id = ProviderMachineId{file.tag};
    m.tag = file.tag;
    m.env_tag = file.tag;
    m.presence = Presence::running;
    m.raw_state = fmt::format("agent runs as process {}", file.process.pid);
    m.gpu_rate = file.rate;
    m.disk_rate = UsdPerHour{0};
    m.gpu_count = static_cast<int>(file.gpus.size());
    if (!file.gpu_name.empty()) {
        const auto memory = file.gpu_memory > 0 ? std::optional(Bytes{file.gpu_memory}) : std::nullopt;
        m.gpu = GpuIdentity{.canonical = lookup("nvidia-smi", file.gpu_name, memory).value_or(""),
                            .provider_name = file.gpu_name,
                            .memory = memory};
    }
    m.region = "local";
    m.created_at = instant_of(file.created_ms);
    return m;
}

bool is_plain_tag(std::string_view tag) {
    return !tag.empty() && tag.size() <= 64 && tag.front() != '-' &&
           tag.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string_view::npos;
}

}  // namespace gf::local
