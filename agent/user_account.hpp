// A user of the image by name or number, read from /etc/passwd and /etc/group by hand: a static program must not load the
// name service modules of a foreign system.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "model/result.hpp"

namespace gf::agent {

struct UserAccount {
    unsigned uid{0};
    unsigned gid{0};
    std::vector<unsigned> groups;   // all, the first one included
    std::string name;               // empty for a number without a line
    std::string home{"/"};
};

/// `spec` as docker has it: "name", "name:group", "1000", "1000:1000". Errors: `not_found`.
Result<UserAccount> find_user(std::string_view spec, std::string_view passwd, std::string_view group);

}  // namespace gf::agent
