// The agent binaries that machines may ask for by their hash: data_dir/agents/<sha256>. A machine is told the hash when it is
// rented and fetches the file minutes later, or again after a restart; by then the package may have been upgraded, under a
// running daemon or with a restart of it. So the daemon serves copies of its own, each under the hash of what is in it.
//
// Thread-safe; `add` blocks for reading and writing some ten megabytes.
#pragma once
#include <map>
#include <mutex>
#include <string>

#include "model/result.hpp"

namespace gf::gateway {

class AgentBinaries {
 public:
    static constexpr std::size_t kKept = 16;  // the newest, two an upgrade; more than the machines of one daemon can still refer to

    explicit AgentBinaries(std::string folder) : folder_(std::move(folder)) {}
    /// Copies the file into the folder (nothing is done when it is there), reads all that is there, removes what is not what
    /// its name says and all but the newest kKept. Returns the SHA-256 (hex). A disk that takes no copy is no error: then the
    /// file is served where it lies. Errors: `not_found`, `io` of the file itself.
    Result<std::string> add(const std::string& path);
    /// Empty = not here.
    [[nodiscard]] std::string path_of(const std::string& sha256) const;

 private:
    Result<void> copy(const std::string& path, const std::string& sha256) const;
    void look();

    std::string folder_;
    mutable std::mutex mutex_;                    // guards paths_
    std::map<std::string, std::string> paths_;    // SHA-256 -> path
};

}  // namespace gf::gateway
