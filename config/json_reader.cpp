#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "config/node.hpp"
#include "config/node_builder.hpp"

namespace gf {
namespace {

using Json = nlohmann::json;

// nlohmann tells neither where a value starts nor how a number was written. Both follow from how many bytes
// its lexer has taken, so it reads through an iterator that counts.
class CountingIterator {
 public:
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = const char&;

    CountingIterator(const char* at, std::size_t* taken) : at_(at), taken_(taken) {}
    reference operator*() const { return *at_; }
    CountingIterator& operator++() {
        ++at_;
        ++*taken_;
        return *this;
    }
    CountingIterator operator++(int) {
        auto old = *this;
        ++*this;
        return old;
    }
    friend bool operator==(const CountingIterator& a, const CountingIterator& b) { return a.at_ == b.at_; }

 private:
    const char* at_;
    std::size_t* taken_;
};

bool number_character(char c) {
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

class Handler {
 public:
    Handler(std::string_view text, const std::size_t& taken) : text_(text), taken_(taken), builder_(text) {}

    // nlohmann::json_sax
    bool null() { return builder_.null(token()) && advance(); }
    bool boolean(bool value) {
        return builder_.scalar(value ? "true" : "false", false, token()) && advance();
    }
    bool number_integer(Json::number_integer_t) { return number(); }
    bool number_unsigned(Json::number_unsigned_t) { return number(); }
    bool number_float(Json::number_float_t, const std::string&) { return number(); }
    bool string(std::string& value) { return builder_.scalar(value, true, token()) && advance(); }
    bool binary(Json::binary_t&) { return false; }
    bool start_object(std::size_t) { return builder_.begin(Node::Kind::mapping, token()) && advance(); }
    bool key(std::string& name) { return builder_.key(name, token()) && advance(); }
    bool end_object() { return builder_.end() && advance(); }
    bool start_array(std::size_t) { return builder_.begin(Node::Kind::sequence, token()) && advance(); }
    bool end_array() { return builder_.end() && advance(); }
    bool parse_error(std::size_t, const std::string&, const Json::exception& e) {
        // 406 = a number above what a double holds. It is a fine text for the schema to refuse with the
        // field's range.
        overflow_ = e.id == 406;
        std::string message = e.what();
        if (const auto cut = message.find(": "); cut != std::string::npos) message.erase(0, cut + 2);
        // What follows echoes the document: all of it for a text that is never closed.
        if (const auto echo = message.find("; last read"); echo != std::string::npos) message.resize(echo);
        return builder_.fail_at(token(), "not JSON: " + message);
    }

    [[nodiscard]] bool overflow() const { return overflow_; }
    [[nodiscard]] std::pair<std::size_t, std::size_t> overflowed_token() const {
        return {token(), number_end()};
    }
    [[nodiscard]] NodeBuilder& builder() { return builder_; }

 private:
    /// Where the token that the lexer has just read starts: after the last one, white space and separators.
    [[nodiscard]] std::size_t token() const {
        std::size_t at = end_;
        while (at < text_.size() && std::string_view(" \t\r\n,:").find(text_[at]) != std::string_view::npos)
            ++at;
        return at;
    }
    [[nodiscard]] std::size_t number_end() const {
        std::size_t at = token();
        while (at < text_.size() && number_character(text_[at])) ++at;
        return at;
    }
    bool number() {
        const std::size_t start = token(), end = number_end();
        if (!builder_.scalar(std::string(text_.substr(start, end - start)), false, start)) return false;
        end_ = end;  // the lexer has looked one byte further
        return true;
    }
    bool advance() {
        end_ = taken_;
        return true;
    }

    std::string_view text_;
    const std::size_t& taken_;
    std::size_t end_{0};
    bool overflow_{false};
    NodeBuilder builder_;
};

constexpr int kOverflowsMax = 20;

}  // namespace

Result<Node> read_json(std::string_view text) {
    if (auto readable = check_readable(text); !readable) return fail(std::move(readable).error());
    // The parser cannot go on after a number that is too large for a double, so the number is blanked in a
    // copy that only the lexer sees, and the text is read again.
    std::string copy(text);
    for (int round = 0;; ++round) {
        std::size_t taken = 0;
        Handler handler(text, taken);
        const CountingIterator begin(copy.data(), &taken), end(copy.data() + copy.size(), &taken);
        Json::sax_parse(begin, end, &handler);
        if (!handler.overflow() || round == kOverflowsMax) return handler.builder().take();
        const auto [from, to] = handler.overflowed_token();
        for (std::size_t i = from; i < to; ++i) copy[i] = i == from + 1 ? '.' : '1';
    }
}

}  // namespace gf
