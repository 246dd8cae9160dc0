"""What the interop tests share: a simulator from the end-to-end tests' harness, and a vendor's client that is pointed at it."""
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import subprocess  # noqa: E402

from harness import Failed, check, run  # noqa: E402

import installed  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent


class Client:
    """One client process in the lab's folder, with a clean environment and a home of its own."""

    def __init__(self, lab, python, name, environment):
        self.log = open(lab.folder / f"{name}.log", "ab")
        self.process = subprocess.Popen([str(python), str(HERE / "client.py"), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log, env=lab.environment(environment), cwd=lab.folder, start_new_session=True)
        lab.started.append(self.process)

    def order(self, order):
        """(exit status, standard output, standard error) of one call."""
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        check(line, f"the client ended instead of answering {order}")
        answer = json.loads(line)
        return answer["status"], answer["out"], answer["err"]

    def close(self):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()
        self.log.close()


def main(name, client, test):
    """Installs the client (or says why that cannot be) and runs test(lab, python)."""
    with tempfile.TemporaryDirectory(prefix=f"gpuferry-{name}-") as folder:
        try:
            python = installed.python_with(client, pathlib.Path(folder) / "v")
        except installed.NotHere as why:
            print(f"skip {name}: SKIPPED, the vendor's client cannot be installed: {why}", flush=True)
            sys.exit(77)
        run(name, lambda lab: test(lab, python))


__all__ = ["Client", "Failed", "check", "main"]
