"""A client's process: it stays, so that its modules are read once, and does one call after the other in a child of its own.

Run by the virtual environment's Python as `client.py CLIENT`. Each line of the standard input is {"argv": [...]} for a command line
or {"call": [name, arguments, named arguments]} for a function; each line of the answer {"status", "out", "err"}.
"""
import json
import os
import sys
import tempfile
import traceback


def vastai():
    import vastai.cli.main
    # `main` imports the commands itself; here it is done once for all children.
    from vastai.cli.commands import (  # noqa: F401
        auth, benchmarks, billing, deployments, endpoints, instances, keys, machines, metrics, misc, offers, price_increase, repl,
        storage, teams, uninstall, update)
    return lambda order: call_main(vastai.cli.main.main, order["argv"])


def call_main(main, argv):
    sys.argv = ["vastai", *argv]
    sys.exit(main())


def runpod():
    import runpod
    runpod.api_key = os.environ["RUNPOD_API_KEY"]

    def call(order):
        name, arguments, named = order["call"]
        print(json.dumps(getattr(runpod, name)(*arguments, **named)))
    return call


def in_child(call, order):
    """Forks: what a call leaves behind in the modules is gone with it."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            status = 0
            try:
                call(order)
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else int(end.code is not None)
            except BaseException:
                traceback.print_exc()
                status = 1
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        _, ended = os.waitpid(child, 0)
        out.seek(0)
        err.seek(0)
        return {"status": os.waitstatus_to_exitcode(ended), "out": out.read().decode(errors="replace"),
                "err": err.read().decode(errors="replace")}


def main():
    call = {"vastai": vastai, "runpod": runpod}[sys.argv[1]]()
    for line in sys.stdin:
        answer = in_child(call, json.loads(line))
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


main()
