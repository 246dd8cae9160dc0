#include "daemon/api/json_views.hpp"

#include <cmath>

#include "model/money.hpp"

namespace gf::api {
namespace {

Json when(const std::optional<Instant>& at) { return at ? Json(rfc3339(*at)) : Json(nullptr); }
template <class T>
Json value_or_null(const std::optional<T>& value) { return value ? Json(*value) : Json(nullptr); }
Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }
Json bytes_or_null(const std::optional<Bytes>& bytes) { return bytes ? Json(bytes->count) : Json(nullptr); }

/// What the ssh tunnel to a machine says of itself, where it is not simply there (daemon/orchestrator/tunnels.cpp).
std::string tunnel_trouble(const std::string& agent_detail) {
    const auto noted = Json::parse(agent_detail, nullptr, false);
    if (!noted.is_object() || !noted.contains("tunnel") || !noted["tunnel"].is_object()) return {};
    const std::string reason = noted["tunnel"].value("reason", "");
    return reason == "up" ? std::string() : "ssh tunnel " + reason + ": " + noted["tunnel"].value("detail", "");
}

}  // namespace

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json job_view(const JobRecord& job) {
    Json out;
    out["id"] = job.id.get();
    out["name"] = job.name;
    out["kind"] = text(job.kind);
    out["project"] = job.project;
    out["state"] = text(job.state);
    out["reason"] = job.reason;
    if (!job.detail.empty()) out["detail"] = job.detail;
    out["exit_code"] = value_or_null(job.exit_code);
    if (job.exit_signal) out["exit_signal"] = *job.exit_signal;
    out["attempts"] = job.attempts;
    out["priority"] = job.priority;
    out["principal"] = job.principal;
    out["created_at"] = rfc3339(job.created_at);
    out["updated_at"] = rfc3339(job.updated_at);
    if (job.ended_at) out["ended_at"] = rfc3339(*job.ended_at);
    return out;
}

Json attempt_view(const AttemptRecord& attempt) {
    Json out;
    out["number"] = attempt.number;
    out["id"] = attempt.id.get();
    out["task"] = attempt.task.get();
    out["state"] = text(attempt.state);
    out["reason"] = attempt.cause ? Json(text(*attempt.cause)) : Json(nullptr);
    if (!attempt.detail.empty()) out["detail"] = attempt.detail;
    out["machine"] = text_or_null(attempt.machine.get());
    out["exit_code"] = value_or_null(attempt.exit_code);
    if (attempt.exit_signal) out["exit_signal"] = *attempt.exit_signal;
    out["created_at"] = rfc3339(attempt.created_at);
    if (attempt.started_at) out["started_at"] = rfc3339(*attempt.started_at);
    if (attempt.ended_at) out["ended_at"] = rfc3339(*attempt.ended_at);
    out["start_generation"] = attempt.start_generation;
    out["progress_step"] = attempt.progress_step;
    out["progress_total"] = attempt.progress_total;
    return out;
}

Json checkpoint_view(const CheckpointRecord& checkpoint) {
    Json out;
    out["generation"] = checkpoint.generation;
    out["attempt"] = checkpoint.attempt;
    out["step"] = checkpoint.step;
    out["bytes"] = checkpoint.size.count;
    out["committed_at"] = rfc3339(checkpoint.committed_at);
    out["state"] = text(checkpoint.state);
    if (!checkpoint.detail.empty()) out["detail"] = checkpoint.detail;
    out["id"] = checkpoint.id.get();
    out["task"] = checkpoint.task.get();
    out["manifest_sha256"] = checkpoint.manifest_sha256;
    return out;
}

Json event_view(const EventRecord& event) {
    Json out;
    out["seq"] = event.seq;
    out["at"] = rfc3339(event.at);
    out["kind"] = event.kind;
    if (!event.job.empty()) out["job"] = event.job.get();
    if (!event.task.empty()) out["task"] = event.task.get();
    if (event.attempt > 0) out["attempt"] = event.attempt;
    if (!event.machine.empty()) out["machine"] = event.machine.get();
    if (!event.state.empty()) out["state"] = event.state;
    if (!event.reason.empty()) out["reason"] = event.reason;
    if (!event.detail.empty()) out["detail"] = event.detail;
    return out;
}

Json machine_view(const MachineRecord& machine, Millis dead_man) {
    Json out;
    out["id"] = machine.id.get();
    out["provider"] = machine.provider.get();
    out["provider_id"] = text_or_null(machine.provider_id.get());
    out["state"] = text(machine.state);
    out["reason"] = machine.reason;
    out["job"] = text_or_null(machine.job.get());
    out["task"] = text_or_null(machine.task.get());
    out["attempt"] = machine.attempt;
    out["rate"] = machine.rate ? Json(dollars(*machine.rate)) : Json(nullptr);  // unknown is not 0
    out["tag"] = machine.tag.get();
    out["offer"] = machine.offer.id;
    out["gpu"] = machine.offer.gpu.canonical.empty() ? machine.offer.gpu.provider_name : machine.offer.gpu.canonical;
    out["gpus"] = machine.offer.gpu_count;
    out["spot"] = machine.offer.spot;
    if (machine.bid) out["bid"] = dollars(*machine.bid);
    out["region"] = machine.offer.region;
    out["disk_bytes"] = machine.disk.count;
    out["watch"] = machine.watch;
    if (auto trouble = tunnel_trouble(machine.agent_detail); !trouble.empty()) out["detail"] = std::move(trouble);
    if (dead_man > Millis{0}) out["dead_man"] = duration_text(dead_man);
    out["created_at"] = rfc3339(machine.created_at);
    if (machine.ready_at) out["ready_at"] = rfc3339(*machine.ready_at);
    if (machine.idle_since) out["idle_since"] = rfc3339(*machine.idle_since);
    if (machine.destroy_since) {
        out["destroy_since"] = rfc3339(*machine.destroy_since);
        out["destroy_tries"] = machine.destroy_tries;
    }
    if (machine.gone_at) out["gone_at"] = rfc3339(*machine.gone_at);
    return out;
}

