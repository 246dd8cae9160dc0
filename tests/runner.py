#!/usr/bin/env python3
"""Builds and runs every test, counts them, and ends with the line "N passed, M failed, K skipped". Called by scripts/test,
which installs what this needs. Standard library only.

The parts, in order: lint, the release build, units and the simulation, end-to-end tests with real processes, the vendors' own
clients against the simulator, and then units and a short simulation under AddressSanitizer and UndefinedBehaviorSanitizer. A part
that does not build counts as one failure.
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
RELEASE = ROOT / "build" / "release"
UNIT_LIMIT_S = 900
E2E_LIMIT_S = 420
QUICKSTART_LIMIT_S = 900
INTEROP_LIMIT_S = 1500  # with the download
CLEAN_UP_S = 30
SEEDS = 2000
SEEDS_SANITIZED = 100
FUZZ_SECONDS = 60
LONG_UNITS = ("sim", "agent", "daemon", "providers")
SUMMARY = re.compile(r"test cases:\s*(\d+) \|\s*(\d+) passed \|\s*(\d+) failed \|\s*(\d+) skipped")
SKIPPED = re.compile(r"^SKIPPED (.+?): (.+)$", re.MULTILINE)  # printed by gf::test::skip, since doctest cannot skip at run time
SHOWN_LINES_MAX = 120


class Tally:
    """What was counted, and how it is told."""

    def __init__(self, only):
        self.only = only
        self.passed = self.failed = self.skipped = 0
        self.failures = []
        self.began = time.monotonic()
        self.lock = threading.RLock()  # held while a result and its output are printed

    def wants(self, name):
        return not self.only or any(word in name for word in self.only)

    def part(self, title):
        print(f"== {title} (at {time.monotonic() - self.began:.0f} s)", flush=True)

    def add(self, name, passed=0, failed=0, skipped=0, seconds=0.0, note=""):
        self.passed += passed
        self.failed += failed
        self.skipped += skipped
        if failed:
            self.failures.append(name)
        counts = f"{passed} passed" + (f", {failed} failed" if failed else "") + (f", {skipped} skipped" if skipped else "")
        print(f"{'FAIL' if failed else 'ok'} {name}: {counts} in {seconds:.1f} s{note}", flush=True)

    def end(self):
        for name in self.failures:
            print(f"failed: {name}")
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped", flush=True)
        return 0 if self.failed == 0 and self.passed > 0 else 1


def show_tail(text):
    lines = text.splitlines()
    if len(lines) > SHOWN_LINES_MAX:
        print(f"    … {len(lines) - SHOWN_LINES_MAX} lines before")
    for line in lines[-SHOWN_LINES_MAX:]:
        print("    " + line)


def run(command, limit_s, env=None):
    """(exit status or None at the time limit, output, seconds). A test that hangs is ended with all that it started."""
    began = time.monotonic()
    process = subprocess.Popen([str(word) for word in command], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, env={**os.environ, **(env or {})}, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=limit_s)
        status = process.returncode
    except subprocess.TimeoutExpired:
        # A script may have started daemons in sessions of their own: it is asked to clean up before it is ended.
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(CLEAN_UP_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        status = None
    return status, output.decode(errors="replace"), time.monotonic() - began


def jobs():
    """Compilers at once: the heaviest translation units take over 1 GiB each."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(os.cpu_count() or 1, memory // (3 << 29)))


def build(tally, preset, folder, targets=(), options=()):
    configure = ["cmake", "--preset", preset, "-B", folder, *options]
    compile_ = ["cmake", "--build", folder, "-j", str(jobs())]
    for command in (configure, compile_ + (["--target", *targets] if targets else [])):
        status, output, seconds = run(command, 3600)
        if status != 0:
            tally.add(f"build {preset}", failed=1, seconds=seconds, note=f" ({' '.join(map(str, command))[:80]})")
            show_tail(output)
            return False
    print(f"built {preset} in {seconds:.0f} s", flush=True)
    return True


def registered(folder):
    """What CMake knows as tests: {name: command}."""
    shown = subprocess.run(["ctest", "--test-dir", folder, "--show-only=json-v1"], check=True, capture_output=True)
    return {test["name"]: test.get("command", []) for test in json.loads(shown.stdout)["tests"]}


def is_doctest(command):
    return bool(command) and pathlib.Path(command[0]).name.startswith("test_")


