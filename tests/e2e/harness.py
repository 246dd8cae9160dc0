"""Shared by the end-to-end tests: starts the real programs in a private folder, waits with bounds, and ends what it started.

Each test is a program that prints exactly one final line: "ok NAME", "FAIL NAME: why" or "skip NAME: why", and exits with 0, 1
or 77. Standard library only. Nothing listens on a fixed port or off loopback.

Time: daemon, agents and simulator share one clock, SCALE times as fast as the real one.
"""
import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("GPUFERRY_BIN", ROOT / "build" / "release" / "bin"))
SCALE = float(os.environ.get("GPUFERRY_E2E_SCALE", "20"))
MARK = "GPUFERRY_E2E_FOLDER"
LIMIT_S = 300  # of real time for one test; then it fails and cleans up


class Failed(Exception):
    """A promise that was not kept."""


class Skip(Exception):
    """This machine cannot run the test."""


def check(truth, what):
    if not truth:
        raise Failed(what)


def wait_for(what, look, seconds=60.0, pause=0.1):
    """Calls look() until it answers something true and returns that; Failed after `seconds` of real time."""
    end = time.monotonic() + seconds
    last = None
    while time.monotonic() < end:
        try:
            last = look()
        except (OSError, http.client.HTTPException) as error:
            last = f"({error})"
        else:
            if last:
                return last
        time.sleep(pause)
    raise Failed(f"waited {seconds:.0f} s for {what}; last seen: {str(last)[:300]}")


def free_port():
    """Below the ports that the kernel gives to whoever asks for any: a connection of another program must not take it meanwhile."""
    for _ in range(200):
        port = secrets.randbelow(20_000) + 12_000
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port
    raise Failed("no free port between 12000 and 32000")


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        for piece in iter(lambda: f.read(1 << 20), b""):
            digest.update(piece)
    return digest.hexdigest()


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("gpuferry", timeout=timeout)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Answer:
    def __init__(self, status, body, headers):
        self.status, self.body, self.headers = status, body, headers

    @property
    def json(self):
        return json.loads(self.body)


def ask(connection, method, path, body=None, headers=None):
    """One request on a connection of its own."""
    headers = dict(headers or {})
    if isinstance(body, (dict, list)):
        body = json.dumps(body)
        headers.setdefault("Content-Type", "application/json")
    try:
        connection.request(method, path, body=body, headers=headers)
        response = connection.getresponse()
        return Answer(response.status, response.read(), dict(response.getheaders()))
    finally:
        connection.close()


def processes():
    """pid -> (parent, argv, environment bytes) of what /proc shows."""
    seen = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            base = pathlib.Path("/proc") / entry
            stat = (base / "stat").read_text()
            after = stat.rsplit(")", 1)[1].split()
            if after[0] in "ZX":
                continue
            argv = (base / "cmdline").read_bytes().split(b"\0")[:-1]
            try:
                environment = (base / "environ").read_bytes()
            except PermissionError:  # the daemon's memory is closed to all but root
                environment = b""
            seen[int(entry)] = (int(after[1]), [a.decode(errors="replace") for a in argv], environment)
        except (OSError, IndexError, ValueError):
            continue  # it ended meanwhile, or belongs to somebody else
    return seen


