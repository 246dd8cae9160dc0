// The job's output as lines: cut at \n and at \r (progress bars), colour codes removed, at most 8 KiB each. Pure.
#pragma once
#include <functional>
#include <string>
#include <string_view>

namespace gf::agent {

inline constexpr std::size_t kLineBytesMax = 8 * 1024;

/// Without ANSI escape sequences (CSI, OSC and two-byte ones).
[[nodiscard]] std::string strip_colours(std::string_view text);

class LineCutter {
 public:
    using Take = std::function<void(std::string_view line)>;
    explicit LineCutter(Take take) : take_(std::move(take)) {}
    void feed(std::string_view bytes);
    /// Hands out the last line that had no end.
    void finish();

 private:
    void end_line();
    Take take_;
    std::string line_;
    bool skipping_{false};  // the rest of a line that was cut at the limit
};

/// Do the last 200 lines of this text say that a GPU ran out of memory? The signs of PyTorch, CTranslate2, llama.cpp,
/// ComfyUI, vLLM, ai-toolkit, JAX and TensorFlow.
[[nodiscard]] bool says_gpu_out_of_memory(std::string_view output);

}  // namespace gf::agent
