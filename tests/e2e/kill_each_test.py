#!/usr/bin/env python3
"""kill -9 of the daemon, each process of the agent, and the job, each in the middle of one run."""
import os
import signal

from harness import check, run, wait_for
from worlds import check_bill, check_result, counter_spec, wait_all_gone

TOTAL = 200


def job_pid(lab):
    pids = [pid for pid, (_, argv, _) in lab.marked().items() if len(argv) > 1 and argv[1] == "counter.py"]
    return pids[0] if len(pids) == 1 else None


def agents(lab):
    """(supervisor, worker, keeper) of the one agent: both are the supervisor's children, the keeper holds the job."""
    table = lab.marked()
    ours = {pid: parent for pid, (parent, argv, _) in table.items() if argv and "gpuferry-agent" in argv[0]}
    supervisors = [pid for pid, parent in ours.items() if parent not in ours]
    keepers = [pid for pid in ours if any(parent == pid and argv[1:2] == ["counter.py"] for parent, argv, _ in table.values())]
    if len(supervisors) != 1 or len(keepers) != 1 or len(ours) != 3:
        return None
    worker = next(pid for pid in ours if pid not in (supervisors[0], keepers[0]))
    return supervisors[0], worker, keepers[0]


def running_after(lab, job, number):
    """Number of the first attempt after `number` that got to run; offers that were taken meanwhile cost numbers too."""
    later = [a["number"] for a in lab.attempts(job) if a["number"] > number and a.get("started_at")]
    return min(later) if later else None


def test(lab):
    lab.start_sim()
    lab.write_config(runpod=False)
    lab.start_daemon()
    job = lab.submit(counter_spec(lab, TOTAL, 0.15, 5, run=f"exec python3 counter.py {TOTAL} 0.15 5",
                                  retry={"user_error": 1, "host_fault": 5}))
    lab.wait_step(job, 10)

    # The daemon: the job must not notice.
    pid = wait_for("the job's process", lambda: job_pid(lab))
    lab.kill_daemon()
    check(job_pid(lab) == pid, "the job died with the daemon")
    lab.start_daemon()
    lab.wait_step(job, 25)
    check(job_pid(lab) == pid and lab.job(job)["attempts"] == 1, "the daemon's death disturbed the job")

    # The worker: it is started again, the job goes on in the same attempt.
    worker = wait_for("the agent's processes", lambda: agents(lab))[1]
    os.kill(worker, signal.SIGKILL)
    wait_for("another worker", lambda: (agents(lab) or (0, worker))[1] != worker)
    lab.wait_step(job, 40)
    check(job_pid(lab) == pid and lab.job(job)["attempts"] == 1, "the worker's death disturbed the job")

    # The job: signal 9 is the program's own end; the next attempt resumes.
    wait_for("a checkpoint", lambda: lab.checkpoints(job))
    os.kill(job_pid(lab), signal.SIGKILL)
    second_number = wait_for("another attempt that runs", lambda: running_after(lab, job, 1), 90)
    first = [a for a in lab.attempts(job) if a["number"] == 1][0]
    check(first["state"] == "ended" and first.get("exit_signal") == 9 and first["exit_code"] is None,
          f"attempt 1 should have ended by signal 9: {first}")
    check(first["reason"] == "user_error", f"a killed program is the user's: {first}")

    # The supervisor: its attempt ends as host_fault, everything it had started is gone with it.
    lab.wait_step(job, 60)
    second = wait_for("the second attempt's process", lambda: job_pid(lab))
    supervisor = wait_for("the agent's processes", lambda: agents(lab))[0]
    os.kill(supervisor, signal.SIGKILL)
    wait_for("the old job process to be gone", lambda: not os.path.exists(f"/proc/{second}") or job_pid(lab) != second, 20)
    third_number = wait_for("a third attempt that runs", lambda: running_after(lab, job, second_number), 120)
    second_row = [a for a in lab.attempts(job) if a["number"] == second_number][0]
    check(second_row["reason"] == "host_fault", f"the supervisor's death is a host fault: {second_row}")
    third = [a for a in lab.attempts(job) if a["number"] == third_number][0]
    check(third["start_generation"] > 0, f"the third run began from nothing: {third}")

    # The keeper, which stands between the agent and the job: also the agent's death, not the program's.
    lab.wait_step(job, 90)
    os.kill(wait_for("the agent's processes", lambda: agents(lab))[2], signal.SIGKILL)
    wait_for("a fourth attempt that runs", lambda: running_after(lab, job, third_number), 120)
    third = [a for a in lab.attempts(job) if a["number"] == third_number][0]
    check(third["reason"] == "host_fault", f"the keeper's death is a host fault: {third}")

    lab.wait_state(job, "succeeded", seconds=120)
    check_result(lab, job, TOTAL)
    wait_all_gone(lab)
    check_bill(lab)


run("kill_each", test)
