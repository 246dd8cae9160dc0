// The core on a bench: real store in memory, a clock moved by hand, provider answers and agent words typed in by the test.
#pragma once
#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "daemon/batch.hpp"
#include "daemon/orchestrator/orchestrator.hpp"

namespace gf {

class CoreBench {
 public:
    explicit CoreBench(CoreSettings settings = default_settings()) : settings_(std::move(settings)) {
        auto opened = open_sqlite_store(":memory:");
        REQUIRE(opened.has_value());
        store = std::move(*opened);
        restart();
    }

    static CoreSettings default_settings() {
        CoreSettings s;
        s.install = "benchbnh";
        s.reached_providers = {"cloud", "market", "paced"};
        s.settle = {{"cloud", Seconds{60}}, {"market", Seconds{90}}, {"local", Seconds{1}}};
        return s;
    }

    /// Kills the process and starts it again on the same store; `readable` = the stored specs still parse.
    void restart(bool readable = true) {
        auto live = store->load_live();
        REQUIRE(live.has_value());
        std::map<JobId, std::shared_ptr<const JobSpec>> specs;
        for (const auto& job : live->jobs) specs[job.id] = readable ? specs_[job.spec] : nullptr;
        core = std::make_unique<Orchestrator>(
            settings_,
            std::vector<Orchestrator::ProviderInfo>{{ProviderName{"cloud"}, cloud_can},
                                                    {ProviderName{"market"}, market_can}},
            7, *live, specs, now);
        calls.clear();
        sent.clear();
        replies.clear();
    }

    /// Applies, commits, and keeps the effects apart by kind. ReadQueue is answered at once, like the runtime does.
    void apply(Event event) {
        auto rows = read_stored(store->reader(), core->wants(event));
        REQUIRE(rows.has_value());
        if (rows->job) rows->spec = specs_[rows->job->spec];
        Effects out = core->apply(event, *rows, now);
        if (!out.rows.empty()) REQUIRE(store->commit(out.rows).has_value());
        std::vector<Event> follow;
        for (auto& effect : out.after_commit) {
            if (auto* reply = std::get_if<Reply>(&effect)) replies[reply->to] = reply->result;
            else if (auto* message = std::get_if<SendToAgent>(&effect)) sent.push_back(*message);
            else if (auto* queue = std::get_if<ReadQueue>(&effect)) {
                QueuePage page;
                auto queued = *store->reader().queue(queue->after, queue->limit, now);
                for (auto& row : queued.tasks) page.items.push_back({row, specs_[row.job.spec]});
                page.next = std::move(queued.next);
                if (hold_pages) pages.push_back(std::move(page));
                else follow.push_back(std::move(page));
            } else if (!std::holds_alternative<Note>(effect)) calls.push_back(std::move(effect));
        }
        for (auto& next : follow) apply(std::move(next));
    }

    void pass(Millis d, bool answer_reads = true) {
        // In ticks of a second, so that every timer sees its time.
        for (const Instant end = now + d; now < end;) {
            now = std::min(end, now + Millis{1000});
            apply(Tick{});
            if (answer_reads) answer_market();
        }
    }

    /// Answers open market reads and listings from `offers`, `listing` and `reads`.
    void answer_market() {
        for (bool again = true; again;) {
            again = false;
            auto open = std::move(calls);
            calls.clear();
            for (auto& call : open) {
                if (auto* o = std::get_if<CallOffers>(&call)) {
                    ++offer_calls;
                    Result<OfferList> list = offers_broken ? Result<OfferList>(std::unexpected(*offers_broken))
                                                           : Result<OfferList>(OfferList{.offers = offers[o->provider.get()],
                                                                                         .rejected = {},
                                                                                         .drift = offers_drift[o->provider.get()]});
                    apply(OffersSeen{o->provider, now, now, list});
                    again = true;
                } else if (auto* l = std::get_if<CallList>(&call)) {
                    ++list_calls;
                    const bool broken = listing_broken && (listing_broken_at.empty() || listing_broken_at == l->provider.get());
                    if (broken) apply(ListingSeen{l->provider, now, now, std::unexpected(*listing_broken)});
                    else apply(ListingSeen{l->provider, now, now, Listing{.machines = listing[l->provider.get()], .drift = listing_drift[l->provider.get()]}});
                    again = true;
                } else if (auto* r = std::get_if<CallRead>(&call); r && reads.contains(r->id.get())) {
                    ProviderMachine seen = reads[r->id.get()];
                    seen.id = r->id;
                    ++read_calls;
                    again = true;
                    apply(ReadEnded{r->machine, r->call_seq, now, now, seen});
                } else {
                    kept.push_back(std::move(call));
                }
            }
        }
        calls.insert(calls.end(), kept.begin(), kept.end());
        kept.clear();
    }

