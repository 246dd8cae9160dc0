// What the supervisor is told to run, and what it hears of it. Travels as a frame.
#pragma once
#include <string>
#include <vector>

#include "agent/frame.hpp"
#include "agent/spool.hpp"

namespace gf::agent {

struct JobOrder {
    std::string mark;              // value of GPUFERRY_MARK: boot id and attempt
    std::string folder;            // working folder, exists
    std::string command;           // for /bin/sh -c
    std::vector<std::string> env;  // NAME=value, complete: nothing is inherited
    std::vector<std::string> secrets;
    bool drop_user{false};
    unsigned uid{0};
    unsigned gid{0};
    std::vector<unsigned> groups;
    std::string spool;             // folder of the output segments, exists and is empty
    SpoolLimits limits;
    std::vector<std::string> entrypoint;  // of the image, put before /bin/sh -c; mostly empty

    // For a job in a container; all empty for a plain process.
    std::vector<std::string> client;      // the engine's command that runs the container and lives as long as it
    std::vector<std::string> client_env;  // NAME=value, complete
    std::vector<std::string> remove;      // ends the container, whatever it does, and removes it
    std::vector<std::string> inspect;     // prints "true" when the container was killed for memory
    std::string door;                     // unix socket by which the container's first process reports to the keeper
    std::string path_more;                // folder to append to the image's PATH
    std::string saves_in;                 // where the job's checkpoints lie, when it declares any
    bool give_back{false};                // the folder is given to `owner` when the job is over: the agent is not root
    unsigned owner_uid{0};
    unsigned owner_gid{0};
    [[nodiscard]] bool contained() const { return !client.empty(); }
};
[[nodiscard]] Frame frame_of(const JobOrder& order);
[[nodiscard]] JobOrder order_of(const Frame& frame);

/// How a job ended, from the frame job_exited.
struct JobExit {
    bool started{false};
    int wait_status{0};            // of the leader, when started
    bool oom{false};               // the kernel killed something for memory while it ran
    bool killed{false};            // the agent sent SIGKILL while the leader or its group was alive
    std::int64_t log_bytes{0};
    std::string detail;
    std::int64_t ended_ms{0};      // when the last of it was gone, wall clock; 0 = not known
    std::int64_t newest_ms{0};     // when its checkpoints were last written to, where only a container could see; 0 = look
    bool keeper_lost{false};       // it ended because a part of what kept it was killed: not the program's doing
    bool spec_fault{false};        // not started, and would not be on any machine
    bool unended{false};           // something of it may still run and write: SIGKILL did not end it
};
[[nodiscard]] Frame frame_of(const std::string& mark, const JobExit& exit);
[[nodiscard]] JobExit exit_of(const Frame& frame);

}  // namespace gf::agent
