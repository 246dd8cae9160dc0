// plan, offers, gpus, providers.
#include <fmt/core.h>
#include <fmt/ostream.h>

#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "cli/exit_code.hpp"
#include "cli/explain_text.hpp"
#include "cli/json_read.hpp"
#include "cli/listing.hpp"
#include "cli/market_history.hpp"
#include "cli/spec_file.hpp"

namespace gf::cli {
namespace {

using nlohmann::json;

int plan(Context& context, const std::string& file) {
    auto spec = read_spec(file, context.env);
    if (!spec) return report(context, spec.error());
    const DetachOnInterrupt detach(context.env);  // so that no packed code is left behind
    auto text = spec_to_send(context, *spec, false);
    if (!text) return report(context, text.error());
    auto answer = context.client.send_json(Call{.method = "POST",
                                                .path = "/v1/plan",
                                                .body = *std::move(text),
                                                .content_type = spec->content_type(),
                                                .total = std::chrono::milliseconds{60'000}});
    if (!answer) return report(context, answer.error(), spec->shown);
    if (context.json) return print_json(context, *answer);
    context.env.out << explain_text(*answer, context.style);
    return kExitOk;
}

/// Prints a list of the API; `empty` is said on standard error when there is nothing in it.
int print_list(Context& context, const std::string& path, const Query& query, std::size_t limit,
               const std::vector<Column>& columns, const char* empty) {
    auto answer = context.client.get_all(path, query, limit);
    if (!answer) return report(context, answer.error());
    if (context.json) return print_json(context, *answer);
    const auto& items = list_at(*answer, "items");
    if (items.empty())
        context.env.err << empty << "\n";
    else
        context.env.out << table_of(items, columns, now_ms(context)).print(context.style);
    return kExitOk;
}

struct OfferOptions {
    std::string gpu, provider;
    std::size_t limit{50};
};

int offers(Context& context, const OfferOptions& options) {
    static const std::vector<Column> columns{
        {"PROVIDER", {"provider"}, Shape::text, true},
        {"OFFER", {"id", "offer"}, Shape::text, true},
        {"GPU", {"gpu.canonical", "gpu.provider_name", "gpu"}, Shape::text, true},
        {"N", {"gpu_count", "gpus"}, Shape::number, true},
        {"VRAM", {"vram_bytes", "gpu.memory", "vram"}, Shape::bytes},
        {"SPOT", {"spot"}, Shape::yes, true},
        {"$/H", {"rate", "all_in", "gpu_rate"}, Shape::dollars, true},
        {"CPUS", {"cpus"}, Shape::number},
        {"MEMORY", {"memory", "memory_bytes"}, Shape::bytes},
        {"DOWN Mbps", {"inet_down_mbps"}, Shape::number},
        {"RELIABILITY", {"reliability"}, Shape::number},
        {"REGION", {"region", "country"}},
        {"CUDA", {"cuda_max"}},
    };
    return print_list(context, "/v1/offers", {{"gpu", options.gpu}, {"provider", options.provider}},
                      options.limit, columns, "no offers were seen yet; gpuferry providers says why");
}

int gpus(Context& context) {
    static const std::vector<Column> columns{
        {"GPU", {"name", "canonical"}, Shape::text, true},
        {"VENDOR", {"vendor"}},
        {"CLASS GB", {"class_gb"}, Shape::number},
        {"USABLE GIB", {"usable_gib"}, Shape::number},
        {"CC", {"compute_capability"}},
        {"GB/S", {"bandwidth_gb_s"}, Shape::number},
        {"TFLOPS", {"fp16_tensor_tflops"}, Shape::number},
        {"BF16", {"bf16"}, Shape::yes},
        {"FP8", {"fp8"}, Shape::yes},
        {"FP4", {"fp4"}, Shape::yes},
        {"NVLINK", {"nvlink_gb_s"}, Shape::number},
        {"TIER", {"tier"}},
    };
    return print_list(context, "/v1/gpus", {}, 10'000, columns, "the daemon has no table of GPUs");
}

int providers(Context& context) {
    static const std::vector<Column> columns{
        {"PROVIDER", {"name"}, Shape::text, true},
        {"HEALTH", {"health"}, Shape::state, true},
        {"REASON", {"reason"}},
        {"BALANCE", {"balance"}, Shape::dollars},
        {"OFFERS", {"offers"}, Shape::number},
        {"REJECTED", {"offers_rejected"}, Shape::number},
        {"MACHINES", {"machines"}, Shape::number},
        {"OFFERS SEEN", {"offers_at"}, Shape::age},
        {"LISTED", {"listing_at"}, Shape::age},
    };
    return print_list(context, "/v1/providers", {}, 1000, columns,
                      "no provider; set RUNPOD_API_KEY or VAST_API_KEY for the daemon and start it again");
}

}  // namespace

void add_market_commands(CLI::App& app, Action& chosen) {
    auto file = std::make_shared<std::string>();
    auto* planner =
        app.add_subcommand("plan", "which offer a job would get now; rents nothing")->fallthrough();
    planner->add_option("spec", *file, "job spec, YAML or JSON; - reads standard input")->required();
    planner->callback([&chosen, file] { chosen = [file](Context& c) { return plan(c, *file); }; });

    auto options = std::make_shared<OfferOptions>();
    auto* market = app.add_subcommand("offers", "what the providers would rent now")->fallthrough();
    market->add_option("--gpu", options->gpu, "only this GPU");
    market->add_option("--provider", options->provider, "only this provider");
    market->add_option("-n,--limit", options->limit, "at most so many (default 50)")
        ->check(CLI::Range(1, 1'000'000));
    auto history = std::make_shared<HistoryOptions>();
    auto* past = market->add_flag("--history", history->wanted, "what was offered in a span of time, as the daemon has recorded it");
    market->add_option("--gpus", history->gpus, "with --history: only this number of GPUs")->check(CLI::Range(1, 64))->needs(past);
    auto* spot = market->add_flag("--spot", history->spot, "with --history: only spot")->needs(past);
    market->add_flag("--on-demand", history->on_demand, "with --history: only on demand")->needs(past)->excludes(spot);
    market->add_option("--from", history->from, "with --history: a time, a day, or how long ago such as 30d (default 7d)")->needs(past);
    market->add_option("--to", history->to, "with --history: the same (default now)")->needs(past);
    auto* tick = market->add_option("--tick", history->tick, "with --out: time between two rows (default 5m)");
    auto* out = market->add_option("--out", history->out,
                                   "with --history: writes availability.csv, prices.csv and known.csv for gpuferry-replay into this folder")
                    ->needs(past);
    tick->needs(out);
    market->add_option("--known", history->known_least, "with --out: least share of the time that must be known of a zone (default 0.9)")
        ->check(CLI::Range(0.0, 1.0))
        ->needs(out);
    market->callback([&chosen, options, history] {
        if (!history->wanted) {
            chosen = [options](Context& c) { return offers(c, *options); };
            return;
        }
        history->gpu = options->gpu;
        history->provider = options->provider;
        history->limit = options->limit;
        chosen = [history](Context& c) { return offer_history(c, *history); };
    });

    app.add_subcommand("gpus", "the GPUs that gpuferry knows by name")->fallthrough()->callback([&chosen] {
        chosen = gpus;
    });
    app.add_subcommand("providers", "health, balance and trust of each provider")
        ->fallthrough()
        ->callback([&chosen] { chosen = providers; });
}

}  // namespace gf::cli
