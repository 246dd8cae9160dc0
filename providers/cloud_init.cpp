#include "providers/cloud_init.hpp"

#include <algorithm>
#include <string_view>

namespace gf {
namespace {

// w: writes standard input to $1 with mode $2, never readable for others in between, never half written.
constexpr std::string_view kBegin = R"sh(#!/bin/sh
set -u
umask 077
R=${GPUFERRY_ROOT:-}
w() {
    cat >"$1.gpuferry" && chmod "$2" "$1.gpuferry" && mv -f "$1.gpuferry" "$1"
}
)sh";

// a: lets the key $k log in as $1, whose home is $2. A file without a last line end would swallow the key.
// Naming one HostKey takes the others out of use. The drop-in comes first in Ubuntu's own configuration;
// where nothing includes it, the line goes on top of the file itself, because sshd takes the first of what it
// reads.
constexpr std::string_view kSsh = R"sh(mkdir -p "$R/etc/ssh"
printf '%s' "$host_private" | w "$R/etc/ssh/ssh_host_ed25519_key" 600
printf '%s\n' "$host_public" | w "$R/etc/ssh/ssh_host_ed25519_key.pub" 644
line='HostKey /etc/ssh/ssh_host_ed25519_key'
conf=$R/etc/ssh/sshd_config
if grep -Eqi '^[[:space:]]*Include[[:space:]]+("?/etc/ssh/)?sshd_config\.d/' "$conf" 2>/dev/null; then
    mkdir -p "$R/etc/ssh/sshd_config.d"
    printf '%s\n' "$line" | w "$R/etc/ssh/sshd_config.d/00-gpuferry.conf" 600
elif [ "$(head -n 1 "$conf" 2>/dev/null)" != "$line" ]; then
    { printf '%s\n' "$line"; cat "$conf" 2>/dev/null; } | w "$conf" 600
fi
a() {
    [ -d "$2" ] || return 0
    mkdir -p "$2/.ssh"
    f=$2/.ssh/authorized_keys
    if ! grep -qxF "$k" "$f" 2>/dev/null; then
        [ ! -s "$f" ] || [ -z "$(tail -c 1 "$f")" ] || echo >>"$f"
        printf '%s\n' "$k" >>"$f"
    fi
    chmod 700 "$2/.ssh"
    chmod 600 "$f"
    [ "$1" = root ] || chown -R "$1:" "$2/.ssh" 2>/dev/null || :
}
mkdir -p "$R/root"
a root "$R/root"
)sh";

// A configuration that sshd does not take must not stop the sshd that runs.
constexpr std::string_view kRestart = R"sh(mkdir -p "$R/run/sshd"
chmod 755 "$R/run/sshd"
if ! command -v sshd >/dev/null 2>&1 || sshd -t; then
    systemctl restart ssh 2>/dev/null || systemctl restart sshd 2>/dev/null ||
        service ssh restart 2>/dev/null || service sshd restart 2>/dev/null || :
fi
)sh";

// The unit goes on when the kernel kills a process of the job for memory (else systemd ends it all), and
// takes no limit of the system's. It is a file that is enabled, since cloud-init runs us once per instance
// and a machine that boots again wants its agent back. An older systemd ignores a setting that it does not
// know. The start does not wait for what it is ordered after: cloud-init is part of the same boot. Where no
// unit can be written or enabled (a read-only /etc) a transient one does for this boot; a file that was left
// would stand in its way.
constexpr std::string_view kRun = R"sh(w "$D/run" 700 <<'END'
#!/bin/sh
D=${0%/*}
set -a
. "$D/machine.env"
set +a
export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin${GPUFERRY_ROOT:+:$PATH}
cd /
echo $$ >"$D/pid"
exec /bin/sh "$D/start"
END
u=gpuferry-machine
if [ -d "$R/run/systemd/system" ] && systemctl is-active --quiet $u; then
    : # nothing to do, and a reload can take the GPUs from running containers
elif [ -d "$R/run/systemd/system" ] && command -v systemd-run >/dev/null 2>&1; then
    f=$R/etc/systemd/system/$u.service
    mkdir -p "$R/etc/systemd/system"
    w "$f" 644 <<'END'
[Unit]
Description=gpuferry machine
Wants=network-online.target
After=network-online.target docker.service
[Service]
ExecStart=/bin/sh /etc/gpuferry/run
OOMPolicy=continue
TasksMax=infinity
LimitNOFILE=1048576
LimitMEMLOCK=infinity
[Install]
WantedBy=multi-user.target
END
    if ! { [ -s "$f" ] && systemctl daemon-reload && systemctl --quiet enable $u.service; }; then
        rm -f "$f"
        systemctl daemon-reload
        f=
    fi
    { [ -n "$f" ] && systemctl start --no-block $u; } ||
        systemd-run --quiet --collect --unit=$u --property=OOMPolicy=continue --property=TasksMax=infinity --property=LimitNOFILE=1048576 --property=LimitMEMLOCK=infinity /bin/sh "$D/run" ||
        systemd-run --unit=$u /bin/sh "$D/run"
elif ! { [ -s "$D/pid" ] && kill -0 "$(cat "$D/pid")" 2>/dev/null; }; then
    setsid nohup /bin/sh "$D/run" </dev/null >"$D/log" 2>&1 &
fi
exit 0
)sh";

std::string in_quotes(std::string_view text) {
    std::string out = "'";
    for (const char c : text) {
        if (c == '\'')
            out += R"('\'')";
        else if (c != '\0')
            out += c;
    }
    return out + "'";
}

bool is_variable(std::string_view name) {
    const auto plain = [](char c) {
        return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    };
    return !name.empty() && !(name.front() >= '0' && name.front() <= '9') && std::ranges::all_of(name, plain);
}

std::string one_line(std::string_view text) {
    return std::string(text.substr(0, text.find_first_of("\r\n")));
}

/// `text` on the standard input of w for `path` below $D. By printf, a builtin: no process shows it in its
/// arguments.
std::string file(std::string_view path, std::string_view text, std::string_view mode) {
    std::string out = "printf '%s' ";
    out += in_quotes(text);
    out += " | w \"$D/";
    out += path;
    out += "\" ";
    out += mode;
    return out + "\n";
}

}  // namespace

std::string cloud_init_script(const LaunchRequest& request, const CloudInitOptions& options) {
    std::string out(kBegin);
    if (request.ssh) {
        auto pem = request.ssh->host_private.reveal();
        if (!pem.ends_with('\n')) pem += '\n';  // sshd does not read a key without its last line end
        out += "host_private=" + in_quotes(pem) + "\n";
        out += "host_public=" + in_quotes(one_line(request.ssh->host_public)) + "\n";
        out += "k=" + in_quotes(one_line(request.ssh->client_public)) + "\n";
        out += kSsh;
        if (options.login != "root") out += "a " + options.login + " \"$R/home/" + options.login + "\"\n";
        out += kRestart;
    }
    if (request.start_script.empty()) return out + "exit 0\n";  // whoever comes by ssh starts it
    std::string environment;
    for (const auto& [name, value] : request.env)
        if (is_variable(name)) environment += name + "=" + in_quotes(value) + "\n";
    out += "D=$R/etc/gpuferry\nmkdir -p \"$D\"\nchmod 700 \"$D\"\n";
    out += file("machine.env", environment, "600");
    out += file("start", request.start_script + "\n", "700");
    out += kRun;
    return out;
}

}  // namespace gf
