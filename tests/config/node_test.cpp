#include "config/node.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <iterator>
#include <span>
#include <string>

using namespace gf;

namespace {

std::string dump(const Node& n) {
    switch (n.kind) {
        case Node::Kind::null:
            return "null";
        case Node::Kind::scalar:
            return n.quoted ? "'" + n.text + "'" : n.text;
        case Node::Kind::sequence: {
            std::string out = "[";
            for (const auto& item : n.items) out += dump(item) + ";";
            return out + "]";
        }
        case Node::Kind::mapping: {
            std::string out = "{";
            for (std::size_t i = 0; i < n.keys.size(); ++i)
                out += n.keys[i].text + ":" + dump(n.items[i]) + ";";
            return out + "}";
        }
    }
    return "?";
}
std::string at(const Place& p) {
    return std::to_string(p.line) + ":" + std::to_string(p.column);
}

struct Bad {
    const char* what;
    std::string text;
    const char* message_has;
    int line, column;
};
void check_bad(Result<Node> (*read)(std::string_view), std::span<const Bad> table) {
    for (const auto& row : table) {
        CAPTURE(std::string(row.what));
        const auto got = read(row.text);
        REQUIRE(!got.has_value());
        CHECK(got.error().kind == ErrorKind::malformed);
        CAPTURE(got.error().message);
        CHECK(got.error().message.find(row.message_has) != std::string::npos);
        CHECK(got.error().line == row.line);
        CHECK(got.error().column == row.column);
    }
}

}  // namespace

TEST_CASE("JSON keeps numbers as typed and knows where each value stands") {
    const auto root = read_json(
        "{\"a\": 1.50, \"b\" : [true,null,-0,\"№\", 12 ],\n  \"c\":{\"d\":1e400}, "
        "\"e\":18446744073709551616}");
    REQUIRE(root.has_value());
    CHECK(dump(*root) == "{a:1.50;b:[true;null;-0;'№';12;];c:{d:1e400;};e:18446744073709551616;}");
    CHECK(at(root->place) == "1:1");
    CHECK(at(root->find("a")->place) == "1:7");
    CHECK(at(root->keys[1].place) == "1:13");
    CHECK(at(root->find("b")->items[0].place) == "1:20");
    CHECK(at(root->find("b")->items[3].place) == "1:33");
    CHECK(at(root->find("b")->items[4].place) == "1:38");  // columns are characters
    CHECK(at(root->find("c")->find("d")->place) == "2:12");
    CHECK(root->find("nothing") == nullptr);
}

TEST_CASE("several numbers beyond a double stay what was typed") {
    const auto root = read_json("[1e400, -1e999, 2, 1e309]");
    REQUIRE(root.has_value());
    CHECK(dump(*root) == "[1e400;-1e999;2;1e309;]");
}

TEST_CASE("YAML keeps scalars as typed") {
    const auto root = read_yaml(
        "a: no\nb: 1:30\nc: 007\nd: \"1e-3\"\ne: [on, ~, '', 0x1F]\nf: |\n  x\n  y\ng: {h: null}\n");
    REQUIRE(root.has_value());
    CHECK(dump(*root) == "{a:no;b:1:30;c:007;d:'1e-3';e:[on;null;'';0x1F;];f:'x\ny\n';g:{h:null;};}");
    CHECK(at(root->find("d")->place) == "4:4");
    CHECK(at(root->find("e")->items[0].place) == "5:5");
    CHECK(at(root->find("g")->find("h")->place) == "9:8");
}

