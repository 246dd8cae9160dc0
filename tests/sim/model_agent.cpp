// The agents of the simulation: they enrol, keep their messages until acknowledged, run attempts, offer checkpoints and
// outputs, and obey fencing, as the real one does.
#include <algorithm>

#include "tests/sim/simulation.hpp"

namespace gf::sim {
namespace ap = agent_protocol;

void Simulation::say(Agent& agent, ap::FromAgentBody body, bool keep) {
    ap::FromAgent message{.boot_id = agent.boot, .seq = 0, .body = std::move(body)};
    if (keep) {
        message.seq = ++agent.seq;
        agent.unacked[message.seq] = message.body;
    }
    if (agent.connected) deliver(AgentSaid{agent.id, std::move(message)});
}

void Simulation::close_agent(const MachineId& id) {
    for (auto& [pid, agent] : agents_)
        if (agent.id == id) agent.connected = false;
}

void Simulation::agents() {
    for (auto& p : providers_)
        for (auto& [id, m] : p->machines()) {
            if (m.presence != Presence::running || m.boots == 0) {
                if (const auto found = agents_.find(id); found != agents_.end()) {
                    Agent& off = found->second;
                    if (off.connected) deliver(AgentDisconnected{off.id, off.boot});
                    off.connected = false;
                    if (m.presence == Presence::gone) agents_.erase(found);
                }
                continue;
            }
            const std::string boot = id + "-" + std::to_string(m.boots);
            Agent& agent = agents_[id];
            if (agent.boot != boot) {
                // The disk outlives a restart: a snapshot that was not sent yet is offered by the next boot.
                Agent fresh;
                if (agent.lease && agent.lease->checkpoint.declared && agent.state == "running") {
                    fresh.left_lease = agent.lease;
                    fresh.left_manifest = agent.lease->attempt + "-left";
                    fresh.left_step = agent.step;
                }
                agent = std::move(fresh);
                agent.machine = id;
                agent.id = MachineId{parse_machine_tag(m.tag).machine_id};
                agent.boot = boot;
                agent.next = now_ + Seconds{static_cast<std::int64_t>(1 + rng_.below(10))};
            }
            drive(agent, m);
        }
}

void Simulation::drive(Agent& agent, ModelMachine& machine) {
    if (now_ < agent.next) return;
    if (!agent.connected && core_ && now_ >= agent.partitioned_until && !agent.drained) {
        // The gateway's admission: only a machine whose row is live and not on its way out.
        const auto row = core_->world().machines.find(agent.id);
        if (row != core_->world().machines.end() && row->second.row.state != MachineState::destroying &&
            row->second.row.state != MachineState::gone) {
            agent.connected = true;
            deliver(AgentConnected{agent.id, agent.boot});
            if (!core_ || !agent.connected) return;
            ap::Hello hello;
            hello.report.workspace = "/workspace";
            hello.report.arch = "amd64";
            hello.report.gpus.assign(static_cast<std::size_t>(machine.gpus),
                                     {"NVIDIA GeForce RTX 4090", 24564 * kMiB, "560.35", "GPU-1"});
            hello.report.cuda_probe = machine.gpus > 0 ? "ok" : "no_libcuda";
            hello.report.cuda_devices = machine.gpus;
            hello.report.disk_free = 100 * kGB;
            if (agent.lease && !agent.fenced) {
                hello.attempt = agent.lease->attempt;
                hello.attempt_number = agent.lease->number;
                hello.attempt_state = agent.state;
            }
            say(agent, hello, false);
            if (agent.left_lease && agent.connected) {
                const auto lease = *agent.left_lease;
                agent.left_lease.reset();
                offer_checkpoint(agent, lease, agent.left_manifest, agent.left_step);
                if (!core_ || !agent.connected) return;
            }
            const auto again = agent.unacked;
            for (const auto& [seq, body] : again)
                if (agent.connected) deliver(AgentSaid{agent.id, ap::FromAgent{agent.boot, seq, body}});
        } else {
            agent.next = now_ + Seconds{5};
        }
    }
    if (agent.connected && unix_millis(now_) / 1000 % 10 == 0) say(agent, ap::Heartbeat{}, false);
    if (!agent.lease || agent.fenced) return;
    if (agent.state == "preparing" && now_ >= agent.phase_ends) {
        agent.state = "running";
        agent.worked_to = now_;
        agent.next_checkpoint = now_ + Millis{agent.lease->checkpoint_every_ms};
        say(agent, ap::Started{.attempt = agent.lease->attempt, .pid = 1, .restored_generation = agent.lease->generation}, true);
    }
    if (agent.state != "running") return;
    const auto user = jobs_.find(JobId{agent.lease->job});
    agent.step += (now_ - agent.worked_to).count() / 1000;
    agent.worked_to = now_;
    if (user == jobs_.end()) return;
    const UserJob& job = user->second;
    agent.step = std::min(agent.step, job.work_s);
    if (agent.stop_asked && now_ >= agent.phase_ends) return exit_agent(agent, std::nullopt, "stopped");
    if (job.errs && agent.step > job.work_s / 2 && !agent.stop_asked) return exit_agent(agent, 1, "");
    if (job.spec->checkpoint.declared && now_ >= agent.next_checkpoint && agent.connected) {
        agent.next_checkpoint = now_ + Millis{agent.lease->checkpoint_every_ms};
        if (agent.open_manifest.empty()) {
            agent.open_manifest = agent.lease->attempt + "-m" + std::to_string(++agent.manifests);
            agent.open_step = agent.step;
        }
        offer_checkpoint(agent, *agent.lease, agent.open_manifest, agent.open_step);
    }
    if (agent.step >= job.work_s && agent.connected && !agent.stop_asked) {
        // Outputs are accepted before the exit is told; a refusal means that the right to write is gone.
        const RequestId request = next_request_++;
        waiting_[request] = [this, machine = agent.machine, boot = agent.boot, attempt = agent.lease->attempt,
                             number = agent.lease->number, job_id = JobId{agent.lease->job}](const ApiResult& result) {
            const auto found = agents_.find(machine);
            if (result.status == 409) refused(job_id, number);
            if (result.status == 200) {
                UserJob& done = jobs_.at(job_id);
                accepted(job_id, number, "an output");
                if (number < done.accepted_outputs_attempt) violated("P2", "an older attempt's output was accepted");
                done.accepted_outputs_attempt = number;
            }
            if (found == agents_.end() || found->second.boot != boot || !found->second.lease ||
                found->second.lease->attempt != attempt || found->second.state != "running")
                return;
            if (result.status == 200) exit_agent(found->second, 0, "");
            else if (result.status == 409) found->second.fenced = true;
        };
        agent.next = now_ + Seconds{3};
        deliver(OutputOffered{request, agent.id, AttemptId{agent.lease->attempt}, "out", Bytes{1}, 1});
    }
}

void Simulation::offer_checkpoint(Agent& agent, const ap::Lease& lease, const std::string& manifest, std::int64_t step) {
    const RequestId request = next_request_++;
    waiting_[request] = [this, machine = agent.machine, boot = agent.boot, number = lease.number, manifest,
                         job_id = JobId{lease.job}](const ApiResult& result) {
        UserJob& job = jobs_.at(job_id);
        const auto found = agents_.find(machine);
        if (result.status == 200) {
            ++report_.checkpoints;
            accepted(job_id, number, "a checkpoint");
            if (number < job.highest_attempt)
                violated("P2", "a checkpoint of attempt " + std::to_string(number) + " was committed while attempt " +
                                   std::to_string(job.highest_attempt) + " exists");
        }
        if (result.status == 409) refused(job_id, number);
        if (found == agents_.end() || found->second.boot != boot) return;
        if (result.status == 200 && found->second.open_manifest == manifest) found->second.open_manifest.clear();
        if (result.status == 409 && found->second.lease && found->second.lease->number == number) found->second.fenced = true;
    };
    // The upload takes its time: what was current when it began may be fenced when it arrives.
    later(Millis{static_cast<std::int64_t>(50 + rng_.below(20'000))},
          [this, request, id = agent.id, attempt = AttemptId{lease.attempt}, manifest, step, epoch = epoch_,
           machine = agent.machine, boot = agent.boot] {
              // An upload ends with the container that sends it.
              const auto sender = agents_.find(machine);
              if (sender == agents_.end() || sender->second.boot != boot) return;
              if (epoch == epoch_) deliver(CheckpointOffered{request, id, attempt, manifest, step, Bytes{1'000'000}});
          });
}

void Simulation::look_for_doubles() {
    if (report_.doubled > 0) return;
    std::set<std::string> held;
    for (const auto& [pid, agent] : agents_) {
        const bool believes = agent.lease && !agent.fenced && (agent.state == "preparing" || agent.state == "running");
        if (believes && !held.insert(agent.lease->job).second) report_.doubled = 1;
    }
}

void Simulation::accepted(const JobId& job, std::int64_t number, std::string_view what) {
    const UserJob& of = jobs_.at(job);
    if (number < of.highest_leased)
        violated("P2", std::string(what) + " of attempt " + std::to_string(number) + " was accepted after an agent was handed attempt " +
                           std::to_string(of.highest_leased));
}

void Simulation::refused(const JobId& job, std::int64_t number) {
    if (number < jobs_.at(job).highest_leased) ++report_.fenced;
}

void Simulation::exit_agent(Agent& agent, std::optional<int> code, std::string reason) {
    agent.state = "exited";
    ap::Exited m;
    m.attempt = agent.lease->attempt;
    m.exit_code = code;
    if (!code) m.signal = 15;
    m.reason = std::move(reason);
    say(agent, m, true);
}

void Simulation::agent_gets_lease(Agent& agent, const ap::Lease& lease) {
    if (agent.lease && agent.lease->attempt == lease.attempt) return;  // the same lease again changes nothing
    UserJob& job = jobs_.at(JobId{lease.job});
    if (lease.number < job.highest_leased)
        violated("P2", "attempt " + std::to_string(lease.number) + " was handed out after attempt " + std::to_string(job.highest_leased));
    for (const auto& [pid, other] : agents_)
        if (&other != &agent && other.lease && other.lease->job == lease.job && other.lease->number == lease.number)
            violated("P2", "two agents were handed attempt " + std::to_string(lease.number));
    job.highest_leased = lease.number;
    if (lease.generation != job.committed_generation)
        violated("P3", "leased from generation " + std::to_string(lease.generation) + ", newest committed is " +
                           std::to_string(job.committed_generation));
    if (lease.step != job.committed_step)
        violated("P3", "leased from step " + std::to_string(lease.step) + ", committed is " + std::to_string(job.committed_step));
    agent.lease = lease;
    agent.fenced = false;
    agent.stop_asked = false;
    agent.output_sent = false;
    agent.open_manifest.clear();
    agent.step = lease.step;
    agent.state = "preparing";
    agent.phase_ends = now_ + Seconds{static_cast<std::int64_t>(1 + rng_.below(30))};
}

void Simulation::agent_hears(const MachineId& id, const ap::ToAgent& message) {
    for (auto& [pid, agent] : agents_) {
        if (agent.id != id || !agent.connected) continue;
        if (const auto* lease = std::get_if<ap::Lease>(&message)) {
            agent_gets_lease(agent, *lease);
        } else if (const auto* ack = std::get_if<ap::Ack>(&message)) {
            std::erase_if(agent.unacked, [&](const auto& entry) { return entry.first <= ack->seq; });
        } else if (const auto* stop = std::get_if<ap::Stop>(&message)) {
            if (!agent.lease || agent.lease->attempt != stop->attempt || agent.state == "exited" || agent.stop_asked) return;
            agent.stop_asked = true;
            if (agent.state == "preparing") return exit_agent(agent, std::nullopt, "stopped");
            agent.phase_ends = now_ + Seconds{static_cast<std::int64_t>(rng_.below(25))};
        } else if (std::holds_alternative<ap::Drain>(message)) {
            agent.drained = true;
            agent.fenced = true;
        }
        return;
    }
}

}  // namespace gf::sim
