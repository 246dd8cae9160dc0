#!/usr/bin/env python3
"""A user's secret (field case I01): set by standard input and at a prompt without echo, sealed at rest, handed to its own job alone,
masked in the job's log also over two writes; a registry's password reaches the provider and nothing else; a restarted daemon opens
what it sealed; a copy of the database opens nothing. The bytes are looked for everywhere, plain and encoded."""
import base64
import hashlib
import os
import pty
import select
import shutil
import signal
import subprocess
import time

from harness import BIN, check, processes, run, wait_for
from secrecy import Search, api_answers, none
from worlds import rentals, wait_all_gone

TOKEN = "hf_E2E/" + os.urandom(12).hex()
TYPED = "typed-E2E+" + os.urandom(12).hex()
PASSWORD = "dckr_E2E/" + os.urandom(12).hex()

# What is printed, plain and in two writes; then it stands still, so that everything can be looked at.
SCRIPT = r"""
printf 'plain %s.\n' "$HF_TOKEN"
printf 'split %s' "${HF_TOKEN%????????????}"; sleep 0.5; printf '%s.\n' "${HF_TOKEN#???????????????????}"
printf 'on stderr %s.\n' "$TYPED" >&2
printf 'base64 '; printf %s "$HF_TOKEN" | base64 -w0; echo .
printf 'sha256 '; printf %s "$HF_TOKEN" | sha256sum
echo all printed
sleep 1000
"""
CHECKSUM = "printf %s \"$HF_TOKEN\" | sha256sum"


def spec(providers, run_, **more):
    resources = {"providers": providers}
    resources.update({"cpu_only": True} if providers == ["local"] else {"vram": "24GB", "disk": "20GB", "spot": "never"})
    return {"name": "with secrets", "run": run_, "resources": resources, **more}


def set_by_input(lab, name, value):
    ran = lab.cli("secret", "set", name, input=value.encode() + b"\n")
    check(ran.returncode == 0, f"secret set {name}: {ran.returncode} {ran.stderr.decode()}")
    check(value.encode() not in ran.stdout + ran.stderr, "secret set shows the value")


def set_at_prompt(lab, name, value):
    """On a terminal of its own; answers all that the terminal showed."""
    leader, follower = pty.openpty()
    process = subprocess.Popen([str(BIN / "gpuferry"), "secret", "set", name], stdin=follower, stdout=follower, stderr=follower,
                               env=lab.environment({"GPUFERRY_URL": f"unix:{lab.socket}"}), cwd=lab.folder, start_new_session=True)
    lab.started.append(process)
    os.close(follower)
    shown, typed, end = b"", False, time.monotonic() + 60
    while time.monotonic() < end:
        if select.select([leader], [], [], 0.2)[0]:
            try:
                piece = os.read(leader, 4096)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
        if not typed and b"not shown" in shown:
            os.write(leader, value.encode() + b"\n")
            typed = True
    os.close(leader)
    check(process.wait(30) == 0, f"secret set at a prompt: {process.returncode} {shown!r}")
    check(b"is stored" in shown, f"the prompt showed {shown!r}")
    return shown


def look(lab, when, search, jobs):
    """Nothing that the daemon, the agents and the simulator have left or say holds a value."""
    hits = search.below(lab.folder)
    for path, body in api_answers(lab, jobs).items():
        # A job that prints its secret as Base64 shows it so: only the plain value is masked.
        if not path.endswith("/logs"):
            hits += search.in_bytes(f"the answer of {path}", body)
    none([f"{when}: {hit}" for hit in hits if "/logs/" not in hit])


