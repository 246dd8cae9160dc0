// GPU names. One exact alias table (config/aliases.csv) maps every provider's and nvidia-smi's spelling to a
// canonical name of config/gpus.csv; several rows may share a spelling, then the reported memory decides.
// Never a near match.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/bytes.hpp"
#include "model/result.hpp"

namespace gf {

inline constexpr double kReportedShare = 0.985;  // of the reported memory, what a process can ever see

struct GpuCard {
    std::string canonical;
    std::string vendor;
    std::string compute_capability;  // "8.9"; empty for cards that are not nvidia's
    int class_gb{0};                 // marketing class
    std::optional<Bytes> reported;   // what the driver reports, where known
    std::optional<std::int64_t> bandwidth_gb_s;
    std::string memory_type;                       // "GDDR6X", "HBM3"; empty = unknown
    std::optional<double> fp16_tensor_tflops;      // dense, with fp32 accumulate; absent = no tensor cores, or unknown
    std::optional<double> fp32_tflops;
    std::optional<double> int8_tops;               // dense
    bool bf16{false};
    bool fp8{false};
    bool fp4{false};
    std::int64_t nvlink_gb_s{0};  // both directions together, rounded down; 0 = the card has none
    std::string form_factor;      // "sxm", "pcie", …
    std::string tier;             // "datacenter", "workstation", "consumer", "edge"
    int release_year{0};          // 0 = unknown
};

/// What a driver reports for a whole card: as in the table, else what cards of its kind report of their class (some with
/// ECC on GDDR lose 6 %).
[[nodiscard]] Bytes reported_memory(const GpuCard& card);
/// What one process can use of `reported`: 98.5 % less the CUDA context (0.35 GiB; 0.5 on compute capability 8.0 and 9.x, 0.7 from 10.0
/// on, 1.3 on 7.0). `card` may be null: the context is then 0.35 GiB. Never below 0.
[[nodiscard]] Bytes usable_memory(const GpuCard* card, Bytes reported);
/// Of a whole card.
[[nodiscard]] Bytes usable_memory(const GpuCard& card);

class GpuNames {
 public:
    /// Parses the two tables (CSV text with header lines as shipped). Errors: `malformed` with the line; also
    /// for an alias of a card that is not in the first table, unless `other_aliases`: then they are of another
    /// table, and such rows are passed over.
    static Result<GpuNames> parse(std::string_view gpus_csv, std::string_view aliases_csv, bool other_aliases = false);

    /// What a provider ("runpod", "vastai", "nvidia-smi", …) calls `name`, with the memory per GPU that it
    /// reports, if it does. Case-insensitive; outer white space ignored. The provider's own rows are asked
    /// first; a spelling that they do not have is looked up among the card names of the whole table
    /// (canonical names, nvidia-smi and the clouds' card names; space, `-` and `_` ignored). Nothing for a
    /// name that is in none, when the memory fits none of the cards of that spelling (within 8 %), or when it
    /// is ambiguous and the memory is absent or settles nothing.
    [[nodiscard]] std::optional<std::string> canonical(std::string_view provider, std::string_view name,
                                                       std::optional<Bytes> memory) const;

    struct Typed {
        std::vector<std::string>
            canonical;  // every card that the typed name stands for (a family name has several)
        std::vector<std::string>
            suggestions;  // when `canonical` is empty: "did you mean", nearest first, at most 5
    };
    /// What a user typed in a spec; case, space, `-` and `_` ignored. A canonical name stands for that card
    /// alone. Else it stands for all cards that the alias table gives that name, and all cards of that
    /// family: a canonical name without its memory size, form factor or edition ("A100-SXM-80GB" is of the
    /// families A100, A100-SXM and A100-80GB; L40S is not of the family L40, "RTX-4090-D" not of RTX-4090).
    /// Never a near match.
    [[nodiscard]] Typed typed(std::string_view name) const;

    [[nodiscard]] const GpuCard* card(std::string_view canonical) const;
    [[nodiscard]] const std::vector<GpuCard>& cards() const { return cards_; }

 private:
    struct Alias {
        std::size_t card{0};
        std::optional<double> vram_gb;  // as this provider reports it
        bool needs_memory{
            false};  // the row's note says AMBIGUOUS: the spelling alone does not settle the card
    };
    using Rows = std::map<std::string, std::vector<Alias>, std::less<>>;

    Result<void> read_cards(std::string_view csv);
    Result<void> read_aliases(std::string_view csv, bool other_aliases);
    void index_families();
    [[nodiscard]] bool fits(const Alias& alias, Bytes memory) const;
    [[nodiscard]] std::optional<std::size_t> settle(const std::vector<Alias>& rows,
                                                    std::optional<Bytes> memory) const;

    std::vector<GpuCard> cards_;
    std::map<std::string, std::size_t, std::less<>> by_canonical_;
    std::map<std::string, std::size_t, std::less<>> by_folded_canonical_;
    std::map<std::string, Rows, std::less<>> by_provider_;  // provider -> lower-case name -> rows
    Rows card_names_;  // folded name -> rows of every provider that names cards
    std::map<std::string, std::vector<std::size_t>, std::less<>> typed_;  // folded family or alias -> cards
    std::vector<std::string> labels_;  // canonical and family names, for suggestions
};

}  // namespace gf
