#include "tests/sim/model_provider.hpp"

#include <algorithm>

namespace gf::sim {
namespace {

constexpr std::int64_t kDiskGb = 20;

Error slow_down() {
    return {.kind = ErrorKind::rate_limited, .message = "429 too many requests", .retry_after = Seconds{20}};
}

}  // namespace

const std::vector<Profile>& profiles() {
    using std::chrono::hours;
    using std::chrono::minutes;
    static const std::vector<Profile> all{
        {.name = "runpod", .balance = true, .settle = Seconds{60}},
        {.name = "vastai", .spot = true, .bids = true, .free_boot = true, .balance = true, .offline = true, .settle = Seconds{90}},
        {.name = "lambda", .free_boot = true, .can_stop = false, .step = minutes{1}, .minimum = minutes{1}, .second_destroy_fails = true,
         .disk_micros_per_gb_month = 0, .settle = Seconds{120}, .boot_least = minutes{2}, .boot_most = minutes{6}},
        {.name = "vultr", .stopped_bills_full = true, .step = hours{1}, .minimum = hours{1}, .locked = Seconds{90},
         .disk_micros_per_gb_month = 0, .settle = Seconds{120}, .boot_least = minutes{1}, .boot_most = minutes{4}},
    };
    return all;
}

ModelProvider::ModelProvider(Profile profile, Entropy& rng, const Faults& faults)
    : profile_(std::move(profile)), name_(profile_.name), rng_(rng), faults_(faults) {
    const int kinds = 3 + static_cast<int>(rng_.below(5));
    for (int i = 0; i < kinds; ++i) {
        Offer offer;
        offer.provider = name_;
        offer.id = "offer" + std::to_string(i);
        offer.spot = profile_.spot && (i == 0 || rng_.below(2) == 0);
        offer.gpu = GpuIdentity{"RTX-4090", "RTX 4090", Bytes{24564 * kMiB}};
        offer.gpu_count = 1;
        offer.gpu_rate = UsdPerHour{static_cast<std::int64_t>(200'000 + rng_.below(500'000))};
        offer.disk_micros_per_gb_month = profile_.disk_micros_per_gb_month;
        offer.billing_step = profile_.step;
        offer.billing_minimum = profile_.minimum;
        offer.host_id = "host" + std::to_string(i);
        offer.host_owner = "owner" + std::to_string(i % 3);
        offer.data_center = "dc";
        offer.cpus = 16;
        offer.memory = Bytes{64 * kGB};
        offer.disk_max = Bytes{1000 * kGB};
        offer.arch = "amd64";
        market_.push_back(offer);
    }
}

std::int64_t ModelProvider::costs(const ModelMachine& m) const {
    if (m.presence == Presence::gone || m.presence == Presence::unknown) return 0;
    const bool idle = (m.presence == Presence::booting && profile_.free_boot) ||
                      (m.presence == Presence::stopped && !profile_.stopped_bills_full);
    return (idle ? 0 : m.gpu_rate.micros) + disk_rate(m.offer, kDiskGb).micros;
}

void ModelProvider::rate_changed(ModelMachine& m, Instant at) {
    m.dearest = std::max(m.dearest, costs(m));
    m.bill.change(at, costs(m));
}

void ModelProvider::advance(Instant now) {
    for (auto& [id, m] : machines_) {
        if (m.presence == Presence::gone) continue;
        rate_changed(m, m.billed_to);  // what nature has changed since
        const Instant until = m.dies_at && *m.dies_at <= now ? std::max(*m.dies_at, m.billed_to) : now;
        const std::int64_t disk = disk_rate(m.offer, kDiskGb).micros;
        if (costs(m) > disk && !m.billed_from) m.billed_from = m.billed_to;
        m.gpu_bill_micros_ms += costs(m) * (until - m.billed_to).count();
        m.billed_to = until;
        if (m.dies_at && *m.dies_at <= now) {
            if (m.billed_from) {
                // Whole steps of its life, the last one at the last price.
                const Millis held = until - *m.billed_from;
                const Millis whole = std::max(profile_.minimum, (held + profile_.step - Millis{1}) / profile_.step * profile_.step);
                m.gpu_bill_micros_ms += costs(m) * (whole - held).count();
            }
            m.last = m.presence;
            m.presence = Presence::gone;
            m.ended_at = *m.dies_at;
            rate_changed(m, until);
            continue;
        }
        if (m.presence == Presence::booting && !m.never_boots && now >= m.runs_at) {
            m.presence = Presence::running;
            ++m.boots;
        }
        if (m.presence == Presence::unknown && now >= m.online_at) m.presence = Presence::running;
        rate_changed(m, now);
    }
}

