#include "daemon/runtime/runtime.hpp"

#include <time.h>

#include "daemon/log.hpp"
#include "daemon/market/look.hpp"

namespace gf {
namespace {

constexpr std::size_t kBatchMax = 4096;
constexpr std::chrono::milliseconds kTick{50};
constexpr std::chrono::seconds kSlow{1};
constexpr std::chrono::milliseconds kRetryAfterFailure{100};
constexpr std::size_t kSpecsKept = 512;
constexpr std::chrono::hours kPruneEvery{1};
constexpr std::int64_t kJumpMs = 5000;  // a step or gap above this is a jump (DESIGN 6)

std::int64_t clock_ms(clockid_t id) {
    timespec t{};
    ::clock_gettime(id, &t);
    return static_cast<std::int64_t>(t.tv_sec) * 1000 + t.tv_nsec / 1'000'000;
}

RequestId* request_of(Event& event) {
    return std::visit(
        [](auto& e) -> RequestId* {
            if constexpr (requires { e.request; }) return &e.request;
            else return nullptr;
        },
        event);
}

}  // namespace

Runtime::Runtime(Store& store, Clock& clock, std::vector<std::unique_ptr<Provider>> providers, RuntimeOptions options)
    : store_(store), clock_(clock), providers_(std::move(providers)), options_(std::move(options)),
      view_(std::make_shared<PublicView>()), choice_(std::make_shared<ChoiceWorld>()) {
    if (!options_.data_dir.empty()) disk_ = std::make_unique<DiskGuard>(options_.data_dir);
    wall_minus_boot_ms_ = clock_ms(CLOCK_REALTIME) - clock_ms(CLOCK_BOOTTIME);
    std::vector<Provider*> checked;
    for (const auto& p : providers_) checked.push_back(p.get());
    checks_ = std::make_unique<ProviderChecks>(lanes_, std::move(checked), options_.self_checks);
}

Runtime::~Runtime() { stop(); }

Provider* Runtime::provider(const ProviderName& name) {
    for (auto& p : providers_)
        if (p->name() == name) return p.get();
    return nullptr;
}

Result<void> Runtime::load() {
    auto live = store_.load_live();
    if (!live) return fail(std::move(live).error());
    std::map<JobId, std::shared_ptr<const JobSpec>> specs;
    for (const JobRecord& job : live->jobs) specs[job.id] = options_.parse_spec(job.spec, job.spec_is_yaml);
    std::vector<Orchestrator::ProviderInfo> infos;
    for (const auto& p : providers_) infos.push_back({p->name(), p->capabilities()});
    core_ = std::make_unique<Orchestrator>(options_.core, std::move(infos), options_.seed++, *live, std::move(specs), clock_.now());
    if (auto told = tell_secrets(); !told) return told;
    {
        const std::scoped_lock lock(gate_mutex_);
        gates_.clear();
    }
    for (const auto& [id, machine] : core_->world().machines) set_gate(id);
    publish(true);
    return {};
}

void Runtime::start() {
    GF_ASSERT(core_ != nullptr);
    thread_ = std::thread([this] { run(); });
}

void Runtime::stop() {
    {
        const std::scoped_lock lock(queue_mutex_);
        stopping_ = true;
    }
    queue_wake_.notify_all();
    if (thread_.joinable()) thread_.join();
    checks_->stop();
    lanes_.stop(std::chrono::seconds{3});
    std::map<RequestId, std::function<void(ApiResult)>> left;
    {
        const std::scoped_lock lock(queue_mutex_);
        left.swap(replies_);
    }
    for (auto& [id, reply] : left)
        reply(ApiResult{.status = 503, .json = {}, .location = {},
                        .error = Error{.kind = ErrorKind::unavailable, .message = "the daemon is stopping"}});
}

void Runtime::post(Event event, std::function<void(ApiResult)> reply) {
    std::optional<ApiResult> refused;
    {
        const std::scoped_lock lock(queue_mutex_);
        if (stopping_) {
            refused = ApiResult{.status = 503, .json = {}, .location = {},
                                .error = Error{.kind = ErrorKind::unavailable, .message = "the daemon is stopping"}};
        } else if (std::holds_alternative<SubmitJob>(event) && !accepts_work_) {
            refused = ApiResult{.status = 507, .json = {}, .location = {},
                                .error = Error{.kind = ErrorKind::full,
                                               .message = "less than 128 MiB of disk are free; new work is refused until there "
                                                          "is room, running jobs go on",
                                               .retry_after = Seconds{30}}};
        } else {
            Pending pending{std::move(event), 0};
            if (RequestId* id = request_of(pending.event); id && reply) {
                *id = pending.request = next_request_++;
                replies_[pending.request] = std::move(reply);
            }
            queue_.push_back(std::move(pending));
        }
    }
    if (refused) {
        if (reply) reply(std::move(*refused));
        return;
    }
    queue_wake_.notify_one();
}

void Runtime::enqueue(Event event) { post(std::move(event), {}); }

std::shared_ptr<const PublicView> Runtime::view() const {
    const std::scoped_lock lock(view_mutex_);
    return view_;
}

std::shared_ptr<const ChoiceWorld> Runtime::choice_world() const {
    const std::scoped_lock lock(view_mutex_);
    return choice_;
}

std::optional<MachineGate> Runtime::gate(const std::string& tag) const {
    const std::scoped_lock lock(gate_mutex_);
    const auto found = gates_.find(tag);
    if (found == gates_.end()) return std::nullopt;
    return found->second;
}

Runtime::Counters Runtime::counters() const { return {commits_, commits_failed_, events_, commit_micros_}; }

std::vector<Runtime::Pending> Runtime::next_batch() {
    std::unique_lock lock(queue_mutex_);
    queue_wake_.wait_until(lock, last_tick_ + kTick, [&] { return stopping_ || !queue_.empty(); });
    std::vector<Pending> batch;
    if (queue_.size() <= kBatchMax) {
        batch.swap(queue_);
    } else {
        const auto end = queue_.begin() + static_cast<std::ptrdiff_t>(kBatchMax);
        batch.assign(std::make_move_iterator(queue_.begin()), std::make_move_iterator(end));
        queue_.erase(queue_.begin(), end);
    }
    return batch;
}

void Runtime::watch_clock() {
    const std::int64_t offset = clock_ms(CLOCK_REALTIME) - clock_ms(CLOCK_BOOTTIME);
    const std::int64_t step = offset - wall_minus_boot_ms_;
    const auto gap = std::chrono::steady_clock::now() - last_tick_;
    std::string why;
    if (step > kJumpMs || step < -kJumpMs) why = "the wall clock stepped by " + std::to_string(step) + " ms";
    else if (last_tick_ != std::chrono::steady_clock::time_point{} && gap > std::chrono::milliseconds{kJumpMs})
        why = "no tick for " + std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(gap).count()) + " ms";
    if (why.empty()) return;
    wall_minus_boot_ms_ = offset;
    std::vector<Pending> jump;
    jump.push_back({ClockJumped{why}, 0});
    apply_batch(std::move(jump));
}

