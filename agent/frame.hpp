// Frames between the supervisor, its worker and the job's keeper: a type and a list of byte strings over a local socket.
// All three run the same binary, so the form needs no version. Not for foreign bytes.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/descriptor.hpp"

namespace gf::agent {

enum class FrameType : std::uint8_t {
    // worker to supervisor
    start_job,    // see job_order.hpp
    keep,         // key, value: remembered over a crash of the worker; an empty value forgets the key
    signal_job,   // signal number, "1" = leader only. Also supervisor to keeper.
    kill_job,     // no grace. Also supervisor to keeper.
    forget_job,   // the exit was taken note of
    quit,         // kill what runs, exit the agent
    // supervisor to worker
    state,        // boot id, job state, mark, pid, leader status, then kept keys and values in turn
    notice,       // signal number
    // keeper to supervisor to worker
    job_started,  // mark, pid
    leader_exited,  // mark, wait status
    job_exited,   // mark, then JobExit (job_order.hpp)
};

struct Frame {
    FrameType type{};
    std::vector<std::string> fields{};
    /// Field `i`, or empty when there are fewer.
    [[nodiscard]] const std::string& field(std::size_t i) const;
    /// The same as a number; 0 when it is none.
    [[nodiscard]] std::int64_t number(std::size_t i) const;
};

/// One end of the socket. Not thread-safe; writes never block (what does not fit waits in memory for `flush`).
class FrameChannel {
 public:
    FrameChannel() = default;
    /// Takes the descriptor and makes it non-blocking.
    explicit FrameChannel(Descriptor fd);
    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] bool is_open() const { return static_cast<bool>(fd_); }
    void close() { fd_.reset(); }
    void send(const Frame& frame);
    /// Writes what waits. False when the other end is gone.
    bool flush();
    [[nodiscard]] bool has_output() const { return !out_.empty(); }
    /// Reads what is there. False when the other end is gone; frames that came before are still in `next`.
    bool receive();
    std::optional<Frame> next();

 private:
    Descriptor fd_;
    std::string in_;
    std::string out_;
};

/// A connected pair of stream sockets, close-on-exec. Aborts when the system gives none: nothing works then.
struct ChannelPair {
    Descriptor ours;
    Descriptor theirs;
};
[[nodiscard]] ChannelPair make_channel_pair();

}  // namespace gf::agent
