#!/usr/bin/env python3
"""Ten thousand readers of a log come and go, and a provider refuses every call: no descriptor is left behind, the rest is
served meanwhile (K05)."""
import socket

from harness import SCALE, check, free_port, run, wait_for
from worlds import counter_spec

FOLLOWS = 10_000
AT_ONCE = 200


def follow(lab, path):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(30)
    s.connect(lab.socket)
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return s


def test(lab):
    dead = free_port()  # nobody listens there
    lab.write_config(local=True)
    config = lab.folder / "gpuferryd.yaml"
    text = config.read_text().replace("providers:\n", f"providers:\n  vastai: {{api_key: vast-e2e, api_url: 'http://127.0.0.1:{dead}'}}\n")
    config.write_text(text + f"timing: {{sweep: {max(1, int(SCALE / 10))}s, backoff_max: {max(1, int(SCALE / 10))}s}}\n")
    lab.start_daemon()
    spec = counter_spec(lab, 100_000, 0.5, 5)
    spec["resources"] = {"providers": ["local"], "cpu_only": True}
    job = lab.submit(spec)
    lab.wait_state(job, "running", seconds=60)

    before = lab.descriptors()
    opened = answered = 0
    while opened < FOLLOWS:
        sockets = [follow(lab, f"/v1/jobs/{job}/logs?follow=1") for _ in range(AT_ONCE)]
        opened += len(sockets)
        for s in sockets:
            answered += s.recv(15).startswith(b"HTTP/1.1 200")
        for s in sockets:
            s.close()
        check(lab.api("GET", "/healthz").status == 200, "the daemon does not answer any more")
    check(answered == FOLLOWS, f"{answered} of {FOLLOWS} followers were served")
    wait_for("the descriptors to be given back", lambda: lab.descriptors() <= before + 4, 60)
    vast = next(p for p in lab.items("/v1/providers") if p["name"] == "vastai")
    check(vast["health"] in ("degraded", "unknown"), f"a provider that refuses every call is shown as {vast}")
    check(lab.job(job)["state"] == "running", "the job was disturbed")
    lab.api("POST", f"/v1/jobs/{job}/cancel")
    lab.wait_state(job, "cancelled", seconds=60)


run("descriptors", test)
