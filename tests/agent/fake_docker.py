#!/usr/bin/env python3
"""A docker for the agent's tests: records what it is told, plays pulls from a script, and really runs what is to run.

As with docker there are two of it. `fake_docker.py serve FOLDER` is the engine: a container is its child, in a PID namespace of
its own, and outlives the client that ordered it. Under the name `docker` in FOLDER/bin it is the client, which hands its arguments
and its output over to the engine and exits with the engine's answer. In FOLDER:

  calls.jsonl   one line a call: {"argv": [...], "stdin": "..."}
  answers/VERB  lines {"say": "...", "code": 1}: each call of the verb takes the first one; without any it works
  images        one name a line: what need not be pulled
  arch          the images' architecture, else amd64
  containers    now there, one name a line
  entrypoint    the images', as JSON; else one that sets FROM_ENTRYPOINT
  linger        for how many seconds the engine is busy with a container's end before the client hears of it
  stuck         if it is there, no container is removed by its name
  denied        if it is there, clients that are not root are turned away; FOLDER/bin/sudo helps them
  oom           if it is there, every container that ended was killed for memory
  ready         there once the engine answers
Standard library only."""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

VALUED = {"--name", "--label", "--pull", "--log-driver", "--network", "--shm-size", "--ipc", "--ulimit", "--gpus", "--user",
          "--workdir", "--env", "--volume", "--entrypoint", "--device", "--username", "--filter", "--format", "--authfile"}


def split(words):
    """Options (a list per name) and the rest, as docker's own flags work: the first word that is none ends them."""
    options, at = {}, 0
    while at < len(words) and words[at].startswith("-"):
        name, _, value = words[at].partition("=")
        if name in VALUED and "=" not in words[at]:
            at += 1
            value = words[at]
        options.setdefault(name, []).append(value)
        at += 1
    return options, words[at:]


