#include "local_bench.hpp"

#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

#include "cloud_bench.hpp"

namespace gf::test {
namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
    auto pattern = (fs::temp_directory_path() / "gpuferry-local-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
    for (const auto pid : processes()) ::kill(pid, SIGKILL);
    std::error_code ignored;
    fs::remove_all(path_, ignored);
}

fs::path TemporaryFolder::program(const std::string& name, const std::string& text) const {
    const auto file = path_ / name;
    {
        std::ofstream out(file);
        out << text;
    }
    fs::permissions(file, fs::perms::owner_all);
    return file;
}

std::vector<pid_t> TemporaryFolder::processes() const {
    std::vector<pid_t> out;
    const auto stat_of = [](const fs::path& process) {
        std::ifstream in(process / "stat");
        return local::parse_stat(std::string{std::istreambuf_iterator<char>(in), {}});
    };
    const auto own = stat_of("/proc/self");  // whatever lives in our folder is younger than we are
    std::error_code error;
    for (fs::directory_iterator it("/proc", error), end; !error && it != end; it.increment(error)) {
        const auto name = it->path().filename().string();
        if (name.find_first_not_of("0123456789") != std::string::npos) continue;
        const auto stat = stat_of(it->path());
        if (!stat || !own || stat->start_time < own->start_time) continue;
        std::ifstream in(it->path() / "environ", std::ios::binary);
        const std::string environment{std::istreambuf_iterator<char>(in), {}};
        if (environment.find(path_.string()) != std::string::npos && std::stoi(name) != ::getpid())
            out.push_back(std::stoi(name));
    }
    return out;
}

LocalBench::LocalBench(const std::string& agent, const std::string& nvidia_smi, local::LocalMarket market)
    : hand(kStart) {
    settings.data_dir = folder.path() / "data";
    settings.agent = folder.program("agent", agent);
    settings.market = market;
    settings.nvidia_smi = nvidia_smi.empty() ? (folder.path() / "no-such-program").string()
                                             : folder.program("nvidia-smi", nvidia_smi).string();
    adapter = std::make_unique<local::Adapter>(settings, hand, plain_lookup());
}

void LocalBench::pass(Millis time) {
    hand.advance(time);
    std::this_thread::sleep_for(std::chrono::milliseconds{
        5});  // the kernel's time to end a process; callers look again, with a bound
}

std::size_t LocalBench::machines() {
    std::size_t leaders = 0;
    for (const auto pid : folder.processes())
        if (::getsid(pid) == pid) ++leaders;
    return leaders;
}

}  // namespace gf::test
