#include "tests/sim/model_provider.hpp"

#include <algorithm>

namespace gf::sim {

ModelProvider::ModelProvider(ProviderName name, bool spot, Entropy& rng, const Faults& faults, Millis lag_max)
    : name_(std::move(name)), spot_(spot), rng_(rng), faults_(faults), lag_max_(lag_max) {
    const int kinds = 3 + static_cast<int>(rng_.below(5));
    for (int i = 0; i < kinds; ++i) {
        Offer offer;
        offer.provider = name_;
        offer.id = "offer" + std::to_string(i);
        offer.spot = spot_ && (i == 0 || rng_.below(2) == 0);
        offer.gpu = GpuIdentity{"RTX-4090", "RTX 4090", Bytes{24564 * kMiB}};
        offer.gpu_count = 1;
        offer.gpu_rate = UsdPerHour{static_cast<std::int64_t>(200'000 + rng_.below(500'000))};
        offer.disk_micros_per_gb_month = 100'000;
        offer.host_id = "host" + std::to_string(i);
        offer.cpus = 16;
        offer.memory = Bytes{64 * kGB};
        offer.disk_max = Bytes{1000 * kGB};
        offer.arch = "amd64";
        market_.push_back(offer);
    }
}

void ModelProvider::advance(Instant now) {
    for (auto& [id, m] : machines_) {
        if (m.presence == Presence::gone) continue;
        const Instant until = m.dies_at && *m.dies_at <= now ? std::max(*m.dies_at, m.billed_to) : now;
        // Billed from creation at the full rate while booting and running, the disk alone while stopped.
        const std::int64_t disk = disk_rate(m.offer, 20).micros;
        const std::int64_t gpu = m.presence == Presence::stopped ? 0 : m.offer.gpu_rate.micros;
        m.gpu_bill_micros_ms += (gpu + disk) * (until - m.billed_to).count();
        m.billed_to = until;
        if (m.dies_at && *m.dies_at <= now) {
            m.presence = Presence::gone;
            m.ended_at = *m.dies_at;
            continue;
        }
        if (m.presence == Presence::booting && !m.never_boots && now >= m.runs_at) {
            m.presence = Presence::running;
            ++m.boots;
        }
    }
}

Result<OfferList> ModelProvider::offers(Instant) {
    if (chance(faults_.offers_fail, 20)) return fail(ErrorKind::unavailable, "market is away");
    OfferList out;
    out.offers = market_;
    return out;
}

ModelMachine& ModelProvider::make(const LaunchRequest& request, Instant now) {
    const std::string id = name_.get() + std::to_string(next_++);
    ModelMachine& m = machines_[id];
    m.id = ProviderMachineId{id};
    m.tag = request.tag.get();
    m.offer = request.offer;
    m.created_at = m.billed_to = now;
    m.listed_from = now + Millis{static_cast<std::int64_t>(rng_.below(static_cast<std::uint64_t>(lag_max_.count() + 1)))};
    m.runs_at = now + Millis{static_cast<std::int64_t>(5'000 + rng_.below(120'000))};
    m.never_boots = chance(faults_.never_boots, 10);
    if (m.never_boots) m.disturbed = true;
    ++creates;
    return m;
}

LaunchOutcome ModelProvider::launch(const LaunchRequest& request, Instant now) {
    LaunchOutcome out;
    if (chance(faults_.no_capacity, 20)) {
        out.error = Error{.kind = ErrorKind::no_capacity, .message = "no longer any instances available"};
    } else if (chance(faults_.create_error_no_effect, 15)) {
        out.error = Error{.kind = ErrorKind::unknown_outcome, .message = "502"};
    } else if (chance(faults_.create_effect_then_error, 20)) {
        make(request, now);
        out.error = Error{.kind = ErrorKind::unknown_outcome, .message = "cut after create"};
    } else if (chance(faults_.create_error_with_id, 10) && request.bid) {
        ModelMachine& m = make(request, now);
        m.presence = Presence::stopped;
        m.disturbed = true;
        out.id = m.id;
        out.error = Error{.kind = ErrorKind::no_capacity, .message = "bid too low"};
    } else if (chance(faults_.create_id_then_nothing, 8)) {
        out.id = ProviderMachineId{name_.get() + "-ghost" + std::to_string(next_++)};
    } else {
        out.id = make(request, now).id;
    }
    return out;
}

ProviderMachine ModelProvider::shown(const ModelMachine& m) const {
    ProviderMachine out;
    out.id = m.id;
    out.tag = m.tag;
    out.presence = m.presence;
    out.raw_state = std::string(text(m.presence));
    out.spot = m.offer.spot;
    out.gpu_rate = m.presence == Presence::stopped ? UsdPerHour{0} : m.offer.gpu_rate;
    out.disk_rate = disk_rate(m.offer, 20);
    out.gpu_count = m.offer.gpu_count;
    out.gpu = m.offer.gpu;
    out.host_id = m.offer.host_id;
    out.created_at = m.created_at;
    return out;
}

Result<Listing> ModelProvider::list(Instant now) {
    if (chance(faults_.listing_fails, 25)) {
        switch (rng_.below(3)) {
            case 0: return fail(ErrorKind::unavailable, "503");
            case 1: return fail(ErrorKind::malformed, "instances is null");
            default: return fail(ErrorKind::rate_limited, "too frequent");
        }
    }
    Listing out;
    if (chance(faults_.listing_lies, 30) && rng_.below(2) == 0) return out;
    const bool is_short = chance(faults_.listing_lies, 30);
    for (const auto& [id, m] : machines_)
        if (exists(m) && m.listed_from <= now && !(is_short && rng_.below(3) == 0)) out.machines.push_back(shown(m));
    return out;
}

Result<ProviderMachine> ModelProvider::read(const ProviderMachineId& id) {
    if (chance(faults_.read_fails, 25)) return fail(ErrorKind::unavailable, "time-out");
    const auto found = machines_.find(id.get());
    if (found == machines_.end() || !exists(found->second)) {
        ProviderMachine gone;
        gone.id = id;
        gone.presence = Presence::gone;
        return gone;
    }
    return shown(found->second);
}

Result<void> ModelProvider::destroy(const ProviderMachineId& id, Instant now) {
    if (chance(faults_.destroy_fails, 40))
        return fail(rng_.below(2) == 0 ? ErrorKind::unknown_outcome : ErrorKind::rate_limited, "500 try again");
    if (chance(faults_.destroy_lost, 30)) return {};
    const auto found = machines_.find(id.get());
    if (found != machines_.end() && exists(found->second) && !found->second.dies_at)
        found->second.dies_at = now + Millis{static_cast<std::int64_t>(rng_.below(8'000))};
    return {};
}

}  // namespace gf::sim
