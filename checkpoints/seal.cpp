#include "checkpoints/seal.hpp"

#include <nlohmann/json.hpp>

namespace gf::checkpoints {

std::string encode_seal(const Seal& seal) {
    const nlohmann::json j{{"attempt", seal.attempt},
                           {"committed_at_ms", seal.committed_at_ms},
                           {"format", 1},
                           {"generation", seal.generation},
                           {"manifest", seal.manifest.hex()},
                           {"step", seal.step},
                           {"task", seal.task}};
    return j.dump();
}

std::optional<Seal> decode_seal(std::string_view text) {
    const auto j = nlohmann::json::parse(text.begin(), text.end(), nullptr, false);
    if (!j.is_object()) return std::nullopt;
    for (const char* name : {"attempt", "committed_at_ms", "format", "generation", "step"})
        if (!j.contains(name) || !j[name].is_number_integer()) return std::nullopt;
    for (const char* name : {"manifest", "task"})
        if (!j.contains(name) || !j[name].is_string()) return std::nullopt;
    const auto manifest = Digest::from_hex(j["manifest"].get_ref<const std::string&>());
    if (!manifest || j["format"] != 1) return std::nullopt;
    return Seal{.task = j["task"].get<std::string>(),
                .generation = j["generation"].get<std::int64_t>(),
                .attempt = j["attempt"].get<int>(),
                .step = j["step"].get<std::int64_t>(),
                .manifest = *manifest,
                .committed_at_ms = j["committed_at_ms"].get<std::int64_t>()};
}

}  // namespace gf::checkpoints