class Lab:
    """A private folder with a simulator, a daemon and what they started."""

    def __init__(self, name, keep=False):
        self.name = name
        self.keep = keep
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"gpuferry-e2e-{name}-"))
        self.origin = int(time.time() * 1000)
        self.started = []
        self.daemon = None
        self.sim = None
        self.sim_ports = {}
        self.agent_port = free_port()
        self.data_dir = self.folder / "data"
        self.socket = str(self.data_dir / "gpuferry.sock")
        self.generation = 0

    # ---- processes ----

    def environment(self, extra=None):
        # Clean: no key, no proxy and no token of the machine that runs the tests reaches what they start.
        env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(self.folder), "LANG": "C.UTF-8", "NO_COLOR": "1",
               "TMPDIR": os.environ.get("TMPDIR", "/tmp"), MARK: str(self.folder)}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
            if name in os.environ:
                env[name] = os.environ[name]
        env.update(extra or {})
        return env

    def start(self, name, argv, extra=None):
        log = open(self.folder / f"{name}.log", "ab")
        process = subprocess.Popen([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                   env=self.environment(extra), cwd=self.folder, start_new_session=True)
        log.close()
        self.started.append(process)
        return process

    def log_of(self, name, tail=2000):
        with contextlib.suppress(OSError):
            return (self.folder / f"{name}.log").read_text(errors="replace")[-tail:]
        return ""

    def start_sim(self, *arguments):
        ports = self.folder / "sim-ports.json"
        with contextlib.suppress(FileNotFoundError):
            ports.unlink()
        self.sim = self.start("sim", [BIN / "gpuferry-sim", "--ports-file", ports, "--time-scale", SCALE, "--time-origin",
                                      self.origin, "--dir", self.folder / "machines", *arguments])
        self.wait_file(ports, self.sim, "sim")
        self.sim_ports = json.loads(ports.read_text())

    KEYS = {"runpod": "rpa_E2E", "vastai": "vast-e2e", "lambda": "secret_e2e", "vultr": "VULTRE2E"}

    def key_of(self, provider):
        """The account key that write_config gives the daemon."""
        return self.KEYS[provider]

    @staticmethod
    def sim_plays(provider):
        """Whether the simulator has a face for this provider."""
        shown = subprocess.run([str(BIN / "gpuferry-sim"), "--help"], capture_output=True, timeout=20, check=False)
        return f"--{provider}-key".encode() in shown.stdout + shown.stderr

    def write_config(self, vastai=True, runpod=True, local=False, more="", more_clouds=()):
        def cloud(name, enabled, lines):
            return f"  {name}: {{{lines}}}\n" if enabled else ""
        text = (f"listen: 127.0.0.1:0\nagent_listen: 127.0.0.1:{self.agent_port}\n"
                f"advertise_url: http://127.0.0.1:{self.agent_port}\ndata_dir: {self.data_dir}\nproviders:\n")
        if self.sim:
            text += cloud("runpod", runpod, f"api_key: rpa_E2E, api_url: {self.face('runpod')}/v2, "
                                            f"graphql_url: {self.face('runpod')}/graphql")
            text += cloud("vastai", vastai, f"api_key: vast-e2e, api_url: {self.face('vastai')}")
            for name in more_clouds:
                path = {"lambda": "/api/v1", "vultr": "/v2"}[name]
                text += cloud(name, True, f"api_key: {self.key_of(name)}, api_url: {self.face(name)}{path}")
        text += f"  local: {{enabled: {'true' if local else 'false'}}}\n" + more
        (self.folder / "gpuferryd.yaml").write_text(text)

    def face(self, provider):
        return f"http://127.0.0.1:{self.sim_ports[provider]}"

    def start_daemon(self, seconds=30, extra=None):
        self.generation += 1
        ports = self.folder / f"daemon-ports-{self.generation}.json"
        self.daemon = self.start("daemon", [BIN / "gpuferryd", "--config", self.folder / "gpuferryd.yaml", "--time-scale", SCALE,
                                            "--time-origin", self.origin, "--ports-file", ports, "--log-level", "debug"], extra)
        self.wait_file(ports, self.daemon, "daemon")
        self.ports = json.loads(ports.read_text())
        wait_for("the daemon to be ready", lambda: self.api("GET", "/readyz").status == 200, seconds)

    def wait_file(self, path, process, name):
        def look():
            if process.poll() is not None:
                raise Failed(f"{name} ended with {process.returncode}: {self.log_of(name)}")
            return path.exists() and path.stat().st_size > 0
        wait_for(f"{name} to be up", look, 30, 0.05)

    def kill_daemon(self):
        self.daemon.kill()
        self.daemon.wait()

    def marked(self):
        """Live processes that were started in this lab, however far down."""
        mark = f"{MARK}={self.folder}".encode()
        folder = str(self.folder)
        table = processes()
        ours = {pid for pid, (_, argv, env) in table.items() if mark in env.split(b"\0") or any(folder in a for a in argv)}
        grown = True
        while grown:  # children whose environment was cleaned
            more = {pid for pid, (parent, _, _) in table.items() if parent in ours} - ours
            ours |= more
            grown = bool(more)
        ours.discard(os.getpid())
        return {pid: table[pid] for pid in ours}

    def close(self):
        for process in reversed(self.started):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        end = time.monotonic() + 10
        for process in self.started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, end - time.monotonic()))
        for _ in range(5):  # what is left, one by one; parents may start others until they are gone
            left = self.marked()
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if not left:
                break
            time.sleep(0.2)
        for process in self.started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(2)
        if not self.keep:
            unmount_below(self.folder)
            shutil.rmtree(self.folder, ignore_errors=True)

    # ---- the daemon ----

    def api(self, method, path, body=None, headers=None, timeout=20):
        return ask(UnixConnection(self.socket, timeout), method, path, body, headers)

    def get(self, path):
        answer = self.api("GET", path)
        check(answer.status == 200, f"GET {path}: {answer.status} {answer.body[:200]!r}")
        return answer.json

    def descriptors(self):
        """Open ones of the daemon, as it tells: its /proc is closed to all but root."""
        text = self.api("GET", "/metrics").body.decode()
        return int(next(line for line in text.splitlines() if line.startswith("process_open_fds ")).split()[1])

    def items(self, path):
        found, cursor = [], None
        while True:
            page = self.get(path + (("&" if "?" in path else "?") + f"cursor={cursor}" if cursor else ""))
            found += page["items"]
            cursor = page.get("next_cursor")
            if not cursor:
                return found

    def cli(self, *arguments, timeout=60, input=None):
        return subprocess.run([str(BIN / "gpuferry"), *[str(a) for a in arguments]], capture_output=True, timeout=timeout,
                              env=self.environment({"GPUFERRY_URL": f"unix:{self.socket}"}), input=input, cwd=self.folder)

    def submit(self, spec):
        """Hands a spec in by the command line; gives the job's id."""
        path = self.folder / "job.json"
        path.write_text(json.dumps(spec))
        ran = self.cli("submit", "--detach", path)
        check(ran.returncode == 0, f"submit: {ran.returncode} {ran.stderr.decode()}")
        return ran.stdout.decode().split()[0]

    def job(self, job):
        return self.get(f"/v1/jobs/{job}")

    def attempts(self, job):
        return self.items(f"/v1/jobs/{job}/attempts")

    def checkpoints(self, job):
        return self.items(f"/v1/jobs/{job}/checkpoints")

    def machines(self, with_gone=False):
        return self.items("/v1/machines" + ("?all=1" if with_gone else ""))

    def log(self, job):
        return self.api("GET", f"/v1/jobs/{job}/logs").body

    def wait_state(self, job, *states, seconds=90):
        final = {"succeeded", "failed", "cancelled"}

        def look():
            now = self.job(job)
            if now["state"] in states:
                return now
            if now["state"] in final:
                raise Failed(f"{job} is {now['state']} ({now['reason']}: {now.get('detail')}), expected {' or '.join(states)}; "
                             f"log: {self.log(job)[-500:]!r}")
            return None
        try:
            return wait_for(f"{job} to be {' or '.join(states)}", look, seconds)
        except Failed as failure:
            with contextlib.suppress(Exception):
                raise Failed(f"{failure}; job {self.job(job)}; attempts {self.attempts(job)}") from None
            raise

    def wait_step(self, job, step, seconds=90):
        """Until the job's own log has reached a step ("step N/")."""
        def look():
            steps = [int(part.split("/")[0]) for part in self.log(job).decode(errors="replace").split("step ")[1:]
                     if part.split("/")[0].isdigit()]
            return bool(steps) and max(steps) >= step
        wait_for(f"step {step} of {job}", look, seconds, 0.05)

    def wait_no_machines(self, seconds=60):
        wait_for("all machines to be gone", lambda: not self.machines(), seconds)

    # ---- the simulator ----

    def sim_ask(self, method, path, body=None):
        answer = ask(http.client.HTTPConnection("127.0.0.1", self.sim_ports["admin"], timeout=20), method, "/_sim" + path, body)
        check(answer.status < 300, f"simulator {method} {path}: {answer.status} {answer.body[:300]!r}")
        return answer.json if answer.body else None