    JobId submit(JobSpec spec = {}, std::string key = {}, std::string body = "body") {
        const std::string text = "spec" + std::to_string(specs_.size());
        spec.run = "true";
        if (spec.name.empty()) spec.name = text;
        spec.resources.disk = Bytes{20 * kGB};
        specs_[text] = std::make_shared<JobSpec>(spec);
        const RequestId request = next_request++;
        apply(SubmitJob{request, text, false, specs_[text], "user", false, key, body});
        const ApiResult& result = replies.at(request);
        last_status = result.status;
        if (result.status != 201) return {};
        return JobId{result.json.substr(result.json.find("job_"), 30)};
    }

    int command(const JobId& job, JobVerb verb) {
        const RequestId request = next_request++;
        apply(CommandJob{request, job, verb, "user"});
        return replies.at(request).status;
    }

    /// Takes the one open call of this kind.
    template <class C>
    C take() {
        for (auto it = calls.begin(); it != calls.end(); ++it)
            if (auto* found = std::get_if<C>(&*it)) {
                C out = *found;
                calls.erase(it);
                return out;
            }
        FAIL("no such call is open");
        return {};
    }
    template <class C>
    int count() const {
        int n = 0;
        for (const auto& call : calls) n += std::holds_alternative<C>(call) ? 1 : 0;
        return n;
    }
    void launched(const CallLaunch& call, const std::string& id) {
        apply(LaunchEnded{call.machine, call.call_seq, now, now, LaunchOutcome{.id = ProviderMachineId{id}, .error = {}, .rate = {}}});
        ProviderMachine seen = alive(id, call);
        listing[call.provider.get()].push_back(seen);
        reads[id] = seen;
    }
    void launch_failed(const CallLaunch& call, ErrorKind kind, const std::string& message = "no", const std::string& id = {}) {
        apply(LaunchEnded{call.machine, call.call_seq, now, now,
                          LaunchOutcome{.id = ProviderMachineId{id}, .error = Error{.kind = kind, .message = message}, .rate = {}}});
    }
    static ProviderMachine alive(const std::string& id, const CallLaunch& call) {
        ProviderMachine m;
        m.id = ProviderMachineId{id};
        m.tag = call.request.tag.get();
        m.presence = Presence::running;
        m.raw_state = "running";
        m.spot = call.request.offer.spot;
        m.gpu_rate = call.request.offer.gpu_rate;
        m.disk_rate = UsdPerHour{0};
        return m;
    }
    void set_presence(const std::string& id, Presence presence, const std::string& raw) {
        reads[id].presence = presence;
        reads[id].raw_state = raw;
        for (auto& [name, list] : listing) {
            if (presence == Presence::gone) std::erase_if(list, [&](const auto& m) { return m.id.get() == id; });
            for (auto& m : list)
                if (m.id.get() == id) m.presence = presence, m.raw_state = raw;
        }
    }

    /// What an agent says of a machine that is as it was offered.
    static agent_protocol::Hello hello_of(const std::string& attempt = {}, const std::string& state = {}) {
        agent_protocol::Hello hello;
        hello.report.workspace = "/workspace";
        hello.report.arch = "amd64";
        hello.report.gpus = {{"NVIDIA GeForce RTX 4090", 24564 * kMiB, "560", "u"}};
        hello.report.cuda_probe = "ok";
        hello.report.cuda_devices = 1;
        hello.report.disk_free = 100 * kGB;
        hello.attempt = attempt;
        hello.attempt_state = state;
        return hello;
    }

