// A job spec of any bytes: never a crash, always either a spec or an error with a place; putting a hash in
// place of `code` changes nothing else. The first byte chooses the format.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "config/job_spec_parser.hpp"
#include "config/shipped.hpp"
#include "scheduler/gpu_names.hpp"

namespace {

gf::SpecContext context() {
    static const auto names = gf::GpuNames::parse(gf::shipped_gpus_csv(), gf::shipped_aliases_csv()).value();
    return {.resolve_gpu =
                [](std::string_view typed) {
                    auto found = names.typed(typed);
                    return gf::GpuResolution{std::move(found.canonical), std::move(found.suggestions)};
                },
            .code_may_be_path = true};
}

void require(bool holds) {
    if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const auto format = data[0] % 2 == 0 ? gf::SpecFormat::yaml : gf::SpecFormat::json;
    const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
    static const gf::SpecContext kContext = context();
    const auto outcome = gf::check_job_spec(text, format, kContext);
    require(outcome.spec.has_value() == outcome.errors.empty());
    require(outcome.errors.size() <= gf::kSpecErrorsMax);
    for (const auto& error : outcome.errors) {
        require(error.line >= 1 && error.column >= 1 && !error.message.empty() &&
                error.message.size() < 4'000);
        require(error.kind == gf::ErrorKind::malformed || error.kind == gf::ErrorKind::invalid ||
                error.kind == gf::ErrorKind::not_yet);
    }
    const auto replaced = gf::spec_with_code(text, format, std::string(64, '0'));
    if (replaced) require(gf::code_of_spec(*replaced, format).value() == "sha256:" + std::string(64, '0'));
    if (replaced && outcome.spec) require(gf::check_job_spec(*replaced, format, kContext).spec.has_value());
    return 0;
}
