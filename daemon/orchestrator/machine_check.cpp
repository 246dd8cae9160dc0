// The machine check: what the agent found, and what the provider bills, held against what was offered and what the job asks for.
// Anything worse and the machine is given back before the user's command runs (DESIGN 7). What a report does not tell is not
// held against the machine: an old driver's tools leave things out, and the offer had to answer the demand already.
#include <algorithm>

#include "daemon/orchestrator/step.hpp"
#include "scheduler/filters.hpp"
#include "scheduler/version.hpp"

namespace gf {
namespace {
namespace ap = agent_protocol;

/// What a file system keeps for itself of a disk, and a kernel of the memory.
constexpr std::int64_t kDiskSharePercent = 90;
constexpr std::int64_t kFreeSharePercent = 80;
constexpr std::int64_t kMemorySharePercent = 90;

/// What was offered may be the marketing class (RunPod tells 48 GiB for an A40, which reports 46,068 MiB): the same share of it as
/// where offers are filtered.
bool memory_as_offered(Bytes offered, std::int64_t found) {
    return static_cast<double>(found) >= kClassShare * static_cast<double>(offered.count);
}

/// Another card than was offered is taken only where it cannot disappoint: not another than the job names, and in no way smaller
/// or slower. A name that the table does not know is judged by its memory alone: drivers are newer than tables.
std::string other_card(const GpuNames* table, const Offer& offer, const JobSpec* spec, const ap::GpuReport& gpu) {
    // A slice of a card goes by names of its own.
    if (!table || offer.gpu.canonical.empty() || offer.gpu_share < 1) return {};
    const auto memory = gpu.memory_bytes > 0 ? std::optional(Bytes{gpu.memory_bytes}) : std::nullopt;
    const auto name = table->canonical("nvidia-smi", gpu.name, memory);
    if (!name || *name == offer.gpu.canonical) return {};
    const std::string trouble = "the GPU is " + *name + " (\"" + gpu.name + "\"), offered " + offer.gpu.canonical;
    if (spec && !spec->resources.gpu.empty() && std::ranges::find(spec->resources.gpu, *name) == spec->resources.gpu.end())
        return trouble;
    const GpuCard* found = table->card(*name);
    const GpuCard* offered = table->card(offer.gpu.canonical);
    if (!found || !offered) return trouble;
    const bool smaller = found->class_gb < offered->class_gb || (offered->bf16 && !found->bf16) || (offered->fp8 && !found->fp8) ||
                         found->nvlink_gb_s < offered->nvlink_gb_s;
    // A variant with the same memory is no better one (RTX 4090 D); the bandwidth tells a better card from it.
    const bool faster = found->bandwidth_gb_s.value_or(0) > offered->bandwidth_gb_s.value_or(INT64_MAX);
    return smaller || !faster ? trouble : std::string();
}

bool below(const std::string& have, const std::string& least) {
    return !least.empty() && version_at_least(have, least) == std::optional(false);
}

std::string gpus(const CoreSettings& settings, const Offer& offer, const JobSpec* spec, const ap::MachineReport& report) {
    if (static_cast<int>(report.gpus.size()) < offer.gpu_count)
        return std::to_string(report.gpus.size()) + " GPUs, offered " + std::to_string(offer.gpu_count);
    for (const auto& gpu : report.gpus) {
        if (auto trouble = other_card(settings.gpus, offer, spec, gpu); !trouble.empty()) return trouble;
        if (offer.gpu.memory && !memory_as_offered(*offer.gpu.memory, gpu.memory_bytes))
            return gpu.name + " has " + std::to_string(gpu.memory_bytes / kMiB) + " MiB, offered " +
                   std::to_string(offer.gpu.memory->count / kMiB) + " MiB";
        if (spec && below(gpu.driver, spec->resources.driver))
            return "the driver is " + gpu.driver + ", asked for >=" + spec->resources.driver;
    }
    if (spec && below(report.cuda_version, spec->resources.cuda))
        return "the driver's CUDA is " + report.cuda_version + ", asked for >=" + spec->resources.cuda;
    if (below(report.cuda_version, offer.cuda_max)) return "the driver's CUDA is " + report.cuda_version + ", offered " + offer.cuda_max;
    const bool wanted = spec && !spec->resources.cpu_only && !settings.cuda_probe_off;
    const bool missing = report.cuda_probe == "no_loader" || report.cuda_probe == "no_libcuda" || report.cuda_probe == "not_run";
    if (wanted && report.cuda_probe != "ok" && (!missing || settings.cuda_probe_required))
        return "CUDA does not initialise: " + report.cuda_probe;
    if (wanted && report.cuda_probe == "ok" && report.cuda_devices < offer.gpu_count)
        return "CUDA sees " + std::to_string(report.cuda_devices) + " devices, offered " + std::to_string(offer.gpu_count);
    return {};
}

/// `asked` was rented, but a machine whose row is older than that demand has none.
std::string disk(Bytes asked, const ap::MachineReport& report) {
    if (report.disk_total > 0 && report.disk_total < asked.count * kDiskSharePercent / 100)
        return "the disk has " + bytes_text(Bytes{report.disk_total}) + ", asked for " + bytes_text(asked);
    if (report.disk_free > 0 && report.disk_free < asked.count * kFreeSharePercent / 100)
        return bytes_text(Bytes{report.disk_free}) + " of disk free, asked for " + bytes_text(asked);
    return {};
}

}  // namespace

std::string Step::check_machine(const LiveMachine& machine, const JobSpec* spec, const ap::MachineReport& report) {
    const Offer& offer = machine.row.offer;
    const LiveProvider* from = provider(machine.row.provider);
    const bool local = from && from->capabilities.is_local;
    if (report.workspace.empty()) return "unwritable: no writable folder for the job";
    if (report.arch != offer.arch) return "architecture is " + report.arch + ", offered " + offer.arch;
    if (offer.gpu_count > 0)
        if (auto trouble = gpus(w_.settings, offer, spec, report); !trouble.empty()) return trouble;
    if (local || !spec) return {};
    if (auto trouble = disk(spec->resources.disk, report); !trouble.empty()) return trouble;
    const auto& memory = spec->resources.memory;
    if (memory && report.memory_total > 0 && report.memory_total < memory->count / 100 * kMemorySharePercent)
        return "the machine has " + bytes_text(Bytes{report.memory_total}) + " of memory, asked for " + bytes_text(*memory);
    return {};
}

void Step::lease_when_billed(LiveMachine& machine, bool held) {
    const LiveProvider* from = provider(machine.row.provider);
    const bool first = machine.row.state == MachineState::ready && !held;
    if (!first || machine.rate_told || !from || from->capabilities.is_local) return lease(machine, held);
    // Its provider has not shown yet what it bills now that it runs. One read answers; a read that fails, or tells no price, is
    // no reason to keep a machine waiting that bills.
    machine.lease_waits = true;
    machine.next_call = now_;
    call_read(machine);
}

void Step::worse_than_offered(LiveMachine& machine, std::string_view reason, const std::string& detail) {
    mark_host(machine, HostEvent::check_failure, detail);
    cool(machine.row.offer, std::string(reason), true);
    LiveTask* task = holds_current(machine) ? task_of(machine) : nullptr;
    const Cause cause = task && task->attempt->state == AttemptState::running ? Cause::host_fault : Cause::start_timeout;
    destroy(machine, reason, detail);
    if (!task) return;
    end_attempt(*task, cause, detail);
    if (LiveJob* job = job_of(*task)) recover(*job, *task, cause, detail);
}

bool Step::rate_over(LiveMachine& machine, const ProviderMachine& seen) {
    // Rounding room: between an offer's rate and the billed one, and between a cap and the sum that it was chosen by.
    constexpr std::int64_t kOfferSlackPercent = 5;
    constexpr std::int64_t kCapSlackPercent = 1;
    const LiveProvider* from = provider(machine.row.provider);
    if (!seen.gpu_rate || (from && from->capabilities.is_local)) return false;
    const auto beyond = [](UsdPerHour rate, UsdPerHour most, std::int64_t percent) {
        return rate.micros > most.micros + most.micros * percent / 100;
    };
    // Machines that were found, not rented, have no offer to be held against.
    const UsdPerHour agreed = std::max(machine.row.offer.gpu_rate, bid_most(machine));
    const UsdPerHour all_in = *seen.gpu_rate + seen.disk_rate.value_or(machine.ledger ? machine.ledger->disk_rate : UsdPerHour{0});
    LiveTask* task = holds_current(machine) ? task_of(machine) : nullptr;
    const LiveJob* job = task ? job_of(*task) : nullptr;
    const auto cap = job && job->spec ? job->spec->resources.max_price : std::nullopt;
    const std::string key = "rate/" + machine.row.id.get();
    std::string detail;
    if (agreed.micros > 0 && beyond(*seen.gpu_rate, agreed, kOfferSlackPercent))
        detail = "billed $" + dollars(*seen.gpu_rate) + "/h for the GPUs, offered at $" + dollars(agreed) + "/h";
    else if (cap && beyond(all_in, *cap, kCapSlackPercent))
        detail = "billed $" + dollars(all_in) + "/h, which is over max_price $" + dollars(*cap) + "/h";
    if (detail.empty()) {
        clear_alert(key);
        return false;
    }
    // Before the command runs there is nothing to lose: it is given back. Afterwards people decide, and the ledger goes on at
    // the new rate.
    const bool leased = task && task->attempt->state == AttemptState::leased;
    alert("billed_rate_over_offer", "warning", key,
          machine.row.provider.get() + " machine " + machine.row.provider_id.get() + ": " + detail +
              (leased ? "; it is given back" : "; what runs there runs on"),
          &machine);
    if (leased) worse_than_offered(machine, "billed_rate_over_offer", detail);
    return leased;
}

}  // namespace gf
