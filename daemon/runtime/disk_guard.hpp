// Room on the disk for what must go on when it is full: a ballast file that is deleted then, so that destroys and commits
// still work, and the line below which new work is refused.
#pragma once
#include <cstdint>
#include <string>

#include "model/result.hpp"

namespace gf {

class DiskGuard {
 public:
    static constexpr std::int64_t kBallast = 64LL << 20;

    /// `dir` must exist. Makes the ballast if there is room for it (and as much again); blocks for the allocation.
    explicit DiskGuard(std::string dir);

    /// True while new work may be accepted: at least twice the ballast is free, or the ballast is there and one more is.
    [[nodiscard]] bool accepts_work() const;
    [[nodiscard]] std::int64_t free_bytes() const;
    /// Deletes the ballast after the disk was found full. Returns true if that made room.
    bool drop_ballast();
    /// Makes the ballast again once there is ample room.
    void restore_ballast();

 private:
    std::string dir_;
    std::string path_;
};

}  // namespace gf
