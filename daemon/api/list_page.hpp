// Lists that are whole in memory, cut into pages: the cursor is the number of entries already given.
#pragma once
#include <charconv>
#include <vector>

#include "daemon/api/context.hpp"
#include "daemon/api/json_views.hpp"

namespace gf::api {

/// `view` makes the JSON of one row; only the rows of the page are made.
template <class Row, class View>
void answer_page(const Call& call, const std::vector<Row>& rows, View view) {
    const auto page = page_of(call.request);
    if (!page) return fail_with(call, page.error());
    std::size_t from = 0;
    if (!page->cursor.empty()) {
        const auto* end = page->cursor.data() + page->cursor.size();
        const auto [stop, error] = std::from_chars(page->cursor.data(), end, from);
        if (error != std::errc{} || stop != end)
            return fail_with(call, Error{.kind = ErrorKind::malformed, .message = "cursor is not one that this server gave", .field = "cursor"});
    }
    const auto to = std::min(rows.size(), from + static_cast<std::size_t>(page->limit));
    std::vector<Json> items;
    for (auto i = from; i < to; ++i) items.push_back(view(rows[i]));
    answer_json(call, 200, dump(list_view(std::move(items), to < rows.size() ? std::to_string(to) : "")));
}

}  // namespace gf::api
