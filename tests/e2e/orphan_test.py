#!/usr/bin/env python3
"""An empty store finds machines that carry our tag: they are reported, not destroyed, until told; others are never touched (E06)."""
import shutil
import time

from harness import SCALE, check, run, wait_for
from worlds import counter_spec, rent_by_hand, rentals, wait_all_gone


def test(lab):
    lab.start_sim()
    lab.write_config(runpod=False)
    lab.start_daemon()
    job = lab.submit(counter_spec(lab, 2000, 0.2, 10))
    lab.wait_step(job, 3)
    ours = rentals(lab)
    check(len(ours) == 1, f"one machine: {ours}")
    tag = lab.machines()[0]["tag"]
    install = tag.split("-")[1]
    other = "zzzzzzzz" if install != "zzzzzzzz" else "yyyyyyyy"
    strangers = {rent_by_hand(lab, f"gf-{other}-{tag.split('-')[2]}"), rent_by_hand(lab, "somebody's machine")}
    lab.kill_daemon()
    for name in ("gpuferry.db", "gpuferry.db-wal", "gpuferry.db-shm"):
        (lab.data_dir / name).unlink(missing_ok=True)
    shutil.rmtree(lab.data_dir / "logs", ignore_errors=True)
    lab.start_daemon()
    found = wait_for("the orphan to be reported", lambda: [a for a in lab.items("/v1/alerts") if a["kind"] == "orphan_found"], 60)
    check(any("/h" in a["text"] or "per hour" in a["text"] for a in found), f"the report says what it costs: {found}")
    time.sleep(150 / SCALE)  # some fifteen listings: enough to do harm
    check({r["id"] for r in rentals(lab)} == {ours[0]["id"], *strangers}, f"something was destroyed unasked: {rentals(lab)}")
    known = [m for m in lab.machines() if m["provider_id"] == ours[0]["id"]]
    check(len(known) == 1, f"the orphan is listed: {lab.machines()}")
    check(len(lab.machines()) == 1, f"machines of others are not ours: {lab.machines()}")
    ran = lab.cli("machines", "destroy", known[0]["id"])
    check(ran.returncode == 0, f"machines destroy: {ran.stderr.decode()}")
    wait_for("the orphan to be gone", lambda: {r["id"] for r in rentals(lab)} == strangers, 60)
    lab.wait_no_machines()
    check({r["id"] for r in rentals(lab)} == strangers, "machines without our tag were touched")


run("orphan", test)
