// What is kept of each machine that is reached by ssh: data_dir/ssh/machines/<machine id>/
//
//   known_hosts   its host key, under its id: made by us before it was rented, or taken at the first login
//   ours          there = we have made that key
//   met           there = we have been logged in there: from then on another key is no accident of its boot
//   port          the port of its own loopback that leads to us; its agent knows it, so it stays
//
// The folder is made before the machine is rented: that it exists says that this machine is reached so, whatever the
// configuration says later. Calls block for small files. Thread-safe for different machines.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/strong.hpp"
#include "providers/port.hpp"

namespace gf::ssh {

class MachineKeys {
 public:
    /// `folder` is data_dir/ssh.
    explicit MachineKeys(std::string folder) : folder_(std::move(folder)) {}

    /// Before a launch. `make_host_key`: the machine will show a key of ours, whose private half is in the answer and nowhere
    /// else; otherwise the two host fields stay empty. A second call for a machine makes the folder anew. Errors: `io`, `full`.
    Result<SshSetup> prepare(const MachineId& machine, const std::string& client_public, bool make_host_key);
    [[nodiscard]] bool prepared(const MachineId& machine) const;
    void forget(const MachineId& machine);
    /// How many machines have a folder now.
    [[nodiscard]] std::size_t count() const;
    /// What the store says of a machine. `unheard`: it knows nothing of it, or could not be read.
    enum class Fate : std::uint8_t { kept, over, unheard };
    /// Forgets those that are over, and those that nobody has heard of for kUnheardMax: an empty store, or another one, is no
    /// proof that a machine does not run, and its keys are the only way there.
    void forget_over(const std::function<Fate(const MachineId&)>& fate);
    static constexpr std::chrono::hours kUnheardMax{24 * 60};

    struct Known {
        std::string file;           // for UserKnownHostsFile
        bool first_meeting{false};  // there is no key yet: `file` is to be filled by ssh and is empty now
        bool ours{false};
        bool met{false};
    };
    /// As it is now. At a first meeting what an earlier, unfinished one has left is removed.
    [[nodiscard]] Known known(const MachineId& machine) const;
    /// After a login: what was seen at a first meeting is its key from now on. Errors: `io`.
    Result<void> met(const MachineId& machine);

    /// 0 = none yet.
    [[nodiscard]] int port(const MachineId& machine) const;
    Result<void> set_port(const MachineId& machine, int port);

 private:
    [[nodiscard]] std::string folder_of(const MachineId& machine) const { return folder_ + "/machines/" + machine.get(); }

    std::string folder_;
};

}  // namespace gf::ssh
