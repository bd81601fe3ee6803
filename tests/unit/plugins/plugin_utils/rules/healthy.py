# Copyright: the gb10.cluster engineers
# SPDX-License-Identifier: GPL-3.0-or-later
"""A healthy pair, made from the recording of one idle Spark: both twins of the cabled cage addressed, and everything asked that can be asked.

What the recording was not asked yet is answered as such a machine does: an installed kernel that is the running one, a journal that ends with
a shutdown, a toolkit of the present, ufw switched off, netplan's own file for the rails.
"""

from __future__ import annotations

import json
from typing import Any

from replay import Machine, Patch, all_of, answers, folder, holds, lacks, rows

HEAD, WORKER, THIRD = "spark-head", "spark-worker", "spark-third"
RECORDED = "spark-idle"
RAILS = ("enp1s0f1np1", "enP2p1s0f1np1")
HCAS = ("rocep1s0f1", "roceP2p1s0f1")
RDMA = "/sys/class/infiniband"
NETPLAN = "/etc/netplan/40-cx7.yaml"
CACHE = "/home/user/.cache/huggingface"
HUB = f"{CACHE}/hub"
DRIVER = "580.142"
KERNEL = "6.17.0-1014-nvidia"
ALL_CLEAR = "Linux version 6.17.0-1014-nvidia (buildd@bos03-arm64-001)\n"
SMI = ("nvidia-smi", "--query-gpu=")
_HEADER = (
    "index, name, pci.bus_id, driver_version, compute_cap, temperature.gpu, utilization.gpu [%], power.draw [W], memory.total [MiB], "
    "clocks.current.sm [MHz], clocks.max.sm [MHz], pstate\n"
)


def smi(utilization: int = 0, power: float = 4.32, clock: int = 208, memory: str = "[N/A]", driver: str = DRIVER) -> Patch:
    """What nvidia-smi says of the GPU."""
    row = f"0, NVIDIA GB10, 0000000F:01:00.0, {driver}, 12.1, 36, {utilization} %, {power} W, {memory}, {clock} MHz, 3003 MHz, P8\n"
    return answers(*SMI, out=_HEADER + row)


def address(netdev: str, *addresses: str, mtu: int = 9000, prefix: int = 24, up: bool = True, mac: str | None = None) -> Patch:
    """The addresses of an interface, its MTU, and whether it has a link."""

    def change(links: list[dict[str, Any]]) -> None:
        link = next(each for each in links if each["ifname"] == netdev)
        scope = ["link" if each.startswith("169.254.") else "global" for each in addresses]
        inet = [{"family": "inet", "local": each, "prefixlen": prefix, "scope": kind} for each, kind in zip(addresses, scope)]
        link["addr_info"] = inet + [each for each in link["addr_info"] if each["family"] == "inet6"]
        link["mtu"], link["operstate"] = mtu, "UP" if up else "DOWN"
        link["flags"] = ["BROADCAST", "MULTICAST", "UP", "LOWER_UP"] if up else ["NO-CARRIER", "BROADCAST", "MULTICAST", "UP"]
        link["address"] = mac or link["address"]

    return rows(change, "ip", "-j", "-s", "addr")


def link(netdev: str, hca: str, up: bool) -> Patch:
    """The RDMA side of a port."""
    state, rate = ("4: ACTIVE", "200 Gb/sec (4X HDR)") if up else ("1: DOWN", "40 Gb/sec (4X QDR)")
    return all_of(
        holds(f"{RDMA}/{hca}/ports/1/state", f"{state}\n"),
        holds(f"{RDMA}/{hca}/ports/1/rate", f"{rate}\n"),
        holds(f"/sys/class/net/{netdev}/speed", "200000\n" if up else "-1\n"),
    )


def gids(hca: str, *addresses: str, first: int = 2) -> Patch:
    """The GID table: link-local at 0 and 1, each IPv4 address as RoCE v1 and v2 from ``first`` on."""
    port = f"{RDMA}/{hca}/ports/1"
    table = dict.fromkeys(range(2, 10), "0000:" * 7 + "0000")
    kinds: dict[int, str] = {}
    for number, text in enumerate(addresses):
        octets = [int(part) for part in text.split(".")]
        for offset, kind in enumerate(("IB/RoCE v1", "RoCE v2")):
            index = first + 2 * number + offset
            table[index] = "0000:0000:0000:0000:0000:ffff:{:02x}{:02x}:{:02x}{:02x}".format(*octets)
            kinds[index] = kind
    return all_of(
        *(lacks(f"{port}/gid_attrs/types/{index}") for index in table if index not in kinds),
        *(holds(f"{port}/gids/{index}", f"{gid}\n") for index, gid in table.items()),
        *(holds(f"{port}/gid_attrs/types/{index}", f"{kind}\n") for index, kind in kinds.items()),
    )


