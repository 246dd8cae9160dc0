#!/usr/bin/env python3
"""A whole job on Lambda, which bills by begun minutes: boot, work, a machine taken away, its end, and the bill."""
from harness import run
from worlds import whole_job_on_a_vm


def test(lab):
    whole_job_on_a_vm(lab, "lambda", 60)


run("lambda_job", test)
