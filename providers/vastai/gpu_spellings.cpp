#include "providers/vastai/gpu_spellings.hpp"

#include <algorithm>
#include <array>

namespace gf::vastai {
namespace {

// Rows and queries use spaces; the underscores of the vendor's command line never travel.
constexpr auto kNames = std::to_array<std::string_view>({
    "A10", "A100 PCIE", "A100 SXM", "A100 SXM4", "A100X", "A10g", "A16", "A30", "A40", "A800 PCIE", "B200",
    "B300", "GH200 SXM", "GP100", "GTX 1060", "GTX 1070", "GTX 1070 Ti", "GTX 1080", "GTX 1080 Ti",
    "GTX 1650", "GTX 1660", "GTX 1660 S", "GTX 1660 Ti", "H100 NVL", "H100 PCIE", "H100 SXM", "H200",
    "H200 NVL", "InstinctMI100", "InstinctMI210", "InstinctMI250X", "InstinctMI50", "L4", "L40", "L40S",
    "PRO W6800", "PRO W7900", "Q RTX 4000", "Q RTX 5000", "Q RTX 6000", "Q RTX 8000", "Quadro GV100",
    "Quadro P4000", "Quadro P5000", "Quadro P6000", "RTX 2000Ada", "RTX 2060", "RTX 2060S", "RTX 2070",
    "RTX 2070S", "RTX 2080", "RTX 2080 Ti", "RTX 2080S", "RTX 3050", "RTX 3060", "RTX 3060 Ti",
    "RTX 3060 laptop", "RTX 3070", "RTX 3070 Ti", "RTX 3080", "RTX 3080 Ti", "RTX 3090", "RTX 3090 Ti",
    "RTX 4000Ada", "RTX 4060", "RTX 4060 Ti", "RTX 4070", "RTX 4070 Ti", "RTX 4070S", "RTX 4070S Ti",
    "RTX 4080", "RTX 4080S", "RTX 4090", "RTX 4090D", "RTX 4500Ada", "RTX 5000Ada", "RTX 5060",
    "RTX 5060 Ti", "RTX 5070", "RTX 5070 Ti", "RTX 5080", "RTX 5090", "RTX 5880Ada", "RTX 6000Ada",
    "RTX A2000", "RTX A4000", "RTX A4500", "RTX A5000", "RTX A6000", "RTX PRO 4000", "RTX PRO 4500",
    "RTX PRO 5000", "RTX PRO 6000", "RTX PRO 6000 Max-Q", "RTX PRO 6000 S", "RTX PRO 6000 WS",
    "RX 7900 XTX", "Tesla K80", "Tesla M40", "Tesla P100", "Tesla P4", "Tesla P40", "Tesla T4",
    "Tesla V100", "Titan RTX", "Titan V", "Titan X", "Titan Xp",
});

// One name may hide several memory sizes ("A100 SXM4" is 40 or 80 GB), so a name is tried with each size that is sold.
constexpr std::array kSizesGib{2,  3,  4,  5,  6,  8,  10, 11, 12, 15,  16,  18,  20,  22,
                               24, 32, 40, 45, 48, 64, 80, 94, 96, 128, 141, 180, 192, 288};

}  // namespace

std::vector<std::string> spellings_of(const std::vector<std::string>& canonical, const GpuLookup& lookup) {
    std::vector<std::string> out;
    if (canonical.empty()) return out;
    for (const auto name : kNames) {
        const auto cards = cards_of(name, lookup);
        if (std::ranges::find_first_of(cards, canonical) != cards.end()) out.emplace_back(name);
    }
    return out;
}

std::vector<std::string> cards_of(std::string_view name, const GpuLookup& lookup) {
    std::vector<std::string> out;
    const auto look = [&](std::optional<Bytes> memory) {
        auto card = lookup("vastai", name, memory);
        if (card && std::ranges::find(out, *card) == out.end()) out.push_back(*std::move(card));
    };
    look(std::nullopt);
    for (const auto gib : kSizesGib) look(Bytes{gib * kGiB});
    return out;
}

}  // namespace gf::vastai
