#!/usr/bin/env python3
"""Started by a service manager: readiness, a watchdog that a living core feeds, and an orderly stop on SIGTERM."""
import signal
import socket

from harness import check, run, wait_for


def test(lab):
    path = str(lab.folder / "notify.sock")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(path)
    listener.settimeout(0.2)
    said = []

    def heard(word):
        def look():
            try:
                while True:
                    said.append(listener.recv(4096).decode())
            except TimeoutError:
                pass
            return any(word in line for line in said) or None
        return look

    lab.write_config(vastai=False, runpod=False, local=True)
    lab.start_daemon(extra={"NOTIFY_SOCKET": path})
    wait_for("READY=1", heard("READY=1"), 20)
    wait_for("two feeds of the watchdog", lambda: heard("WATCHDOG=1")() and sum("WATCHDOG=1" in s for s in said) >= 2 or None, 20)
    lab.daemon.send_signal(signal.SIGTERM)
    check(lab.daemon.wait(timeout=20) == 0, f"SIGTERM ended it with {lab.daemon.returncode}")
    wait_for("STOPPING=1", heard("STOPPING=1"), 5)


run("notify", test)
