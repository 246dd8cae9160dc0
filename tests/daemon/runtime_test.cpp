// The runtime over a store in memory: what is applied together, what a failing store does to it, and how it stops.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <thread>

#include "daemon/runtime/runtime.hpp"

namespace gf {
namespace {

/// A store whose commits and reads fail while they are told to.
class FlakyStore final : public Store {
 public:
    FlakyStore() : inner_(std::move(*open_sqlite_store(":memory:"))), reader_(*this) {}

    Result<std::int64_t> commit(const std::vector<RowChange>& changes) override {
        ++commits;
        if (commit_fails) return fail(*commit_fails, "as told");
        return inner_->commit(changes);
    }
    Result<LiveRows> load_live() override { return inner_->load_live(); }
    Result<std::optional<std::string>> meta(const std::string& key) override { return inner_->meta(key); }
    Reader& reader() override { return reader_; }
    Result<std::unique_ptr<Reader>> open_reader() override { return inner_->open_reader(); }
    void checkpoint_wal() override { inner_->checkpoint_wal(); }
    Result<int> prune(Instant now, const PrunePolicy& policy) override {
        ++prunes;
        return inner_->prune(now, policy);
    }

    std::atomic<int> commits{0}, prunes{0};
    std::optional<ErrorKind> commit_fails;  // set before start only
    std::atomic<bool> reads_fail{false};

 private:
    class FlakyReader final : public Reader {
     public:
        explicit FlakyReader(FlakyStore& of) : of_(of) {}
        template <class T>
        Result<T> unless_failing(Result<T> value) {
            if (of_.reads_fail) return fail(ErrorKind::busy, "as told");
            return value;
        }
        Reader& in() { return of_.inner_->reader(); }
        Result<std::vector<JobRecord>> jobs(const JobFilter& f) override { return in().jobs(f); }
        Result<std::optional<JobRecord>> job(const JobId& id) override { return unless_failing(in().job(id)); }
        Result<std::vector<TaskRecord>> tasks(const JobId& id) override { return unless_failing(in().tasks(id)); }
        Result<std::vector<AttemptRecord>> attempts(const JobId& id) override { return in().attempts(id); }
        Result<std::optional<AttemptRecord>> attempt(const AttemptId& id) override { return in().attempt(id); }
        Result<std::vector<CheckpointRecord>> checkpoints(const JobId& id) override { return in().checkpoints(id); }
        Result<std::optional<CheckpointRecord>> newest_checkpoint(const TaskId& id, std::int64_t n) override {
            return in().newest_checkpoint(id, n);
        }
        Result<std::vector<OutputRecord>> outputs(const JobId& id) override { return in().outputs(id); }
        Result<std::vector<EventRecord>> events(const JobId& id, std::int64_t after, int n) override { return in().events(id, after, n); }
        Result<std::vector<MachineRecord>> machines(bool gone, const std::string& c, int n) override { return in().machines(gone, c, n); }
        Result<std::optional<MachineRecord>> machine(const MachineId& id) override { return unless_failing(in().machine(id)); }
        Result<std::vector<LedgerRecord>> ledger(const JobId& id, Instant a, Instant b) override { return in().ledger(id, a, b); }
        Result<std::vector<ReservationRecord>> reservations(const JobId& id) override { return in().reservations(id); }
        Result<std::optional<DecisionRecord>> decision(const JobId& id) override { return in().decision(id); }
        Result<std::vector<AlertRecord>> alerts(bool open, int n) override { return in().alerts(open, n); }
        Result<std::optional<IdempotencyRecord>> idempotency(const std::string& p, const std::string& k) override {
            return unless_failing(in().idempotency(p, k));
        }
        Result<std::vector<HostMarkRecord>> host_marks() override { return in().host_marks(); }
        Result<std::vector<SecretRecord>> secrets() override { return in().secrets(); }
        Result<std::optional<SecretRecord>> secret(const std::string& name) override { return in().secret(name); }
        Result<std::vector<TokenRecord>> tokens() override { return in().tokens(); }
        Result<std::optional<TokenRecord>> token_by_hash(const std::string& h) override { return in().token_by_hash(h); }
        Result<QueueRows> queue(const QueueCursor& c, int n, Instant at) override { return in().queue(c, n, at); }
        Result<JobCounts> job_counts() override { return in().job_counts(); }

     private:
        FlakyStore& of_;
    };

    std::unique_ptr<Store> inner_;
    FlakyReader reader_;
};

struct RuntimeBench {
    FlakyStore store;
    RealClock clock;
    std::shared_ptr<const JobSpec> spec = std::make_shared<const JobSpec>();
    Runtime runtime{store, clock, {}, options()};

