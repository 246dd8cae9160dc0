#include "cli/ignore_rules.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>

using namespace gf::cli;

TEST_CASE("patterns of .gitignore mean what they mean to git") {
    struct Row {
        std::string rules;
        std::string path;
        bool directory;
        bool ignored;
    };
    // Each row was compared with `git check-ignore`.
    const Row rows[] = {
        {"*.log", "a.log", false, true},
        {"*.log", "x/y/a.log", false, true},
        {"*.log", "a.log.txt", false, false},
        {"# *.log\n\n", "a.log", false, false},
        {"\\#a", "#a", false, true},
        {"build/", "build", true, true},
        {"build/", "build", false, false},
        {"build/", "x/build", true, true},
        {"/build", "build", false, true},
        {"/build", "x/build", false, false},
        {"a/b", "a/b", false, true},
        {"a/b", "x/a/b", false, false},
        {"a/*", "a/b", false, true},
        {"a/*", "a/b/c", false, false},
        {"**/foo", "foo", false, true},
        {"**/foo", "a/b/foo", false, true},
        {"a/**/b", "a/b", false, true},
        {"a/**/b", "a/x/y/b", false, true},
        {"a/**/b", "ax/b", false, false},
        {"abc/**", "abc/x/y", false, true},
        {"abc/**", "abc", true, false},
        {"*.txt\n!keep.txt", "keep.txt", false, false},
        {"*.txt\n!keep.txt", "drop.txt", false, true},
        {"!keep.txt\n*.txt", "keep.txt", false, true},
        {"\\!odd", "!odd", false, true},
        {"a?c", "abc", false, true},
        {"a?c", "a/c", false, false},
        {"[a-c].o", "b.o", false, true},
        {"[!a-c].o", "b.o", false, false},
        {"[!a-c].o", "z.o", false, true},
        {"[]x].o", "].o", false, true},
        {"name   ", "name", false, true},
        {"name\\ ", "name ", false, true},
        {"dir\r\n", "dir", false, true},
        {"*", "anything", false, true},
    };
    for (const auto& row : rows) {
        CAPTURE(row.rules);
        CAPTURE(row.path);
        IgnoreRules rules;
        rules.add("", row.rules);
        CHECK(rules.ignored(row.path, row.directory) == row.ignored);
    }
}

TEST_CASE("a file in a folder holds for that folder, and the nearer one decides") {
    IgnoreRules rules;
    rules.add("", "*.bin\n");
    rules.add("models", "!small.bin\n/cache\n");
    CHECK(rules.ignored("x.bin", false));
    CHECK(rules.ignored("models/x.bin", false));
    CHECK_FALSE(rules.ignored("models/small.bin", false));
    CHECK(rules.ignored("small.bin", false));
    CHECK(rules.ignored("models/cache", true));
    CHECK_FALSE(rules.ignored("cache", true));
}

TEST_CASE("a hostile pattern ends soon") {
    std::string pattern;
    for (int i = 0; i < 40; ++i) pattern += "a*";
    const auto start = std::chrono::steady_clock::now();
    CHECK_FALSE(matches_pattern(pattern + "b", std::string(200, 'a')));
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds{5});
}
