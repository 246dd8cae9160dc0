#!/usr/bin/env python3
"""No account key is in any file, environment, command line, log, answer or error on a simulated machine or beside it, and no secret and
no enrol token where it does not belong. Jobs run on every cloud that the simulator plays; the bytes are looked for while they run and
afterwards. First the search itself is shown to find what was planted."""
import base64
import contextlib
import os
import subprocess
import sys
import urllib.parse

from harness import check, run, wait_for
from secrecy import Search, api_answers, children_of, none, roots_of_their_own
from worlds import clear_faults, counter_spec, fault, rentals, wait_all_gone

# With characters that look otherwise in a URL and in Base64.
KEYS = {"runpod": "rpa_E2E/Account+Key=5c1f77", "vastai": "vast-E2E/Account+Key=9d02b3", "lambda": "secret_E2E/Account+Key_40aa1e",
        "vultr": "VULTR-E2E/Account+Key-77e0c4"}
VARIABLES = {"runpod": "RUNPOD_API_KEY", "vastai": "VAST_API_KEY", "lambda": "LAMBDA_API_KEY", "vultr": "VULTR_API_KEY"}
USER_SECRET = "hf_E2E/Marked+Secret=b81c92"


def prove(lab, search):
    """A search that finds nothing must be one that would have."""
    key = KEYS["vastai"].encode()
    quoted = urllib.parse.quote(KEYS["vastai"], safe="")
    encoded = {"plain": key, "url": quoted.encode(), "hex": key.hex().encode(),
               "url in lower case": quoted.replace("%2F", "%2f").replace("%2B", "%2b").replace("%3D", "%3d").encode()}
    for shift in range(3):
        encoded[f"base64 at {shift}"] = base64.b64encode(b"xyz"[:shift] + key + b"tail")
    planted = lab.folder / "machines" / "planted"
    planted.mkdir(parents=True, exist_ok=True)
    for name, text in encoded.items():
        path = planted / "file"
        path.write_bytes(b"a" * ((1 << 20) - 7) + text + b"b" * 50)  # over the border of two pieces
        check(search.below(lab.folder / "machines"), f"a planted key ({name}) was not found in a file")
        path.unlink()
    planted.rmdir()
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE,
                             env=lab.environment({"PLANTED": KEYS["vastai"]}))
    try:
        check(wait_for("the planted process to be found", lambda: search.in_processes(children_of(lab)), 20), "not found")
    finally:
        child.stdin.close()
        child.wait()
    check(search.in_bytes("an answer", b'{"detail":"' + encoded["url"] + b'"}'), "a planted key was not found in an answer")
    check(not search.in_bytes("nothing", b"rpa_E2E and vast-E2E alone"), "the search finds what is not there")


def prove_in_machines(lab, search, clouds):
    """The same inside the machines: a key in a file of each one's own root is found. Without namespaces there are no such roots."""
    own = roots_of_their_own(children_of(lab))
    if lab.sim_ask("GET", "/state")["isolation"] == "none":
        return
    check(len(own) >= len(clouds), f"{len(own)} roots of machines, of {len(clouds)}")
    planted = []
    for pid in own:
        path = f"/proc/{pid}/root/tmp/planted"
        with open(path, "wb") as file:
            file.write(b"key: " + base64.b64encode(KEYS["runpod"].encode()))
        planted.append(path)
    hits = {hit for hit in search.in_roots(children_of(lab)) if hit.endswith("/tmp/planted")}
    for path in planted:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    check(len(hits) >= len(clouds), f"planted keys were found in {len(hits)} machines only, of {len(clouds)}")


def enrol_tokens(lab):
    """Tag of each simulated machine -> the token in its environment."""
    found = {}
    for machine in lab.sim_ask("GET", "/state")["machines"]:
        environment = dict(machine["env"])
        if environment.get("GPUFERRY_ENROL"):
            found[machine["id"]] = environment["GPUFERRY_ENROL"]
    return found