    RuntimeBench() { REQUIRE(runtime.load().has_value()); }
    static RuntimeOptions options() {
        RuntimeOptions o;
        o.core.install = "runtime0";
        o.parse_spec = [](const std::string&, bool) { return std::make_shared<const JobSpec>(); };
        return o;
    }
    std::future<ApiResult> ask(Event event) {
        auto promise = std::make_shared<std::promise<ApiResult>>();
        runtime.post(std::move(event), [promise](ApiResult result) { promise->set_value(std::move(result)); });
        return promise->get_future();
    }
    SubmitJob submission(const std::string& key = {}) const {
        return {.spec_text = "{}", .spec = spec, .principal = "p", .idempotency_key = key, .body_sha256 = key};
    }
    static ApiResult got(std::future<ApiResult>& answer) {
        REQUIRE(answer.wait_for(std::chrono::seconds{20}) == std::future_status::ready);
        return answer.get();
    }
    static JobId id_in(const ApiResult& result) { return JobId{result.json.substr(result.json.find("job_"), 30)}; }
};

TEST_CASE("many commands for one job in one batch: each is judged by what the one before has left") {
    RuntimeBench b;
    b.runtime.start();
    auto made = b.ask(b.submission());
    const JobId job = b.id_in(b.got(made));
    // Posted from the core's own thread, so that all of them are in its next batch.
    std::vector<std::future<ApiResult>> answers;
    std::promise<void> posted;
    b.runtime.post(CommandJob{0, JobId{"job_none"}, JobVerb::cancel, "p"}, [&](ApiResult) {
        for (int i = 0; i < 16; ++i) {
            answers.push_back(b.ask(CommandJob{0, job, JobVerb::cancel, "p"}));
            answers.push_back(b.ask(CommandJob{0, job, JobVerb::retry, "p"}));
        }
        posted.set_value();
    });
    REQUIRE(posted.get_future().wait_for(std::chrono::seconds{20}) == std::future_status::ready);
    for (auto& answer : answers) CHECK(b.got(answer).status == 200);
    b.runtime.stop();  // the store in memory has one connection, and it is the core's
    CHECK(b.store.reader().job(job)->value().state == JobState::queued);
}

TEST_CASE("one key in one batch makes one job") {
    RuntimeBench b;
    std::vector<std::future<ApiResult>> answers;
    for (int i = 0; i < 20; ++i) answers.push_back(b.ask(b.submission("key")));
    b.runtime.start();
    std::set<JobId> ids;
    for (auto& answer : answers) {
        const ApiResult result = b.got(answer);
        CHECK(result.status == 201);
        ids.insert(b.id_in(result));
    }
    CHECK(ids.size() == 1);
    b.runtime.stop();
    CHECK(b.store.reader().jobs({})->size() == 1);
}

TEST_CASE("a store that cannot be read is no empty store") {
    RuntimeBench b;
    b.runtime.start();
    auto made = b.ask(b.submission("key"));
    const JobId job = b.id_in(b.got(made));
    b.store.reads_fail = true;
    auto cancel = b.ask(CommandJob{0, job, JobVerb::cancel, "p"});
    auto again = b.ask(b.submission("key"));
    const ApiResult refused = b.got(cancel);
    CHECK(refused.status == 503);
    REQUIRE(refused.error.has_value());
    CHECK(refused.error->retry_after.has_value());
    CHECK(b.got(again).status == 503);
    b.store.reads_fail = false;
    auto later = b.ask(CommandJob{0, job, JobVerb::cancel, "p"});
    CHECK(b.got(later).status == 200);
    b.runtime.stop();
    CHECK(b.store.reader().jobs({})->size() == 1);
}

TEST_CASE("a store that never commits keeps nobody waiting, and does not keep the daemon from stopping") {
    RuntimeBench b;
    b.store.commit_fails = ErrorKind::busy;
    b.runtime.start();
    auto refused = b.ask(b.submission());
    CHECK(b.got(refused).status == 503);
    // An event that is nobody's request is tried again and again.
    b.runtime.post(ClockJumped{"test"}, {});
    const int before = b.store.commits;
    for (int i = 0; i < 200 && b.store.commits < before + 3; ++i) std::this_thread::sleep_for(std::chrono::milliseconds{20});
    CHECK(b.store.commits >= before + 3);
    auto stopped = std::async(std::launch::async, [&] { b.runtime.stop(); });
    CHECK(stopped.wait_for(std::chrono::seconds{20}) == std::future_status::ready);
    auto late = b.ask(b.submission());
    CHECK(b.got(late).status == 503);
}

TEST_CASE("what may be forgotten is forgotten by itself") {
    RuntimeBench b;
    b.runtime.start();
    for (int i = 0; i < 500 && b.store.prunes == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds{20});
    CHECK(b.store.prunes > 0);
}

}  // namespace
}  // namespace gf
