#!/usr/bin/env python3
"""Cancel while the create call is still out: it answers later with an id, and that machine is destroyed (field case E01)."""
import time

from harness import check, run, wait_for
from worlds import counter_spec, fault, rentals, wait_all_gone


def test(lab):
    lab.start_sim()
    fault(lab, "PUT", "/api/v0/asks/", provider="vastai", action="delay_after_effect", ms=4000, count=1)
    lab.write_config(runpod=False)
    lab.start_daemon()
    job = lab.submit(counter_spec(lab))
    wait_for("the create call to have had its effect", lambda: rentals(lab), 30, 0.05)
    time.sleep(0.2)
    answer = lab.api("POST", f"/v1/jobs/{job}/cancel")
    check(answer.status < 300, f"cancel: {answer.status} {answer.body!r}")
    check(answer.json["state"] in ("stopping", "cancelled"), f"after cancel: {answer.json}")
    lab.wait_state(job, "cancelled", seconds=60)
    wait_all_gone(lab)
    made = rentals(lab, alive=False)
    check(len(made) == 1, f"one create call makes one machine: {made}")
    check(len(lab.attempts(job)) <= 1, f"nothing is tried again after cancel: {lab.attempts(job)}")


run("cancel_provisioning", test)
