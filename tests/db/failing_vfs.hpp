// A file system under SQLite that fails on order: the nth write, sync or growth of a file answers an error. Everything
// else goes to the real one. Installed as SQLite's default while an object of this class lives; one at a time.
#pragma once

namespace gf::test {

class FailingVfs {
 public:
    FailingVfs();
    ~FailingVfs();
    FailingVfs(const FailingVfs&) = delete;
    FailingVfs& operator=(const FailingVfs&) = delete;

    /// From now on the `nth` (from 1) changing operation fails with `code`, and the ones after it as well until `heal`.
    void fail_at(int nth, int code);
    void heal();
    /// Whether the order was reached.
    [[nodiscard]] bool failed() const;
};

}  // namespace gf::test
