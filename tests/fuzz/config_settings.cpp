// A configuration of any bytes: never a crash, and no error shows a secret that only the environment has.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "config/settings.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const gf::GetEnv env = [](std::string_view name) -> std::optional<std::string> {
        if (name == "HOME") return "/home/u";
        return "S3KR1T value that is refused";
    };
    const auto settings = gf::parse_settings(text, env, false);
    if (!settings && settings.error().message.find("S3KR1T") != std::string::npos &&
        text.find("S3KR1T") == std::string_view::npos)
        std::abort();
    return 0;
}