void Runtime::run() {
    last_tick_ = last_slow_ = std::chrono::steady_clock::now();
    while (true) {
        {
            const std::scoped_lock lock(queue_mutex_);
            if (stopping_ && queue_.empty()) return;
        }
        std::vector<Pending> batch = next_batch();
        watch_clock();
        const auto real = std::chrono::steady_clock::now();
        if (real - last_tick_ >= kTick) {
            last_tick_ = real;
            batch.push_back({Tick{}, 0});
        }
        const bool only_tick = batch.size() <= 1;
        apply_batch(std::move(batch));
        publish(false);
        if (real - last_slow_ >= kSlow) {
            last_slow_ = real;
            if (disk_) {
                accepts_work_ = disk_->accepts_work();
                if (accepts_work_) disk_->restore_ballast();
            }
            if (only_tick) store_.checkpoint_wal();
            prune();
            if (options_.alive) options_.alive();
        }
    }
}

void Runtime::prune() {
    const Instant now = clock_.now();
    if (now < prune_next_) return;
    const auto gone = store_.prune(now, options_.retention);
    if (!gone) log::warn("store.prune_failed", {{"error", gone.error().message}});
    // In small pieces, because the writer does nothing else meanwhile.
    prune_next_ = gone && *gone > 0 ? now : now + kPruneEvery;
}

Result<StoredRows> Runtime::rows_for(const RowRequest& want) {
    auto rows = read_stored(store_.reader(), want);
    if (rows && rows->job) rows->spec = spec_of(*rows->job);
    return rows;
}

