# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module on a small stand-in for a node: its links are a JSON file that stand-ins for ip, netplan, networkctl and systemd change.

The real ones have their turn in tests/testinfra/transaction.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gb10.cluster.plugins.module_utils._fabric import watch
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.options import ARGUMENT_SPEC, Paths
from ansible_collections.gb10.cluster.plugins.modules import fabric_transaction
from module_runner import program, run_module, use_programs

RAIL, TWIN, WAY = "enp1s0f0np0", "enP2p1s0f0np0", "enP7s7"
ADDRESS = "192.168.200.12/24"
RAILS = [{"netdev": RAIL, "address": ADDRESS}]
SESSION = "10.9.0.1 40000 10.9.0.2 22"
# One program under all names: argv[0] says which.
WORLD = """#!{python} -ES
import json, os, re, sys
base = {base!r}
name, argv = os.path.basename(sys.argv[0]), sys.argv[1:]
path = base + "/world.json"
world = json.load(open(path))
log = open(base + "/calls", "a")
if not {{"-j", "is-active", "list"}} & set(argv):
    log.write(" ".join([name, *argv]) + "\\n")
fails = world["fails"].get(" ".join([name, *argv[:2]]))
if fails:
    sys.exit(fails)
def addresses(name):
    return [dict(family="inet", local=a.split("/")[0], prefixlen=int(a.split("/")[1]), scope="global") for a in world["links"][name]["addresses"]]
if name == "ip" and argv[:2] == ["-j", "address"]:
    print(json.dumps([dict(ifname=n, mtu=l["mtu"], operstate="UP", flags=["LOWER_UP"] if l["carrier"] else [], link_type="ether",
                           address="4c:bb:47:00:00:12", addr_info=addresses(n)) for n, l in world["links"].items()]))
elif name == "ip" and argv[:2] == ["-o", "address"]:
    print("".join("4: x    inet %s brd\\n" % a for a in world["links"][argv[-1]]["addresses"]))
elif name == "ip" and argv[:2] == ["link", "set"] and "mtu" in argv:
    world["links"][argv[3]]["mtu"] = int(argv[5])
elif name == "ip" and argv[0] == "address":
    own = world["links"][argv[4]]["addresses"]
    own.append(argv[2]) if argv[1] == "add" else own.remove(argv[2])
elif name == "systemctl" and argv[0] == "is-active":
    print("\\n".join("active" if s in world["active"] else "inactive" for s in ("networkd", "NetworkManager")))
    sys.exit(3)
elif name == "networkctl" and argv[-1] == "list":
    print(json.dumps(dict(Interfaces=[dict(Name=n, AdministrativeState=l["setup"]) for n, l in world["links"].items()])))
elif name == "nmcli" and argv[-1] == "device":
    print("\\n".join("%s:%s:" % (n, l["nm"]) for n, l in world["links"].items()))
elif name in ("networkctl", "nmcli") and argv[-1] != "reload":
    ours = base + "/etc/netplan/60-gb10-fabric.yaml"
    text = open(ours).read() if os.path.exists(ours) else ""
    for link in argv[1:] if name == "networkctl" else [argv[-1].replace("netplan-", "")]:
        found = re.search(r"    " + link + r":\\n(?:      renderer.*\\n)?      addresses: \\[(\\S+)\\]\\n      mtu: (\\d+)", text)
        if not world["deaf"]:
            world["links"][link]["addresses"] = [found.group(1)] if found else []
        if found and not world["deaf"]:
            world["links"][link]["mtu"] = int(found.group(2))
json.dump(world, open(path + ".new", "w"))
os.rename(path + ".new", path)
"""

Run = Callable[..., dict[str, Any]]


