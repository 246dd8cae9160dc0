// The examples' job files are what a newcomer copies: each must be a valid spec, and say what its program
// does.
#include <doctest/doctest.h>
#include <re2/re2.h>

#include <fstream>
#include <iterator>

#include "config/job_spec_parser.hpp"

using namespace gf;

namespace {

std::string text_of(const std::string& path) {
    std::ifstream in{GF_EXAMPLES + path};
    REQUIRE(in.good());
    return {std::istreambuf_iterator<char>{in}, {}};
}

}  // namespace

TEST_CASE("the variants of train-tiny differ from its job file in the machine only") {
    SpecContext context;
    context.resolve_gpu = [](std::string_view) { return GpuResolution{}; };
    context.code_may_be_path = true;
    const auto spec_of = [&context](const char* file) {
        SpecOutcome outcome = check_job_spec(text_of(file), SpecFormat::yaml, context);
        for (const Error& e : outcome.errors) FAIL_CHECK(e.message);
        REQUIRE(outcome.spec);
        return *std::move(outcome.spec);
    };
    const JobSpec spot = spec_of("/train-tiny/job.yaml");
    const JobSpec local = spec_of("/train-tiny/local.yaml");
    const JobSpec on_demand = spec_of("/train-tiny/on-demand.yaml");
    CHECK(local.resources.cpu_only);
    CHECK(on_demand.resources.spot == SpotChoice::never);
    CHECK(on_demand.resources.vram.has_value());
    for (const JobSpec* other : {&local, &on_demand}) {
        CAPTURE(other->name);
        CHECK(other->run == spot.run);
        CHECK(other->checkpoint.path == spot.checkpoint.path);
        CHECK(other->checkpoint.every == spot.checkpoint.every);
        CHECK(other->checkpoint.marker == spot.checkpoint.marker);
        CHECK(other->progress_regex == spot.progress_regex);
        REQUIRE(other->outputs.size() == 1);
        CHECK(other->outputs[0].from == "out");
    }
}

TEST_CASE("the job file of train-tiny is a valid spec that fits its program") {
    SpecContext context;
    context.resolve_gpu = [](std::string_view) { return GpuResolution{}; };  // it names no GPU
    context.code_may_be_path = true;
    const SpecOutcome outcome = check_job_spec(text_of("/train-tiny/job.yaml"), SpecFormat::yaml, context);
    for (const Error& e : outcome.errors) FAIL_CHECK(e.message);
    REQUIRE(outcome.spec);
    const JobSpec& spec = *outcome.spec;
    CHECK(spec.kind == JobKind::training);
    CHECK(spec.run == "python3 train.py");
    CHECK(spec.resources.spot == SpotChoice::always);
    CHECK(spec.checkpoint.declared);
    CHECK(spec.checkpoint.path == "ckpt");
    CHECK(spec.checkpoint.every == Millis{3000});
    REQUIRE(spec.outputs.size() == 1);
    CHECK(spec.outputs[0].from == "out");

    const std::string program = text_of("/train-tiny/train.py");
    CHECK(program.find("MARKER = \"" + spec.checkpoint.marker + "\"") != std::string::npos);
    CHECK(program.find("print(f\"step {trainer.step}/{steps} loss {loss:.4f}\"") != std::string::npos);
    int step = 0;
    int total = 0;
    CHECK(re2::RE2::PartialMatch("step 17/300 loss 2.1034", spec.progress_regex, &step, &total));
    CHECK(step == 17);
    CHECK(total == 300);
}
