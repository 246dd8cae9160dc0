// ps, show, cancel, retry, hold, release, explain, events.
#include <fmt/core.h>
#include <fmt/ostream.h>

#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "cli/exit_code.hpp"
#include "cli/explain_text.hpp"
#include "cli/json_read.hpp"
#include "cli/listing.hpp"

namespace gf::cli {
namespace {

using nlohmann::json;

const std::vector<Column>& job_columns() {
    static const std::vector<Column> columns{
        {"ID", {"id"}, Shape::text, true},
        {"NAME", {"name"}, Shape::text, true},
        {"STATE", {"state"}, Shape::state, true},
        {"REASON", {"reason"}},
        {"TRIES", {"attempts"}, Shape::number},
        {"EXIT", {"exit_code"}, Shape::number},
        {"PROJECT", {"project"}},
        {"COST", {"cost", "cost.total"}, Shape::dollars},
        {"AGE", {"created_at"}, Shape::age},
    };
    return columns;
}

const std::vector<Column>& attempt_columns() {
    static const std::vector<Column> columns{
        {"TRY", {"number"}, Shape::number, true},
        {"STATE", {"state"}, Shape::state, true},
        {"REASON", {"reason", "cause"}},
        {"MACHINE", {"machine"}},
        {"PROVIDER", {"provider"}},
        {"EXIT", {"exit_code"}, Shape::number},
        {"SIGNAL", {"exit_signal", "signal"}, Shape::number},
        {"FROM CKPT", {"start_generation", "generation"}, Shape::number},
        {"STEP", {"progress_step", "step", "progress.step"}, Shape::number},
        {"STARTED", {"started_at"}, Shape::age},
        {"ENDED", {"ended_at"}, Shape::age},
        {"DETAIL", {"detail"}},
    };
    return columns;
}

struct PsOptions {
    std::string state, kind, project;
    std::size_t limit{50};
};

int ps(Context& context, const PsOptions& options) {
    const Query query{{"state", options.state}, {"kind", options.kind}, {"project", options.project}};
    auto list = context.client.get_all("/v1/jobs", query, options.limit);
    if (!list) return report(context, list.error());
    if (context.json) return print_json(context, *list);
    const auto& items = list_at(*list, "items");
    context.env.out << table_of(items, job_columns(), now_ms(context)).print(context.style);
    if (items.empty()) context.env.err << "no jobs\n";
    return kExitOk;
}

void print_pair(Context& context, const char* name, const std::string& value) {
    if (!value.empty()) fmt::print(context.env.out, "{:<10} {}\n", name, shown(value));
}

int show(Context& context, const std::string& id) {
    auto job = context.client.get_json(path_of({"v1", "jobs", id}));
    if (!job) return report(context, job.error());
    if (context.json) return print_json(context, *job);
    const auto state = text_of(*job, "state");
    print_pair(context, "id", text_of(*job, "id"));
    print_pair(context, "name", text_of(*job, "name"));
    print_pair(context, "kind", text_of(*job, "kind"));
    print_pair(context, "project", text_of(*job, "project"));
    fmt::print(context.env.out, "{:<10} {}\n", "state",
               context.style.paint(colour_of_state(state), shown(state)));
    print_pair(context, "reason", text_of(*job, "reason"));
    print_pair(context, "detail", text_of(*job, "detail"));
    print_pair(context, "exit code", text_of(*job, "exit_code"));
    print_pair(context, "signal", text_of(*job, "exit_signal"));
    print_pair(context, "created", text_of(*job, "created_at"));
    print_pair(context, "ended", text_of(*job, "ended_at"));
    auto attempts = context.client.get_json(path_of({"v1", "jobs", id, "attempts"}));
    if (!attempts) return report(context, attempts.error());
    if (const auto& items = list_at(*attempts, "items"); !items.empty())
        context.env.out << "\n" << table_of(items, attempt_columns(), now_ms(context)).print(context.style);
    return kExitOk;
}

int command_job(Context& context, const std::vector<std::string>& ids, const char* verb, const char* said) {
    int worst = kExitOk;
    auto answers = json::array();
    for (const auto& id : ids) {
        auto answer =
            context.client.send_json(Call{.method = "POST", .path = path_of({"v1", "jobs", id, verb})});
        if (!answer) {
            context.env.err << shown(id) << ": ";
            worst = report(context, answer.error());
            continue;
        }
        if (context.json) {
            answers.push_back(*std::move(answer));
            continue;
        }
        const auto state = text_of(*answer, "state");
        fmt::print(context.env.out, "{} {}{}\n", shown(id), said,
                   state.empty() ? "" : " (now " + shown(state) + ")");
    }
    if (context.json && !answers.empty()) print_json(context, ids.size() == 1 ? answers.front() : answers);
    return worst;
}

int explain(Context& context, const std::string& id) {
    auto answer = context.client.get_json(path_of({"v1", "jobs", id, "explain"}));
    if (!answer) return report(context, answer.error());
    if (context.json) return print_json(context, *answer);
    context.env.out << explain_text(*answer, context.style);
    return kExitOk;
}

int events(Context& context, const std::string& id) {
    auto list = context.client.get_all(path_of({"v1", "jobs", id, "events"}), {}, 10'000);
    if (!list) return report(context, list.error());
    if (context.json) return print_json(context, *list);
    static const std::vector<Column> columns{
        {"AT", {"at"}, Shape::text, true},
        {"WHAT", {"kind"}, Shape::text, true},
        {"STATE", {"state"}, Shape::state},
        {"TRY", {"attempt"}, Shape::number},
        {"MACHINE", {"machine"}},
        {"REASON", {"reason"}},
        {"DETAIL", {"detail"}},
    };
    context.env.out << table_of(list_at(*list, "items"), columns, now_ms(context)).print(context.style);
    return kExitOk;
}

void add_verb(CLI::App& app, Action& chosen, const char* verb, const char* said, const char* help) {
    auto ids = std::make_shared<std::vector<std::string>>();
    auto* command = app.add_subcommand(verb, help)->fallthrough();
    command->add_option("job", *ids, "ids of jobs")->required();
    command->callback([&chosen, ids, verb, said] {
        chosen = [ids, verb, said](Context& c) { return command_job(c, *ids, verb, said); };
    });
}

void add_job_reader(CLI::App& app, Action& chosen, const char* name, const char* help,
                    int (*run)(Context&, const std::string&)) {
    auto id = std::make_shared<std::string>();
    auto* command = app.add_subcommand(name, help)->fallthrough();
    command->add_option("job", *id, "id of the job")->required();
    command->callback([&chosen, id, run] { chosen = [id, run](Context& c) { return run(c, *id); }; });
}

}  // namespace

void add_job_commands(CLI::App& app, Action& chosen) {
    auto options = std::make_shared<PsOptions>();
    auto* command = app.add_subcommand("ps", "list jobs, newest first")->fallthrough();
    command->add_option("--state", options->state, "only jobs in this state");
    command->add_option("--kind", options->kind, "training or batch_inference");
    command->add_option("--project", options->project, "only this project");
    command->add_option("-n,--limit", options->limit, "at most so many (default 50)")
        ->check(CLI::Range(1, 1'000'000));
    command->callback([&chosen, options] { chosen = [options](Context& c) { return ps(c, *options); }; });

    add_job_reader(app, chosen, "show", "one job and its attempts", show);
    add_job_reader(app, chosen, "explain", "why this offer, why not the others, why it waits", explain);
    add_job_reader(app, chosen, "events", "the history of a job", events);
    add_verb(app, chosen, "cancel", "is being cancelled",
             "stop jobs (with a checkpoint where one is declared) and end them");
    add_verb(app, chosen, "retry", "is queued again",
             "run failed or cancelled jobs again, from their last checkpoint");
    add_verb(app, chosen, "hold", "is being held", "checkpoint and stop jobs; their machines are given back");
    add_verb(app, chosen, "release", "is released", "let held jobs go on");
}

}  // namespace gf::cli
