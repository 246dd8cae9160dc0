// `gpuferry-agent checkpoint` inside a job: a unix socket in the agent's private folder, named by GPUFERRY_SOCKET. One line
// in ("checkpoint"), one line out ("ok GENERATION" or "error WHY").
#pragma once
#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "agent/descriptor.hpp"

namespace gf::agent {

inline constexpr const char* kSocketVariable = "GPUFERRY_SOCKET";

class AskSocket {
 public:
    /// `answer` runs on the socket's thread, one request at a time, and may block. `uid`/`gid` own the socket.
    AskSocket(const std::string& path, unsigned uid, unsigned gid, std::function<std::string()> answer);
    ~AskSocket();

 private:
    void serve();
    std::string path_;
    Descriptor listener_;
    Descriptor stop_;
    std::function<std::string()> answer_;
    std::thread thread_;
};

/// The command's side: prints the answer; the exit code is 0 for "ok", 1 else.
int ask_for_checkpoint(const std::string& socket_path);

}  // namespace gf::agent
