// GPU tables and names of any bytes (a user's own table, a provider's spelling). The bytes are cut at 0xFF
// into the card table, the alias table and a name.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "scheduler/gpu_names.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::string_view rest(reinterpret_cast<const char*>(data), size);
    const auto next = [&rest] {
        const auto cut = rest.find('\xFF');
        const auto part = rest.substr(0, cut);
        rest = cut == std::string_view::npos ? std::string_view() : rest.substr(cut + 1);
        return part;
    };
    const auto cards = next(), aliases = next(), name = next();
    const auto names = gf::GpuNames::parse(cards, aliases);
    if (!names) return 0;
    for (const auto& card : names->cards())
        if (names->typed(card.canonical).canonical.size() != 1 && !card.canonical.empty() &&
            card.canonical.size() < 128 && card.canonical.find_first_not_of(" -_\t\r\n") != std::string::npos)
            std::abort();
    (void)names->typed(name);
    (void)names->canonical("vastai", name, gf::Bytes{24 * gf::kGiB});
    (void)names->canonical("vastai", name, std::nullopt);
    return 0;
}
