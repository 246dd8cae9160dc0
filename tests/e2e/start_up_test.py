#!/usr/bin/env python3
"""What a newcomer meets first: errors at start that name what is wrong, a greeting whose next step works here, and the same port by
https, by http and under the name of a reverse proxy."""
import http.client
import json
import pathlib
import subprocess

from harness import BIN, ask, check, run


def refused(lab, arguments, *said):
    """gpuferryd must end by itself with status 1 and one line that has every text of `said`."""
    ran = subprocess.run([str(BIN / "gpuferryd"), *[str(a) for a in arguments]], capture_output=True, timeout=20, check=False,
                         env=lab.environment(), cwd=lab.folder)
    error = ran.stderr.decode()
    check(ran.returncode == 1, f"{arguments}: status {ran.returncode}: {error}")
    check(error.count("\n") == 1 and all(text in error for text in said), f"{arguments} said: {error}")


def test(lab):
    refused(lab, ["--config", "/etc"], "/etc: cannot be read: Is a directory")
    refused(lab, ["--config", lab.folder / "none.yaml"], "none.yaml: cannot be read: No such file")
    refused(lab, ["--data-dir", lab.data_dir, "--agent-listen", "nonsense"], "--agent-listen: nonsense is not address:port")
    refused(lab, ["--data-dir", lab.data_dir, "--listen", "nonsense"], "--listen: nonsense is not address:port")
    lab.write_config(local=True, more="gpus: {table: /nonexistent.csv}\n")
    refused(lab, ["--config", lab.folder / "gpuferryd.yaml"], "gpus.table: /nonexistent.csv cannot be read")
    (lab.folder / "odd.csv").write_text("not,a,table\n")
    lab.write_config(local=True, more=f"gpus: {{aliases: {lab.folder}/odd.csv}}\n")
    refused(lab, ["--config", lab.folder / "gpuferryd.yaml"], "GPU alias table", f"gpus.aliases is {lab.folder}/odd.csv")

    lab.write_config(local=True, more="allowed_hosts: [ferry.example.org]\n")
    lab.start_daemon()
    greeting = lab.log_of("daemon", 1 << 20)
    check("next: gpuferry submit examples/train-tiny/local.yaml" in greeting, f"the greeting: {greeting[:600]}")

    # It holds every key: no core file, and its /proc belongs to root (as which this shows nothing).
    process = pathlib.Path(f"/proc/{lab.daemon.pid}")
    cores = next(line for line in (process / "limits").read_text().splitlines() if line.startswith("Max core file size"))
    check(cores.split()[4] == "0", f"the daemon's limit of cores: {cores}")
    check((process / "fd").stat().st_uid == 0, "the daemon's memory is open to programs of the same user")

    made = lab.cli("--json", "token", "create", "pipeline", "--role", "viewer")
    token = json.loads(made.stdout)["token"]
    port = lab.ports["api"]
    for scheme, ca, status in (("http", {}, 0), ("https", {}, 120), ("https", {"GPUFERRY_CA": str(lab.data_dir / "tls/cert.pem")}, 0)):
        ran = subprocess.run([str(BIN / "gpuferry"), "ps"], capture_output=True, timeout=20, check=False,
                             env=lab.environment({"GPUFERRY_URL": f"{scheme}://localhost:{port}", "GPUFERRY_TOKEN": token, **ca}))
        check(ran.returncode == status, f"{scheme} {ca}: {ran.returncode} {ran.stderr.decode()}")
    for host, status in (("ferry.example.org", 200), ("evil.example.org", 421)):
        answer = ask(http.client.HTTPConnection("127.0.0.1", port, timeout=10), "GET", "/v1/jobs",
                     headers={"Host": host, "Authorization": f"Bearer {token}"})
        check(answer.status == status, f"Host {host}: {answer.status} {answer.body!r}")


run("start_up", test)
