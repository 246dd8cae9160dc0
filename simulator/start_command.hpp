// From what a client sent to what a container runs. Pure.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/result.hpp"

namespace gf::sim {

/// Splits like a POSIX shell splits words: quotes and backslashes, no expansion. An open quote is an error.
[[nodiscard]] Result<std::vector<std::string>> shell_words(std::string_view text);

/// RunPod: `args` is a plain string that replaces CMD, or the JSON text {"entrypoint":[...],"cmd":[...]} that
/// sets both (providers page, section 4.1). An empty `args` leaves the image's own.
[[nodiscard]] Result<std::vector<std::string>> runpod_argv(std::string_view args,
                                                           const std::vector<std::string>& image_entrypoint,
                                                           const std::vector<std::string>& image_cmd);

/// Vast args runtype: `onstart` is the entrypoint, one path, and `args` its arguments; without `onstart` the
/// image's.
[[nodiscard]] std::vector<std::string> vast_args_argv(const std::string& onstart,
                                                      const std::vector<std::string>& args,
                                                      const std::vector<std::string>& image_entrypoint,
                                                      const std::vector<std::string>& image_cmd);

/// Vast ssh and jupyter runtypes: Vast's own first process, which runs `onstart` once and lives on.
[[nodiscard]] std::vector<std::string> vast_ssh_argv(const std::string& onstart);

/// The first of two settings of one name loses.
using Environment = std::vector<std::pair<std::string, std::string>>;
void set_env(Environment& env, const std::string& name, const std::string& value);

}  // namespace gf::sim