class World:
    """The node and the module on it."""

    def __init__(self, base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.base = base
        self.paths = Paths(str(base))
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        links = {RAIL: ["configured"], TWIN: ["unmanaged"], WAY: ["unmanaged"]}
        self.world: dict[str, Any] = {"links": {}, "active": ["networkd"], "fails": {}, "deaf": False}
        for name, (setup,) in links.items():
            self.world["links"][name] = {"addresses": [], "mtu": 1500, "carrier": True, "setup": setup, "nm": "unmanaged"}
            (base / "sys/class/net" / name).mkdir(parents=True)
            (base / "sys/class/net" / name / "flags").write_text("0x1003\n")
        self.world["links"][WAY]["addresses"] = ["10.9.0.2/24"]
        self.write()
        for name in ("ip", "netplan", "networkctl", "nmcli", "systemctl", "systemd-run"):
            program(base / "bin", name, WORLD.format(python=sys.executable, base=str(base)))
        for folder in (self.paths.etc, self.paths.networkd):
            os.makedirs(folder)

    def write(self) -> None:
        (self.base / "world.json").write_text(json.dumps(self.world))

    def link(self, name: str) -> tuple[list[str], int]:
        link = json.loads((self.base / "world.json").read_text())["links"][name]
        return link["addresses"], link["mtu"]

    def calls(self) -> list[str]:
        path = self.base / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def tree(self) -> list[str]:
        """All files but those that every run leaves or that are the stand-in itself."""
        found = sorted(str(path.relative_to(self.base)) for path in self.base.rglob("*") if path.is_file())
        return [name for name in found if name.partition("/")[0] not in ("sys", "bin", "calls", "world.json", "run")]

    def run(self, session: str = SESSION, check: bool = False, **options: Any) -> dict[str, Any]:
        self._monkeypatch.setenv("SSH_CONNECTION", session)
        given = {"rails": RAILS, "watch": 0, "token": "0a", **options}
        return run_module(fabric_transaction.main, self._capsys, check, **given)

    def confirm(self, **options: Any) -> dict[str, Any]:
        return self.run(**{"session": "10.9.0.1 40001 10.9.0.2 22", "phase": "confirm", **options})


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> World:
    use_programs(tmp_path / "bin", monkeypatch)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(fabric_transaction, "Paths", lambda: Paths(str(tmp_path)))
    monkeypatch.setattr(watch, "SETTLE", 0.2)
    return World(tmp_path, monkeypatch, capsys)


def test_made_confirmed_and_given_back(world: World) -> None:
    before = world.tree()
    made = world.run()
    assert (made["failed"], made["changed"], made["pending"]) == (False, True, True)
    assert 40 < made["seconds_left"] <= 60
    assert world.link(RAIL) == ([ADDRESS], 9000)
    kept = world.confirm()
    assert (kept["failed"], kept["changed"], kept["state"]) == (False, True, "new")
    assert sorted(set(world.tree()) - set(before)) == ["etc/netplan/60-gb10-fabric.yaml", "var/lib/gb10/fabric/applied.json"]

    count = len(world.calls())
    again = world.run(token="0b")
    assert (again["changed"], again["commands"], "pending" in again) == (False, [], False)
    assert len(world.calls()) == count

    back = world.run(state="absent", token="0c")
    assert back["commands"][-1] == ["ip", "link", "set", "dev", RAIL, "mtu", "1500"]
    assert world.confirm(state="absent", token="0c")["changed"]
    assert world.link(RAIL) == ([], 1500)
    assert world.tree() == before
    assert world.run(state="absent", token="0d")["changed"] is False


def test_what_is_armed_comes_before_what_is_changed(world: World) -> None:
    world.run()
    calls = [call.split()[0] for call in world.calls() if "--root-dir" not in call]
    assert calls == ["systemctl", "systemd-run", "netplan", "networkctl", "networkctl"]


def test_check_mode(world: World) -> None:
    before = world.tree()
    result = world.run(check=True)
    assert result["changed"]
    assert [command[0] for command in result["commands"]] == ["systemd-run", "netplan", "networkctl", "networkctl"]
    assert f"addresses: [{ADDRESS}]" in result["diff"]["after"]
    assert world.tree() == before


def test_the_old_connection_confirms_nothing(world: World) -> None:
    world.run()
    assert world.confirm(session=SESSION)["same_connection"]
    assert os.path.exists(world.paths.journal)
    assert world.confirm()["changed"]


@pytest.mark.parametrize("state", ["present", "absent"])
def test_an_answer_that_was_lost_is_given_again(world: World, state: str) -> None:
    world.run()
    world.confirm()
    if state == "absent":
        world.run(state=state)
        world.confirm(state=state)
    again = world.confirm(state=state)
    assert (again["failed"], again["changed"]) == (False, True)


def test_nobody_confirms_what_is_not_theirs(world: World) -> None:
    nothing = world.confirm()
    assert nothing["msg"].startswith("There is no change of this run on the node")
    world.run()
    other = world.confirm(token="0f")
    assert (other["failed"], other["state"]) == (True, "old")
    assert "Another run has begun a change of its own" in other["msg"]
    assert os.path.exists(world.paths.journal)


def test_a_change_that_was_not_checked_is_taken_back_not_confirmed(world: World) -> None:
    world.run()
    journal = Path(world.paths.journal)
    journal.write_text(journal.read_text().replace('"applied"', '"prepared"'))
    result = world.confirm()
    assert "was interrupted on the node before it was checked, and was taken back" in result["msg"]
    assert world.link(RAIL) == ([], 1500)
    assert not os.path.exists(world.paths.file)


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ({"deaf": True}, f"{RAIL} did not get the address {ADDRESS}. The change was taken back; the node is as it was."),
        ({"fails": {"networkctl reload": "Refusing to reload"}}, "networkctl reload failed: Refusing to reload. The change was taken back"),
    ],
)
def test_a_change_that_does_not_work_is_taken_back(world: World, trouble: dict[str, Any], said: str) -> None:
    world.world.update(trouble)
    world.write()
    before = world.tree()
    result = world.run()
    assert (result["failed"], result["state"], result["changed"]) == (True, "old", False)
    assert said in result["msg"]
    assert world.tree() == before
    assert world.link(RAIL) == ([], 1500)
    assert "systemctl stop gb10-fabric-revert.timer" in world.calls()


