#include "cli/command.hpp"

#include <chrono>
#include <nlohmann/json.hpp>
#include <ostream>

namespace gf::cli {

int report(Context& context, const Failure& failure, const SpecShown& spec) {
    if (context.json && !failure.problem.empty()) context.env.out << failure.problem << "\n";
    context.env.err << failure_text(failure, context.style, spec);
    return failure.exit_code;
}

int print_json(Context& context, const nlohmann::json& json) {
    // Bytes that are no UTF-8 (a name on a strange machine) must not make the whole answer unprintable.
    context.env.out << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
    return 0;
}

std::int64_t wall_clock_ms() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

std::int64_t now_ms(const Context& context) {
    return context.client.daemon_ms().value_or(wall_clock_ms());
}

}  // namespace gf::cli
