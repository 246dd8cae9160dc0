// What makes two tasks alike to the market: the same demands, and of their history what the filters look at.
// Alike tasks are held against the offers once. A key is plain bytes in three parts, so that verdicts can be
// shared by tasks that are alike in one.
#pragma once
#include <cstdint>
#include <string>

#include "model/job_spec.hpp"
#include "model/records.hpp"

namespace gf {

struct ShapeKey {
    std::string market;  // what the filters before kMarketFilters read
    std::string card;    // what those before kCardFilters read besides
    std::string rest;    // all else
    friend auto operator<=>(const ShapeKey&, const ShapeKey&) = default;
};

/// Writes over `key`, whose memory is used again.
void shape_key(const JobSpec& spec, const TaskRecord& task, ShapeKey& key);

[[nodiscard]] std::uint64_t key_hash(const ShapeKey& key);

/// Parts of a key, each of which tells where it ends.
void put_part(std::string& key, std::int64_t value);
void put_part(std::string& key, const std::string& text);

}  // namespace gf