Json offer_view(const Offer& offer) {
    Json out;
    out["provider"] = offer.provider.get();
    out["id"] = offer.id;
    out["gpu"] = offer.gpu.canonical.empty() ? offer.gpu.provider_name : offer.gpu.canonical;
    out["gpu_known"] = !offer.gpu.canonical.empty();
    out["gpus"] = offer.gpu_count;
    out["vram_bytes"] = bytes_or_null(offer.gpu.memory);
    out["spot"] = offer.spot;
    out["rate"] = dollars(offer.gpu_rate);
    out["disk_per_gb_month"] = dollars(offer.disk_micros_per_gb_month);
    out["spot_floor"] = offer.spot_floor ? Json(dollars(*offer.spot_floor)) : Json(nullptr);
    out["region"] = text_or_null(offer.region);
    out["country"] = text_or_null(offer.country);
    if (!offer.cloud.empty()) out["cloud"] = offer.cloud;
    out["cpus"] = value_or_null(offer.cpus);
    out["memory_bytes"] = bytes_or_null(offer.memory);
    out["disk_bytes_max"] = bytes_or_null(offer.disk_max);
    out["reliability"] = value_or_null(offer.reliability);
    out["inet_down_mbps"] = value_or_null(offer.inet_down_mbps);
    out["inet_up_mbps"] = value_or_null(offer.inet_up_mbps);
    out["cuda_max"] = text_or_null(offer.cuda_max);
    out["driver"] = text_or_null(offer.driver);
    out["arch"] = offer.arch;
    out["lease_end"] = when(offer.lease_end);
    return out;
}

Json provider_view(const ProviderView& provider) {
    Json out;
    out["name"] = provider.name.get();
    out["health"] = provider.health;
    out["reason"] = provider.reason;
    out["balance"] = provider.balance ? Json(dollars(*provider.balance)) : Json(nullptr);
    out["offers"] = provider.offers;
    out["offers_rejected"] = provider.rejected;
    out["offers_rejected_by"] = Json::object();
    for (const auto& [reason, count] : provider.rejected_by) out["offers_rejected_by"][reason] = count;
    out["offers_at"] = when(provider.offers_at);
    out["listing_at"] = when(provider.listing_at);
    out["machines"] = provider.machines;
    out["spot"] = provider.capabilities.spot;
    out["local"] = provider.capabilities.is_local;
    out["drift"] = Json::array();
    for (const auto& drift : provider.drift) out["drift"].push_back({{"what", drift.what}, {"detail", drift.detail}});
    return out;
}

Json alert_view(const AlertRecord& alert) {
    Json out;
    out["id"] = alert.id.get();
    out["at"] = rfc3339(alert.at);
    out["kind"] = alert.kind;
    out["severity"] = alert.severity;
    out["text"] = alert.text;
    out["job"] = text_or_null(alert.job.get());
    out["machine"] = text_or_null(alert.machine.get());
    out["provider"] = text_or_null(alert.provider.get());
    out["cleared_at"] = when(alert.cleared_at);
    return out;
}

Json token_view(const TokenRecord& token) {
    Json out;
    out["id"] = token.id.get();
    out["name"] = token.name;
    out["role"] = text(token.role);
    out["created_at"] = rfc3339(token.created_at);
    out["revoked_at"] = when(token.revoked_at);
    return out;
}

Json card_view(const GpuCard& card) {
    Json out;
    out["name"] = card.canonical;
    out["vendor"] = card.vendor;
    out["class_gb"] = card.class_gb;
    out["vram_bytes"] = bytes_or_null(card.reported);
    const Bytes usable = usable_memory(card);
    out["usable_bytes"] = usable.count;
    out["usable_gib"] = std::round(static_cast<double>(usable.count) / static_cast<double>(kGiB) * 10) / 10;
    out["memory_type"] = text_or_null(card.memory_type);
    out["compute_capability"] = card.compute_capability;
    out["bandwidth_gb_s"] = value_or_null(card.bandwidth_gb_s);
    out["fp16_tensor_tflops"] = value_or_null(card.fp16_tensor_tflops);
    out["fp32_tflops"] = value_or_null(card.fp32_tflops);
    out["int8_tops"] = value_or_null(card.int8_tops);
    out["bf16"] = card.bf16;
    out["fp8"] = card.fp8;
    out["fp4"] = card.fp4;
    out["nvlink_gb_s"] = card.nvlink_gb_s;
    out["form_factor"] = text_or_null(card.form_factor);
    out["tier"] = text_or_null(card.tier);
    out["release_year"] = card.release_year == 0 ? Json(nullptr) : Json(card.release_year);
    return out;
}

Json list_view(std::vector<Json> items, const std::string& next_cursor) {
    Json out;
    out["items"] = Json::array();
    for (auto& item : items) out["items"].push_back(std::move(item));
    out["next_cursor"] = text_or_null(next_cursor);
    return out;
}

}  // namespace gf::api
