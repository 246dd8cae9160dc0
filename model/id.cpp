#include "model/id.hpp"

#include <algorithm>

namespace gf {
namespace {

constexpr std::string_view kAlphabet = "0123456789abcdefghjkmnpqrstvwxyz";
constexpr std::size_t kBody = 26;

bool in_alphabet(char c) { return kAlphabet.find(c) != std::string_view::npos; }

}  // namespace

std::uint64_t Entropy::next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

std::uint64_t Entropy::below(std::uint64_t bound) { return bound == 0 ? 0 : next() % bound; }

std::string IdMaker::make(std::string_view prefix, Instant now) {
    // Within one millisecond the entropy decides the order; across them the time does. A step back of the clock
    // keeps the last time and moves on by one, so that later ids still sort later.
    const std::int64_t ms = unix_millis(now) > last_ms_ ? unix_millis(now) : last_ms_ + 1;
    last_ms_ = ms;
    std::string out(prefix);
    for (int shift = 45; shift >= 0; shift -= 5)
        out.push_back(kAlphabet[static_cast<std::size_t>((ms >> shift) & 31)]);
    std::uint64_t bits = 0;
    for (int i = 0; i < 16; ++i) {
        if (i % 8 == 0) bits = entropy_.next();
        out.push_back(kAlphabet[bits & 31]);
        bits >>= 5;
    }
    return out;
}

void IdMaker::note(std::string_view id) { last_ms_ = std::max(last_ms_, id_millis(id)); }

std::string_view id_body(std::string_view id) {
    const auto underscore = id.find('_');
    if (underscore == std::string_view::npos) return {};
    const auto body = id.substr(underscore + 1);
    if (body.size() != kBody || !std::all_of(body.begin(), body.end(), in_alphabet)) return {};
    return body;
}

std::int64_t id_millis(std::string_view id) {
    const auto body = id_body(id);
    if (body.empty()) return 0;
    std::int64_t ms = 0;
    for (char c : body.substr(0, 10)) ms = (ms << 5) | static_cast<std::int64_t>(kAlphabet.find(c));
    return ms;
}

std::string machine_tag(std::string_view install, std::string_view machine_id) {
    return "gf-" + std::string(install) + "-" + std::string(id_body(machine_id));
}

TagParts parse_machine_tag(std::string_view tag) {
    constexpr std::size_t kLength = 38;
    if (tag.size() != kLength || !tag.starts_with("gf-") || tag[11] != '-') return {};
    const auto install = tag.substr(3, 8);
    const auto body = tag.substr(12);
    const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
    if (!std::all_of(install.begin(), install.end(), plain)) return {};
    if (!std::all_of(body.begin(), body.end(), in_alphabet)) return {};
    return {std::string(install), "mch_" + std::string(body)};
}

}  // namespace gf
