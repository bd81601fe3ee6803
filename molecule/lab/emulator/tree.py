"""The emulated parts of /sys and /proc: made once in a tmpfs, mounted over the real ones, rewritten as things change."""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from .common import LIB, NET, RUN, Port, write_in_place

GIDS = 16
EMPTY_GID = ":".join(["0000"] * 8)
SYS = RUN / "sys"


def mount(*args: str) -> None:
    """One mount command; a failure ends the emulator, which systemd then shows."""
    subprocess.run(["mount", *args], check=True, stdin=subprocess.DEVNULL, timeout=20)


def mounted(target: Path) -> bool:
    """Whether something is mounted exactly there."""
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        return any(line.split()[4] == str(target) for line in table)


def put(path: Path, text: str, mode: int = 0o644) -> None:
    """Make a static file of the tree."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_in_place(path, text + "\n")
    path.chmod(mode)


def link(path: Path, target: str) -> None:
    """Make a symbolic link of the tree."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_symlink():
        path.symlink_to(target)


def guid_text(guid: int) -> str:
    """A GUID as sysfs and ibv_devinfo print it."""
    text = f"{guid:016x}"
    return ":".join(text[i : i + 4] for i in range(0, 16, 4))


def build(settings: dict[str, Any], ports: list[Port]) -> None:
    """Everything that does not change while the node runs."""
    fabric = settings["fabric"]
    for name in ("infiniband", "infiniband_verbs"):
        (SYS / name).mkdir(parents=True, exist_ok=True)
    for port in ports:
        hca = SYS / "infiniband" / port.hca
        put(hca / "board_id", fabric["board_id"])
        put(hca / "fw_ver", fabric["fw_ver"])
        put(hca / "hca_type", fabric["hca_type"])
        put(hca / "hw_rev", "0")
        put(hca / "node_type", "1: CA")
        put(hca / "node_desc", settings["host"] + " " + port.hca)
        put(hca / "node_guid", guid_text(port.guid))
        put(hca / "sys_image_guid", guid_text(port.image_guid))
        link(hca / "device", f"../../../bus/pci/devices/{port.pci}")
        one = hca / "ports" / "1"
        for name, text in (
            ("link_layer", "Ethernet"), ("lid", "0x0"), ("lid_mask_count", "0"), ("sm_lid", "0x0"), ("sm_sl", "0"),
            ("cap_mask", "0x00010000"), ("has_smi", "0"), ("pkeys/0", "0xffff"),
        ):  # fmt: skip
            put(one / name, text)
        for name in (
            "symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_xmit_discards", "port_xmit_wait",
        ):  # fmt: skip
            put(one / "counters" / name, "0")
        for name in ("out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "np_cnp_sent", "rp_cnp_handled", "out_of_buffer"):
            put(one / "hw_counters" / name, "0")
        for folder in ("gids", "gid_attrs/types", "gid_attrs/ndevs"):
            (one / folder).mkdir(parents=True, exist_ok=True)
        verbs = SYS / "infiniband_verbs" / f"uverbs{port.number}"
        put(verbs / "ibdev", port.hca)
        put(verbs / "dev", f"231:{192 + port.number}")
        put(verbs / "abi_version", "1")
        put(SYS / "infiniband_verbs" / "abi_version", "6")
        _build_pci(port, fabric)
        _build_netdev(port)
    for name, text in settings["dmi"].items():
        put(SYS / "dmi" / "id" / name, text, 0o444)
    for name, text in settings["dmi_secret"].items():
        put(SYS / "dmi" / "id" / name, text, 0o400)
    put(SYS / "pci" / "000f:01:00.0" / "vendor", "0x10de")
    put(SYS / "pci" / "000f:01:00.0" / "device", "0x2e12")
    put(SYS / "pci" / "000f:01:00.0" / "class", "0x030000")
    put(SYS / "pci" / "000f:01:00.0" / "numa_node", "0")
    if fabric["hotplug"]:
        put(SYS / "platform" / "MTKP0001:00" / "uevent", "DRIVER=cx7-pcie-hotplug")
        hotplug = SYS / "platform" / "MTKP0001:00" / "pcie_hotplug"
        put(hotplug / "hotplug_enabled", "1")
        put(hotplug / "debug_state", "1" if ports else "0")
    for source in sorted((LIB / "proc").iterdir()):
        if source.name == "driver-nvidia-version":
            put(RUN / "proc" / "driver" / "nvidia" / "version", source.read_text().rstrip("\n"))
        elif source.name != "meminfo":
            put(RUN / "proc" / source.name, source.read_text().rstrip("\n"))


def _build_pci(port: Port, fabric: dict[str, Any]) -> None:
    """The PCI function of a port, with the two links that tools use to find netdev and HCA from each other."""
    pci = SYS / "pci" / port.pci
    for name, text in (
        ("vendor", "0x15b3"), ("device", "0x1021"), ("class", "0x020000"), ("numa_node", "0"), ("enable", "1"),
        ("current_link_speed", "32.0 GT/s PCIe"), ("current_link_width", "4"), ("max_link_speed", "32.0 GT/s PCIe"),
        ("max_link_width", "4"), ("uevent", f"DRIVER=mlx5_core\nPCI_SLOT_NAME={port.pci}"),
    ):  # fmt: skip
        put(pci / name, text)
    link(pci / "net" / port.netdev, f"../../../../../class/net/{port.netdev}")
    link(pci / "infiniband" / port.hca, f"../../../../../class/infiniband/{port.hca}")
    (RUN / "drivers" / "mlx5_core").mkdir(parents=True, exist_ok=True)
    link(pci / "driver", str(RUN / "drivers" / "mlx5_core"))


def _build_netdev(port: Port) -> None:
    """What a veth's own folder says differently from a real NIC's."""
    folder = SYS / "netdev" / port.netdev
    put(folder / "speed", "-1")
    put(folder / "duplex", "unknown")


def mount_all() -> None:
    """Mount the tree. Every step looks first, so that a restarted emulator stacks nothing."""
    (RUN / "net").mkdir(parents=True, exist_ok=True)
    classes = RUN / "class"
    for name in ("infiniband", "infiniband_verbs", "dmi"):
        (classes / name).mkdir(parents=True, exist_ok=True)
    if not mounted(Path("/sys/class")):
        # The overlay would remember which netdevs it has seen, so the real folder is put back on top of it.
        mount("--bind", "/sys/class/net", str(RUN / "net"))
        mount("-t", "overlay", "overlay", "-o", f"ro,lowerdir={classes}:/sys/class", "/sys/class")
        mount("--bind", str(RUN / "net"), "/sys/class/net")
    for name in ("infiniband", "infiniband_verbs", "dmi"):
        if not mounted(Path("/sys/class") / name):
            mount("--bind", str(SYS / name), f"/sys/class/{name}")
    _mount_pci()
    _mount_platform()
    for name in ("meminfo", "cmdline", "swaps", "driver"):
        if (RUN / "proc" / name).exists() and not mounted(Path("/proc") / name):
            mount("--bind", str(RUN / "proc" / name), f"/proc/{name}")


def _mount_pci() -> None:
    """The PCI devices of a Spark instead of the host's, which are not the node's to show."""
    devices = Path("/sys/bus/pci/devices")
    if not devices.exists() and not mounted(Path("/sys/bus")):
        (RUN / "bus" / "pci" / "devices").mkdir(parents=True, exist_ok=True)
        mount("-t", "overlay", "overlay", "-o", f"ro,lowerdir={RUN / 'bus'}:/sys/bus", "/sys/bus")
    if not mounted(devices):
        mount("--bind", str(SYS / "pci"), str(devices))


def _mount_platform() -> None:
    """The device that switches the adapter, beside the host's own platform devices, on a machine that has it."""
    devices = Path("/sys/bus/platform/devices")
    if (SYS / "platform").exists() and not mounted(devices):
        mount("-t", "overlay", "overlay", "-o", f"ro,lowerdir={SYS / 'platform'}:{devices}", str(devices))


def mount_netdev(port: Port) -> None:
    """Lay those files over a (new) veth's own. Not an overlay of the folder: networkd refuses what is not sysfs."""
    folder = Path(os.path.realpath(NET / port.netdev))
    if not port.present or mounted(folder / "speed"):
        return
    for source in (SYS / "netdev" / port.netdev).iterdir():
        mount("--bind", str(source), str(folder / source.name))


def addresses() -> dict[str, list[str]]:
    """The IPv4 addresses of every netdev, in the order in which they were added."""
    listing = subprocess.run(["ip", "-4", "-j", "addr", "show"], capture_output=True, text=True, timeout=20, check=False).stdout
    try:
        found = json.loads(listing or "[]")
    except ValueError:
        return {}
    return {link["ifname"]: [one["local"] for one in link.get("addr_info", [])] for link in found if link.get("ifname")}


def gid_rows(port: Port, ipv4: list[str], gap: int) -> list[tuple[str, str]]:
    """The GID table of a port: link-local first, then each IPv4 address, each as RoCE v1 and v2; between them slots that others have left."""
    octets = bytes.fromhex(port.mac.replace(":", ""))
    eui = bytes([octets[0] ^ 2]) + octets[1:3] + b"\xff\xfe" + octets[3:]
    wanted = [bytes.fromhex("fe80000000000000") + eui]
    wanted += [b""] * gap + [b"\0" * 10 + b"\xff\xff" + ipaddress.IPv4Address(one).packed for one in ipv4]
    rows = []
    for gid in wanted:
        if not gid:
            rows.append((EMPTY_GID, ""))
            continue
        text = gid.hex()
        for kind in ("IB/RoCE v1", "RoCE v2"):
            rows.append((":".join(text[i : i + 4] for i in range(0, 32, 4)), kind))
    return rows[:GIDS]


def refresh(settings: dict[str, Any], ports: list[Port], ipv4: dict[str, list[str]]) -> None:
    """Everything that follows the cable and the addresses."""
    for port in ports:
        one = SYS / "infiniband" / port.hca / "ports" / "1"
        put(one / "state", "4: ACTIVE" if port.up else "1: DOWN")
        put(one / "phys_state", "5: LinkUp" if port.up else "3: Disabled")
        put(one / "rate", "200 Gb/sec (4X HDR)" if port.up else "40 Gb/sec (4X QDR)")
        rows = gid_rows(port, ipv4.get(port.netdev, []), settings["fabric"]["gid_gap"])
        for index in range(GIDS):
            gid, kind = rows[index] if index < len(rows) else (EMPTY_GID, "")
            put(one / "gids" / str(index), gid)
            for folder, text in (("types", kind), ("ndevs", port.netdev)):
                attribute = one / "gid_attrs" / folder / str(index)
                if kind:
                    put(attribute, text)
                else:
                    attribute.unlink(missing_ok=True)
        own = SYS / "netdev" / port.netdev
        put(own / "speed", str(settings["fabric"]["link_mbps"]) if port.up else "-1")
        put(own / "duplex", "full" if port.up else "unknown")
        mount_netdev(port)


def refresh_counters(ports: list[Port]) -> None:
    """RDMA byte counters (in words of four bytes, as the real ones) follow the bytes on the cable."""
    for port in ports:
        statistics = NET / port.netdev / "statistics"
        counters = SYS / "infiniband" / port.hca / "ports" / "1" / "counters"
        for name, source, divisor in (
            ("port_xmit_data", "tx_bytes", 4), ("port_rcv_data", "rx_bytes", 4),
            ("port_xmit_packets", "tx_packets", 1), ("port_rcv_packets", "rx_packets", 1),
        ):  # fmt: skip
            try:
                value = int((statistics / source).read_text()) // divisor
            except (OSError, ValueError):
                value = 0
            put(counters / name, str(value))
