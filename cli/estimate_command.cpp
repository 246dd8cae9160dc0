// estimate: the GPU memory that a model needs, part by part, and the cards on which it fits.
#include <fmt/core.h>
#include <fmt/ostream.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <istream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "cli/command.hpp"
#include "cli/exit_code.hpp"
#include "cli/json_read.hpp"
#include "cli/spec_file.hpp"

namespace gf::cli {
namespace {

using nlohmann::json;

struct Options {
    std::string model;
    std::string file;
    std::string config;
    std::vector<std::pair<std::string, std::string>>
        values;                    // of the options that were given, by the API's names
    std::vector<std::string> set;  // key=value
    bool all{false};
};

constexpr std::size_t kCardsShown = 12;

Outcome<json> json_of(const std::string& name, Environment& env) {
    auto text = read_spec(name, env);
    if (!text) return std::unexpected(std::move(text).error());
    auto parsed = json::parse(text->shown.text, nullptr, false);
    if (!parsed.is_object())
        return failed(kExitRefused, fmt::format("{} is not a JSON object{}", name,
                                                parsed.is_array() ? ": send one row at a time" : ""));
    return parsed;
}

/// A local config.json in place of a name: says the shape itself.
bool is_config_file(const std::string& model) {
    std::error_code error;
    return model.ends_with(".json") && std::filesystem::is_regular_file(model, error);
}

Outcome<json> body_of(const Options& options, Environment& env) {
    json body = json::object();
    if (!options.file.empty()) {
        auto row = json_of(options.file, env);
        if (!row) return std::unexpected(std::move(row).error());
        body = *std::move(row);
    }
    std::string config = options.config;
    if (config.empty() && is_config_file(options.model))
        config = options.model;
    else if (!options.model.empty())
        body["model"] = options.model;
    if (!config.empty()) {
        auto shape = json_of(config, env);
        if (!shape) return std::unexpected(std::move(shape).error());
        body["config"] = *std::move(shape);
    }
    for (const auto& [name, value] : options.values) body[name] = value;
    for (const auto& pair : options.set) {
        const auto cut = pair.find('=');
        if (cut == 0 || cut == std::string::npos)
            return failed(kExitUsage, fmt::format("--set needs NAME=VALUE, not \"{}\"", pair));
        body[pair.substr(0, cut)] = pair.substr(cut + 1);
    }
    if (body.empty())
        return failed(kExitUsage, "estimate needs a model (a hub id, a config.json), or a row with -f");
    return body;
}

std::string gib(const json& object, std::string_view key) {
    const auto& value = member(object, key);
    return value.is_number() ? fmt::format("{:.2f}", value.get<double>()) : std::string("?");
}

void print(Context& context, const json& answer, bool all) {
    auto& out = context.env.out;
    fmt::print(out, "{}, {}\n", shown(text_of(answer, "model")), shown(text_of(answer, "method")));
    Table parts({"PART", ">GiB"});
    std::vector<std::pair<double, std::string>> sizes;
    if (const auto& list = member(answer, "parts"); list.is_object())
        for (const auto& [name, size] : list.items())
            if (size.is_number()) sizes.emplace_back(-size.get<double>(), name);
    std::sort(sizes.begin(), sizes.end());
    for (const auto& [size, name] : sizes) parts.add({{shown(name)}, {fmt::format("{:.2f}", -size)}});
    out << parts.print(context.style);
    const auto gpus = whole_of(answer, "gpus").value_or(1);
    fmt::print(out, "estimate: {} GiB x {} ({}) = {} GiB{}\n", gib(answer, "peak_gib_per_gpu"),
               gib(answer, "margin"), shown(text_of(answer, "margin_reason")),
               gib(answer, "with_margin_gib_per_gpu"),
               gpus > 1 ? fmt::format(" on each of {} GPUs", gpus) : "");
    for (const auto& note : list_at(answer, "notes"))
        if (note.is_string()) fmt::print(context.env.err, "note: {}\n", shown(note.get<std::string>()));
    const auto& fits = list_at(answer, "fits");
    if (fits.empty()) {
        fmt::print(out, "fits on no card that gpuferry knows{}\n",
                   gpus > 1 ? "" : "; --gpus with --parallelism splits it");
        return;
    }
    Table cards({"FITS ON", ">USABLE GiB", ">ROOM GiB"});
    for (std::size_t i = 0; i < fits.size() && (all || i < kCardsShown); ++i)
        cards.add(
            {{shown(text_of(fits[i], "gpu"))}, {gib(fits[i], "usable_gib")}, {gib(fits[i], "room_gib")}});
    out << cards.print(context.style);
    if (!all && fits.size() > kCardsShown)
        fmt::print(out, "… and {} larger ones (--all)\n", fits.size() - kCardsShown);
}

int estimate(Context& context, const Options& options) {
    const auto body = body_of(options, context.env);
    if (!body) return report(context, body.error());
    auto answer =
        context.client.send_json(Call{.method = "POST",
                                      .path = "/v1/estimate",
                                      .body = body->dump(-1, ' ', false, json::error_handler_t::replace),
                                      .content_type = "application/json"});
    if (!answer) return report(context, answer.error());
    if (context.json) return print_json(context, *answer);
    print(context, *answer, options.all);
    return kExitOk;
}

}  // namespace

void add_estimate_command(CLI::App& app, Action& chosen) {
    auto options = std::make_shared<Options>();
    auto* estimator =
        app.add_subcommand("estimate", "GPU memory that a model needs, and the cards on which it fits")
            ->fallthrough();
    estimator->add_option("model", options->model,
                          "a hub id (meta-llama/Llama-3.1-8B), or a model's config.json");
    estimator->add_option("-f,--file", options->file,
                          "a JSON object with the values; - reads standard input");
    estimator->add_option("--config", options->config,
                          "the model's config.json, for a model that gpuferry does not know");
    struct Value {
        const char* flag;
        const char* name;
        const char* help;
    };
    for (const auto& value :
         {Value{"--method", "method", "inference (default), full, lora, qlora, adapter"},
          Value{"--seq", "seq", "tokens of the prompt or of a training sequence"},
          Value{"--gen", "gen", "tokens that are generated"},
          Value{"--batch", "batch", "sequences per GPU and step"},
          Value{"--params-b", "params_b", "billions of parameters, for a model that gpuferry does not know"},
          Value{"--precision", "precision", "type of the weights: bfloat16, float32, \"pure bf16\", …"},
          Value{"--quantization", "quantization", "nf4, gptq-int4, awq-int4, fp8, Q4_K_M, …"},
          Value{"--kv-dtype", "kv_dtype", "type of the cache"},
          Value{"--framework", "framework", "the program: transformers, vllm, axolotl, …"},
          Value{"--optimizer", "optimizer", "adamw, \"adamw 8-bit\", adafactor, …"},
          Value{"--checkpointing", "checkpointing", "of activations: yes or no"},
          Value{"--lora-rank", "lora_rank", "rank of the adapters"}, Value{"--gpus", "gpus", "GPUs together"},
          Value{"--parallelism", "parallelism", "ddp, zero1, zero2, zero3, fsdp, tensor, pipeline"},
          Value{"--offload", "offload", "what waits in host memory: activations, params, optimizer"},
          Value{"--resolution", "resolution", "of images: 1024x1024"},
          Value{"--margin", "margin", "a factor in place of the method's own"}})
        estimator->add_option_function<std::string>(
            value.flag,
            [options, name = std::string(value.name)](const std::string& text) {
                options->values.emplace_back(name, text);
            },
            value.help);
    estimator->add_option("--set", options->set,
                          "NAME=VALUE of any other value that POST /v1/estimate takes");
    estimator->add_flag("--all", options->all, "every card on which it fits");
    estimator->callback(
        [&chosen, options] { chosen = [options](Context& c) { return estimate(c, *options); }; });
}

}  // namespace gf::cli
