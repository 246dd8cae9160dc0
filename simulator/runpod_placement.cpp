// Where a RunPod pod lands, and what it costs.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "simulator/runpod_face.hpp"

namespace gf::sim {

namespace {

constexpr const char* kNoInstances =
    "There are no longer any instances available with the requested specifications. Please refresh and try "
    "again.";
constexpr const char* kNoDisk = "There are no longer any instances available with enough disk space.";
constexpr const char* kNoMoney =
    "Your account balance is too low to rent a pod. Please add funds to your account.";

/// "12.8" -> 1208, so that 12.11 is above 12.2; a bare major is its .0.
int version(const std::string& text) {
    const auto dot = text.find('.');
    return std::atoi(text.c_str()) * 100 + (dot == std::string::npos ? 0 : std::atoi(text.c_str() + dot + 1));
}

}  // namespace

std::int64_t RunpodFace::price(const std::string& gpu, bool secure, bool spot) const {
    const auto& prices = world_.market().type_prices();
    const auto it = prices.find(gpu);
    if (it == prices.end()) return 0;
    if (spot) return secure ? it->second.secure_spot : it->second.community_spot;
    return secure ? it->second.secure : it->second.community;
}

std::optional<RunpodFace::Refusal> RunpodFace::unaffordable(std::int64_t per_hour) {
    // The deploy floor: one hour of the pod's cost in credit (page section 12).
    if (world_.balance(Provider::runpod).micros >= per_hour) return std::nullopt;
    return Refusal{.status = 402, .detail = kNoMoney, .code = "INSUFFICIENT_BALANCE"};
}

std::variant<RunpodFace::Place, RunpodFace::Refusal> RunpodFace::place(const Wish& wish) {
    const auto& market = world_.market();
    const auto model = std::ranges::find(market.models(), wish.gpu_id, &GpuModel::runpod_id);
    if (wish.gpu_id.empty() || model == market.models().end()) {
        return Refusal{.status = 400,
                       .detail = fmt::format("gpu type '{}' not found", wish.gpu_id),
                       .code = "BAD_USER_INPUT"};
    }
    bool any_without_disk = false;
    std::optional<Refusal> money;
    for (const auto& host : market.hosts()) {
        if (host.provider != Provider::runpod || host.gpu != model->canonical || !host.online) continue;
        if (wish.secure && host.secure != *wish.secure) continue;
        const auto per_gpu = price(host.gpu, host.secure, wish.bid_per_gpu.has_value());
        if (per_gpu <= 0) continue;
        if (!money) money = unaffordable((wish.bid_per_gpu ? *wish.bid_per_gpu : per_gpu) * wish.count);
        // Said to be "preferred" by the specification, enforced in truth.
        if (!wish.data_centers.empty() &&
            std::ranges::find(wish.data_centers, host.data_center) == wish.data_centers.end()) {
            continue;
        }
        const auto cuda = fmt::format("{:.1f}", host.cuda);
        if (!wish.cuda_allowed.empty() &&
            std::ranges::find(wish.cuda_allowed, cuda) == wish.cuda_allowed.end())
            continue;
        if (!wish.cuda_min.empty() && version(cuda) < version(wish.cuda_min)) continue;
        if (world_.free_gpus(host, wish.bid_per_gpu) < wish.count) continue;
        if (host.disk_gb < static_cast<double>(wish.disk_gb)) {
            any_without_disk = true;
            continue;
        }
        if (money) return *money;
        // Listed, and gone by the time of the create.
        if (auto& lost = world_.settings().runpod_lost_races; lost > 0) {
            --lost;
            break;
        }
        return Place{.host = &host, .per_gpu = wish.bid_per_gpu ? *wish.bid_per_gpu : per_gpu};
    }
    // The balance is checked before the placement.
    if (money) return *money;
    return Refusal{
        .status = 400, .detail = any_without_disk ? kNoDisk : kNoInstances, .code = "SUPPLY_CONSTRAINT"};
}

void RunpodFace::set_disk_prices(Rental& pod) const {
    // Container disk $0.10 per GB and month while running and nothing when stopped; volume disk $0.10, and
    // $0.20 stopped (page section 12).
    constexpr std::int64_t kRunning = 100'000;
    constexpr std::int64_t kStopped = 200'000;
    pod.disk_per_month = pod.disk_gb_milli * kRunning / 1000 + pod.volume_gb * kRunning;
    pod.disk_per_month_stopped = pod.volume_gb * kStopped;
}

}  // namespace gf::sim
