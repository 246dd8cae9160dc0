// logs: the raw bytes of a job's output.
#include <fmt/core.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "cli/command.hpp"
#include "cli/exit_code.hpp"
#include "cli/json_read.hpp"
#include "cli/log_follow.hpp"

namespace gf::cli {
namespace {

struct LogOptions {
    std::string job, attempt;
    std::int64_t offset{0};
    bool follow{false};
};

/// One object as the daemon gives it, of all its pages: written as they come, since a log need not fit into
/// the memory.
int logs_as_json(Context& context, const LogOptions& options) {
    auto& out = context.env.out;
    std::int64_t offset = options.offset;
    bool over = false;
    for (bool first = true;;) {
        auto page = context.client.get_json(path_of({"v1", "jobs", options.job, "logs"},
                                                    {{"attempt", options.attempt},
                                                     {"offset", offset > 0 ? std::to_string(offset) : ""},
                                                     {"format", "json"},
                                                     {"limit", "10000"}}));
        if (!page) return report(context, page.error());
        if (first) out << "{\"items\": [";
        const auto& items = list_at(*page, "items");
        for (const auto& item : items) {
            out << (first ? "\n" : ",\n") << one_line(item);
            first = false;
        }
        if (first) {  // the first page had nothing
            out << "\n";
            first = false;
        }
        over = true_at(*page, "over");
        const auto next = whole_of(*page, "next_offset").value_or(offset);
        const bool more = !items.empty() && next > offset;
        offset = std::max(offset, next);
        if (!more || out.fail()) break;
    }
    out << "\n], \"next_offset\": " << offset << ", \"over\": " << (over ? "true" : "false") << "}\n";
    return kExitOk;
}

int logs(Context& context, const LogOptions& options) {
    if (options.follow) {
        const DetachOnInterrupt detach(context.env);
        auto over =
            follow_log(context, {.job = options.job, .attempt = options.attempt, .offset = options.offset});
        if (!over) return report(context, over.error());
        if (!*over) fmt::print(context.env.err, "\ndetached; the job goes on\n");
        return kExitOk;
    }
    if (context.json) return logs_as_json(context, options);
    Call call{.path = path_of({"v1", "jobs", options.job, "logs"},
                              {{"attempt", options.attempt},
                               {"offset", options.offset > 0 ? std::to_string(options.offset) : ""}}),
              .total = std::chrono::milliseconds{0}};
    call.sink = [&context](std::string_view bytes) {
        context.env.out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        return !context.env.out.fail();
    };
    auto answer = context.client.send(call);
    if (!answer) return report(context, answer.error());
    if (answer->status >= 300) return report(context, refusal(*answer, "GET logs"));
    context.env.out.flush();
    return kExitOk;
}

}  // namespace

void add_log_command(CLI::App& app, Action& chosen) {
    auto options = std::make_shared<LogOptions>();
    auto* command =
        app.add_subcommand("logs", "what a job printed, byte for byte; with --json its lines as JSON")
            ->fallthrough();
    command->add_option("job", options->job, "id of the job")->required();
    command->add_flag("-f,--follow", options->follow,
                      "go on until the job ends; Ctrl-C detaches, the job goes on");
    command->add_option("--attempt", options->attempt,
                        "number of the attempt (default: all of them, one after the other)");
    command->add_option("--offset", options->offset, "start at this byte")->check(CLI::NonNegativeNumber);
    command->callback([&chosen, options] { chosen = [options](Context& c) { return logs(c, *options); }; });
}

}  // namespace gf::cli
