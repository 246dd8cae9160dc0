#include "daemon/ssh/tunnel.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>
#include <utility>

#include "daemon/log.hpp"

namespace gf::ssh {
namespace {

using namespace std::chrono_literals;

constexpr auto kPauseFirst = 500ms;
constexpr auto kPauseMax = 15'000ms;       // a new machine's sshd should not be kept waiting for long
constexpr auto kStable = 30s;              // a connection that stood for so long is not part of a series of failures
constexpr auto kLoginPatience = 60s;
constexpr auto kCallPatience = 20s;
constexpr auto kTalkPatience = 120s;       // without a byte in either direction
constexpr auto kLookFirst = 5s;            // an agent that is still not there is looked after, soon at first, then less and less
constexpr auto kLookMax = 60s;
constexpr auto kFarewell = 1s;
constexpr std::size_t kSaidMax = 8 * 1024;
constexpr std::size_t kPendingMax = 64 * 1024;  // not yet taken by the machine; more is not asked for
// Below the range from which systems give ports to outgoing connections, so that nothing on the machine takes it in a pause.
constexpr int kPortFirst = 20'000;
constexpr int kPortCount = 12'000;

int usual_port(const MachineId& machine) {
    std::uint32_t hash = 2'166'136'261U;  // FNV-1a: only to spread machines that share an address
    for (const char c : machine.get()) hash = (hash ^ static_cast<unsigned char>(c)) * 16'777'619U;
    return kPortFirst + static_cast<int>(hash % kPortCount);
}

bool there(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

std::string place(const SshEndpoint& to) {
    const bool six = to.host.find(':') != std::string::npos;
    return to.user + "@" + (six ? "[" + to.host + "]" : to.host) + ":" + std::to_string(to.port);
}

class File {
 public:
    explicit File(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    ~File() {
        if (fd_ >= 0) ::close(fd_);
    }
    /// The next piece; empty at the end and for what cannot be read.
    std::string next() {
        std::string piece(64 * 1024, '\0');
        const ssize_t got = fd_ < 0 ? 0 : ::read(fd_, piece.data(), piece.size());
        piece.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
        return piece;
    }

 private:
    int fd_;
};

/// Sends what the pipe takes. False = nobody reads there any more.
bool send_some(int fd, std::string& pending) {
    const ssize_t n = ::write(fd, pending.data(), pending.size());
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    pending.erase(0, static_cast<std::size_t>(n));
    return true;
}

}  // namespace

Tunnel::Tunnel(Tunnels& owner, MachineId machine, SshEndpoint to, std::uint64_t seed)
    : owner_(owner), machine_(std::move(machine)), entropy_(seed), word_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), wanted_(std::move(to)) {
    if (word_ < 0) throw std::system_error(errno, std::generic_category(), "no eventfd");
    try {
        thread_ = std::thread([this] { run(); });
    } catch (...) {
        ::close(word_);
        throw;
    }
}

Tunnel::~Tunnel() {
    leave(Leave::now);
    thread_.join();
    ::close(word_);
}

void Tunnel::move(const SshEndpoint& to) {
    {
        const std::scoped_lock lock(mutex_);
        if (wanted_ == to) return;
        wanted_ = to;
    }
    ::eventfd_write(word_, 1);
}

void Tunnel::leave(Leave when) {
    {
        const std::scoped_lock lock(mutex_);
        const auto at = when == Leave::now ? Clock::now() : Clock::now() + kFarewell;
        leave_at_ = leave_at_ ? std::min(*leave_at_, at) : at;
    }
    ::eventfd_write(word_, 1);
}

bool Tunnel::must_go() {
    const std::scoped_lock lock(mutex_);
    return (leave_at_ && Clock::now() >= *leave_at_) || wanted_ != now_.to;
}

Tunnel::Woken Tunnel::wait(std::vector<pollfd>& fds, Clock::time_point until) {
    fds.push_back({.fd = word_, .events = POLLIN, .revents = 0});
    auto woken = Woken::timeout;
    while (true) {
        auto end = until;
        {
            const std::scoped_lock lock(mutex_);
            if (leave_at_) end = std::min(end, *leave_at_);
        }
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
        const int ready = ::poll(fds.data(), fds.size(), static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000)));
        eventfd_t ignored = 0;
        if (ready > 0 && fds.back().revents != 0) ::eventfd_read(word_, &ignored);
        if (must_go()) {
            woken = Woken::told;
            break;
        }
        const bool others = std::any_of(fds.begin(), fds.end() - 1, [](const pollfd& p) { return p.revents != 0; });
        if (ready > 0 && others) {
            woken = Woken::ready;
            break;
        }
        if (Clock::now() >= until) break;
    }
    fds.pop_back();
    return woken;
}

