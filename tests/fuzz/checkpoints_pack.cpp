// Packs from foreign bytes. The first byte says whether the index hash is put right, since no fuzzer finds a
// SHA-256: so the checks behind it are reached too.
#include <cstdint>
#include <cstdlib>

#include "checkpoints/pack.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace gf;
    using namespace gf::checkpoints;
    if (size == 0) return 0;
    std::string pack{reinterpret_cast<const char*>(data) + 1, size - 1};
    constexpr std::size_t kTrailer = 64;
    if ((data[0] & 1U) != 0 && pack.size() > 16 + kTrailer) {
        std::uint32_t count = 0;
        for (std::size_t i = 0; i < 4; ++i)
            count |=
                static_cast<std::uint32_t>(static_cast<std::uint8_t>(pack[pack.size() - kTrailer + 8 + i]))
                << (8 * i);
        const std::size_t index = std::size_t{count} * 56;
        if (index <= pack.size() - kTrailer) {
            const std::size_t at = pack.size() - kTrailer - index;
            const Digest hash = sha256(pack.substr(0, 16) + pack.substr(at, index));
            for (std::size_t i = 0; i < hash.bytes.size(); ++i)
                pack[pack.size() - kTrailer + 16 + i] = static_cast<char>(hash.bytes[i]);
            for (std::size_t i = 0; i < 8; ++i)
                pack[pack.size() - kTrailer + i] = static_cast<char>((std::uint64_t{at} >> (8 * i)) & 0xFFU);
        }
    }
    const auto read = [&](std::int64_t offset, std::int64_t length, std::string& out) -> Result<void> {
        if (offset < 0 || length < 0 || offset + length > static_cast<std::int64_t>(pack.size()))
            std::abort();
        out = pack.substr(static_cast<std::size_t>(offset), static_cast<std::size_t>(length));
        return {};
    };
    const auto length = static_cast<std::int64_t>(pack.size());
    const auto index = read_pack_index(length, read);
    const auto whole = verify_pack(sha256(pack), length, read);
    if (whole && (!index || *index != *whole)) std::abort();
    return 0;
}
