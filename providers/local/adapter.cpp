#include "providers/local/adapter.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "providers/local/agent_start.hpp"

namespace gf::local {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRecord = "machine.json";
constexpr std::string_view kDestroyAsked =
    "destroy_asked";  // holds the time of the first ask, unix milliseconds
constexpr std::string_view kLog = "agent.log";
constexpr auto kLogKept = std::chrono::hours{24 * 7};

std::string variable_or(const char* name, std::string fallback) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0' ? std::string(value) : std::move(fallback);
}

std::optional<Instant> destroy_asked_at(const fs::path& folder) {
    std::ifstream in(folder / kDestroyAsked);
    std::int64_t ms = 0;
    if (in >> ms) return instant_of(ms);
    return std::nullopt;
}

LaunchOutcome refusal(ErrorKind kind, std::string why) {
    return {.id = {}, .error = Error{.kind = kind, .message = "local: " + std::move(why)}, .rate = {}};
}

/// Logs of machines that are long gone. Best effort: a log that cannot be removed now is removed at a later
/// launch.
void sweep_old_logs(const fs::path& root) {
    std::error_code error;
    std::vector<fs::path> old;
    for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
        std::error_code ignored;
        if (fs::exists(it->path() / kRecord, ignored) || !is_plain_tag(it->path().filename().string()))
            continue;
        const auto written = fs::last_write_time(it->path() / kLog, ignored);
        if (!ignored && fs::file_time_type::clock::now() - written > kLogKept) old.push_back(it->path());
    }
    for (const auto& folder : old) fs::remove_all(folder, error);
}

}  // namespace

Adapter::Adapter(AdapterSettings settings, Clock& clock, GpuLookup lookup)
    : settings_(std::move(settings)), clock_(clock), lookup_(std::move(lookup)) {
    std::error_code error;  // a folder that cannot be made shows as `io` in the first call
    settings_.data_dir = fs::absolute(settings_.data_dir, error);
    fs::create_directories(settings_.data_dir / "local", error);
    if (!error) fs::permissions(settings_.data_dir / "local", fs::perms::owner_all, error);
}

fs::path Adapter::folder(std::string_view tag) const {
    return settings_.data_dir / "local" / tag;
}

Result<std::vector<MachineFile>> Adapter::records() const {
    std::vector<MachineFile> out;
    std::error_code error;
    fs::directory_iterator it(settings_.data_dir / "local", error);
    for (const fs::directory_iterator end; !error && it != end; it.increment(error)) {
        const auto tag = it->path().filename().string();
        if (!is_plain_tag(tag)) continue;
        auto file = read_machine_file(it->path() / kRecord);
        if (!file)
            return fail(std::move(file).error());  // a listing without this machine would be a short one
        if (*file) out.push_back(**std::move(file));
    }
    if (error)
        return fail(ErrorKind::unavailable,
                    fmt::format("local: the machines' folder cannot be read: {}", error.message()));
    std::ranges::sort(out, {}, &MachineFile::tag);
    return out;
}

Result<std::vector<MachineFile>> Adapter::running() const {
    auto all = records();
    if (!all) return all;
    // A machine whose processes are not all gone still holds its cards.
    std::erase_if(
        *all, [](const MachineFile& m) { return !is_alive(m.process) && tree_of(m.process, m.tag).empty(); });
    return all;
}

Result<OfferList> Adapter::offers(const OfferQuery& query) {
    auto machines = running();
    if (!machines) return fail(std::move(machines).error());
    const auto hardware = probe_hardware(settings_.nvidia_smi, settings_.data_dir.string(), settings_.smi_patience);
    if (!hardware) return fail(hardware.error());
    return offers_of(*hardware, in_use(*machines), query, settings_.market, lookup_);
}