def routes(*rails: str, more: tuple[tuple[str, str], ...] = (), default: str | None = "enP7s7") -> Patch:
    """The routing table: rails are addresses, one for each of RAILS; further ones are pairs of network and interface."""
    found: list[dict[str, Any]] = [{"dst": "default", "gateway": "192.168.1.1", "dev": default, "flags": []}] if default else []
    found += [{"dst": f"{each.rpartition('.')[0]}.0/24", "dev": netdev, "flags": []} for each, netdev in zip(rails, RAILS)]
    found += [{"dst": "192.168.1.0/24", "dev": "enP7s7", "flags": []}, {"dst": "172.17.0.0/16", "dev": "docker0", "flags": ["linkdown"]}]
    return answers("ip", "-4", "-j", "route", out=json.dumps([*found, *({"dst": dst, "dev": dev, "flags": []} for dst, dev in more)]))


def active_mtu(value: str = "4096 (5)", hcas: tuple[str, ...] = HCAS) -> Patch:
    """What ibv_devinfo says of the packets of these HCAs."""

    def patch(machine: Machine) -> None:
        (entry,) = machine.matching(("ibv_devinfo",))
        blocks = entry["stdout"].split("hca_id:")
        for i, block in enumerate(blocks):
            if block.strip().split("\n")[0].strip() in hcas:
                blocks[i] = block.replace("active_mtu:\t\t1024 (3)", f"active_mtu:\t\t{value}").replace(
                    "active_mtu:\t\t4096 (5)", f"active_mtu:\t\t{value}"
                )
        entry["stdout"] = "hca_id:".join(blocks)

    return patch


def neighbours(*entries: tuple[str, str, str | None, str]) -> Patch:
    """The neighbour table: address, interface, hardware address, state."""
    return answers("ip", "-4", "-j", "neigh", out=_table(*entries))


def heard(*entries: tuple[str, str]) -> Patch:
    """Who answered to an echo to all nodes on an interface: interface and hardware address."""
    table = _table(*((f"fe80::{i + 1}", dev, mac, "STALE") for i, (dev, mac) in enumerate(entries)))
    return all_of(answers("ping", "-6"), answers("ip", "-6", "-j", "neigh", out=table))


def _table(*entries: tuple[str, str, str | None, str]) -> str:
    return json.dumps([{"dst": dst, "dev": dev, **({"lladdr": mac} if mac else {}), "state": [state]} for dst, dev, mac, state in entries])


def netplan(first: str, second: str, path: str = NETPLAN) -> Patch:
    """A netplan file with both rails."""
    lines = [f"    {name}:\n      addresses: [{each}/24]\n      mtu: 9000" for name, each in zip(RAILS, (first, second)) if each]
    return holds(path, "network:\n  version: 2\n  renderer: networkd\n  ethernets:\n" + "\n".join(lines) + "\n")


def containers(*entries: dict[str, Any]) -> Patch:
    """The containers, as docker inspect shows them."""
    ids = "".join(f"{entry['Id']}\n" for entry in entries)
    return all_of(answers("docker", "ps", out=ids), answers("docker", "container", "inspect", out=json.dumps(entries)))


def container(name: str = "vllm_node", env: tuple[str, ...] = (), running: bool = True, **changes: Any) -> dict[str, Any]:
    """A container of somebody else. ``changes`` are keys of HostConfig where they are capitalised, of the container else (``labels``…)."""
    number = sum(ord(letter) * 7**i for i, letter in enumerate(name))
    host = {"NetworkMode": "host", "RestartPolicy": {"Name": changes.pop("restart", "unless-stopped")}, "IpcMode": "private", "ShmSize": 67108864}
    host |= {key: value for key, value in changes.items() if key[0].isupper()}
    return {
        "Id": f"{number:064x}",
        "Name": f"/{name}",
        "Image": f"sha256:{1:064x}",
        "RestartCount": changes.get("restarts", 0),
        "Created": "2026-11-29T10:00:00Z",
        "Path": changes.get("path", "vllm"),
        "Args": ["serve"],
        "State": {
            "Status": changes.get("status", "running" if running else "exited"),
            "Running": running,
            "Pid": 4711 if running else 0,
            "ExitCode": 0,
        },
        "HostConfig": host,
        "Config": {"Image": "vllm-node:latest", "Labels": changes.get("labels", {}), "Env": list(env), "ExposedPorts": changes.get("ports", {})},
        "Mounts": [],
        "NetworkSettings": {"Ports": {}},
    }


