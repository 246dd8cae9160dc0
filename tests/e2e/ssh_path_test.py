#!/usr/bin/env python3
"""A daemon that nobody can dial: it goes to a virtual machine by ssh, sends the agent, and the job runs through the tunnel, over
cuts of the connection and deaths of the daemon. A real sshd with the keys that the machine's boot script has put there; the user's own
ssh files are not touched, and nothing secret is in an argument or in what the provider keeps of the machine."""
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

from harness import Skip, check, processes, run, wait_for
from worlds import check_result, counter_spec, rentals, wait_all_gone

PROVIDER = "vultr"
TOTAL = 160
SSHD = "/usr/sbin/sshd"


def needed(lab):
    if os.geteuid() != 0:
        raise Skip("port 22 of a loopback address and the machine's namespaces are root's")
    for program in (SSHD, "ssh", "nsenter"):
        if not shutil.which(program):
            raise Skip(f"{program} is not installed")
    if not lab.sim_plays(PROVIDER):
        raise Skip(f"the simulator does not play {PROVIDER}")
    os.makedirs("/run/sshd", exist_ok=True)


def own_address():
    """A loopback address whose port 22 nobody has."""
    for last in range(2, 250):
        address = f"127.{os.getpid() % 250 + 2}.{os.getpid() // 250 % 250}.{last}"
        with socket.socket() as s:
            try:
                s.bind((address, 22))
                return address
            except OSError:
                continue
    raise Skip("no loopback address has a free port 22")


class MachineSshd:
    """The sshd of a simulated machine: its keys are those that the machine's boot script has installed, and a login lands in it."""

    def __init__(self, lab, rental, address):
        self.lab, self.address, self.process = lab, address, None
        self.root = pathlib.Path(f"/proc/{rental['pid']}/root")
        self.folder = lab.folder / "sshd"
        self.folder.mkdir()
        host_key, allowed = self.root / "etc/ssh/ssh_host_ed25519_key", self.root / "root/.ssh/authorized_keys"
        wait_for("the boot script to install the keys", lambda: host_key.exists() and allowed.exists() and allowed.stat().st_size, 60)
        shutil.copy(host_key, self.folder / "hostkey")
        shutil.copy(allowed, self.folder / "authorized_keys")
        (self.folder / "hostkey").chmod(0o600)
        (self.folder / "config").write_text(
            f"ListenAddress {address}\nPort 22\nHostKey {self.folder}/hostkey\nAuthorizedKeysFile {self.folder}/authorized_keys\n"
            "PidFile none\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nStrictModes no\nUseDNS no\n"
            f"PermitRootLogin prohibit-password\nLogLevel VERBOSE\nSetEnv HOME={self.folder}\n"
            f"ForceCommand exec nsenter -t {rental['pid']} -m -p -u -i -r -w env HOME=/root sh -c \"$SSH_ORIGINAL_COMMAND\"\n")

    def start(self):
        self.process = self.lab.start("sshd", [SSHD, "-D", "-e", "-f", self.folder / "config"])

        def answers():
            with socket.socket() as s:
                return s.connect_ex((self.address, 22)) == 0
        wait_for("sshd to answer", answers, 30, 0.05)

    def stop(self):
        """Its connections with it, as when the machine's network goes; what runs there goes on."""
        table, doomed, grown = processes(), {self.process.pid}, True
        while grown:
            more = {pid for pid, (parent, argv, _) in table.items()
                    if parent in doomed and argv and argv[0].startswith("sshd")} - doomed
            doomed |= more
            grown = bool(more)
        for pid in doomed:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()


def users_files():
    """What is in the .ssh folder of the user who runs the daemon, as ssh would find it."""
    folder = pathlib.Path(pwd.getpwuid(os.geteuid()).pw_dir) / ".ssh"
    return {str(p): (p.stat().st_mtime_ns, p.read_bytes() if p.is_file() else b"") for p in sorted(folder.rglob("*"))} if folder.exists() else None


class ArgumentWatch(threading.Thread):
    """Looks at all arguments of all processes all the time."""

    def __init__(self, words):
        super().__init__(daemon=True)
        self.words, self.found, self.over = words, set(), threading.Event()

    def run(self):
        while not self.over.wait(0.02):
            for _, argv, _ in processes().values():
                line = " ".join(argv)
                self.found |= {line[:200] for word in self.words if word in line}

    def finish(self):
        self.over.set()
        self.join()
        return self.found


