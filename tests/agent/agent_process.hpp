// A real agent, started as a process in a folder of its own.
#pragma once
#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace gf::agent_test {

/// A folder that is removed with all that is in it.
class TemporaryFolder {
 public:
    TemporaryFolder();
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    [[nodiscard]] const std::string& path() const { return path_; }

 private:
    std::string path_;
};

class AgentProcess {
 public:
    /// Starts `program` with exactly this environment.
    AgentProcess(const std::string& program, const std::map<std::string, std::string>& env);
    ~AgentProcess();  // SIGKILL, if it still lives
    [[nodiscard]] pid_t pid() const { return pid_; }
    /// The process below it that is named so ("gpuferry-worker", "gpuferry-keeper"); 0 if there is none.
    [[nodiscard]] pid_t child(const std::string& name) const;
    void signal(int number) const;
    /// Waits for its end, at most `seconds`; the wait status, -1 if it lives on.
    int wait(int seconds);

 private:
    pid_t pid_{0};
};

/// Waits until `done`, looking 50 times a second; false after `seconds`.
template <class Done>
bool eventually(Done done, int seconds = 60);

/// The environment for an agent against the daemon at `url`, working in `workspace`.
[[nodiscard]] std::map<std::string, std::string> agent_environment(const std::string& url, const std::string& workspace);
/// Processes, of anybody, whose command line contains the text.
[[nodiscard]] std::vector<pid_t> processes_with(const std::string& text);

void pause_briefly();
template <class Done>
bool eventually(Done done, int seconds) {
    for (int i = 0; i < seconds * 50; ++i) {
        if (done()) return true;
        pause_briefly();
    }
    return done();
}

}  // namespace gf::agent_test