def images(*entries: dict[str, Any]) -> Patch:
    """The images, as docker inspect shows them."""
    ids = "".join(f"{entry['Id']}\n" for entry in entries)
    return all_of(answers("docker", "image", "ls", out=ids), answers("docker", "image", "inspect", out=json.dumps(entries)))


def image(
    tag: str, number: int = 1, digest: str | None = None, layers: tuple[str, ...] = (), env: tuple[str, ...] = (), arch: str = "arm64"
) -> dict[str, Any]:
    """An image."""
    return {
        "Id": f"sha256:{number:064x}",
        "RepoTags": [tag],
        "RepoDigests": [digest] if digest else [],
        "Size": 21474836480,
        "Created": "2026-05-06T19:21:45Z",
        "Architecture": arch,
        "RootFS": {"Type": "layers", "Layers": [f"sha256:{layer:0>64}" for layer in layers]},
        "Config": {"Env": list(env)},
    }


def gpu_users(*entries: tuple[int, str, int]) -> Patch:
    """Who is on the GPU: pid, name, MiB."""
    lines = "".join(f"{pid}, {name}, {size} MiB\n" for pid, name, size in entries)
    return answers("nvidia-smi", "--query-compute-apps=", out="pid, process_name, used_gpu_memory [MiB]\n" + lines)


def cache(*lines: tuple[str, int, str], owner: str = "user", downloads: str = "", writable: str = f"{CACHE}\n{HUB}\n") -> Patch:
    """The Hugging Face cache as find shows it: kind with path, size, owner."""
    listing = [f"d\t4096\t1\t{owner}\t", f"d\t4096\t2\t{owner}\thub"]
    listing += [f"{what[0]}\t{size}\t{10 + i}\t{who}\t{what[2:]}" for i, (what, size, who) in enumerate(lines)]
    return all_of(
        answers("find", "-L", CACHE, "-maxdepth", out="\n".join(listing) + "\n"),
        answers("find", "-L", CACHE, HUB, "-maxdepth", "0", "-writable", out=writable),
        answers("find", "-L", "/proc/self/stat", HUB, out=f"1777973069.25\t1\t\n{downloads}"),
    )


def usual(number: int) -> Patch:
    """All that a healthy machine answers; ``number`` is the last octet of its rails."""
    first, second = f"192.168.200.{number}", f"192.168.201.{number}"
    other = 25 - number
    peer_mac = f"4c:bb:47:ec:{'95' if number == 12 else '94'}"
    return all_of(
        smi(),
        rows(_count_no_errors, "ip", "-j", "-s", "addr"),
        address(RAILS[0], first),
        address(RAILS[1], second),
        gids(HCAS[0], first),
        gids(HCAS[1], second),
        active_mtu(),
        routes(first, second),
        neighbours((f"192.168.200.{other}", RAILS[0], f"{peer_mac}:13", "REACHABLE"), (f"192.168.201.{other}", RAILS[1], f"{peer_mac}:17", "STALE")),
        heard((RAILS[0], f"{peer_mac}:13"), (RAILS[1], f"{peer_mac}:17")),
        netplan(first, second),
        _answers_of_today(),
    )


def _count_no_errors(links: list[dict[str, Any]]) -> None:
    """The recording's loopback came without its counters."""
    for each in links:
        for way in each["stats64"].values():
            way.setdefault("errors", 0)


