#!/usr/bin/env python3
"""The job of the end-to-end tests: a chain of hashes, one link per step, with a checkpoint after each few steps.

The last link depends on every step, so that a run that lost, repeated or mixed steps ends with another result.
Arguments: TOTAL steps, seconds per step, steps per checkpoint.
"""
import hashlib
import os
import pathlib
import sys
import time


def main():
    total, pause, every = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    checkpoints = pathlib.Path(os.environ.get("GPUFERRY_CHECKPOINT_DIR", "ckpt"))
    outputs = pathlib.Path(os.environ.get("GPUFERRY_OUTPUT_DIR", "out"))
    checkpoints.mkdir(parents=True, exist_ok=True)
    outputs.mkdir(parents=True, exist_ok=True)
    step, link = 0, "start"
    saved = checkpoints / "state"
    if saved.exists():
        step_text, link = saved.read_text().split()
        step = int(step_text)
        print(f"resumed at {step}, GPUFERRY_RESUME={os.environ.get('GPUFERRY_RESUME')}", flush=True)
    while step < total:
        step += 1
        link = hashlib.sha256(f"{link} {step}".encode()).hexdigest()
        print(f"step {step}/{total}", flush=True)
        if step % every == 0 or step == total:
            # A few hundred kilobytes that change, so that a checkpoint is more than one small file.
            (checkpoints / "weights.new").write_bytes(hashlib.sha256(link.encode()).digest() * 10_000)
            os.replace(checkpoints / "weights.new", checkpoints / "weights")
            (checkpoints / "state.new").write_text(f"{step} {link}")
            os.replace(checkpoints / "state.new", saved)
        time.sleep(pause)
    (outputs / "result").write_text(link + "\n")


def expected(total):
    link = "start"
    for step in range(1, total + 1):
        link = hashlib.sha256(f"{link} {step}".encode()).hexdigest()
    return link + "\n"


if __name__ == "__main__":
    main()
