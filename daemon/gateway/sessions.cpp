#include "daemon/gateway/sessions.hpp"

#include "checkpoints/digest.hpp"
#include "daemon/http/digest.hpp"

namespace gf::gateway {

std::string Sessions::open(Session session) {
    auto token = http::random_hex(32);
    auto hash = checkpoints::sha256(token).hex();
    const std::scoped_lock lock(mutex_);
    auto& held = hash_of_[session.machine];
    by_hash_.erase(held);
    held = hash;
    by_hash_.emplace(std::move(hash), std::move(session));
    return token;
}

std::optional<Session> Sessions::find(std::string_view token) const {
    // By its hash, so that the time of the look-up tells nothing about tokens that are held.
    const auto hash = checkpoints::sha256(token).hex();
    const std::scoped_lock lock(mutex_);
    const auto found = by_hash_.find(hash);
    if (found == by_hash_.end()) return std::nullopt;
    return found->second;
}

void Sessions::close(const MachineId& machine) {
    const std::scoped_lock lock(mutex_);
    const auto found = hash_of_.find(machine);
    if (found == hash_of_.end()) return;
    by_hash_.erase(found->second);
    hash_of_.erase(found);
}

}  // namespace gf::gateway