void Tunnel::pause(std::chrono::milliseconds how_long) {
    // A quarter of jitter, so that many tunnels that broke together do not come back together.
    const auto jitter = entropy_.below(static_cast<std::uint64_t>(how_long.count() / 4 + 1));
    std::vector<pollfd> none;
    wait(none, Clock::now() + how_long + std::chrono::milliseconds{static_cast<std::int64_t>(jitter)});
}

void Tunnel::tell(bool up, std::string_view reason, const std::string& detail) {
    std::string news = std::string(up ? "up " : "down ") + std::string(reason) + " " + detail;
    if (news == told_) return;
    told_ = std::move(news);
    log::write(up ? log::Level::info : log::Level::warn, up ? "ssh.tunnel_up" : "ssh.tunnel_down",
               {{"machine", machine_.get()}, {"reason", reason}, {"detail", detail}});
    owner_.options_.tell(TunnelNews{.machine = machine_, .up = up, .reason = std::string(reason), .detail = detail});
}

void Tunnel::tell_refusal(std::string_view said, bool was_up) {
    const Refusal refusal = refusal_of(said, was_up);
    const std::string words = last_words(said);
    const std::string at = place(now_.to);
    if (refusal != Refusal::host_key) return tell(false, text(refusal), at + (words.empty() ? "" : ": " + words));
    const auto known = owner_.keys_.known(machine_);
    if (known.met) return tell(false, "host_key_changed", at + " shows another host key than this machine has; nothing is sent there");
    tell(false, "host_key_not_ours", at + " does not show the host key that this machine was given (yet)");
}

void Tunnel::heard(std::string& said, const std::string& piece) const {
    if (piece.empty()) return;
    if (said.size() < kSaidMax) {
        const auto words = last_words(piece);
        if (!words.empty()) log::debug("ssh.said", {{"machine", machine_.get()}, {"text", words}});
    }
    said += piece;
    if (said.size() > kSaidMax) said.erase(0, said.size() - kSaidMax);
}

Tunnel::Went Tunnel::finish(Child& child, std::chrono::milliseconds patience, std::string& out, std::string& err) {
    const auto until = Clock::now() + patience;
    bool out_open = true, err_open = true;
    while (out_open || err_open) {
        std::vector<pollfd> fds{{.fd = out_open ? child.output() : -1, .events = POLLIN, .revents = 0},
                                {.fd = err_open ? child.errors() : -1, .events = POLLIN, .revents = 0}};
        const Woken woken = wait(fds, until);
        if (woken == Woken::told) return Went::told;
        if (woken == Woken::timeout) {
            err += "\nno answer in time";
            return Went::failed;
        }
        const auto take = [](const pollfd& from, bool& open, std::string& into) {
            if (from.revents == 0) return;
            const auto piece = Child::read_some(from.fd);
            if (!piece) open = false;
            else if (into.size() < kSaidMax) into += *piece;
        };
        take(fds[0], out_open, out);
        take(fds[1], err_open, err);
    }
    while (!child.ended()) {
        std::vector<pollfd> none;
        if (Clock::now() >= until) return Went::failed;
        if (wait(none, Clock::now() + 5ms) == Woken::told) return Went::told;
    }
    return child.status() == 0 ? Went::ok : Went::failed;
}

Tunnel::Went Tunnel::wait_for_master(Child& master, std::string& said) {
    // ssh puts the control socket there when it has logged in, under its name only when it listens.
    const auto until = Clock::now() + kLoginPatience;
    bool open = true;
    while (true) {
        if (there(now_.control)) return Went::ok;
        std::vector<pollfd> fds{{.fd = open ? master.errors() : -1, .events = POLLIN, .revents = 0}};
        const Woken woken = wait(fds, Clock::now() + 50ms);
        if (woken == Woken::told) return Went::told;
        if (woken == Woken::ready) {
            const auto piece = Child::read_some(master.errors());
            if (piece) heard(said, *piece);
            else open = false;
            if (piece) continue;  // all of its words before its end
        }
        if (master.ended() && !open) return Went::failed;
        if (Clock::now() < until) continue;
        said += "\nno login within 60 s: connection timed out\n";
        return Went::failed;
    }
}

