// The simulated world: market, rentals, money and time, without HTTP. One mutex guards all of it: take
// `lock()` for every use, then call `advance()` so that what is due has happened.
//
// Level-driven: `advance` looks at each rental's phase and due time, in order of time, so a jump of the clock
// plays every step at its own moment and bills it exactly.
#pragma once
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "model/id.hpp"
#include "simulator/clock.hpp"
#include "simulator/machines.hpp"
#include "simulator/market.hpp"
#include "simulator/rental.hpp"
#include "simulator/settings.hpp"

namespace gf::sim {

enum class StartOutcome { started, queued, host_full, lease_over };

class World {
 public:
    World(Clock& clock, Settings settings, Market market, std::uint64_t seed);

    /// The machines that play the rentals; set once, before the first rental. Not owned.
    void use(Machines& machines) { machines_ = &machines; }

    [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
    /// Queues what a machine reported. Any thread, no lock needed.
    void post(MachineEvent event);
    /// Wakes whoever waits in `wait_for_work`. Any thread.
    void nudge();
    /// Sleeps until something is due, something was posted, or `nudge`; at most 100 ms of real time.
    void wait_for_work(std::unique_lock<std::mutex>& held);

    // Everything below wants the lock held.

    /// Plays everything that is due by now and everything that was posted.
    void advance();
    [[nodiscard]] Instant now() const { return clock_.now(); }
    [[nodiscard]] Clock& clock() { return clock_; }
    /// When this world began; leases count from here.
    [[nodiscard]] Instant opened_at() const { return opened_at_; }
    [[nodiscard]] Settings& settings() { return settings_; }
    [[nodiscard]] Market& market() { return market_; }
    [[nodiscard]] Machines& machines() { return *machines_; }
    [[nodiscard]] Entropy& entropy() { return entropy_; }

    /// All rentals ever, oldest first, the gone ones too.
    [[nodiscard]] const std::vector<std::unique_ptr<Rental>>& rentals() const { return rentals_; }
    /// By id, gone or not; null if there never was one.
    [[nodiscard]] Rental* find(Provider provider, const std::string& id);

    /// GPUs of a host that a new tenant could have: an on-demand tenant displaces bids, a bid displaces lower
    /// ones
    /// (`bid_per_gpu`, micro-dollars per hour).
    [[nodiscard]] int free_gpus(const Host& host, std::optional<std::int64_t> bid_per_gpu = {}) const;
    /// Registers a rental; the caller has filled what was asked for and chosen the host. Gives it id, key and
    /// times, displaces lower bids, and starts its life; with `running` false it is born stopped.
    Rental& rent(Rental rental, bool running = true);

    /// Tells it to stop; `halt` says why. Nothing happens to one that is stopped already.
    void stop(Rental& rental, Halt halt, Millis grace);
    [[nodiscard]] StartOutcome start(Rental& rental);
    /// Stops and starts again on the same GPUs; `wipe` begins on an empty container disk.
    void restart(Rental& rental, bool wipe, Millis grace);
    void destroy(Rental& rental, Millis takes);
    /// The provider takes the machine's GPUs for another tenant, until `held` has passed or `give_back`.
    /// RunPod: EXITED unasked. Vast: a bid is outbid and resumes by itself later; on-demand is stopped by the
    /// host. Lambda: `preempted`, then gone. Vultr: it vanishes, or stops if the settings say so.
    void take_back(Rental& rental, std::optional<Millis> grace, std::optional<Millis> held);
    void give_back(Rental& rental);
    /// A machine that moved: the old id is gone, and the same thing begins anew under another.
    Rental& migrate(Rental& old);
    /// Machines of a type that are left in a region.
    [[nodiscard]] int free_vms(Provider provider, const VmType& type, const std::string& region) const;
    /// The content of /usr/local/sbin/docker (first in PATH) in every virtual machine that starts from now on; empty = there is none.
    void set_vm_docker(std::string content) { vm_docker_ = std::move(content); }
    void set_offline(Rental& rental, bool offline, bool keep_processes);
    void set_bid(Rental& rental, std::int64_t micros_per_hour);
    void set_rate(Rental& rental, std::int64_t gpu_per_hour);
    /// Runs the auctions again after prices or stock changed.
    void market_changed();
    void set_gpu_fault(Rental& rental, GpuFault fault);
    /// The fault that the next rental of a provider gets.
    [[nodiscard]] std::map<Provider, GpuFault>& next_gpu_fault() { return next_gpu_fault_; }

    /// Brings a bill up to now.
    void accrue(Rental& rental);
    [[nodiscard]] Rates rates(const Rental& rental) const;
    [[nodiscard]] Usd billed(Provider provider);
    [[nodiscard]] Usd balance(Provider provider);
    void set_balance(Provider provider, Usd amount);
    /// Spending now, micro-dollars per hour, disks included.
    [[nodiscard]] std::int64_t burn_per_hour(Provider provider) const;

    [[nodiscard]] bool holds_gpus(const Rental& rental) const;
    void log(Rental& rental, std::string line);
    [[nodiscard]] std::string random_text(std::size_t length, std::string_view alphabet);

 private:
    void take(const MachineEvent& event);
    void step(Rental& rental, Instant at);
    void accrue_to(Rental& rental, Instant at);
    void enter(Rental& rental, Phase phase, Instant at, std::optional<Millis> lasts);
    void begin_boot(Rental& rental, Instant at);
    void start_container(Rental& rental);
    void container_failed(Rental& rental, const std::string& why);
    void main_exited(Rental& rental);
    void finish_stop(Rental& rental, Instant at);
    void lease_ended(Rental& rental, Instant at);
    void enforce_money();
    void run_auctions();
    void leave(Rental& rental, Instant at);
    [[nodiscard]] std::optional<Instant> next_step(const Rental& rental) const;
    [[nodiscard]] Millis stretched(Millis delay);
    [[nodiscard]] Millis pull_time(const Rental& rental);
    // world_vm.cpp
    void register_vm(Rental& rental);
    void step_vm(Rental& rental, Instant at);
    void vm_started(Rental& rental);
    void take_back_vm(Rental& rental, std::optional<Millis> held);
    [[nodiscard]] StartOutcome start_vm(Rental& rental);
    [[nodiscard]] Rates vm_rates(const Rental& rental) const;
    [[nodiscard]] ContainerSpec vm(Rental& rental);
    [[nodiscard]] std::string facts(const Rental& rental) const;
    [[nodiscard]] ContainerSpec container(Rental& rental);
    void assign_ports(Rental& rental);

    Clock& clock_;
    Instant opened_at_{clock_.now()};
    Settings settings_;
    Market market_;
    Machines* machines_{nullptr};
    Entropy entropy_;
    std::mutex mutex_;  // guards everything but inbox_
    std::vector<std::unique_ptr<Rental>> rentals_;
    std::map<std::pair<Provider, std::string>, Rental*> by_id_;
    std::map<Provider, Usd> deposited_;
    std::map<Provider, Usd> closed_;  // bills of rentals that are gone
    std::map<Provider, GpuFault> next_gpu_fault_;
    std::string vm_docker_;
    std::int64_t next_contract_{24'880'101};
    std::uint64_t next_order_{0};

    std::mutex inbox_mutex_;  // guards inbox_ and nudged_
    std::condition_variable wake_;
    std::vector<MachineEvent> inbox_;
    bool nudged_{false};
};

}  // namespace gf::sim