void ModelProvider::weather(Instant now) {
    if (chance(faults_.storms, 1) && rng_.below(4) == 0 && !storm(now))
        storm_until_ = now + Seconds{static_cast<std::int64_t>(10 + rng_.below(60))};
    if (!profile_.bids) return;
    // A floor that wanders: mostly under the bids, sometimes over them.
    if (chance(faults_.taken_back, 10)) {
        const auto step = static_cast<std::int64_t>(rng_.below(60'001)) - 30'000;
        floor_ = UsdPerHour{std::clamp<std::int64_t>(floor_.micros + step, 100'000, 500'000)};
    }
    if (!faults_on) floor_ = UsdPerHour{100'000};
    for (auto& [id, m] : machines_) {
        if (!exists(m) || m.dies_at || !m.bid) continue;
        const bool on = m.presence == Presence::running || m.presence == Presence::booting;
        if (on && floor_ > *m.bid) {
            m.presence = Presence::stopped;
            m.disturbed = true;
        } else if (m.presence == Presence::stopped && floor_ <= *m.bid && profile_.auto_resume && m.boots > 0) {
            m.presence = Presence::running;
            ++m.boots;
        }
        rate_changed(m, now);
    }
}

ModelMachine& ModelProvider::migrate(const std::string& id, Instant now) {
    auto node = machines_.extract(id);
    const std::string to = name_.get() + std::to_string(next_++);
    node.key() = to;
    node.mapped().id = ProviderMachineId{to};
    node.mapped().disturbed = node.mapped().migrated = true;
    node.mapped().listed = false;
    node.mapped().bill.move(now);
    ++node.mapped().boots;
    ++migrations;
    return machines_.insert(std::move(node)).position->second;
}

Result<OfferList> ModelProvider::offers(Instant now) {
    if (storm(now)) return std::unexpected(slow_down());
    if (chance(faults_.offers_fail, 20)) return fail(ErrorKind::unavailable, "market is away");
    OfferList out;
    out.offers = market_;
    if (chance(faults_.drifts, 8)) {
        ++drifts;
        for (Offer& offer : out.offers) offer.gpu_rate.micros /= 100;
        out.drift.push_back({"price_unit", "gpu_hour is in dollars where cents were"});
    }
    if (profile_.bids)
        for (Offer& offer : out.offers) {
            if (!offer.spot) continue;
            offer.spot_floor = floor_;
            offer.gpu_rate = UsdPerHour{floor_.micros + floor_.micros / 10};
        }
    return out;
}

ModelMachine& ModelProvider::make(const LaunchRequest& request, Instant began, Instant now) {
    const std::string id = name_.get() + std::to_string(next_++);
    ModelMachine& m = machines_[id];
    m.id = ProviderMachineId{id};
    m.tag = request.tag.get();
    m.offer = request.offer;
    m.gpu_rate = request.offer.gpu_rate;
    m.bid = request.bid;
    m.created_at = m.billed_to = now;
    const auto span = [&](Millis d) { return Millis{static_cast<std::int64_t>(rng_.below(static_cast<std::uint64_t>(d.count() + 1)))}; };
    m.listed_from = now + span(profile_.settle - Seconds{10});
    m.runs_at = now + profile_.boot_least + span(profile_.boot_most - profile_.boot_least);
    m.never_boots = chance(faults_.never_boots, 10);
    if (m.never_boots) m.disturbed = true;
    m.dearest = costs(m);
    m.bill.begin(began, now, costs(m));
    ++creates;
    return m;
}

LaunchOutcome ModelProvider::launch(const LaunchRequest& request, Instant began, Instant now) {
    LaunchOutcome out;
    if (storm(now)) {
        // Some are counted after the machine was made (Lambda).
        if (rng_.below(3) == 0) make(request, began, now);
        out.error = slow_down();
        out.error->kind = ErrorKind::unknown_outcome;
    } else if (chance(faults_.no_capacity, 20)) {
        out.error = Error{.kind = ErrorKind::no_capacity, .message = "no longer any instances available"};
    } else if (chance(faults_.create_error_no_effect, 15)) {
        out.error = Error{.kind = ErrorKind::unknown_outcome, .message = "502"};
    } else if (chance(faults_.create_effect_then_error, 20)) {
        make(request, began, now);
        out.error = Error{.kind = ErrorKind::unknown_outcome, .message = "cut after create"};
    } else if ((chance(faults_.create_error_with_id, 10) || (profile_.bids && request.bid && *request.bid < floor_)) && request.bid) {
        ModelMachine& m = make(request, began, now);
        m.presence = Presence::stopped;
        m.disturbed = true;
        out.id = m.id;
        out.error = Error{.kind = ErrorKind::no_capacity, .message = "bid too low"};
        rate_changed(m, now);
    } else if (chance(faults_.create_id_then_nothing, 8)) {
        out.id = ProviderMachineId{name_.get() + "-ghost" + std::to_string(next_++)};
    } else {
        out.id = make(request, began, now).id;
    }
    return out;
}

ProviderMachine ModelProvider::shown(const ModelMachine& m) const {
    const std::int64_t disk = m.presence == Presence::unknown ? 0 : disk_rate(m.offer, kDiskGb).micros;
    ProviderMachine out;
    out.id = m.id;
    out.tag = m.tag;
    out.presence = m.presence;
    out.raw_state = std::string(text(m.presence));
    out.spot = m.offer.spot;
    out.gpu_rate = UsdPerHour{costs(m) - disk};
    out.disk_rate = UsdPerHour{disk};
    out.gpu_count = m.gpus;
    out.gpu = m.offer.gpu;
    out.host_id = m.offer.host_id;
    out.data_center = m.offer.data_center;
    out.created_at = m.created_at;
    if (m.bid && profile_.bids) {
        out.spot_floor = floor_;
        out.outbid = floor_ > *m.bid;
    }
    return out;
}

Result<Listing> ModelProvider::list(Instant now) {
    if (storm(now)) return std::unexpected(slow_down());
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
    const bool drifted = chance(faults_.drifts, 8);
    for (auto& [id, m] : machines_) {
        if (exists(m) && m.listed_from <= now && !(is_short && rng_.below(3) == 0)) {
            // A machine that no listing has shown yet is looked at by chance only.
            if (!m.listed) m.bill.trouble(now);
            m.shown = m.listed = true;
            out.machines.push_back(shown(m));
        } else if (!exists(m) && m.ended_at && now - *m.ended_at < profile_.settle - Seconds{20} && chance(faults_.listing_stale, 60)) {
            ModelMachine was = m;
            was.presence = m.last;
            m.shown = true;
            out.machines.push_back(shown(was));
        }
    }
    if (!drifted) return out;
    ++drifts;
    out.drift.push_back({"price_unit", "rates are in cents"});
    for (ProviderMachine& m : out.machines) m.gpu_rate = UsdPerHour{m.gpu_rate->micros * 100};
    return out;
}

Result<ProviderMachine> ModelProvider::read(const ProviderMachineId& id, Instant now) {
    if (storm(now)) return std::unexpected(slow_down());
    if (chance(faults_.read_fails, 25)) return fail(ErrorKind::unavailable, "time-out");
    const auto found = machines_.find(id.get());
    if (found == machines_.end() || !exists(found->second)) {
        ProviderMachine gone;
        gone.id = id;
        gone.presence = Presence::gone;
        return gone;
    }
    found->second.shown = true;
    return shown(found->second);
}

Result<void> ModelProvider::destroy(const ProviderMachineId& id, Instant now) {
    if (storm(now)) return std::unexpected(slow_down());
    if (chance(faults_.destroy_fails, 40))
        return fail(rng_.below(2) == 0 ? ErrorKind::unknown_outcome : ErrorKind::rate_limited, "500 try again");
    if (chance(faults_.destroy_lost, 30)) return {};
    const auto found = machines_.find(id.get());
    if (found == machines_.end() || !exists(found->second)) return {};
    ModelMachine& m = found->second;
    if (now - m.created_at < profile_.locked)
        return std::unexpected(Error{.kind = ErrorKind::unknown_outcome, .message = "server is locked", .retry_after = Seconds{10}});
    if (m.dies_at) {
        if (profile_.second_destroy_fails) return fail(ErrorKind::unknown_outcome, "instance is terminating already");
        return {};
    }
    m.dies_at = now + Millis{static_cast<std::int64_t>(rng_.below(8'000))};
    return {};
}

Result<Usd> ModelProvider::balance(Instant now) {
    if (storm(now)) return std::unexpected(slow_down());
    if (chance(faults_.read_fails, 25)) return fail(ErrorKind::unavailable, "time-out");
    return Usd{1'000'000'000};
}

Result<void> ModelProvider::raise_bid(const ProviderMachineId& id, UsdPerHour bid, Instant now) {
    if (storm(now)) return std::unexpected(slow_down());
    if (chance(faults_.read_fails, 25)) return fail(ErrorKind::unavailable, "time-out");
    const auto found = machines_.find(id.get());
    if (found == machines_.end() || !exists(found->second)) return fail(ErrorKind::not_found, "no such instance");
    found->second.bid = bid;
    found->second.gpu_rate = bid;
    rate_changed(found->second, now);
    ++raises;
    return {};
}

}  // namespace gf::sim
