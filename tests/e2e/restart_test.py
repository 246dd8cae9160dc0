#!/usr/bin/env python3
"""The daemon is stopped, killed and started again, many times: the running job is not disturbed, its log has no hole."""
import re

from harness import check, run, wait_for
from worlds import check_result, counter_spec, rentals, wait_all_gone

TOTAL = 100


def test(lab):
    lab.start_sim()
    lab.write_config(runpod=False)
    lab.start_daemon()
    job = lab.submit(counter_spec(lab, TOTAL, 0.15, 5))
    follower = lab.start("follow", [lab_bin(), "logs", "--follow", job], {"GPUFERRY_URL": f"unix:{lab.socket}"})
    lab.wait_step(job, 5)
    before = [(m["id"], m["provider_id"], m["state"]) for m in lab.machines()]
    for turn in range(4):
        if turn % 2 == 0:
            lab.kill_daemon()
        else:
            lab.daemon.terminate()
            check(lab.daemon.wait(15) == 0, "the daemon did not stop cleanly on SIGTERM")
        lab.start_daemon()
        lab.wait_step(job, 10 + 10 * turn)
    check(lab.job(job)["attempts"] == 1, f"the job was started again: {lab.attempts(job)}")
    check([(m["id"], m["provider_id"], m["state"]) for m in lab.machines()] == before, f"machines changed: {before} {lab.machines()}")
    lab.wait_state(job, "succeeded", seconds=90)
    check(len(rentals(lab, alive=False)) == 1, "another machine was rented")
    log = lab.log(job)
    steps = [int(n) for n in re.findall(rb"step (\d+)/", log)]
    check(steps == list(range(1, TOTAL + 1)), f"the log has holes or repetitions: {steps}")
    wait_for("the follower to end", lambda: follower.poll() is not None, 30)
    check(follower.returncode == 0, f"logs --follow ended with {follower.returncode}: {lab.log_of('follow')}")
    followed = re.findall(r"step (\d+)/", lab.log_of("follow", 1 << 20))
    check([int(n) for n in followed] == steps, "what was followed over the restarts is not the log")
    check_result(lab, job, TOTAL)
    wait_all_gone(lab)


def lab_bin():
    from harness import BIN
    return BIN / "gpuferry"


run("restart", test)
