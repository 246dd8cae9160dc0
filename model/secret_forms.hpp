// The texts that a secret is recognised by where somebody else repeats it: whoever hides a secret hides all of these.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace gf {

/// `plain` as it is, first, and as others write it down: percent-encoded (RFC 3986, forms and JavaScript, either case of the
/// digits), escaped as in JSON (with and without `\/`, with & < > or all that is not ASCII as \u0026) and as in our own log, as hex,
/// and the part of its base64, standard and URL-safe, that is the same wherever it stands in a longer text. Each once; base64 only
/// where eight characters or more of it are left. Costs some thirty times the length of `plain`.
[[nodiscard]] std::vector<std::string> secret_forms(std::string_view plain);

/// Replaces every form of `forms` in `text` by ***. Forms have to be sorted by falling length, else one that another contains
/// leaves the rest of it standing.
void mask_forms(std::string& text, const std::vector<std::string>& forms);

/// Longest first, each once: the order that `mask_forms` needs.
void sort_forms(std::vector<std::string>& forms);

}  // namespace gf
