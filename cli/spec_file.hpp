// A job spec as it is sent: read from a file or standard input, its code folder packed, stored and named by
// hash.
#pragma once
#include <string>

#include "cli/client.hpp"
#include "cli/command.hpp"
#include "cli/failure.hpp"
#include "cli/problem.hpp"

namespace gf::cli {

struct SpecFile {
    SpecShown shown;     // name and text as the user wrote it, for error messages
    std::string folder;  // what `code:` is relative to
    bool yaml{true};
    [[nodiscard]] const char* content_type() const { return yaml ? "application/yaml" : "application/json"; }
};

/// `name` "-" reads standard input. JSON when it ends in .json or starts with "{". Failures: refused
/// (unreadable, or above the 1 MiB that the daemon takes).
[[nodiscard]] Outcome<SpecFile> read_spec(const std::string& name, Environment& env);

/// The text to send: the same bytes, but the value of `code:` is sha256:<hex> of the packed folder, which is
/// then at the daemon. A spec without `code`, with one by hash, or that cannot be read comes back as it is
/// (the daemon says what is wrong with it). With `upload` false the folder is packed but not sent.
[[nodiscard]] Outcome<std::string> spec_to_send(Context& context, const SpecFile& spec, bool upload);

}  // namespace gf::cli
