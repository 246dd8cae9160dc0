#include "daemon/ssh/tunnels.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "checkpoints/digest.hpp"
#include "daemon/ssh/child.hpp"
#include "daemon/ssh/private_file.hpp"
#include "daemon/ssh/tunnel.hpp"

namespace gf::ssh {
namespace {

/// The path of a unix socket has at most 107 bytes; ssh makes it under a name that is 17 longer than the final one, which has 16.
constexpr std::size_t kSocketFolderMax = 107 - 1 - 16 - 17;

/// A folder that is ours, that nobody else may write in, and no link.
bool ours_alone(const std::string& path) {
    struct stat there{};
    return ::lstat(path.c_str(), &there) == 0 && S_ISDIR(there.st_mode) && there.st_uid == ::geteuid() && (there.st_mode & 0022) == 0;
}

/// Where sockets lie when data_dir is too deep: the same for each run on this data folder.
std::string short_folder(const std::string& data_dir, const std::vector<std::string>& runtime_folders) {
    const std::string name = "/gpuferry-ssh-" + std::to_string(::geteuid()) + "-" + checkpoints::sha256(data_dir).hex().substr(0, 12);
    for (const auto& folder : runtime_folders)
        if (folder.starts_with('/') && folder.size() + name.size() <= kSocketFolderMax && ours_alone(folder)) return folder + name;
    return "/tmp" + name;
}

}  // namespace

Tunnels::Tunnels(TunnelsOptions options)
    : options_(std::move(options)), folder_(options_.data_dir + "/ssh"),
      program_(options_.ssh_program.empty() ? find_program("ssh") : options_.ssh_program), keys_(folder_) {}

Tunnels::~Tunnels() { stop(); }

Result<void> Tunnels::open_keys() {
    auto client = load_or_make_client_key(folder_, options_.comment);
    if (!client) return fail(std::move(client).error());
    client_ = *std::move(client);
    sockets_ = folder_ + "/run";
    sockets_are_temporary_ = sockets_.size() > kSocketFolderMax;
    if (sockets_are_temporary_) sockets_ = short_folder(options_.data_dir, options_.runtime_folders);
    else if (auto made = make_private_folder(sockets_); !made) return made;
    return make_socket_folder();
}

Result<void> Tunnels::make_socket_folder() const {
    struct stat there{};
    const bool made = ::mkdir(sockets_.c_str(), 0700) == 0;
    if (!made && ::lstat(sockets_.c_str(), &there) != 0)
        return fail(ErrorKind::io, "cannot make the folder " + sockets_ + ": " + std::strerror(errno));
    if (!made && (!S_ISDIR(there.st_mode) || there.st_uid != ::geteuid() || (there.st_mode & 0077) != 0))
        return fail(ErrorKind::io, sockets_ + " is somebody else's, or open to others; remove it");
    return {};
}

Result<SshSetup> Tunnels::prepare(const MachineId& machine, bool make_host_key) {
    // Before it costs money: a machine without a way to it is paid for and of no use.
    if (keys_.count() >= kTunnelsMax)
        return fail(ErrorKind::quota, "this daemon keeps " + std::to_string(kTunnelsMax) + " tunnels at most");
    return keys_.prepare(machine, client_.public_key, make_host_key);
}

void Tunnels::open(const MachineId& machine, const SshEndpoint& to) {
    if (!keys_.prepared(machine)) {
        if (!options_.agent_connected(machine))
            options_.tell(TunnelNews{.machine = machine, .up = false, .reason = "no_keys",
                                     .detail = "there is no " + folder_ + "/machines/" + machine.get() +
                                               ": it was not rented to be reached by ssh, or its keys were removed; nothing goes there"});
        return;
    }
    std::string refused;
    {
        const std::scoped_lock lock(mutex_);
        if (stopping_) return;
        std::erase_if(leaving_, [](const auto& tunnel) { return tunnel->over(); });
        if (const auto found = tunnels_.find(machine); found != tunnels_.end()) return found->second->move(to);
        try {
            tunnels_[machine] = std::make_unique<Tunnel>(*this, machine, to, options_.seed++);
        } catch (const std::system_error& error) {  // no thread or no descriptor is left
            tunnels_.erase(machine);
            refused = error.what();
        }
    }
    if (!refused.empty()) options_.tell(TunnelNews{.machine = machine, .up = false, .reason = "too_many", .detail = refused});
}

void Tunnels::close(const MachineId& machine) {
    {
        const std::scoped_lock lock(mutex_);
        std::erase_if(leaving_, [](const auto& tunnel) { return tunnel->over(); });
        if (const auto found = tunnels_.find(machine); found != tunnels_.end()) {
            found->second->leave(Tunnel::Leave::soon);
            leaving_.push_back(std::move(found->second));
            tunnels_.erase(found);
        }
    }
    keys_.forget(machine);
}

void Tunnels::stop() {
    std::vector<std::unique_ptr<Tunnel>> all;
    {
        const std::scoped_lock lock(mutex_);
        stopping_ = true;
        all = std::move(leaving_);
        leaving_.clear();
        for (auto& [machine, tunnel] : tunnels_) all.push_back(std::move(tunnel));
        tunnels_.clear();
    }
    for (const auto& tunnel : all) tunnel->leave(Tunnel::Leave::now);
    all.clear();
    if (sockets_are_temporary_) ::rmdir(sockets_.c_str());
}

std::size_t Tunnels::count() const {
    const std::scoped_lock lock(mutex_);
    return tunnels_.size();
}

}  // namespace gf::ssh