def ssh_processes(lab):
    return [pid for pid, (_, argv, _) in processes().items() if argv and argv[0].endswith("ssh") and str(lab.data_dir) in " ".join(argv)]


def test(lab):
    needed(lab)
    before = users_files()
    canary = lab.folder / ".ssh"  # the daemon's HOME
    canary.mkdir(mode=0o700)
    (canary / "known_hosts").write_text("# mine\n")
    (canary / "config").write_text("Host *\n  ProxyCommand false\n")
    canaries = {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in canary.iterdir()}

    lab.start_sim(f"--{PROVIDER}-key", lab.key_of(PROVIDER))
    lab.write_config(runpod=False, vastai=False, more_clouds=[PROVIDER], more="reach: ssh\n")
    lab.start_daemon()
    private = (lab.data_dir / "ssh" / "id_ed25519").read_text().splitlines()[2]
    check((lab.data_dir / "ssh" / "id_ed25519").stat().st_mode & 0o777 == 0o600, "our key is private")
    watch = ArgumentWatch([private, "GPUFERRY_ENROL"])
    watch.start()

    job = lab.submit(counter_spec(lab, TOTAL, 0.15, 5, name="by ssh",
                                  resources={"vram": "16GB", "providers": [PROVIDER]}))
    rental = wait_for("the machine to run", lambda: next((m for m in rentals(lab) if m.get("pid")), None), 90)
    for word in ("GPUFERRY_ENROL", "GPUFERRY_URL", str(lab.agent_port)):
        kept = (pathlib.Path(f"/proc/{rental['pid']}/root") / "var/lib/cloud/instance/user-data.txt").read_text()
        check(word not in kept, f"{word} is in what the provider keeps of the machine")
    sshd = MachineSshd(lab, rental, own_address())
    sshd.start()
    lab.sim_ask("POST", "/ssh", {"provider": PROVIDER, "id": rental["id"], "host": sshd.address, "port": 22})
    lab.wait_step(job, 10, seconds=120)
    check(lab.machines()[0]["state"] == "busy", f"{lab.machines()}")
    check(not watch.finish(), f"in the arguments of processes: {watch.found}")

    # The way is cut, and cut again; the job does not notice.
    for turn in range(2):
        sshd.stop()
        time.sleep(0.5)
        sshd.start()
        lab.wait_step(job, 40 + 20 * turn, seconds=120)
    # Another host key: never talked to, and told. Then its own again.
    sshd.stop()
    own = (sshd.folder / "hostkey").read_bytes()
    (sshd.folder / "hostkey").unlink()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(sshd.folder / "hostkey")], check=True)
    sshd.start()
    wait_for("an alert about the host key", lambda: [a for a in lab.items("/v1/alerts") if a["kind"] == "host_key_changed"], 60)
    sshd.stop()
    (sshd.folder / "hostkey").write_bytes(own)
    sshd.start()
    # The daemon dies and comes back; so does its ssh.
    lab.kill_daemon()
    wait_for("the ssh of a dead daemon to end", lambda: not ssh_processes(lab), 30)
    lab.start_daemon()
    lab.wait_step(job, 100, seconds=150)
    check(len(ssh_processes(lab)) >= 1, "the tunnel is held by an ssh process")

    lab.wait_state(job, "succeeded", seconds=150)
    check(lab.job(job)["attempts"] == 1, f"the job was started again: {lab.attempts(job)}")
    check(len(rentals(lab, alive=False)) == 1, "another machine was rented")
    steps = [int(n) for n in re.findall(rb"step (\d+)/", lab.log(job))]
    check(steps == list(range(1, TOTAL + 1)), f"the log has holes or repetitions: {steps}")
    check_result(lab, job, TOTAL)
    told = [e for e in lab.items(f"/v1/jobs/{job}/events") if e["kind"] == "tunnel"]
    check({"up", "down"} <= {e["state"] for e in told}, f"the tunnel's news are events: {told}")
    wait_all_gone(lab, 120)
    wait_for("the tunnel to be closed", lambda: not ssh_processes(lab), 30)
    left = list((lab.data_dir / "ssh" / "machines").iterdir())
    check(not left, f"keys of machines that are gone: {left}")
    lab.daemon.terminate()
    check(lab.daemon.wait(20) == 0, "the daemon did not stop cleanly")
    check(users_files() == before, "the user's own ssh files were touched")
    check({p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in canary.iterdir()} == canaries, "files in the daemon's HOME were touched")


run("ssh_path", test)
