// What things cost, from the ledger's intervals at their real rates. Open intervals count up to now.
#include <algorithm>
#include <map>

#include "daemon/api/handlers.hpp"
#include "daemon/api/json_views.hpp"
#include "model/money.hpp"

namespace gf::api {
namespace {

struct Cut {
    Instant from;
    Instant to;
    Usd gpu;
    Usd disk;
    [[nodiscard]] Usd total() const { return gpu + disk; }
};

/// The part of an interval in [from, to), as cumulative cost at its end minus that at its start, so that the slices of a
/// month add up to the whole.
Cut cut(const LedgerRecord& row, Instant from, Instant to, Instant now) {
    const auto end = std::min(row.until.value_or(now), to);
    const auto begin = std::max(row.from, from);
    if (end <= begin) return {.from = begin, .to = begin, .gpu = {}, .disk = {}};
    const auto held = [&row](Instant at) { return at - row.from; };
    return {.from = begin,
            .to = end,
            .gpu = cost(row.gpu_rate, held(end)) - cost(row.gpu_rate, held(begin)),
            .disk = cost(row.disk_rate, held(end)) - cost(row.disk_rate, held(begin))};
}

std::string hours(Millis span) { return dollars(span.count() * 1'000'000 / 3'600'000); }

Json line_view(const LedgerRecord& row, const Cut& part) {
    Json out;
    out["machine"] = row.machine.get();
    out["provider"] = row.provider.get();
    out["job"] = row.job.get();
    out["project"] = row.project;
    out["from"] = rfc3339(part.from);
    out["until"] = row.until ? Json(rfc3339(part.to)) : Json(nullptr);
    out["hours"] = hours(part.to - part.from);
    out["gpu_rate"] = row.rate_known ? Json(dollars(row.gpu_rate)) : Json(nullptr);
    out["disk_rate"] = row.rate_known ? Json(dollars(row.disk_rate)) : Json(nullptr);
    out["gpu_cost"] = dollars(part.gpu);
    out["disk_cost"] = dollars(part.disk);
    out["cost"] = dollars(part.total());
    out["at_least"] = !row.rate_known;
    return out;
}

/// A machine of the job whose create call has no known outcome may be running and billed: no ledger row shows it.
Result<bool> may_have_more(Reader& reader, const JobId& job) {
    const auto held = reader.reservations(job);
    if (!held) return fail(held.error());
    for (const auto& reservation : *held) {
        if (reservation.released_at) continue;
        const auto machine = reader.machine(reservation.machine);
        if (!machine) return fail(machine.error());
        if (*machine && (*machine)->state == MachineState::unknown) return true;
    }
    return false;
}

/// A machine of which the same is true, with the project that its money was reserved for.
struct Unsettled {
    MachineRecord machine;
    std::string project;
};
Result<std::vector<Unsettled>> unsettled_machines(Reader& reader) {
    std::vector<Unsettled> found;
    for (std::string cursor;;) {
        const auto page = reader.machines(false, cursor, kPageMax);
        if (!page) return fail(page.error());
        for (const auto& machine : *page) {
            if (machine.state != MachineState::unknown) continue;
            const auto held = reader.reservations(machine.job);
            if (!held) return fail(held.error());
            const auto open = [&machine](const ReservationRecord& r) { return r.machine == machine.id && !r.released_at; };
            if (const auto row = std::ranges::find_if(*held, open); row != held->end()) found.push_back({machine, row->project});
        }
        if (page->size() < static_cast<std::size_t>(kPageMax)) return found;
        cursor = page->back().id.get();
    }
}

constexpr Instant kEver = instant_of(std::int64_t{1} << 52);

}  // namespace

void job_cost(Call call) {
    const auto job = find_job(call);
    if (!job) return;
    const auto now = call.context().core.now();
    const auto rows = call.reader().ledger(job->id, instant_of(0), kEver);
    if (!rows) return fail_with(call, rows.error());
    const auto more = may_have_more(call.reader(), job->id);
    if (!more) return fail_with(call, more.error());
    Json out;
    out["job"] = job->id.get();
    Usd total;
    bool at_least = *more;
    auto lines = Json::array();
    for (const auto& row : *rows) {
        const auto part = cut(row, row.from, kEver, now);
        total += part.total();
        at_least = at_least || !row.rate_known;
        lines.push_back(line_view(row, part));
    }
    out["total"] = dollars(total);
    out["at_least"] = at_least;
    out["lines"] = std::move(lines);
    answer_json(call, 200, dump(out));
}

void total_cost(Call call) {
    const auto now = call.context().core.now();
    const auto from = instant_in_query(call.request, "from", instant_of(0));
    if (!from) return fail_with(call, from.error());
    const auto to = instant_in_query(call.request, "to", kEver);
    if (!to) return fail_with(call, to.error());
    const auto* asked = call.request.query_value("group_by");
    const std::string by = asked == nullptr || asked->empty() ? "job" : *asked;
    if (by != "job" && by != "provider" && by != "project" && by != "machine")
        return fail_with(call, Error{.kind = ErrorKind::malformed, .message = "group_by must be one of job, provider, project, machine", .field = "group_by"});
    in_background(std::move(call), [from = *from, to = *to, by, now](const Call&, Reader& reader) {
        const auto rows = reader.ledger(JobId{}, from, to);
        if (!rows) return http::problem(rows.error());
        struct Sum {
            Usd cost;
            Millis held{0};
            bool at_least{false};
        };
        std::map<std::string, Sum> sums;
        Sum all;
        for (const auto& row : *rows) {
            const auto part = cut(row, from, to, now);
            const auto& key = by == "job"        ? row.job.get()
                              : by == "provider" ? row.provider.get()
                              : by == "machine"  ? row.machine.get()
                                                 : row.project;
            for (auto* sum : {&sums[key], &all}) {
                sum->cost += part.total();
                sum->held += part.to - part.from;
                sum->at_least = sum->at_least || !row.rate_known;
            }
        }
        const auto unsettled = unsettled_machines(reader);
        if (!unsettled) return http::problem(unsettled.error());
        for (const auto& [machine, project] : *unsettled) {
            if (machine.created_at >= to || now < from) continue;
            const auto& key = by == "job"        ? machine.job.get()
                              : by == "provider" ? machine.provider.get()
                              : by == "machine"  ? machine.id.get()
                                                 : project;
            sums[key].at_least = true;
            all.at_least = true;
        }
        Json out;
        out["total"] = dollars(all.cost);
        out["at_least"] = all.at_least;
        out["group_by"] = by;
        out["lines"] = Json::array();
        for (const auto& [key, sum] : sums) {
            Json line;
            line["group"] = key;
            line["hours"] = hours(sum.held);
            line["cost"] = dollars(sum.cost);
            line["at_least"] = sum.at_least;
            out["lines"].push_back(std::move(line));
        }
        return http::json(200, dump(out));
    });
}

}  // namespace gf::api
