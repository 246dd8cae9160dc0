// Strong types: a JobId is not a TaskId is not a string.
#pragma once
#include <compare>
#include <string>
#include <utility>

namespace gf {

template <class Tag, class Rep>
class Strong {
 public:
    Strong() = default;
    explicit constexpr Strong(Rep v) : v_(std::move(v)) {}
    [[nodiscard]] constexpr const Rep& get() const { return v_; }
    [[nodiscard]] constexpr bool empty() const
        requires requires(const Rep& r) { r.empty(); }
    {
        return v_.empty();
    }
    friend auto operator<=>(const Strong&, const Strong&) = default;

 private:
    Rep v_{};
};

using JobId = Strong<struct JobIdTag, std::string>;                // "job_" + 26 characters
using TaskId = Strong<struct TaskIdTag, std::string>;              // "tsk_" + 26
using AttemptId = Strong<struct AttemptIdTag, std::string>;        // "att_" + 26
using MachineId = Strong<struct MachineIdTag, std::string>;        // "mch_" + 26
using CheckpointId = Strong<struct CheckpointIdTag, std::string>;  // "ckp_" + 26
using AlertId = Strong<struct AlertIdTag, std::string>;            // "alr_" + 26
using TokenId = Strong<struct TokenIdTag, std::string>;            // "tok_" + 26
using ProviderName = Strong<struct ProviderNameTag, std::string>;  // "runpod", "vastai", "local"
using ProviderMachineId = Strong<struct ProviderMachineIdTag, std::string>;  // the provider's own id
using MachineTag = Strong<struct MachineTagTag, std::string>;      // "gf-<install 8>-<machine 26>"

}  // namespace gf
