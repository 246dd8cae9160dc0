// cost, budget, alerts.
#include <fmt/core.h>
#include <fmt/ostream.h>

#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "cli/cost_text.hpp"
#include "cli/exit_code.hpp"
#include "cli/json_read.hpp"
#include "cli/listing.hpp"

namespace gf::cli {
namespace {

using nlohmann::json;

struct CostOptions {
    std::string job, from, to, group_by;
};

int cost(Context& context, const CostOptions& options) {
    const auto path =
        options.job.empty()
            ? "/v1/cost" +
                  path_of({}, {{"from", options.from}, {"to", options.to}, {"group_by", options.group_by}})
            : path_of({"v1", "jobs", options.job, "cost"});
    auto answer = context.client.get_json(path);
    if (!answer) return report(context, answer.error());
    if (context.json) return print_json(context, *answer);
    context.env.out << cost_text(*answer, context.style);
    return kExitOk;
}

int list_budgets(Context& context) {
    auto answer = context.client.get_json("/v1/budgets");
    if (!answer) return report(context, answer.error());
    if (context.json) return print_json(context, *answer);
    static const std::vector<Column> columns{
        {"NAME", {"name", "id"}, Shape::text, true},
        {"SCOPE", {"scope"}},
        {"PERIOD", {"period"}},
        {"SPENT", {"spent"}, Shape::dollars},
        {"RESERVED", {"reserved"}, Shape::dollars},
        {"LIMIT", {"limit"}, Shape::dollars},
        {"HARD", {"hard"}, Shape::yes},
    };
    context.env.out << table_of(list_at(*answer, "items"), columns, now_ms(context)).print(context.style);
    return kExitOk;
}

struct BudgetOptions {
    std::string name, scope{"all"}, period, limit;
    bool hard{false};
};

int set_budget(Context& context, const BudgetOptions& options) {
    const json body{{"name", options.name},
                    {"scope", options.scope},
                    {"period", options.period},
                    {"limit", options.limit},
                    {"hard", options.hard}};
    auto answer = context.client.send_json(Call{
        .method = "POST", .path = "/v1/budgets", .body = body.dump(), .content_type = "application/json"});
    if (!answer) return report(context, answer.error());
    if (context.json) return print_json(context, *answer);
    fmt::print(context.env.out, "budget {} is set\n", shown(options.name));
    return kExitOk;
}

int remove_budget(Context& context, const std::string& name) {
    auto answer =
        context.client.send_json(Call{.method = "DELETE", .path = path_of({"v1", "budgets", name})});
    if (!answer) return report(context, answer.error());
    if (context.json) return print_json(context, *answer);
    fmt::print(context.env.out, "budget {} is removed\n", shown(name));
    return kExitOk;
}

int alerts(Context& context, bool with_cleared) {
    auto answer = context.client.get_all("/v1/alerts", {{"all", with_cleared ? "1" : ""}}, 1000);
    if (!answer) return report(context, answer.error());
    if (context.json) return print_json(context, *answer);
    static const std::vector<Column> columns{
        {"SINCE", {"at"}, Shape::age, true},
        {"SEVERITY", {"severity"}},
        {"KIND", {"kind"}, Shape::text, true},
        {"JOB", {"job"}},
        {"MACHINE", {"machine"}},
        {"PROVIDER", {"provider"}},
        {"CLEARED", {"cleared_at"}, Shape::age},
        {"TEXT", {"text"}},
    };
    const auto& items = list_at(*answer, "items");
    if (items.empty())
        context.env.err << "no open alerts\n";
    else
        context.env.out << table_of(items, columns, now_ms(context)).print(context.style);
    return kExitOk;
}

}  // namespace

void add_money_commands(CLI::App& app, Action& chosen) {
    auto options = std::make_shared<CostOptions>();
    auto* command = app.add_subcommand("cost", "what a job cost, or what all of it cost in a span of time")
                        ->fallthrough();
    command->add_option("job", options->job, "id of a job; without it the whole account");
    command->add_option("--from", options->from, "start, RFC 3339");
    command->add_option("--to", options->to, "end, RFC 3339");
    command->add_option("--group-by", options->group_by, "job, project or provider");
    command->callback([&chosen, options] { chosen = [options](Context& c) { return cost(c, *options); }; });

    auto* budget = app.add_subcommand("budget", "limits of money")->fallthrough();
    budget->require_subcommand(1);
    budget->add_subcommand("list", "budgets and what is spent of them")->fallthrough()->callback([&chosen] {
        chosen = list_budgets;
    });
    auto set = std::make_shared<BudgetOptions>();
    auto* add = budget->add_subcommand("set", "make or change a budget")->fallthrough();
    add->add_option("name", set->name, "its name")->required();
    add->add_option("limit", set->limit, "dollars, e.g. 300.00")->required();
    add->add_option("--period", set->period, "job, day, week or month")->required();
    add->add_option("--scope", set->scope, "all, project:NAME, user:NAME or job:ID");
    add->add_flag("--hard", set->hard, "checkpoint and stop at the limit");
    add->callback([&chosen, set] { chosen = [set](Context& c) { return set_budget(c, *set); }; });
    auto name = std::make_shared<std::string>();
    auto* remove = budget->add_subcommand("remove", "remove a budget")->fallthrough();
    remove->add_option("name", *name, "its name")->required();
    remove->callback([&chosen, name] { chosen = [name](Context& c) { return remove_budget(c, *name); }; });

    auto all = std::make_shared<bool>(false);
    auto* alert = app.add_subcommand("alerts", "what somebody should look at")->fallthrough();
    alert->add_flag("--all", *all, "also those that are over");
    alert->callback([&chosen, all] { chosen = [all](Context& c) { return alerts(c, *all); }; });
}

}  // namespace gf::cli
