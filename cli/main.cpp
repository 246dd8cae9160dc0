// gpuferry: the command line. Everything is in run.cpp; here the real process is handed in.
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "cli/run.hpp"

namespace {

std::atomic<bool> interrupted{false};

void on_interrupt(int /*signal*/) {
    interrupted = true;
}

void catch_interrupt(bool caught) {
    struct sigaction action{};
    action.sa_handler = caught ? on_interrupt : SIG_DFL;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, nullptr);
}

int terminal_columns() {
    struct winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    return 100;
}

void sleep_unless_interrupted(std::chrono::milliseconds duration) {
    const auto end = std::chrono::steady_clock::now() + duration;
    while (!interrupted && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::min<std::chrono::steady_clock::duration>(
            std::chrono::milliseconds{100}, end - std::chrono::steady_clock::now()));
}

}  // namespace

int main(int argc, char** argv) {
    std::ios::sync_with_stdio(false);
    gf::cli::Environment env{
        .in = std::cin,
        .out = std::cout,
        .err = std::cerr,
        .out_is_terminal = isatty(STDOUT_FILENO) == 1,
        .err_is_terminal = isatty(STDERR_FILENO) == 1,
        .columns = terminal_columns(),
        .uid = geteuid(),
        .variable = [](const char* name) -> std::optional<std::string> {
            const char* value = std::getenv(name);
            return value == nullptr ? std::nullopt : std::optional<std::string>(value);
        },
        .sleep = sleep_unless_interrupted,
        .interrupted = &interrupted,
        .catch_interrupt = catch_interrupt,
    };
    const int status = gf::cli::run({argv + 1, argv + argc}, env);
    std::cout.flush();
    // A full disk or a closed pipe under our standard output is a failure that scripts must see.
    return status == 0 && !std::cout ? 1 : status;
}
