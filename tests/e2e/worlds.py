"""What several tests share: the usual job, and the simulator's admin face in the words of the tests."""
import http.client
import json
import pathlib
import shutil

import counter
from harness import SCALE, Failed, Skip, ask, check, wait_for

HERE = pathlib.Path(__file__).resolve().parent


def counter_spec(lab, total=60, pause=0.1, every=5, **over):
    """A job of `total` steps of `pause` real seconds that saves every `every` steps; keys of the spec may be laid over."""
    code = lab.folder / "code"
    code.mkdir(exist_ok=True)
    shutil.copy(HERE / "counter.py", code / "counter.py")
    spec = {
        "name": "counter",
        "kind": "training",
        "run": f"python3 counter.py {total} {pause} {every}",
        "code": str(code),
        "resources": {"vram": "24GB", "disk": "20GB", "spot": "never", "providers": ["vastai"]},
        "checkpoint": {"path": "ckpt", "every": f"{max(1, int(SCALE))}s", "grace": "20s", "marker": "complete", "exclude": ["*.tmp"]},
        "progress": {"regex": r"step (\d+)/(\d+)"},
        "outputs": [{"from": "out"}],
    }
    for key, value in over.items():
        if value is None:
            spec.pop(key, None)
        elif isinstance(value, dict) and isinstance(spec.get(key), dict):
            spec[key] = {**spec[key], **value}
        else:
            spec[key] = value
    return spec


def check_result(lab, job, total):
    """The published result is the one of an unbroken run."""
    folder = lab.folder / f"got-{job}"
    ran = lab.cli("outputs", "get", job, folder)
    check(ran.returncode == 0, f"outputs get: {ran.returncode} {ran.stderr.decode()}")
    found = [p for p in folder.rglob("result")]
    check(len(found) == 1, f"one file named result, found {found}")
    check(found[0].read_text() == counter.expected(total), "the result is not that of an unbroken run")


def rentals(lab, alive=True):
    """Machines as the providers' own records have them."""
    return [m for m in lab.sim_ask("GET", "/state")["machines"] if m["exists"] or not alive]


def take_back(lab, rental):
    """The market takes the machine for somebody else, for good."""
    lab.sim_ask("POST", "/take_back", {"provider": rental["provider"], "id": rental["id"]})


def fault(lab, method, path, **rule):
    lab.sim_ask("POST", "/faults", {"match": {"method": method, "path": path}, **rule})


def clear_faults(lab):
    lab.sim_ask("DELETE", "/faults")


def rent_by_hand(lab, label):
    """A machine that somebody made at Vast.ai without gpuferry, under a name of his choice; gives its id."""
    def call(method, path, body):
        def once():  # least intervals between calls hold for strangers too
            answer = ask(http.client.HTTPConnection("127.0.0.1", lab.sim_ports["vastai"], timeout=20), method, path, body,
                         {"Authorization": "Bearer vast-by-hand"})
            check(answer.status in (200, 429), f"{method} {path}: {answer.status} {answer.body[:300]!r}")
            return answer.json if answer.status == 200 else None
        return wait_for(f"{method} {path}", once, 30)
    offers = call("POST", "/api/v0/bundles/", {
        "num_gpus": {"eq": 1}, "rentable": {"eq": True}, "type": "on-demand", "order": [["dph_total", "asc"]], "limit": 20})["offers"]
    made = call("PUT", f"/api/v0/asks/{offers[-1]['id']}/", {
        "client_id": "me", "image": "debian:12", "label": label, "disk": 10, "runtype": "args", "args": ["sleep", "100000"]})
    return str(made["new_contract"])


def wait_all_gone(lab, seconds=60):
    """P1 at the end: nothing is left at any provider, by its own record."""
    wait_for("the providers to have no machine of ours", lambda: not rentals(lab) or None, seconds)
    lab.wait_no_machines(seconds)


def dollars(text):
    return float(str(text).lstrip("$"))


def check_bill(lab, job=None, unit_s=1):
    """P4: the ledger and the provider's own bill agree within 1 % or one billing unit (of `unit_s` seconds) plus one poll."""
    cost = lab.get("/v1/cost" if job is None else f"/v1/jobs/{job}/cost")
    check(cost["at_least"] is False, "the cost is marked at least although every rate was known")
    bill = lab.sim_ask("GET", "/bill")
    theirs = bill["total_micros"] / 1e6
    ours = dollars(cost["total"])
    # A billing unit and a sweep of 10 s, per machine, at the highest rate of each.
    unit = sum(max((s["gpu_micros_per_hour"] for s in m["spans"]), default=0) for m in bill["machines"]) / 1e6 * (unit_s + 10) / 3600
    check(theirs > 0, f"the provider billed nothing: {json.dumps(bill)[:300]}")
    if abs(ours - theirs) > max(theirs * 0.01, unit):
        raise Failed(f"the ledger says {ours:.6f}, the provider {theirs:.6f} (allowed: 1 % or {unit:.6f})")
    return ours, theirs


def whole_job_on_a_vm(lab, provider, unit_s):
    """A job on a whole virtual machine: through boot, work, checkpoints and outputs to a machine that is gone, with a second one after the
    first was taken away; at the end the bill is the provider's, and nothing of ours is left in its account."""
    if not lab.sim_plays(provider):
        raise Skip(f"the simulator does not play {provider}")
    lab.start_sim(f"--{provider}-key", lab.key_of(provider))
    lab.write_config(runpod=False, vastai=False, more_clouds=[provider])
    lab.start_daemon()
    job = lab.submit(counter_spec(lab, 60, 0.1, 5, name=f"on {provider}",
                                  resources={"providers": [provider]}))
    lab.wait_step(job, 15, seconds=150)
    first = rentals(lab)
    check(len(first) == 1 and first[0]["provider"] == provider, f"one machine at {provider}, not {first}")
    wait_for("a checkpoint", lambda: lab.checkpoints(job), 60)
    lab.sim_ask("POST", "/destroy", {"provider": provider, "id": first[0]["id"]})  # somebody in the console
    done = lab.wait_state(job, "succeeded", seconds=200)
    check(done["exit_code"] == 0, f"exit code {done['exit_code']}")
    check_result(lab, job, 60)
    tried = lab.attempts(job)
    check(len(tried) == 2 and tried[-1]["machine"] != tried[0]["machine"], f"two attempts on two machines: {tried}")
    check(b"resumed at" in lab.log(job), "the second machine began anew")
    wait_all_gone(lab, 120)
    return check_bill(lab, unit_s=unit_s)
