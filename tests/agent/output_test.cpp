#include <doctest/doctest.h>

#include <fstream>

#include "agent/output_lines.hpp"
#include "agent/progress.hpp"
#include "agent_process.hpp"

namespace gf::agent {
namespace {

std::vector<std::string> lines_of(std::string_view text) {
    std::vector<std::string> lines;
    LineCutter cutter([&](std::string_view line) { lines.emplace_back(line); });
    for (const char c : text) cutter.feed({&c, 1});
    cutter.finish();
    return lines;
}

TEST_CASE("lines end at newline and at carriage return, without colour codes") {
    CHECK(lines_of("a\nb\r c\r\n\nd") == std::vector<std::string>{"a", "b", " c", "d"});
    CHECK(lines_of("\x1b[1;31mred\x1b[0m plain\x1b]0;title\a!\x1b(B\n") == std::vector<std::string>{"red plain!B"});
    CHECK(lines_of("\x1b") == std::vector<std::string>{""});
}

TEST_CASE("a line beyond the limit is cut there and its rest is dropped") {
    const auto lines = lines_of(std::string(20'000, 'x') + "\nnext\n");
    REQUIRE(lines.size() == 2);
    CHECK(lines[0].size() == kLineBytesMax);
    CHECK(lines[1] == "next");
}

TEST_CASE("GPU memory that ran out is seen in the words of each framework, and only in the last lines") {
    for (const std::string line :
         {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "torch.cuda.OutOfMemoryError: x",
          "\x1b[31mRuntimeError: CUDA error: out of \x1b[0mmemory\x1b[0m", "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling",
          "RuntimeError: CUDA failed with error out of memory", "ggml_backend_cuda_buffer_type_alloc_buffer: allocating: cudaMalloc failed: out of memory",
          "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate",
          "ValueError: No available memory for the cache blocks."}) {
        CAPTURE(line);
        CHECK(says_gpu_out_of_memory("before\n" + line + "\nTraceback\n"));
        std::string long_after = line + "\n";
        for (int i = 0; i < 300; ++i) long_after += "later line\n";
        CHECK_FALSE(says_gpu_out_of_memory(long_after));
    }
    for (const std::string line : {"RuntimeError: no kernel image is available for execution on the device", "MemoryError",
                                   "memory ok", "OSError: [Errno 28] No space left on device"})
        CHECK_FALSE(says_gpu_out_of_memory(line));
}

TEST_CASE("progress patterns give step and total") {
    struct Row {
        std::string pattern, line;
        std::optional<ProgressPoint> point;
    };
    const std::vector<Row> rows{
        {R"(step (\d+)/(\d+))", "step 12/340 loss 0.1", ProgressPoint{12, 340}},
        {R"(step (\d+))", "at step 7", ProgressPoint{7, 0}},
        {R"(\|\s*(\d+)/(\d+) \[)", " 41%|####      | 200/480 [00:10<00:14]", ProgressPoint{200, 480}},
        {R"(epoch ([\d,]+))", "epoch 1,200", ProgressPoint{1200, 0}},
        {R"(step (\d+)(?:/(\d+))?)", "step 3", ProgressPoint{3, 0}},
        {R"(step (\d+))", "no such line", std::nullopt},
        {R"(step (\w+))", "step two", std::nullopt},
        {R"(step (\d+))", "step 99999999999999999999", std::nullopt},
    };
    for (const auto& row : rows) {
        CAPTURE(row.line);
        const auto pattern = ProgressPattern::compile(row.pattern);
        REQUIRE(pattern.has_value());
        CHECK(pattern->match(row.line) == row.point);
    }
    CHECK_FALSE(ProgressPattern::compile("step (").has_value());
    CHECK_FALSE(ProgressPattern::compile("step").has_value());
}

TEST_CASE("progress lines in JSON give step and total") {
    CHECK(progress_of_json(R"({"step": 120, "total": 1000, "loss": 0.3})") == ProgressPoint{120, 1000});
    CHECK(progress_of_json(R"({"step": 120.0})") == ProgressPoint{120, 0});
    for (const char* line : {"", "not json", "[1]", R"({"total": 5})", R"({"step": -1})", R"({"step": "5"})", R"({"step": 1e300})"})
        CHECK_FALSE(progress_of_json(line).has_value());
}

TEST_CASE("a watch follows the output and the progress file from where it stands") {
    const agent_test::TemporaryFolder folder;
    SpoolWriter writer(folder.path(), {.head_max = 1 << 20, .tail_max = 1 << 20, .segment_max = 64});
    ProgressWatch watch(folder.path(), R"(step (\d+)/(\d+))", folder.path() + "/log.jsonl");
    CHECK_FALSE(watch.look());
    writer.append("step 1/9\rstep 2/9\nst");
    CHECK(watch.look());
    CHECK(watch.newest() == ProgressPoint{2, 9});
    CHECK_FALSE(watch.look());
    writer.append("ep 3/9\n");
    CHECK(watch.look());
    CHECK(watch.newest() == ProgressPoint{3, 9});
    std::ofstream(folder.path() + "/log.jsonl") << "{\"step\": 4, \"total\": 8}\n{\"st";
    CHECK(watch.look());
    CHECK(watch.newest() == ProgressPoint{4, 8});
    std::ofstream(folder.path() + "/log.jsonl", std::ios::app) << "ep\": 5, \"total\": 8}\n";
    CHECK(watch.look());
    CHECK(watch.newest() == ProgressPoint{5, 8});
}

}  // namespace
}  // namespace gf::agent
