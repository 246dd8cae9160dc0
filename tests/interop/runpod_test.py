#!/usr/bin/env python3
"""The vendor's own Python package against the simulator. It speaks GraphQL alone: to {RUNPOD_API_BASE_URL}/graphql, with the key as a
bearer token and everything written into the query."""
import json

from bench import Client, check, main
from harness import wait_for

KEY = "rpa_INTEROP"
GPU = "NVIDIA GeForce RTX 4090"


def test(lab, python):
    lab.start_sim("--runpod-key", KEY)
    environment = {"RUNPOD_API_BASE_URL": lab.face("runpod"), "RUNPOD_API_KEY": KEY}
    client = Client(lab, python, "runpod", environment)

    def call(name, *arguments, fails=None, **named):
        ended, out, err = client.order({"call": [name, arguments, named]})
        if fails:
            check(ended != 0 and fails in err, f"{name}: status {ended}, expected {fails}: {out} {err[-1200:]}")
            return None
        check(ended == 0, f"{name}: status {ended}, {out[-600:]} {err[-1200:]}")
        return json.loads(out)

    def pod(number):
        return next((p for p in call("get_pods") if p["id"] == number), None)

    # The catalogue.
    types = call("get_gpus")
    check(any(t["id"] == GPU and t["memoryInGb"] == 24 for t in types), f"get_gpus: {types[:3]}")
    card = call("get_gpu", GPU, 1)
    check(card["id"] == GPU and card["lowestPrice"]["uninterruptablePrice"] > 0 and card["maxGpuCount"] >= 1, f"get_gpu: {card}")
    call("get_gpu", "NVIDIA Imagined 1", fails="No GPU found")

    # The account.
    user = call("get_user")
    check(user["id"] and user["networkVolumes"] == [], f"get_user: {user}")
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDvtl0Ha8Vw8O0zLq6Cr4XCKCQkDPRlNPiGEsuF8gP8a interop"
    check(call("update_user_settings", key)["pubKey"] == key, "update_user_settings")
    check(call("get_user")["pubKey"] == key, "the account's key is not kept")

    # One pod through its whole life.
    made = call("create_pod", "interop-one", "debian:12", gpu_type_id=GPU, cloud_type="SECURE", gpu_count=1, volume_in_gb=10,
                container_disk_in_gb=10, ports="22/tcp,8000/http", volume_mount_path="/workspace", env={"COLOUR": "blue"},
                docker_args="sleep 100000")
    number = made["id"]
    check(made["imageName"] == "debian:12" and "COLOUR=blue" in made["env"] and made["machine"]["podHostId"].startswith(number),
          f"create_pod: {made}")
    wait_for("the pod to have its ports", lambda: ((pod(number) or {}).get("runtime") or {}).get("ports"), 60)
    shown = pod(number)
    check(shown["name"] == "interop-one" and shown["desiredStatus"] == "RUNNING" and shown["gpuCount"] == 1 and shown["costPerHr"] > 0 and
          shown["machine"]["gpuDisplayName"] == "RTX 4090", f"get_pods: {shown}")
    check(any(p["privatePort"] == 22 and p["isIpPublic"] for p in shown["runtime"]["ports"]), f"ports: {shown['runtime']}")
    one = call("get_pod", number)
    check(one["id"] == number and one["volumeInGb"] == 10 and one["containerDiskInGb"] == 10, f"get_pod: {one}")
    check(call("get_pod", "nosuchpod00000") is None, "get_pod of none")

    check(call("stop_pod", number)["desiredStatus"] == "EXITED", "stop_pod")
    wait_for("the pod to have stopped", lambda: pod(number)["runtime"] is None, 60)
    check(call("resume_pod", number, 1)["desiredStatus"] == "RUNNING", "resume_pod")
    wait_for("the pod to run again", lambda: pod(number)["runtime"] is not None, 60)

    # A login for a registry, made, changed and deleted.
    login = call("create_container_registry_auth", "interop-login", "bot", "not-a-password")
    check(login["name"] == "interop-login", f"create_container_registry_auth: {login}")
    check(call("update_container_registry_auth", login["id"], "bot", "nor-this")["id"] == login["id"], "update_container_registry_auth")
    call("delete_container_registry_auth", login["id"])

    call("terminate_pod", number)
    wait_for("the pod to be gone", lambda: not call("get_pods"), 60)
    left = [m["id"] for m in lab.sim_ask("GET", "/state")["machines"] if m["exists"]]
    check(not left, f"the simulator still has {left}")
    call("terminate_pod", number, fails="pod not found to terminate")
    call("stop_pod", number, fails="pod not found to stop")
    call("create_pod", "interop-two", "debian:12", gpu_type_id="NVIDIA Imagined 1", fails="No GPU found")
    client.close()

    stranger = Client(lab, python, "runpod", {**environment, "RUNPOD_API_KEY": "rpa_WRONG"})
    ended, out, err = stranger.order({"call": ["get_pods", [], {}]})
    check(ended != 0 and "AuthenticationError" in err, f"a wrong key: {ended} {out} {err[-600:]}")
    stranger.close()


main("interop-runpod", "runpod", test)
