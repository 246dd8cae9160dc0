#include "simulator/world.hpp"

#include <algorithm>

namespace gf::sim {

std::string_view text(Phase phase) {
    switch (phase) {
        case Phase::accepted:
            return "accepted";
        case Phase::created:
            return "created";
        case Phase::loading:
            return "loading";
        case Phase::starting:
            return "starting";
        case Phase::running:
            return "running";
        case Phase::stopping:
            return "stopping";
        case Phase::stopped:
            return "stopped";
        case Phase::exited:
            return "exited";
        case Phase::queued:
            return "queued";
        case Phase::failed:
            return "failed";
        case Phase::destroying:
            return "destroying";
        case Phase::gone:
            return "gone";
    }
    return "?";
}

std::string_view text(Halt halt) {
    switch (halt) {
        case Halt::none:
            return "none";
        case Halt::asked:
            return "asked";
        case Halt::taken_back:
            return "taken_back";
        case Halt::outbid:
            return "outbid";
        case Halt::host:
            return "host";
        case Halt::no_money:
            return "no_money";
        case Halt::lease_end:
            return "lease_end";
        case Halt::main_exit:
            return "main_exit";
    }
    return "?";
}

World::World(Clock& clock, Settings settings, Market market, std::uint64_t seed)
    : clock_(clock), settings_(std::move(settings)), market_(std::move(market)), entropy_(seed) {
    deposited_[Provider::runpod] = Usd{settings_.runpod_balance};
    deposited_[Provider::vastai] = Usd{settings_.vastai_balance};
    deposited_[Provider::vultr] = Usd{settings_.vultr_balance};
}

void World::post(MachineEvent event) {
    const std::scoped_lock lock(inbox_mutex_);
    inbox_.push_back(std::move(event));
    wake_.notify_all();
}

void World::nudge() {
    const std::scoped_lock lock(inbox_mutex_);
    nudged_ = true;
    wake_.notify_all();
}

void World::wait_for_work(std::unique_lock<std::mutex>& held) {
    std::chrono::microseconds longest{100'000};
    for (const auto& rental : rentals_) {
        if (const auto at = next_step(*rental)) longest = std::min(longest, clock_.real_until(*at));
    }
    held.unlock();
    {
        std::unique_lock inbox(inbox_mutex_);
        wake_.wait_for(inbox, longest, [this] { return nudged_ || !inbox_.empty(); });
        nudged_ = false;
    }
    held.lock();
}

Rental* World::find(Provider provider, const std::string& id) {
    const auto it = by_id_.find({provider, id});
    return it == by_id_.end() ? nullptr : it->second;
}

std::string World::random_text(std::size_t length, std::string_view alphabet) {
    std::string result;
    for (std::size_t i = 0; i < length; ++i) result += alphabet[entropy_.below(alphabet.size())];
    return result;
}

void World::log(Rental& rental, std::string line) {
    constexpr std::size_t kKept = 2'000;
    if (rental.system_log.size() >= kKept) rental.system_log.erase(rental.system_log.begin());
    rental.system_log.emplace_back(now(), std::move(line));
}

// --- money
// -----------------------------------------------------------------------------------------------------

Rates World::rates(const Rental& rental) const {
    if (!rental.exists()) return {};
    if (rents_vms(rental.provider)) return vm_rates(rental);
    if (rental.provider == Provider::vastai) {
        // GPU only while it shows running or frozen, so neither while loading for ever nor while it reboots; storage from
        // creation, also stopped; nothing while the host is offline.
        if (rental.offline) return {};
        const bool up = rental.phase == Phase::running || rental.phase == Phase::stopping;
        const bool gpu_billed = up && !rental.never_runs && rental.restart == Restart::none;
        return {.gpu_micros_per_hour = gpu_billed ? rental.gpu_per_hour : 0,
                .disk_micros_per_month = rental.disk_per_month};
    }
    // RunPod bills compute from the machine's assignment, image pull included, and not while the host is
    // down.
    if (rental.phase == Phase::stopped || rental.phase == Phase::failed) {
        return {.gpu_micros_per_hour = 0, .disk_micros_per_month = rental.disk_per_month_stopped};
    }
    return {.gpu_micros_per_hour = rental.offline ? 0 : rental.gpu_per_hour,
            .disk_micros_per_month = rental.disk_per_month};
}

void World::accrue_to(Rental& rental, Instant at) {
    rental.bill.accrue(at, rates(rental));
}
void World::accrue(Rental& rental) {
    accrue_to(rental, now());
}

Usd World::billed(Provider provider) {
    Usd sum = closed_[provider];
    for (const auto& rental : rentals_) {
        if (rental->provider != provider || !rental->exists()) continue;
        accrue(*rental);
        sum += rental->bill.total();
    }
    return sum;
}

Usd World::balance(Provider provider) {
    return deposited_[provider] - billed(provider);
}

void World::set_balance(Provider provider, Usd amount) {
    deposited_[provider] = amount + billed(provider);
}

std::int64_t World::burn_per_hour(Provider provider) const {
    std::int64_t sum = 0;
    for (const auto& rental : rentals_) {
        if (rental->provider != provider) continue;
        const auto now_rates = rates(*rental);
        sum += now_rates.gpu_micros_per_hour + now_rates.disk_micros_per_month / kHoursPerMonth;
    }
    return sum;
}

void World::enforce_money() {
    for (const auto provider : {Provider::runpod, Provider::vastai, Provider::vultr}) {
        const bool broke = balance(provider).micros <= 0;
        for (const auto& rental : rentals_) {
            if (rental->provider != provider || !rental->exists() || rental->phase == Phase::destroying)
                continue;
            if (!broke) {
                rental->unpaid_since.reset();
                continue;
            }
            if (provider == Provider::runpod) {
                // Pods without a network volume are terminated and their data lost (page section 12).
                if (rental->network_volume.empty()) {
                    rental->halt = Halt::no_money;
                    destroy(*rental, Millis{0});
                } else if (rental->phase != Phase::stopped && rental->phase != Phase::stopping) {
                    stop(*rental, Halt::no_money, settings_.runpod_grace);
                }
                continue;
            }
            if (!rental->unpaid_since) rental->unpaid_since = now();
            const bool vultr = provider == Provider::vultr;  // suspends them: off, and billed on
            if (now() - *rental->unpaid_since >= (vultr ? settings_.vultr_unpaid_kept : settings_.vastai_unpaid_kept)) {
                destroy(*rental, Millis{0});
            } else if (rental->phase != Phase::stopped && rental->phase != Phase::stopping) {
                stop(*rental, Halt::no_money, Millis{0});
            }
        }
    }
}

// --- stock
// -----------------------------------------------------------------------------------------------------

bool World::holds_gpus(const Rental& rental) const {
    switch (rental.phase) {
        case Phase::accepted:
        case Phase::created:
        case Phase::loading:
        case Phase::starting:
        case Phase::running:
        case Phase::stopping:
        case Phase::exited:
            return true;
        case Phase::stopped:
        case Phase::queued:
        case Phase::failed:
        case Phase::destroying:
        case Phase::gone:
            return false;
    }
    return false;
}

int World::free_gpus(const Host& host, std::optional<std::int64_t> bid_per_gpu) const {
    int held = host.taken;
    for (const auto& rental : rentals_) {
        if (rental->host != host.id || rental->gpus == 0 || !holds_gpus(*rental)) continue;
        if (rental->is_bid && (!bid_per_gpu || rental->bid_per_hour / rental->gpus < *bid_per_gpu)) continue;
        held += rental->gpus;
    }
    return std::max(0, host.gpus - held);
}

void World::market_changed() {
    run_auctions();
    nudge();
}

void World::run_auctions() {
    for (const auto& host : market_.hosts()) {
        std::vector<Rental*> bidders;
        int held = host.taken;
        for (const auto& rental : rentals_) {
            if (rental->host != host.id || rental->gpus == 0 || !holds_gpus(*rental)) continue;
            held += rental->gpus;
            if (rental->is_bid && rental->phase != Phase::stopping) bidders.push_back(rental.get());
        }
        std::ranges::sort(bidders, {}, [](const Rental* r) {
            return std::pair(r->bid_per_hour / r->gpus, -static_cast<std::int64_t>(r->order));
        });
        for (auto* bidder : bidders) {
            const bool too_low = bidder->bid_per_hour < host.floor_per_gpu * bidder->gpus;
            if (!too_low && held <= host.gpus) continue;
            held -= bidder->gpus;
            stop(*bidder, Halt::outbid, settings_.vastai_grace);
        }
    }
    // Then whoever waits gets what is free: on-demand first, then the highest bid.
    std::vector<Rental*> waiting;
    for (const auto& rental : rentals_) {
        const bool outbid = rental->phase == Phase::stopped && rental->halt == Halt::outbid;
        if ((outbid || rental->phase == Phase::queued) && !rental->forced_out && !rental->lease_over) {
            waiting.push_back(rental.get());
        }
    }
    std::ranges::sort(waiting, {}, [](const Rental* r) {
        return std::tuple(r->is_bid, -(r->bid_per_hour / std::max(1, r->gpus)), r->order);
    });
    for (auto* rental : waiting) {
        const auto* host = market_.host(rental->host);
        if (host == nullptr || !host->online || rental->unpaid_since) continue;
        std::optional<std::int64_t> bid;
        if (rental->is_bid) bid = rental->bid_per_hour / std::max(1, rental->gpus);
        if (bid && *bid < host->floor_per_gpu) continue;
        if (free_gpus(*host, bid) < rental->gpus) continue;
        accrue(*rental);
        rental->halt = Halt::none;
        rental->want_running = true;
        enter(*rental, Phase::loading, now(), stretched(settings_.vastai_resume));
    }
}

}  // namespace gf::sim