def _answers_of_today() -> Patch:
    """What the recording was not asked."""
    pcie = [f"/sys/bus/pci/devices/000{domain}:01:00.{function}" for domain in (0, 2) for function in (0, 1)]
    return all_of(
        answers("find", "/boot", out=f"vmlinuz-{KERNEL}\t\nvmlinuz\tvmlinuz-{KERNEL}\n"),
        answers("dpkg-query", "--show", out="installed linux-nvidia-hwe-24.04\n"),
        answers("apt-cache", "policy", out="linux-nvidia-hwe-24.04:\n  Installed: 6.17.0-1014.14\n  Candidate: 6.17.0-1014.14\n"),
        lacks("/run/reboot-required"),
        holds("/proc/uptime", "86400.50 1000000.00\n"),
        answers("find", "/sys/fs/pstore", out=""),
        answers("journalctl", "-k", "-b", "0", out=ALL_CLEAR),
        answers("journalctl", "-b", "-1", out="Reached target reboot.target - System Reboot.\nShutting down.\nJournal stopped\n"),
        holds("/proc/vmstat", "oom_kill 0\n"),
        *(holds(f"{path}/aer_dev_fatal", "Undefined 0\nTOTAL_ERR_FATAL 0\n") for path in pcie),
        *(holds(f"{path}/{name}", text) for path in pcie for name, text in (("current_link_width", "4\n"), ("max_link_width", "4\n"))),
        *(holds(f"{path}/current_link_speed", "32.0 GT/s PCIe\n") for path in pcie),
        holds("/usr/local/cuda/version.json", '{"cuda": {"name": "CUDA SDK", "version": "13.0.3"}}'),
        folder("/etc/netplan"),
        holds("/proc/swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/swap.img file 16777212 0 -2\n"),
        answers("df", "--block-size=1", "--output=fstype,size,avail,iavail,target,file", "/dev/shm", out=_df("tmpfs", "/dev/shm", 65296044032)),
        answers("getent", "ahostsv4", out="192.168.1.163   STREAM spark-aa10\n192.168.1.163   DGRAM\n"),
        answers("readlink", "/usr/lib/aarch64-linux-gnu/libcuda.so.1", out=f"libcuda.so.{DRIVER}\n"),
        holds("/usr/lib/aarch64-linux-gnu/libcuda.so.1", ""),
        holds("/etc/cdi/nvidia.yaml", f"libcuda.so.{DRIVER}\nlibnvidia-ml.so.{DRIVER}\n"),
        lacks("/var/run/cdi"),
        answers("find", "-L", "/var/run/docker.sock", out="exists accessible"),
        answers("getent", "group", "docker", out="docker:x:999:user\n"),
        answers("nvidia-ctk", "--version", out="NVIDIA Container Toolkit CLI version 1.19.0\n"),
        holds("/etc/nvidia-container-runtime/config.toml", '[nvidia-container-runtime]\nmode = "auto"\n'),
        answers("nmcli", rc=8, err="Error: NetworkManager is not running.\n"),
        answers("systemctl", "is-active", out="inactive\n", rc=3),
        holds("/etc/ufw/ufw.conf", "ENABLED=no\nLOGLEVEL=low\n"),
        answers("nft", "list", "ruleset", rc=1, err="Operation not permitted (you must be root)\n"),
        holds("/sys/bus/platform/devices/MTKP0001:00/uevent", "DRIVER=mtk-pcie-hotplug\n"),
        holds("/sys/bus/platform/devices/MTKP0001:00/pcie_hotplug/hotplug_enabled", "1\n"),
        holds("/sys/bus/platform/devices/MTKP0001:00/pcie_hotplug/debug_state", "1\n"),
    )


def _df(kind: str, mount: str, free: int, inodes: int = 16000000) -> str:
    """df with the columns that are asked for."""
    return f"Type 1B-blocks Avail IFree Mounted on File\n{kind} 65296044032 {free} {inodes} {mount} {mount}\n"


def another(number: int) -> Patch:
    """A further machine, the first or second one: the same with names, addresses and keys of its own, still without its rails."""
    own = (
        ("spark-aa10", f"spark-aa1{number}"),
        ("192.168.1.163", f"192.168.1.16{3 + number}"),
        ("4c:bb:47:ec:94:", f"4c:bb:47:ec:9{4 + number}:"),
        ("58:02:05:1d:8c:8c", f"58:02:05:1d:8c:{8 + number}c"),
        ("4ebb:47ff:feec:94", f"4ebb:47ff:feec:9{4 + number}"),
        ("AAAAINaBp7XMamQ0pEiKngLsj0fBsPHEgSy4s", f"AAAAIK3vZt0uWq7xYc1hRb5mDf8eNj2kPo{number}aQ"),
    )

    def patch(machine: Machine) -> None:
        for entry, key in [*((entry, "stdout") for entry in machine.commands.values()), *((entry, "content") for entry in machine.files.values())]:
            for old, new in own:
                if entry.get(key):
                    entry[key] = entry[key].replace(old, new)

    return patch


HEALTHY_HEAD: tuple[Patch, ...] = (usual(12),)
HEALTHY_WORKER: tuple[Patch, ...] = (another(1), usual(13))
HEALTHY_THIRD: tuple[Patch, ...] = (another(2), usual(14))
