#include "simulator/start_command.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace gf::sim {

namespace {

using nlohmann::json;

/// An image without a command of its own: what "keep the container alive" images do.
std::vector<std::string> idle_command() {
    return {"/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 60 & wait $!; done"};
}

std::vector<std::string> joined(std::vector<std::string> head, const std::vector<std::string>& tail) {
    head.insert(head.end(), tail.begin(), tail.end());
    if (head.empty()) return idle_command();
    return head;
}

bool is_text_list(const json& object, const char* key) {
    const auto it = object.find(key);
    if (it == object.end()) return true;
    return it->is_array() && std::ranges::all_of(*it, [](const json& v) { return v.is_string(); });
}

}  // namespace

Result<std::vector<std::string>> shell_words(std::string_view text) {
    std::vector<std::string> words;
    std::string word;
    bool open = false;  // a word has begun, perhaps an empty one
    char quote = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (quote == '\'') {
            if (c == '\'') {
                quote = 0;
            } else {
                word += c;
            }
        } else if (c == '\\' && i + 1 < text.size() &&
                   (quote == 0 || std::string_view{"\"\\$`\n"}.contains(text[i + 1]))) {
            ++i;
            open = true;
            if (text[i] != '\n') word += text[i];
        } else if (quote == '"') {
            if (c == '"') {
                quote = 0;
            } else {
                word += c;
            }
        } else if (c == '\'' || c == '"') {
            quote = c;
            open = true;
        } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            if (open) words.push_back(std::move(word));
            word.clear();
            open = false;
        } else {
            word += c;
            open = true;
        }
    }
    if (quote != 0) return fail(ErrorKind::invalid, "no closing quotation");
    if (open) words.push_back(std::move(word));
    return words;
}

Result<std::vector<std::string>> runpod_argv(std::string_view args,
                                             const std::vector<std::string>& image_entrypoint,
                                             const std::vector<std::string>& image_cmd) {
    if (args.empty()) return joined(image_entrypoint, image_cmd);
    const auto first = args.find_first_not_of(" \t\r\n");
    if (first != std::string_view::npos && args[first] == '{') {
        const auto parsed = json::parse(args, nullptr, false);
        if (parsed.is_object() && (parsed.contains("entrypoint") || parsed.contains("cmd"))) {
            if (!is_text_list(parsed, "entrypoint") || !is_text_list(parsed, "cmd")) {
                return fail(ErrorKind::invalid, "entrypoint and cmd must be lists of strings");
            }
            const auto entrypoint = parsed.contains("entrypoint")
                                        ? parsed["entrypoint"].get<std::vector<std::string>>()
                                        : image_entrypoint;
            // Docker's rule: a new entrypoint drops the image's CMD.
            const auto fallback = parsed.contains("entrypoint") ? std::vector<std::string>{} : image_cmd;
            return joined(entrypoint,
                          parsed.contains("cmd") ? parsed["cmd"].get<std::vector<std::string>>() : fallback);
        }
    }
    auto words = shell_words(args);
    if (!words) return words;
    return joined(image_entrypoint, *words);
}

std::vector<std::string> vast_args_argv(const std::string& onstart, const std::vector<std::string>& args,
                                        const std::vector<std::string>& image_entrypoint,
                                        const std::vector<std::string>& image_cmd) {
    if (!onstart.empty()) return joined({onstart}, args);
    return joined(image_entrypoint, args.empty() ? image_cmd : args);
}

std::vector<std::string> vast_ssh_argv(const std::string& onstart) {
    const std::string script =
        "mkdir -p /root; printf '%s\\n' \"$1\" > /root/onstart.sh; chmod 700 /root/onstart.sh; "
        "if [ -x /bin/bash ]; then s=/bin/bash; else s=/bin/sh; fi; "
        "$s /root/onstart.sh & "
        "trap 'exit 0' TERM; while :; do sleep 60 & wait $!; done";
    return {"/bin/sh", "-c", script, "vast-init", onstart};
}

void set_env(Environment& env, const std::string& name, const std::string& value) {
    std::erase_if(env, [&](const auto& entry) { return entry.first == name; });
    env.emplace_back(name, value);
}

}  // namespace gf::sim
