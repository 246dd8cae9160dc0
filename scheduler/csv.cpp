#include "scheduler/csv.hpp"

namespace gf {
namespace {

std::unexpected<Error> malformed(int line, std::string what) {
    return fail(Error{.kind = ErrorKind::malformed,
                      .message = "line " + std::to_string(line) + ": " + std::move(what),
                      .line = line});
}

/// Reads one record from `at` on, past its line end. False when a quote stays open.
bool read_record(std::string_view s, std::size_t& at, int& line, std::vector<std::string>& out) {
    out.assign(1, {});
    bool quoted = false;
    for (; at < s.size(); ++at) {
        const char c = s[at];
        if (c == '\n') ++line;
        if (quoted) {
            if (c != '"') {
                out.back().push_back(c);
            } else if (at + 1 < s.size() && s[at + 1] == '"') {
                out.back().push_back('"');
                ++at;
            } else {
                quoted = false;
            }
        } else if (c == '"' && out.back().empty()) {
            quoted = true;
        } else if (c == ',') {
            out.emplace_back();
        } else if (c == '\n') {
            ++at;
            break;
        } else if (c != '\r') {
            out.back().push_back(c);
        }
    }
    return !quoted;
}

}  // namespace

std::size_t CsvTable::column(std::string_view name) const {
    std::size_t at = 0;
    while (at < columns.size() && columns[at] != name) ++at;
    return at;
}

Result<CsvTable> parse_csv(std::string_view text) {
    CsvTable table;
    // Spreadsheets begin a file with the mark of UTF-8; it is no part of the first column's name.
    if (constexpr std::string_view kMark = "\xEF\xBB\xBF"; text.starts_with(kMark))
        text.remove_prefix(kMark.size());
    std::size_t at = 0;
    int line = 1;
    std::vector<std::string> fields;
    while (at < text.size()) {
        const int first = line;
        if (!read_record(text, at, line, fields)) return malformed(first, "a quote is not closed");
        if (fields.size() == 1 && fields[0].empty()) continue;
        if (table.columns.empty()) {
            table.columns = fields;
            continue;
        }
        if (fields.size() != table.columns.size())
            return malformed(first, std::to_string(fields.size()) + " fields where the header has " +
                                        std::to_string(table.columns.size()));
        table.rows.push_back({first, fields});
    }
    if (table.columns.empty()) return malformed(1, "the header line is missing");
    return table;
}

}  // namespace gf
