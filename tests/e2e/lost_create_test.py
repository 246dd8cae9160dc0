#!/usr/bin/env python3
"""Create answers 502 although the machine was made: exactly one machine works for the job (field case A02)."""
from harness import check, run, wait_for
from worlds import check_bill, check_result, counter_spec, fault, rentals, wait_all_gone

TOTAL = 30


def test(lab):
    lab.start_sim()
    fault(lab, "PUT", "/api/v0/asks/", provider="vastai", action="error_after_effect", status=502, count=1)
    lab.write_config(runpod=False, more="timing: {settle: 20s, settle_alone: 30s}\n")
    lab.start_daemon()
    job = lab.submit(counter_spec(lab, TOTAL, 0.1, 5))
    most = 0

    def look():
        nonlocal most
        most = max(most, len(rentals(lab)))
        return lab.job(job)["state"] == "succeeded"
    wait_for("the job to succeed", look, 120)
    check(most == 1, f"{most} machines were alive at one time for one job")
    check_result(lab, job, TOTAL)
    wait_all_gone(lab)
    check_bill(lab)


run("lost_create", test)