    /// The agent of a machine: connects, says hello, gets its lease, starts.
    agent_protocol::Lease agent_up(const MachineId& machine, const std::string& boot = "boot1") {
        apply(AgentConnected{machine, boot});
        sent.clear();
        say(machine, hello_of(), boot, 0);
        answer_market();  // the first lease waits for what is billed
        agent_protocol::Lease lease;
        for (const auto& message : sent)
            if (const auto* found = std::get_if<agent_protocol::Lease>(&message.message)) lease = *found;
        if (!lease.attempt.empty()) say(machine, agent_protocol::Started{lease.attempt, 1, lease.generation}, boot, 1);
        return lease;
    }
    void say(const MachineId& machine, agent_protocol::FromAgentBody body, const std::string& boot = "boot1", std::int64_t seq = 9) {
        apply(AgentSaid{machine, {boot, seq, std::move(body)}});
    }
    void exits(const MachineId& machine, const std::string& attempt, int code) {
        agent_protocol::Exited m;
        m.attempt = attempt;
        m.exit_code = code;
        say(machine, m);
    }
    int offer_checkpoint(const MachineId& machine, const std::string& attempt, const std::string& manifest, std::int64_t step) {
        const RequestId request = next_request++;
        apply(CheckpointOffered{request, machine, AttemptId{attempt}, manifest, step, Bytes{10}});
        return replies.at(request).status;
    }

    /// Submits, places, boots and starts: the machine's provider id is `id`.
    struct Running {
        JobId job;
        MachineId machine;
        std::string attempt;
    };
    Running run_one(JobSpec spec, const std::string& id) {
        Running out;
        out.job = submit(std::move(spec));
        answer_market();
        apply(Tick{});
        answer_market();
        return boot(out.job, id);
    }
    Running boot(const JobId& job, const std::string& id) {
        const CallLaunch call = take<CallLaunch>();
        launched(call, id);
        return {job, call.machine, agent_up(call.machine, "boot1").attempt};
    }

    JobRecord job(const JobId& id) { return **store->reader().job(id); }
    MachineRecord machine(const MachineId& id) { return **store->reader().machine(id); }
    AttemptRecord last_attempt(const JobId& id) { return store->reader().attempts(id)->back(); }
    int alerts(const std::string& kind) {
        int n = 0;
        for (const auto& alert : *store->reader().alerts(false, 100)) n += alert.kind == kind ? 1 : 0;
        return n;
    }

    static Offer offer(const std::string& provider, const std::string& id, std::int64_t micros, bool spot = false) {
        Offer o;
        o.provider = ProviderName{provider};
        o.id = id;
        o.spot = spot;
        o.gpu = {"RTX-4090", "RTX 4090", Bytes{24564 * kMiB}};
        o.gpu_count = 1;
        o.gpu_rate = UsdPerHour{micros};
        o.host_id = "host-" + id;
        o.arch = "amd64";
        return o;
    }

    Instant now{instant_of(1'790'000'000'000)};
    std::unique_ptr<Store> store;
    std::unique_ptr<Orchestrator> core;
    std::map<std::string, std::vector<Offer>> offers;
    std::map<std::string, std::vector<ProviderMachine>> listing;
    std::map<std::string, ProviderMachine> reads;
    std::optional<Error> listing_broken, offers_broken;
    std::string listing_broken_at;  // this provider's; empty = all of them
    std::map<std::string, std::vector<Drift>> offers_drift, listing_drift;
    Capabilities cloud_can{}, market_can{.spot = true};  // from the next restart on
    std::vector<Effect> calls, kept;
    std::vector<SendToAgent> sent;
    std::map<RequestId, ApiResult> replies;
    RequestId next_request{1};
    bool hold_pages{false};       // pages of the queue are kept in `pages` and not applied
    std::vector<Event> pages;
    int last_status{0}, offer_calls{0}, list_calls{0}, read_calls{0};

 private:
    CoreSettings settings_;
    std::map<std::string, std::shared_ptr<const JobSpec>> specs_;
};

/// Two on-demand offers at "cloud" and a spot one at "market", both looked at once.
struct Market : CoreBench {
    Market() {
        offers["cloud"] = {offer("cloud", "a", 300'000), offer("cloud", "b", 400'000)};
        offers["market"] = {offer("market", "s", 200'000, true)};
        apply(Tick{});
        answer_market();
    }
    JobSpec on_demand() {
        JobSpec s;
        s.resources.spot = SpotChoice::never;
        s.resources.providers = {"cloud"};
        return s;
    }
    JobSpec spot() {
        JobSpec s;
        s.resources.spot = SpotChoice::always;
        s.checkpoint.declared = true;
        return s;
    }
    CallLaunch first_launch(JobSpec spec, JobId* id = nullptr) {
        const JobId made = submit(std::move(spec));
        if (id) *id = made;
        answer_market();
        apply(Tick{});
        answer_market();
        return take<CallLaunch>();
    }
};

}  // namespace gf
