#include "daemon/log.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

namespace gf::log {
namespace {

constexpr std::size_t kSecretMin = 6;

struct Redactions {
    std::shared_mutex mutex;  // guards texts
    std::vector<std::string> texts;
};
Redactions& redactions() {
    static Redactions all;
    return all;
}

std::string url_encoded(std::string_view text) {
    static constexpr std::string_view digits = "0123456789ABCDEF";
    std::string out;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                           c == '.' || c == '_' || c == '~';
        if (plain) {
            out += c;
        } else {
            out += '%';
            out += digits[byte >> 4U];
            out += digits[byte & 15U];
        }
    }
    return out;
}

/// The base64 of a secret inside a longer text depends on where it starts, modulo three; these are the parts that are
/// the same whatever stands before and after.
std::vector<std::string> base64_forms(std::string_view text) {
    static constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::vector<std::string> forms;
    for (std::size_t shift = 0; shift < 3; ++shift) {
        const std::string bytes = std::string(shift, '\0') + std::string(text);
        std::string out;
        for (std::size_t i = 0; i + 3 <= bytes.size(); i += 3) {
            const auto at = [&](std::size_t k) { return static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i + k])); };
            const auto group = at(0) << 16U | at(1) << 8U | at(2);
            for (const unsigned bits : {18U, 12U, 6U, 0U}) out += digits[group >> bits & 63U];
        }
        const std::size_t foreign = shift == 0 ? 0 : shift + 1;  // characters that mix in bits of what stands before
        if (out.size() >= foreign + 8) forms.push_back(out.substr(foreign));
    }
    return forms;
}

std::string redacted(std::string text) {
    auto& all = redactions();
    const std::shared_lock lock(all.mutex);
    for (const auto& secret : all.texts) {
        for (auto at = text.find(secret); at != std::string::npos; at = text.find(secret, at + 3))
            text.replace(at, secret.size(), "***");
    }
    return text;
}

void append_value(std::string& out, std::string_view value) {
    bool plain = !value.empty();
    for (const char c : value)
        plain = plain && c > ' ' && c != '"' && c != '=' && c != '\\' && c != '\x7f';
    if (plain) {
        out += value;
        return;
    }
    static constexpr std::string_view digits = "0123456789abcdef";
    out += '"';
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
    out += '"';
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

void redact(const Secret& secret) {
    const auto& plain = secret.reveal();
    if (plain.size() < kSecretMin) return;
    auto& all = redactions();
    const std::unique_lock lock(all.mutex);
    if (std::ranges::find(all.texts, plain) != all.texts.end()) return;  // opened again
    all.texts.push_back(plain);
    if (auto encoded = url_encoded(plain); encoded != plain) all.texts.push_back(std::move(encoded));
    for (auto& form : base64_forms(plain)) all.texts.push_back(std::move(form));
}

std::string line(std::string_view event, std::initializer_list<Field> fields) {
    std::string out(event);
    for (const auto& [key, value] : fields) {
        out += ' ';
        out += key;
        out += '=';
        append_value(out, value);
    }
    return redacted(std::move(out));
}

void write(Level level, std::string_view event, std::initializer_list<Field> fields) {
    if (!enabled(level)) return;
    static constexpr std::string_view names[] = {"debug ", "info ", "warn ", "error "};
    logger().log(spd(level), spdlog::string_view_t(std::string(names[static_cast<std::size_t>(level)]) + line(event, fields)));
}

}  // namespace gf::log
