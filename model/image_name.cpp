#include "model/image_name.hpp"

namespace gf {

std::string registry_of(std::string_view image) {
    constexpr std::string_view kDefault = "docker.io";
    const auto slash = image.find('/');
    if (slash == std::string_view::npos) return std::string(kDefault);
    const auto first = image.substr(0, slash);
    const bool registry = first == "localhost" || first.find_first_of(".:") != std::string_view::npos;
    // Its old name, under which logins are not found.
    if (!registry || first == "index.docker.io") return std::string(kDefault);
    return std::string(first);
}

}  // namespace gf
