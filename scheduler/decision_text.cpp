#include <cmath>
#include <cstdio>
#include <cstdlib>
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

/// Three significant digits: what more there were would be noise, and would make every decision a new one.
double shown(double v) {
    char out[32];
    std::snprintf(out, sizeof out, "%.3g", v > 0 ? v : 0);
    return std::strtod(out, nullptr);
}

Json finish_json(const FinishCost& cost) {
    Json out{{"known", cost.known}};
    if (cost.known) {
        out["total"] = dollars(cost.total);
        out["lines"] = Json::array();
        for (const auto& line : cost.lines)
            out["lines"].push_back({{"name", line.name}, {"amount", dollars(line.amount)}, {"note", line.note}});
        out["run_seconds"] = std::chrono::ceil<Seconds>(cost.run).count();
        out["held_seconds"] = std::chrono::ceil<Seconds>(cost.held).count();
        out["units_per_hour"] = shown(cost.units_per_hour);
        out["unit"] = text(cost.unit);
    } else {
        out["per_unit"] = dollars(cost.per_unit);
        out["per_unit_of"] = cost.by_cores ? "core" : "V100";
    }
    if (cost.speed > 0) out["speed"] = shown(cost.speed);
    out["losses"] = shown(cost.losses);
    if (cost.hopeless) out["hopeless"] = true;
    if (cost.cut_off) out["cut_off"] = true;
    out["from"] = {{"work", cost.work_from}, {"speed", cost.speed_from}, {"losses", cost.losses_from}, {"start", cost.start_from}};
    return out;
}

Json ranked_json(const RankedOffer& ranked) {
    Json out = offer_json(ranked.offer, ranked.all_in);
    out["lines"] = Json::array();
    for (const auto& line : ranked.lines)
        out["lines"].push_back({{"name", line.name}, {"rate", dollars(line.rate)}});
    if (ranked.ranked_at != ranked.all_in) out["ranked_at"] = dollars(ranked.ranked_at);
    if (!ranked.host_note.empty()) out["host"] = ranked.host_note;
    if (ranked.finish) {
        out["score"] = dollars(ranked.score);
        out["finish"] = finish_json(*ranked.finish);
    }
    return out;
}

Json relaxation_json(const Relaxation& r) {
    Json out{{"key", r.key}};
    if (r.line > 0) out["line"] = r.line;
    out["reason"] = r.reason;
    out["set"] = r.set.empty() ? Json() : Json(r.set);  // null = leave the key out
    out["admits"] = r.admits;
    if (r.admits_all != r.admits) {
        out["set_all"] = r.set_all.empty() ? Json() : Json(r.set_all);
        out["admits_all"] = r.admits_all;
    }
    out["text"] = r.text;
    return out;
}

Json seen_json(const SeenOffer& offer) {
    Json out{{"provider", offer.provider.get()}, {"offer", offer.id},   {"gpu", offer.gpu},
             {"gpus", offer.gpu_count},          {"spot", offer.spot}, {"rate", dollars(offer.all_in)}};
    if (offer.reason.empty()) out["score"] = dollars(offer.score);
    else out["reason"] = offer.reason;
    return out;
}

Json deadline_json(const SpotDecision& d) {
    Json out{{"move", text(d.move)}, {"why", text(d.why)}};
    if (!d.key.empty()) out["key"] = d.key;
    out["slack_seconds"] = std::chrono::floor<Seconds>(d.slack).count();
    out["guard_seconds"] = std::chrono::ceil<Seconds>(d.guard).count();
    if (d.hour_value) out["hour_value"] = dollars(*d.hour_value);
    if (d.lifetime) out["lifetime_seconds"] = std::chrono::floor<Seconds>(*d.lifetime).count();
    if (d.if_idle) out["if_idle"] = dollars(*d.if_idle);
    if (d.if_spot) out["if_spot"] = dollars(*d.if_spot);
    if (d.if_sure) out["if_on_demand"] = dollars(*d.if_sure);
    return out;
}

/// Thousandths: what more there is, is noise.
double rounded(double value) { return std::round(value * 1000) / 1000; }

Json memory_json(const MemoryEstimate& e) {
    Json out{{"text", e.text}, {"model", e.model}, {"method", e.method}, {"peak_gib_per_gpu", rounded(e.peak_gib)}};
    if (e.formula_gib > 0) out["formula_gib_per_gpu"] = rounded(e.formula_gib);
    out["margin"] = e.margin;
    out["margin_reason"] = e.margin_reason;
    out["with_margin_gib_per_gpu"] = rounded(e.peak_gib * e.margin);
    out["vram_bytes"] = e.demand.count;
    out["parts"] = Json::object();
    for (const auto& [name, gib] : e.parts_gib) out["parts"][name] = rounded(gib);
    out["notes"] = e.notes;
    return out;
}

}  // namespace

std::string estimate_json(const MemoryEstimate& estimate) {
    return memory_json(estimate).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string decision_json(const Decision& decision) {
    Json out;
    // In front of the rest: what the job needs is why the cards below were refused.
    if (decision.estimate) out["estimate"] = memory_json(*decision.estimate);
    out["considered"] = decision.considered;
    out["chosen"] = decision.chosen ? ranked_json(*decision.chosen) : Json();
    if (!decision.wait_reason.empty()) out["wait_reason"] = decision.wait_reason;
    if (!decision.wait_detail.empty()) out["wait_detail"] = decision.wait_detail;
    if (decision.wait_since) out["wait_since"] = rfc3339(*decision.wait_since);
    if (!decision.passed_over.empty()) out["passed_over"] = decision.passed_over;
    if (decision.deadline) out["deadline"] = deadline_json(*decision.deadline);
    out["refused"] = Json::object();
    for (const auto& [reason, count] : decision.refused) out["refused"][reason] = count;
    out["ranked"] = Json::array();
    for (const auto& ranked : decision.ranked) out["ranked"].push_back(ranked_json(ranked));
    out["near_misses"] = Json::array();
    for (const auto& miss : decision.near_misses) {
        Json line = offer_json(miss.offer, miss.all_in);
        line["reason"] = miss.reason;
        line["detail"] = miss.detail;
        if (!miss.key.empty()) line["key"] = miss.key;
        out["near_misses"].push_back(std::move(line));
    }
    out["sources"] = Json::object();
    for (const auto& source : decision.sources) {
        Json line{{source.of_config ? "config" : "key", source.key}};
        if (source.line > 0) line["line"] = source.line;
        out["sources"][source.reason] = std::move(line);
    }
    out["relaxations"] = Json::array();
    for (const auto& r : decision.relaxations) out["relaxations"].push_back(relaxation_json(r));
    if (!decision.seen.empty()) {
        out["seen"] = Json::array();
        for (const auto& offer : decision.seen) out["seen"].push_back(seen_json(offer));
    }
    // Provider texts are foreign bytes: whatever is not UTF-8 becomes a replacement character, never an
    // exception.
    return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gf