def run_doctest(tally, name, command, env, limit_s=UNIT_LIMIT_S):
    status, output, seconds = run(command, limit_s, env)
    with tally.lock:
        tell_doctest(tally, name, status, output, seconds, limit_s)


def tell_doctest(tally, name, status, output, seconds, limit_s):
    counted = SUMMARY.search(output)
    if counted is None or (status != 0 and counted[3] == "0"):
        why = f" (not over after {limit_s} s)" if status is None else f" (exit status {status})"
        tally.add(name, failed=1, seconds=seconds, note=why)
        show_tail(output)
        return
    _, passed, failed, skipped = map(int, counted.groups())
    unable = dict(SKIPPED.findall(output))  # once per test case, whatever it could not try
    passed, skipped = passed - len(unable), skipped + len(unable)
    told = [line for line in output.splitlines() if line.startswith("simulation:")]
    told += [f"skipped: {case}: {why}" for case, why in unable.items()]
    tally.add(name, passed, failed, skipped, seconds, "".join(f"\n    {line}" for line in told))
    if failed:
        show_tail(output)


def lint(tally):
    for command in (["tests/lint/lint"], ["tests/lint/lint_test.py"]):
        status, output, seconds = run([sys.executable, *command], 120)
        lines = output.splitlines()
        passed = sum(line.startswith("ok ") for line in lines) or int(status == 0)
        failed = sum(line.startswith("FAIL ") for line in lines) or int(status != 0)
        tally.add(command[0], passed, failed, seconds=seconds)
        if failed:
            show_tail(output)


def first_seed(explore):
    """With --long from the commit, so that such runs differ from commit to commit and yet can be repeated. Else always the same
    ones: whoever changes a line must not be stopped by a seed that nobody has played before."""
    if not explore:
        return 1
    head = subprocess.run(["git", "rev-parse", "--short=7", "HEAD"], cwd=ROOT, capture_output=True, check=False, text=True)
    return 1 + int(head.stdout, 16) % 1_000_000 if head.returncode == 0 else 1


def units(tally, folder, label, seeds, extra_env=None, explore=False):
    """As many at once as there are cores; the longest first, so that none of them is left over at the end."""
    env = {"GF_SIM_SEEDS": str(seeds), "GF_SIM_FIRST": str(first_seed(explore)), "GPUFERRY_BIN": str(RELEASE / "bin"), **(extra_env or {})}
    wanted = [(name, command) for name, command in registered(folder).items() if tally.wants(f"{label}{name}")]

    def one(test):
        name, command = test
        shown = f"{label}{name}"
        if is_doctest(command):
            run_doctest(tally, shown, command, env)
        elif not label:  # programs in other languages: once is enough
            status, output, seconds = run(command, UNIT_LIMIT_S, env)
            with tally.lock:
                tally.add(shown, passed=int(status == 0), failed=int(status not in (0, 77)), skipped=int(status == 77), seconds=seconds)
                if status not in (0, 77):
                    show_tail(output)

    wanted.sort(key=lambda test: (not any(word in test[0] for word in LONG_UNITS), test[0]))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for done in [pool.submit(one, test) for test in wanted]:
            done.result()


def one_line_test(tally, name, command, limit_s):
    """A program whose exit status is 0, 1 or 77 (skipped), and whose last line says "ok", "FAIL" or "skip" and why."""
    status, output, seconds = run(command, limit_s, {"GPUFERRY_BIN": str(RELEASE / "bin")})
    lines = [line for line in output.strip().splitlines() if line.strip()]
    last = lines[-1] if lines else "said nothing"
    note = f": {last}" if status != 0 else ""
    with tally.lock:
        tally.add(name, passed=int(status == 0), failed=int(status not in (0, 77)), skipped=int(status == 77), seconds=seconds, note=note)
        if status not in (0, 77):
            show_tail(output)


def end_to_end(tally):
    """Two at once: they wait for clocks of daemons and agents for most of their time."""
    folder = ROOT / "tests" / "e2e"
    tests = [(f"e2e/{test.stem.removesuffix('_test')}", test) for test in sorted([*folder.glob("*_test.py"), *folder.glob("*_test.sh")])]

    def one(name, test):
        one_line_test(tally, name, [sys.executable, test] if test.suffix == ".py" else ["bash", test], E2E_LIMIT_S)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(one, name, test) for name, test in tests if tally.wants(name)]:
            done.result()
    if tally.wants("quickstart"):
        one_line_test(tally, "quickstart", ["scripts/quickstart", "--no-build"], QUICKSTART_LIMIT_S)
        if os.geteuid() == 0:  # as in a plain container: simulated machines get no namespaces and no root of their own
            one_line_test(tally, "quickstart without namespaces",
                          ["setpriv", "--bounding-set=-sys_admin", "scripts/quickstart", "--no-build"], QUICKSTART_LIMIT_S)


