#include "simulator/request_log.hpp"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>

namespace gf::sim {

namespace {

constexpr std::size_t kKept = 20'000;

/// Ids are what is not a word of the API: a number, RunPod's 14 characters, Lambda's 32 or a UUID.
bool looks_like_id(const std::string& part) {
    if (part.empty()) return false;
    const bool hex = std::ranges::all_of(
        part, [](unsigned char c) { return c == '-' || std::isdigit(c) != 0 || (c >= 'a' && c <= 'f'); });
    if (hex && (part.size() == 32 || part.size() == 36)) return true;
    if (std::ranges::all_of(part, [](unsigned char c) { return std::isdigit(c) != 0; })) return true;
    const bool alnum = std::ranges::all_of(
        part, [](unsigned char c) { return std::isdigit(c) != 0 || (std::islower(c) != 0); });
    return alnum && (part.size() == 14 || part.size() == 8) &&
           std::ranges::any_of(part, [](unsigned char c) { return std::isdigit(c) != 0; });
}

}  // namespace

std::string endpoint_of(const std::string& path) {
    std::string result;
    for (std::size_t at = 0; at < path.size();) {
        const auto end = std::min(path.find('/', at + 1), path.size());
        const auto part = path.substr(at + 1, end - at - 1);
        const bool in_catalog = result.ends_with("/catalog/gpus") || result.ends_with("/catalog/datacenters");
        result += '/';
        result += looks_like_id(part) || (in_catalog && !part.empty()) ? "{id}" : part;
        at = end;
    }
    return result;
}

std::string without_key(const std::string& target) {
    std::string result = target;
    for (const auto* name : {"?api_key=", "&api_key="}) {
        const auto at = result.find(name);
        if (at == std::string::npos) continue;
        const auto begin = at + 9;
        result.replace(begin, std::min(result.find('&', begin), result.size()) - begin, "***");
    }
    return result;
}

void RequestLog::add(LoggedRequest request, const std::string& path) {
    const std::scoped_lock lock(mutex_);
    auto& counter = counters_[request.face][request.method + " " + endpoint_of(path)];
    ++counter["calls"];
    ++counter[request.status == 0 ? "cut" : std::to_string(request.status)];
    request.sequence = next_++;
    request.target = without_key(request.target);
    entries_.push_back(std::move(request));
    if (entries_.size() > kKept) entries_.pop_front();
}

void RequestLog::clear() {
    const std::scoped_lock lock(mutex_);
    entries_.clear();
    counters_.clear();
}

nlohmann::json RequestLog::entries(std::uint64_t since, const std::string& face, std::size_t limit) const {
    const std::scoped_lock lock(mutex_);
    auto result = nlohmann::json::array();
    for (const auto& entry : entries_) {
        if (entry.sequence <= since || (!face.empty() && entry.face != face)) continue;
        if (result.size() >= limit) break;
        result.push_back({{"seq", entry.sequence},
                          {"face", entry.face},
                          {"method", entry.method},
                          {"target", entry.target},
                          {"status", entry.status},
                          {"fault", entry.fault},
                          {"at", rfc3339(entry.at)},
                          {"began_us", entry.began_us},
                          {"ended_us", entry.ended_us}});
    }
    return result;
}

nlohmann::json RequestLog::counters() const {
    const std::scoped_lock lock(mutex_);
    return counters_;
}

}  // namespace gf::sim