class Engine:
    def __init__(self, folder):
        self.folder = folder
        self.lock = threading.Lock()
        self.containers = {}  # name -> {"id", "labels", "process"}
        self.ids = 0

    def read(self, name):
        path = self.folder / name
        return path.read_text() if path.exists() else ""

    def scripted(self, verb):
        path = self.folder / "answers" / verb
        if not path.exists():
            return None
        first, _, rest = path.read_text().partition("\n")
        path.write_text(rest) if rest else path.unlink()
        return json.loads(first)

    def tell_containers(self):
        (self.folder / "containers").write_text("".join(name + "\n" for name in sorted(self.containers)))

    def call(self, argv, stdin, outputs):
        config, words = None, list(argv)
        if words[:1] == ["--config"]:
            config, words = words[1], words[2:]
        verb, words = words[0], words[1:]
        if verb == "--as-root":
            return subprocess.run(words, input=stdin.encode(), stdout=outputs[1], stderr=outputs[2]).returncode
        if verb == "image":
            verb, words = "image-" + words[0], words[1:]
        with self.lock:
            with open(self.folder / "calls.jsonl", "a") as log:
                log.write(json.dumps({"argv": argv, "stdin": stdin}) + "\n")
            answer = self.scripted(verb)
        options, rest = split(words)
        if answer is None:
            return getattr(self, "do_" + verb.replace("-", "_"))(options, rest, config, outputs)
        os.write(outputs[1 if answer["code"] == 0 else 2], (answer["say"] + "\n").encode())
        return answer["code"]

    def do_ps(self, options, rest, config, outputs):
        wanted = [f.removeprefix("label=") for f in options.get("--filter", [])]
        with self.lock:
            for one in self.containers.values():
                if all(w in one["labels"] for w in wanted):
                    os.write(outputs[1], (one["id"] + "\n").encode())
        return 0

    def do_login(self, options, rest, config, outputs):
        pathlib.Path(config, "config.json").write_text(json.dumps({"auths": {rest[0]: {"auth": "kept-by-docker"}}}))
        os.write(outputs[1], b"Login Succeeded\n")
        return 0

    def do_image_inspect(self, options, rest, config, outputs):
        if rest[0] not in self.read("images").split("\n"):
            os.write(outputs[2], f"Error response from daemon: No such image: {rest[0]}\n".encode())
            return 1
        arch = self.read("arch").strip() or "amd64"
        entrypoint = self.read("entrypoint").strip() or '["/usr/bin/env","FROM_ENTRYPOINT=yes"]'
        os.write(outputs[1], f"{arch} {entrypoint}\n".encode())
        return 0

    def do_pull(self, options, rest, config, outputs):
        layers = ["4f4fb700ef54", "0a1b2c3d4e5f"]
        lines = [f"latest: Pulling from {rest[0]}"] + [f"{l}: Pulling fs layer" for l in layers]
        lines += [f"{l}: {s}" for l in layers for s in ("Verifying Checksum", "Download complete", "Pull complete")]
        os.write(outputs[1], ("\n".join(lines) + "\n").encode())
        with self.lock, open(self.folder / "images", "a") as images:
            images.write(rest[0] + "\n")
        return 0

    def do_run(self, options, rest, config, outputs):
        name = options.get("--name", ["unnamed"])[0]
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin:/image/bin", "HOME": "/root", "OF_IMAGE": "yes"}
        env.update(e.split("=", 1) for e in options.get("--env", []))
        command = options["--entrypoint"] + rest[1:]
        if os.geteuid() == 0:
            command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *command]
        process = subprocess.Popen(command, env=env, cwd=options.get("--workdir", ["/"])[0], stdin=subprocess.DEVNULL,
                                   stdout=outputs[1], stderr=outputs[2], start_new_session=True)
        with self.lock:
            self.ids += 1
            self.containers[name] = {"id": f"{self.ids:012x}", "labels": options.get("--label", []), "process": process}
            self.tell_containers()
        code = process.wait()
        time.sleep(float(self.read("linger") or 0))
        if "--rm" in options:
            self.forget(name)
        return code if code >= 0 else 128 - code

    def do_rm(self, options, rest, config, outputs):
        with self.lock:
            stuck = (self.folder / "stuck").exists()
            names = [n for n, c in self.containers.items() if c["id"] in rest or (n in rest and not stuck)]
        for name in names:
            self.containers[name]["process"].kill()
            self.containers[name]["process"].wait()
            self.forget(name)
        return 0

    def do_inspect(self, options, rest, config, outputs):
        os.write(outputs[1], b"true\n" if (self.folder / "oom").exists() else b"false\n")
        return 0

    def forget(self, name):
        with self.lock:
            self.containers.pop(name, None)
            self.tell_containers()

    def end(self, *_):
        for one in list(self.containers.values()):
            one["process"].kill()
        os._exit(0)

    def serve(self):
        signal.signal(signal.SIGTERM, self.end)
        door = socket.socket(socket.AF_UNIX)
        door.bind(str(self.folder / "engine.sock"))
        door.listen(64)
        os.chmod(self.folder / "engine.sock", 0o777)
        (self.folder / "ready").touch()
        while True:
            caller, _ = door.accept()
            threading.Thread(target=self.answer, args=(caller,), daemon=True).start()

    def answer(self, caller):
        with caller:
            message, fds, _, _ = socket.recv_fds(caller, 1 << 20, 2)
            told = json.loads(message)
            code = 1
            try:
                code = self.call(told["argv"], told["stdin"], [None, *fds])
            finally:
                for fd in fds:
                    os.close(fd)
                try:
                    caller.sendall(str(code).encode())
                except OSError:
                    pass  # the client was killed


def client(folder, argv):
    if os.geteuid() != 0 and argv[0] != "--as-root" and (folder / "denied").exists():
        sys.exit("permission denied while trying to connect to the Docker daemon socket")
    stdin = sys.stdin.read() if "--password-stdin" in argv else ""
    with socket.socket(socket.AF_UNIX) as engine:
        engine.connect(str(folder / "engine.sock"))
        socket.send_fds(engine, [json.dumps({"argv": argv, "stdin": stdin}).encode()], [1, 2])
        for fd in (1, 2):
            os.close(fd)
        answer = engine.recv(16)
    os._exit(int(answer) if answer else 1)


if len(sys.argv) == 3 and sys.argv[1] == "serve":
    Engine(pathlib.Path(sys.argv[2])).serve()
myself = pathlib.Path(sys.argv[0]).absolute()
client(myself.parent.parent, ["--as-root", *sys.argv[2:]] if myself.name == "sudo" else sys.argv[1:])
