// What a complete listing proves, and what it does not. A listing shows what is there; that something is not in it is only
// evidence when the listing is trusted (complete, begun after the call in question ended, holding every machine that a
// read by id shows alive), and even then only for a machine whose id was never told (DESIGN 6.1).
#include <algorithm>
#include <utility>

#include "daemon/orchestrator/step.hpp"

namespace gf {
namespace {

bool ours(const CoreSettings& settings, const std::string& tag) {
    return parse_machine_tag(tag).install == settings.install && !settings.install.empty();
}

/// Name or label first; the environment mark is the second witness where a user renamed the machine.
const std::string& own_tag(const CoreSettings& settings, const ProviderMachine& seen) {
    return ours(settings, seen.tag) ? seen.tag : seen.env_tag;
}

Millis settle_time(const CoreSettings& settings, const ProviderName& provider) {
    const auto found = settings.settle.find(provider.get());
    return found == settings.settle.end() ? settings.settle_default : found->second;
}

}  // namespace

LiveMachine* Step::live_match(const ProviderMachine& seen, const ProviderName& from) {
    for (auto& [id, machine] : w_.machines)
        if (machine.row.provider == from && machine.row.provider_id == seen.id) return &machine;
    const auto parts = parse_machine_tag(own_tag(w_.settings, seen));
    if (parts.install != w_.settings.install) return nullptr;
    const auto found = w_.machines.find(MachineId{parts.machine_id});
    return found != w_.machines.end() && found->second.row.provider == from ? &found->second : nullptr;
}

void Step::listing_failed(LiveProvider& from, const Error& error) {
    from.listing_failures += 1;
    from.listing_next = now_ + std::max({backoff(from.listing_failures), error.retry_after.value_or(Millis{0})});
    // Being asked to slow down says nothing about the machines, once or twice. Everything else, and nothing but that for long,
    // means that we cannot see them, and what cannot be seen must not be added to.
    if (error.kind == ErrorKind::rate_limited) {
        constexpr int kSlowDownsMost = 5;
        constexpr int kSweepsMost = 10;
        const bool old = from.listing_at && now_ - std::max(*from.listing_at, w_.observations_from) > kSweepsMost * w_.settings.sweep;
        if (from.listing_failures < kSlowDownsMost && !old) return;
    }
    from.listing_error = error.kind == ErrorKind::unavailable ? "listing_unavailable" : std::string(text(error.kind));
    const bool told_at_once = error.kind != ErrorKind::unavailable;  // or has gone on for long
    if (told_at_once || from.listing_failures >= 3)
        alert("provider_degraded", "warning", "listing_failed/" + from.name.get(),
              from.name.get() + ": the list of machines is unknown (" + error.message +
                  "); no launches there, running jobs and destroys go on",
              nullptr, from.name);
}

bool Step::may_have_moved(const LiveMachine& machine, const ProviderMachineId& to, const Listing& listing) {
    const MachineRecord& row = machine.row;
    if (machine.not_moved == to || row.state == MachineState::gone || row.state == MachineState::requested ||
        row.state == MachineState::unknown)
        return false;
    return std::ranges::none_of(listing.machines, [&](const auto& m) { return m.id == row.provider_id; });
}

bool Step::compare_listing(LiveProvider& from, const ListingSeen& e, bool& alone) {
    bool trusted = true;
    alone = true;
    for (auto& [id, machine] : w_.machines) {
        const MachineRecord& row = machine.row;
        if (row.provider != from.name || row.provider_id.empty() || !row.read_alive) continue;
        if (row.state == MachineState::gone) continue;
        const bool listed = std::ranges::any_of(e.result->machines, [&](const auto& m) { return m.id == row.provider_id; });
        if (row.state == MachineState::destroying) {
            // It may be gone at last: that need not wait for its next turn after calls that failed.
            if (!listed && machine.listed) call_read(machine);
            continue;
        }
        if (listed) {
            alone = false;
            machine.missed = false;
            continue;
        }
        trusted = false;
        // New machines may lag; others are asked for by id, which decides about them and about the listing. One that was listed
        // once does not lag any more, but it may still flicker, which says nothing of the listing.
        const bool settled = e.began - row.call_ended.value_or(row.created_at) >= settle_time(w_.settings, from.name);
        if (settled) machine.missed = true;
        if (settled || machine.listed) call_read(machine);
    }
    return trusted;
}

void Step::resolve_unknown(LiveMachine& machine, Instant began, bool trusted, bool alone) {
    const Instant from = std::max(machine.row.call_ended.value_or(machine.row.created_at), w_.observations_from);
    // Whose agent speaks to us exists, whatever listings say. A connection alone may be all that is left of it.
    const bool speaks = machine.connected && now_ - machine.last_heard <= w_.settings.silence;
    if (!trusted || began <= from || speaks) return;
    machine.row.absences += 1;
    const Millis settle = alone ? std::max(w_.settings.settle_alone, settle_time(w_.settings, machine.row.provider))
                                : settle_time(w_.settings, machine.row.provider);
    if (machine.row.absences < 2 || began - from < settle) {
        save(machine);
        return;
    }
    // Absent twice, long enough after the call: it was never made. Should it turn up all the same, it is destroyed.
    LiveTask* task = holds_current(machine) ? task_of(machine) : nullptr;
    machine.row.watch = true;
    if (machine.row.read_alive && machine.row.seen_at && !machine.ledger) {
        // Its agent was heard, its provider never showed it: it has cost at least this.
        const Instant began_at = machine.row.call_began.value_or(machine.row.created_at);
        open_ledger(machine, began_at, machine.row.offer.gpu_rate, disk_rate(machine.row), false);
        close_ledger(machine, std::max(began_at, *machine.row.seen_at));
    }
    release(machine);
    move(machine, MachineState::gone, "never_appeared");
    close_tunnel(machine);
    cool(machine.row.offer, "never_appeared", false);
    if (task) give_back(*task, "never_appeared", "the create call had no clear answer and no machine came of it");
}

LiveMachine& Step::found_machine(const ProviderMachine& seen, LiveProvider& from, MachineRecord row) {
    row.provider = from.name;
    row.provider_id = seen.id;
    row.read_alive = true;
    row.seen_at = now_;
    row.task = TaskId{};
    row.attempt = 0;
    row.offer.provider = from.name;
    row.offer.spot = seen.spot;
    row.offer.gpu_count = seen.gpu_count.value_or(0);
    if (seen.gpu) row.offer.gpu = *seen.gpu;
    row.offer.region = seen.region;
    row.offer.host_id = seen.host_id;
    row.offer.data_center = seen.data_center;
    // Steps of a bill are the provider's, not the offer's.
    if (!from.offers.empty()) {
        row.offer.billing_step = from.offers.front().billing_step;
        row.offer.billing_minimum = from.offers.front().billing_minimum;
    }
    if (seen.gpu_rate) row.offer.gpu_rate = *seen.gpu_rate;
    auto& machine = w_.machines[row.id];
    machine.row = std::move(row);
    machine.last_heard = now_;
    machine.next_call = now_;
    return machine;
}

namespace {

std::string described(const LiveMachine& machine, const ProviderMachine& seen) {
    return machine.row.provider.get() + " machine " + seen.id.get() + " (" + machine.row.tag.get() + ") carries our tag at " +
           (seen.gpu_rate ? "$" + dollars(*seen.gpu_rate + seen.disk_rate.value_or(UsdPerHour{})) + "/h" : "an unknown rate");
}

}  // namespace

void Step::back_from_gone(const ProviderMachine& seen, LiveProvider& from, MachineRecord row) {
    // Its earlier intervals are closed in the store. It has billed on since it was taken for gone, under a number above all of
    // them: one per second of its life is more than it can have had.
    const Instant gone_at = row.gone_at.value_or(now_);
    row.gone_at.reset();
    row.destroy_since = now_;
    auto& machine = found_machine(seen, from, std::move(row));
    machine.ledger = LedgerRecord{.machine = machine.row.id,
                                  .number = static_cast<int>((now_ - machine.row.created_at).count() / 1000 + 2),
                                  .job = machine.row.job, .project = {}, .provider = from.name, .from = gone_at,
                                  .until = {}, .gpu_rate = seen.gpu_rate.value_or(machine.row.offer.gpu_rate),
                                  .disk_rate = seen.disk_rate.value_or(UsdPerHour{0}), .rate_known = seen.gpu_rate.has_value()};
    out_.rows.push_back(PutLedger{*machine.ledger});
    const bool adopted = w_.settings.orphans == OrphanPolicy::adopt;
    if (adopted) move(machine, MachineState::booting, "adopted");
    else move(machine, MachineState::destroying, "orphan");
    if (adopted) reserve_rolling(machine);
    alert("orphan_found", "warning", "orphan/" + machine.row.id.get(),
          described(machine, seen) + " and was taken for gone; it " + (adopted ? "was adopted" : "is being destroyed"), &machine);
    if (!adopted) drive_destroy(machine);
}

void Step::twin(const ProviderMachine& seen, LiveProvider& from, const std::string& tag) {
    // The committed id is kept, this one goes. It gets a row of its own so that its destruction is driven to the end like any
    // other.
    MachineRecord row;
    row.id = MachineId{w_.ids.make("mch_", now_)};
    row.tag = MachineTag{tag + "#" + row.id.get()};  // a twin that comes back has another row
    row.state = MachineState::unknown;
    row.reason = "duplicate_tag";
    row.created_at = seen.created_at.value_or(now_);
    row.call_ended = now_;
    auto& machine = found_machine(seen, from, std::move(row));
    out_.rows.push_back(PutMachine{machine.row, std::nullopt});
    rate_seen(machine, seen, now_);
    alert("orphan_found", "warning", "orphan/" + machine.row.id.get(),
          described(machine, seen) + ", but is the second machine under it; it is being destroyed", &machine);
    destroy(machine, "duplicate_tag");
}

void Step::orphan(const ProviderMachine& seen, LiveProvider& from, MachineRecord row) {
    // A machine's row is committed before the machine is asked for. One that is newer than all that this store has ever looked
    // at there was made by another life of it: the store is new, was rolled back, or was copied.
    const bool other_life = !from.listed_before || id_millis(row.id.get()) > unix_millis(*from.listed_before);
    const OrphanPolicy policy = other_life ? OrphanPolicy::report : w_.settings.orphans;
    row.state = MachineState::unknown;
    row.reason = "orphan";
    row.created_at = seen.created_at.value_or(now_);
    row.call_ended = now_;
    auto& machine = found_machine(seen, from, std::move(row));
    const std::string what = described(machine, seen) + " and is not in the store";
    out_.rows.push_back(PutMachine{machine.row, std::nullopt});
    history({.at = now_, .kind = "machine_state", .machine = machine.row.id, .state = "unknown", .reason = "orphan", .detail = what});
    rate_seen(machine, seen, now_);
    const std::string machine_id = machine.row.id.get();
    if (policy == OrphanPolicy::destroy) {
        alert("orphan_found", "warning", "orphan/" + machine_id, what + "; it is being destroyed", &machine);
        destroy(machine, "orphan");
    } else if (policy == OrphanPolicy::adopt) {
        alert("orphan_found", "warning", "orphan/" + machine_id, what + "; it was adopted", &machine);
        move(machine, MachineState::booting, "adopted");
        reserve_rolling(machine);
    } else {
        alert("orphan_found", "critical", "orphan/" + machine_id,
              what + (other_life ? "; the store is new, was rolled back or copied, so nothing is destroyed" : "") +
                  ". Say `gpuferry machines destroy " + machine_id + "` or `gpuferry machines adopt " + machine_id + "`",
              &machine);
    }
}

void Step::unlisted_row(const ProviderMachine& seen, LiveProvider& from, Instant began, const StoredRows& rows) {
    const std::string& tag = own_tag(w_.settings, seen);
    if (!ours(w_.settings, tag)) return;  // somebody else's: never touched
    const MachineId id{parse_machine_tag(tag).machine_id};
    if (w_.machines.contains(id)) {
        // Listings lag behind the end of a twin as they do behind any other.
        const auto ended = w_.ended_twins.find(from.name.get() + "/" + seen.id.get());
        if (ended != w_.ended_twins.end() && began < ended->second + settle_time(w_.settings, from.name)) return;
        if (seen.presence == Presence::gone) return;
        return twin(seen, from, tag);
    }
    for (const MachineRecord& stored : rows.machines)
        if (stored.id == id) {
            // Listings lag behind a destruction that a read has confirmed, and answers come late.
            const bool lag = seen.presence == Presence::gone ||
                             began < stored.gone_at.value_or(now_) + settle_time(w_.settings, from.name);
            if (stored.state == MachineState::gone && stored.provider_id == seen.id && lag) return;
            return back_from_gone(seen, from, stored);
        }
    MachineRecord found;
    found.id = id;
    found.tag = MachineTag{tag};
    orphan(seen, from, std::move(found));
}

void Step::on(const ListingSeen& e, const StoredRows& rows) {
    LiveProvider* from = provider(e.provider);
    if (!from) return;
    told_at_ = std::min(now_, e.ended);
    from->listing_call.reset();
    from->listing_asked_once = true;
    if (!e.result) return listing_failed(*from, e.result.error());
    from->listing_failures = 0;
    if (!from->listing_error.empty() || !from->listing_at) w_.queue_dirty = true;
    from->listing_error.clear();
    from->listing_at = e.began;
    clear_alert("listing_failed/" + from->name.get());

    bool alone = true;
    const bool drifted = !e.result->drift.empty();
    take_drift(*from, from->listing_drift, e.result->drift, true);
    // What an answer of an odd shape leaves out proves nothing; what it shows is there.
    const bool trusted = compare_listing(*from, e, alone) && !drifted;
    if (trusted) {
        // The alert may be an earlier process's, whose doubt is not known any more.
        clear_alert("listing/" + from->name.get());
        if (std::exchange(from->not_trusted, false)) w_.queue_dirty = true;
    }
    std::set<MachineId> seen_rows;
    for (const ProviderMachine& told : e.result->machines) {
        const ProviderMachine seen = drifted ? without_money(told) : told;
        LiveMachine* machine = live_match(seen, from->name);
        if (!machine || (!machine->row.provider_id.empty() && machine->row.provider_id != seen.id)) {
            if (machine && may_have_moved(*machine, seen.id, *e.result)) {
                // Either it was moved under a new id, or it is a second machine and the listing lacks the first: a read of
                // the id that we know tells which.
                machine->moved_to = seen.id;
                machine->moved_at = e.began;
                call_read(*machine);
                continue;
            }
            unlisted_row(seen, *from, e.began, rows);
            continue;
        }
        seen_rows.insert(machine->row.id);
        machine->listed = true;
        // Listed under its own id, it was not moved, whatever an earlier listing left out.
        if (machine->moved_at && e.began >= *machine->moved_at) {
            machine->moved_to = ProviderMachineId{};
            machine->moved_at.reset();
        }
        if (machine->row.state == MachineState::unknown && machine->row.reason != "orphan") {
            adopt(*machine, seen.id, "found_by_tag");
            rate_seen(*machine, seen, told_at_);
        }
        if (e.began > machine->row.call_ended.value_or(machine->row.created_at) || machine->row.state == MachineState::gone)
            observe(*machine, seen, e.began, false);
    }
    std::vector<MachineId> unknown;
    for (const auto& [id, machine] : w_.machines)
        if (machine.row.provider == from->name && machine.row.state == MachineState::unknown &&
            machine.row.provider_id.empty() && !seen_rows.contains(id))
            unknown.push_back(id);
    for (const MachineId& id : unknown) resolve_unknown(w_.machines.at(id), e.began, trusted, alone);
    from->listed_before = e.began;
    if (from->listed_saved && e.began - *from->listed_saved < Seconds{60}) return;
    from->listed_saved = e.began;
    out_.rows.push_back(PutMeta{kListedPrefix + from->name.get(), std::to_string(unix_millis(e.began))});
}

}  // namespace gf
