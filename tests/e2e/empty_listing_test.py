#!/usr/bin/env python3
"""The listing is empty for a while although the machine runs: no loss, no launch, the provider is not trusted (A05, P6)."""
from harness import check, run, wait_for
from worlds import check_result, clear_faults, counter_spec, fault, rentals, wait_all_gone

TOTAL = 400
LISTINGS = 20


def listings(lab):
    return sum(1 for e in lab.sim_ask("GET", "/log?limit=2000")["requests"]
               if e["method"] == "GET" and e["target"].startswith("/api/v1/instances"))


def test(lab):
    lab.start_sim()
    lab.write_config(runpod=False)
    lab.start_daemon()
    job = lab.submit(counter_spec(lab, TOTAL, 0.15, 5))
    lab.wait_step(job, 10)
    fault(lab, "GET", "^/api/v1/instances/?$", provider="vastai", action="empty_list")
    wait_for("the provider to be marked", lambda: [p for p in lab.items("/v1/providers")
                                                    if p["name"] == "vastai" and p["health"] == "listing_not_trusted"], 60)
    before = listings(lab)
    wait_for(f"{LISTINGS} further listings", lambda: listings(lab) >= before + LISTINGS, 60)
    check(len(rentals(lab, alive=False)) == 1, "a machine was launched because of an empty listing")
    job_now = lab.job(job)
    check(job_now["state"] == "running" and job_now["attempts"] == 1, f"the empty listing moved the job: {job_now}")
    told = [a for a in lab.items("/v1/alerts") if a["kind"] == "listing_not_trusted"]
    check(len(told) == 1, f"one alert, once: {told}")
    clear_faults(lab)
    wait_for("the provider to be trusted again", lambda: [p for p in lab.items("/v1/providers")
                                                          if p["name"] == "vastai" and p["health"] == "ok"], 60)
    lab.wait_state(job, "succeeded", seconds=180)
    check(lab.job(job)["attempts"] == 1, "the job was started again")
    check_result(lab, job, TOTAL)
    wait_all_gone(lab)


run("empty_listing", test)
