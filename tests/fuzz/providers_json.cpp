// The body of a provider's answer, of any bytes: a document or an error, and a document is one for a strict parser as well.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "providers/json_reading.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto document = gf::parse_json(std::string(reinterpret_cast<const char*>(data), size));
    if (!document) return 0;
    const auto text = document->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (!nlohmann::json::accept(text)) std::abort();
    return 0;
}