void Runtime::apply_batch(std::vector<Pending> events) {
    Batch open;
    auto first = events.begin();  // of those whose rows are in `open`
    for (auto it = events.begin(); it != events.end(); ++it) {
        const RowRequest want = core_->wants(it->event);
        if (open.hides(want)) {
            if (!commit(open)) return commit_failed({std::make_move_iterator(first), std::make_move_iterator(events.end())});
            first = it;
        }
        auto rows = rows_for(want);
        if (!rows && !unreadable(*it, rows.error())) continue;
        open.add(core_->apply(it->event, rows ? *rows : StoredRows{}, clock_.now()));
    }
    events_ += static_cast<std::int64_t>(events.size());
    if (!commit(open)) commit_failed({std::make_move_iterator(first), std::make_move_iterator(events.end())});
}

bool Runtime::unreadable(Pending& pending, const Error& error) {
    if (pending.request != 0) {
        Error told = error;
        told.retry_after = Seconds{1};
        answer(pending.request, ApiResult{.status = 503, .json = {}, .location = {}, .error = std::move(told)});
        return false;
    }
    // A machine whose row cannot be read must not pass for one that is not in the store: the listing counts as not had.
    if (auto* listing = std::get_if<ListingSeen>(&pending.event)) {
        listing->result = fail(ErrorKind::unavailable, "the store cannot be read: " + error.message);
        return true;
    }
    return false;
}

bool Runtime::commit(Batch& batch) {
    if (!batch.rows.empty()) {
        const auto began = std::chrono::steady_clock::now();
        const auto committed = store_.commit(batch.rows);
        commit_micros_ += std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - began).count();
        if (!committed) {
            commit_error_ = committed.error();
            return false;
        }
        ++commits_;
        update_gates(batch.rows);
        if (options_.generation_committed)
            for (const RowChange& change : batch.rows)
                if (const auto* checkpoint = std::get_if<PutCheckpoint>(&change)) options_.generation_committed(checkpoint->row.job);
        if (options_.events_committed && *committed > 0) options_.events_committed(*committed);
    }
    release(std::move(batch.effects));
    batch = {};
    return true;
}

void Runtime::commit_failed(std::vector<Pending> batch) {
    const Error error = commit_error_;
    ++commits_failed_;
    log::error("store.commit_failed", {{"kind", std::string(text(error.kind))}, {"error", error.message}});
    const bool full = error.kind == ErrorKind::full;
    if (full && disk_ && disk_->drop_ballast())
        log::warn("disk.ballast_dropped", {{"free", disk_->free_bytes()}});
    if (full) accepts_work_ = false;
    for (Pending& pending : batch)
        if (pending.request != 0) {
            Error told = error;
            told.retry_after = full ? Seconds{30} : Seconds{1};
            told.message = full ? "the disk is full; nothing was stored, try again later"
                                : "the store is busy; nothing was stored, try again";
            answer(pending.request, ApiResult{.status = full ? 507 : 503, .json = {}, .location = {}, .error = std::move(told)});
        }
    // The live state has run ahead of the store: throw it away. What was not an API request is applied again.
    while (true) {
        {
            // On the way out there is no use in waiting for a store that is locked: the next start takes up what is open there.
            const std::scoped_lock lock(queue_mutex_);
            if (stopping_) return drop_queue();
        }
        std::this_thread::sleep_for(kRetryAfterFailure);
        const auto loaded = load();
        if (loaded) break;
        log::error("store.reload_failed", {{"error", loaded.error().message}});
    }
    {
        const std::scoped_lock lock(queue_mutex_);
        std::vector<Pending> again;
        for (Pending& pending : batch)
            if (pending.request == 0 && !std::holds_alternative<Tick>(pending.event)) again.push_back(std::move(pending));
        queue_.insert(queue_.begin(), std::make_move_iterator(again.begin()), std::make_move_iterator(again.end()));
        // Pages that the old state asked for; the new one knows nothing of what was changed since they were read.
        std::erase_if(queue_, [](const Pending& p) { return std::holds_alternative<QueuePage>(p.event); });
    }
    // Agents that are connected have said hello to the old state; they say it again on a new connection.
    if (gateway_)
        for (const auto& [id, machine] : core_->world().machines) gateway_->close(id);
}

void Runtime::drop_queue() {
    // What is waited for is answered by `stop`; all else is in the store or comes again.
    log::warn("core.stopped_without_store", {{"events", static_cast<std::int64_t>(queue_.size())}});
    queue_.clear();
}

void Runtime::answer(RequestId to, ApiResult result) {
    std::function<void(ApiResult)> reply;
    {
        const std::scoped_lock lock(queue_mutex_);
        const auto found = replies_.find(to);
        if (found == replies_.end()) return;
        reply = std::move(found->second);
        replies_.erase(found);
    }
    reply(std::move(result));
}

