#!/usr/bin/env python3
"""The daemon's disk fills up: submits are refused with 507 or 503, nothing acknowledged is lost, it recovers by itself."""
import os
import subprocess

from harness import Skip, check, run, wait_for
from worlds import counter_spec


def test(lab):
    if os.geteuid() != 0:
        raise Skip("a small file system needs root")
    lab.data_dir.mkdir(mode=0o700)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400m,mode=700", "tmpfs", str(lab.data_dir)], check=False).returncode != 0:
        raise Skip("no tmpfs can be mounted here")
    try:
        lab.write_config()
        lab.start_daemon()
        spec = counter_spec(lab, code=None, run="true", checkpoint=None, outputs=None)
        spec["resources"] = {"providers": ["runpod"], "vram": "24GB"}  # waits: no such provider has a key
        kept = [lab.submit(spec) for _ in range(3)]
        filler = lab.data_dir / "filler"
        with open(filler, "wb", buffering=0) as f:
            try:
                while True:
                    f.write(b"\0" * (1 << 20))
            except OSError:
                pass

        def refused():
            answer = lab.api("POST", "/v1/jobs", spec)
            if answer.status == 201:
                kept.append(answer.json["id"])
                return None
            check(answer.status in (503, 507), f"a full disk answers {answer.status}: {answer.body[:300]!r}")
            check("Retry-After" in answer.headers, "no Retry-After")
            return answer
        wait_for("a submit to be refused", refused, 30)
        check(lab.daemon.poll() is None, "the daemon ended")
        for job in kept:
            check(lab.job(job)["state"] == "queued", f"{job} was acknowledged and is lost")
        filler.unlink()

        def accepted():
            answer = lab.api("POST", "/v1/jobs", spec)
            return answer.json["id"] if answer.status == 201 else None
        kept.append(wait_for("a submit to be accepted again", accepted, 60))
        lab.kill_daemon()
        lab.start_daemon()
        check({j["id"] for j in lab.items("/v1/jobs")} >= set(kept), "an acknowledged job is lost")
    finally:
        if lab.daemon and lab.daemon.poll() is None:
            lab.kill_daemon()
        subprocess.run(["umount", "-l", str(lab.data_dir)], check=False)


run("disk_full", test)
