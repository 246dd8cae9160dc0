#!/usr/bin/env python3
"""A real training program that needs nothing but Python 3: a character model of sentences about sums.

It predicts the next character from the four before it. The logits are a bias, one table per position and one hashed table
for the four together; plain online Adagrad. The loss starts at log(28) = 3.33 and falls to about 0.8 within the default run.

The same seed gives the same weights, bit for bit, however often the run is interrupted: everything that the next step depends
on (weights, optimiser state, generator of random numbers, step) is in the checkpoint, and a checkpoint is a folder that
is renamed to its final name when all of it is written. Environment:

  GPUFERRY_CHECKPOINT_DIR  where checkpoints go and come from (default ckpt)
  GPUFERRY_OUTPUT_DIR      where weights.bin goes (default out)
  GPUFERRY_RESUME          1: go on from the newest whole checkpoint, and fail if there is none; 0: start from the beginning;
                           not set: go on if there is one
  TRAIN_STEPS (300)        steps of 64 characters
  TRAIN_SECONDS (28)       the run is slowed down to about this time; 0 = as fast as it goes
  TRAIN_SAVE_STEPS (20)    steps between checkpoints
  TRAIN_SEED (1)           another seed, other weights

SIGTERM: saves, then exits with 143.
"""
import hashlib
import json
import math
import os
import random
import shutil
import signal
import struct
import sys
import time
from array import array

ALPHABET = "abcdefghijklmnopqrstuvwxyz ."
SYMBOLS = len(ALPHABET)
CONTEXT = 4
HASHED_ROWS = 8192
ROWS = 1 + CONTEXT * SYMBOLS + HASHED_ROWS  # bias, one table per position, the hashed table
BATCH = 64
RATE = 0.03
KEPT = 2
MARKER = "complete"

ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()


