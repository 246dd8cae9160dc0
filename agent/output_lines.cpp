#include "agent/output_lines.hpp"

#include <re2/re2.h>

#include <deque>

namespace gf::agent {
namespace {

constexpr std::size_t kLinesForMemory = 200;

}  // namespace

std::string strip_colours(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '\x1b') {
            out.push_back(text[i]);
            continue;
        }
        if (++i >= text.size()) break;
        if (text[i] == '[') {
            ++i;
            while (i < text.size() && (text[i] < '@' || text[i] > '~')) ++i;
        } else if (text[i] == ']') {
            ++i;
            while (i < text.size() && text[i] != '\a' && text[i] != '\x1b') ++i;
            if (i < text.size() && text[i] == '\x1b') ++i;
        }
    }
    return out;
}

void LineCutter::feed(std::string_view bytes) {
    for (const char c : bytes) {
        if (c == '\n' || c == '\r') {
            end_line();
            skipping_ = false;
        } else if (!skipping_) {
            line_.push_back(c);
            if (line_.size() < kLineBytesMax) continue;
            end_line();
            skipping_ = true;
        }
    }
}

void LineCutter::finish() { end_line(); }

void LineCutter::end_line() {
    if (line_.empty()) return;
    take_(strip_colours(line_));
    line_.clear();
}

bool says_gpu_out_of_memory(std::string_view output) {
    static const RE2 signs(
        "(?i)torch(\\.cuda)?\\.OutOfMemoryError|CUDA out of memory|CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY"
        "|HIP out of memory|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED"
        "|CUDA failed with error out of memory|cudaErrorMemoryAllocation"
        "|cudaMalloc failed: out of memory|unable to allocate CUDA\\d+ buffer|failed to allocate compute buffers"
        "|Allocation on device|Got an OOM, unloading all loaded models"
        "|No available memory for the cache blocks|larger than the maximum number of tokens that can be stored in KV cache"
        "|OOM during training step 3 times in a row"
        "|RESOURCE_EXHAUSTED: (Out of memory|OOM when allocating)");
    std::deque<bool> last;
    LineCutter cutter([&](std::string_view line) {
        last.push_back(RE2::PartialMatch(re2::StringPiece(line.data(), line.size()), signs));
        if (last.size() > kLinesForMemory) last.pop_front();
    });
    cutter.feed(output);
    cutter.finish();
    for (const bool hit : last)
        if (hit) return true;
    return false;
}

}  // namespace gf::agent
