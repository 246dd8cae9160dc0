// What the name of a container image tells.
#pragma once
#include <string>
#include <string_view>

namespace gf {

/// The registry that `image` is pulled from, as a login names it: "ghcr.io" for "ghcr.io/owner/name:tag", "localhost:5000",
/// and "docker.io" for names without one ("pytorch/pytorch:2.4", "ubuntu"). By docker's own rule: what stands before the
/// first slash is a registry if it has a dot or a colon or is "localhost".
[[nodiscard]] std::string registry_of(std::string_view image);

}  // namespace gf