LaunchOutcome Adapter::launch(const LaunchRequest& request) {
    const auto& tag = request.tag.get();
    if (!is_plain_tag(tag)) return refusal(ErrorKind::refused, fmt::format("'{}' cannot name a folder", tag));
    if (!request.image.empty())
        return refusal(ErrorKind::no_capacity, "jobs with an image cannot run here: there are no containers");
    const auto cards = cards_of(request.offer.id);
    if (cards.empty() && !is_cpu_offer(request.offer.id))
        return refusal(ErrorKind::refused, fmt::format("'{}' is no offer of this machine", request.offer.id));

    // Before the lock: a driver in trouble takes its time, and burials must go on meanwhile.
    const auto hardware = probe_hardware(settings_.nvidia_smi, settings_.data_dir.string(), settings_.smi_patience);
    if (!hardware) return refusal(ErrorKind::no_capacity, hardware.error().message);
    const std::lock_guard lock(mutex_);
    const auto machines = running();
    if (!machines) return {.id = {}, .error = machines.error(), .rate = {}};
    const auto used = in_use(*machines);
    if (used.cpu_slots.contains(request.offer.id) ||
        std::ranges::any_of(cards, [&](const auto& uuid) { return used.gpus.contains(uuid); }))
        return refusal(ErrorKind::no_capacity, "this part of the machine has been taken meanwhile");
    for (const auto& uuid : cards) {
        const auto card = std::ranges::find(hardware->cards, uuid, &Card::uuid);
        if (card == hardware->cards.end())
            return refusal(ErrorKind::no_capacity, fmt::format("the card {} is not there any more{}", uuid,
                                                               hardware->gpu_trouble.empty() ? "" : ": " + hardware->gpu_trouble));
        if (is_busy(*card))
            return refusal(ErrorKind::no_capacity, fmt::format("somebody else uses the card {} meanwhile", uuid));
    }
    if (::access(settings_.agent.c_str(), X_OK) != 0)
        return refusal(ErrorKind::no_capacity, fmt::format("the agent {} cannot be executed: {}",
                                                           settings_.agent.string(), std::strerror(errno)));

    sweep_old_logs(settings_.data_dir / "local");
    const auto own = folder(tag);
    std::error_code error;
    if (fs::exists(own / kRecord, error))
        return refusal(ErrorKind::no_capacity, fmt::format("{} exists already", tag));
    fs::create_directories(own / "workspace", error);
    if (error)
        return refusal(ErrorKind::no_capacity,
                       fmt::format("{} cannot be made: {}", own.string(), error.message()));
    fs::permissions(own, fs::perms::owner_all, error);
    fs::remove(own / kDestroyAsked, error);
    const MachineFile file{.tag = tag,
                           .offer = request.offer.id,
                           .gpu_name = cards.empty() ? "" : request.offer.gpu.provider_name,
                           .gpu_memory = request.offer.gpu.memory ? request.offer.gpu.memory->count : 0,
                           .gpus = cards,
                           .rate = request.offer.gpu_rate,
                           .created_ms = unix_millis(clock_.now()),
                           .process = {.boot_id = boot_id()}};
    // A driver in trouble may be well again while the job runs.
    const bool machine_has_gpus = !hardware->cards.empty() || !hardware->gpu_trouble.empty();
    const auto started = start_agent({.program = settings_.agent,
                                      .arguments = settings_.agent_arguments,
                                      .environment = environment(request, cards, machine_has_gpus),
                                      .folder = own},
                                     record_template(file));
    if (!started) {
        fs::remove_all(own, error);
        return refusal(ErrorKind::no_capacity, started.error().message);
    }
    return {.id = ProviderMachineId{tag}, .error = {}, .rate = file.rate};
}

