// Machines that are reached through an ssh tunnel because they cannot reach us. The core says to which of them there shall be one
// and tells people how it goes; a tunnel that is down is no loss of its machine, whatever the reason: the agent's own words and
// the provider decide that, as for every other machine.
#include <nlohmann/json.hpp>

#include "daemon/orchestrator/step.hpp"

namespace gf {
namespace {

/// "sshd_not_up: root@203.0.113.5:22: Connection refused" (daemon/ssh/tunnels.hpp) in its two parts.
std::pair<std::string, std::string> parts_of(const std::string& news) {
    const auto colon = news.find(": ");
    if (colon == std::string::npos) return {news, {}};
    return {news.substr(0, colon), news.substr(colon + 2)};
}

/// Whether to go there now. A provider's word that we do not understand ("unhealthy") or that it does not give at the moment is no
/// reason not to look after a machine that has worked; a new one is given time to boot.
bool may_be_reached(MachineState state, Presence presence) {
    const bool runs = presence == Presence::running;
    switch (state) {
        case MachineState::booting:
            return runs;
        case MachineState::ready:
        case MachineState::busy:
        case MachineState::draining:
            return runs || presence == Presence::unknown;
        case MachineState::requested:
        case MachineState::unknown:
        case MachineState::interrupted:
        case MachineState::lost:
        case MachineState::destroying:
        case MachineState::gone:
            return false;
    }
    return false;
}

std::string host_key_alert(const MachineId& machine) { return "ssh_host_key/" + machine.get(); }

}  // namespace

void Step::look_for_tunnel(LiveMachine& machine, const ProviderMachine& seen) {
    const LiveProvider* from = provider(machine.row.provider);
    if (!from || !from->capabilities.ssh) return;
    // A machine that comes back may come back elsewhere.
    if (seen.presence == Presence::stopped) machine.tunnel_to.reset();
    if (!seen.ssh || machine.tunnel_to == seen.ssh || !may_be_reached(machine.row.state, seen.presence)) return;
    machine.tunnel_to = seen.ssh;
    effect(OpenTunnel{machine.row.id, machine.row.provider, *seen.ssh});
}

void Step::close_tunnel(LiveMachine& machine) {
    const LiveProvider* from = provider(machine.row.provider);
    if (!from || !from->capabilities.ssh) return;
    machine.tunnel_to.reset();
    clear_alert(host_key_alert(machine.row.id));
    effect(CloseTunnel{machine.row.id});
}

void Step::on(const TunnelChanged& e, const StoredRows&) {
    const auto found = w_.machines.find(e.machine);
    if (found == w_.machines.end()) return;
    LiveMachine& machine = found->second;
    if (machine.row.state == MachineState::destroying || machine.row.state == MachineState::gone) return;
    const auto [reason, detail] = parts_of(e.detail);
    auto shown = nlohmann::json::parse(machine.row.agent_detail, nullptr, false);
    if (!shown.is_object()) shown = nlohmann::json::object();
    const nlohmann::json news = {{"up", e.up}, {"reason", reason}, {"detail", detail}};
    if (reason == "too_many") {
        // Nothing was begun, so nothing tries again by itself: the next listing asks anew. People are told once.
        machine.tunnel_to.reset();
        if (shown.contains("tunnel") && shown["tunnel"] == news) return;
    }
    machine.tunnel_trouble = e.up && reason == "up" ? std::string() : "ssh tunnel: " + detail;
    history({.at = now_, .kind = "tunnel", .job = machine.row.job, .task = machine.row.task, .attempt = machine.row.attempt,
             .machine = machine.row.id, .state = e.up ? "up" : "down", .reason = reason, .detail = detail});
    shown["tunnel"] = news;
    machine.row.agent_detail = shown.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    save(machine);
    if (reason == "host_key_changed")
        alert("host_key_changed", "critical", host_key_alert(machine.row.id),
              machine.row.provider.get() + " machine " + machine.row.provider_id.get() + ": " + detail +
                  ". It counts as unreachable; nothing is sent to it until its own key is shown again",
              &machine);
    else if (e.up)
        clear_alert(host_key_alert(machine.row.id));
}

}  // namespace gf
