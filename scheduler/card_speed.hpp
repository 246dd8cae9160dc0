// How fast one card is beside another before a job has shown it: the prior of learned throughput (throughput.hpp), and the rank
// of a job that nothing is known of. Made once from the card table and config/throughput.csv, then read-only. Pure.
//
// Speeds are relative; one V100-SXM2-16GB is 1 in each kind of work.
// * training: what a card reached as a mean over classic models at mixed precision, where that was measured. Several series of
//   measurements are joined over the cards that they share. Any other card by a power of its dense tensor rate and of its memory
//   bandwidth, fitted to the measured ones by least squares: neither alone ranks cards well (left out one by one, the fit is 9 %
//   off in the mean and 39 % at worst, the tensor rate alone 17 and 57 %, the nearest card of a generation by its rate 30 and 132 %).
// * decode (token by token, bandwidth bound): what GDDR cards reached where measured, else the mean of those per GB/s times the
//   bandwidth. HBM reaches 0.70 of its bandwidth in batches of 8 and more where GDDR reaches 0.80 (catalog/vram.md section 14). Its
//   measured single streams (0.45) are no part of the table: there the engine is the bound, and a batch job is no single stream.
// * Several GPUs: n^(1 - loss), the loss fitted to the measured sets of 2, 4 and 8, apart for cards that are linked by NVLink and
//   cards that are not.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "model/enum_text.hpp"
#include "model/job_spec.hpp"
#include "model/result.hpp"
#include "scheduler/gpu_names.hpp"

namespace gf {

/// What bounds a job. A spec does not say it: training is taken for compute, batch inference for decoding.
enum class WorkKind : std::uint8_t { training, decode };
GF_ENUM_NAMES(WorkKind, {{E::training, "training"}, {E::decode, "decode"}});
[[nodiscard]] constexpr WorkKind work_of(JobKind kind) {
    return kind == JobKind::training ? WorkKind::training : WorkKind::decode;
}

struct CardSpeed {
    double relative{0};    // above 0
    bool measured{false};  // false: by the fit
};

class CardSpeeds {
 public:
    /// `throughput_csv`: the shipped config/throughput.csv (canonical_name, gpu_count, work, series, value, …). Errors: `malformed`
    /// with the line: a card that the table does not have, a value or count out of range, too few rows to fit.
    static Result<CardSpeeds> parse(const GpuNames& cards, std::string_view throughput_csv);

    /// One whole card. Nothing for a name or a card of which neither speed nor bandwidth is known.
    [[nodiscard]] std::optional<CardSpeed> card(std::string_view canonical, WorkKind work) const;
    /// `gpus` (1 or more) of them as one machine, each of which is `share` (0 to 1) of a card.
    [[nodiscard]] std::optional<CardSpeed> machine(std::string_view canonical, WorkKind work, int gpus, double share) const;
    /// The card of the table that is the slowest at this work: what a card of unknown speed is taken for.
    [[nodiscard]] const std::string& slowest(WorkKind work) const { return work == WorkKind::training ? slowest_training_ : slowest_decode_; }
    /// How many times one card's speed `gpus` of them reach together.
    [[nodiscard]] double scaling(int gpus, bool linked) const;

 private:
    struct Entry {
        std::optional<CardSpeed> training;
        std::optional<CardSpeed> decode;
        bool linked{false};
    };
    std::map<std::string, Entry, std::less<>> cards_;
    std::string slowest_training_;
    std::string slowest_decode_;
    double loss_linked_{0};
    double loss_apart_{0};
};

}  // namespace gf