@pytest.mark.parametrize(
    ("fails", "said"),
    [
        ("systemd-run --quiet --collect", "The timer that takes a change back could not be set (no). Nothing was changed."),
        ("netplan generate --root-dir", "netplan would not take the file: no. Nothing was changed."),
    ],
)
def test_without_a_way_back_nothing_is_changed(world: World, fails: str, said: str) -> None:
    world.world["fails"] = {fails: "no"}
    world.write()
    before = world.tree()
    assert world.run()["msg"] == said
    assert world.tree() == before


def test_a_pending_change_is_taken_back_first(world: World) -> None:
    world.run(rails=[{"netdev": TWIN, "address": "10.0.0.1/24"}])
    looked = world.run(check=True, token="0b")
    assert "was never confirmed and would be taken back first." in looked["messages"][0]
    assert looked["diff"]["before"] == ""
    result = world.run(token="0b")
    assert "was never confirmed and was taken back now." in result["messages"][0]
    assert (result["pending"], world.link(RAIL), world.link(TWIN)) == (True, ([ADDRESS], 9000), ([], 1500))


def test_a_reverted_change_is_told(world: World) -> None:
    world.run()
    os.rename(world.paths.journal, world.paths.reverted)
    os.unlink(world.paths.file)
    Path(world.paths.reason).write_text("1796065824 nobody confirmed it in time\n")
    late = world.confirm()
    assert "The node reverted the change at 2026-" in late["msg"]
    result = world.run(token="0b")
    assert result["messages"] == [result["messages"][0]]
    assert result["messages"][0].startswith("An earlier change was reverted at 2026-")
    assert result["messages"][0].endswith(": nobody confirmed it in time.")
    assert not os.path.exists(world.paths.reverted)


def test_a_link_that_is_dropped_is_given_back_and_the_other_left_alone(world: World) -> None:
    both = [*RAILS, {"netdev": TWIN, "address": "192.168.201.12/24"}]
    world.run(rails=both)
    world.confirm()
    result = world.run(token="0b")
    assert ["networkctl", "reconfigure", TWIN] in result["commands"]
    world.confirm(token="0b")
    assert world.link(TWIN) == ([], 1500)
    assert sorted(json.loads(Path(world.paths.applied).read_text())["before"]) == [RAIL]


def test_the_way_of_the_session_is_refused(world: World) -> None:
    result = world.run(rails=[{"netdev": WAY, "address": "10.9.0.3/24"}])
    assert result["msg"] == f"{WAY} carries this very session (10.9.0.2) and is never changed: reach the node another way, or leave {WAY} out."
    # Neither do wrong facts help.
    wrong = world.run(rails=[{"netdev": WAY, "address": "10.9.0.3/24"}], management={"interface": TWIN, "address": "10.9.0.2"})
    assert wrong["failed"]
    gone = world.run(management={"interface": WAY, "address": "10.9.0.77"})
    assert "The management address 10.9.0.77 is not on enP7s7 even now" in gone["msg"]
    assert not os.path.exists(world.paths.state)


def test_a_part_of_something_else_is_no_rail(world: World) -> None:
    (world.base / "sys/class/net" / RAIL / "upper_bond0").mkdir()
    assert world.run()["msg"] == f"{RAIL} is a part of bond0: a rail needs an interface of its own, so take it out of there."


