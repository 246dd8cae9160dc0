#include "daemon/api/utf8_repair.hpp"

namespace gf::api {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Lead {
    std::size_t length{0};               // of the whole character; 0 = no character begins with this byte
    unsigned char low{0x80}, high{0xBF};  // range of the second byte: keeps out overlong forms, surrogates, > U+10FFFF
};

Lead lead_of(unsigned char byte) {
    if (byte < 0x80) return {.length = 1};
    if (byte >= 0xC2 && byte <= 0xDF) return {.length = 2};
    if (byte == 0xE0) return {.length = 3, .low = 0xA0};
    if (byte == 0xED) return {.length = 3, .high = 0x9F};
    if (byte >= 0xE1 && byte <= 0xEF) return {.length = 3};
    if (byte == 0xF0) return {.length = 4, .low = 0x90};
    if (byte == 0xF4) return {.length = 4, .high = 0x8F};
    if (byte >= 0xF1 && byte <= 0xF3) return {.length = 4};
    return {};
}

}  // namespace

void Utf8Repair::feed(std::string_view bytes, std::string& out) {
    std::string joined;
    if (!held_.empty()) {
        joined = std::move(held_);
        held_.clear();
        joined += bytes;
        bytes = joined;
    }
    for (std::size_t at = 0; at < bytes.size();) {
        const auto lead = lead_of(static_cast<unsigned char>(bytes[at]));
        if (lead.length == 0) {
            out += kReplacement;
            ++at;
            continue;
        }
        std::size_t good = 1;
        bool broken = false;
        for (; good < lead.length && at + good < bytes.size(); ++good) {
            const auto byte = static_cast<unsigned char>(bytes[at + good]);
            const auto low = good == 1 ? lead.low : static_cast<unsigned char>(0x80);
            const auto high = good == 1 ? lead.high : static_cast<unsigned char>(0xBF);
            broken = byte < low || byte > high;
            if (broken) break;
        }
        if (broken) {
            out += kReplacement;
        } else if (good < lead.length) {  // the piece ends inside of a character
            held_ = std::string(bytes.substr(at));
            return;
        } else {
            out += bytes.substr(at, good);
        }
        at += good;
    }
}

void Utf8Repair::finish(std::string& out) {
    if (!held_.empty()) out += kReplacement;
    held_.clear();
}

}  // namespace gf::api
