#include "tests/sim/told.hpp"

namespace gf::sim {
namespace {

template <class... Ts>
struct overloaded : Ts... {
    using Ts::operator()...;
};

std::string ms(std::optional<Instant> at) { return at ? std::to_string(unix_millis(*at)) : "-"; }
template <class T>
std::string outcome(const Result<T>& result) { return result ? "ok" : std::string(text(result.error().kind)); }

}  // namespace

std::string told(const Event& event) {
    return std::visit(
        overloaded{
            [](const SubmitJob& e) { return "submit " + e.spec_text + " key=" + e.idempotency_key; },
            [](const CommandJob& e) { return "command " + std::string(text(e.verb)) + " " + e.job.get(); },
            [](const CommandMachine& e) { return "command machine " + e.machine.get(); },
            [](const PutTokenCommand& e) { return "token " + e.token.id.get(); },
            [](const PutSecretCommand& e) { return "secret " + e.secret.name; },
            [](const DropSecretCommand& e) { return "drop secret " + e.name; },
            [](const BidRaised& e) { return "bid raised " + e.machine.get() + " " + outcome(e.result); },
            [](const TunnelChanged& e) { return "tunnel of " + e.machine.get() + (e.up ? " up" : " down"); },
            [](const OffersSeen& e) { return "offers " + e.provider.get() + " " + outcome(e.result); },
            [](const ListingSeen& e) {
                std::string line = "listing " + e.provider.get() + " " + outcome(e.result);
                if (e.result)
                    for (const auto& m : e.result->machines) line += " " + m.id.get() + "=" + m.raw_state;
                return line;
            },
            [](const BalanceSeen& e) { return "balance " + e.provider.get(); },
            [](const LaunchEnded& e) {
                return "launch ended " + e.machine.get() + " id=" + e.outcome.id.get() +
                       (e.outcome.error ? " " + std::string(text(e.outcome.error->kind)) : "");
            },
            [](const ReadEnded& e) {
                return "read ended " + e.machine.get() + " " + outcome(e.result) + (e.result ? " " + e.result->raw_state : "");
            },
            [](const DestroyEnded& e) { return "destroy ended " + e.machine.get() + " " + outcome(e.result); },
            [](const AgentSaid& e) {
                return "agent of " + e.machine.get() + " says " + std::to_string(e.message.body.index()) + " seq " +
                       std::to_string(e.message.seq);
            },
            [](const AgentConnected& e) { return "agent connected " + e.machine.get() + " " + e.boot_id; },
            [](const AgentDisconnected& e) { return "agent disconnected " + e.machine.get() + " " + e.boot_id; },
            [](const CheckpointOffered& e) { return "checkpoint offered " + e.machine.get() + " " + e.manifest_sha256; },
            [](const OutputOffered& e) { return "output offered " + e.machine.get(); },
            [](const CheckpointBroken& e) { return "checkpoint broken " + e.machine.get(); },
            [](const Tick&) { return std::string("tick"); },
            [](const ClockJumped& e) { return "clock jumped: " + e.why; },
            [](const QueuePage& e) {
                std::string line = "queue page";
                for (const auto& item : e.items) line += " " + item.row.job.id.get();
                return line;
            },
        },
        event);
}

std::string told(const RowChange& row) {
    return std::visit(
        overloaded{
            [](const PutJob& c) {
                return "job " + c.row.id.get() + " " + std::string(text(c.row.state)) + " " + c.row.reason + ": " + c.row.detail +
                       " attempts=" + std::to_string(c.row.attempts);
            },
            [](const PutTask& c) {
                return "task " + c.row.id.get() + " " + std::string(text(c.row.state)) + " " + c.row.reason + " attempt=" +
                       std::to_string(c.row.attempt) + " generation=" + std::to_string(c.row.generation) + " not before " +
                       ms(c.row.not_before);
            },
            [](const PutAttempt& c) {
                return "attempt " + std::to_string(c.row.number) + " of " + c.row.task.get() + " " + std::string(text(c.row.state)) +
                       (c.row.cause ? " " + std::string(text(*c.row.cause)) : "") + " on " + c.row.machine.get() + ": " + c.row.detail;
            },
            [](const PutMachine& c) {
                return "machine " + c.row.id.get() + " " + std::string(text(c.row.state)) + " " + c.row.reason + " id=" +
                       c.row.provider_id.get() + " offer=" + c.row.offer.id + " call=" + std::string(text(c.row.call)) + "/" +
                       std::to_string(c.row.call_seq);
            },
            [](const PutReservation& c) {
                return "reservation " + c.row.machine.get() + " " + std::to_string(c.row.amount.micros) + " until " + ms(c.row.until) +
                       " released " + ms(c.row.released_at);
            },
            [](const PutLedger& c) {
                return "ledger " + c.row.machine.get() + "/" + std::to_string(c.row.number) + " " + ms(c.row.from) + ".." +
                       ms(c.row.until) + " at " + std::to_string(c.row.gpu_rate.micros + c.row.disk_rate.micros);
            },
            [](const PutCheckpoint& c) { return "checkpoint " + std::to_string(c.row.generation) + " of " + c.row.task.get(); },
            [](const SetCheckpointState& c) { return "checkpoint state " + std::to_string(c.generation) + " of " + c.task.get(); },
            [](const PruneCheckpoints& c) { return "prune checkpoints of " + c.task.get(); },
            [](const PutOutput& c) { return "output of " + c.row.task.get(); },
            [](const AddEvent& c) { return "event " + c.row.kind + " " + c.row.state + " " + c.row.reason; },
            [](const PutAlert& c) { return "alert " + c.row.kind + " " + c.row.dedupe + (c.row.cleared_at ? " cleared" : ""); },
            [](const AddIdempotency& c) { return "key " + c.row.key; },
            [](const PutDecision& c) { return "decision for " + c.row.job.get() + " " + c.row.json.substr(0, 300); },
            [](const PutToken& c) { return "token " + c.row.id.get(); },
            [](const PutMeta& c) { return "meta " + c.key + "=" + c.value; },
            [](const PutHostMark& c) { return "host " + c.row.key + " " + c.row.last; },
            [](const DropHostMark& c) { return "host " + c.key + " forgotten"; },
            [](const PutLearned& c) { return "learned " + c.row.kind + " " + c.row.key + "=" + c.row.value; },
            [](const DropLearned& c) { return "unlearned " + c.kind + " " + c.key; },
            [](const PutSecret& c) { return "secret " + c.row.name; },
            [](const DropSecret& c) { return "secret " + c.name + " dropped"; },
        },
        row);
}

std::string told(const Effect& effect) {
    return std::visit(
        overloaded{
            [](const Reply& e) { return "reply " + std::to_string(e.to) + " " + std::to_string(e.result.status); },
            [](const CallOffers& e) { return "ask offers of " + e.provider.get(); },
            [](const CallList& e) { return "ask list of " + e.provider.get(); },
            [](const CallBalance& e) { return "ask balance of " + e.provider.get(); },
            [](const CallLaunch& e) { return "launch " + e.machine.get() + " " + e.request.offer.id; },
            [](const CallRead& e) { return "read " + e.machine.get() + " " + e.id.get(); },
            [](const CallDestroy& e) { return "destroy " + e.machine.get() + " " + e.id.get(); },
            [](const CallRaiseBid& e) { return "raise bid of " + e.machine.get() + " to " + std::to_string(e.bid.micros); },
            [](const CallTidy& e) { return "tidy " + e.provider.get(); },
            [](const OpenTunnel& e) { return "open tunnel to " + e.machine.get(); },
            [](const CloseTunnel& e) { return "close tunnel to " + e.machine.get(); },
            [](const SendToAgent& e) { return "tell agent of " + e.machine.get() + " " + std::to_string(e.message.index()); },
            [](const CloseAgent& e) { return "close agent of " + e.machine.get(); },
            [](const ReadQueue& e) { return "read queue after " + std::to_string(e.after.priority) + " " + e.after.project.value_or(""); },
            [](const Note& e) { return "note " + e.text; },
        },
        effect);
}

}  // namespace gf::sim
