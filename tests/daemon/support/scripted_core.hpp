// Stands in for the runtime: a thread that takes events in order, commits to a real store, and answers. What it does with
// an event is a test's to script; by default it does the simplest true thing.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "daemon/api/core_port.hpp"
#include "daemon/core.hpp"
#include "db/store.hpp"
#include "model/id.hpp"

namespace gf::test {

class ScriptedCore final : public CorePort {
 public:
    explicit ScriptedCore(Store& store) : store_(store), ids_(Entropy(7)) {
        view_ = std::make_shared<PublicView>();
        thread_ = std::thread([this] { run(); });
    }
    ~ScriptedCore() override {
        {
            const std::scoped_lock lock(mutex_);
            stopping_ = true;
        }
        more_.notify_all();
        thread_.join();
    }

    void post(Event event, std::function<void(ApiResult)> reply) override {
        {
            const std::scoped_lock lock(mutex_);
            queue_.emplace_back(std::move(event), std::move(reply));
        }
        more_.notify_all();
    }
    [[nodiscard]] std::shared_ptr<const PublicView> view() const override {
        const std::scoped_lock lock(mutex_);
        return view_;
    }
    [[nodiscard]] std::shared_ptr<const ChoiceWorld> choice_world() const override {
        ChoiceWorld world;
        for (const auto& offer : view()->offers) world.reached_providers.insert(offer.provider.get());
        return std::make_shared<const ChoiceWorld>(std::move(world));
    }
    [[nodiscard]] Instant now() const override { return instant_of(now_ms_.load()); }

    void check_providers(std::function<void(std::vector<CheckLine>)> done) override {
        ++check_rounds;
        done(checks);
    }

    std::vector<CheckLine> checks;     // what a round finds; set before it is asked for
    std::atomic<int> check_rounds{0};  // how often it was

    void set_now(Instant at) { now_ms_ = unix_millis(at); }
    void set_view(PublicView view) {
        const std::scoped_lock lock(mutex_);
        view_ = std::make_shared<PublicView>(std::move(view));
    }
    /// Asked first for every event with an answer; nothing = the default is done. On the core's thread.
    std::function<std::optional<ApiResult>(const Event&)> script;

    /// Copies of what came, in order.
    [[nodiscard]] std::vector<Event> seen() const {
        const std::scoped_lock lock(mutex_);
        return seen_;
    }
    template <class E>
    [[nodiscard]] std::vector<E> seen_of() const {
        std::vector<E> out;
        for (const auto& event : seen())
            if (const auto* e = std::get_if<E>(&event)) out.push_back(*e);
        return out;
    }
    /// Commits rows as the core would; the store must not be busy with the core's own thread.
    void commit(std::vector<RowChange> rows) {
        const std::scoped_lock lock(store_mutex_);
        const auto done = store_.commit(rows);
        GF_ASSERT(done.has_value());
    }

 private:
    void run() {
        while (true) {
            std::pair<Event, std::function<void(ApiResult)>> next;
            {
                std::unique_lock lock(mutex_);
                more_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
                if (queue_.empty()) return;
                next = std::move(queue_.front());
                queue_.pop_front();
                seen_.push_back(next.first);
            }
            std::optional<ApiResult> result;
            if (script) result = script(next.first);
            if (!result) result = usual(next.first);
            if (next.second) next.second(*std::move(result));
        }
    }
    ApiResult usual(const Event& event) {
        if (const auto* e = std::get_if<SubmitJob>(&event)) return submit(*e);
        if (const auto* e = std::get_if<PutTokenCommand>(&event)) {
            commit({PutToken{e->token}});
            return {.status = e->token.revoked_at ? 200 : 201, .json = "{}", .location = {}, .error = {}};
        }
        if (const auto* e = std::get_if<PutSecretCommand>(&event)) {
            const bool there = store_.reader().secret(e->secret.name).value().has_value();
            commit({PutSecret{e->secret}});
            return {.status = there ? 200 : 201, .json = R"({"name":")" + e->secret.name + "\"}", .location = {}, .error = {}};
        }
        if (const auto* e = std::get_if<DropSecretCommand>(&event)) {
            commit({DropSecret{e->name}});
            return {.status = 204, .json = {}, .location = {}, .error = {}};
        }
        return {.status = 200, .json = R"({"state":"as told"})", .location = {}, .error = {}};
    }
    ApiResult submit(const SubmitJob& e) {
        if (!e.idempotency_key.empty()) {
            const std::scoped_lock lock(store_mutex_);
            const auto known = store_.reader().idempotency(e.principal, e.idempotency_key);
            if (known && *known && (*known)->body_sha256 == e.body_sha256)
                return {.status = 201, .json = R"({"id":")" + (*known)->job.get() + "\"}", .location = "/v1/jobs/" + (*known)->job.get(), .error = {}};
            if (known && *known)
                return {.status = 422, .json = {}, .location = {}, .error = Error{.kind = ErrorKind::conflict, .message = "this Idempotency-Key was used with another body", .field = "Idempotency-Key"}};
        }
        JobRecord job{.id = JobId{ids_.make("job_", now())}, .name = e.spec->name, .kind = e.spec->kind, .project = e.spec->project,
                      .state = JobState::queued, .reason = "submitted", .detail = {}, .priority = e.spec->priority, .spec = e.spec_text,
                      .spec_is_yaml = e.spec_is_yaml, .principal = e.principal, .local_allowed = e.local_allowed,
                      .created_at = now(), .updated_at = now(), .ended_at = {}, .exit_code = {}, .exit_signal = {}};
        TaskRecord task{.id = TaskId{ids_.make("tsk_", now())}, .job = job.id, .reason = "submitted", .retries = {}, .not_before = {}, .vram_above = {}};
        task.created_at = now();
        task.waiting_since = now();
        std::vector<RowChange> rows{PutJob{job, {}}, PutTask{task, {}},
                                    AddEvent{{.at = now(), .kind = "job_state", .job = job.id, .task = {}, .machine = {}, .state = "queued", .reason = "submitted", .detail = {}}}};
        if (!e.idempotency_key.empty())
            rows.push_back(AddIdempotency{{.principal = e.principal, .key = e.idempotency_key, .body_sha256 = e.body_sha256, .job = job.id, .created_at = now()}});
        commit(std::move(rows));
        return {.status = 201, .json = R"({"id":")" + job.id.get() + R"(","state":"queued"})", .location = "/v1/jobs/" + job.id.get(), .error = {}};
    }

    Store& store_;
    std::mutex store_mutex_;      // guards store_ between the core's thread and the test's
    IdMaker ids_;
    std::atomic<std::int64_t> now_ms_{1'790'000'000'000};
    mutable std::mutex mutex_;    // guards all below
    std::condition_variable more_;
    std::deque<std::pair<Event, std::function<void(ApiResult)>>> queue_;
    std::vector<Event> seen_;
    std::shared_ptr<PublicView> view_;
    bool stopping_{false};
    std::thread thread_;
};

}  // namespace gf::test
