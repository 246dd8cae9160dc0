#!/usr/bin/env python3
"""The doctor says in words what is wrong with a key, a scope, the money, a quota, the market and the way to this daemon, and nothing is
wrong where all is well."""
import json

from harness import check, free_port, run, wait_for
from worlds import clear_faults, fault

KEYS = {"runpod": "rpa_E2E", "vastai": "vast-e2e"}


def findings(lab):
    """(exit status, [(provider, what, verdict, text)]) of `gpuferry doctor --json`."""
    ran = lab.cli("doctor", "--json", timeout=120)
    check(ran.stdout, f"doctor said nothing: {ran.returncode} {ran.stderr!r}")
    checks = json.loads(ran.stdout)["checks"]
    return ran.returncode, [(c.get("provider", ""), c["check"], c["verdict"], c["text"]) for c in checks]


def told(lab, provider, what, verdict, *words):
    """Asks until the doctor says this: its calls wait for their turn at the provider like all others, and a balance has its age."""
    def look():
        status, all_ = findings(lab)
        for line in all_:
            if line[0] == provider and line[1] in what and line[2] == verdict and all(word in line[3].lower() for word in words):
                return status, line
        look.last = [line for line in all_ if line[0] == provider]
        return None
    look.last = None
    try:
        status, _ = wait_for(f"{provider}: {what} {verdict} {words}", look, 60, 0.5)
    except Exception as error:
        raise type(error)(f"{error}; {provider}: {look.last}") from None
    check((status == 1) == (verdict == "failed") or verdict != "failed", f"status {status} after {verdict}")


def restarted(lab, change=lambda text: text):
    if lab.daemon:
        lab.kill_daemon()
    lab.write_config()
    path = lab.folder / "gpuferryd.yaml"
    path.write_text(change(path.read_text()))
    lab.start_daemon()


def test(lab):
    lab.start_sim("--runpod-key", KEYS["runpod"], "--vastai-key", KEYS["vastai"])
    restarted(lab)

    # All is well: every provider is accepted, and advertise_url leads here.
    status, all_ = findings(lab)
    bad = [line for line in all_ if line[2] == "failed"]
    check(status == 0 and not bad, f"a healthy daemon: status {status}, {bad}")
    for provider in KEYS:
        check([line for line in all_ if line[0] == provider and line[2] == "ok"], f"nothing is told of {provider}: {all_}")
    told(lab, "daemon", ("advertise_url",), "ok", "leads here")
    shown = lab.cli("doctor", timeout=120)
    check(b"\nvastai\n" in shown.stdout and b"\x1b" not in shown.stdout, f"the table: {shown.stdout!r}")

    # No money.
    for provider in KEYS:
        lab.sim_ask("POST", "/balance", {"provider": provider, "usd": 0})
        told(lab, provider, ("money",), "failed")
        lab.sim_ask("POST", "/balance", {"provider": provider, "usd": 100})

    # The market is down: offers or the API itself.
    for method, path in (("POST", "^/api/v0/bundles"), ("GET", "^/v2/catalog")):
        fault(lab, method, path, action="status", status=503, body="down")
    for provider in KEYS:
        told(lab, provider, ("offers", "api"), "failed")
    clear_faults(lab)

    # The account's limit on spending is reached.
    fault(lab, "POST", "^/graphql", provider="runpod", action="merge_json",
          body={"data": {"myself": {"id": "user_2xEXAMPLE", "clientBalance": 100.0, "underBalance": False, "currentSpendPerHr": 80.0,
                                   "spendLimit": 80}}})
    told(lab, "runpod", ("quota",), "failed", "80")
    clear_faults(lab)

    # A key that may not do all.
    fault(lab, "GET", "^/api/v1/instances", provider="vastai", action="status", status=403, type="application/json",
          body={"success": False, "error": "auth_error", "msg": "This action is not permitted for this key."})
    told(lab, "vastai", ("scope", "key", "listing"), "failed")
    clear_faults(lab)
    fault(lab, "GET", "^/v2/pods", provider="runpod", action="status", status=403, type="application/problem+json",
          body={"title": "Forbidden", "status": 403, "detail": "access denied"})
    told(lab, "runpod", ("scope", "key", "listing"), "failed")
    clear_faults(lab)

    # A wrong key, one provider after the other: the other one is not blamed.
    for provider, key in KEYS.items():
        restarted(lab, lambda text, key=key: text.replace(f"api_key: {key}", f"api_key: {key}-other"))
        told(lab, provider, ("key",), "failed", "key")
        _, all_ = findings(lab)
        other = next(name for name in KEYS if name != provider)
        check(not [line for line in all_ if line[0] == other and line[2] == "failed"], f"{other} is blamed for {provider}'s key: {all_}")
        check(all(f"{key}-other" not in line[3] for line in all_), f"the key is shown: {all_}")

    # advertise_url that leads nowhere, or to somebody else.
    restarted(lab, lambda text: text.replace(f"advertise_url: http://127.0.0.1:{lab.agent_port}", f"advertise_url: http://127.0.0.1:{free_port()}"))
    told(lab, "daemon", ("advertise_url",), "failed", "does not lead here")
    restarted(lab, lambda text: text.replace(f"advertise_url: http://127.0.0.1:{lab.agent_port}", f"advertise_url: {lab.face('vastai')}"))
    told(lab, "daemon", ("advertise_url",), "failed", "something else listens there")

    # No daemon at all.
    lab.kill_daemon()
    gone = lab.cli("doctor")
    check(gone.returncode == 120 and gone.stdout.startswith(b"failed   socket") and b"gpuferryd is not running" in gone.stdout,
          f"without a daemon: {gone.returncode} {gone.stdout!r}")


run("doctor", test)
