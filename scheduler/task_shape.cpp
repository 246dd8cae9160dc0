#include "scheduler/task_shape.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <vector>

namespace gf {
namespace {

void put_list(std::string& key, const std::vector<std::string>& list) {
    put_part(key, static_cast<std::int64_t>(list.size()));
    for (const auto& text : list) put_part(key, text);
}
void put_double(std::string& key, double value) {
    put_part(key, std::bit_cast<std::int64_t>(value));
}
void put_bytes(std::string& key, const std::optional<Bytes>& value) {
    put_part(key, value ? value->count : -1);
}
void put_ratio(std::string& key, const std::optional<double>& value) {
    put_double(key, value.value_or(-1.0));
}

}  // namespace

void put_part(std::string& key, std::int64_t value) {
    const auto bytes = std::bit_cast<std::array<char, sizeof value>>(value);
    key.append(bytes.data(), bytes.size());
}

void put_part(std::string& key, const std::string& text) {
    put_part(key, static_cast<std::int64_t>(text.size()));
    key += text;
}

std::uint64_t key_hash(const ShapeKey& key) {
    // FNV-1a, eight bytes at a time.
    constexpr std::size_t kStep = sizeof(std::uint64_t);
    std::uint64_t hash = 14'695'981'039'346'656'037ULL;
    for (const std::string* part : {&key.market, &key.card, &key.rest})
        for (std::size_t at = 0; at < part->size(); at += kStep) {
            std::uint64_t word = 0;
            std::memcpy(&word, part->data() + at, std::min(kStep, part->size() - at));
            hash = (hash ^ word) * 1'099'511'628'211ULL;
            hash ^= hash >> 32;
        }
    return hash;
}

void shape_key(const JobSpec& spec, const TaskRecord& task, ShapeKey& key) {
    // Each demand by name, so that a new one does not compile before it is in the key: two tasks that differ
    // in it are not alike.
    const auto& [gpu, gpu_as_typed, gpus, cpu_only, vram, cpus, memory, disk, arch, cuda, driver, shm,
                 precision, nvlink, memory_bandwidth, inet_down_mbps, reliability, providers,
                 exclude_providers, regions, spot, max_price] = spec.resources;
    (void)gpu_as_typed;  // for people
    for (std::string* part : {&key.market, &key.card, &key.rest}) part->clear();
    put_list(key.market, providers);
    put_list(key.market, exclude_providers);
    put_part(key.market, arch);
    put_part(key.market, static_cast<std::int64_t>(spot));
    put_part(key.market, task.retries.no_progress > 0 ? 1 : 0);
    put_part(key.market, spec.image.empty() ? 0 : 1);

    put_list(key.card, gpu);
    put_part(key.card, gpus);
    put_part(key.card, (cpu_only ? 1 : 0) | (nvlink ? 2 : 0));
    put_part(key.card, vram && vram->class_gb ? *vram->class_gb : -1);
    put_bytes(key.card, vram ? vram->exact : std::nullopt);
    put_part(key.card, vram ? 1 : 0);
    put_bytes(key.card, memory_bandwidth);
    put_part(key.card, precision);
    put_bytes(key.card, task.vram_above);

    put_part(key.rest, cpus.value_or(-1));
    put_bytes(key.rest, memory);
    put_bytes(key.rest, task.memory_above);
    put_part(key.rest, disk.count);
    put_bytes(key.rest, shm);
    put_part(key.rest, cuda);
    put_part(key.rest, driver);
    put_ratio(key.rest, inet_down_mbps);
    put_ratio(key.rest, reliability);
    put_list(key.rest, regions);
    put_part(key.rest, max_price ? max_price->micros : -1);
    const bool secrets = !spec.secrets.empty();
    const bool login = spec.image_auth.has_value();
    put_part(key.rest, (secrets ? 1 : 0) | (login ? 2 : 0) | (spec.secrets_on_any ? 4 : 0));
    // Of the time that it may run only what is left counts, and of the past only that.
    const auto& duration = spec.limits.duration;
    put_part(key.rest, duration ? std::max(Millis{0}, *duration - task.ran).count() : -1);
}

}  // namespace gf
