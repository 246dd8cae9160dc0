// gpuferry: the command line. Everything is in run.cpp; here the real process is handed in.
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
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

/// Off while it lives, as far as the terminal allows; Ctrl-C during it must not leave a terminal that shows
/// nothing.
class NoEcho {
 public:
    NoEcho() {
        if (tcgetattr(STDIN_FILENO, &before_) != 0) return;
        termios quiet = before_;
        quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO | ECHONL);
        caught_ = tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet) == 0;
        struct sigaction action{};
        action.sa_handler = on_interrupt;  // without SA_RESTART: the read ends
        sigemptyset(&action.sa_mask);
        sigaction(SIGINT, &action, &interrupt_);
    }
    ~NoEcho() {
        if (caught_) tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
        sigaction(SIGINT, &interrupt_, nullptr);
    }
    NoEcho(const NoEcho&) = delete;
    NoEcho& operator=(const NoEcho&) = delete;

 private:
    termios before_{};
    struct sigaction interrupt_{};
    bool caught_{false};
};

std::optional<std::string> ask_hidden(const std::string& prompt) {
    std::optional<std::string> line(std::in_place);
    {
        const NoEcho quiet;  // before the prompt: what is typed at it is never shown
        std::cerr << prompt << std::flush;
        for (char c = 0; c != '\n';) {
            const ssize_t got = read(STDIN_FILENO, &c, 1);
            if (got < 0 && errno == EINTR && !interrupted) continue;
            if (got <= 0 || interrupted) {
                if (interrupted || line->empty()) line.reset();
                break;
            }
            *line += c;
        }
    }
    std::cerr << '\n';
    return line;
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
        .in_is_terminal = isatty(STDIN_FILENO) == 1,
        .ask_hidden = ask_hidden,
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
