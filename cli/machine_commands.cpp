// machines list, adopt, destroy.
#include <fmt/core.h>
#include <fmt/ostream.h>

#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "cli/exit_code.hpp"
#include "cli/json_read.hpp"
#include "cli/listing.hpp"

namespace gf::cli {
namespace {

using nlohmann::json;

int list(Context& context, bool with_gone) {
    auto answer = context.client.get_all("/v1/machines", {{"all", with_gone ? "1" : ""}}, 100'000);
    if (!answer) return report(context, answer.error());
    if (context.json) return print_json(context, *answer);
    const auto& items = list_at(*answer, "items");
    if (items.empty()) {
        context.env.err << "no machines\n";
        return kExitOk;
    }
    static const std::vector<Column> columns{
        {"ID", {"id"}, Shape::text, true},
        {"STATE", {"state"}, Shape::state, true},
        {"REASON", {"reason"}},
        {"PROVIDER", {"provider"}, Shape::text, true},
        {"PROVIDER ID", {"provider_id"}},
        {"GPU", {"gpu.canonical", "gpu"}},
        {"SPOT", {"spot"}, Shape::yes},
        {"$/H", {"rate"}, Shape::dollars, true},
        {"JOB", {"job"}},
        {"AGE", {"created_at"}, Shape::age},
        {"TAG", {"tag"}},
        {"DEAD MAN", {"dead_man"}},
        {"DETAIL", {"detail", "agent_detail"}},
    };
    context.env.out << table_of(items, columns, now_ms(context)).print(context.style);
    return kExitOk;
}

int command_machine(Context& context, const std::vector<std::string>& ids, bool destroy) {
    int worst = kExitOk;
    auto answers = json::array();
    for (const auto& id : ids) {
        const Call call = destroy ? Call{.method = "DELETE", .path = path_of({"v1", "machines", id})}
                                  : Call{.method = "POST", .path = path_of({"v1", "machines", id, "adopt"})};
        auto answer = context.client.send_json(call);
        if (!answer) {
            context.env.err << shown(id) << ": ";
            worst = report(context, answer.error());
            continue;
        }
        if (context.json)
            answers.push_back(*std::move(answer));
        else if (destroy)
            fmt::print(context.env.out, "{} is being destroyed until its provider confirms that it is gone\n",
                       shown(id));
        else
            fmt::print(context.env.out, "{} is adopted\n", shown(id));
    }
    if (context.json && !answers.empty()) print_json(context, ids.size() == 1 ? answers.front() : answers);
    return worst;
}

}  // namespace

void add_machine_commands(CLI::App& app, Action& chosen) {
    auto* machines = app.add_subcommand("machines", "the machines that are rented now")->fallthrough();
    auto all = std::make_shared<bool>(false);
    machines->add_flag("--all", *all, "also those that are gone");
    machines->callback([&chosen, all, machines] {
        if (machines->get_subcommands().empty()) chosen = [all](Context& c) { return list(c, *all); };
    });
    auto* lister = machines->add_subcommand("list", "the same")->fallthrough();
    lister->callback([&chosen, all] { chosen = [all](Context& c) { return list(c, *all); }; });
    for (const bool destroy : {false, true}) {
        auto ids = std::make_shared<std::vector<std::string>>();
        auto* command = machines->add_subcommand(
            destroy ? "destroy" : "adopt",
            destroy ? "end machines, whatever runs on them"
                    : "take machines over that carry our tag but are not in the store");
        command->fallthrough();
        command->add_option("machine", *ids, "ids of machines")->required();
        command->callback([&chosen, ids, destroy] {
            chosen = [ids, destroy](Context& c) { return command_machine(c, *ids, destroy); };
        });
    }
}

}  // namespace gf::cli