def test(lab):
    lab.start_sim()
    lab.write_config(local=True)
    lab.start_daemon()
    search = Search({"the token": TOKEN, "the typed one": TYPED, "the password": PASSWORD})

    missing = lab.api("POST", "/v1/jobs", spec(["vastai"], "true", secrets=["HF_TOKEN"]))
    check(missing.status == 422 and b"HF_TOKEN" in missing.body, f"an unknown secret: {missing.status} {missing.body!r}")
    set_by_input(lab, "HF_TOKEN", TOKEN)
    shown = set_at_prompt(lab, "TYPED", TYPED)
    check(TYPED.encode() not in shown, "what was typed at the prompt was shown")
    set_by_input(lab, "REGISTRY_TOKEN", PASSWORD)
    listed = lab.cli("secret", "list")
    check(listed.returncode == 0 and b"HF_TOKEN" in listed.stdout, f"secret list: {listed.stdout!r} {listed.stderr!r}")
    none(search.in_bytes("secret list", listed.stdout + listed.stderr))
    broken = lab.api("PUT", "/v1/secrets/HF_TOKEN", '{"value": "' + TOKEN, {"Content-Type": "application/json"})
    check(broken.status == 400, f"a broken body: {broken.status}")
    none(search.in_bytes("an error", broken.body))

    # ---- a job that prints it ----
    job = lab.submit(spec(["vastai"], SCRIPT, secrets=["HF_TOKEN", "TYPED"]))
    wait_for("the job to have printed", lambda: b"all printed" in lab.log(job), 150)
    log = lab.log(job)
    stars, typed_stars = b"*" * len(TOKEN), b"*" * len(TYPED)
    for line in (b"plain " + stars + b".", b"split " + stars + b".", b"on stderr " + typed_stars + b".",
                 b"base64 " + base64.b64encode(TOKEN.encode()) + b".", b"sha256 " + hashlib.sha256(TOKEN.encode()).hexdigest().encode()):
        check(line in log, f"the log lacks {line!r}: {log!r}")
    check(TOKEN.encode() not in log and TYPED.encode() not in log, "the log is not masked")

    # In the environment of the job's own processes, and of no other; in no command line.
    holders = 0
    for pid, (_, argv, environment) in processes().items():
        none(search.in_bytes(f"the command line of {pid}", "\0".join(argv).encode(errors="surrogateescape")))
        if TOKEN.encode() in environment:
            check(b"GPUFERRY_ATTEMPT=" in environment, f"{argv} has a secret of a job in its environment")
            holders += 1
    check(holders > 0, "the job's own processes were not seen: the search proves nothing")
    look(lab, "while the job runs", search, [job])
    check(search.in_file(lab.data_dir / "gpuferry.db") == [], "the database holds a value")
    check(b"gfs1:" in (lab.data_dir / "gpuferry.db").read_bytes() + (lab.data_dir / "gpuferry.db-wal").read_bytes(),
          "the sealed values are not where they were looked for")

    # ---- a private image ----
    private = lab.submit(spec(["runpod"], CHECKSUM, secrets=["HF_TOKEN"], image="ghcr.io/example/private:1",
                              image_auth={"username": "bot", "password": "REGISTRY_TOKEN"}))
    lab.wait_state(private, "succeeded", seconds=150)
    check(hashlib.sha256(TOKEN.encode()).hexdigest().encode() in lab.log(private), "the job had another value")
    rented = [m for m in rentals(lab, alive=False) if m["provider"] == "runpod"]
    check(len(rented) == 1, f"one machine was rented there, not {len(rented)}")
    explained = lab.get(f"/v1/jobs/{private}/explain")["decision"]
    check(explained["chosen"]["cloud"] == "secure", f"a job with secrets went to {explained['chosen']}")
    check(explained["refused"].get("host_not_verified", 0) > 0, f"no host was refused for the secret's sake: {explained['refused']}")
    look(lab, "after the private image", search, [job, private])

    # ---- a restarted daemon opens what it sealed; taken away, a secret is waited for ----
    check(lab.cli("cancel", job).returncode == 0, "cancel")
    lab.wait_state(job, "cancelled")
    wait_all_gone(lab)
    lab.kill_daemon()
    lab.start_daemon()
    again = lab.submit(spec(["local"], CHECKSUM, secrets=["HF_TOKEN"]))
    lab.wait_state(again, "succeeded")
    check(hashlib.sha256(TOKEN.encode()).hexdigest().encode() in lab.log(again), "after the restart the job had another value")

    # ---- a copied database ----
    lab.daemon.send_signal(signal.SIGTERM)
    check(lab.daemon.wait(30) == 0, "the daemon did not stop")
    copy = lab.folder / "copy"
    copy.mkdir(mode=0o700)
    for name in ("gpuferry.db", "gpuferry.db-wal"):
        if (lab.data_dir / name).exists():
            shutil.copy(lab.data_dir / name, copy / name)
    original, lab.data_dir, lab.socket = lab.data_dir, copy, str(copy / "gpuferry.sock")
    before = len(lab.log_of("daemon", 1 << 30))
    lab.write_config(vastai=False, runpod=False, local=True)
    lab.start_daemon()
    said = lab.log_of("daemon", 1 << 30)[before:]
    check("secret.unusable name=HF_TOKEN" in said and "another key" in said, f"the copy does not say what it cannot open: {said[-1500:]}")
    check({s["name"] for s in lab.items("/v1/secrets")} == {"HF_TOKEN", "REGISTRY_TOKEN", "TYPED"}, "the names are there")
    waiting = lab.submit(spec(["local"], CHECKSUM, secrets=["HF_TOKEN"]))
    wait_for("the job to wait for its secret", lambda: lab.job(waiting)["reason"] == "secret_missing", 60)
    check(lab.job(waiting)["attempts"] == 0, "something was begun for it")
    set_by_input(lab, "HF_TOKEN", "another-E2E-value")
    lab.wait_state(waiting, "succeeded")
    check(hashlib.sha256(b"another-E2E-value").hexdigest().encode() in lab.log(waiting), "the new value did not arrive")
    look(lab, "in the copy", search, [waiting])
    check(original.exists() and lab.cli("secret", "rm", "HF_TOKEN").returncode == 0, "secret rm")
    check(lab.api("GET", "/v1/secrets/HF_TOKEN").status == 404, "a removed secret is there")


run("secrets", test)
