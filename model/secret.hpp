// A secret text: prints as ***, is compared in constant time, and is only readable by asking for it by name.
#pragma once
#include <string>
#include <string_view>
#include <utility>

namespace gf {

class Secret {
 public:
    Secret() = default;
    explicit Secret(std::string value) : value_(std::move(value)) {}
    /// The text itself. Every call site is a place where a secret leaves; keep them few.
    [[nodiscard]] const std::string& reveal() const { return value_; }
    [[nodiscard]] bool empty() const { return value_.empty(); }
    [[nodiscard]] bool equals(std::string_view other) const;

 private:
    std::string value_;
};

/// For logs: always "***".
[[nodiscard]] inline std::string_view text(const Secret&) { return "***"; }

}  // namespace gf
