#include "tests/db/sample_rows.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace gf::test {

std::string random_text(Entropy& e) {
    using namespace std::string_literals;
    static const std::array samples{""s, "a"s, "it's \"quoted\"; drop table jobs;--"s, "nul\0inside"s,
                                    "Обучение №1 🎤/..\u202e"s, "a\nb\tc\r"s, "%s?1:x@y$z"s, "\x01\x7f"s};
    const auto pick = e.below(samples.size() + 2);
    if (pick < samples.size()) return samples[pick];
    return std::string(e.below(3000), static_cast<char>('a' + e.below(26)));
}

std::string Samples::id(const char* prefix) { return ids_.make(prefix, instant_of(clock_ += 3)); }

void settle(JobRecord& row) {
    if (is_final(row.state) && !row.ended_at) row.ended_at = row.updated_at;
    if (!is_final(row.state)) row.ended_at.reset();
}

void settle(AttemptRecord& row) {
    if (row.state != AttemptState::ended) {
        row.ended_at.reset();
        row.cause.reset();
        return;
    }
    if (!row.ended_at) row.ended_at = row.created_at;
    if (!row.cause) row.cause = Cause::spot_lost;
}

void settle(MachineRecord& row) {
    if (row.state != MachineState::gone) row.gone_at.reset();
    else if (!row.gone_at) row.gone_at = row.created_at;
}

JobRecord Samples::job(JobState state) {
    JobRecord row;
    randomise(entropy_, row);
    row.id = JobId{id("job_")};
    row.state = state;
    row.priority = static_cast<int>(entropy_.below(101));
    settle(row);
    return row;
}

TaskRecord Samples::task(const JobRecord& job, TaskState state, int index) {
    TaskRecord row;
    randomise(entropy_, row);
    row.id = TaskId{id("tsk_")};
    row.job = job.id;
    row.index = index;
    row.state = state;
    row.priority = job.priority;
    return row;
}

MachineRecord Samples::machine(MachineState state) {
    MachineRecord row;
    randomise(entropy_, row);
    row.id = MachineId{id("mch_")};
    row.tag = MachineTag{machine_tag("abcd1234", row.id.get())};
    row.state = state;
    row.job = {};
    row.task = {};
    row.watch = false;
    settle(row);
    return row;
}

MachineRecord Samples::machine(const TaskRecord& task, MachineState state) {
    auto row = machine(state);
    row.job = task.job;
    row.task = task.id;
    return row;
}

AttemptRecord Samples::attempt(const TaskRecord& task, int number, AttemptState state) {
    AttemptRecord row;
    randomise(entropy_, row);
    row.id = AttemptId{id("att_")};
    row.task = task.id;
    row.job = task.job;
    row.number = number;
    row.state = state;
    row.machine = {};
    if (row.exit_code) row.exit_signal.reset();
    settle(row);
    return row;
}

LedgerRecord Samples::ledger(const MachineRecord& machine, int number) {
    LedgerRecord row;
    randomise(entropy_, row);
    row.machine = machine.id;
    row.number = number;
    row.job = machine.job;
    if (row.until) row.until = row.from + Seconds{static_cast<std::int64_t>(entropy_.below(100'000))};
    return row;
}

ReservationRecord Samples::reservation(const MachineRecord& machine) {
    ReservationRecord row;
    randomise(entropy_, row);
    row.machine = machine.id;
    row.job = machine.job;
    return row;
}

CheckpointRecord Samples::checkpoint(const TaskRecord& task, std::int64_t generation) {
    CheckpointRecord row;
    randomise(entropy_, row);
    row.id = CheckpointId{id("ckp_")};
    row.task = task.id;
    row.job = task.job;
    row.generation = generation;
    row.attempt = 1;
    return row;
}

OutputRecord Samples::output(const TaskRecord& task) {
    OutputRecord row;
    randomise(entropy_, row);
    row.job = task.job;
    row.task = task.id;
    row.attempt = 2;
    return row;
}

EventRecord Samples::event(const JobId& job) {
    EventRecord row;
    randomise(entropy_, row);
    row.at = instant_of(clock_ += 7);
    row.job = job;
    return row;
}

AlertRecord Samples::alert() {
    static constexpr std::array severities{"info", "warning", "critical"};
    AlertRecord row;
    randomise(entropy_, row);
    row.id = AlertId{id("alr_")};
    row.severity = severities[entropy_.below(severities.size())];
    row.dedupe = "key-" + row.id.get();
    return row;
}

IdempotencyRecord Samples::idempotency(const JobRecord& job) {
    IdempotencyRecord row;
    randomise(entropy_, row);
    row.key += job.id.get();
    row.job = job.id;
    return row;
}

DecisionRecord Samples::decision(const JobRecord& job) {
    DecisionRecord row;
    randomise(entropy_, row);
    row.job = job.id;
    return row;
}

TokenRecord Samples::token() {
    TokenRecord row;
    randomise(entropy_, row);
    row.id = TokenId{id("tok_")};
    row.sha256 += row.id.get();
    return row;
}

TempFolder::TempFolder(bool in_ram) {
    const bool has_ram = in_ram && ::access("/dev/shm", W_OK) == 0;
    const std::filesystem::path parent = has_ram ? "/dev/shm" : std::filesystem::temp_directory_path();
    auto pattern = (parent / "gf-db-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
}

TempFolder::~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

std::unique_ptr<Store> open(const std::string& path) {
    auto store = open_sqlite_store(path);
    REQUIRE_MESSAGE(store.has_value(), (store ? "" : store.error().message));
    return *std::move(store);
}

std::int64_t commit(Store& store, const std::vector<RowChange>& changes) {
    const auto seq = store.commit(changes);
    REQUIRE_MESSAGE(seq.has_value(), (seq ? "" : seq.error().message));
    return *seq;
}

}  // namespace gf::test
