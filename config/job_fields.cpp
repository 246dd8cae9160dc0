#include "config/job_fields.hpp"

#include <re2/re2.h>

#include <algorithm>
#include <array>

#include "config/utf8.hpp"
#include "model/secret_name.hpp"

namespace gf {
namespace {

constexpr std::size_t kRunBytesMax = 64 * 1024;
constexpr std::size_t kEnvMax = 256;
constexpr std::size_t kEnvBytesMax = 32 * 1024;
constexpr std::size_t kNameCharactersMax = 200;

bool is_env_name(std::string_view s) {
    const auto letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_'; };
    return !s.empty() && s.size() <= 128 && letter(s.front()) &&
           std::ranges::all_of(s, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

bool is_hex_sha256(std::string_view s) {
    return s.size() == 64 &&
           std::ranges::all_of(s, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

void read_env(Walk& walk, const Node& node, JobDraft& draft) {
    walk.entries(node, kEnvMax, [&](const Node::Key& key, const Node& value) {
        if (!is_env_name(key.text)) {
            walk.error_at(key.place, ErrorKind::invalid, walk.path(),
                          "env: the name \"" + shown(key.text) +
                              "\" must be letters, digits and _, 1 to 128, not starting with a digit");
            return;
        }
        if (key.text.starts_with("GPUFERRY_")) {
            walk.error_at(key.place, ErrorKind::invalid, walk.path(),
                          "env: names that start with GPUFERRY_ are set by gpuferry itself");
            return;
        }
        const bool empty = value.kind == Node::Kind::scalar && value.text.empty();
        if (empty)
            draft.spec.env[key.text].clear();
        else if (auto v = walk.text(value, kEnvBytesMax))
            draft.spec.env[key.text] = std::move(*v);
    });
}

void read_image(Walk& walk, const Node& node, JobDraft& draft) {
    const auto image = line_text(walk, node, 512);
    if (!image) return;
    // The registry's own grammar is stricter; this keeps out what would break a start command.
    const bool good = std::ranges::all_of(*image, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view("._-/:@").find(c) != std::string_view::npos;
    });
    if (good && image->front() != '-' && image->front() != '/')
        draft.spec.image = *image;
    else
        walk.wrong(node, "an image such as ghcr.io/owner/name:tag");
}

/// The name of a secret. What is none is not shown in the error: it may be a token or a password in the wrong
/// place.
std::optional<std::string> secret_name(Walk& walk, const Node& node) {
    if (node.kind == Node::Kind::scalar && is_secret_name(node.text)) return node.text;
    walk.error(node, ErrorKind::invalid,
               "must be the name of a secret (" + std::string(kSecretNameRule) +
                   "), never its value; gpuferry secret set NAME stores one");
    return std::nullopt;
}

void read_secrets(Walk& walk, const Node& node, JobDraft& draft) {
    walk.list(node, kJobSecretsMax, [&](const Node& item) {
        auto name = secret_name(walk, item);
        if (!name) return;
        if (std::ranges::find(draft.spec.secrets, *name) != draft.spec.secrets.end()) {
            walk.error(item, ErrorKind::invalid, "is there twice");
            return;
        }
        draft.spec.secrets.push_back(*std::move(name));
        draft.secret_places.emplace_back(item.place, walk.path());
    });
}

void read_image_auth(Walk& walk, const Node& node, JobDraft& draft) {
    static constexpr auto kFields = std::to_array<Field<ImageAuthSpec>>({
        {"username",
         [](Walk& w, const Node& n, ImageAuthSpec& a) {
             auto name = line_text(w, n, 256);
             // It becomes a word of a command line at some providers.
             if (name && name->find_first_of(" \"'\\") != std::string::npos)
                 w.wrong(n, "a user name without blanks, quotes and backslashes");
             else if (name)
                 a.username = std::move(*name);
         }},
        {"password",
         [](Walk& w, const Node& n, ImageAuthSpec& a) {
             if (auto name = secret_name(w, n)) a.password_secret = std::move(*name);
         }},
    });
    ImageAuthSpec auth;
    const auto errors = walk.errors().size();
    draft.image_auth = &node;
    read_section<ImageAuthSpec>(walk, node, kFields, auth);
    if (walk.errors().size() != errors) return;
    if (auth.username.empty() || auth.password_secret.empty())
        walk.error(node, ErrorKind::invalid, "needs username: and password: the name of a secret");
    else
        draft.spec.image_auth = std::move(auth);
}

void read_user(Walk& walk, const Node& node, JobDraft& draft) {
    const auto user = line_text(walk, node, 64);
    if (!user) return;
    const bool good = user->front() != '-' && std::ranges::all_of(*user, [](char c) {
                          return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                                 c == '_' || c == '-' || c == '.';
                      });
    if (good)
        draft.spec.user = *user;
    else
        walk.wrong(node, "a user name or number (letters, digits, _ - .)");
}

void read_code(Walk& walk, const Node& node, JobDraft& draft) {
    const auto code = line_text(walk, node, 4096);
    if (!code) return;
    constexpr std::string_view prefix = "sha256:";
    if (code->starts_with(prefix) && is_hex_sha256(std::string_view(*code).substr(prefix.size()))) {
        draft.spec.code_sha256 = code->substr(prefix.size());
        return;
    }
    if (draft.context->code_may_be_path && !code->starts_with(prefix)) return;
    walk.wrong(node,
               "sha256: and 64 hex digits of a blob that was sent before (gpuferry submit packs a folder and "
               "does this)");
}

void read_outputs(Walk& walk, const Node& node, JobDraft& draft) {
    static constexpr auto kFields = std::to_array<Field<OutputSpec>>({
        {"from",
         [](Walk& w, const Node& n, OutputSpec& o) {
             if (auto v = folder_path(w, n)) o.from = std::move(*v);
         }},
        {"to",
         [](Walk& w, const Node& n, OutputSpec&) {
             refuse_not_yet(
                 w, n, "S3 stores come with the checkpoint stores; without it the daemon keeps the output");
         }},
    });
    if (node.kind == Node::Kind::scalar) {
        walk.wrong(node, "a list of {from: FOLDER}");
        return;
    }
    walk.list(node, 64, [&](const Node& item) {
        OutputSpec output;
        const auto errors = walk.errors().size();
        read_section<OutputSpec>(walk, item, kFields, output);
        if (walk.errors().size() != errors) return;
        if (output.from.empty())
            walk.error(item, ErrorKind::invalid, "needs from: the file or folder to keep");
        else
            draft.spec.outputs.push_back(std::move(output));
    });
}

void read_success_exit(Walk& walk, const Node& node, JobDraft& draft) {
    draft.spec.success_exit.clear();
    walk.list(node, 256, [&](const Node& item) {
        if (const auto code = walk.integer(item, 0, 255))
            draft.spec.success_exit.push_back(static_cast<int>(*code));
    });
    if (node.kind == Node::Kind::sequence && node.items.empty())
        walk.wrong(node, "a list of at least one exit code");
}

void read_progress_regex(Walk& walk, const Node& node, JobDraft& draft) {
    auto text = walk.text(node, 1024);
    if (!text) return;
    RE2::Options options;
    options.set_log_errors(false);
    options.set_max_mem(1 << 20);
    const RE2 regex(*text, options);
    if (!regex.ok()) {
        walk.error(node, ErrorKind::invalid, "is not a regular expression (RE2): " + shown(regex.error()));
    } else if (regex.NumberOfCapturingGroups() < 1 || regex.NumberOfCapturingGroups() > 2) {
        walk.error(node, ErrorKind::invalid,
                   "must have one or two groups, the step and the total, not " +
                       std::to_string(regex.NumberOfCapturingGroups()));
    } else {
        draft.spec.progress_regex = std::move(*text);
    }
}

constexpr char kOneTask[] = "a job has one task today; submit one job for each";
constexpr char kOneMachine[] = "a job runs on one machine today";
constexpr char kWarm[] = "a machine without work is kept for idle.machine of the daemon's configuration";
constexpr char kCache[] = "nothing is kept on warm machines today";
constexpr char kInputs[] = "S3 stores come with the checkpoint stores; fetch the data in run";
constexpr char kResumeCheck[] = "nothing watches for a silent restart today";
constexpr char kIdle[] = "nothing stops an idle job today; use limits.duration";
constexpr char kProgressFile[] = "use progress.regex";

constexpr auto kSuccess = std::to_array<JobField>({
    {"exit", read_success_exit},
    {"product",
     [](Walk& w, const Node& n, JobDraft& d) {
         if (auto v = folder_path(w, n)) d.spec.success_product = std::move(*v);
     }},
});

constexpr auto kProgress = std::to_array<JobField>({
    {"regex", read_progress_regex},
    {"file", reserved<kProgressFile>},
    {"key", reserved<kProgressFile>},
    {"total", reserved<kProgressFile>},
});

constexpr auto kJob = std::to_array<JobField>({
    {"name",
     [](Walk& w, const Node& n, JobDraft& d) {
         if (auto v = line_text(w, n, kNameCharactersMax)) d.spec.name = std::move(*v);
     }},
    {"kind",
     [](Walk& w, const Node& n, JobDraft& d) {
         if (const auto v = w.choice<JobKind>(n)) d.spec.kind = *v;
     }},
    {"project",
     [](Walk& w, const Node& n, JobDraft& d) {
         if (auto v = line_text(w, n, 100)) d.spec.project = std::move(*v);
     }},
    {"image", read_image},
    {"image_auth", read_image_auth},
    {"run",
     [](Walk& w, const Node& n, JobDraft& d) {
         d.has_run = true;
         if (auto v = w.text(n, kRunBytesMax)) d.spec.run = std::move(*v);
     }},
    {"env", read_env},
    {"secrets", read_secrets},
    {"secrets_on",
     [](Walk& w, const Node& n, JobDraft& d) {
         constexpr std::array<std::string_view, 2> names{"verified", "any"};
         if (const auto v = w.one_of(n, names)) d.spec.secrets_on_any = *v == "any";
     }},
    {"user", read_user},
    {"entrypoint",
     [](Walk& w, const Node& n, JobDraft&) {
         constexpr std::array<std::string_view, 2> names{"keep", "replace"};
         if (const auto v = w.one_of(n, names); v && *v == "keep")
             refuse_not_yet(w, n, "every image starts with the agent; call its entrypoint in run");
     }},
    {"code", read_code},
    {"resources", [](Walk& w, const Node& n, JobDraft& d) { read_section(w, n, resource_fields(), d); }},
    {"checkpoint",
     [](Walk& w, const Node& n, JobDraft& d) {
         d.spec.checkpoint.declared = true;
         read_section(w, n, checkpoint_fields(), d);
     }},
    {"resume_check", reserved<kResumeCheck>},
    {"success", [](Walk& w, const Node& n, JobDraft& d) { read_section(w, n, success_fields(), d); }},
    {"cache", reserved<kCache>},
    {"inputs", reserved<kInputs>},
    {"outputs", read_outputs},
    {"progress", [](Walk& w, const Node& n, JobDraft& d) { read_section(w, n, progress_fields(), d); }},
    {"limits", [](Walk& w, const Node& n, JobDraft& d) { read_section(w, n, limit_fields(), d); }},
    {"retry", [](Walk& w, const Node& n, JobDraft& d) { read_section(w, n, retry_fields(), d); }},
    {"idle", reserved<kIdle>},
    {"priority",
     [](Walk& w, const Node& n, JobDraft& d) {
         if (const auto v = w.integer(n, 0, 100)) d.spec.priority = static_cast<int>(*v);
     }},
    {"array", reserved<kOneTask>},
    {"after", reserved<kOneTask>},
    {"batch", reserved<kOneTask>},
    {"nodes", reserved<kOneMachine>},
    {"keep_warm", reserved<kWarm>},
});

}  // namespace

std::span<const JobField> job_fields() {
    return kJob;
}
std::span<const JobField> success_fields() {
    return kSuccess;
}
std::span<const JobField> progress_fields() {
    return kProgress;
}

void refuse_not_yet(Walk& walk, const Node& node, std::string_view what) {
    walk.error(node, ErrorKind::not_yet, "is not yet supported: " + std::string(what));
}

std::optional<std::string> line_text(Walk& walk, const Node& node, std::size_t characters_max) {
    const std::string want = "a text of 1 to " + std::to_string(characters_max) + " characters";
    auto text = walk.text(node, characters_max * 4, want);
    if (!text) return std::nullopt;
    if (character_count(*text) > characters_max) {
        walk.wrong(node, want);
        return std::nullopt;
    }
    for (std::size_t at = 0; at < text->size();) {
        const auto c = next_character(*text, at);
        if (c && !is_control(*c)) continue;
        walk.wrong(
            node,
            "a text without control characters (U+0000-U+001F, U+007F-U+009F, U+202A-U+202E, U+2066-U+2069)");
        return std::nullopt;
    }
    return text;
}

std::optional<std::string> folder_path(Walk& walk, const Node& node) {
    auto path = line_text(walk, node, 1024);
    if (!path) return std::nullopt;
    bool good = path->front() != '/';
    for (std::size_t from = 0; from <= path->size();) {
        const auto cut = std::min(path->find('/', from), path->size());
        good = good && std::string_view(*path).substr(from, cut - from) != "..";
        from = cut + 1;
    }
    if (good) return path;
    walk.wrong(node, "a path inside the job's folder (not starting with /, without ..)");
    return std::nullopt;
}

}  // namespace gf
