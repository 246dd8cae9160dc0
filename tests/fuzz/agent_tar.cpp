// A code archive of any bytes, fed in pieces: never a crash, never a file outside of its folder.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "agent/tar_reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    namespace fs = std::filesystem;
    static const std::string base = [] {
        std::string made = (fs::temp_directory_path() / "fuzz_agent_tar.XXXXXX").string();
        if (::mkdtemp(made.data()) == nullptr) std::abort();
        return made;
    }();
    if (size == 0) return 0;
    const std::string folder = base + "/in";
    fs::create_directory(folder);
    {
        gf::agent::TarReader reader(folder, {.bytes_max = 1 << 20, .entries_max = 100});
        const std::string_view all(reinterpret_cast<const char*>(data) + 1, size - 1);
        const std::size_t piece = 1 + data[0] * 7U;
        bool good = true;
        for (std::size_t at = 0; good && at < all.size(); at += piece) good = reader.feed(all.substr(at, piece)).has_value();
        if (good) static_cast<void>(reader.finish());
    }
    // Whatever it did, it did it in there.
    for (const auto& entry : fs::directory_iterator(base))
        if (entry.path().filename() != "in") std::abort();
    std::error_code failed;
    for (const auto& entry : fs::recursive_directory_iterator(folder, failed))
        if (entry.is_directory(failed) && !entry.is_symlink(failed)) fs::permissions(entry.path(), fs::perms::owner_all, failed);
    fs::remove_all(folder, failed);
    return 0;
}
