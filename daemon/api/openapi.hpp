// openapi.json of this folder, as it travels inside the binary.
#pragma once
#include <string_view>

namespace gf::api {

[[nodiscard]] std::string_view openapi_document();

}  // namespace gf::api
