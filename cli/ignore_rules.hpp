// The patterns of .gitignore files, for code folders that are not in a git work tree (or where git is not
// installed). Understood: comments, "!", "/" at the start, in the middle and at the end, "*", "?", "[…]",
// "**", "\" before a character. As in git, the last pattern that matches decides, and nothing below an
// ignored folder comes back.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace gf::cli {

class IgnoreRules {
 public:
    /// Adds the lines of a .gitignore that lies in `folder` ("" = the root, else "a/b"). Files nearer to the
    /// root first.
    void add(std::string_view folder, std::string_view text);
    /// Whether `path` (relative to the root, "a/b/c") is ignored by itself; its parents are the caller's to
    /// ask.
    [[nodiscard]] bool ignored(std::string_view path, bool is_directory) const;

 private:
    struct Rule {
        std::string folder;  // "" or "a/b/"
        std::string pattern;
        bool negated{false};
        bool directory_only{false};
        bool anchored{false};  // has a "/" other than at its end: held against the whole path below `folder`
    };
    std::vector<Rule> rules_;
};

/// Shell pattern against a whole text; "*" and "?" stop at "/", "**/" spans folders. Linear in practice:
/// bounded back-tracking.
[[nodiscard]] bool matches_pattern(std::string_view pattern, std::string_view text);

}  // namespace gf::cli
