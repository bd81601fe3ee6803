"""ibstat, ibdev2netdev, ibv_devinfo, show_gids and rdma: they read the emulated sysfs, as the real ones read the real."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

from .common import HCAS, NET, REAL, Port, active_mtu, output, ports, read
from .tree import guid_text


def _state(port: Port) -> str:
    """The port's state word in sysfs, the one truth of all these tools."""
    return read(HCAS / port.hca / "ports" / "1" / "state", "1: DOWN").split(": ")[-1]


def _ordered(settings: dict[str, Any]) -> list[Port]:
    by_hca = {port.hca: port for port in ports(settings)}
    return [by_hca[name] for name in settings["fabric"]["order"] if name in by_hca]


def ibdev2netdev(settings: dict[str, Any], argv: list[str]) -> int:
    """HCA, port, netdev and its state."""
    for port in _ordered(settings):
        word = "Up" if _state(port) == "ACTIVE" else "Down"
        if "-v" in argv:
            print(f"{port.pci} {port.hca} ({settings['fabric']['hca_type']} - ) port 1 ==> {port.netdev} ({word})")
        else:
            print(f"{port.hca} port 1 ==> {port.netdev} ({word})")
    return 0


def ibstat(settings: dict[str, Any], argv: list[str]) -> int:
    """The recorded block, once for each HCA, with its own state and GUIDs."""
    names = [word for word in argv if not word.startswith("-")]
    wanted = [port for port in _ordered(settings) if not names or port.hca == names[0]]
    if "-l" in argv:
        print("\n".join(port.hca for port in _ordered(settings)))
        return 0
    if not wanted:
        sys.stderr.write(f"ibpanic: [{os.getpid()}] main: '{names[0]}' IB device can't be found: : (No such device)\n")
        return 255
    for port in wanted:
        text = output("ibstat-ca.txt")
        up = _state(port) == "ACTIVE"
        rate = read(HCAS / port.hca / "ports" / "1" / "rate", "40").split()[0]
        mac = int(port.mac.replace(":", ""), 16)
        port_guid = ((mac >> 24) ^ (2 << 16)) << 40 | 0xFFFE << 24 | mac & 0xFFFFFF
        for pattern, value in (
            (r"(?<=^CA ').*(?=')", port.hca),
            (r"(?<=Firmware version: ).*", settings["fabric"]["fw_ver"]),
            (r"(?<=Node GUID: ).*", f"0x{port.guid:016x}"),
            (r"(?<=System image GUID: ).*", f"0x{port.image_guid:016x}"),
            (r"(?<=\tState: ).*", "Active" if up else "Down"),
            (r"(?<=Physical state: ).*", "LinkUp" if up else "Disabled"),
            (r"(?<=Rate: ).*", rate),
            (r"(?<=Port GUID: ).*", f"0x{port_guid:016x}"),
        ):
            text = re.sub(pattern, value, text, flags=re.MULTILINE)
        sys.stdout.write(text)
    return 0


def ibv_devinfo(settings: dict[str, Any], argv: list[str]) -> int:
    """The recorded block, once for each HCA, with its own state, GUIDs and active MTU."""
    names = [word for word in argv if not word.startswith("-")]
    for port in sorted(ports(settings), key=lambda one: one.number):
        if names and port.hca != names[0]:
            continue
        text = output("ibv_devinfo-hca.txt")
        up = _state(port) == "ACTIVE"
        size, code = active_mtu(port.mtu, up)
        for pattern, value in (
            (r"(?<=hca_id:\t).*", port.hca),
            (r"(?<=fw_ver:\t\t\t\t).*", settings["fabric"]["fw_ver"]),
            (r"(?<=node_guid:\t\t\t).*", guid_text(port.guid)),
            (r"(?<=sys_image_guid:\t\t\t).*", guid_text(port.image_guid)),
            (r"(?<=\tstate:\t\t\t).*", "PORT_ACTIVE (4)" if up else "PORT_DOWN (1)"),
            (r"(?<=active_mtu:\t\t).*", f"{size} ({code})"),
        ):
            text = re.sub(pattern, value, text)
        sys.stdout.write(text)
    return 0


def show_gids(settings: dict[str, Any], argv: list[str]) -> int:
    """The GID tables in the columns of the real script."""
    print("DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV")
    print("---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---")
    count = 0
    for port in _ordered(settings):
        one = HCAS / port.hca / "ports" / "1"
        for entry in sorted((one / "gid_attrs" / "types").iterdir(), key=lambda path: int(path.name)):
            gid = read(one / "gids" / entry.name)
            version = "v2" if read(entry) == "RoCE v2" else "v1"
            address = ""
            if gid.startswith("0000:0000:0000:0000:0000:ffff:"):
                octets = bytes.fromhex(gid[-9:].replace(":", ""))
                address = ".".join(str(octet) for octet in octets) + "  "
            print(f"{port.hca}\t1\t{entry.name}\t{gid}\t{address:<14}\t{version}\t{port.netdev}")
            count += 1
    print(f"n_gids_found={count}")
    return 0


def rdma(settings: dict[str, Any], argv: list[str]) -> int:
    """``rdma link`` and ``rdma dev``, plain or ``-j``; the rest goes to iproute2's own program."""
    as_json = any(word in ("-j", "--json", "-jp", "-pj") for word in argv)
    words = [word for word in argv if not word.startswith("-")]
    if not words or words[0] not in ("link", "dev", "l", "d") or (len(words) > 1 and words[1] not in ("show", "list")):
        real = REAL / "rdma"
        if real.exists():
            os.execv(real, ["rdma", *argv])
        return 1
    only = words[2].split("/")[0] if len(words) > 2 else None
    wanted = [port for port in sorted(ports(settings), key=lambda one: one.number) if only in (None, port.hca)]
    rows: list[dict[str, Any]] = []
    for port in wanted:
        up = _state(port) == "ACTIVE"
        if words[0][0] == "l":
            physical = "LINK_UP" if up else "DISABLED"
            state = "ACTIVE" if up else "DOWN"
            row: dict[str, Any] = {"ifindex": port.number, "ifname": port.hca, "port": 1, "state": state, "physical_state": physical}
            index = int(read(NET / port.netdev / "ifindex", "0"))
            rows.append({**row, "netdev": port.netdev, "netdev_index": index})
            if not as_json:
                print(f"link {port.hca}/1 state {state} physical_state {physical} netdev {port.netdev} ")
        else:
            guid = f"{port.guid:016x}"
            pairs = ":".join(guid[i : i + 4] for i in range(0, 16, 4))
            image = guid_text(port.image_guid)
            fw_ver = settings["fabric"]["fw_ver"]
            rows.append({"ifindex": port.number, "ifname": port.hca, "node_type": "ca", "fw": fw_ver, "node_guid": pairs})
            if not as_json:
                print(f"{port.number}: {port.hca}: node_type ca fw {fw_ver} node_guid {pairs} sys_image_guid {image} ")
    if as_json:
        print(json.dumps(rows))
    return 0