void Runtime::release(std::vector<Effect> effects) {
    for (Effect& effect : effects) {
        if (auto* reply = std::get_if<Reply>(&effect)) {
            answer(reply->to, std::move(reply->result));
        } else if (auto* message = std::get_if<SendToAgent>(&effect)) {
            send_to_agent(*message);
        } else if (auto* closing = std::get_if<CloseAgent>(&effect)) {
            if (gateway_) gateway_->close(closing->machine);
        } else if (auto* queue = std::get_if<ReadQueue>(&effect)) {
            read_queue(*queue);
        } else if (auto* opening = std::get_if<OpenTunnel>(&effect)) {
            if (options_.open_tunnel) options_.open_tunnel(*opening);
        } else if (auto* ending = std::get_if<CloseTunnel>(&effect)) {
            if (options_.close_tunnel) options_.close_tunnel(ending->machine);
        } else if (auto* note = std::get_if<Note>(&effect)) {
            const auto level = note->level == "error"  ? log::Level::error
                               : note->level == "warn" ? log::Level::warn
                               : note->level == "info" ? log::Level::info
                                                       : log::Level::debug;
            log::write(level, "core", {{"note", note->text}});
        } else {
            release_call(effect);
        }
    }
}

void Runtime::release_call(Effect& effect) {
    // One lane per provider and kind. A provider that is not configured any more (its key was taken away) cannot be asked:
    // its machines stay on the books, and a destroy there fails, backs off and is told like any other.
    const auto lane = [&](const ProviderName& name, std::string_view kind, int threads, auto call) {
        if (Provider* p = provider(name))
            lanes_.run(name.get() + "/" + std::string(kind), threads, [this, p, call] { enqueue(call(*p)); });
    };
    const auto missing = [&](const ProviderName& name) {
        return fail(ErrorKind::unavailable, name.get() + " is not configured: its key is gone, its machines are not");
    };
    if (const auto* read = std::get_if<CallRead>(&effect); read && !provider(read->provider))
        return enqueue(ReadEnded{read->machine, read->call_seq, clock_.now(), clock_.now(), missing(read->provider)});
    if (const auto* destroy = std::get_if<CallDestroy>(&effect); destroy && !provider(destroy->provider))
        return enqueue(DestroyEnded{destroy->machine, destroy->call_seq, clock_.now(), clock_.now(), missing(destroy->provider)});
    std::visit(
        [&](auto& e) {
            using E = std::decay_t<decltype(e)>;
            if constexpr (std::is_same_v<E, CallOffers>) {
                lane(e.provider, "offers", 1, [this, e](Provider& p) -> Event {
                    const Instant began = clock_.now();
                    auto result = p.offers(e.query);
                    // From here and not from the core, which neither waits for the record nor copies for it. Nothing of ours follows
                    // from a look, so that there is no commit to wait for.
                    if (result && options_.market_seen && !p.capabilities().is_local)
                        options_.market_seen(look_of(p.name(), p.capabilities(), e.query, *result, began));
                    return OffersSeen{e.provider, began, clock_.now(), std::move(result)};
                });
            } else if constexpr (std::is_same_v<E, CallList>) {
                lane(e.provider, "list", 1, [this, e](Provider& p) -> Event {
                    const Instant began = clock_.now();
                    auto result = p.list();
                    return ListingSeen{e.provider, began, clock_.now(), std::move(result)};
                });
            } else if constexpr (std::is_same_v<E, CallBalance>) {
                lane(e.provider, "balance", 1, [e](Provider& p) -> Event { return BalanceSeen{e.provider, p.balance()}; });
            } else if constexpr (std::is_same_v<E, CallLaunch>) {
                if (e.request.registry) {
                    // Nothing has left this machine yet, so nothing was made.
                    if (const auto login = complete_login(e.request, e.machine); !login)
                        return enqueue(LaunchEnded{e.machine, e.call_seq, clock_.now(), clock_.now(),
                                                   LaunchOutcome{.id = {}, .error = login.error(), .rate = {}}});
                }
                lane(e.provider, "launch", 4, [this, e](Provider& p) -> Event {
                    LaunchRequest request = e.request;
                    const Instant began = clock_.now();
                    if (const auto completed = options_.complete_launch(request, e.machine); !completed)
                        return LaunchEnded{e.machine, e.call_seq, began, clock_.now(),
                                           LaunchOutcome{.id = {}, .error = completed.error(), .rate = {}}};
                    auto outcome = p.launch(request);
                    return LaunchEnded{e.machine, e.call_seq, began, clock_.now(), std::move(outcome)};
                });
            } else if constexpr (std::is_same_v<E, CallRead>) {
                lane(e.provider, "read", 2, [this, e](Provider& p) -> Event {
                    const Instant began = clock_.now();
                    auto result = p.read(e.id);
                    return ReadEnded{e.machine, e.call_seq, began, clock_.now(), std::move(result)};
                });
            } else if constexpr (std::is_same_v<E, CallRaiseBid>) {
                lane(e.provider, "bid", 1, [this, e](Provider& p) -> Event {
                    const Instant began = clock_.now();
                    return BidRaised{e.machine, e.bid, began, p.raise_bid(e.id, e.bid)};
                });
            } else if constexpr (std::is_same_v<E, CallTidy>) {
                if (Provider* p = provider(e.provider))
                    lanes_.run(e.provider.get() + "/tidy", 1, [p] {
                        // What is left behind now goes with the next time: there is no machine that it could hurt.
                        if (const auto tidied = p->tidy(); !tidied && tidied.error().kind != ErrorKind::not_yet)
                            log::warn("provider.tidy_failed", {{"provider", p->name().get()}, {"error", tidied.error().message}});
                    });
            } else if constexpr (std::is_same_v<E, CallDestroy>) {
                lane(e.provider, "destroy", 2, [this, e](Provider& p) -> Event {
                    const Instant began = clock_.now();
                    auto result = p.destroy(e.id);
                    return DestroyEnded{e.machine, e.call_seq, began, clock_.now(), std::move(result)};
                });
            }
        },
        effect);
}