def words(n):
    if n < 20:
        return ONES[n]
    if n < 100:
        return TENS[n // 10 - 2] + ("" if n % 10 == 0 else " " + ONES[n % 10])
    return ONES[n // 100] + " hundred" + ("" if n % 100 == 0 else " " + words(n % 100))


def make_text(seed):
    """Four thousand true sentences, as symbol numbers."""
    rng = random.Random(f"text {seed}")
    sentences = []
    for _ in range(4000):
        a, b = int(rng.random() * 100), int(rng.random() * 100)
        if rng.random() < 0.5:
            sentences.append(f"{words(a)} plus {words(b)} is {words(a + b)}. ")
        else:
            sentences.append(f"{words(max(a, b))} minus {words(min(a, b))} is {words(abs(a - b))}. ")
    index = {c: i for i, c in enumerate(ALPHABET)}
    return [index[c] for c in "".join(sentences)]


class Trainer:
    def __init__(self, seed, steps):
        self.seed = seed
        self.steps = steps
        self.step = 0
        self.text = make_text(seed)
        self.rng = random.Random(f"batches {seed}")
        init = random.Random(f"weights {seed}")
        self.weights = array("d", (init.random() * 0.02 - 0.01 for _ in range(ROWS * SYMBOLS)))
        self.squares = array("d", bytes(8 * ROWS * SYMBOLS))

    def rows(self, at):
        """Offsets of the rows that the context before position `at` selects."""
        offsets = [0]
        mixed = 0
        for i in range(CONTEXT):
            symbol = self.text[at - 1 - i]
            offsets.append((1 + i * SYMBOLS + symbol) * SYMBOLS)
            mixed = (mixed * 1000003 + symbol + 1) & 0xFFFFFFFF
        offsets.append((1 + CONTEXT * SYMBOLS + (mixed ^ mixed >> 15) % HASHED_ROWS) * SYMBOLS)
        return offsets

    def train_one_step(self):
        weights, squares, n = self.weights, self.squares, SYMBOLS
        total = 0.0
        for _ in range(BATCH):
            at = CONTEXT + int(self.rng.random() * (len(self.text) - CONTEXT))
            offsets = self.rows(at)
            logits = [sum(column) for column in zip(*(weights[o:o + n] for o in offsets))]
            top = max(logits)
            exps = [math.exp(x - top) for x in logits]
            scale = 1.0 / sum(exps)
            target = self.text[at]
            total -= math.log(exps[target] * scale)
            gradient = [e * scale for e in exps]
            gradient[target] -= 1.0
            for o in offsets:
                for j, g in enumerate(gradient, o):
                    s = squares[j] + g * g
                    squares[j] = s
                    weights[j] -= RATE * g / math.sqrt(s + 1e-8)
        self.step += 1
        return total / BATCH

    def save(self, folder):
        """Writes a checkpoint beside its final name and renames it: it is there whole or not at all."""
        final = os.path.join(folder, f"step-{self.step:06d}")
        if os.path.exists(os.path.join(final, MARKER)):
            return
        writing = final + ".tmp"
        shutil.rmtree(writing, ignore_errors=True)
        shutil.rmtree(final, ignore_errors=True)
        os.makedirs(writing)
        state = little_endian(self.weights) + little_endian(self.squares)
        version, internal, gauss = self.rng.getstate()
        head = {"step": self.step, "seed": self.seed, "rng": [version, list(internal), gauss], "sha256": hashlib.sha256(state).hexdigest()}
        write_synced(os.path.join(writing, "state.bin"), state)
        write_synced(os.path.join(writing, "head.json"), json.dumps(head).encode())
        write_synced(os.path.join(writing, MARKER), b"")
        os.rename(writing, final)
        for old in checkpoints(folder)[KEPT:]:
            shutil.rmtree(os.path.join(folder, old), ignore_errors=True)

    def load(self, path):
        with open(os.path.join(path, "head.json"), "rb") as f:
            head = json.load(f)
        with open(os.path.join(path, "state.bin"), "rb") as f:
            state = f.read()
        if hashlib.sha256(state).hexdigest() != head["sha256"] or len(state) != 16 * ROWS * SYMBOLS:
            raise ValueError("state.bin is not the one that head.json describes")
        if head["seed"] != self.seed:
            raise ValueError(f"it was made with seed {head['seed']}, and this run has {self.seed}")
        version, internal, gauss = head["rng"]
        self.rng.setstate((version, tuple(internal), gauss))
        half = len(state) // 2
        self.weights = from_little_endian(state[:half])
        self.squares = from_little_endian(state[half:])
        self.step = head["step"]


def little_endian(values):
    if sys.byteorder == "big":
        values = array("d", values)
        values.byteswap()
    return values.tobytes()


def from_little_endian(data):
    values = array("d")
    values.frombytes(data)
    if sys.byteorder == "big":
        values.byteswap()
    return values


def write_synced(path, data):
    with open(path, "wb") as f:
        f.write(data)
        f.flush()
        os.fsync(f.fileno())


def checkpoints(folder):
    """Names of whole checkpoints, newest first."""
    if not os.path.isdir(folder):
        return []
    names = [n for n in os.listdir(folder) if n.startswith("step-") and not n.endswith(".tmp")]
    return sorted((n for n in names if os.path.exists(os.path.join(folder, n, MARKER))), reverse=True)


def resume(trainer, folder, wanted):
    """True if the trainer goes on from a checkpoint. A silent start from the beginning would be worse than a failure."""
    if wanted == "0":
        return False
    for name in checkpoints(folder):
        try:
            trainer.load(os.path.join(folder, name))
            return True
        except (OSError, ValueError, KeyError, TypeError) as problem:
            print(f"checkpoint {name} cannot be used: {problem}", flush=True)
    if wanted == "1":
        sys.exit(f"told to resume, but there is no usable checkpoint in {folder}")
    return False


def main():
    folder = os.environ.get("GPUFERRY_CHECKPOINT_DIR") or "ckpt"
    out = os.environ.get("GPUFERRY_OUTPUT_DIR") or "out"
    steps = int(os.environ.get("TRAIN_STEPS", "300"))
    seconds = float(os.environ.get("TRAIN_SECONDS", "28"))
    save_steps = max(1, int(os.environ.get("TRAIN_SAVE_STEPS", "20")))
    stop = []
    signal.signal(signal.SIGTERM, lambda number, frame: stop.append(number))

    trainer = Trainer(int(os.environ.get("TRAIN_SEED", "1")), steps)
    if resume(trainer, folder, os.environ.get("GPUFERRY_RESUME", "")):
        print(f"resumed at step {trainer.step}/{steps}", flush=True)
    else:
        print(f"starting: {ROWS * SYMBOLS} weights, {len(trainer.text)} characters of text", flush=True)

    began, first = time.monotonic(), trainer.step
    while trainer.step < steps:
        loss = trainer.train_one_step()
        print(f"step {trainer.step}/{steps} loss {loss:.4f}", flush=True)
        if stop or trainer.step % save_steps == 0 or trainer.step == steps:
            trainer.save(folder)
        due = began + (trainer.step - first) * seconds / max(steps, 1)
        while not stop and time.monotonic() < due:
            time.sleep(min(0.05, max(0.0, due - time.monotonic())))
        if stop:
            trainer.save(folder)
            print(f"stopped by signal {stop[0]}, saved at step {trainer.step}", flush=True)
            sys.exit(143)

    os.makedirs(out, exist_ok=True)
    data = b"GFTINY1\0" + struct.pack("<II", ROWS, SYMBOLS) + little_endian(trainer.weights)
    path = os.path.join(out, "weights.bin")
    write_synced(path + ".tmp", data)
    os.rename(path + ".tmp", path)
    print(f"weights sha256 {hashlib.sha256(data).hexdigest()}", flush=True)


if __name__ == "__main__":
    main()
