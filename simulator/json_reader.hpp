// The reader of the simulator's own files: an unknown key is an error, because a mistyped one would silently
// mean something else. Throws std::runtime_error with the place.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "simulator/market.hpp"

namespace gf::sim {

/// Reads the keys of one JSON object and complains about those that nobody asked for.
class Reader {
 public:
    Reader(const nlohmann::json& object, std::string where) : object_(object), where_(std::move(where)) {
        if (!object_.is_object()) throw std::runtime_error(where_ + " must be an object");
        for (const auto& [key, value] : object_.items()) unread_.push_back(key);
    }

    template <class T>
    void get(const char* key, T& into) {
        if (const auto* value = take(key)) into = value->template get<T>();
    }
    template <class T>
    void get(const char* key, std::optional<T>& into) {
        const auto* value = take(key);
        if (value == nullptr) return;
        if (value->is_null()) {
            into.reset();
        } else {
            into = value->template get<T>();
        }
    }
    void money(const char* key, std::int64_t& into) {
        const auto* value = take(key);
        if (value == nullptr) return;
        const auto micros = micros_of(*value);
        if (!micros)
            throw std::runtime_error(where_ + "." + key + " must be an amount in dollars, 0 or more");
        into = *micros;
    }
    void object_text(const char* key, std::string& into) {
        const auto* value = take(key);
        if (value == nullptr) return;
        if (!value->is_object()) throw std::runtime_error(where_ + "." + key + " must be an object");
        into = value->dump();
    }
    [[nodiscard]] const nlohmann::json* take(const char* key) {
        const auto it = object_.find(key);
        if (it == object_.end()) return nullptr;
        std::erase(unread_, key);
        return &*it;
    }
    void done() const {
        if (!unread_.empty()) throw std::runtime_error(where_ + ": unknown key '" + unread_.front() + "'");
    }

 private:
    const nlohmann::json& object_;
    std::string where_;
    std::vector<std::string> unread_;
};

}  // namespace gf::sim
