#!/usr/bin/env python3
"""A job on this machine, over the unix socket: no cloud, no GPU, its code, checkpoint, output, exit code; TCP jobs may not."""
import http.client
import os

from harness import ask, check, run, wait_for
from worlds import check_result, counter_spec

TOTAL = 30


def local(lab, **over):
    spec = counter_spec(lab, TOTAL, 0.05, 5, **over)
    spec["resources"] = {"providers": ["local"], "cpu_only": True}
    return spec


def test(lab):
    lab.write_config(local=True)
    lab.start_daemon()
    job = lab.submit(local(lab))
    lab.wait_state(job, "succeeded", seconds=60)
    check_result(lab, job, TOTAL)
    check(lab.checkpoints(job), "no checkpoint was committed")
    check(lab.log(job).count(b"step ") == TOTAL, f"the log is not whole: {lab.log(job)[-300:]!r}")
    cost = lab.get(f"/v1/jobs/{job}/cost")
    check(float(cost["total"].lstrip("$")) == 0.0 and cost["at_least"] is False, f"this machine costs nothing: {cost}")

    failing = lab.folder / "failing.yaml"
    failing.write_text("name: failing\nrun: echo to stdout; echo to stderr >&2; exit 7\n"
                       "resources: {providers: [local], cpu_only: true}\n")
    ran = lab.cli("submit", "--wait", failing)
    check(ran.returncode == 7, f"submit --wait of exit 7 ended with {ran.returncode}: {ran.stderr.decode()}")
    killed = lab.folder / "killed.yaml"
    killed.write_text("name: killed\nrun: kill -TERM $$\nresources: {providers: [local], cpu_only: true}\n")
    ran = lab.cli("submit", "--wait", killed)
    check(ran.returncode == 143, f"submit --wait of a job ended by SIGTERM ended with {ran.returncode}: {ran.stderr.decode()}")

    # Everything that a code folder may hold arrives as it was: long names, links, a program, names that are no UTF-8.
    code = lab.folder / "odd"
    deep = code / ("a" * 90) / ("b" * 90) / ("c" * 90)
    deep.mkdir(parents=True)
    (deep / "leaf").write_text("deep")
    (code / "link").symlink_to("run.sh")
    (code / "out-of-here").symlink_to("/etc/passwd")
    (code / os.fsdecode(b"raw-\xff\xfe")).write_text("raw")
    (code / "run.sh").write_text("#!/bin/sh\nset -e\n[ \"$(cat a*/b*/c*/leaf)\" = deep ]\n[ \"$(readlink link)\" = run.sh ]\n"
                                 "[ ! -e out-of-here ]\n[ \"$(cat raw-*)\" = raw ]\necho as it was\n")
    (code / "run.sh").chmod(0o755)
    odd = lab.folder / "odd.yaml"
    odd.write_text("name: odd\ncode: odd\nrun: ./run.sh\nresources: {providers: [local], cpu_only: true}\n")
    ran = lab.cli("submit", "--wait", odd)
    check(ran.returncode == 0, f"the code folder did not arrive as it was: {ran.stdout.decode()} {ran.stderr.decode()}")
    check(b"left out out-of-here" in ran.stderr, f"a link that leads out is told: {ran.stderr.decode()}")

    # A token's job may wait for a cloud, but never runs with the daemon's own rights.
    made = lab.cli("token", "create", "ci", "--role", "submitter")
    check(made.returncode == 0, f"token create: {made.stderr.decode()}")
    token = made.stdout.decode().strip()
    by_tcp = ask(http.client.HTTPConnection("127.0.0.1", lab.ports["api"], timeout=20), "POST", "/v1/jobs",
                 {"name": "foreign", "run": "true", "resources": {"providers": ["local"], "cpu_only": True}},
                 {"Authorization": f"Bearer {token}"})
    if by_tcp.status == 201:
        foreign = by_tcp.json["id"]
        explained = wait_for("a decision about it", lambda: lab.get(f"/v1/jobs/{foreign}/explain").get("decision"), 30)
        check(not explained.get("chosen"), f"a job of a token was given this machine: {explained}")
        check(lab.job(foreign)["attempts"] == 0, "a job of a token ran on this machine")
    else:
        check(by_tcp.status in (403, 422), f"by TCP: {by_tcp.status} {by_tcp.body!r}")
    no_token = ask(http.client.HTTPConnection("127.0.0.1", lab.ports["api"], timeout=20), "GET", "/v1/jobs")
    check(no_token.status == 401, f"without a token: {no_token.status}")

    # Nothing of a finished job is left running.
    wait_for("the machines to be given back", lambda: not lab.machines() or None, 60)
    left = [argv for _, argv, _ in lab.marked().values() if argv and "counter.py" in " ".join(argv)]
    check(not left, f"processes of a finished job: {left}")


run("local_job", test)
