// submit: packs the code, hands the spec in exactly once, says which offer the job got, and follows or waits
// if told.
#include <fmt/core.h>
#include <fmt/ostream.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "cli/exit_code.hpp"
#include "cli/job_watch.hpp"
#include "cli/json_read.hpp"
#include "cli/log_follow.hpp"
#include "cli/spec_file.hpp"

namespace gf::cli {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr int kTries = 6;

struct SubmitOptions {
    std::string spec, key;
    bool follow{false}, wait{false}, detach{false};
};

std::string fresh_key() {
    std::array<unsigned char, 16> random{};
    if (RAND_bytes(random.data(), static_cast<int>(random.size())) != 1) return {};
    std::string key = "cli-";
    for (const unsigned char byte : random) key += fmt::format("{:02x}", byte);
    return key;
}

/// The same key goes with every try, so that a try whose answer was lost and its repetition make one job.
Outcome<json> hand_in(Context& context, const SpecFile& spec, const std::string& text,
                      const std::string& key) {
    Call post{.method = "POST",
              .path = "/v1/jobs",
              .body = text,
              .content_type = spec.content_type(),
              .headers = {{"Idempotency-Key", key}}};
    std::chrono::milliseconds pause = 500ms;
    bool may_be_stored = false;
    for (int attempt = 1;; ++attempt) {
        auto answer = context.client.send_json(post);
        if (answer) return answer;
        const auto& failure = answer.error();
        const bool lost = failure.status == 0 && failure.exit_code != kExitUnexpected;
        const bool later =
            failure.status == 503 || failure.status == 502 || failure.status == 504 || failure.status == 429;
        may_be_stored = may_be_stored || (lost && !failure.never_sent);
        // Nobody listens: nothing was handed in, and waiting for a daemon to be started is not what was
        // asked. One that was there a moment ago is waited for: it restarts.
        const bool nobody = failure.never_sent && attempt == 1;
        if (attempt == kTries || nobody || !(lost || later) || was_interrupted(context.env)) {
            if (!lost || !may_be_stored) return answer;
            auto unsure = failure;
            unsure.text += fmt::format(
                "; whether the job was stored is not known. To ask again without making a second one: "
                "--idempotency-key {}",
                key);
            return std::unexpected(std::move(unsure));
        }
        const auto wait =
            std::max<std::chrono::milliseconds>(pause, std::chrono::seconds{failure.retry_after_s});
        fmt::print(context.env.err, "{}; trying again in {} s\n", shown(failure.text),
                   (wait.count() + 999) / 1000);
        context.env.sleep(wait);
        pause = std::min<std::chrono::milliseconds>(pause * 2, 8s);
    }
}

/// Who waits for the job's own exit status must not take being detached for success.
int detached(Context& context, const SubmitOptions& options, const std::string& id, const char* command) {
    fmt::print(context.env.err, "\ndetached; the job goes on: gpuferry {} {}\n", command, id);
    return options.wait ? kExitInterrupted : kExitOk;
}

int finish(Context& context, const SubmitOptions& options, const std::string& id) {
    if (options.follow) {
        auto over = follow_log(context, {.job = id, .attempt = {}, .offset = 0});
        if (!over) return report(context, over.error());
        if (!*over) return detached(context, options, id, "logs --follow");
    }
    auto job = wait_for_end(context, id);
    if (!job) {
        if (!was_interrupted(context.env)) return report(context, job.error());
        return detached(context, options, id, "show");
    }
    if (context.json) print_json(context, *job);
    const int status = exit_status_of(*job);
    return options.wait || status == kExitOk ? status : kExitRefused;
}

int submit(Context& context, const SubmitOptions& options) {
    auto spec = read_spec(options.spec, context.env);  // may wait for a keyboard, which Ctrl-C must end
    if (!spec) return report(context, spec.error());
    const DetachOnInterrupt detach(context.env);  // packed code is cleared away, and a job that is in is named
    auto text = spec_to_send(context, *spec, true);
    if (!text) return report(context, text.error(), spec->shown);
    if (was_interrupted(context.env))
        return report(context, {.exit_code = kExitInterrupted, .text = "interrupted; nothing was handed in"});
    const auto key = options.key.empty() ? fresh_key() : options.key;
    if (key.empty())
        return report(context,
                      {.exit_code = kExitRefused, .text = "no random bytes for the idempotency key"});
    auto job = hand_in(context, *spec, *text, key);
    if (!job) return report(context, job.error(), spec->shown);
    const auto id = text_of(*job, "id");
    if (id.empty())
        return report(context,
                      {.exit_code = kExitUnexpected, .text = "the daemon answered without a job id"});
    const bool stays = options.follow || options.wait;
    if (context.json) {
        if (!stays) return print_json(context, *job);
    } else {
        if (true_at(*job, "repeated"))
            fmt::print(context.env.err, "note: this key was used before; this is the job of then\n");
        fmt::print(context.env.out, "{}\n", id);
        context.env.out.flush();
    }
    if (!context.json && !options.detach) show_first_offer(context, id, 10s);
    context.env.out.flush();
    if (was_interrupted(context.env)) return detached(context, options, id, "show");
    return stays ? finish(context, options, id) : kExitOk;
}

}  // namespace

void add_submit_command(CLI::App& app, Action& chosen) {
    auto options = std::make_shared<SubmitOptions>();
    auto* command = app.add_subcommand("submit", "hand a job in")->fallthrough();
    command->add_option("spec", options->spec, "job spec, YAML or JSON; - reads standard input")->required();
    command->add_flag("-f,--follow", options->follow,
                      "show its output until it ends; Ctrl-C detaches, the job goes on");
    command->add_flag("-w,--wait", options->wait,
                      "wait for its end; the exit status is the job's, 128+n after signal n");
    command->add_flag("-d,--detach", options->detach, "print the id only, without waiting for an offer");
    command->add_option("--idempotency-key", options->key, "hand in at most once under this key")
        ->check([](const std::string& text) {
            const bool plain =
                !text.empty() && text.size() <= 200 &&
                std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
            return plain ? std::string{} : std::string{"a key has 1 to 200 printable ASCII characters"};
        });
    command->callback([&chosen, options] { chosen = [options](Context& c) { return submit(c, *options); }; });
}

}  // namespace gf::cli
