#include "cli/progress_bar.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <ostream>

#include "model/bytes.hpp"

namespace gf::cli {

ProgressBar::ProgressBar(Environment& env, const Style& style, std::string label, std::int64_t total)
    : env_(env), label_(std::move(label)), total_(total), columns_(style.columns()) {}

ProgressBar::~ProgressBar() {
    if (drawn_) env_.err << "\r\x1b[K" << std::flush;
}

void ProgressBar::show(std::int64_t done) {
    if (!env_.err_is_terminal) return;
    const auto now = std::chrono::steady_clock::now();
    if (drawn_ && now - last_ < std::chrono::milliseconds{100} && done < total_) return;
    last_ = now;
    drawn_ = true;
    if (total_ <= 0) {
        env_.err << fmt::format("\r\x1b[K{} {}", label_, bytes_text(Bytes{done})) << std::flush;
        return;
    }
    const auto part = std::clamp<std::int64_t>(done * 100 / total_, 0, 100);
    const int width = std::clamp(columns_ - 50, 10, 40);
    const auto filled = static_cast<std::size_t>(part * width / 100);
    const auto bar = std::string(filled, '#') + std::string(static_cast<std::size_t>(width) - filled, '.');
    env_.err << fmt::format("\r\x1b[K{} [{}] {:>3} % of {}", label_, bar, part, bytes_text(Bytes{total_}))
             << std::flush;
}

}  // namespace gf::cli
