// Lists that are whole in memory, cut into pages: the cursor is the number of entries already given.
#pragma once
#include <algorithm>
#include <vector>

#include "daemon/api/context.hpp"
#include "daemon/api/json_views.hpp"

namespace gf::api {

/// The page that the request asks for. `view` makes the JSON of one row; only the rows of the page are made.
template <class Row, class View>
Result<std::string> page_body(const http::Request& request, const std::vector<Row>& rows, View view) {
    const auto page = page_of(request);
    if (!page) return fail(page.error());
    const auto given = number_of_cursor(*page);
    if (!given) return fail(given.error());
    const auto from = static_cast<std::size_t>(*given);
    const auto to = std::min(rows.size(), from + static_cast<std::size_t>(page->limit));
    std::vector<Json> items;
    for (auto i = from; i < to; ++i) items.push_back(view(rows[i]));
    return dump(list_view(std::move(items), to < rows.size() ? std::to_string(to) : ""));
}

/// The same as the answer to the call.
template <class Row, class View>
void answer_page(const Call& call, const std::vector<Row>& rows, View view) {
    auto body = page_body(call.request, rows, view);
    if (!body) return fail_with(call, body.error());
    answer_json(call, 200, *std::move(body));
}

}  // namespace gf::api
