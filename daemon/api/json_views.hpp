// Rows as the API shows them. Names are DESIGN's vocabulary; times are RFC 3339, money decimal strings of dollars, absent
// things null or left out as said at each. Texts from outside are made valid UTF-8.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "daemon/public_view.hpp"
#include "db/store.hpp"
#include "scheduler/gpu_names.hpp"

namespace gf::api {

using Json = nlohmann::ordered_json;

[[nodiscard]] std::string dump(const Json& json);
[[nodiscard]] Json job_view(const JobRecord& job);
/// `started_at` and `ended_at` are left out until they are known.
[[nodiscard]] Json attempt_view(const AttemptRecord& attempt);
[[nodiscard]] Json checkpoint_view(const CheckpointRecord& checkpoint);
[[nodiscard]] Json event_view(const EventRecord& event);
/// `dead_man`: how long its agent goes on without contact; 0 is left out.
[[nodiscard]] Json machine_view(const MachineRecord& machine, Millis dead_man);
[[nodiscard]] Json offer_view(const Offer& offer);
[[nodiscard]] Json provider_view(const ProviderView& provider);
[[nodiscard]] Json alert_view(const AlertRecord& alert);
[[nodiscard]] Json token_view(const TokenRecord& token);
[[nodiscard]] Json card_view(const GpuCard& card);

/// {"items": […], "next_cursor": "…" or null}
[[nodiscard]] Json list_view(std::vector<Json> items, const std::string& next_cursor);

}  // namespace gf::api
