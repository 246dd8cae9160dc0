"""Looks for the bytes of keys and tokens where none may be: in files, environments, command lines and answers, plain and encoded."""
import base64
import os
import pathlib
import re
import stat
import urllib.parse

from harness import Failed, check

PIECE = 1 << 20
# Of a simulated machine's root: what the host lends it, and what is no file. All else is the machine's own.
LENT = {"proc", "sys", "usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}


def forms(secret):
    """The spellings of a secret: plain, URL-encoded, Base64 at each place that it can have in a longer text, hex, JSON."""
    plain = secret.encode()
    quoted = urllib.parse.quote(secret, safe="")
    found = {plain, quoted.encode(), re.sub(r"%[0-9A-F]{2}", lambda m: m.group().lower(), quoted).encode(), plain.hex().encode(),
             plain.hex().upper().encode(), secret.replace("/", "\\/").encode()}
    for shift in range(3):
        text = base64.b64encode(b"\0" * shift + plain).rstrip(b"=")
        # The first and last characters also hold bits of what stands beside the secret.
        inner = text[(0, 2, 3)[shift]:len(text) - (1 if (len(plain) + shift) % 3 else 0)]
        found |= {inner, inner.replace(b"+", b"-").replace(b"/", b"_")}
    check(min(map(len, found)) >= 12, "a marked secret is too short to be looked for")
    return found


class Search:
    """Needles by name, and where one of them was found."""

    def __init__(self, secrets):
        self.by_form = {form: name for name, secret in secrets.items() for form in forms(secret)}
        self.pattern = re.compile(b"|".join(re.escape(form) for form in sorted(self.by_form, key=len, reverse=True)))
        self.longest = max(map(len, self.by_form))
        self.files = self.looked = 0

    def in_bytes(self, where, data):
        self.looked += len(data)
        return [f"{self.by_form[found]} in {where}" for found in {m.group() for m in self.pattern.finditer(data)}]

    def in_file(self, path):
        hits, kept = [], b""
        try:
            with open(path, "rb") as file:
                self.files += 1
                while piece := file.read(PIECE):
                    hits += self.in_bytes(path, kept + piece)
                    kept = piece[-self.longest:]
        except OSError:
            pass  # gone meanwhile
        return sorted(set(hits))

    def below(self, folder, leave_out=()):
        """Every regular file below a folder, links not followed, and every name."""
        hits = []
        for place, folders, files in os.walk(folder):
            if pathlib.Path(place) == pathlib.Path(folder):
                folders[:] = [name for name in folders if name not in leave_out]
            for name in folders + files:
                hits += self.in_bytes(f"the name {place}/{name}", os.fsencode(name))
            for name in files:
                path = os.path.join(place, name)
                try:
                    regular = stat.S_ISREG(os.lstat(path).st_mode)
                except OSError:
                    continue
                if regular:
                    hits += self.in_file(path)
        return hits

    def in_processes(self, table):
        """Environment and command line of each."""
        hits = []
        for pid, (_, argv, environment) in table.items():
            shown = " ".join(argv)[:80]
            hits += self.in_bytes(f"the environment of {pid} ({shown})", environment)
            hits += self.in_bytes(f"the command line of {pid} ({shown})", "\0".join(argv).encode(errors="surrogateescape"))
        return hits

    def in_roots(self, table):
        """What the processes of each simulated machine have as their root, once per machine."""
        hits = []
        for pid in roots_of_their_own(table):
            hits += self.below(f"/proc/{pid}/root", LENT | {"dev"}) + self.below(f"/proc/{pid}/root/dev/shm")
        return hits


def roots_of_their_own(table):
    """The oldest process of each root that is not this one's: a simulated machine's first."""
    found = {}
    here = os.stat("/")
    for pid in sorted(table):
        try:
            root = os.stat(f"/proc/{pid}/root/")
        except OSError:
            continue
        if (root.st_dev, root.st_ino) != (here.st_dev, here.st_ino):
            found.setdefault((root.st_dev, root.st_ino), pid)
    return list(found.values())


def children_of(lab):
    """All processes of the lab but the daemon, the simulator and those that the test itself says hold a key by right."""
    own = {lab.daemon.pid, lab.sim.pid}
    return {pid: entry for pid, entry in lab.marked().items() if pid not in own}


def api_answers(lab, jobs):
    """What the REST face tells, by path."""
    paths = ["/v1/jobs", "/v1/machines?all=1", "/v1/providers", "/v1/alerts?all=1", "/v1/offers", "/v1/cost", "/v1/secrets", "/metrics",
             "/readyz"]
    for job in jobs:
        paths += [f"/v1/jobs/{job}{part}" for part in ("", "/attempts", "/events", "/explain", "/checkpoints", "/cost", "/logs")]
    answers = {path: lab.api("GET", path).body for path in paths}
    answers["/v1/providers/check"] = lab.api("POST", "/v1/providers/check", {}, timeout=90).body
    return answers


def none(hits):
    if hits:
        raise Failed(f"{len(hits)} places: " + "; ".join(hits[:6]))


__all__ = ["Search", "api_answers", "children_of", "none", "roots_of_their_own"]