Tunnel::Went Tunnel::ask_forward(int port, int& given, std::string& said) {
    auto call = Child::start(forward_command(now_, port, owner_.options_.target()));
    if (!call) {
        said += call.error().message;
        return Went::failed;
    }
    call->close_input();
    std::string out;
    const Went done = finish(*call, kCallPatience, out, said);
    given = port;
    if (done != Went::ok || port != 0) return done;
    const auto at = out.find_first_of("0123456789");
    if (at != std::string::npos) std::from_chars(out.data() + at, out.data() + out.size(), given);
    if (given >= 1 && given <= 65535) return Went::ok;
    said += "the machine gave no port: " + last_words(out);
    return Went::failed;
}

void Tunnel::free_port() {
    auto shell = Child::start(remote_command(now_, remote_shell()));
    if (!shell) return;
    std::string opening = free_port_opening(owner_.options_.tag_of(machine_));
    if (!send_some(shell->input(), opening)) return;  // a few hundred bytes: the pipe takes them at once
    std::string out, err;
    shell->close_input();
    finish(*shell, kCallPatience, out, err);
}

Tunnel::Went Tunnel::forward(std::string& said) {
    // The agent knows its port, so a machine keeps the one that it has had.
    const int fixed = owner_.keys_.port(machine_);
    int given = 0;
    Went done = ask_forward(fixed != 0 ? fixed : usual_port(machine_), given, said);
    if (done == Went::failed && fixed != 0) {
        free_port();
        pause(200ms);
        if (must_go()) return Went::told;
        done = ask_forward(fixed, given, said);
    } else if (done == Went::failed) {
        done = ask_forward(0, given, said);
    }
    if (done != Went::ok || fixed != 0) return done;
    if (auto kept = owner_.keys_.set_port(machine_, given); !kept) {
        said += kept.error().message;
        return Went::failed;
    }
    return Went::ok;
}

Tunnel::Went Tunnel::talk(Child& shell, AgentPush& push) {
    std::string pending = push.opening(), err;
    std::optional<File> upload;
    bool err_open = true;
    const auto end = Clock::now() + owner_.options_.talk_max;
    auto until = std::min(end, Clock::now() + kTalkPatience);
    while (true) {
        if (upload && pending.empty()) {
            pending = upload->next();
            if (pending.empty()) upload.reset();
        }
        std::vector<pollfd> fds{{.fd = pending.size() > kPendingMax ? -1 : shell.output(), .events = POLLIN, .revents = 0},
                                {.fd = err_open ? shell.errors() : -1, .events = POLLIN, .revents = 0},
                                {.fd = pending.empty() ? -1 : shell.input(), .events = POLLOUT, .revents = 0}};
        const Woken woken = wait(fds, until);
        if (woken == Woken::told) return Went::told;
        if (woken == Woken::timeout || Clock::now() >= end) return Went::failed;
        until = std::min(end, Clock::now() + kTalkPatience);
        if (fds[2].revents != 0 && !send_some(shell.input(), pending)) {
            pending.clear();
            upload.reset();
            shell.close_input();
        }
        if (fds[1].revents != 0) {
            const auto piece = Child::read_some(shell.errors());
            if (piece) heard(err, *piece);
            else err_open = false;
        }
        if (fds[0].revents == 0) continue;
        const auto piece = Child::read_some(shell.output());
        if (!piece) return Went::failed;
        switch (push.take(*piece, pending)) {
            case AgentPush::Step::talk: break;
            case AgentPush::Step::upload: upload.emplace(push.binary().path); break;
            case AgentPush::Step::done: return push.outcome().alive ? Went::ok : Went::failed;
        }
    }
}

Tunnel::Went Tunnel::push_agent() {
    auto env = owner_.options_.agent_env(machine_);
    env["GPUFERRY_URL"] = "https://127.0.0.1:" + std::to_string(owner_.keys_.port(machine_));
    AgentPush push(owner_.options_.tag_of(machine_), std::move(env), owner_.options_.agent_for);
    auto shell = Child::start(remote_command(now_, remote_shell()));
    if (!shell) {
        agent_detail_ = shell.error().message;
        return Went::failed;
    }
    const Went done = talk(*shell, push);
    const auto outcome = push.outcome();
    agent_detail_ = outcome.detail;
    if (outcome.started) log::info("ssh.agent_started", {{"machine", machine_.get()}, {"detail", outcome.detail}});
    return done;
}

void Tunnel::look_after_agent(Child& master, const std::string& at) {
    if (owner_.options_.agent_connected(machine_)) return tell(true, "up", at);
    const Went pushed = push_agent();
    if (pushed == Went::told) return;
    if (pushed == Went::ok) return tell(true, "up", at + "; " + agent_detail_);
    // A connection that has just died is the better explanation; ssh takes a moment to say so.
    std::vector<pollfd> fds{{.fd = master.errors(), .events = 0, .revents = 0}};
    if (wait(fds, Clock::now() + 300ms) == Woken::timeout && !master.ended()) tell(true, "agent_not_started", at + "; " + agent_detail_);
}

