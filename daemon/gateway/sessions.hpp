// Who may speak for which machine: one session per machine, made by enrolling and void at the next enrolling. In memory only.
// Thread-safe.
#pragma once
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "model/strong.hpp"

namespace gf::gateway {

struct Session {
    MachineId machine;
    std::string tag;
    std::string boot_id;
};

class Sessions {
 public:
    /// A fresh random token (256 bits, hex); the machine's former one is void.
    [[nodiscard]] std::string open(Session session);
    /// Nothing for a token that is void or never was.
    [[nodiscard]] std::optional<Session> find(std::string_view token) const;
    void close(const MachineId& machine);

 private:
    mutable std::mutex mutex_;  // guards all below
    std::unordered_map<std::string, Session> by_hash_;  // of the token: looked up, never walked
    std::map<MachineId, std::string> hash_of_;
};

}  // namespace gf::gateway
