// Log bytes on their way into JSON: however they are cut into pieces, the repaired text is the same, and it is UTF-8.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "daemon/api/utf8_repair.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::string_view all(reinterpret_cast<const char*>(data) + 1, size - 1);
    std::string whole, pieces;
    gf::api::Utf8Repair at_once, piecewise;
    at_once.feed(all, whole);
    at_once.finish(whole);
    const std::size_t step = 1 + data[0] % 9U;
    for (std::size_t at = 0; at < all.size(); at += step) {
        piecewise.feed(all.substr(at, step), pieces);
        if (piecewise.held() > 3) std::abort();
    }
    piecewise.finish(pieces);
    if (whole != pieces) std::abort();
    static_cast<void>(nlohmann::json(whole).dump());  // throws for what is not UTF-8
    return 0;
}
