// One line on standard error that is written over: only on a terminal, at most ten times a second.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

#include "cli/environment.hpp"
#include "cli/table.hpp"

namespace gf::cli {

class ProgressBar {
 public:
    /// `total` in bytes; 0 = not known.
    ProgressBar(Environment& env, const Style& style, std::string label, std::int64_t total);
    ~ProgressBar();  // clears the line
    ProgressBar(const ProgressBar&) = delete;
    ProgressBar& operator=(const ProgressBar&) = delete;
    void show(std::int64_t done);

 private:
    Environment& env_;
    std::string label_;
    std::int64_t total_;
    int columns_;
    bool drawn_{false};
    std::chrono::steady_clock::time_point last_{};
};

}  // namespace gf::cli
