#!/usr/bin/env python3
"""Another process holds the store's write lock for 8 s while 200 jobs are submitted: each is stored or a retryable 503, none twice."""
import concurrent.futures
import sqlite3
import threading
import time

from harness import check, run, wait_for

JOBS = 200


def test(lab):
    lab.write_config(vastai=False, runpod=False, local=True)
    lab.start_daemon()
    spec = {"name": "locked", "run": "true", "resources": {"providers": ["runpod"], "vram": "24GB"}}
    held = threading.Event()
    release = threading.Event()

    def hold():
        other = sqlite3.connect(lab.data_dir / "gpuferry.db", isolation_level=None, timeout=20)
        other.execute("BEGIN IMMEDIATE")
        held.set()
        release.wait(8)
        other.execute("ROLLBACK")
        other.close()

    holder = threading.Thread(target=hold)
    holder.start()
    check(held.wait(20), "the lock could not be taken")

    def submit(n):
        for _ in range(60):
            answer = lab.api("POST", "/v1/jobs", {**spec, "name": f"locked-{n}"}, {"Idempotency-Key": f"key-{n}"}, timeout=60)
            if answer.status == 201:
                return answer.json["id"]
            check(answer.status == 503, f"a locked store answers {answer.status}: {answer.body[:300]!r}")
            check("Retry-After" in answer.headers, "503 without Retry-After")
            time.sleep(0.5)
        return None

    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        ids = list(pool.map(submit, range(JOBS)))
    release.set()
    holder.join()
    check(all(ids), "a submit was never taken")
    check(len(set(ids)) == JOBS, "two submits share a job")
    lab.kill_daemon()
    lab.start_daemon()
    known, cursor = [], ""
    while True:
        page = lab.get(f"/v1/jobs?limit=100&cursor={cursor}" if cursor else "/v1/jobs?limit=100")
        known += [job["id"] for job in page["items"]]
        cursor = page.get("next_cursor")
        if not cursor:
            break
    check(sorted(known) == sorted(ids), f"{len(known)} jobs are stored, {len(set(ids))} were acknowledged")
    wait_for("the daemon to be ready", lambda: lab.api("GET", "/readyz").status == 200 or None, 30)


run("store_locked", test)