def interop(tally):
    """The vendors' own clients against the simulator. The first run downloads them; without a package index they are skipped."""
    for test in sorted((ROOT / "tests" / "interop").glob("*_test.py")):
        name = f"interop/{test.stem.removesuffix('_test')}"
        if tally.wants(name):
            one_line_test(tally, name, [sys.executable, test], INTEROP_LIMIT_S)


def sanitized(tally, preset, seeds):
    """Units again under the sanitizers. The programs themselves are not built: the end-to-end tests use the release's."""
    folder = ROOT / "build" / preset
    if not build(tally, preset, folder, ["help"]):  # configures only
        return
    names = [pathlib.Path(command[0]).name for command in registered(folder).values() if is_doctest(command)]
    if not build(tally, preset, folder, sorted(names)):
        return
    env = {"ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_init_order=1", "UBSAN_OPTIONS": "print_stacktrace=1",
           "TSAN_OPTIONS": "halt_on_error=0:second_deadlock_stack=1"}
    for symbolizer in ("/usr/bin/llvm-symbolizer-19", "/usr/lib/llvm-19/bin/llvm-symbolizer"):
        if os.access(symbolizer, os.X_OK):
            env["ASAN_SYMBOLIZER_PATH"] = env["TSAN_SYMBOLIZER_PATH"] = symbolizer
    units(tally, folder, f"{preset}/", seeds, env)


def fuzz(tally):
    folder = ROOT / "build" / "fuzz"
    sources = {path.stem for path in (ROOT / "tests" / "fuzz").glob("*.cpp")}
    if not build(tally, "asan", folder, [f"fuzz_{name}" for name in sorted(sources)], ["-DGF_FUZZ=ON"]):
        return
    for name in sorted(sources):
        corpus = ROOT / "tests" / "fuzz" / "corpus" / name
        found = folder / "found" / name  # what the fuzzer adds stays out of the tree
        found.mkdir(parents=True, exist_ok=True)
        command = [folder / "fuzz" / f"fuzz_{name}", f"-max_total_time={FUZZ_SECONDS}", "-max_len=65536",
                   f"-artifact_prefix={found}/", found, *([corpus] if corpus.is_dir() else [])]
        status, output, seconds = run(command, FUZZ_SECONDS * 5)
        tally.add(f"fuzz/{name}", passed=int(status == 0), failed=int(status != 0), seconds=seconds)
        if status != 0:
            show_tail(output)


def main():
    parser = argparse.ArgumentParser(prog="scripts/test", description="Installs, builds and runs every test.")
    parser.add_argument("--no-install", action="store_true", help="do not look for missing Debian packages")
    parser.add_argument("--fast", action="store_true", help="leave the sanitizers and the end-to-end tests out")
    parser.add_argument("--long", action="store_true", help="also ThreadSanitizer and the fuzzers")
    parser.add_argument("only", nargs="*", help="run only tests with one of these words in their name")
    options = parser.parse_args()
    tally = Tally(options.only)

    if tally.wants("lint"):
        tally.part("lint")
        lint(tally)
    tally.part("release build")
    if build(tally, "release", RELEASE) and build(tally, "release", RELEASE, ["headers_alone"]):
        tally.add("build release", passed=1)
        tally.part("units and simulation")
        units(tally, RELEASE, "", SEEDS, explore=options.long)
        if not options.fast:
            tally.part("end to end")
            end_to_end(tally)
            tally.part("the vendors' own clients")
            interop(tally)
    if not options.fast:
        tally.part("AddressSanitizer and UndefinedBehaviorSanitizer")
        sanitized(tally, "asan", SEEDS_SANITIZED)
    if options.long:
        tally.part("ThreadSanitizer")
        sanitized(tally, "tsan", SEEDS_SANITIZED)
        tally.part("fuzzers")
        fuzz(tally)
    sys.exit(tally.end())


main()
