#include "daemon/ssh/agent_push.hpp"

#include <algorithm>

namespace gf::ssh {
namespace {

constexpr std::string_view kMark = "gpuferry:";
constexpr std::size_t kLineMax = 4096;

// p: a line for the daemon. born: when a process began, in ticks of its kernel; nothing for one that is gone or only not reaped
// yet. A process is known by its number and that. folders: where the agent and its notes can lie; whose folder it is counts,
// because anybody may have made one in /tmp.
constexpr std::string_view kScript = R"sh(p(){ printf '\ngpuferry:%s\n' "$*";}
born(){ IFS= read -r s <"/proc/$1/stat"||return 1;s=${s##*) };set -- $s;case $1 in [ZX])return 1;;esac;shift 19;echo "$1";}
folders(){ for d in "$HOME" /var/lib /var/tmp /tmp /dev/shm;do d=$d/.gpuferry-agent;[ -O "$d" ]&&[ ! -h "$d" ]&&echo "$d";done;}
umask 077
exec 3>&2 2>/dev/null
IFS= read -r verb
IFS= read -r machine
read -r boot </proc/sys/kernel/random/boot_id
if [ "$verb" = free ];then
for d in $(folders);do
read -r pid start <"$d/$machine.sshd"||continue
IFS= read -r name <"/proc/$pid/comm"||continue
case $name in sshd*)[ "$pid" != "$1" ]&&[ "$(born "$pid")" = "$start" ]&&kill "$pid"&&p freed "$pid";;esac
done
p over
exit 0
fi
D=
for d in "$HOME" /var/lib /var/tmp /tmp /dev/shm;do
d=$d/.gpuferry-agent
[ -d "$d" ]||mkdir "$d"
[ -O "$d" ]&&[ ! -h "$d" ]||continue
printf '#!/bin/sh\n' >"$d/try.$$"&&chmod 700 "$d/try.$$"&&"$d/try.$$"&&D=$d
rm -f "$d/try.$$"
[ "$D" ]&&break
done
[ "$D" ]||{ p nowhere;exit 0;}
echo "$1 $(born "$1")" >"$D/$machine.sshd"
alive= starts=0
for d in $(folders);do
read -r b pid start n <"$d/$machine"||continue
[ "$b" = "$boot" ]||continue
starts=$n
[ "$(born "$pid")" = "$start" ]&&alive=$pid
done
[ "$alive" ]&&{ p alive "$alive";exit 0;}
[ "$starts" -lt 5 ]||{ p worn "$starts";exit 0;}
p arch "$(uname -m)"
IFS= read -r sha&&IFS= read -r size||exit 0
while IFS= read -r line&&[ "$line" ];do export "$line";done
F=$D/agent-$sha
h(){ sha256sum "$1"||busybox sha256sum "$1"||shasum -a 256 "$1"||openssl dgst -r -sha256 "$1";}
good(){ [ -f "$1" ]&&case "$(h "$1")" in "$sha"*)return 0;;esac;return 1;}
if ! good "$F";then
p send
head -c "$size" >"$F.$$"
good "$F.$$"&&chmod 700 "$F.$$"&&mv -f "$F.$$" "$F"
rm -f "$F.$$"
good "$F"||{ p spoilt "$(df -k "$D"|tail -n 1)";exit 0;}
fi
"$F" --version >/dev/null||{ p foreign "$(uname -m)";exit 0;}
s=;command -v setsid >/dev/null&&s=setsid
$s "$F" </dev/null >"$D/$machine.log" 2>&1 3>&- &
pid=$!
start=$(born "$pid")
echo "$boot $pid $start $((starts+1))" >"$D/$machine"
sleep 1
if [ "$(born "$pid")" = "$start" ];then p started "$pid";else p ended "$(tail -n 1 "$D/$machine.log")";fi
)sh";

std::string with_length(std::string_view script) { return std::to_string(script.size()) + "\n" + std::string(script); }

bool one_line(std::string_view text) { return text.find('\n') == std::string_view::npos; }

std::string printable(std::string_view text) {
    std::string out;
    for (const char c : text.substr(0, 200))
        if (c >= ' ' && c < '\x7F') out.push_back(c);
    return out;
}

}  // namespace

