// GPU names. One exact alias table (config/aliases.csv) maps every provider's and nvidia-smi's spelling to a canonical
// name of config/gpus.csv; several rows may share a spelling, then the reported memory decides. Never a near match.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/bytes.hpp"
#include "model/result.hpp"

namespace gf {

struct GpuCard {
    std::string canonical;
    std::string vendor;
    std::string compute_capability;   // "8.9"
    int class_gb{0};                  // marketing class
    std::optional<Bytes> reported;    // what the driver reports, where known
    std::optional<std::int64_t> bandwidth_gb_s;
    bool bf16{false};
    bool fp8{false};
    std::int64_t nvlink_gb_s{0};
};

class GpuNames {
 public:
    /// Parses the two tables (CSV text with header lines as shipped). Errors: `malformed` with the line.
    static Result<GpuNames> parse(std::string_view gpus_csv, std::string_view aliases_csv);

    /// What a provider ("runpod", "vastai", "nvidia-smi", …) calls `name`, with the memory per GPU that it reports, if it
    /// does. Case-insensitive, outer white space ignored. Nothing for a name that is not in the table, or when the
    /// spelling is ambiguous and the memory fits none of its cards (within 8 %) or is absent and does not settle it.
    [[nodiscard]] std::optional<std::string> canonical(std::string_view provider, std::string_view name,
                                                       std::optional<Bytes> memory) const;

    struct Typed {
        std::vector<std::string> canonical;    // every card that the typed name stands for (a family name has several)
        std::vector<std::string> suggestions;  // when `canonical` is empty: "did you mean"
    };
    /// What a user typed in a spec: canonical names and documented aliases, case, space, `-` and `_` ignored; family names
    /// ("H100", "A100") stand for all their variants, each judged by its own memory. Never a near match.
    [[nodiscard]] Typed typed(std::string_view name) const;

    [[nodiscard]] const GpuCard* card(std::string_view canonical) const;
    [[nodiscard]] const std::vector<GpuCard>& cards() const { return cards_; }

 private:
    struct Alias {
        std::string provider;
        std::string folded;        // lower case, for exact look-up
        std::string canonical;
        std::optional<int> vram_gb;
    };
    std::vector<GpuCard> cards_;
    std::vector<Alias> aliases_;   // sorted by (provider, folded)
};

}  // namespace gf
