#!/usr/bin/env python3
"""Runs examples/train-tiny whole and interrupted in every way that gpuferry knows, and compares the weights bit for bit.

Usage: train_tiny_test.py .../train.py [seed]. The interruptions are drawn from the seed, which is printed.
"""
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

TRAIN = os.path.abspath(sys.argv[1])
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 7
STEPS = 60
STEP = re.compile(r"step (\d+)/(\d+) loss (\d+\.\d+)")


class Run:
    """One process of the example. `stop_at` sends `how` as soon as that step was printed. Such a run is paced (0.05 s per step), so
    that it cannot come to its end between the line and the signal."""

    def __init__(self, folder, stop_at=None, how=signal.SIGKILL, **env):
        env = {"PATH": os.environ["PATH"], "TRAIN_STEPS": str(STEPS), "TRAIN_SECONDS": "3" if stop_at else "0", "TRAIN_SAVE_STEPS": "7", **env}
        self.lines = []
        with subprocess.Popen([sys.executable, TRAIN], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            for line in process.stdout:
                self.lines.append(line.rstrip("\n"))
                seen = STEP.match(line)
                if stop_at is not None and seen and int(seen[1]) >= stop_at:
                    process.send_signal(how)
                    stop_at = None
            self.code = process.wait(60)

    @property
    def losses(self):
        return {int(m[1]): float(m[3]) for m in map(STEP.match, self.lines) if m}

    @property
    def weights(self):
        found = [line.split()[-1] for line in self.lines if line.startswith("weights sha256 ")]
        return found[0] if found else None


class TrainTiny(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        print(f"seed {SEED}", flush=True)
        cls.random = random.Random(SEED)
        cls.base = tempfile.mkdtemp(prefix="gf-train-tiny-")
        cls.whole = Run(cls.folder("whole"))
        assert cls.whole.code == 0, cls.whole.lines[-5:]

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.base)

    @classmethod
    def folder(cls, name):
        path = os.path.join(cls.base, name)
        os.makedirs(path)
        return path

    def finish(self, folder, **env):
        """Runs to the end; the weights and every loss on the way must be those of the unbroken run."""
        last = Run(folder, **env)
        self.assertEqual(last.code, 0, last.lines[-5:])
        self.assertEqual(last.weights, self.whole.weights)
        for step, loss in last.losses.items():
            self.assertEqual(loss, self.whole.losses[step], f"step {step}")
        return last

    def test_the_loss_falls_and_the_hash_is_that_of_the_file(self):
        import hashlib
        losses = self.whole.losses
        self.assertEqual(sorted(losses), list(range(1, STEPS + 1)))
        first, last = (sum(losses[i] for i in part) / 10 for part in (range(1, 11), range(STEPS - 9, STEPS + 1)))
        self.assertGreater(first, 1.8)
        self.assertLess(last, 1.4)
        with open(os.path.join(self.base, "whole", "out", "weights.bin"), "rb") as f:
            self.assertEqual(hashlib.sha256(f.read()).hexdigest(), self.whole.weights)
        size = sum(os.path.getsize(os.path.join(d, f)) for d, _, fs in os.walk(os.path.join(self.base, "whole", "ckpt")) for f in fs)
        self.assertGreater(size, 2_000_000)

    def test_killed_at_random_points_it_ends_with_the_same_weights(self):
        for trial in range(3):
            folder = self.folder(f"killed-{trial}")
            kills = sorted(self.random.sample(range(1, STEPS - 12), 3))
            with self.subTest(kills=kills):
                for at in kills:
                    self.assertEqual(Run(folder, stop_at=at).code, -signal.SIGKILL)
                self.finish(folder)

    def test_sigterm_saves_at_once_and_exits_with_143(self):
        folder = self.folder("term")
        stopped = Run(folder, stop_at=23, how=signal.SIGTERM)
        self.assertEqual(stopped.code, 143)
        reached = max(stopped.losses)
        self.assertIn(f"step-{reached:06d}", os.listdir(os.path.join(folder, "ckpt")))
        self.assertEqual(min(self.finish(folder, GPUFERRY_RESUME="1").losses), reached + 1)

    def test_folders_come_from_the_environment(self):
        folder = self.folder("folders")
        env = {"GPUFERRY_CHECKPOINT_DIR": os.path.join(folder, "a", "b"), "GPUFERRY_OUTPUT_DIR": os.path.join(folder, "c")}
        Run(folder, stop_at=30, **env)
        self.finish(folder, **env)
        self.assertEqual(sorted(os.listdir(folder)), ["a", "c"])

    def test_a_damaged_or_half_written_checkpoint_is_passed_over(self):
        folder = self.folder("damaged")
        Run(folder, stop_at=40, how=signal.SIGTERM)
        names = sorted(os.listdir(os.path.join(folder, "ckpt")))
        self.assertEqual(len(names), 2)
        with open(os.path.join(folder, "ckpt", names[1], "state.bin"), "r+b") as f:
            f.seek(1000)
            f.write(b"\xff")
        os.makedirs(os.path.join(folder, "ckpt", "step-000059"))      # without its marker
        os.makedirs(os.path.join(folder, "ckpt", "step-000058.tmp"))
        last = self.finish(folder, GPUFERRY_RESUME="1")
        self.assertEqual(min(last.losses), int(names[0][5:]) + 1)
        self.assertTrue(any("cannot be used" in line for line in last.lines))

    def test_told_to_resume_without_a_checkpoint_it_fails(self):
        refused = Run(self.folder("none"), GPUFERRY_RESUME="1")
        self.assertEqual((refused.code, refused.losses), (1, {}))

    def test_told_to_start_anew_it_takes_no_left_over(self):
        folder = self.folder("anew")
        Run(folder, stop_at=40)
        self.assertEqual(min(self.finish(folder, GPUFERRY_RESUME="0").losses), 1)

    def test_pacing_and_the_rhythm_of_saving_change_nothing(self):
        folder = self.folder("paced")
        Run(folder, stop_at=10, TRAIN_SAVE_STEPS="3")
        self.finish(folder, TRAIN_SECONDS="1", TRAIN_SAVE_STEPS="100")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=1)
