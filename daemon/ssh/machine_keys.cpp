#include "daemon/ssh/machine_keys.hpp"

#include <unistd.h>

#include <charconv>
#include <filesystem>

#include "daemon/ssh/keys.hpp"
#include "daemon/ssh/private_file.hpp"

namespace gf::ssh {
namespace {

namespace fs = std::filesystem;

bool there(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

}  // namespace

Result<SshSetup> MachineKeys::prepare(const MachineId& machine, const std::string& client_public, bool make_host_key) {
    forget(machine);
    const std::string folder = folder_of(machine);
    if (auto made = make_private_folder(folder); !made) return fail(std::move(made).error());
    SshSetup setup{.client_public = client_public, .host_private = {}, .host_public = {}};
    if (!make_host_key) return setup;
    KeyPair pair = make_key_pair(machine.get());
    const std::string line = machine.get() + " " + bare_public_key(pair.public_key) + "\n";
    if (auto written = write_private_file(folder + "/known_hosts", line); !written) return fail(std::move(written).error());
    if (auto written = write_private_file(folder + "/ours", ""); !written) return fail(std::move(written).error());
    setup.host_private = std::move(pair.private_key);
    setup.host_public = std::move(pair.public_key);
    return setup;
}

bool MachineKeys::prepared(const MachineId& machine) const { return !machine.empty() && there(folder_of(machine)); }

void MachineKeys::forget(const MachineId& machine) {
    std::error_code ignored;
    if (!machine.empty()) fs::remove_all(folder_of(machine), ignored);
}

std::size_t MachineKeys::count() const {
    std::error_code error;
    std::size_t found = 0;
    for (fs::directory_iterator it(folder_ + "/machines", error), end; !error && it != end; it.increment(error)) ++found;
    return found;
}

void MachineKeys::forget_over(const std::function<Fate(const MachineId&)>& fate) {
    std::error_code error;
    std::vector<fs::path> over;
    const auto longest = fs::file_time_type::clock::now() - kUnheardMax;
    for (fs::directory_iterator it(folder_ + "/machines", error), end; !error && it != end; it.increment(error)) {
        const Fate told = fate(MachineId{it->path().filename().string()});
        std::error_code unread;
        const auto changed = fs::last_write_time(it->path(), unread);
        if (told == Fate::over || (told == Fate::unheard && !unread && changed < longest)) over.push_back(it->path());
    }
    for (const auto& path : over) fs::remove_all(path, error);
}

MachineKeys::Known MachineKeys::known(const MachineId& machine) const {
    const std::string folder = folder_of(machine);
    Known out{.file = folder + "/known_hosts", .ours = there(folder + "/ours"), .met = there(folder + "/met")};
    if (there(out.file)) return out;
    // An address that was somebody else's a minute ago may have answered, and not let us in: that was no meeting.
    out.file += ".met-now";
    out.first_meeting = true;
    ::unlink(out.file.c_str());
    return out;
}

Result<void> MachineKeys::met(const MachineId& machine) {
    const std::string folder = folder_of(machine);
    const std::string file = folder + "/known_hosts";
    if (!there(file)) {
        auto seen = read_small_file(file + ".met-now");
        if (!seen) return fail(std::move(seen).error());
        if (auto written = write_private_file(file, *seen); !written) return written;
        ::unlink((file + ".met-now").c_str());
    }
    if (there(folder + "/met")) return {};
    return write_private_file(folder + "/met", "");
}

int MachineKeys::port(const MachineId& machine) const {
    const auto text = read_small_file(folder_of(machine) + "/port");
    int port = 0;
    if (!text) return 0;
    std::from_chars(text->data(), text->data() + text->size(), port);
    return port >= 1 && port <= 65535 ? port : 0;
}

Result<void> MachineKeys::set_port(const MachineId& machine, int port) {
    return write_private_file(folder_of(machine) + "/port", std::to_string(port) + "\n");
}

}  // namespace gf::ssh
