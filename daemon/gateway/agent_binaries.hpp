// The agent binaries that machines may ask for by their hash: data_dir/agents/<sha256>. A machine is told the hash when it is
// rented and fetches the file minutes later, or again after a restart; by then the package may have been upgraded, under a
// running daemon or with a restart of it. So the daemon serves copies of its own, each under the hash of what is in it.
//
// Thread-safe; `add` blocks for reading and writing some ten megabytes.
#pragma once
#include <chrono>
#include <map>
#include <mutex>
#include <string>

#include "model/result.hpp"

namespace gf::gateway {

class AgentBinaries {
 public:
    static constexpr std::size_t kKept = 16;  // the newest, two an upgrade
    static constexpr std::chrono::days kKeptFor{90};  // and whatever is younger: longer than a machine is rented

    explicit AgentBinaries(std::string folder) : folder_(std::move(folder)) {}
    /// Copies the file into the folder (nothing is done when it is there), reads all that is there, removes what is not what
    /// its name says and what is neither of the newest kKept nor younger than kKeptFor. Returns the SHA-256 (hex). A disk that
    /// takes no copy is no error: then the file is served where it lies. Errors: `not_found`, `io` of the file itself.
    Result<std::string> add(const std::string& path);
    /// Empty = not here.
    [[nodiscard]] std::string path_of(const std::string& sha256) const;

 private:
    Result<void> copy(const std::string& path, const std::string& sha256) const;
    void look();

    std::string folder_;
    mutable std::mutex mutex_;                        // guards what follows
    std::map<std::string, std::string> paths_;        // SHA-256 -> path
    std::map<std::string, std::string> elsewhere_;    // of these, what could not be copied into the folder
};

}  // namespace gf::gateway
