// checkpoints list, verify; outputs list, get.
#include <fmt/core.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/command.hpp"
#include "cli/exit_code.hpp"
#include "cli/json_read.hpp"
#include "cli/listing.hpp"
#include "cli/output_fetch.hpp"
#include "cli/progress_bar.hpp"
#include "model/bytes.hpp"

namespace gf::cli {
namespace {

using nlohmann::json;

int print_checkpoints(Context& context, const json& answer) {
    static const std::vector<Column> columns{
        {"GEN", {"generation"}, Shape::number, true},
        {"TASK", {"task"}},
        {"TRY", {"attempt"}, Shape::number, true},
        {"STEP", {"step"}, Shape::number, true},
        {"SIZE", {"bytes"}, Shape::bytes, true},
        {"STATE", {"state"}, Shape::state},
        {"READ BACK", {"verified"}, Shape::state},
        {"COMMITTED", {"committed_at"}, Shape::age},
        {"DETAIL", {"detail"}},
    };
    const auto& items = list_at(answer, "items");
    if (items.empty())
        context.env.err << "no checkpoints\n";
    else
        context.env.out << table_of(items, columns, now_ms(context)).print(context.style);
    return kExitOk;
}

int list_checkpoints(Context& context, const std::string& job) {
    auto answer = context.client.get_all(path_of({"v1", "jobs", job, "checkpoints"}), {}, 100'000);
    if (!answer) return report(context, answer.error());
    if (context.json) return print_json(context, *answer);
    return print_checkpoints(context, *answer);
}

/// The daemon reads every byte of each generation back, one at a time, because that may take minutes.
int verify_checkpoints(Context& context, const std::string& job) {
    auto items = json::array();
    std::string cursor;
    int broken = 0;
    do {
        const auto path = path_of({"v1", "jobs", job, "checkpoints"},
                                  {{"verify", "1"}, {"limit", "1"}, {"cursor", cursor}});
        auto answer = context.client.send_json(Call{.path = path, .total = std::chrono::minutes{30}});
        if (!answer) return report(context, answer.error());
        for (const auto& item : list_at(*answer, "items")) {
            const auto verdict = text_of(item, "verified");
            if (verdict.empty() && text_of(item, "state") != "pruned")
                return report(context, {.exit_code = kExitUnexpected,
                                        .text = "this daemon does not verify checkpoints on demand"});
            if (verdict == "broken" || verdict == "unknown") ++broken;
            items.push_back(item);
        }
        cursor = text_of(*answer, "next_cursor");
    } while (!cursor.empty() && items.size() < 100'000);
    const json whole{{"items", items}};
    if (context.json)
        print_json(context, whole);
    else
        print_checkpoints(context, whole);
    if (broken > 0)
        fmt::print(context.env.err, "{} of {} could not be read back whole\n", broken, items.size());
    return broken > 0 ? kExitRefused : kExitOk;
}

/// The API's path of one output file: each part of its name stays one part.
std::string url_of(const std::string& job, const std::string& path, const std::string& task) {
    std::vector<std::string_view> parts{"v1", "jobs", job, "outputs", "files"};
    std::string_view rest = path;
    for (auto slash = rest.find('/'); slash != std::string_view::npos; slash = rest.find('/')) {
        parts.push_back(rest.substr(0, slash));
        rest.remove_prefix(slash + 1);
    }
    parts.push_back(rest);
    return path_of(parts, {{"task", task}});
}

Outcome<std::vector<OutputFile>> files_of(Context& context, const std::string& job, json* raw) {
    auto answer = context.client.get_all(path_of({"v1", "jobs", job, "outputs"}), {}, 1'000'000);
    if (!answer) return std::unexpected(std::move(answer).error());
    std::vector<OutputFile> files;
    std::set<std::string> names;
    bool names_meet = false;
    for (const auto& item : list_at(*answer, "items")) {
        const auto path = text_of(item, "path");
        names_meet = !names.insert(path).second || names_meet;
        files.push_back({.path = path,
                         .url = url_of(job, path, text_of(item, "task")),
                         .size = whole_of(item, "bytes").value_or(-1),
                         .sha256 = text_of(item, "sha256"),
                         .executable = true_at(item, "executable")});
    }
    // Tasks of one job may publish files of one name: then each task gets a folder of its own.
    if (names_meet) {
        std::size_t at = 0;
        for (const auto& item : list_at(*answer, "items")) {
            files[at].path = text_of(item, "task") + "/" + files[at].path;
            ++at;
        }
    }
    if (raw != nullptr) *raw = *std::move(answer);
    return files;
}

int list_outputs(Context& context, const std::string& job) {
    json raw;
    auto files = files_of(context, job, &raw);
    if (!files) return report(context, files.error());
    if (context.json) return print_json(context, raw);
    static const std::vector<Column> columns{{"PATH", {"path"}, Shape::text, true},
                                             {"SIZE", {"bytes"}, Shape::bytes, true},
                                             {"SHA-256", {"sha256"}},
                                             {"TASK", {"task"}}};
    if (files->empty())
        context.env.err << "no outputs are published\n";
    else
        context.env.out << table_of(list_at(raw, "items"), columns, now_ms(context)).print(context.style);
    return kExitOk;
}

int get_outputs(Context& context, const std::string& job, const std::string& folder, bool force) {
    const DetachOnInterrupt detach(context.env);  // so that no half file is left
    auto files = files_of(context, job, nullptr);
    if (!files) return report(context, files.error());
    if (files->empty())
        return report(context, {.exit_code = kExitRefused,
                                .text = fmt::format("no outputs are published for {}", job)});
    std::int64_t total = 0;
    for (const auto& file : *files) total += std::max<std::int64_t>(file.size, 0);
    ProgressBar bar(context.env, context.style, "fetching", total);
    std::int64_t before = 0;
    const OutputFile* current = nullptr;
    auto fetched =
        fetch_outputs(context.client, *files, folder, force, [&](const OutputFile& file, std::int64_t done) {
            if (current != nullptr && current != &file) before += current->size;
            current = &file;
            bar.show(before + done);
        });
    if (!fetched) return report(context, fetched.error());
    if (context.json)
        return print_json(
            context, json{{"files", fetched->files}, {"kept", fetched->kept}, {"bytes", fetched->bytes}});
    fmt::print(context.env.out, "{} files, {}, verified, in {}{}\n", fetched->files,
               bytes_text(Bytes{fetched->bytes}), shown(folder),
               fetched->kept > 0 ? fmt::format(" ({} were there already)", fetched->kept) : "");
    return kExitOk;
}

void add_reader(CLI::App* parent, Action& chosen, const char* name, const char* help,
                int (*run)(Context&, const std::string&)) {
    auto id = std::make_shared<std::string>();
    auto* command = parent->add_subcommand(name, help)->fallthrough();
    command->add_option("job", *id, "id of the job")->required();
    command->callback([&chosen, id, run] { chosen = [id, run](Context& c) { return run(c, *id); }; });
}

}  // namespace

void add_checkpoint_commands(CLI::App& app, Action& chosen) {
    auto* checkpoints = app.add_subcommand("checkpoints", "what a job can resume from")->fallthrough();
    checkpoints->require_subcommand(1);
    add_reader(checkpoints, chosen, "list", "generations, with attempt, step and size", list_checkpoints);
    add_reader(checkpoints, chosen, "verify", "read every one again and compare its hashes",
               verify_checkpoints);

    auto* outputs = app.add_subcommand("outputs", "the published results of a job")->fallthrough();
    outputs->require_subcommand(1);
    add_reader(outputs, chosen, "list", "files with size and hash", list_outputs);
    auto job = std::make_shared<std::string>();
    auto folder = std::make_shared<std::string>();
    auto* get = outputs->add_subcommand("get", "fetch them into a folder, each verified")->fallthrough();
    get->add_option("job", *job, "id of the job")->required();
    get->add_option("folder", *folder, "where to; made if it is not there")->required();
    auto force = std::make_shared<bool>(false);
    get->add_flag("--force", *force, "replace files that are there with other content");
    get->callback([&chosen, job, folder, force] {
        chosen = [job, folder, force](Context& c) { return get_outputs(c, *job, *folder, *force); };
    });
}

}  // namespace gf::cli
