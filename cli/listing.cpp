#include "cli/listing.hpp"

#include <nlohmann/json.hpp>
#include <optional>

#include "cli/json_read.hpp"
#include "model/bytes.hpp"

namespace gf::cli {
namespace {

using nlohmann::json;

const json& first_of(const json& row, const std::vector<std::string>& keys) {
    static const json nothing;
    for (const auto& key : keys)
        if (const auto& value = member(row, key); !value.is_null()) return value;
    return nothing;
}

std::string plain(const json& value) {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_number() || value.is_boolean()) return value.dump();
    return {};
}

std::string cell_text(const json& value, Shape shape, std::int64_t now_ms) {
    switch (shape) {
        case Shape::text:
        case Shape::state:
        case Shape::number:
            return plain(value);
        case Shape::dollars: {
            const auto amount = plain(value);
            return amount.empty() || amount.starts_with('$') ? amount : "$" + amount;
        }
        case Shape::bytes:
            return value.is_number_integer() ? bytes_text(Bytes{value.get<std::int64_t>()}) : plain(value);
        case Shape::age:
            return value.is_string() ? ago(value.get<std::string>(), now_ms) : "";
        case Shape::yes:
            return value.is_boolean() && value.get<bool>() ? "yes" : "";
        case Shape::list: {
            std::string joined;
            if (!value.is_array()) return plain(value);
            for (const auto& item : value) joined += (joined.empty() ? "" : " ") + plain(item);
            return joined;
        }
    }
    return {};
}

bool right_aligned(Shape shape) {
    return shape == Shape::dollars || shape == Shape::bytes || shape == Shape::number || shape == Shape::age;
}

}  // namespace

Colour colour_of_state(const std::string& state) {
    if (state == "succeeded" || state == "done" || state == "running" || state == "busy" || state == "ok" ||
        state == "whole")
        return Colour::good;
    if (state == "failed" || state == "lost" || state == "quarantined") return Colour::bad;
    if (state == "recovering" || state == "held" || state == "unknown" || state == "interrupted" ||
        state == "stopping" || state == "destroying" || state == "degraded" ||
        state == "listing_not_trusted" || state == "launch_paused")
        return Colour::warn;
    if (state == "cancelled" || state == "gone" || state == "ended") return Colour::dim;
    return Colour::none;
}

Table table_of(const json& rows, const std::vector<Column>& columns, std::int64_t now_ms) {
    std::vector<const Column*> used;
    std::vector<std::string> headings;
    std::vector<bool> optional;
    for (const auto& column : columns) {
        bool any = column.always;
        for (const auto& row : rows)
            any = any || !cell_text(first_of(row, column.keys), column.shape, now_ms).empty();
        if (!any) continue;
        used.push_back(&column);
        optional.push_back(!column.always);
        headings.push_back((right_aligned(column.shape) ? ">" : "") + column.heading);
    }
    Table table(std::move(headings), std::move(optional));
    for (const auto& row : rows) {
        std::vector<Cell> cells;
        for (const auto* column : used) {
            auto text = cell_text(first_of(row, column->keys), column->shape, now_ms);
            const auto colour = column->shape == Shape::state ? colour_of_state(text) : Colour::none;
            cells.push_back({text.empty() ? "-" : std::move(text), colour});
        }
        table.add(std::move(cells));
    }
    return table;
}

}  // namespace gf::cli
