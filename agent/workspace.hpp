// Where jobs run on this machine, and the agent's private folder beside them.
//
//   <base>/<job>/                  the job's working folder; made anew for each attempt
//   <base>/.gpuferry/              0711; only this agent's: log spool, packs that wait, the socket, the command's copy
//   <base>/.gpuferry.lock          held while the agent lives, so that two agents on one machine never share a base
#pragma once
#include <map>
#include <string>
#include <vector>

#include "agent/descriptor.hpp"
#include "agent/user_account.hpp"

namespace gf::agent {

class Workspace {
 public:
    /// Takes the first folder that can be written to and that no other agent holds: `wanted` if given, else /workspace, then
    /// a folder named for the machine in $HOME, /tmp, /var/tmp. Nothing = `base` is empty.
    static Workspace choose(const std::string& wanted, const std::map<std::string, std::string>& env, const std::string& machine);

    [[nodiscard]] const std::string& base() const { return base_; }
    [[nodiscard]] bool usable() const { return !base_.empty(); }
    [[nodiscard]] std::string job_folder(const std::string& job) const { return base_ + "/" + job; }
    [[nodiscard]] std::string private_folder() const { return base_ + "/.gpuferry"; }

    /// The names of the jobs' folders that are there: `job` and whatever has the form of one. Nothing else is ever removed.
    [[nodiscard]] std::vector<std::string> left_over(const std::string& job) const;
    /// Removes every job's folder and everything private of former attempts, and makes `job`'s folder and `inside` (names
    /// below the private folder) new and empty. Errors: `io`, `full`.
    Result<std::string> prepare(const std::string& job, const std::vector<std::string>& inside) const;

 private:
    std::string base_;
    Descriptor lock_;
};

/// Relative, without "..", not empty: a folder of the job that the spec may name.
[[nodiscard]] bool is_safe_relative(std::string_view path);
/// "./a//b/" is "a/b", "." is empty.
[[nodiscard]] std::string normal_relative(std::string_view path);
/// `folder` itself for ".", else the path below it.
[[nodiscard]] std::string below(const std::string& folder, std::string_view path);
/// Removes a tree without following links; true if nothing is left.
bool remove_tree(const std::string& path);
/// Moves what is in `from` into `to` where that has nothing of the name; folders of one name are merged. Both lie on one
/// file system, and nobody else is at work in them.
Result<void> move_missing(const std::string& from, const std::string& to);
/// Whether the modes of the folders above `folder` let the account through. Error: `invalid` with the first that does not.
Result<void> can_reach(const std::string& folder, const UserAccount& account);
/// Gives a tree to a user, links themselves and not what they point to. What is theirs already keeps its ctime, which
/// programs order restored checkpoints by.
Result<void> give_tree(const std::string& path, unsigned uid, unsigned gid);

}  // namespace gf::agent
