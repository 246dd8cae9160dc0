#include "tests/sim/simulation.hpp"

#include <algorithm>
#include <iostream>

#include "tests/sim/told.hpp"

namespace gf::sim {
namespace {

constexpr Millis kTick = Seconds{1};

RequestId* request_of(Event& event) {
    return std::visit(
        [](auto& e) -> RequestId* {
            if constexpr (requires { e.request; }) return &e.request;
            else return nullptr;
        },
        event);
}

/// What a provider answers to a call that reached it at `now`.
Event made(ModelProvider& p, const CallOffers& e, Instant began, Instant now, Instant ended) {
    return OffersSeen{e.provider, began, ended, p.offers(now)};
}
Event made(ModelProvider& p, const CallRaiseBid& e, Instant began, Instant now, Instant) {
    return BidRaised{e.machine, e.bid, began, p.raise_bid(e.id, e.bid, now)};
}
Event made(ModelProvider& p, const CallBalance& e, Instant, Instant now, Instant) {
    return BalanceSeen{e.provider, p.balance(now)};
}
Event made(ModelProvider& p, const CallList& e, Instant began, Instant now, Instant ended) {
    return ListingSeen{e.provider, began, ended, p.list(now)};
}
Event made(ModelProvider& p, const CallLaunch& e, Instant began, Instant now, Instant ended) {
    return LaunchEnded{e.machine, e.call_seq, began, ended, p.launch(e.request, began, now)};
}
Event made(ModelProvider& p, const CallRead& e, Instant began, Instant now, Instant ended) {
    return ReadEnded{e.machine, e.call_seq, began, ended, p.read(e.id, now)};
}
Event made(ModelProvider& p, const CallDestroy& e, Instant began, Instant now, Instant ended) {
    return DestroyEnded{e.machine, e.call_seq, began, ended, p.destroy(e.id, now)};
}

}  // namespace

Simulation::Simulation(std::uint64_t seed, bool tell, const Profile* like) : seed_(seed), told_(tell), rng_(seed * 0x9e3779b97f4a7c15ULL + 1), now_(instant_of(1'790'000'000'000)) {
    // Swarm: each kind of trouble is on in about a third of the runs; every eighth run has none at all.
    if (seed % 8 != 0) {
        for (bool* fault : {&faults_.create_effect_then_error, &faults_.create_error_no_effect, &faults_.create_id_then_nothing,
                            &faults_.create_error_with_id, &faults_.no_capacity, &faults_.listing_fails, &faults_.listing_lies,
                            &faults_.read_fails, &faults_.destroy_fails, &faults_.destroy_lost, &faults_.offers_fail,
                            &faults_.taken_back, &faults_.host_dies, &faults_.machine_stops, &faults_.manual_delete,
                            &faults_.agent_partition, &faults_.container_restart, &faults_.never_boots, &faults_.slow_answers,
                            &faults_.user_errors, &faults_.daemon_crash, &faults_.commit_fails, &faults_.clock_jumps,
                            &faults_.drifts, &faults_.price_changes, &faults_.migrates, &faults_.loses_gpus, &faults_.goes_offline, &faults_.storms,
                            &faults_.listing_stale})
            *fault = rng_.below(3) == 0;
    }
    settings_.install = "simsim00";
    settings_.usd_per_hour_max.reset();
    // Listings lag by less than the settle time: that is what the settle time is for.
    const Profile alpha{.name = "alpha", .settle = Seconds{60}};
    const Profile beta{.name = "beta", .spot = true, .settle = Seconds{90}};
    const Profile first = like ? *like : alpha;
    const Profile second = first.spot ? alpha : beta;
    settings_.reached_providers = {first.name, second.name};
    settings_.settle = {{first.name, first.settle}, {second.name, second.settle}};
    settings_.orphans = OrphanPolicy::destroy;
    auto store = open_sqlite_store(":memory:");
    GF_ASSERT(store.has_value());
    store_ = std::move(*store);
    providers_.push_back(std::make_unique<ModelProvider>(first, rng_, faults_));
    providers_.push_back(std::make_unique<ModelProvider>(second, rng_, faults_));
    load();
}

Simulation::~Simulation() = default;

void Simulation::violated(std::string_view promise, const std::string& what) {
    throw Violation{std::string(promise) + " broken, seed " + std::to_string(seed_) + " at +" +
                    duration_text(std::chrono::floor<Seconds>(now_ - instant_of(1'790'000'000'000))) + ": " + what};
}

ModelProvider& Simulation::provider(const ProviderName& name) {
    for (auto& p : providers_)
        if (p->name() == name) return *p;
    GF_ASSERT(false);
    return *providers_.front();
}

ModelMachine* Simulation::model_of(const MachineId& id) {
    const auto known = provider_ids_.find(id);
    for (auto& p : providers_)
        for (auto& [pid, m] : p->machines())
            if ((known != provider_ids_.end() && pid == known->second) || m.tag == machine_tag(settings_.install, id.get())) return &m;
    return nullptr;
}

void Simulation::at(Instant when, std::function<void()> what) { todo_.emplace(when, std::move(what)); }

Millis Simulation::latency() {
    const std::uint64_t top = faults_on_ && faults_.slow_answers && rng_.below(5) == 0 ? 60'000 : 800;
    return Millis{static_cast<std::int64_t>(20 + rng_.below(top))};
}

void Simulation::load() {
    auto live = store_->load_live();
    if (!live) violated("store", live.error().message);
    std::map<JobId, std::shared_ptr<const JobSpec>> specs;
    for (const auto& job : live->jobs)
        for (const auto& [id, user] : jobs_)
            if (user.key == job.spec) specs[job.id] = user.spec;
    std::vector<Orchestrator::ProviderInfo> infos;
    for (const auto& p : providers_) infos.push_back({p->name(), p->capabilities()});
    remember_looks();
    core_ = std::make_unique<Orchestrator>(settings_, std::move(infos), rng_.next(), *live, std::move(specs), now_);
}

StoredRows Simulation::rows_for(const RowRequest& want) {
    auto rows = read_stored(store_->reader(), want);
    if (!rows) violated("store", rows.error().message);
    if (rows->job)
        if (const auto user = jobs_.find(rows->job->id); user != jobs_.end()) rows->spec = user->second.spec;
    return *std::move(rows);
}

void Simulation::crash(std::string_view why) {
    trace("crash " + std::string(why));
    ++report_.crashes;
    ++epoch_;
    core_.reset();
    open_ = {};
    open_events_.clear();
    open_looks_.clear();
    trouble_everywhere();
    waiting_.clear();
    for (auto& [id, agent] : agents_) agent.connected = false;
    daemon_up_ = now_ + Millis{static_cast<std::int64_t>(500 + rng_.below(90'000))};
    at(daemon_up_, [this] { load(); });
}

void Simulation::trace(const std::string& line) {
    for (const char c : line) trace_ = (trace_ ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    if (told_) std::cout << rfc3339(now_) << " " << line << "\n";
}

void Simulation::deliver(Event event, Instant made) {
    if (!core_) return;  // the process is down: whoever called gets no answer
    ++report_.steps;
    trace(told(event));
    const RowRequest want = core_->wants(event);
    open_events_.push_back(event);
    if (open_.hides(want)) {
        if (!commit()) return;
        open_events_.push_back(event);
    }
    note_looks(event, made);
    Effects out = core_->apply(event, rows_for(want), now_);
    for (const auto& row : out.rows) trace("  " + told(row));
    for (const auto& effect : out.after_commit) trace("  -> " + told(effect));
    open_.add(std::move(out));
    // What comes close together is often committed together, as the runtime does under load.
    if (rng_.below(3) != 0) return static_cast<void>(commit());
    ++report_.batched;
    later(Millis{static_cast<std::int64_t>(1 + rng_.below(300))}, [this, epoch = epoch_] { if (epoch == epoch_) commit(); });
}

bool Simulation::commit() {
    std::vector<Event> events = std::move(open_events_);
    open_events_.clear();
    std::vector<PendingLook> looks = std::move(open_looks_);
    open_looks_.clear();
    Batch batch = std::move(open_);
    open_ = {};
    if (!batch.rows.empty()) {
        if (chance(faults_.commit_fails, 3)) {
            // Nothing of this batch happened: no effect is let out, the live state is rebuilt.
            trace("commit fails");
            ++report_.failed_commits;
            load();
            for (auto& [id, agent] : agents_) agent.connected = false;
            for (Event& event : events) {
                if (RequestId* id = request_of(event); id && *id) {
                    waiting_.erase(*id);
                } else if (!std::holds_alternative<Tick>(event) && !std::holds_alternative<QueuePage>(event)) {
                    later(Millis{100}, [this, event, made = now_, epoch = epoch_] { if (epoch == epoch_) deliver(event, made); });
                }
            }
            return false;
        }
        if (chance(faults_.daemon_crash, 1)) {  // killed before the commit
            ++report_.kill_points;
            crash("before commit");
            return false;
        }
        auto committed = store_->commit(batch.rows);
        if (!committed) violated("store", committed.error().message);
        check_rows(batch.rows);
    }
    take_looks(std::move(looks));
    std::vector<Effect> effects = std::move(batch.effects);
    if (chance(faults_.daemon_crash, 2) && !effects.empty()) {
        // Killed between the commit and some effect: those before the kill point were let out.
        ++report_.kill_points;
        effects.resize(rng_.below(effects.size()));
        release(std::move(effects));
        crash("between effects");
        return false;
    }
    release(std::move(effects));
    return core_ != nullptr;
}

void Simulation::release(std::vector<Effect> effects) {
    for (auto& effect : effects) {
        if (auto* reply = std::get_if<Reply>(&effect)) {
            answered(reply->to, reply->result);
        } else if (auto* message = std::get_if<SendToAgent>(&effect)) {
            later(Millis{10}, [this, id = message->machine, m = message->message, epoch = epoch_] {
                if (epoch == epoch_) agent_hears(id, m);
            });
        } else if (auto* closing = std::get_if<CloseAgent>(&effect)) {
            close_agent(closing->machine);
        } else if (std::holds_alternative<ReadQueue>(effect)) {
            later(Millis{2}, [this, want = std::get<ReadQueue>(effect), epoch = epoch_] {
                if (epoch != epoch_ || !core_) return;
                QueuePage page;
                auto rows = store_->reader().queue(want.after, want.limit, now_);
                if (!rows) violated("store", rows.error().message);
                page.next = std::move(rows->next);
                for (auto& row : rows->tasks) {
                    const auto user = jobs_.find(row.job.id);
                    page.items.push_back({row, user == jobs_.end() ? nullptr : user->second.spec});
                }
                deliver(std::move(page));
            });
        } else if (const auto* tidy = std::get_if<CallTidy>(&effect)) {
            ++report_.tidies;
            // None of ours may be left there that the daemon could know of.
            for (const auto& [pid, m] : provider(tidy->provider).machines())
                if (ModelProvider::exists(m) && !m.dies_at && !faults_.listing_lies && !faults_.drifts)
                    violated("P1", tidy->provider.get() + " is tidied while " + pid + " exists");
        } else if (!std::holds_alternative<Note>(effect)) {
            release_call(effect);
        }
    }
}

void Simulation::release_call(Effect& effect) {
    // The call takes effect at the provider some time later, the answer comes later still; a daemon that has died
    // meanwhile never hears it, but the effect stands.
    const Millis there = latency();
    const Millis back = latency();
    const int epoch = epoch_;
    const bool slow = there + back > Seconds{2};
    const Instant began = now_;
    const auto answer = [this, epoch, back, slow](ModelProvider& p, Event event) {
        later(back, [this, epoch, slow, &p, made = now_, event = std::move(event)] {
            if (slow) trouble_at(p, now_);
            if (epoch == epoch_) deliver(event, made);
        });
    };
    std::visit(
        [&](auto& e) {
            if constexpr (requires { made(provider(e.provider), e, began, began, began); }) {
                if (slow) trouble_at(provider(e.provider), now_ + there + back);  // nobody looks again before it is answered
                later(there, [this, e, began, back, answer] {
                    ModelProvider& p = provider(e.provider);
                    answer(p, made(p, e, began, now_, now_ + back));
                });
            }
        },
        effect);
}

void Simulation::submit() {
    UserJob job;
    job.spec = std::make_shared<JobSpec>();
    job.key = "spec" + std::to_string(jobs_.size() + acknowledged_.size() + static_cast<std::size_t>(next_request_));
    job.spec->name = job.key;
    job.spec->run = "train";
    job.spec->resources.disk = Bytes{20 * kGB};
    job.spec->resources.spot = static_cast<SpotChoice>(rng_.below(3));
    job.spec->checkpoint.declared = rng_.below(4) != 0;
    job.spec->checkpoint.every = Seconds{static_cast<std::int64_t>(60 + rng_.below(240))};
    job.spec->checkpoint.grace = Seconds{30};
    job.spec->retry.user_error = static_cast<int>(rng_.below(3));
    if (rng_.below(10) == 0) job.spec->limits.duration = Seconds{static_cast<std::int64_t>(300 + rng_.below(3000))};
    job.work_s = static_cast<std::int64_t>(30 + rng_.below(2400));
    job.errs = faults_.user_errors && rng_.below(4) == 0;
    const std::string idempotency = rng_.below(2) == 0 ? "key-" + job.key : "";
    SubmitJob event{.request = 0, .spec_text = job.key, .spec_is_yaml = false, .spec = job.spec, .principal = "user",
                    .local_allowed = false, .idempotency_key = idempotency, .body_sha256 = job.key};
    const auto send = [this, job](SubmitJob e) {
        e.request = next_request_++;
        waiting_[e.request] = [this, job](const ApiResult& result) {
            if (result.status != 201) return;
            UserJob known = job;
            const auto begin = result.json.find("job_");
            known.id = JobId{result.json.substr(begin, 30)};
            acknowledged_.insert(known.id.get());
            if (!jobs_.contains(known.id)) jobs_[known.id] = known;
        };
        deliver(std::move(e));
    };
    send(event);
    // A client that got no answer asks again with the same key.
    if (!idempotency.empty() && rng_.below(3) == 0) later(Seconds{2}, [send, event] { send(event); });
}

void Simulation::answered(RequestId request, const ApiResult& result) {
    const auto found = waiting_.find(request);
    if (found == waiting_.end()) return;
    const auto then = std::move(found->second);
    waiting_.erase(found);
    then(result);
}

void Simulation::trouble() {
    for (auto& p : providers_) {
        std::vector<std::string> moved;
        for (auto& [id, m] : p->machines()) {
            if (!ModelProvider::exists(m) || m.dies_at) continue;
            const bool on = m.presence == Presence::running || m.presence == Presence::booting;
            const bool by_market = m.offer.spot && !p->profile().bids;
            if (on && by_market && chance(faults_.taken_back, 4)) {
                m.presence = Presence::stopped;
                m.disturbed = true;
            } else if (m.presence == Presence::stopped && by_market && chance(faults_.taken_back, 20)) {
                m.presence = Presence::running;  // wins its bid again by itself
                ++m.boots;
            } else if (on && chance(faults_.host_dies, 2)) {
                m.disturbed = true;
                m.dies_at = now_;
            } else if (on && !m.offer.spot && p->profile().can_stop && chance(faults_.machine_stops, 2)) {
                m.presence = Presence::stopped;
                m.disturbed = true;
            } else if (chance(faults_.manual_delete, 1)) {
                m.disturbed = true;
                m.dies_at = now_;
            } else if (on && chance(faults_.container_restart, 1)) {
                ++m.boots;
                m.disturbed = true;
            } else if (m.presence == Presence::running && chance(faults_.loses_gpus, 1)) {
                ++m.boots;
                m.disturbed = true;
                m.gpus = 0;
                p->set_rate(m, UsdPerHour{m.gpu_rate.micros / 10});
            } else if (m.presence == Presence::running && p->profile().offline && chance(faults_.goes_offline, 2)) {
                m.presence = Presence::unknown;
                m.online_at = now_ + Seconds{static_cast<std::int64_t>(30 + rng_.below(600))};
            } else if (m.presence == Presence::running && chance(faults_.price_changes, 2)) {
                p->set_rate(m, UsdPerHour{m.gpu_rate.micros * static_cast<std::int64_t>(80 + rng_.below(70)) / 100});
            } else if (m.presence == Presence::running && chance(faults_.migrates, 1)) {
                moved.push_back(id);
            }
            if (const auto agent = agents_.find(id); agent != agents_.end() && chance(faults_.agent_partition, 2)) {
                const bool very_long = rng_.below(6) == 0;
                agent->second.partitioned_until = now_ + Seconds{static_cast<std::int64_t>(very_long ? 2400 : 30 + rng_.below(400))};
                if (very_long) m.disturbed = true;
                if (agent->second.connected) {
                    agent->second.connected = false;
                    deliver(AgentDisconnected{agent->second.id, agent->second.boot});
                }
            }
        }
        for (const std::string& id : moved) {
            // Its container ends where it was and starts anew where it is.
            if (const auto agent = agents_.find(id); agent != agents_.end()) {
                const Agent old = agent->second;
                agents_.erase(agent);
                if (old.connected) deliver(AgentDisconnected{old.id, old.boot});
            }
            p->migrate(id, now_);
        }
    }
    if (core_ && chance(faults_.daemon_crash, 2)) crash("kill -9");
    if (core_ && chance(faults_.clock_jumps, 2)) {
        now_ += Seconds{static_cast<std::int64_t>(10 + rng_.below(3000))};  // a suspend: nobody did anything meanwhile
        for (auto& [id, agent] : agents_) {
            agent.worked_to = now_;
            agent.phase_ends = std::max(agent.phase_ends, now_);
        }
        trouble_everywhere();
        deliver(ClockJumped{"suspend"});
    }
}

Report Simulation::run() {
    const int wanted = 2 + static_cast<int>(rng_.below(5));
    const Instant begin = now_;
    for (int i = 0; i < wanted; ++i)
        at(begin + Seconds{static_cast<std::int64_t>(rng_.below(600))}, [this] { submit(); });
    if (rng_.below(2) == 0)
        at(begin + Seconds{static_cast<std::int64_t>(30 + rng_.below(2000))}, [this] {
            if (jobs_.empty()) return;
            auto it = jobs_.begin();
            std::advance(it, static_cast<std::ptrdiff_t>(rng_.below(jobs_.size())));
            const JobVerb verb = rng_.below(3) == 0 ? JobVerb::hold : JobVerb::cancel;
            deliver(CommandJob{next_request_++, it->first, verb, "user"});
            if (verb == JobVerb::hold)
                later(Seconds{600}, [this, id = it->first] { deliver(CommandJob{next_request_++, id, JobVerb::release, "user"}); });
        });
    const Instant calm = begin + std::chrono::minutes{90};
    const Instant end = calm + std::chrono::hours{12};
    while (now_ < end) {
        if (faults_on_ && now_ >= calm) {
            faults_on_ = false;
            for (auto& p : providers_) p->faults_on = false;
        }
        const Instant step_to = now_ + kTick;
        while (!todo_.empty() && todo_.begin()->first <= step_to) {
            now_ = std::max(now_, todo_.begin()->first);
            for (auto& p : providers_) p->advance(now_);
            const auto what = std::move(todo_.begin()->second);
            todo_.erase(todo_.begin());
            what();
        }
        now_ = std::max(now_, step_to);
        for (auto& p : providers_) p->advance(now_);
        for (auto& p : providers_) p->weather(now_);
        if (faults_on_) trouble();
        agents();
        look_for_doubles();
        deliver(Tick{});
        if (core_) commit();
        check_fleet();
        if (!faults_on_ && now_ > calm + std::chrono::minutes{5} && core_ && core_->world().jobs.empty() &&
            core_->world().queued_jobs == 0 &&
            std::ranges::all_of(core_->world().machines, [](const auto& m) { return m.second.row.state == MachineState::gone || m.second.row.watch; }) &&
            std::ranges::none_of(providers_, [](const auto& p) {
                return std::ranges::any_of(p->machines(), [](const auto& m) { return ModelProvider::exists(m.second); });
            }))
            break;
    }
    check_settled();
    report_.simulated_hours = std::chrono::duration<double, std::ratio<3600>>(now_ - begin).count();
    report_.trace_hash = std::to_string(trace_);
    return report_;
}

}  // namespace gf::sim
