#include "daemon/log.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "model/secret_forms.hpp"

namespace gf::log {
namespace {

constexpr std::size_t kSecretMin = 6;

constexpr std::size_t kValuesKept = 2;  // per owner: a job that runs may still hold the one before the newest

/// A secret in all forms in which it is hidden; the first is the secret itself.
using Forms = std::vector<std::string>;

struct Redactions {
    std::shared_mutex mutex;  // guards all below
    std::map<std::string, std::vector<Forms>, std::less<>> by_owner;  // oldest first
    std::vector<std::string> texts;  // all forms of all, the longest first: none is cut by one that it contains
    void list_texts() {
        texts.clear();
        for (const auto& [owner, values] : by_owner)
            for (const Forms& forms : values) texts.insert(texts.end(), forms.begin(), forms.end());
        sort_forms(texts);
    }
};
Redactions& redactions() {
    static Redactions all;
    return all;
}

std::string redacted(std::string text) {
    auto& all = redactions();
    const std::shared_lock lock(all.mutex);
    mask_forms(text, all.texts);
    return text;
}

/// As it stands between quotes.
std::string escaped_value(std::string_view value) {
    static constexpr std::string_view digits = "0123456789abcdef";
    std::string out;
    for (const char c : value) {
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (c == '\n') {
            out += "\\n";
        } else if (c == '\t') {
            out += "\\t";
        } else if (static_cast<unsigned char>(c) < 0x20 || c == '\x7f') {
            out += "\\x";
            out += digits[static_cast<unsigned char>(c) >> 4U];
            out += digits[static_cast<unsigned char>(c) & 15U];
        } else {
            out += c;
        }
    }
    return out;
}

void append_value(std::string& out, std::string_view value) {
    bool plain = !value.empty();
    for (const char c : value)
        plain = plain && c > ' ' && c != '"' && c != '=' && c != '\\' && c != '\x7f';
    if (plain) out += value;
    else out += '"' + escaped_value(value) + '"';
}

spdlog::level::level_enum spd(Level level) {
    switch (level) {
        case Level::debug: return spdlog::level::debug;
        case Level::info: return spdlog::level::info;
        case Level::warn: return spdlog::level::warn;
        case Level::error: return spdlog::level::err;
    }
    return spdlog::level::info;
}

spdlog::logger& logger() {
    // Held for the life of the process: lines may be written while statics are destroyed.
    static auto* const held = [] {
        auto* made = new spdlog::logger("gpuferry", std::make_shared<spdlog::sinks::stderr_sink_mt>());
        made->set_formatter(std::make_unique<spdlog::pattern_formatter>("%Y-%m-%dT%H:%M:%S.%eZ %v",
                                                                        spdlog::pattern_time_type::utc));
        made->flush_on(spdlog::level::debug);
        return made;
    }();
    return *held;
}

}  // namespace

void set_level(Level level) { logger().set_level(spd(level)); }

bool enabled(Level level) { return logger().should_log(spd(level)); }

void redact(std::string_view owner, const Secret& secret) {
    const auto& plain = secret.reveal();
    if (plain.size() < kSecretMin) return;
    auto& all = redactions();
    const std::unique_lock lock(all.mutex);
    auto& values = all.by_owner[std::string(owner)];
    if (!values.empty() && values.back().front() == plain) return;  // opened again
    const auto known = std::ranges::find(values, plain, [](const Forms& forms) -> const std::string& { return forms.front(); });
    if (known != values.end()) {
        std::rotate(known, known + 1, values.end());
        return;
    }
    values.push_back(secret_forms(plain));
    if (values.size() > kValuesKept) values.erase(values.begin());
    all.list_texts();
}

void forget(std::string_view owner) {
    auto& all = redactions();
    const std::unique_lock lock(all.mutex);
    const auto found = all.by_owner.find(owner);
    if (found == all.by_owner.end()) return;
    all.by_owner.erase(found);
    all.list_texts();
}

std::string line(std::string_view event, std::initializer_list<Field> fields) {
    std::string out(event);
    for (const auto& [key, value] : fields) {
        out += ' ';
        out += key;
        out += '=';
        append_value(out, redacted(value));  // as it is: escaped it would be another text
    }
    return redacted(std::move(out));
}

void write(Level level, std::string_view event, std::initializer_list<Field> fields) {
    if (!enabled(level)) return;
    static constexpr std::string_view names[] = {"debug ", "info ", "warn ", "error "};
    logger().log(spd(level), spdlog::string_view_t(std::string(names[static_cast<std::size_t>(level)]) + line(event, fields)));
}

}  // namespace gf::log
