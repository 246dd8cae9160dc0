#!/usr/bin/env python3
"""The vendor's own command line against the simulator: what it sends is understood, and what it reads is there."""
import json
import time

from bench import Client, check, main
from harness import wait_for

KEY = "vast-interop"
SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDvtl0Ha8Vw8O0zLq6Cr4XCKCQkDPRlNPiGEsuF8gP8a interop"


def test(lab, python):
    lab.start_sim("--vastai-key", KEY)
    client = Client(lab, python, "vastai", {"VAST_URL": lab.face("vastai"), "VAST_API_KEY": KEY, "VASTAI_NO_UPDATE_CHECK": "1"})

    def vast(*words, refused=""):
        """One command. Least intervals between calls hold for this client as for any: it is asked again."""
        def once():
            ended, out, err = client.order({"argv": [str(word) for word in words]})
            if "429" in err or "too frequent" in out + err:
                return None
            # Version 1.9.1 ends with 0 after some refusals, so its words are what counts.
            said = err + out
            good = refused in said if refused else ended == 0 and "Failed with error" not in said and "Traceback" not in said
            check(good, f"vastai {' '.join(map(str, words))}: status {ended}, {out[-600:]} {err[-1200:]}")
            return (out, err)
        return wait_for(f"vastai {words}", once, 60, 0.2)

    def raw(*words):
        out, _ = vast(*words, "--raw")
        return json.loads(out)

    def instance(number):
        found = [i for i in raw("show", "instances") if i["id"] == number]
        return found[0] if found else None

    def wait_status(number, *states):
        return wait_for(f"{number} to be {states}", lambda: (lambda i: i if i and i["actual_status"] in states else None)(instance(number)), 60)

    # Offers: filters in the client's own spelling, and the order that it asks for.
    offers = raw("search", "offers", "num_gpus=1 gpu_name=RTX_4090 reliability>0.9 disk_space>=20", "-o", "dph_total")
    check(offers and all(o["gpu_name"] == "RTX 4090" and o["num_gpus"] == 1 for o in offers), f"other offers than asked for: {offers[:2]}")
    prices = [o["dph_total"] for o in offers]
    check(prices == sorted(prices), f"not in the order asked for: {prices}")
    check(not raw("search", "offers", "num_gpus=1 gpu_name=RTX_4090 dph_total<0.001"), "a filter that nothing fits gives offers")
    check("RTX_4090" in vast("search", "offers", "gpu_name=RTX_4090")[0], "the table of offers")

    # An instance on demand.
    offer = offers[0]
    made = raw("create", "instance", offer["id"], "--image", "debian:12", "--disk", 20, "--label", "interop-one", "--ssh", "--direct",
               "--env", "-e COLOUR=blue -p 8000:8000", "--onstart-cmd", "sleep 100000")
    check(made["success"] is True, f"create: {made}")
    number = made["new_contract"]
    shown = wait_status(number, "running")
    check(shown["label"] == "interop-one" and shown["gpu_name"] == "RTX 4090" and shown["extra_env"]["COLOUR"] == "blue",
          f"show instances: {shown}")
    check("8000/tcp" in shown["ports"] and shown["is_bid"] is False, f"ports and kind: {shown}")
    check(raw("show", "instance", number)["id"] == number, "show instance")
    check(str(number) in vast("show", "instance", number)[0], "the table of one instance")
    check(vast("ssh-url", number)[0].startswith("ssh://root@"), "ssh-url")
    vast("create", "instance", offer["id"], "--image", "debian:12", "--disk", 20, "--cancel-unavail", refused="no_such_ask")

    vast("label", "instance", number, "interop-two")
    check(instance(number)["label"] == "interop-two", "the label is not the new one")
    filtered = raw("show", "instances-v1", "--label", "interop-two")
    check([i["id"] for i in (filtered["instances"] if isinstance(filtered, dict) else filtered)] == [number], f"by label: {filtered}")

    # Keys of the account and of the instance.
    vast("create", "ssh-key", SSH_KEY, "-y")
    keys = raw("show", "ssh-keys")
    check(len(keys) == 1 and SSH_KEY in (keys[0].get("key"), keys[0].get("public_key")), f"show ssh-keys: {keys}")
    vast("attach", "ssh", number, SSH_KEY)
    vast("delete", "ssh-key", keys[0]["id"])

    # Down and up again, and what keeps the machine.
    vast("stop", "instance", number)
    wait_status(number, "stopped", "exited")
    vast("start", "instance", number)
    wait_status(number, "running")
    vast("reboot", "instance", number)
    wait_status(number, "running")
    vast("recycle", "instance", number)
    wait_status(number, "running")
    vast("logs", number, "--tail", 5)

    # An interruptible one, and its bid.
    bids = raw("search", "offers", "num_gpus=1", "--interruptible", "-o", "dph_total")
    bid = [o for o in bids if o["min_bid"]][0]
    second = raw("create", "instance", bid["id"], "--image", "debian:12", "--disk", 10, "--bid_price", round(bid["min_bid"] + 0.02, 3),
                 "--label", "interop-bid")["new_contract"]
    shown = wait_status(second, "running")
    check(shown["is_bid"] is True and abs(shown["dph_base"] - round(bid["min_bid"] + 0.02, 3)) < 1e-6, f"the bid: {shown['dph_base']}")
    vast("change", "bid", second, "--price", round(bid["min_bid"] + 0.05, 3))
    check(abs(instance(second)["dph_base"] - round(bid["min_bid"] + 0.05, 3)) < 1e-6, "the raised bid")

    # Money.
    user = raw("show", "user")
    check(user["credit"] > 0 and "api_key" not in user, f"show user: {user}")
    day = 86400
    charges = raw("show", "invoices-v1", "--charges", "--start-date", int(time.time()) - day, "--end-date", int(time.time()) + 30 * day)
    ours = [c for c in charges["results"] if c["source"] == f"instance-{number}"]
    check(ours and ours[0]["amount"] > 0 and ours[0]["metadata"]["label"] == "interop-two", f"charges: {charges}")
    raw("show", "invoices-v1", "--invoices", "--start-date", int(time.time()) - day, "--end-date", int(time.time()) + day)
    raw("show", "deposit", number)

    # Away with both, by the simulator's own record too.
    vast("destroy", "instance", number, "-y")
    vast("destroy", "instance", second, "-y")
    wait_for("both to be gone", lambda: not raw("show", "instances"), 60)
    left = [m["id"] for m in lab.sim_ask("GET", "/state")["machines"] if m["exists"]]
    check(not left, f"the simulator still has {left}")
    vast("destroy", "instance", number, "-y", refused="404")
    client.close()

    # A key that is none: the client must be able to tell.
    stranger = Client(lab, python, "vastai", {"VAST_URL": lab.face("vastai"), "VAST_API_KEY": "wrong", "VASTAI_NO_UPDATE_CHECK": "1"})
    ended, out, err = stranger.order({"argv": ["show", "user"]})
    check("Invalid user key" in out + err, f"a wrong key: {ended} {out} {err}")
    stranger.close()


main("interop-vastai", "vastai", test)
