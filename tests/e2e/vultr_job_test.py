#!/usr/bin/env python3
"""A whole job on Vultr, which bills by begun hours, one at least: boot, work, a machine taken away, its end, and the bill."""
from harness import run
from worlds import whole_job_on_a_vm


def test(lab):
    whole_job_on_a_vm(lab, "vultr", 3600)


run("vultr_job", test)
