// This machine's bench: real processes of a small shell script in the agent's place, in a folder of their
// own.
#pragma once
#include <filesystem>

#include "bench.hpp"
#include "providers/local/adapter.hpp"

namespace gf::test {

/// A new folder below the system's temporary one, removed with everything in it; processes that still name it
/// are killed.
class TemporaryFolder {
 public:
    TemporaryFolder();
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }
    /// Writes an executable file and returns its path.
    [[nodiscard]] std::filesystem::path program(const std::string& name, const std::string& text) const;
    /// Living processes with this folder in their environment.
    [[nodiscard]] std::vector<pid_t> processes() const;

 private:
    std::filesystem::path path_;
};

inline const std::string kPlainAgent = "#!/bin/sh\nexec sleep 1000\n";
inline const std::string kTwoCards =
    "#!/bin/sh\ncase \"$1\" in --query-gpu*) echo 'GPU-aaaa, NVIDIA GeForce RTX 3090, 24576, 580.95.05'\n"
    "echo 'GPU-bbbb, NVIDIA GeForce RTX 3090, 24576, 580.95.05';; *) echo '| NVIDIA-SMI 580.95.05   CUDA "
    "Version: 13.0 |';; esac\n";

class LocalBench final : public Bench {
 public:
    /// An empty `nvidia_smi` means that there is none.
    explicit LocalBench(const std::string& agent = kPlainAgent, const std::string& nvidia_smi = {},
                        local::LocalMarket market = {});
    Provider& provider() override { return *adapter; }
    Clock& clock() override { return hand; }
    void pass(Millis time) override;
    bool fault(Op, Fault) override { return false; }
    std::size_t machines() override;
    bool add_foreign(const std::string&) override { return false; }
    bool go_away() override { return false; }
    std::vector<Received> sent() override { return {}; }

    TemporaryFolder folder;
    ManualClock hand;
    local::AdapterSettings settings;
    std::unique_ptr<local::Adapter> adapter;
};

}  // namespace gf::test