TEST_CASE("JSON that cannot be read is refused with its place") {
    const Bad table[] = {
        {"empty", "", "not JSON", 1, 1},
        {"open", "{\"a\": 1", "not JSON", 1, 8},
        {"trailing comma", "{\"a\": 1,}", "not JSON", 1, 9},
        {"comment", "// x\n{}", "not JSON", 1, 1},
        {"garbage after", "{}\n x", "not JSON", 2, 2},
        {"NaN", "{\"gpus\": NaN}", "not JSON", 1, 10},
        {"leading zero", "{\"gpus\": 01}", "not JSON", 1, 12},
        {"twice", "{\"gpus\": 1,\n \"gpus\": 2}", "the key \"gpus\" is there twice", 2, 2},
        {"twice, nested", "{\"r\": {\"x\": 1, \"x\": 1}}", "twice", 1, 16},
        {"twice by escapes", "{\"gpus\": 1, \"gp\\u0075s\": 2}", "twice", 1, 13},
        {"too deep", std::string(100'000, '['), "nested deeper than 32", 1, 33},
        {"too deep, whole", std::string(100'000, '[') + std::string(100'000, ']'), "nested deeper than 32", 1,
         33},
        {"invalid UTF-8", "{\"a\": \"\xFF\"}", "invalid UTF-8: byte 0xFF", 1, 8},
        {"byte order mark", "\xEF\xBB\xBF{}", "byte order mark", 1, 1},
        {"UTF-16", std::string("\xFF\xFE{\0}\0", 6), "UTF-16", 1, 1},
        {"NUL", std::string("{\0}", 3), "U+0000", 1, 2},
        {"lone surrogate", "{\"a\": \"\\ud800\"}", "not JSON", 1, 7},
    };
    check_bad(read_json, table);
}

TEST_CASE("YAML that cannot be read, or that says more than it shows, is refused with its place") {
    const Bad table[] = {
        {"empty", "", "the text is empty", 1, 1},
        {"comment only", "# nothing\n", "the text is empty", 1, 1},
        {"tab indentation", "a:\n\tb: 1\n", "not YAML", 2, 3},
        {"open bracket", "a: [1, 2\n", "not YAML", 2, 1},
        {"twice", "gpus: 1\ngpus: 2\n", "the key \"gpus\" is there twice", 2, 1},
        {"twice, quoted", "gpus: 1\n\"gpus\": 2\n", "twice", 2, 1},
        {"anchor", "a: &x 1\n", "anchors", 1, 4},
        {"alias", "a: &x 1\nb: *x\n", "anchors", 1, 4},
        {"unknown alias", "b: *x\n", "not YAML", 1, 4},
        {"merge key", "a:\n  <<: {b: 1}\n", "merge keys", 2, 3},
        {"tag", "a: !!str 1\n", "tags", 1, 4},
        {"own tag", "a: !mine {b: 1}\n", "tags", 1, 4},
        {"plain tag", "a: ! 1\n", "tags", 1, 4},
        {"second document", "a: 1\n---\nb: 2\n", "more than one document", 2, 1},
        {"second document, broken", "a: 1\n---\n[", "more than one document", 2, 1},
        {"null key", "~: 1\n", "a key must be a text", 1, 1},
        {"list as key", "[a]: 1\n", "cannot be a key", 1, 1},
        {"open brackets", std::string(100'000, '['), "bracket is not closed", 1, 1},
        {"too deep, flow", std::string(100'000, '[') + std::string(100'000, ']'), "nested deeper than 32", 1,
         33},
        {"invalid UTF-8", "a: \xC3\n", "invalid UTF-8", 1, 4},
        {"byte order mark",
         "\xEF\xBB\xBF"
         "a: 1\n",
         "byte order mark", 1, 1},
        {"control character", "a: \x07\n", "U+0007", 1, 4},
    };
    check_bad(read_yaml, table);
}

TEST_CASE("YAML with a forgotten quote is refused where the quote opens") {
    const Bad table[] = {
        {"to the end", "run: x\nenv:\n  A: \"b\nresources:\n  gpus: 1\n", "never closed", 3, 6},
        {"short", "run: \"echo hi\n", "never closed", 1, 6},
        {"single", "run: 'it''s\nname: x\n", "never closed", 1, 6},
        {"an escaped quote closes nothing", "run: \"a\\\"\n", "never closed", 1, 6},
        {"a key", "\"run: x\n", "", 1, 1},
        {"closed by a later quote", "env:\n  A: \"b\nresources:\n  gpu: \"\n", "not indented deeper", 2, 6},
        {"in a list", "env:\n- \"b\nc\"\n", "not indented deeper", 2, 3},
        {"in brackets", "a: [\"b\nc\"]\n", "not indented deeper", 1, 5},
    };
    check_bad(read_yaml, table);
    for (const char* good : {"run: \"a\n  b\"\n", "run:\n  \"a\n\n  b\"\n", "a:\n  b: 'c\n    d'\n", "a:\n- 'c\n  d'\n",
                             "{\"a\": \"b\nc\"}", "a: {\"x\": \"y\n  z\"}\nb: 'it''s'\n", "a: it's\n"}) {
        CAPTURE(std::string(good));
        CHECK(read_yaml(good).has_value());
    }
}

TEST_CASE("a JSON error never echoes the document") {
    const std::string text = "{\"run\": \"" + std::string(1'000'000, 'x');
    const auto got = read_json(text);
    REQUIRE(!got.has_value());
    CHECK(got.error().message.size() < 300);
    CHECK(got.error().message.find("xxx") == std::string::npos);
}

TEST_CASE("hostile sizes stay within bounds") {
    std::string deep_block;
    for (int i = 0; i < 10'000; ++i) deep_block += "- ";
    CHECK(read_yaml(deep_block).error().message.find("nested deeper") != std::string::npos);
    std::string deep_map = "{";
    for (int i = 0; i < 100'000; ++i) deep_map += "\"a\":{";
    CHECK(read_json(deep_map).error().message.find("nested deeper") != std::string::npos);
    std::string many = "[";
    for (int i = 0; i < 90'000; ++i) many += "1,";
    many += "1]";
    CHECK(read_json(many).error().message.find("more than 20000 values") != std::string::npos);
    CHECK(read_yaml(many).error().message.find("more than 20000 values") != std::string::npos);
    CHECK(read_yaml(std::string(500'000, '[') + std::string(500'000, ']'))
              .error()
              .message.find("more than 100000 brackets") != std::string::npos);
    std::string overflows = "[";
    for (int i = 0; i < 19'000; ++i) overflows += "1e999,";
    overflows += "1]";
    CHECK(read_json(overflows).error().message.find("not JSON") != std::string::npos);
}

TEST_CASE("no input of random bytes does more than fail") {
    // A smoke test; the fuzzers in tests/fuzz go deep. The pieces make the parsers reach past the first byte.
    const char* pieces[] = {"{",  "}",        "[",    "]",       ":",    ",",    "\"", "'",  "- ",
                            "\n", "  ",       "a",    "gpus",    "1",    "e",    ".",  "-",  "&x",
                            "*x", "!t",       "|",    ">",       "---",  "...",  "?",  "#",  "%",
                            "\\", "\xC3\xA9", "\xFF", "\\u0041", "null", "true", "<<", "\t", "\r"};
    std::uint64_t state = 42;
    const auto next = [&] {
        return state = state * 6364136223846793005ULL + 1442695040888963407ULL, state >> 33;
    };
    int read = 0;
    for (int i = 0; i < 20'000; ++i) {
        std::string text;
        for (auto n = next() % 24; n > 0; --n) text += pieces[next() % std::size(pieces)];
        for (const auto& result : {read_json(text), read_yaml(text)}) {
            if (result)
                ++read;
            else
                CHECK(result.error().kind == ErrorKind::malformed);
        }
    }
    CHECK(read > 100);
}
