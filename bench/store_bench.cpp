// What the store can do on this machine: durable commits by batch size beside the disk's own sync rate, reads among many jobs,
// and the in-memory store that the simulation lives on.
//
//   bench_store [FOLDER] [JOBS]      default: the temporary folder, 100,000 jobs
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "db/store.hpp"
#include "model/id.hpp"

namespace {

using namespace gf;
using Clock = std::chrono::steady_clock;

constexpr double kSecondsPerMeasure = 2.0;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

template <class T>
T must(Result<T> result) {
    if (result) return *std::move(result);
    fmt::print(stderr, "bench_store: {}\n", result.error().message);
    std::exit(1);
}

/// How often per second `body` can be done, over a fixed time.
template <class Body>
double rate(Body body) {
    const auto start = Clock::now();
    long done = 0;
    do {
        body();
        ++done;
    } while (seconds_since(start) < kSecondsPerMeasure);
    return static_cast<double>(done) / seconds_since(start);
}

template <class Body>
double milliseconds(Body body) {
    const auto start = Clock::now();
    body();
    return seconds_since(start) * 1e3;
}

/// A submission as the core writes it: job, task, event, and a spec of the usual length.
class Submissions {
 public:
    void add_to(std::vector<RowChange>& rows) {
        now_ += Millis{1};
        JobRecord job;
        job.id = JobId{ids_.make("job_", now_)};
        job.name = "bench";
        job.project = "default";
        job.reason = "submitted";
        job.spec = spec_;
        job.principal = "socket";
        job.created_at = job.updated_at = now_;
        TaskRecord task;
        task.id = TaskId{ids_.make("tsk_", now_)};
        task.job = job.id;
        task.waiting_since = task.created_at = now_;
        EventRecord event{.at = now_, .kind = "job_state", .job = job.id, .state = "queued", .reason = "submitted"};
        rows.emplace_back(PutJob{std::move(job), {}});
        rows.emplace_back(PutTask{std::move(task), {}});
        rows.emplace_back(AddEvent{std::move(event)});
    }
    [[nodiscard]] std::vector<RowChange> batch(int jobs) {
        std::vector<RowChange> rows;
        for (int i = 0; i < jobs; ++i) add_to(rows);
        return rows;
    }
    [[nodiscard]] Instant now() const { return now_; }

 private:
    IdMaker ids_{Entropy{1}};
    Instant now_{instant_of(1'800'000'000'000)};
    std::string spec_ = std::string(415, 's');
};

double sync_rate(const std::filesystem::path& folder) {
    const auto path = folder / "sync";
    const int fd = ::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    const std::string page(4096, 'x');
    const double per_second = rate([&] {
        if (::write(fd, page.data(), page.size()) < 0 || ::fdatasync(fd) != 0) std::exit(1);
    });
    ::close(fd);
    std::filesystem::remove(path);
    return per_second;
}

void commits(const std::string& title, const std::string& path, double syncs) {
    auto store = must(open_sqlite_store(path));
    Submissions submissions;
    for (const int jobs : {1, 16, 64, 256, 1024}) {
        const double per_second = rate([&] { (void)must(store->commit(submissions.batch(jobs))); });
        const std::string share = syncs > 0 ? fmt::format("{:6.2f} of the disk's syncs", per_second / syncs) : "";
        fmt::print("{:<10} {:>5} jobs per commit {:>9.0f} commits/s {:>9.0f} jobs/s {:>9.0f} rows/s  {}\n", title, jobs,
                   per_second, per_second * jobs, per_second * jobs * 3, share);
    }
}

void reads(const std::string& path, int jobs) {
    auto store = must(open_sqlite_store(path));
    Submissions submissions;
    const double filled = milliseconds([&] {
        for (int done = 0; done < jobs; done += 5000) (void)must(store->commit(submissions.batch(std::min(5000, jobs - done))));
    });
    fmt::print("\n{} queued jobs written in {:.1f} s, {:.0f} MB\n", jobs, filled / 1e3,
               static_cast<double>(std::filesystem::file_size(path)) / 1e6);
    store.reset();
    fmt::print("open                      {:>9.2f} ms\n", milliseconds([&] { store = must(open_sqlite_store(path)); }));
    fmt::print("rebuild of the live state {:>9.2f} ms\n", milliseconds([&] { (void)must(store->load_live()); }));
    auto& r = store->reader();
    const auto middle = must(r.jobs({.limit = 1000})).back();
    const auto show = [](const char* what, double per_second) { fmt::print("{:<25} {:>9.3f} ms\n", what, 1e3 / per_second); };
    show("counts by state", rate([&] { (void)must(r.job_counts()); }));
    show("one job", rate([&] { (void)must(r.job(middle.id)); }));
    show("page of 100 jobs", rate([&] { (void)must(r.jobs({.cursor = middle.id.get(), .limit = 100})); }));
    show("page by state", rate([&] { (void)must(r.jobs({.state = JobState::queued, .limit = 100})); }));
    show("page, nothing found", rate([&] { (void)must(r.jobs({.state = JobState::held, .project = "none"})); }));
    show("next 64 of the queue", rate([&] { (void)must(r.queue({}, 64, submissions.now())); }));
    QueueCursor deep;
    for (int i = 0; i < std::min(jobs / 2000, 200); ++i) {
        auto page = must(r.queue(deep, 1000, submissions.now()));
        if (!page.next) break;
        deep = std::move(*page.next);
    }
    show("64 of the queue, deep", rate([&] { (void)must(r.queue(deep, 64, submissions.now())); }));
}

}  // namespace

int main(int argc, char** argv) {
    const std::filesystem::path parent = argc > 1 ? argv[1] : std::filesystem::temp_directory_path();
    const int jobs = argc > 2 ? std::atoi(argv[2]) : 100'000;
    auto pattern = (parent / "gf-bench-XXXXXX").string();
    if (jobs < 1 || ::mkdtemp(pattern.data()) == nullptr) {
        fmt::print(stderr, "usage: bench_store [FOLDER] [JOBS]\n");
        return 2;
    }
    const std::filesystem::path folder = pattern;
    const double syncs = sync_rate(folder);
    fmt::print("this disk: {:.0f} appends of 4 KiB with fdatasync per second\n", syncs);
    commits("durable", (folder / "commits.db").string(), syncs);
    commits("in memory", ":memory:", 0);
    reads((folder / "reads.db").string(), jobs);
    std::filesystem::remove_all(folder);
}
