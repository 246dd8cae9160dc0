// What docker and podman say, judged: whose fault a failure is, and how far a pull has come. Pure. There are no codes for these
// things, only the engine's own words and those of registries that it passes on.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace gf::agent {

enum class EngineFault {
    spec,  // the image or the login: the same on every machine
    host,  // this machine
    busy,  // the registry or the network, now: worth another try here
};
struct EngineJudgement {
    EngineFault fault{EngineFault::host};
    std::string said;  // the engine's line that tells, at most 500 bytes
};

/// Of a pull or a login that failed.
[[nodiscard]] EngineJudgement judge_pull(std::string_view output);
/// Of a container that did not start. Never `busy`.
[[nodiscard]] EngineJudgement judge_start(std::string_view output);

/// Counts layers in the output of `docker pull` without a terminal, which names a layer's steps and no bytes.
class PullProgress {
 public:
    void feed(std::string_view piece);
    /// "40 %, 3 of 10 layers ready"; empty while nothing is known. A layer that is loaded and not unpacked counts half.
    [[nodiscard]] std::string text() const;

 private:
    void line(std::string_view text);
    std::string rest_;
    std::map<std::string, int> halves_;  // layer -> 0, 1, 2
};

}  // namespace gf::agent
