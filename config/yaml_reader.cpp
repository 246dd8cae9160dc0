#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "config/node.hpp"
#include "config/node_builder.hpp"
#include "config/quoted.hpp"

namespace gf {
namespace {

// yaml-cpp keeps every token of an open bracket until it knows that the bracket is no key: 140 MiB and a
// second for 1 MiB of them. No spec comes near this many, also with a JSON document or two in its texts.
constexpr std::ptrdiff_t kFlowCharactersMax = 100'000;

/// Least indentation of the lines after the first in `s`; lines of white space only do not count.
std::size_t continued_at(std::string_view s) {
    std::size_t least = std::string_view::npos;
    for (auto end = s.find('\n'); end != std::string_view::npos; end = s.find('\n', end + 1)) {
        const auto text = s.find_first_not_of(" \t\r", end + 1);
        if (text != std::string_view::npos && s[text] != '\n') least = std::min(least, text - end - 1);
    }
    return least;
}

struct Refused {};  // leaves yaml-cpp's parser once the builder holds an error; never gets out of this file

class Handler final : public YAML::EventHandler {
 public:
    Handler(std::string_view text, NodeBuilder& builder) : text_(text), builder_(builder) {}

    void OnDocumentStart(const YAML::Mark&) override {}
    void OnDocumentEnd() override {}

    void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
        check(mark, "?", anchor);
        if (builder_.expects_key()) refuse(mark, "a key must be a text");
        go_on(builder_.null(offset(mark)));
    }
    void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
        refuse(mark, "aliases (*name) are not allowed");
    }
    void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  const std::string& value) override {
        check(mark, tag, anchor);
        const bool quoted = tag == "!";
        if (quoted) check_quotes(mark);
        if (!builder_.expects_key()) {
            go_on(builder_.scalar(value, quoted, offset(mark)));
            return;
        }
        if (value == "<<" && !quoted) refuse(mark, "merge keys (<<) are not allowed");
        // In brackets only the key before the bracket says how deep lines must be indented.
        if (!open_.empty() && open_.back().block_map) open_.back().key_column = column(offset(mark));
        go_on(builder_.key(value, offset(mark)));
    }
    void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                         YAML::EmitterStyle::value) override {
        begin(Node::Kind::sequence, mark, tag, anchor, false);
    }
    void OnSequenceEnd() override { end(); }
    void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                    YAML::EmitterStyle::value style) override {
        begin(Node::Kind::mapping, mark, tag, anchor, style == YAML::EmitterStyle::Block);
    }
    void OnMapEnd() override { end(); }

 private:
    [[nodiscard]] std::size_t offset(const YAML::Mark& mark) const {
        return mark.pos < 0 ? text_.size() : std::min(static_cast<std::size_t>(mark.pos), text_.size());
    }
    [[nodiscard]] std::size_t column(std::size_t at) const {
        const auto line = at == 0 ? std::string_view::npos : text_.rfind('\n', at - 1);
        return line == std::string_view::npos ? at : at - line - 1;
    }
    /// yaml-cpp takes the end of the text for a closing quote, and any line for a part of the text in quotes: with a forgotten
    /// quote the rest of the document would be silently swallowed.
    void check_quotes(const YAML::Mark& mark) {
        const std::size_t at = offset(mark);
        if (at >= text_.size() || (text_[at] != '"' && text_[at] != '\'')) return;
        const auto past = quoted_end(text_, at);
        if (!past) refuse(mark, "this quote is never closed");
        const auto key = open_.empty() ? std::nullopt : open_.back().key_column;
        if (key && continued_at(text_.substr(at, *past - at)) <= *key)
            refuse(mark, "the text in quotes goes on in a line that is not indented deeper than its key (a quote is missing?)");
    }
    void end() {
        open_.pop_back();
        go_on(builder_.end());
    }
    void begin(Node::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, bool block_map) {
        check(mark, tag, anchor);
        // yaml-cpp also takes a bracket that is never closed for the start of such a key.
        if (builder_.expects_key())
            refuse(mark, "a list or mapping cannot be a key (or its bracket is not closed)");
        open_.push_back({block_map, open_.empty() ? std::nullopt : open_.back().key_column});
        go_on(builder_.begin(kind, offset(mark)));
    }
    /// yaml-cpp gives "?" to what has no tag and "!" to quoted scalars; the same "!" written out shows in the
    /// text.
    void check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
        if (anchor != 0) refuse(mark, "anchors (&name) are not allowed");
        const std::size_t at = offset(mark);
        const bool written = at < text_.size() && text_[at] == '!';
        if ((tag != "?" && tag != "!" && !tag.empty()) || written)
            refuse(mark, "tags (!name) are not allowed");
    }
    [[noreturn]] void refuse(const YAML::Mark& mark, const char* why) {
        builder_.fail_at(offset(mark), why);
        throw Refused{};
    }
    static void go_on(bool ok) {
        if (!ok) throw Refused{};
    }

    struct Open {
        bool block_map;
        std::optional<std::size_t> key_column;  // of the innermost key outside brackets
    };
    std::string_view text_;
    NodeBuilder& builder_;
    std::vector<Open> open_;
};

/// Refuses whatever follows the first document, at its place.
class SecondDocument final : public YAML::EventHandler {
 public:
    SecondDocument(std::string_view text, NodeBuilder& builder) : text_(text), builder_(builder) {}
    void OnDocumentStart(const YAML::Mark& mark) override {
        builder_.fail_at(
            mark.pos < 0 ? text_.size() : std::min(static_cast<std::size_t>(mark.pos), text_.size()),
            "more than one document");
        throw Refused{};
    }
    void OnDocumentEnd() override {}
    void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
    void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
    void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
    void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                         YAML::EmitterStyle::value) override {}
    void OnSequenceEnd() override {}
    void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                    YAML::EmitterStyle::value) override {}
    void OnMapEnd() override {}

 private:
    std::string_view text_;
    NodeBuilder& builder_;
};

}  // namespace

Result<Node> read_yaml(std::string_view text) {
    if (auto readable = check_readable(text); !readable) return fail(std::move(readable).error());
    NodeBuilder builder(text);
    const auto flow = std::ranges::count_if(text, [](char c) { return c == '[' || c == '{' || c == ','; });
    if (flow > kFlowCharactersMax) {
        builder.fail_at(0, "more than " + std::to_string(kFlowCharactersMax) + " brackets and commas");
        return builder.take();
    }
    try {
        std::istringstream stream{std::string(text)};
        YAML::Parser parser(stream);
        Handler handler(text, builder);
        SecondDocument second(text, builder);
        if (parser.HandleNextDocument(handler)) parser.HandleNextDocument(second);
    } catch (const Refused&) {
        // The builder has the error.
    } catch (const YAML::Exception& e) {
        const std::size_t at = e.mark.pos < 0 ? text.size() : static_cast<std::size_t>(e.mark.pos);
        builder.fail_at(std::min(at, text.size()), "not YAML: " + e.msg);
    }
    return builder.take();
}

}  // namespace gf
