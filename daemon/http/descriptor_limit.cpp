#include "daemon/http/descriptor_limit.hpp"

#include <sys/resource.h>

#include <algorithm>

namespace gf::http {

int raise_descriptor_limit() {
    constexpr rlim_t most = 1 << 20;  // "unlimited" is as good
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
    if (limit.rlim_cur < limit.rlim_max) {
        const rlimit wanted{.rlim_cur = std::min(limit.rlim_max, most), .rlim_max = limit.rlim_max};
        if (wanted.rlim_cur > limit.rlim_cur && ::setrlimit(RLIMIT_NOFILE, &wanted) == 0) limit = wanted;
    }
    return static_cast<int>(std::min(limit.rlim_cur, most));
}

}  // namespace gf::http