void Tunnel::hold(Child& master, std::string& said) {
    const std::string at = place(now_.to) + ", port " + std::to_string(owner_.keys_.port(machine_)) + " there";
    bool open = true;
    auto look_at = Clock::now();
    std::chrono::seconds look_after = kLookFirst;
    while (!must_go()) {
        if (open && Clock::now() >= look_at) {
            look_after_agent(master, at);
            look_at = Clock::now() + look_after;
            look_after = std::min<std::chrono::seconds>(2 * look_after, kLookMax);
            continue;
        }
        std::vector<pollfd> fds{{.fd = open ? master.errors() : -1, .events = POLLIN, .revents = 0}};
        const Woken woken = wait(fds, open ? look_at : Clock::now() + 20ms);
        if (woken == Woken::ready) {
            const auto piece = Child::read_some(master.errors());
            if (piece) heard(said, *piece);
            else open = false;  // it is about to end
        }
        if (!open && master.ended()) return;
    }
}

bool Tunnel::connect_and_hold() {
    {
        const std::scoped_lock lock(mutex_);
        now_.to = wanted_;
    }
    if (owner_.program_.empty()) {
        tell(false, "no_ssh", "there is no ssh program on this machine; install openssh-client");
        return false;
    }
    if (const auto why = unusable(now_.to); !why.empty()) {
        tell(false, "bad_endpoint", why);
        return false;
    }
    // Each time anew: what cleans /tmp may have taken the folder, and somebody else may have made it since.
    if (auto folder = owner_.make_socket_folder(); !folder) {
        tell(false, "ssh_failed", folder.error().message);
        return false;
    }
    const auto known = owner_.keys_.known(machine_);
    now_.known_hosts = known.file;
    now_.first_meeting = known.first_meeting;
    now_.key_is_ours = known.ours;
    ::unlink(now_.control.c_str());  // of a process that was killed
    auto master = Child::start(master_command(now_));
    if (!master) {
        tell(false, "ssh_failed", master.error().message);
        return false;
    }
    master->close_input();
    std::string said;
    Went done = wait_for_master(*master, said);
    if (done == Went::failed) tell_refusal(said, false);
    if (done != Went::ok) return false;
    if (auto met = owner_.keys_.met(machine_); !met) {
        tell(false, "ssh_failed", met.error().message);
        return false;
    }
    done = forward(said);
    if (done == Went::failed) {
        const auto refusal = refusal_of(said, true);
        if (refusal == Refusal::forward_refused)
            tell(false, text(refusal), place(now_.to) + " gives us no listener on its loopback (AllowTcpForwarding or PermitListen of its "
                                                        "sshd, or the port is taken): " + last_words(said));
        else
            tell_refusal(said, true);
    }
    if (done != Went::ok) return false;
    // Whatever has been said until now (a port that was ours only at the second asking) explains no later end.
    said.clear();
    hold(*master, said);
    const std::string words = last_words(said);
    if (!must_go()) tell(false, text(Refusal::connection_lost), place(now_.to) + (words.empty() ? "" : ": " + words));
    return true;
}

void Tunnel::run() {
    // A machine that hangs up while it is written to is an error of that write.
    sigset_t pipe;
    ::sigemptyset(&pipe);
    ::sigaddset(&pipe, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
    now_.program = owner_.program_;
    now_.id = machine_.get();
    now_.identity = owner_.folder_ + "/id_ed25519";
    now_.control = owner_.sockets_ + "/" + machine_.get().substr(machine_.get().size() - std::min<std::size_t>(16, machine_.get().size()));
    std::chrono::milliseconds wait_for = kPauseFirst;
    while (true) {
        const auto began = Clock::now();
        const bool stood = connect_and_hold();
        {
            const std::scoped_lock lock(mutex_);
            if (leave_at_ && Clock::now() >= *leave_at_) break;
            if (wanted_ != now_.to) {
                wait_for = kPauseFirst;
                continue;
            }
        }
        if (stood && Clock::now() - began > kStable) wait_for = kPauseFirst;
        const bool stranger = told_.starts_with("down host_key_changed");
        pause(stranger ? owner_.options_.pause_stranger : wait_for);
        wait_for = std::min<std::chrono::milliseconds>(wait_for * 2, kPauseMax);
        const std::scoped_lock lock(mutex_);
        if (leave_at_ && Clock::now() >= *leave_at_) break;
    }
    ::unlink(now_.control.c_str());
    over_ = true;
}

}  // namespace gf::ssh
