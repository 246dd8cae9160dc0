// Messages of an agent, from a machine that is a stranger's: any bytes give a message or an error, and a message that was taken
// is understood again when it is written out.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "model/agent_protocol.hpp"

namespace ap = gf::agent_protocol;

namespace {

void require(bool holds) {
    if (!holds) std::abort();
}

template <class Decode>
void again(std::string_view text, Decode decode) {
    const auto first = decode(text);
    if (!first) {
        require(!first.error().message.empty() && first.error().message.size() < 4'000);
        return;
    }
    const auto written = ap::encode(*first);
    const auto second = decode(written);
    require(second.has_value());
    require(ap::encode(*second) == written);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
    switch (data[0] % 4) {
        case 0: again(text, [](std::string_view t) { return ap::decode_from_agent(t); }); break;
        case 1: again(text, [](std::string_view t) { return ap::decode_to_agent(t); }); break;
        case 2: again(text, [](std::string_view t) { return ap::decode_enrol_request(t); }); break;
        default: again(text, [](std::string_view t) { return ap::decode_enrol_answer(t); }); break;
    }
    return 0;
}
