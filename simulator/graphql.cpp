#include "simulator/graphql.hpp"

#include <cctype>
#include <stdexcept>

namespace gf::sim {

namespace {

using nlohmann::json;

class Parser {
 public:
    Parser(std::string_view text, const json& variables) : text_(text), variables_(variables) {}

    GraphDocument document() {
        GraphDocument result;
        skip();
        if (!at('{')) {
            const auto kind = name();
            if (kind != "query" && kind != "mutation")
                throw std::runtime_error("Unexpected Name \"" + kind + "\"");
            result.mutation = kind == "mutation";
            if (!at('{') && !at('(')) name();
            if (at('(')) variable_definitions();
        }
        result.fields = selection(0);
        skip();
        if (here_ != text_.size()) throw std::runtime_error("Unexpected text after the operation");
        return result;
    }

 private:
    static constexpr int kDepth = 24;

    void skip() {
        while (here_ < text_.size()) {
            const char c = text_[here_];
            if (c == '#') {
                while (here_ < text_.size() && text_[here_] != '\n') ++here_;
            } else if (std::isspace(static_cast<unsigned char>(c)) != 0 || c == ',') {
                ++here_;
            } else {
                return;
            }
        }
    }
    [[nodiscard]] bool at(char c) {
        skip();
        return here_ < text_.size() && text_[here_] == c;
    }
    bool accept(char c) {
        if (!at(c)) return false;
        ++here_;
        return true;
    }
    void expect(char c) {
        if (!accept(c)) throw std::runtime_error(std::string{"Expected \""} + c + "\"");
    }
    std::string name() {
        skip();
        std::string result;
        while (here_ < text_.size() &&
               (std::isalnum(static_cast<unsigned char>(text_[here_])) != 0 || text_[here_] == '_')) {
            result += text_[here_++];
        }
        if (result.empty()) throw std::runtime_error("Expected Name");
        return result;
    }

    /// "($c: Int!, $s: Boolean = true)": types are not checked, defaults are kept.
    void variable_definitions() {
        expect('(');
        while (!accept(')')) {
            expect('$');
            const auto variable = name();
            expect(':');
            int lists = 0;
            while (accept('[')) ++lists;
            name();
            accept('!');
            while (lists-- > 0) {
                expect(']');
                accept('!');
            }
            if (accept('=')) defaults_[variable] = value(0);
        }
    }

    std::vector<GraphField> selection(int depth) {
        if (depth > kDepth) throw std::runtime_error("Selections are nested too deeply");
        std::vector<GraphField> fields;
        expect('{');
        while (!accept('}')) {
            if (at('.')) throw std::runtime_error("Fragments are not supported");
            GraphField field;
            field.name = field.alias = name();
            if (accept(':')) field.name = name();
            field.arguments = json::object();
            if (accept('(')) {
                while (!accept(')')) {
                    const auto argument = name();
                    expect(':');
                    field.arguments[argument] = value(0);
                }
            }
            if (at('{')) field.fields = selection(depth + 1);
            fields.push_back(std::move(field));
        }
        return fields;
    }

    json value(int depth) {
        if (depth > kDepth) throw std::runtime_error("Values are nested too deeply");
        skip();
        if (here_ >= text_.size()) throw std::runtime_error("Unexpected <EOF>");
        if (accept('$')) {
            const auto variable = name();
            if (variables_.contains(variable)) return variables_[variable];
            return defaults_.contains(variable) ? defaults_[variable] : json(nullptr);
        }
        if (accept('[')) {
            json list = json::array();
            while (!accept(']')) list.push_back(value(depth + 1));
            return list;
        }
        if (accept('{')) {
            json object = json::object();
            while (!accept('}')) {
                const auto key = name();
                expect(':');
                object[key] = value(depth + 1);
            }
            return object;
        }
        if (at('"')) return text();
        const char c = text_[here_];
        if (c == '-' || std::isdigit(static_cast<unsigned char>(c)) != 0) return number();
        const auto word = name();
        if (word == "true") return true;
        if (word == "false") return false;
        if (word == "null") return nullptr;
        return word;  // an enum value
    }

    json number() {
        std::string digits;
        while (here_ < text_.size() && std::string_view{"+-.eE0123456789"}.contains(text_[here_]))
            digits += text_[here_++];
        auto parsed = json::parse(digits, nullptr, false);
        if (parsed.is_discarded()) throw std::runtime_error("Invalid number " + digits);
        return parsed;
    }

    json text() {
        if (text_.substr(here_).starts_with("\"\"\"")) {
            const auto end = text_.find("\"\"\"", here_ + 3);
            if (end == std::string_view::npos) throw std::runtime_error("Unterminated string");
            std::string block{text_.substr(here_ + 3, end - here_ - 3)};
            here_ = end + 3;
            return block;
        }
        const auto begin = here_++;
        while (here_ < text_.size() && text_[here_] != '"') {
            if (text_[here_] == '\n') throw std::runtime_error("Unterminated string");
            here_ += text_[here_] == '\\' ? 2 : 1;
        }
        if (here_ >= text_.size()) throw std::runtime_error("Unterminated string");
        ++here_;
        // A GraphQL string has JSON's escapes.
        auto parsed = json::parse(text_.substr(begin, here_ - begin), nullptr, false);
        if (!parsed.is_string()) throw std::runtime_error("Invalid string");
        return parsed;
    }

    std::string_view text_;
    const json& variables_;
    json defaults_ = json::object();
    std::size_t here_{0};
};

}  // namespace

Result<GraphDocument> parse_graphql(std::string_view query, const json& variables) {
    try {
        return Parser(query, variables).document();
    } catch (const std::exception& e) {
        return fail(ErrorKind::invalid, std::string{"Syntax Error: "} + e.what());
    }
}

json selected(const json& value, const std::vector<GraphField>& fields) {
    if (fields.empty() || value.is_null()) return value;
    if (value.is_array()) {
        json list = json::array();
        for (const auto& entry : value) list.push_back(selected(entry, fields));
        return list;
    }
    if (!value.is_object()) return value;
    json result = json::object();
    for (const auto& field : fields) {
        result[field.alias] =
            value.contains(field.name) ? selected(value[field.name], field.fields) : json(nullptr);
    }
    return result;
}

}  // namespace gf::sim
