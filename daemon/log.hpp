// The daemon's log: one line, one event, `key=value`. Hides the logging library. Thread-safe. Registered secrets are
// replaced by *** in every line, whoever wrote them into it.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "model/secret.hpp"

namespace gf::log {

enum class Level { debug, info, warn, error };

struct Field {
    std::string_view key;
    std::string value;
    Field(std::string_view k, std::string v) : key(k), value(std::move(v)) {}
    Field(std::string_view k, std::string_view v) : key(k), value(v) {}
    Field(std::string_view k, const char* v) : key(k), value(v) {}
    Field(std::string_view k, std::int64_t v) : key(k), value(std::to_string(v)) {}
    Field(std::string_view k, int v) : key(k), value(std::to_string(v)) {}
};

/// Lines go to standard error. Lines below `level` cost one comparison.
void set_level(Level level);
[[nodiscard]] bool enabled(Level level);

/// From now on `secret` never appears in a line. Secrets shorter than six bytes are ignored: they would blank out
/// ordinary text. Its other forms (model/secret_forms.hpp) are hidden too. Of each `owner` ("secret/HF_TOKEN") the two values that were
/// told last are hidden: so many may be in use at a time, and a token that changes every hour shall not fill the memory.
void redact(std::string_view owner, const Secret& secret);
/// The values of this owner are not secret any more.
void forget(std::string_view owner);

/// "2026-11-30T09:12:44.000Z info api.listening address=127.0.0.1:8470". Values with spaces, quotes or control
/// characters are quoted and escaped, so that a value can never forge a line.
void write(Level level, std::string_view event, std::initializer_list<Field> fields = {});

inline void debug(std::string_view event, std::initializer_list<Field> fields = {}) { write(Level::debug, event, fields); }
inline void info(std::string_view event, std::initializer_list<Field> fields = {}) { write(Level::info, event, fields); }
inline void warn(std::string_view event, std::initializer_list<Field> fields = {}) { write(Level::warn, event, fields); }
inline void error(std::string_view event, std::initializer_list<Field> fields = {}) { write(Level::error, event, fields); }

/// The text of a line without time and level, as `write` would print it: for tests and for notes of the core.
[[nodiscard]] std::string line(std::string_view event, std::initializer_list<Field> fields);

}  // namespace gf::log
