#include "agent/job_process.hpp"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace gf::agent {

ProcessStart job_start(const JobOrder& order) {
    std::vector<std::string> argv = order.entrypoint;
    argv.insert(argv.end(), {"/bin/sh", "-c", order.command});
    return {.argv = std::move(argv),
            .env = order.env,
            .folder = order.folder,
            .drop_user = order.drop_user,
            .uid = order.uid,
            .gid = order.gid,
            .groups = order.groups};
}

ProcessStart client_start(const JobOrder& order) {
    return {.argv = order.client, .env = order.client_env, .folder = "/"};
}

void become(const ProcessStart& start, int output, int report) {
    const auto give_up = [report](const std::string& what) {
        std::string text = what + ": " + std::strerror(errno);
        [[maybe_unused]] const auto put = ::write(report, text.data(), text.size());
        ::_exit(127);
    };
    ::setsid();
    struct sigaction fresh{};
    fresh.sa_handler = SIG_DFL;
    for (int s = 1; s < NSIG; ++s) ::sigaction(s, &fresh, nullptr);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    const int null = ::open("/dev/null", O_RDONLY);
    if (null >= 0) ::dup2(null, STDIN_FILENO);
    else ::close(STDIN_FILENO);
    if (null > STDERR_FILENO) ::close(null);
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
    if (::chdir(start.folder.c_str()) != 0) give_up("enter the job's folder");
    if (start.drop_user) {
        std::vector<gid_t> groups(start.groups.begin(), start.groups.end());
        if (::setgroups(groups.size(), groups.data()) != 0) give_up("set groups");
        if (::setgid(start.gid) != 0) give_up("set group");
        if (::setuid(start.uid) != 0) give_up("set user");
    }
    // After setuid, which clears it. If the parent is killed, at least the leader goes with it; whoever then inherits the
    // rest sees to the others.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::prctl(PR_SET_DUMPABLE, 1);
    std::vector<char*> env, argv;
    for (const auto& e : start.env) env.push_back(const_cast<char*>(e.c_str()));
    env.push_back(nullptr);
    for (const auto& a : start.argv) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    ::execvpe(argv[0], argv.data(), env.data());
    give_up(kCannotStart + start.argv.front());
    ::_exit(127);
}

}  // namespace gf::agent
