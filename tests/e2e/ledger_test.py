#!/usr/bin/env python3
"""Several jobs on both providers, one of them moved and one cancelled: the ledger equals the providers' own bill (P4)."""
from harness import check, run, wait_for
from worlds import check_bill, counter_spec, dollars, rentals, take_back, wait_all_gone


def test(lab):
    lab.start_sim()
    lab.write_config()
    lab.start_daemon()
    plain = lab.submit(counter_spec(lab, 40, 0.1, 5, name="on runpod", resources={"providers": ["runpod"], "disk": "100GB"}))
    moved = lab.submit(counter_spec(lab, 80, 0.1, 5, name="moved", resources={"spot": "always"}))
    ended = lab.submit(counter_spec(lab, 4000, 0.1, 5, name="cancelled"))
    lab.wait_step(moved, 20)
    machine = wait_for("its machine", lambda: [m for m in lab.machines() if m["job"] == moved and m["provider_id"]])[0]
    take_back(lab, [r for r in rentals(lab) if r["id"] == machine["provider_id"]][0])
    lab.wait_step(ended, 5)
    check(lab.cli("cancel", ended).returncode == 0, "cancel")
    for job, state in ((plain, "succeeded"), (moved, "succeeded"), (ended, "cancelled")):
        lab.wait_state(job, state, seconds=150)
    wait_all_gone(lab)
    ours, _ = check_bill(lab)
    parts = sum(dollars(lab.get(f"/v1/jobs/{job}/cost")["total"]) for job in (plain, moved, ended))
    check(abs(parts - ours) < 0.00001, f"the jobs add up to {parts:.6f}, the account says {ours:.6f}")
    for line in lab.get(f"/v1/jobs/{plain}/cost")["lines"]:
        check(dollars(line["disk_rate"] or 0) > 0, f"the disk is not in the bill: {line}")


run("ledger", test)