std::string remote_shell() {
    // dd byte by byte: busybox's head reads ahead, and what follows is not its to take. $PPID is the sshd process of this
    // connection; sudo would hide it.
    return "exec sh -c 'IFS= read -r n;s=$(dd bs=1 count=\"$n\" 2>/dev/null);u=$PPID;"
           "if [ \"$(id -u)\" != 0 ]&&sudo -n true </dev/null >/dev/null 2>&1;then exec sudo -n sh -c \"$s\" gpuferry \"$u\";fi;"
           "set -- \"$u\";eval \"$s\"'";
}

AgentPush::AgentPush(MachineTag tag, std::map<std::string, std::string> env, AgentFor agent_for)
    : tag_(std::move(tag)), env_(std::move(env)), agent_for_(std::move(agent_for)) {
    outcome_.detail = "the machine's shell said nothing that we know";
}

std::string AgentPush::opening() const { return with_length(kScript) + "run\n" + tag_.get() + "\n"; }

std::string free_port_opening(const MachineTag& tag) { return with_length(kScript) + "free\n" + tag.get() + "\n"; }

AgentPush::Step AgentPush::take(std::string_view printed, std::string& reply) {
    rest_ += printed;
    Step step = Step::talk;
    std::size_t at = 0;
    for (auto end = rest_.find('\n'); step == Step::talk && end != std::string::npos; end = rest_.find('\n', at)) {
        // Nothing of ours is that long; `too_long_` is the end of a line whose beginning was dropped.
        if (!too_long_ && end - at <= kLineMax) step = line(std::string_view(rest_).substr(at, end - at), reply);
        too_long_ = false;
        at = end + 1;
    }
    rest_.erase(0, at);
    if (step == Step::talk && rest_.size() > kLineMax) {
        rest_.clear();
        too_long_ = true;
    }
    return step;
}

AgentPush::Step AgentPush::line(std::string_view line, std::string& reply) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.starts_with(kMark)) return Step::talk;
    line.remove_prefix(kMark.size());
    const auto space = std::min(line.find(' '), line.size());
    const std::string_view word = line.substr(0, space);
    const std::string more = printable(line.substr(std::min(space + 1, line.size())));
    const auto over = [&](Outcome outcome) {
        outcome_ = std::move(outcome);
        return Step::done;
    };
    if (word == "alive") return over({.alive = true, .started = false, .detail = "its agent runs (process " + more + ")"});
    if (word == "started") return over({.alive = true, .started = true, .detail = "its agent was started (process " + more + ")"});
    if (word == "ended") return over({.detail = "its agent ended at once: " + more});
    if (word == "worn") return over({.detail = "its agent has ended " + more + " times; it is not started again before a reboot"});
    if (word == "nowhere") return over({.detail = "no folder there from which a program may run"});
    if (word == "spoilt") return over({.detail = "the agent did not arrive whole (disk: " + more + ")"});
    if (word == "foreign") return over({.detail = "the agent does not run on this machine (" + more + ")"});
    // Each is asked for once: a machine that asks again and again would be answered until our memory is full.
    if (word == "arch" && expected_ == Expected::arch) {
        expected_ = Expected::send;
        auto found = agent_for_(more);
        if (!found) return over({.detail = found.error().message});
        binary_ = *std::move(found);
        reply += binary_.sha256 + "\n" + std::to_string(binary_.size) + "\n";
        for (const auto& [name, value] : env_)
            if (one_line(name) && one_line(value)) reply += name + "=" + value + "\n";
        reply += "\n";
        outcome_.detail = "the talk with the machine broke off";
        return Step::talk;
    }
    if (word == "send" && expected_ == Expected::send) {
        expected_ = Expected::end;
        return Step::upload;
    }
    if (word == "arch" || word == "send") return over({.detail = "the machine's shell does not keep to the talk (\"" + std::string(word) + "\" out of turn)"});
    return Step::talk;
}

}  // namespace gf::ssh
