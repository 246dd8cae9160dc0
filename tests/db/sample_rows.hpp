// Rows for the store's tests: random in every field, then bent to what the schema demands.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "db/store.hpp"
#include "model/id.hpp"
#include "model/records.hpp"
#include "tests/db/row_parts.hpp"

namespace gf::test {

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
        if (!same(a[i], b[i])) return false;
    return true;
}

/// Texts that break careless storage: quotes, a NUL, other alphabets, an emoji, a right-to-left mark, nothing at all.
[[nodiscard]] std::string random_text(Entropy& entropy);

template <class T>
void randomise(Entropy& e, T& v);

template <class Tag>
void randomise(Entropy& e, Strong<Tag, std::string>& v) {
    v = Strong<Tag, std::string>{"x" + std::to_string(e.next())};
}
template <class T>
void randomise(Entropy& e, std::optional<T>& v) {
    v.reset();
    if (e.below(3) != 0) randomise(e, v.emplace());
}
template <class T>
void randomise(Entropy& e, T& v) {
    if constexpr (std::is_same_v<T, std::string>) v = random_text(e);
    else if constexpr (std::is_same_v<T, bool>) v = e.below(2) == 1;
    else if constexpr (std::is_same_v<T, double>) v = static_cast<double>(e.next() >> 11) / 1e3;
    else if constexpr (std::is_same_v<T, Instant>) v = instant_of(static_cast<std::int64_t>(e.below(1ULL << 42)));
    else if constexpr (std::is_same_v<T, Millis>) v = Millis{static_cast<std::int64_t>(e.below(1ULL << 40))};
    else if constexpr (std::is_integral_v<T>) v = static_cast<T>(e.below(sizeof(T) == 8 ? 1ULL << 62 : 1ULL << 30));
    else if constexpr (requires { EnumNames<T>::table; }) v = EnumNames<T>::table[e.below(EnumNames<T>::table.size())].first;
    else if constexpr (HasParts<T>) std::apply([&](auto&... field) { (randomise(e, field), ...); }, parts(v));
    else v = T{static_cast<std::int64_t>(e.below(1ULL << 61))};  // Bytes, Usd, UsdPerHour
}

/// Makes rows that refer to each other properly, with ids that grow.
class Samples {
 public:
    explicit Samples(std::uint64_t seed) : entropy_(seed), ids_(Entropy{seed}) {}
    [[nodiscard]] std::string id(const char* prefix);
    [[nodiscard]] JobRecord job(JobState state = JobState::queued);
    [[nodiscard]] TaskRecord task(const JobRecord& job, TaskState state = TaskState::waiting, int index = 0);
    [[nodiscard]] MachineRecord machine(MachineState state = MachineState::requested);
    [[nodiscard]] MachineRecord machine(const TaskRecord& task, MachineState state = MachineState::requested);
    [[nodiscard]] AttemptRecord attempt(const TaskRecord& task, int number,
                                        AttemptState state = AttemptState::leased);
    [[nodiscard]] LedgerRecord ledger(const MachineRecord& machine, int number);
    [[nodiscard]] ReservationRecord reservation(const MachineRecord& machine);
    [[nodiscard]] CheckpointRecord checkpoint(const TaskRecord& task, std::int64_t generation);
    [[nodiscard]] OutputRecord output(const TaskRecord& task);
    [[nodiscard]] EventRecord event(const JobId& job);
    [[nodiscard]] AlertRecord alert();
    [[nodiscard]] IdempotencyRecord idempotency(const JobRecord& job);
    [[nodiscard]] DecisionRecord decision(const JobRecord& job);
    [[nodiscard]] TokenRecord token();
    [[nodiscard]] Entropy& entropy() { return entropy_; }

 private:
    Entropy entropy_;
    IdMaker ids_;
    std::int64_t clock_{1'700'000'000'000};
};

/// A job's own rules after its state was changed by a test.
void settle(JobRecord& row);
void settle(AttemptRecord& row);
void settle(MachineRecord& row);

/// An empty folder that is removed with everything in it. `in_ram` (a few megabytes at most) spares tests with hundreds
/// of small stores the disk's sync times; a killed process loses nothing there either.
class TempFolder {
 public:
    explicit TempFolder(bool in_ram = false);
    ~TempFolder();
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;
    [[nodiscard]] std::string file(const char* name) const { return (path_ / name).string(); }
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
    std::filesystem::path path_;
};

/// Opens and commits, or fails the test with the store's own message.
[[nodiscard]] std::unique_ptr<Store> open(const std::string& path = ":memory:");
std::int64_t commit(Store& store, const std::vector<RowChange>& changes);

}  // namespace gf::test
