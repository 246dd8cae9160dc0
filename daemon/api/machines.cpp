// Machines, and the alerts about them and others.
#include "daemon/api/handlers.hpp"
#include "daemon/api/json_views.hpp"
#include "daemon/api/list_page.hpp"
#include "daemon/core.hpp"

namespace gf::api {
namespace {

std::optional<MachineRecord> find_machine(const Call& call) {
    const MachineId id{call.path.at(0)};
    auto found = call.reader().machine(id);
    if (!found) {
        fail_with(call, found.error());
        return std::nullopt;
    }
    if (!*found) call.answer(http::problem(404, "there is no machine " + id.get()));
    return *std::move(found);
}

void command(Call call, MachineVerb verb) {
    const auto machine = find_machine(call);
    if (!machine) return;
    auto principal = call.caller.principal;
    ask_core(std::move(call), CommandMachine{.machine = machine->id, .verb = verb, .principal = std::move(principal)});
}

}  // namespace

void list_machines(Call call) {
    const auto page = page_of(call.request);
    if (!page) return fail_with(call, page.error());
    if (const auto good = check_id_cursor(*page, "mch_"); !good) return fail_with(call, good.error());
    const auto all = flag_in_query(call.request, "all");
    if (!all) return fail_with(call, all.error());
    const auto rows = call.reader().machines(*all, page->cursor, page->limit);
    if (!rows) return fail_with(call, rows.error());
    std::vector<Json> items;
    for (const auto& row : *rows) items.push_back(machine_view(row, call.context().options.dead_man));
    const bool full = static_cast<int>(rows->size()) == page->limit;
    answer_json(call, 200, dump(list_view(std::move(items), full ? rows->back().id.get() : "")));
}

void show_machine(Call call) {
    if (const auto machine = find_machine(call)) answer_json(call, 200, dump(machine_view(*machine, call.context().options.dead_man)));
}

void destroy_machine(Call call) { command(std::move(call), MachineVerb::destroy); }
void adopt_machine(Call call) { command(std::move(call), MachineVerb::adopt); }

void list_alerts(Call call) {
    const auto all = flag_in_query(call.request, "all");
    if (!all) return fail_with(call, all.error());
    constexpr int kAlertsMax = 10'000;
    const auto rows = call.reader().alerts(!*all, kAlertsMax);
    if (!rows) return fail_with(call, rows.error());
    answer_page(call, *rows, alert_view);
}

}  // namespace gf::api
