// The daemon about itself: alive, ready, figures for Prometheus, and the description of this API.
#include <fmt/format.h>

#include <iterator>

#include "daemon/api/handlers.hpp"
#include "daemon/api/json_views.hpp"
#include "daemon/api/openapi.hpp"

namespace gf::api {
namespace {

constexpr int kMachinesPage = 1000;

class Exposition {
 public:
    void family(std::string_view name, std::string_view type, std::string_view help) {
        fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
    }
    void sample(std::string_view name, std::string_view labels, std::int64_t value) {
        if (labels.empty()) fmt::format_to(std::back_inserter(text_), "{} {}\n", name, value);
        else fmt::format_to(std::back_inserter(text_), "{}{{{}}} {}\n", name, labels, value);
    }
    void raw(std::string_view lines) { text_ += lines; }
    [[nodiscard]] std::string take() { return std::move(text_); }

 private:
    std::string text_;
};

}  // namespace

void healthz(Call call) {
    Json out;
    out["status"] = "ok";
    out["version"] = call.context().options.version;
    out["time"] = rfc3339(call.context().core.now());
    answer_json(call, 200, dump(out));
}

void readyz(Call call) {
    const auto view = call.context().core.view();
    Json out;
    out["ready"] = view->ready;
    out["providers"] = Json::object();
    for (const auto& provider : view->providers)
        out["providers"][provider.name.get()] = provider.offers_at || provider.listing_at ? "asked" : "not asked yet";
    auto response = http::json(view->ready ? 200 : 503, dump(out));
    if (!view->ready) response.headers.emplace_back("Retry-After", "1");
    call.answer(std::move(response));
}

void metrics(Call call) {
    const auto answers = call.context().answers;
    const auto connections = call.context().connections ? call.context().connections() : 0;
    in_background(std::move(call), [answers, connections](const Call& c, Reader& reader) {
        const auto& options = c.context().options;
        Exposition out;
        const auto counts = reader.job_counts();
        if (!counts) return http::problem(counts.error());
        out.family("gpuferry_jobs", "gauge", "Jobs by state.");
        for (const auto& [state, count] : counts->by_state)
            out.sample("gpuferry_jobs", fmt::format("state=\"{}\"", text(state)), count);
        std::map<std::string, std::int64_t> machines;
        std::string cursor;
        for (bool more = true; more;) {
            const auto rows = reader.machines(false, cursor, kMachinesPage);
            if (!rows) return http::problem(rows.error());
            for (const auto& row : *rows)
                ++machines[fmt::format("provider=\"{}\",state=\"{}\"", row.provider.get(), text(row.state))];
            more = static_cast<int>(rows->size()) == kMachinesPage;
            if (more) cursor = rows->back().id.get();
        }
        out.family("gpuferry_machines", "gauge", "Machines that are not gone, by provider and state.");
        for (const auto& [labels, count] : machines) out.sample("gpuferry_machines", labels, count);
        const auto view = c.context().core.view();
        out.family("gpuferry_offers", "gauge", "Usable offers seen last, by provider.");
        for (const auto& p : view->providers)
            out.sample("gpuferry_offers", fmt::format("provider=\"{}\"", p.name.get()), p.offers);
        out.family("gpuferry_provider_ok", "gauge", "1 when the provider answers as it should.");
        for (const auto& p : view->providers)
            out.sample("gpuferry_provider_ok", fmt::format("provider=\"{}\"", p.name.get()), p.health == "ok" ? 1 : 0);
        out.family("gpuferry_http_answers_total", "counter", "Answers of the REST listeners by status.");
        for (const auto& [status, count] : answers)
            out.sample("gpuferry_http_answers_total", fmt::format("code=\"{}\"", status), count);
        out.family("gpuferry_http_connections", "gauge", "Open connections of the REST listeners.");
        out.sample("gpuferry_http_connections", "", connections);
        if (options.commit_counters) {
            const auto commits = options.commit_counters();
            out.family("gpuferry_commits_total", "counter", "Transactions committed.");
            out.sample("gpuferry_commits_total", "", commits.commits);
            out.family("gpuferry_commits_failed_total", "counter", "Transactions that failed.");
            out.sample("gpuferry_commits_failed_total", "", commits.commits_failed);
            out.family("gpuferry_core_events_total", "counter", "Events applied by the core.");
            out.sample("gpuferry_core_events_total", "", commits.events);
            out.family("gpuferry_commit_microseconds_total", "counter", "Time spent in commits.");
            out.sample("gpuferry_commit_microseconds_total", "", commits.micros);
        }
        if (options.extra_metrics) out.raw(options.extra_metrics());
        http::Response response;
        response.content_type = "text/plain; version=0.0.4; charset=utf-8";
        response.body = out.take();
        return response;
    });
}

void openapi(Call call) { answer_json(call, 200, std::string(openapi_document())); }

void not_yet(Call call) {
    call.answer(http::problem(501, "not yet: " + call.request.path + " is reserved for a later release"));
}

}  // namespace gf::api
