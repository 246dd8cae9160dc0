"""Vendors' own clients in throw-away virtual environments, at the versions that the files *.txt here pin, everything that they need
included. What was downloaded is kept as wheels under build/interop, so that only the first run needs the network.

Without python3-venv or without a package index the test is skipped, loudly: it says so in its one line and is counted.
"""
import hashlib
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
KEPT = HERE.parents[1] / "build" / "interop"
DOWNLOAD_LIMIT_S = 600
INSTALL_LIMIT_S = 300


class NotHere(Exception):
    """The client cannot be had on this machine, and why."""


def run(what, command, limit_s):
    try:
        ran = subprocess.run([str(word) for word in command], capture_output=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        raise NotHere(f"{what}: not over after {limit_s} s") from None
    except OSError as error:
        raise NotHere(f"{what}: {error}") from None
    if ran.returncode != 0:
        said = (ran.stderr or ran.stdout).decode(errors="replace").strip().splitlines()
        raise NotHere(f"{what}: {said[-1] if said else f'exit status {ran.returncode}'}")


def wheels(client):
    """The folder with the wheels of a client; downloads them where they are not all there."""
    pins = HERE / f"{client}.txt"
    mark = hashlib.sha256(pins.read_bytes() + sys.version.encode()).hexdigest()[:16]
    folder = KEPT / f"{client}-{mark}"
    if not (folder / "whole").exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="gpuferry-interop-") as scratch:
            make_environment(pathlib.Path(scratch) / "v")
            run(f"pip wheel {client}", [pathlib.Path(scratch) / "v" / "bin" / "pip", "wheel", "--quiet", "--no-deps",
                                        "--wheel-dir", folder, "-r", pins], DOWNLOAD_LIMIT_S)
        (folder / "whole").touch()
        for other in KEPT.glob(f"{client}-*"):
            if other != folder:
                shutil.rmtree(other, ignore_errors=True)
    return folder


def make_environment(folder):
    run("python3 -m venv (on Debian: python3-venv)", [sys.executable, "-m", "venv", folder], INSTALL_LIMIT_S)


def python_with(client, folder):
    """Makes a virtual environment with the client in `folder`; answers its Python. NotHere says why it could not."""
    there = wheels(client)
    make_environment(folder)
    run(f"pip install {client}", [folder / "bin" / "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile",
                                  "--find-links", there, "-r", HERE / f"{client}.txt"], INSTALL_LIMIT_S)
    return folder / "bin" / "python"
