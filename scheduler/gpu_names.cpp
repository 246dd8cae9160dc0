#include "scheduler/gpu_names.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <set>
#include <utility>

#include "model/money.hpp"
#include "model/spelling.hpp"
#include "scheduler/csv.hpp"
#include "scheduler/version.hpp"

namespace gf {
namespace {

// A card reports a little less than its class, and tables print GB for GiB (7.4 %): 8 % covers both and still
// tells 80 from 94 GB and 10 from 11 GB.
constexpr double kMemoryTolerance = 0.08;
constexpr std::size_t kSuggestionsMax = 5;
constexpr std::size_t kNameBytesMax = 128;

// Parts of a canonical name that tell variants of one chip apart. Everything else ("Ti", "SUPER", "D", "Ada")
// makes another card, so that a family never reaches over it.
constexpr std::array<std::string_view, 11> kVariantParts{"SXM", "SXM2", "SXM3",   "PCIe", "NVL",      "FHHL",
                                                         "OAM", "WS",   "Server", "MaxQ", "Blackwell"};

bool is_variant_part(std::string_view part) {
    if (std::ranges::find(kVariantParts, part) != kVariantParts.end()) return true;
    return part.size() > 2 && part.ends_with("GB") &&
           std::ranges::all_of(part.substr(0, part.size() - 2), [](char c) { return c >= '0' && c <= '9'; });
}

char lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/// For names as providers send them: case and outer white space do not count, all else does.
std::string exact(std::string_view s) {
    while (!s.empty() && is_space(s.front())) s.remove_prefix(1);
    while (!s.empty() && is_space(s.back())) s.remove_suffix(1);
    std::string out;
    for (const char c : s.substr(0, kNameBytesMax)) out.push_back(lower(c));
    return out;
}

/// For names as people type them.
std::string folded(std::string_view s) {
    std::string out;
    for (const char c : s.substr(0, kNameBytesMax))
        if (!is_space(c) && c != '-' && c != '_') out.push_back(lower(c));
    return out;
}

/// The first run of three digits or more, which is what people remember of a card; empty if there is none.
std::string model_number(std::string_view folded_name) {
    for (std::size_t at = 0; at < folded_name.size();) {
        const auto first = std::min(folded_name.find_first_of("0123456789", at), folded_name.size());
        const auto last = std::min(folded_name.find_first_not_of("0123456789", first), folded_name.size());
        if (last - first >= 3) return std::string(folded_name.substr(first, last - first));
        at = last;
    }
    return {};
}

std::vector<std::string_view> parts_of(std::string_view canonical) {
    std::vector<std::string_view> out;
    while (true) {
        const auto cut = canonical.find('-');
        out.push_back(canonical.substr(0, cut));
        if (cut == std::string_view::npos) return out;
        canonical.remove_prefix(cut + 1);
    }
}

/// Every name that is left of a canonical one when some of its variant parts (not none) are taken away.
std::set<std::string> families_of(std::string_view canonical) {
    const auto parts = parts_of(canonical);
    std::vector<std::size_t> variant;
    for (std::size_t i = 1; i < parts.size(); ++i)
        if (is_variant_part(parts[i])) variant.push_back(i);
    std::set<std::string> out;
    for (unsigned mask = 1; mask < (1U << std::min<std::size_t>(variant.size(), 6)); ++mask) {
        std::string name;
        for (std::size_t i = 0; i < parts.size(); ++i) {
            const auto at = std::ranges::find(variant, i);
            if (at != variant.end() && (mask >> (at - variant.begin()) & 1U) != 0) continue;
            if (!name.empty()) name += '-';
            name += parts[i];
        }
        out.insert(std::move(name));
    }
    return out;
}

/// A machine type ("gpu_8x_a100", "vcg-a16-2c-8g-2vram") names no card; those rows have a count, except for
/// the MIG slices, whose names are the card's with a suffix and which nobody types.
bool names_a_card(std::string_view gpu_count) {
    return gpu_count.empty();
}

/// These providers' spellings are names of cards as a driver or a price list prints them; the others' are
/// machine types.
bool is_card_name_source(std::string_view provider) {
    constexpr std::array<std::string_view, 7> sources{"nvidia-smi", "rocm-smi", "runpod", "runpod-display",
                                                      "vastai",     "generic",  "dstack"};
    return std::ranges::find(sources, provider) != sources.end();
}

Error bad_row(int line, std::string what) {
    return Error{.kind = ErrorKind::malformed,
                 .message = "line " + std::to_string(line) + ": " + std::move(what),
                 .line = line};
}

std::optional<double> number(std::string_view text) {
    const auto micros = parse_decimal_micros(text);
    if (!micros) return std::nullopt;
    return static_cast<double>(*micros) / 1e6;
}

Result<std::vector<std::size_t>> columns_of(const CsvTable& table,
                                            std::initializer_list<std::string_view> names) {
    std::vector<std::size_t> out;
    for (const auto name : names) {
        out.push_back(table.column(name));
        if (out.back() == table.columns.size())
            return fail(bad_row(1, "the column " + std::string(name) + " is missing"));
    }
    return out;
}

}  // namespace

Result<GpuNames> GpuNames::parse(std::string_view gpus_csv, std::string_view aliases_csv, bool other_aliases) {
    GpuNames names;
    if (auto read = names.read_cards(gpus_csv); !read) {
        read.error().message = "GPU table, " + read.error().message;
        return fail(std::move(read).error());
    }
    if (auto read = names.read_aliases(aliases_csv, other_aliases); !read) {
        read.error().message = "GPU alias table, " + read.error().message;
        return fail(std::move(read).error());
    }
    names.index_families();
    return names;
}

Result<void> GpuNames::read_cards(std::string_view csv) {
    auto table = parse_csv(csv);
    if (!table) return fail(std::move(table).error());
    const auto at =
        columns_of(*table, {"canonical_name", "vendor", "compute_capability", "vram_gb", "reported_vram_mib",
                            "memory_bandwidth_gb_s", "bf16_supported", "fp8_supported", "nvlink_gb_s"});
    if (!at) return fail(at.error());
    for (const auto& row : table->rows) {
        const auto field = [&](std::size_t i) -> const std::string& { return row.fields[(*at)[i]]; };
        // A table of the user's own may leave these out: what they would say is then unknown.
        const auto extra = [&](std::string_view name) {
            const std::size_t column = table->column(name);
            return column < row.fields.size() ? row.fields[column] : std::string();
        };
        const auto vram = number(field(3));
        if (field(0).empty() || !vram || *vram < 1 || *vram > 65'536)
            return fail(bad_row(row.line, "needs canonical_name and vram_gb (1..65536)"));
        for (const auto& column : {"bf16_supported", "fp8_supported", "fp4_supported"})
            if (const auto text = extra(column); !text.empty() && text != "yes" && text != "no")
                return fail(bad_row(row.line, std::string(column) + " must be yes or no, not " + text));
        for (const auto& column : {"reported_vram_mib", "memory_bandwidth_gb_s", "nvlink_gb_s", "fp16_tensor_tflops_dense", "fp32_tflops",
                                   "int8_tops_dense", "release_year"})
            if (const auto text = extra(column); !text.empty() && !(number(text).value_or(-1) >= 0 && *number(text) < 1e9))
                return fail(bad_row(row.line, std::string(column) + " must be empty or a number of 0 and more, not " + text));
        if (field(1) != "nvidia" && field(1) != "amd" && field(1) != "intel")
            return fail(bad_row(row.line, "vendor must be nvidia, amd or intel, not " + field(1)));
        if (!field(2).empty() && !version_at_least(field(2), "0"))
            return fail(bad_row(row.line, "compute_capability must be empty or like 8.9, not " + field(2)));
        GpuCard card{.canonical = field(0),
                     .vendor = field(1),
                     .compute_capability = field(2),
                     .class_gb = static_cast<int>(*vram),
                     .reported = {},
                     .bandwidth_gb_s = {},
                     .memory_type = extra("memory_type"),
                     .fp16_tensor_tflops = number(extra("fp16_tensor_tflops_dense")),
                     .fp32_tflops = number(extra("fp32_tflops")),
                     .int8_tops = number(extra("int8_tops_dense")),
                     .bf16 = field(6) == "yes",
                     .fp8 = field(7) == "yes",
                     .fp4 = extra("fp4_supported") == "yes",
                     .nvlink_gb_s = 0,
                     .form_factor = extra("form_factor"),
                     .tier = extra("tier"),
                     .release_year = static_cast<int>(number(extra("release_year")).value_or(0))};
        if (const auto mib = number(field(4)))
            card.reported = Bytes{std::llround(*mib * static_cast<double>(kMiB))};
        if (const auto bandwidth = number(field(5)))
            card.bandwidth_gb_s = static_cast<std::int64_t>(*bandwidth);
        if (const auto link = number(field(8))) card.nvlink_gb_s = static_cast<std::int64_t>(*link);
        if (!by_canonical_.emplace(card.canonical, cards_.size()).second ||
            !by_folded_canonical_.emplace(folded(card.canonical), cards_.size()).second)
            return fail(bad_row(row.line, card.canonical + " is there twice"));
        cards_.push_back(std::move(card));
    }
    if (cards_.empty()) return fail(bad_row(1, "it has no cards"));
    return {};
}

Result<void> GpuNames::read_aliases(std::string_view csv, bool other_aliases) {
    auto table = parse_csv(csv);
    if (!table) return fail(std::move(table).error());
    const auto at = columns_of(*table, {"provider", "provider_name_or_type", "canonical_name", "gpu_count",
                                        "vram_gb_as_reported", "notes"});
    if (!at) return fail(at.error());
    for (const auto& row : table->rows) {
        const auto field = [&](std::size_t i) -> const std::string& { return row.fields[(*at)[i]]; };
        const auto card = by_canonical_.find(field(2));
        if (card == by_canonical_.end() && other_aliases) continue;
        if (card == by_canonical_.end()) return fail(bad_row(row.line, "there is no card " + field(2)));
        if (field(0).empty() || field(1).empty())
            return fail(bad_row(row.line, "needs provider and provider_name_or_type"));
        const Alias alias{.card = card->second,
                          .vram_gb = number(field(4)),
                          .needs_memory = field(5).find("AMBIGUOUS") != std::string::npos};
        by_provider_[exact(field(0))][exact(field(1))].push_back(alias);
        if (!names_a_card(field(3))) continue;
        typed_[folded(field(1))].push_back(alias.card);
        if (is_card_name_source(field(0))) card_names_[folded(field(1))].push_back(alias);
    }
    for (const auto& [name, card] : by_folded_canonical_)
        card_names_[name].push_back(Alias{.card = card, .vram_gb = {}, .needs_memory = false});
    return {};
}

void GpuNames::index_families() {
    std::set<std::string> labels;
    for (std::size_t i = 0; i < cards_.size(); ++i) {
        labels.insert(cards_[i].canonical);
        for (const auto& family : families_of(cards_[i].canonical)) {
            typed_[folded(family)].push_back(i);
            labels.insert(family);
        }
    }
    for (auto& [name, cards] : typed_) {
        std::ranges::sort(cards);
        cards.erase(std::ranges::unique(cards).begin(), cards.end());
    }
    labels_.assign(labels.begin(), labels.end());
}

bool GpuNames::fits(const Alias& alias, Bytes memory) const {
    const auto near = [&](double reference) {
        return std::abs(static_cast<double>(memory.count) - reference) <= kMemoryTolerance * reference;
    };
    // A row with its own figure speaks for itself: a quarter of a card (a MIG slice) is not the whole card.
    if (alias.vram_gb)
        return near(*alias.vram_gb * static_cast<double>(kGiB)) ||
               near(*alias.vram_gb * static_cast<double>(kGB));
    const GpuCard& card = cards_[alias.card];
    return (card.reported && near(static_cast<double>(card.reported->count))) ||
           near(card.class_gb * static_cast<double>(kGiB)) || near(card.class_gb * static_cast<double>(kGB));
}

std::optional<std::size_t> GpuNames::settle(const std::vector<Alias>& rows,
                                            std::optional<Bytes> memory) const {
    std::set<std::size_t> found;
    for (const auto& row : rows) {
        if (memory ? !fits(row, *memory) : row.needs_memory) continue;
        found.insert(row.card);
    }
    // Without a memory a second reading of the spelling leaves it open, also when only that row says so.
    if (!memory && std::ranges::any_of(rows, &Alias::needs_memory)) return std::nullopt;
    if (found.size() != 1) return std::nullopt;
    return *found.begin();
}

std::optional<std::string> GpuNames::canonical(std::string_view provider, std::string_view name,
                                               std::optional<Bytes> memory) const {
    if (memory && memory->count <= 0) memory.reset();
    if (const auto own = by_provider_.find(exact(provider)); own != by_provider_.end())
        if (const auto rows = own->second.find(exact(name)); rows != own->second.end())
            if (const auto card = settle(rows->second, memory)) return cards_[*card].canonical;
    const auto rows = card_names_.find(folded(name));
    if (rows == card_names_.end()) return std::nullopt;
    const auto card = settle(rows->second, memory);
    if (!card) return std::nullopt;
    return cards_[*card].canonical;
}

GpuNames::Typed GpuNames::typed(std::string_view name) const {
    Typed out;
    const std::string wanted = folded(name);
    if (name.size() > kNameBytesMax || wanted.empty()) return out;
    // The maker's name in front says nothing that the rest does not.
    constexpr std::string_view kMaker = "nvidia";
    for (const std::string& as : {wanted, wanted.starts_with(kMaker) ? wanted.substr(kMaker.size()) : std::string(kMaker) + wanted}) {
        if (const auto one = by_folded_canonical_.find(as); one != by_folded_canonical_.end()) {
            out.canonical.push_back(cards_[one->second].canonical);
            return out;
        }
        if (const auto many = typed_.find(as); many != typed_.end()) {
            for (const auto card : many->second) out.canonical.push_back(cards_[card].canonical);
            return out;
        }
    }
    // Not a name: what is near in spelling, has the typed text inside ("4090"), stands inside of it ("GeForce RTX 4090 24GB")
    // or has its number ("4090 Ti") is only ever a suggestion.
    const std::string number = model_number(wanted);
    std::vector<std::pair<std::size_t, std::string_view>> near;
    std::pair<std::size_t, std::string_view> within{2, {}};  // the longest label that stands inside: it goes first
    for (const auto& label : labels_) {
        const std::string other = folded(label);
        const std::size_t distance = spelling_distance(wanted, other);
        const bool inside = (wanted.size() >= 2 && other.find(wanted) != std::string::npos) ||
                            (other.size() >= 3 && wanted.find(other) != std::string::npos) ||
                            (!number.empty() && other.find(number) != std::string::npos);
        if (wanted.find(other) != std::string::npos && other.size() > within.first) within = {other.size(), label};
        if (inside || distance <= std::max<std::size_t>(1, std::min(wanted.size(), other.size()) / 3))
            near.emplace_back(distance, label);
    }
    std::ranges::sort(near);
    if (!within.second.empty()) out.suggestions.emplace_back(within.second);
    for (const auto& [distance, label] : near) {
        if (label == within.second) continue;
        if (out.suggestions.size() == kSuggestionsMax) break;
        out.suggestions.emplace_back(label);
    }
    return out;
}

Bytes reported_memory(const GpuCard& card) {
    if (card.reported) return *card.reported;
    // ECC on GDDR takes a sixteenth. The list is of the cards that print so.
    constexpr std::array<std::string_view, 7> ecc{"A10", "A10G", "L4", "A40", "L40", "L40S", "T4"};
    const double share = std::ranges::find(ecc, card.canonical) != ecc.end() ? 0.94 : 0.995;
    return Bytes{std::llround(share * card.class_gb * static_cast<double>(kGiB))};
}

Bytes usable_memory(const GpuCard* card, Bytes reported) {
    const std::string_view cc = card != nullptr ? std::string_view(card->compute_capability) : std::string_view();
    double context_gib = 0.35;
    if (version_at_least(cc, "10.0").value_or(false)) context_gib = 0.7;
    else if (cc == "8.0" || cc.starts_with("9.")) context_gib = 0.5;
    else if (cc == "7.0") context_gib = 1.3;
    const double usable = static_cast<double>(reported.count) * kReportedShare - context_gib * static_cast<double>(kGiB);
    return Bytes{std::llround(std::max(0.0, usable))};
}

Bytes usable_memory(const GpuCard& card) { return usable_memory(&card, reported_memory(card)); }

const GpuCard* GpuNames::card(std::string_view canonical) const {
    const auto at = by_canonical_.find(canonical);
    return at == by_canonical_.end() ? nullptr : &cards_[at->second];
}

}  // namespace gf