std::shared_ptr<const JobSpec> Runtime::spec_of(const JobRecord& job) {
    const auto live = core_->world().jobs.find(job.id);
    if (live != core_->world().jobs.end() && live->second.spec) return live->second.spec;
    const auto known = specs_.find(job.id);
    if (known != specs_.end()) return known->second;
    if (specs_.size() >= kSpecsKept) specs_.clear();
    return specs_[job.id] = options_.parse_spec(job.spec, job.spec_is_yaml);
}

void Runtime::read_queue(const ReadQueue& e) {
    QueuePage page;
    auto rows = store_.reader().queue(e.after, e.limit, clock_.now());
    if (rows) {
        page.next = std::move(rows->next);
        for (QueuedTask& row : rows->tasks) {
            auto spec = spec_of(row.job);
            page.items.push_back({std::move(row), std::move(spec)});
        }
    }
    // An unreadable store gives an empty page: the core asks again.
    enqueue(std::move(page));
}

void Runtime::publish(bool force) {
    const auto real = std::chrono::steady_clock::now();
    if (!force && real - view_made_ < std::chrono::milliseconds{250}) return;
    view_made_ = real;
    auto view = std::make_shared<PublicView>(core_->view(clock_.now()));
    auto choice = std::make_shared<ChoiceWorld>(gf::choice_world(core_->world(), clock_.now(), true));
    const std::scoped_lock lock(view_mutex_);
    view_ = std::move(view);
    choice_ = std::move(choice);
}

void Runtime::set_gate(const MachineId& id) {
    const World& world = core_->world();
    const auto machine = world.machines.find(id);
    const std::scoped_lock lock(gate_mutex_);
    if (machine == world.machines.end()) {
        std::erase_if(gates_, [&](const auto& entry) { return entry.second.id == id; });
        return;
    }
    const MachineRecord& row = machine->second.row;
    MachineGate& gate = gates_[row.tag.get()];
    const bool same_attempt = gate.attempt_number == row.attempt && gate.task == row.task;
    gate.id = id;
    gate.state = row.state;
    gate.job = row.task.empty() ? JobId{} : row.job;
    gate.task = row.task;
    gate.attempt_number = row.attempt;
    if (!same_attempt) gate.attempt = AttemptId{};
    if (const auto task = world.tasks.find(row.task); task != world.tasks.end())
        if (task->second.attempt && task->second.attempt->machine == id) gate.attempt = task->second.attempt->id;
    gate.code_sha256.clear();
    if (const auto job = world.jobs.find(row.job); job != world.jobs.end() && job->second.spec)
        gate.code_sha256 = job->second.spec->code_sha256;
}

void Runtime::update_gates(const std::vector<RowChange>& rows) {
    for (const RowChange& change : rows) {
        if (const auto* machine = std::get_if<PutMachine>(&change)) set_gate(machine->row.id);
        else if (const auto* attempt = std::get_if<PutAttempt>(&change)) set_gate(attempt->row.machine);
    }
}

}  // namespace gf