std::map<std::string, std::string> Adapter::environment(const LaunchRequest& request,
                                                        const std::vector<std::string>& gpus,
                                                        bool machine_has_gpus) const {
    // Nothing else of the daemon's environment: provider keys are in it.
    std::map<std::string, std::string> env;
    for (const auto& [name, value] : request.env)
        if (name.starts_with("GPUFERRY_")) env[name] = value;
    env["GPUFERRY_MACHINE"] = request.tag.get();
    env.try_emplace("GPUFERRY_WORKSPACE", (folder(request.tag.get()) / "workspace").string());
    env["PATH"] = variable_or("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    env["HOME"] = variable_or("HOME", folder(request.tag.get()).string());
    env["LANG"] = variable_or("LANG", "C.UTF-8");
    if (machine_has_gpus) {
        // Each card is rented once: the CUDA libraries show a job only its own.
        std::string visible;
        for (const auto& uuid : gpus) visible += (visible.empty() ? "" : ",") + uuid;
        env["CUDA_VISIBLE_DEVICES"] = visible;
        env["NVIDIA_VISIBLE_DEVICES"] = visible.empty() ? "void" : visible;  // what container runtimes go by
        env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";  // nvidia-smi's order, for the cards that have no uuid
    }
    return env;
}

Result<Listing> Adapter::list() {
    auto all = records();
    if (!all) return fail(std::move(all).error());
    Listing out;
    for (const auto& file : *all) {
        if (is_alive(file.process) && !finish(file))
            out.machines.push_back(machine_of(file, lookup_));
        else if (!tree_of(file.process, file.tag).empty()) {
            auto m = machine_of(file, lookup_);
            m.presence = Presence::stopped;
            m.raw_state = "the agent has ended, its last processes have not";
            out.machines.push_back(std::move(m));
        }
    }
    return out;
}

Result<ProviderMachine> Adapter::read(const ProviderMachineId& id) {
    ProviderMachine gone;
    gone.id = id;
    gone.presence = Presence::gone;
    gone.gpu_rate = UsdPerHour{0};
    gone.disk_rate = UsdPerHour{0};
    if (!is_plain_tag(id.get())) return gone;
    std::error_code error;
    // The folder of all machines must be readable before the absence of one says anything.
    if (!fs::is_directory(settings_.data_dir / "local", error))
        return fail(ErrorKind::unavailable, "local: the machines' folder is not there");
    auto file = read_machine_file(folder(id.get()) / kRecord);
    if (!file) return fail(std::move(file).error());
    if (!*file) {
        gone.raw_state = "no record";
        return gone;
    }
    const auto& record = **file;
    if (!finish(record)) {
        auto m = machine_of(record, lookup_);
        if (!is_alive(record.process)) {
            m.presence = Presence::stopped;
            m.raw_state = "the agent has ended, its last processes have not";
        }
        return m;
    }
    bury(id.get());
    gone.raw_state = "the agent has ended";
    return gone;
}

Result<void> Adapter::destroy(const ProviderMachineId& id) {
    if (!is_plain_tag(id.get())) return {};
    auto file = read_machine_file(folder(id.get()) / kRecord);
    if (!file) return fail(std::move(file).error());
    if (!*file) return {};
    const auto& record = **file;
    if (!destroy_asked_at(folder(id.get()))) {
        std::ofstream out(folder(id.get()) / kDestroyAsked);
        out << unix_millis(clock_.now()) << '\n';
    }
    if (is_alive(record.process)) ::kill(record.process.pid, SIGTERM);
    finish(record);
    return {};
}

bool Adapter::finish(const MachineFile& file) {
    const bool alive = is_alive(file.process);
    const auto asked = destroy_asked_at(folder(file.tag));
    const bool overdue = asked && clock_.now() - *asked >= settings_.kill_after;
    if (alive && !overdue) return false;
    // The agent first: it would take the death of its job for an end to be reported.
    if (alive) ::kill(file.process.pid, SIGKILL);
    const auto left = tree_of(file.process, file.tag);
    for (const auto pid : left) ::kill(pid, SIGKILL);
    return !is_alive(file.process) && tree_of(file.process, file.tag).empty();
}

void Adapter::bury(std::string_view tag) {
    const std::lock_guard lock(mutex_);
    const auto own = folder(tag);
    std::error_code error;
    std::vector<fs::path> entries;
    for (fs::directory_iterator it(own, error), end; !error && it != end; it.increment(error))
        entries.push_back(it->path());
    for (const auto& path : entries)
        if (path.filename() != kLog && path.filename() != kRecord) fs::remove_all(path, error);
    fs::remove(own / kRecord, error);  // last, so that an interrupted burial is found and gone on with
}

std::vector<Finding> Adapter::check() {
    using enum Finding::Level;
    auto out = Provider::check();
    const auto add = [&](Finding::Level level, std::string what, std::string text) {
        out.push_back({.level = level, .what = std::move(what), .text = std::move(text)});
    };
    const auto hardware = probe_hardware(settings_.nvidia_smi, settings_.data_dir.string(), settings_.smi_patience);
    if (!hardware) {
        add(failed, "offers", hardware.error().message);
    } else if (!hardware->gpu_trouble.empty()) {
        add(warning, "offers", fmt::format("{}: its cards are not used until the driver works again", hardware->gpu_trouble));
    } else {
        const auto busy = std::ranges::count_if(hardware->cards, is_busy);
        add(ok, "offers",
            fmt::format("{} GPUs, {} CPUs{}", hardware->cards.size(), hardware->cpus,
                        busy > 0 ? fmt::format("; memory of {} GPUs is in use now, by machines of ours or by others", busy) : ""));
    }
    if (::access(settings_.agent.c_str(), X_OK) != 0)
        add(failed, "agent", fmt::format("the agent {} cannot be executed: {}", settings_.agent.string(), std::strerror(errno)));
    return out;
}

Result<Usd> Adapter::balance() {
    return fail(ErrorKind::not_found, "local: no prepaid balance");
}

}  // namespace gf::local
