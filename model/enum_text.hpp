// Enumerators are spelled like their text in the API and the database. One table per enum serves both directions.
#pragma once
#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace gf {

template <class E>
struct EnumNames;  // specialised beside each enum: `static constexpr std::array<std::pair<E, std::string_view>, N> table`

template <class E>
    requires requires { EnumNames<E>::table; }
[[nodiscard]] constexpr std::string_view text(E value) {
    for (const auto& [e, name] : EnumNames<E>::table)
        if (e == value) return name;
    return "?";
}

template <class E>
[[nodiscard]] constexpr std::optional<E> enum_from(std::string_view name) {
    for (const auto& [e, n] : EnumNames<E>::table)
        if (n == name) return e;
    return std::nullopt;
}

#define GF_ENUM_NAMES(Enum, ...)                                                                   \
    template <>                                                                                    \
    struct EnumNames<Enum> {                                                                       \
        using E = Enum;                                                                            \
        static constexpr auto table = std::to_array<std::pair<Enum, std::string_view>>(__VA_ARGS__); \
    }

}  // namespace gf
