#include <nlohmann/json.hpp>

#include "scheduler/choice.hpp"

namespace gf {
namespace {

using Json = nlohmann::ordered_json;

Json offer_json(const Offer& offer, UsdPerHour all_in) {
    Json out{{"provider", offer.provider.get()}, {"offer", offer.id}};
    out["gpu"] = offer.gpu.canonical.empty() ? offer.gpu.provider_name : offer.gpu.canonical;
    out["gpus"] = offer.gpu_count;
    out["spot"] = offer.spot;
    if (offer.gpu.memory) out["vram_bytes"] = offer.gpu.memory->count;
    if (!offer.country.empty()) out["country"] = offer.country;
    if (!offer.region.empty()) out["region"] = offer.region;
    if (!offer.cloud.empty()) out["cloud"] = offer.cloud;
    out["rate"] = dollars(all_in);
    return out;
}

Json ranked_json(const RankedOffer& ranked) {
    Json out = offer_json(ranked.offer, ranked.all_in);
    out["lines"] = Json::array();
    for (const auto& line : ranked.lines)
        out["lines"].push_back({{"name", line.name}, {"rate", dollars(line.rate)}});
    if (ranked.ranked_at != ranked.all_in) out["ranked_at"] = dollars(ranked.ranked_at);
    if (!ranked.host_note.empty()) out["host"] = ranked.host_note;
    return out;
}

}  // namespace

std::string decision_json(const Decision& decision) {
    Json out{{"considered", decision.considered}};
    out["chosen"] = decision.chosen ? ranked_json(*decision.chosen) : Json();
    if (!decision.wait_reason.empty()) out["wait_reason"] = decision.wait_reason;
    out["refused"] = Json::object();
    for (const auto& [reason, count] : decision.refused) out["refused"][reason] = count;
    out["ranked"] = Json::array();
    for (const auto& ranked : decision.ranked) out["ranked"].push_back(ranked_json(ranked));
    out["near_misses"] = Json::array();
    for (const auto& miss : decision.near_misses) {
        Json line = offer_json(miss.offer, miss.all_in);
        line["reason"] = miss.reason;
        line["detail"] = miss.detail;
        out["near_misses"].push_back(std::move(line));
    }
    // Provider texts are foreign bytes: whatever is not UTF-8 becomes a replacement character, never an
    // exception.
    return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gf
