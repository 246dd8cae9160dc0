#!/usr/bin/env python3
"""The market takes the spot machine; the job goes on elsewhere from its checkpoint and ends with the same result."""
from harness import check, run, wait_for
from worlds import check_bill, check_result, counter_spec, rentals, take_back, wait_all_gone

TOTAL = 80


def test(lab):
    lab.start_sim()
    lab.write_config(runpod=False)
    lab.start_daemon()
    job = lab.submit(counter_spec(lab, TOTAL, 0.1, 5, resources={"spot": "always"}))
    lab.wait_step(job, 20)
    wait_for("a checkpoint", lambda: lab.checkpoints(job))
    alive = rentals(lab)
    check(len(alive) == 1, f"one machine for one job: {alive}")
    check(alive[0]["bid"], f"spot: always rented a machine at a fixed price: {alive[0]}")
    take_back(lab, alive[0])
    # An offer that another tenant took meanwhile may cost a number: what counts is the attempt that runs.
    again = wait_for("another attempt that runs", lambda: [a for a in lab.attempts(job) if a["number"] > 1 and a.get("started_at")], 120)[0]
    attempts = {a["number"]: a for a in lab.attempts(job)}
    check(attempts[1]["reason"] == "spot_lost", f"why the first attempt ended: {attempts[1]}")
    check(again["start_generation"] > 0, f"the second run began from nothing: {again}")
    check(attempts[1]["machine"] != again["machine"], "the same machine was used again")
    lab.wait_state(job, "succeeded", seconds=120)
    check(len([a for a in lab.attempts(job) if a.get("started_at")]) == 2, f"two runs were enough: {lab.attempts(job)}")
    check(b"resumed at " in lab.log(job), "the program did not see its checkpoint")
    check_result(lab, job, TOTAL)
    wait_all_gone(lab)
    check_bill(lab)

    # What lies in the store can be read back, and a rotten pack is found.
    whole = lab.cli("checkpoints", "verify", job)
    check(whole.returncode == 0, f"checkpoints verify: {whole.stdout.decode()} {whole.stderr.decode()}")
    for pack in (lab.data_dir / "checkpoints" / job).rglob("*.pack"):
        rotten = bytearray(pack.read_bytes())
        rotten[len(rotten) // 3] ^= 1
        pack.write_bytes(rotten)
    broken = lab.cli("checkpoints", "verify", job)
    check(broken.returncode == 1 and b"broken" in broken.stdout, f"rot was not found: {broken.stdout.decode()} {broken.stderr.decode()}")


run("spot_take_back", test)