def test_a_foreign_claim_is_named(world: World) -> None:
    other = world.base / "etc/netplan/40-cx7.yaml"
    other.write_text(f"network: {{version: 2, ethernets: {{{RAIL}: {{dhcp4: true}}}}}}")
    result = world.run()
    assert result["msg"].startswith(f"/etc/netplan/40-cx7.yaml turns on dhcp4 for {RAIL}, and files of others are never changed")
    other.write_text("network: [")
    assert "/etc/netplan/40-cx7.yaml cannot be read" in world.run()["msg"]
    other.unlink()
    profiles = world.base / "etc/systemd/network"
    profiles.mkdir(parents=True)
    (profiles / "05.network").write_text(f"[Match]\nName={RAIL}\n[Network]\nDHCP=yes\n")
    assert f"/etc/systemd/network/05.network configures {RAIL} as well (DHCP=yes)" in world.run()["msg"]
    assert not os.path.exists(world.paths.state)


def test_a_link_keeps_its_owner(world: World) -> None:
    (world.base / "etc/netplan/01.yaml").write_text("network: {version: 2, renderer: NetworkManager}")
    result = world.run()
    assert "renderer: networkd" in result["diff"]["after"]
    assert ["networkctl", "reconfigure", RAIL] in result["commands"]
    world.confirm()
    assert world.run(token="0b")["changed"] is False
    assert "netplan gives enP2p1s0f0np0 to NetworkManager, which does not run" in world.run(rails=[{"netdev": TWIN, "address": "10.0.0.1/24"}])["msg"]


def test_networkmanager_is_asked_by_name(world: World) -> None:
    world.world["active"] = ["NetworkManager"]
    world.world["links"][TWIN]["nm"] = "connected"
    world.write()
    result = world.run(rails=[{"netdev": TWIN, "address": "10.0.0.1/24"}])
    assert result["commands"][2:] == [["nmcli", "connection", "reload"], ["nmcli", "--wait", "15", "connection", "up", f"netplan-{TWIN}"]]
    assert "renderer: NetworkManager" in result["diff"]["after"]
    assert world.link(TWIN) == (["10.0.0.1/24"], 9000)


def test_a_rail_without_a_cable_is_not_tried_again_and_again(world: World) -> None:
    world.run()
    world.confirm()
    world.world = json.loads((world.base / "world.json").read_text())
    world.world["links"][RAIL].update(carrier=False, addresses=[])
    world.write()
    result = world.run(token="0b")
    assert (result["changed"], result["messages"]) == (False, [f"{RAIL} has no carrier: it gets its address when the cable is in."])


def test_a_missing_link(world: World) -> None:
    assert "There is no interface enp9 on this node" in world.run(rails=[{"netdev": "enp9", "address": "10.0.0.1/24"}])["msg"]


def test_a_file_that_is_not_ours_by_content(world: World) -> None:
    Path(world.paths.file).write_text("by hand")
    assert world.run()["msg"] == f"{world.paths.file} is not as this collection writes it: move it away and run again."


def test_root_and_options_are_asked_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert world.run(rails=[])["msg"].startswith("The rails cannot be changed like this: rails is empty")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "Set become: true" in world.run()["msg"]


class Taken(Exception):
    """The module asked for its arguments."""


def test_documentation_is_true(monkeypatch: pytest.MonkeyPatch) -> None:
    def take(self: AnsibleModule, argument_spec: dict[str, Any], **options: Any) -> None:
        assert options == {"supports_check_mode": True}
        raise Taken(argument_spec)

    monkeypatch.setattr(AnsibleModule, "__init__", take)
    with pytest.raises(Taken) as taken:
        fabric_transaction.main()
    assert taken.value.args[0] is ARGUMENT_SPEC

    def compare(documented: dict[str, Any], spec: dict[str, Any]) -> None:
        assert sorted(documented) == sorted(spec)
        for name, option in spec.items():
            for field in ("type", "default", "choices", "elements", "required"):
                assert documented[name].get(field) == option.get(field), f"{name}: {field}"
            assert all(sentence.endswith(".") for sentence in documented[name]["description"])
            compare(documented[name].get("suboptions", {}), option.get("options", {}))

    compare(yaml.safe_load(fabric_transaction.DOCUMENTATION)["options"], ARGUMENT_SPEC)
    assert yaml.safe_load(fabric_transaction.EXAMPLES)
    for entry in yaml.safe_load(fabric_transaction.RETURN).values():
        assert {"description", "returned", "type"} <= set(entry)
