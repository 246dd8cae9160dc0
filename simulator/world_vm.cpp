// Virtual machines: what Lambda and Vultr rent. They differ from containers in that the provider boots a
// whole system, runs the client's user data once, and takes no notice of what runs inside.
#include <fmt/format.h>

#include <algorithm>

#include "simulator/world.hpp"

namespace gf::sim {

namespace {

constexpr std::string_view kHex = "0123456789abcdef";
constexpr Millis kReboot{15'000};         // a machine that has booted before comes up faster
constexpr Millis kPreemptedSeen{60'000};  // a preempted machine is listed at least so long
constexpr Millis kMinute{60'000};
constexpr Millis kHour{3'600'000};

}  // namespace

void World::register_vm(Rental& rental) {
    const auto hex = [&](std::size_t length) { return random_text(length, kHex); };
    const auto octet = [&] { return 1 + static_cast<int>(entropy_.below(254)); };
    if (rental.provider == Provider::lambda) {
        rental.id = hex(32);
        rental.bill = Bill{rental.created_at, kMinute};
        rental.vm.secret = hex(32);
        rental.vm.ip = fmt::format("198.51.100.{}", octet());
    } else {
        rental.id = fmt::format("{}-{}-4{}-a{}-{}", hex(8), hex(4), hex(3), hex(3), hex(12));
        rental.bill = Bill{rental.created_at, kHour};
        rental.vm.secret = random_text(16, "abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789{}#!");
        rental.vm.ip = fmt::format("192.0.2.{}", octet());
        rental.vm.locked_until = rental.created_at + settings_.vultr_locked;
    }
    rental.vm.private_ip = fmt::format("10.19.{}.{}", octet(), octet());
}

int World::free_vms(Provider provider, const VmType& type, const std::string& region) const {
    const auto it = type.stock.find(region);
    if (it == type.stock.end()) return 0;
    const auto held = std::ranges::count_if(rentals_, [&](const auto& rental) {
        return rental->provider == provider && rental->vm.type == type.name && rental->vm.region == region &&
               rental->exists() && !rental->forced_out;
    });
    return std::max(0, it->second - static_cast<int>(held));
}

Rates World::vm_rates(const Rental& rental) const {
    if (rental.phase == Phase::destroying || rental.phase == Phase::gone) return {};
    if (rental.provider == Provider::lambda) {
        // Free while it boots; then until it is terminated, healthy or not.
        if (!rental.vm.active_since || rental.halt == Halt::taken_back) return {};
        return {.gpu_micros_per_hour = rental.gpu_per_hour, .disk_micros_per_month = 0};
    }
    // From deploy on, halted or not: only a delete ends it.
    return {.gpu_micros_per_hour = rental.gpu_per_hour, .disk_micros_per_month = 0};
}

void World::step_vm(Rental& rental, Instant at) {
    const bool lambda = rental.provider == Provider::lambda;
    switch (rental.phase) {
        case Phase::accepted:
            enter(rental, Phase::loading, at,
                  stretched(lambda ? settings_.lambda_boot : settings_.vultr_install));
            return;
        case Phase::loading:
            rental.due.reset();
            if (rental.never_runs || rental.offline) return;
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
        case Phase::stopped:
            // A preempted machine leaves the list in the end.
            rental.due.reset();
            if (lambda && rental.halt == Halt::taken_back) leave(rental, at);
            return;
        case Phase::created:
        case Phase::starting:
        case Phase::running:
        case Phase::exited:
        case Phase::queued:
        case Phase::failed:
        case Phase::gone:
            rental.due.reset();
            return;
    }
}

void World::vm_started(Rental& rental) {
    accrue(rental);
    if (!rental.vm.active_since) {
        rental.vm.active_since = now();
        if (rental.provider == Provider::lambda) rental.vm.unhealthy = settings_.lambda_boots_unhealthy;
    }
    accrue(rental);
}

StartOutcome World::start_vm(Rental& rental) {
    accrue(rental);
    rental.want_running = true;
    rental.halt = Halt::none;
    enter(rental, Phase::loading, now(), stretched(kReboot));
    nudge();
    return StartOutcome::started;
}

void World::take_back_vm(Rental& rental, std::optional<Millis> held) {
    if (!rental.exists() || rental.forced_out) return;
    accrue(rental);
    rental.forced_out = held ? now() + *held : Instant::max();
    // Another tenant has it: the stock is one less until it is given back.
    if (auto* type = market_.vm_type(rental.provider, rental.vm.type)) --type->stock[rental.vm.region];
    if (rental.provider == Provider::vultr) {
        if (settings_.vultr_taken_stops) {
            stop(rental, Halt::taken_back, Millis{0});
        } else {
            rental.halt = Halt::taken_back;
            destroy(rental, Millis{0});
        }
        nudge();
        return;
    }
    machines_->destroy(rental.id);
    rental.alive = false;
    rental.pid = 0;
    rental.want_running = false;
    enter(rental, Phase::stopped, now(), std::max(kPreemptedSeen, settings_.lambda_terminated_kept));
    rental.halt = Halt::taken_back;
    rental.halted_at = now();
    nudge();
}

Rental& World::migrate(Rental& old) {
    Rental copy;
    copy.provider = old.provider;
    copy.host = old.host;
    copy.gpu = old.gpu;
    copy.gpus = old.gpus;
    copy.name = old.name;
    copy.image = old.image;
    copy.env = old.env;
    copy.args = old.args;
    copy.arg_list = old.arg_list;
    copy.onstart = old.onstart;
    copy.runtype = old.runtype;
    copy.ports = old.ports;
    copy.disk_gb_milli = old.disk_gb_milli;
    copy.volume_gb = old.volume_gb;
    copy.volume_path = old.volume_path;
    copy.network_volume = old.network_volume;
    copy.network_path = old.network_path;
    copy.registry = old.registry;
    copy.locked = old.locked;
    copy.start_ssh = old.start_ssh;
    copy.is_bid = old.is_bid;
    copy.bid_per_hour = old.bid_per_hour;
    copy.gpu_per_hour = old.gpu_per_hour;
    copy.disk_per_month = old.disk_per_month;
    copy.disk_per_month_stopped = old.disk_per_month_stopped;
    copy.ssh_keys = old.ssh_keys;
    copy.vm = old.vm;
    copy.vm.active_since.reset();
    copy.vm.user_data_run = false;
    copy.ssh_host = old.ssh_host;
    copy.ssh_port = old.ssh_port;
    destroy(old, Millis{0});
    return rent(std::move(copy));
}

ContainerSpec World::vm(Rental& rental) {
    const auto* type = market_.vm_type(rental.provider, rental.vm.type);
    ContainerSpec spec;
    spec.vm = true;
    spec.machine = rental.id;
    spec.run = rental.run;
    spec.hostname = rental.vm.hostname;
    spec.wipe = rental.wipe_next;
    // What cloud-init has: no HOME among it.
    spec.env = {{"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin"},
                {"LANG", "C.UTF-8"}};
    const auto gib = static_cast<std::uint64_t>(type == nullptr ? 20 : std::max(1, type->storage_gb));
    spec.disk_bytes = gib << 30U;
    if (rental.gpu_fault.disk_mib)
        spec.disk_bytes = static_cast<std::uint64_t>(*rental.gpu_fault.disk_mib) << 20U;
    spec.gpu_facts = facts(rental);
    spec.libcuda = !spec.gpu_facts.empty() && !rental.gpu_fault.no_libcuda;
    if (rental.wipe_next) rental.vm.user_data_run = false;
    const std::string script = "/var/lib/cloud/instance/scripts/part-001";
    const auto& data = rental.vm.user_data;
    spec.files.push_back({"/var/lib/cloud/instance/user-data.txt", data, 0600});
    if (!rental.vm.authorized_keys.empty()) {
        const bool ubuntu = rental.provider == Provider::lambda;
        spec.files.push_back({ubuntu ? "/home/ubuntu/.ssh/authorized_keys" : "/root/.ssh/authorized_keys",
                              rental.vm.authorized_keys, 0600});
    }
    if (!vm_docker_.empty()) spec.files.push_back({"/usr/local/sbin/docker", vm_docker_, 0755});
    // Once per disk, as cloud-init does; what is no script is kept and not run.
    if (!rental.vm.user_data_run && data.starts_with("#!")) {
        spec.files.push_back({script, data, 0700});
        spec.argv = {script};
    } else if (!rental.vm.user_data_run && !data.empty()) {
        log(rental, "cloud-init: the user data is no #! script and is not run here");
    }
    rental.vm.user_data_run = true;
    return spec;
}

}  // namespace gf::sim
