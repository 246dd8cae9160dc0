#!/usr/bin/env python3
"""The job of the end-to-end tests: a chain of hashes, one link per step, with a checkpoint after each few steps.

The last link depends on every step, so that a run that lost, repeated or mixed steps ends with another result.
Arguments: TOTAL steps, seconds per step, steps per checkpoint.
"""
import hashlib
import os
import pathlib
import shutil
import sys
import time


def save(checkpoints, step, link):
    """A folder that appears whole under its name; the two newest stay."""
    writing = checkpoints / "writing.tmp"
    shutil.rmtree(writing, ignore_errors=True)
    writing.mkdir()
    # A few hundred kilobytes that change, so that a checkpoint is more than one small file.
    (writing / "weights").write_bytes(hashlib.sha256(link.encode()).digest() * 10_000)
    (writing / "state").write_text(f"{step} {link}")
    (writing / "complete").touch()
    final = checkpoints / f"step-{step:06d}"
    shutil.rmtree(final, ignore_errors=True)
    writing.rename(final)
    for old in sorted(checkpoints.glob("step-*"))[:-2]:
        shutil.rmtree(old)


def main():
    total, pause, every = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    checkpoints = pathlib.Path(os.environ.get("GPUFERRY_CHECKPOINT_DIR", "ckpt"))
    outputs = pathlib.Path(os.environ.get("GPUFERRY_OUTPUT_DIR", "out"))
    checkpoints.mkdir(parents=True, exist_ok=True)
    outputs.mkdir(parents=True, exist_ok=True)
    step, link = 0, "start"
    whole = sorted(checkpoints.glob("step-*/complete"))
    if whole:
        step_text, link = (whole[-1].parent / "state").read_text().split()
        step = int(step_text)
        print(f"resumed at {step}, GPUFERRY_RESUME={os.environ.get('GPUFERRY_RESUME')}", flush=True)
    while step < total:
        step += 1
        link = hashlib.sha256(f"{link} {step}".encode()).hexdigest()
        print(f"step {step}/{total}", flush=True)
        if step % every == 0 or step == total:
            save(checkpoints, step, link)
        time.sleep(pause)
    (outputs / "result").write_text(link + "\n")


def expected(total):
    link = "start"
    for step in range(1, total + 1):
        link = hashlib.sha256(f"{link} {step}".encode()).hexdigest()
    return link + "\n"


if __name__ == "__main__":
    main()
