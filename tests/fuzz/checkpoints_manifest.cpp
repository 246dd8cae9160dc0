// Whatever decode_manifest takes is valid, is written again as the same bytes, and names no path outside of
// its folder.
#include <cstdint>
#include <cstdlib>

#include "checkpoints/manifest.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace gf::checkpoints;
    const std::string_view bytes{reinterpret_cast<const char*>(data), size};
    const auto manifest = decode_manifest(bytes);
    if (!manifest) return 0;
    const auto again = encode_manifest(*manifest);
    if (!validate_manifest(*manifest) || !again || *again != bytes) std::abort();
    for (const FileEntry& f : manifest->files)
        if (f.path.empty() || f.path.front() == '/' || f.path.find('\0') != std::string::npos ||
            ("/" + f.path + "/").find("/../") != std::string::npos)
            std::abort();
    return 0;
}
