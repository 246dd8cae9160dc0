// Makes valid UTF-8 of bytes that come in pieces: a character that is split over two pieces stays whole, what can be no
// character becomes U+FFFD, one for each maximal bad run as the Unicode standard (3.9, "U+FFFD substitution") has it.
#pragma once
#include <string>
#include <string_view>

namespace gf::api {

class Utf8Repair {
 public:
    /// Appends the repaired text to `out`; up to three bytes of an unfinished character are held back.
    void feed(std::string_view bytes, std::string& out);
    /// The end: an unfinished character becomes U+FFFD.
    void finish(std::string& out);
    /// Bytes that are held back.
    [[nodiscard]] std::size_t held() const { return held_.size(); }

 private:
    std::string held_;
};

}  // namespace gf::api
