// A real sshd on a free port of loopback, with configuration, host key, accounts' keys and home of its own, for as long as the
// object lives. It logs in the user that runs the test. What it started is ended with it, by process.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/ssh/child.hpp"
#include "tests/daemon/support/temporary_folder.hpp"

namespace gf::test {

/// What a command prints on standard output when it is given `input` (a few kilobytes at most); its end is waited for.
[[nodiscard]] std::string output_of(const std::vector<std::string>& argv, const std::string& input = {});

/// Why no sshd can run here; empty = one can.
[[nodiscard]] std::string no_sshd();
/// The login name and home of the user that runs the test, as sshd sees them.
[[nodiscard]] std::string login_name();
[[nodiscard]] std::string login_home();

class TestSshd {
 public:
    /// `folder` is its home: logins land in folder/home. Several on one folder share keys and home.
    explicit TestSshd(std::string folder);
    ~TestSshd();
    TestSshd(const TestSshd&) = delete;
    TestSshd& operator=(const TestSshd&) = delete;

    /// The private half of the host key that it shows; taken at the next start.
    void show_host_key(const std::string& pem);
    void let_in(const std::string& public_key);
    /// Lines of its configuration, before all others, so that they win.
    std::string more;
    /// The environment of logins beside HOME.
    std::map<std::string, std::string> env;

    /// On the port that it had before, or a free one.
    void start();
    /// The listener and all connections are gone at once, as when a machine loses its power; what was started in them goes on.
    void stop();
    [[nodiscard]] int port() const { return port_; }
    [[nodiscard]] std::string home() const { return folder_ + "/home"; }
    [[nodiscard]] std::string log() const { return read_file(folder_ + "/sshd.log"); }
    /// Logins that it has accepted so far.
    [[nodiscard]] int accepted() const;

 private:
    [[nodiscard]] std::vector<pid_t> connections() const;

    std::string folder_;
    int port_{0};
    std::optional<ssh::Child> listener_;
};

/// Processes, of anybody, whose arguments contain the text.
[[nodiscard]] std::vector<pid_t> processes_with_argument(const std::string& text);
/// The agents that were started in a home by the ssh path.
[[nodiscard]] std::vector<pid_t> agents_in(const std::string& home);
void end_agents_in(const std::string& home);

}  // namespace gf::test
