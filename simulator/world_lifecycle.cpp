// What happens to one rental: boot, run, stop, end. Every change of phase first bills the time before it.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "simulator/world.hpp"

namespace gf::sim {

namespace {
constexpr std::string_view kLowerAlnum = "abcdefghijklmnopqrstuvwxyz0123456789";
constexpr std::string_view kHex = "0123456789abcdef";
constexpr Millis kLongestRestart{30'000};
constexpr Millis kRanWell{60'000};  // a container that ran so long is restarted without a longer pause
}  // namespace

void World::advance() {
    // Bounded: each pass plays what is due; a rental takes at most a handful of steps without waiting.
    for (int pass = 0; pass < 64; ++pass) {
        const Instant until = now();
        std::vector<std::pair<Instant, Rental*>> due;
        for (const auto& rental : rentals_) {
            const auto at = next_step(*rental);
            if (at && *at <= until) due.emplace_back(*at, rental.get());
        }
        std::vector<MachineEvent> events;
        {
            const std::scoped_lock lock(inbox_mutex_);
            events.swap(inbox_);
        }
        if (due.empty() && events.empty()) break;
        std::ranges::sort(due, [](const auto& a, const auto& b) {
            return std::pair(a.first, a.second->order) < std::pair(b.first, b.second->order);
        });
        for (const auto& [at, rental] : due) step(*rental, at);
        for (const auto& event : events) take(event);
    }
    enforce_money();
}

std::optional<Instant> World::next_step(const Rental& rental) const {
    std::optional<Instant> at;
    const auto consider = [&](Instant other) { at = at ? std::min(*at, other) : other; };
    // The tenant who took the GPUs leaves in time even if this one is gone by then.
    if (rental.forced_out && *rental.forced_out != Instant::max()) consider(*rental.forced_out);
    if (!rental.exists()) return at;
    if (rental.due) consider(*rental.due);
    if (rental.lease_end != Instant::max() && rental.phase != Phase::destroying) {
        consider(rental.lease_over ? rental.lease_end + settings_.expired_kept : rental.lease_end);
    }
    return at;
}

void World::enter(Rental& rental, Phase phase, Instant at, std::optional<Millis> lasts) {
    accrue_to(rental, at);
    rental.phase = phase;
    rental.due.reset();
    if (lasts) rental.due = at + *lasts;
}

Millis World::stretched(Millis delay) {
    if (settings_.jitter <= 0) return delay;
    const auto share = static_cast<double>(entropy_.below(1'000'001)) / 1e6 * settings_.jitter;
    return delay + Millis{static_cast<std::int64_t>(static_cast<double>(delay.count()) * share)};
}

Millis World::pull_time(const Rental& rental) {
    if (const auto known = market_.image(rental.image).pull_ms) return stretched(Millis{*known});
    return stretched(rental.provider == Provider::runpod ? settings_.runpod_pull : settings_.vastai_pull);
}

Rental& World::rent(Rental asked, bool running) {
    auto& rental = *rentals_.emplace_back(std::make_unique<Rental>(std::move(asked)));
    rental.order = next_order_++;
    rental.created_at = now();
    rental.bill = Bill{rental.created_at};
    if (rents_vms(rental.provider)) {
        register_vm(rental);
    } else if (rental.provider == Provider::vastai) {
        rental.contract = next_contract_;
        next_contract_ += 1 + static_cast<std::int64_t>(entropy_.below(9));
        rental.id = std::to_string(rental.contract);
        rental.container_key = random_text(64, kHex);
        const auto* host = market_.host(rental.host);
        rental.lease_end = opened_at_ + std::chrono::seconds(host == nullptr ? 0 : host->lease_s);
    } else {
        rental.id = random_text(14, kLowerAlnum);
        rental.container_key = "rpa_" + random_text(40, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
    }
    for (int i = 0; i < rental.gpus; ++i) {
        rental.uuids.push_back(fmt::format("GPU-{}-{}-{}-{}-{}", random_text(8, kHex), random_text(4, kHex),
                                           random_text(4, kHex), random_text(4, kHex),
                                           random_text(12, kHex)));
    }
    if (const auto fault = next_gpu_fault_.find(rental.provider); fault != next_gpu_fault_.end()) {
        rental.gpu_fault = fault->second;
        next_gpu_fault_.erase(fault);
    }
    if (const auto* host = market_.host(rental.host)) {
        rental.docker_fails = host->fails == "docker_fails";
        rental.never_runs = host->fails == "never_runs";
    }
    by_id_[{rental.provider, rental.id}] = &rental;
    market_.relist(rental.host);
    accrue(rental);
    if (running) {
        begin_boot(rental, rental.created_at);
    } else {
        rental.want_running = false;
        rental.halt = Halt::asked;
        rental.phase = Phase::stopped;
    }
    market_changed();
    return rental;
}

void World::begin_boot(Rental& rental, Instant at) {
    rental.halt = Halt::none;
    rental.want_running = true;
    rental.status_msg.clear();
    const auto silent = [&] {
        switch (rental.provider) {
            case Provider::runpod:
                return settings_.runpod_provision;
            case Provider::vastai:
                return settings_.vastai_silent;
            case Provider::lambda:
                return settings_.lambda_silent;
            case Provider::vultr:
                return settings_.vultr_pending;
        }
        return Millis{0};
    }();
    enter(rental, Phase::accepted, at, stretched(silent));
}

void World::step(Rental& rental, Instant at) {
    if (rental.forced_out && *rental.forced_out <= at) {
        give_back(rental);
        return;
    }
    if (rental.lease_end <= at && !rental.lease_over && rental.phase != Phase::destroying) {
        lease_ended(rental, at);
        return;
    }
    if (rental.lease_over && rental.lease_end + settings_.expired_kept <= at &&
        rental.phase != Phase::destroying) {
        leave(rental, at);
        return;
    }
    if (!rental.due || *rental.due > at) return;
    if (rents_vms(rental.provider)) {
        step_vm(rental, at);
        return;
    }
    const bool runpod = rental.provider == Provider::runpod;
    const auto& image = market_.image(rental.image);
    switch (rental.phase) {
        case Phase::accepted:
            if (runpod) {
                log(rental, "pulling image " + rental.image);
                enter(rental, Phase::loading, at, pull_time(rental));
            } else {
                enter(rental, Phase::created, at, stretched(settings_.vastai_created));
            }
            return;
        case Phase::created:
            if (rental.docker_fails) {
                rental.due.reset();
                container_failed(rental,
                                 "nvidia-container-cli: initialization error: driver rpc error: unknown");
                return;
            }
            rental.status_msg = "pulling image " + rental.image;
            enter(rental, Phase::loading, at, pull_time(rental));
            return;
        case Phase::loading:
            rental.due.reset();
            if (rental.never_runs || rental.offline) return;
            if (runpod && rental.docker_fails) {
                container_failed(rental,
                                 "nvidia-container-cli: initialization error: driver rpc error: unknown");
                return;
            }
            if (image.missing) {
                const auto why = fmt::format(
                    "Error response from daemon: manifest for {} not found: manifest unknown", rental.image);
                log(rental, why);
                rental.status_msg = why;
                if (runpod) {
                    rental.halt = Halt::host;
                    finish_stop(rental, at);
                } else {
                    enter(rental, Phase::created, at, {});
                }
                return;
            }
            enter(rental, Phase::starting, at, {});
            start_container(rental);
            return;
        case Phase::stopping:
            rental.due.reset();
            machines_->kill(rental.id);
            return;
        case Phase::destroying:
            leave(rental, at);
            return;
        case Phase::starting:
        case Phase::running:
        case Phase::stopped:
        case Phase::exited:
        case Phase::queued:
        case Phase::failed:
        case Phase::gone:
            rental.due.reset();
            return;
    }
}

void World::start_container(Rental& rental) {
    assign_ports(rental);
    ++rental.run;
    rental.alive = true;
    rental.frozen = false;  // a new process
    auto spec = rents_vms(rental.provider) ? vm(rental) : container(rental);
    rental.wipe_next = false;
    if (spec.argv.empty() && !spec.vm) {
        rental.alive = false;
        container_failed(rental, "args: no closing quotation");
        return;
    }
    machines_->start(std::move(spec));
}

void World::take(const MachineEvent& event) {
    Rental* rental = nullptr;
    for (const auto provider : kProviders) {
        if (rental == nullptr) rental = find(provider, event.machine);
    }
    if (rental == nullptr || event.run != rental->run || !rental->exists()) return;
    switch (event.kind) {
        case MachineEvent::Kind::started:
            rental->pid = event.pid;
            ++rental->starts;
            if (rental->phase != Phase::starting) return;
            enter(*rental, Phase::running, now(), {});
            if (rents_vms(rental->provider)) vm_started(*rental);
            rental->restart = Restart::none;
            rental->started_at = now();
            rental->exit_code.reset();
            rental->exit_signal = 0;
            rental->ports_read_since_start = false;
            rental->status_msg = fmt::format("success, running {}/{}", rental->image,
                                             rental->runtype.empty() ? "args" : rental->runtype);
            log(*rental, "start container for " + rental->image);
            return;
        case MachineEvent::Kind::failed:
            rental->alive = false;
            rental->pid = 0;
            if (rental->phase == Phase::stopping) {
                finish_stop(*rental, now());
            } else {
                container_failed(*rental, event.why);
            }
            return;
        case MachineEvent::Kind::exited:
            rental->alive = false;
            rental->pid = 0;
            rental->exit_code = event.code;
            rental->exit_signal = event.signal;
            if (rental->phase == Phase::stopping) {
                finish_stop(*rental, now());
            } else if (rental->phase == Phase::running || rental->phase == Phase::starting) {
                main_exited(*rental);
            }
            return;
    }
}

void World::container_failed(Rental& rental, const std::string& why) {
    if (rents_vms(rental.provider)) {
        // It never comes up; the provider shows it as booting.
        log(rental, "boot failed: " + why);
        enter(rental, Phase::loading, now(), {});
        return;
    }
    const auto line = fmt::format(
        "Error response from daemon: failed to create task for container: failed to create shim task: OCI "
        "runtime "
        "create failed: runc create failed: unable to start container process: {}",
        why);
    log(rental, line);
    rental.status_msg = line;
    rental.restart = Restart::none;
    if (rental.provider == Provider::vastai) {
        // A failed docker start sticks in `created` (page section 6).
        enter(rental, Phase::created, now(), {});
        return;
    }
    ++rental.restarts_in_row;
    enter(
        rental, Phase::loading, now(),
        std::min(kLongestRestart, settings_.runpod_restart * (1 << std::min(rental.restarts_in_row - 1, 5))));
}

void World::main_exited(Rental& rental) {
    if (rents_vms(rental.provider)) {
        // The whole system went down.
        rental.halted_at = now();
        enter(rental, Phase::exited, now(), {});
        rental.halt = Halt::main_exit;
        return;
    }
    if (rental.provider == Provider::vastai) {
        rental.halted_at = now();
        rental.status_msg =
            fmt::format("container exited, code {}",
                        rental.exit_signal != 0 ? 128 + rental.exit_signal : rental.exit_code.value_or(0));
        enter(rental, Phase::exited, now(), {});
        rental.halt = Halt::main_exit;
        return;
    }
    // RunPod's host agent starts a container that ended again, in a loop, on an empty container disk.
    const bool ran_well = rental.started_at && now() - *rental.started_at >= kRanWell;
    rental.restarts_in_row = ran_well ? 1 : rental.restarts_in_row + 1;
    log(rental,
        fmt::format("container exited with code {}",
                    rental.exit_signal != 0 ? 128 + rental.exit_signal : rental.exit_code.value_or(0)));
    rental.wipe_next = true;
    rental.started_at.reset();
    const auto pause = settings_.runpod_restart * (1 << std::min(rental.restarts_in_row - 1, 5));
    if (rental.offline) {
        enter(rental, Phase::loading, now(), {});
    } else {
        enter(rental, Phase::loading, now(), std::min(kLongestRestart, pause));
    }
}

void World::stop(Rental& rental, Halt halt, Millis grace) {
    if (!rental.exists() || rental.phase == Phase::destroying) return;
    accrue(rental);
    const bool keeps_intent = halt == Halt::outbid && settings_.vastai_outbid_keeps_intent;
    rental.want_running = keeps_intent;
    rental.start_after_stop = false;
    rental.restart = Restart::none;
    if (rental.phase == Phase::stopped || rental.phase == Phase::failed) {
        if (halt == Halt::asked || halt == Halt::lease_end || halt == Halt::no_money) rental.halt = halt;
        return;
    }
    if (rental.phase == Phase::stopping && halt != Halt::asked) return;
    rental.halt = halt;
    if (rental.provider == Provider::runpod && (halt == Halt::taken_back || halt == Halt::host)) log(rental, "Exited by Runpod");
    if (!rental.alive) {
        finish_stop(rental, now());
        return;
    }
    enter(rental, Phase::stopping, now(), {});
    if (grace.count() <= 0) {
        machines_->kill(rental.id);
    } else {
        machines_->signal(rental.id, SIGTERM);
        rental.due = now() + grace;
        nudge();
    }
}

void World::finish_stop(Rental& rental, Instant at) {
    enter(rental, Phase::stopped, at, {});
    rental.halted_at = at;
    rental.started_at.reset();
    rental.old_ports = rental.public_ports;
    if (rental.provider == Provider::runpod) rental.wipe_next = true;
    if (rental.start_after_stop) {
        rental.start_after_stop = false;
        rental.halt = Halt::none;
        rental.want_running = true;
        enter(rental, Phase::loading, at, Millis{0});
        nudge();
        return;
    }
    rental.public_ports.clear();
    market_.relist(rental.host);
    auto* host = market_.host(rental.host);
    const bool freed = rental.provider == Provider::runpod && rental.halt == Halt::asked;
    if (host != nullptr && freed && settings_.runpod_refill) host->taken += rental.gpus;
    run_auctions();
}

StartOutcome World::start(Rental& rental) {
    if (rental.lease_over) return StartOutcome::lease_over;
    if (rents_vms(rental.provider)) return start_vm(rental);
    const auto* host = market_.host(rental.host);
    std::optional<std::int64_t> bid;
    if (rental.is_bid) bid = rental.bid_per_hour / std::max(1, rental.gpus);
    const bool fits = host != nullptr && host->online && !rental.forced_out &&
                      free_gpus(*host, bid) >= rental.gpus && (!bid || *bid >= host->floor_per_gpu);
    if (!fits && rental.provider == Provider::runpod) return StartOutcome::host_full;
    accrue(rental);
    rental.want_running = true;
    if (!fits) {
        enter(rental, Phase::queued, now(), {});
        return StartOutcome::queued;
    }
    rental.halt = Halt::none;
    rental.restarts_in_row = 0;
    if (rental.provider == Provider::runpod) {
        begin_boot(rental, now());
    } else {
        // A restarted instance still reads `exited` or `stopped` for a while: it stays queued until it loads.
        enter(rental, Phase::loading, now(), pull_time(rental));
    }
    market_changed();
    return StartOutcome::started;
}

void World::restart(Rental& rental, bool wipe, Millis grace) {
    stop(rental, Halt::asked, grace);
    accrue(rental);
    rental.restart = wipe ? Restart::recycle : Restart::reboot;
    rental.want_running = true;
    if (wipe) rental.wipe_next = true;
    if (rental.phase == Phase::stopping) {
        rental.start_after_stop = true;
    } else {
        rental.halt = Halt::none;
        enter(rental, Phase::loading, now(), Millis{0});
        nudge();
    }
}

void World::destroy(Rental& rental, Millis takes) {
    if (!rental.exists()) return;
    machines_->destroy(rental.id);
    rental.alive = false;
    rental.pid = 0;
    if (takes.count() <= 0) {
        leave(rental, now());
        return;
    }
    enter(rental, Phase::destroying, now(), takes);
    rental.want_running = false;
    market_.relist(rental.host);
    market_changed();
}

/// The end: the bill is closed and the stock is free.
void World::leave(Rental& rental, Instant at) {
    if (rental.alive) machines_->destroy(rental.id);
    rental.alive = false;
    enter(rental, Phase::gone, at, {});
    rental.halted_at = at;
    closed_[rental.provider] += rental.bill.total();
    market_.relist(rental.host);
    market_changed();
}

void World::lease_ended(Rental& rental, Instant at) {
    accrue_to(rental, at);
    rental.lease_over = true;
    stop(rental, Halt::lease_end, Millis{0});
}

void World::take_back(Rental& rental, std::optional<Millis> grace, std::optional<Millis> held) {
    if (rents_vms(rental.provider)) {
        take_back_vm(rental, held);
        return;
    }
    const bool runpod = rental.provider == Provider::runpod;
    if (!rental.exists() || rental.forced_out) return;
    rental.forced_out = held ? now() + *held : Instant::max();
    if (auto* host = market_.host(rental.host)) host->taken += rental.gpus;
    const auto usual = runpod ? settings_.runpod_grace : settings_.vastai_grace;
    stop(rental, rental.is_bid ? Halt::outbid : Halt::taken_back, grace.value_or(usual));
    nudge();
}

void World::give_back(Rental& rental) {
    if (!rental.forced_out) return;
    rental.forced_out.reset();
    if (rents_vms(rental.provider)) {
        if (auto* type = market_.vm_type(rental.provider, rental.vm.type)) ++type->stock[rental.vm.region];
    } else if (auto* host = market_.host(rental.host)) {
        host->taken = std::max(0, host->taken - rental.gpus);
    }
    market_.relist(rental.host);
    market_changed();
}

void World::set_offline(Rental& rental, bool offline, bool keep_processes) {
    accrue(rental);
    rental.offline = offline;
    if (offline && !keep_processes && rental.alive) machines_->kill(rental.id);
    const bool waits = rental.provider == Provider::runpod || rents_vms(rental.provider);
    if (!offline && waits && rental.phase == Phase::loading && !rental.due) {
        rental.due = now();
    }
    nudge();
}

void World::set_bid(Rental& rental, std::int64_t micros_per_hour) {
    accrue(rental);
    rental.bid_per_hour = micros_per_hour;
    rental.gpu_per_hour = micros_per_hour;
    market_changed();
}

void World::set_rate(Rental& rental, std::int64_t gpu_per_hour) {
    accrue(rental);
    rental.gpu_per_hour = gpu_per_hour;
    if (rental.is_bid) rental.bid_per_hour = gpu_per_hour;
}

}  // namespace gf::sim