def look(lab, jobs, when):
    """One search over everything."""
    accounts = Search({f"the {name} key": key for name, key in KEYS.items()})
    table = children_of(lab)
    check(len(table) >= 1 or when != "while the jobs run", "there are no processes to look at")
    hits = accounts.in_processes(table) + accounts.in_roots(table) + accounts.below(lab.folder / "machines")
    hits += accounts.below(lab.data_dir) + accounts.in_file(lab.folder / "daemon.log") + accounts.in_file(lab.folder / "gpuferryd.yaml")
    answers = api_answers(lab, jobs)
    for path, body in answers.items():
        hits += accounts.in_bytes(f"the answer of {path}", body)
    none([f"{when}: {hit}" for hit in hits])
    check(accounts.files > 20 and accounts.looked > 1 << 20, f"looked at {accounts.files} files and {accounts.looked} bytes only")

    # A user's secret may be in its own job's environment alone; an enrol token on its own machine alone.
    tokens = enrol_tokens(lab)
    private = Search({"the user's secret": USER_SECRET, **{f"the enrol token of {m}": t for m, t in tokens.items()}})
    hits = private.below(lab.data_dir, leave_out=("agents",)) + private.in_file(lab.folder / "daemon.log")
    for path, body in answers.items():
        hits += private.in_bytes(f"the answer of {path}", body)
    for pid, (_, argv, _) in table.items():
        hits += private.in_bytes(f"the command line of {pid}", "\0".join(argv).encode(errors="surrogateescape"))
    none([f"{when}: {hit}" for hit in hits])
    return accounts.files


def test(lab):
    clouds = ["runpod", "vastai"]
    lab.start_sim("--runpod-key", KEYS["runpod"], "--vastai-key", KEYS["vastai"], *sum((
        [f"--{name}-key", KEYS[name]] for name in ("lambda", "vultr") if lab.sim_plays(name)), []))
    clouds += [name for name in ("lambda", "vultr") if name in lab.sim_ports]
    lab.write_config(more_clouds=clouds[2:])
    config = (lab.folder / "gpuferryd.yaml").read_text()
    for name in clouds:
        check(f"api_key: {lab.key_of(name)}" in config, f"no key of {name} in the configuration")
        config = config.replace(f"api_key: {lab.key_of(name)}", f"api_key: env:{VARIABLES[name]}")
    (lab.folder / "gpuferryd.yaml").write_text(config)
    # In the daemon's environment, where children would have it from if it were handed on.
    lab.start_daemon(extra={VARIABLES[name]: KEYS[name] for name in clouds})
    prove(lab, Search({f"the {name} key": key for name, key in KEYS.items()}))

    put = lab.api("PUT", "/v1/secrets/MARKED", {"value": USER_SECRET})
    check(put.status in (200, 201, 204), f"the secret: {put.status} {put.body!r}")
    jobs = {}
    for name in clouds:
        # The job prints its environment's names and a secret of its own: what it prints is masked on the way.
        jobs[name] = lab.submit(counter_spec(
            lab, 150, 0.1, 5, name=f"on {name}", secrets=["MARKED"], secrets_on="any",
            run='env | cut -d= -f1 | sort; echo "the secret is $MARKED"; python3 counter.py 150 0.1 5',
            resources={"providers": [name]}))
    for job in jobs.values():
        lab.wait_step(job, 6, seconds=150)
    prove_in_machines(lab, Search({f"the {name} key": key for name, key in KEYS.items()}), clouds)
    look(lab, jobs.values(), "while the jobs run")

    # Errors of the providers that show what they were sent.
    for name in clouds:
        body = f"refused: {KEYS[name]} Authorization: Bearer {KEYS[name]} ?api_key={urllib.parse.quote(KEYS[name], safe='')}"
        fault(lab, "GET", ".*", provider=name, action="status", status=500, body=body, count=4)
    for job in jobs.values():
        lab.wait_step(job, 20, seconds=150)
    look(lab, jobs.values(), "after errors that show the key")
    clear_faults(lab)
    for name, job in jobs.items():
        lab.wait_state(job, "succeeded", seconds=150)
        log = lab.log(job)
        check(b"the secret is" in log and USER_SECRET.encode() not in log, f"the log on {name} is not masked: {log[:300]!r}")
    wait_all_gone(lab, 120)
    check(not rentals(lab), "machines are left")
    look(lab, jobs.values(), "after the jobs")


run("account_keys", test)