def unmount_below(folder):
    """Simulated machines have mounts of their own; a killed simulator leaves them behind."""
    with contextlib.suppress(OSError):
        points = [line.split()[1] for line in open("/proc/mounts") if line.split()[1].startswith(str(folder))]
        for point in sorted(points, key=len, reverse=True):
            subprocess.run(["umount", "-l", point], stderr=subprocess.DEVNULL, check=False)


def out_of_time(signum, _frame):
    raise Failed(f"not over after {LIMIT_S} s" if signum == signal.SIGALRM else "ended from outside")


def run(name, test):
    """Runs one test and prints its one line."""
    signal.signal(signal.SIGALRM, out_of_time)
    signal.signal(signal.SIGTERM, out_of_time)
    signal.alarm(LIMIT_S)
    keep = os.environ.get("GPUFERRY_E2E_KEEP") == "1"
    for program in ("gpuferryd", "gpuferry", "gpuferry-agent", "gpuferry-sim"):
        if not (BIN / program).exists():
            print(f"FAIL {name}: {BIN / program} is not built")
            sys.exit(1)
    lab = Lab(name, keep)
    status = 1
    try:
        test(lab)
        line, status = f"ok {name}", 0
    except Skip as why:
        line, status = f"skip {name}: {why}", 77
    except Failed as why:
        line = f"FAIL {name}: {' '.join(str(why).split())[:1500]}"
    except Exception as error:  # a broken test is a failed test
        traceback.print_exc()
        line = f"FAIL {name}: {type(error).__name__}: {' '.join(str(error).split())[:500]}"
    signal.alarm(0)
    if status == 1:
        for log in ("daemon", "sim"):
            sys.stderr.write(f"---- {log} ----\n{lab.log_of(log, 6000)}\n")
        if keep:
            sys.stderr.write(f"---- kept: {lab.folder}\n")
    lab.close()
    print(line, flush=True)
    sys.exit(status)
