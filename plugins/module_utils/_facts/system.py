# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""identity, os, cpu, memory, limits, time, python, user, ssh"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._errors import Failed, ParseError, Unavailable
from ansible_collections.gb10.cluster.plugins.module_utils._facts.probe import Node, Probe, Seen, complaint, probe
from ansible_collections.gb10.cluster.plugins.module_utils._facts.schema import known
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.account import HostKey, parse_ahosts, parse_host_key, parse_id, parse_passwd_home
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.cpuinfo import parse_cpuinfo
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.df import OUTPUT, Filesystem, parse_df
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.meminfo import Swap, parse_meminfo, parse_swaps
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.nvidia import parse_cuda_toolkit
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.process import parse_limits
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.release import parse_dgx_release, parse_os_release

_SHM = "/dev/shm"
_UNKNOWN_NAME = 2  # getent's exit code
_NAME_SECONDS = 3.0  # a name server that does not answer is waited for much longer

# World-readable DMI fields; the serial numbers beside them are not asked for.
_DMI = {
    "vendor": "sys_vendor",
    "product": "product_name",
    "family": "product_family",
    "board_vendor": "board_vendor",
    "bios_version": "bios_version",
}
_MEMORY = {
    "total": "MemTotal",
    "free": "MemFree",
    "available": "MemAvailable",
    "buffers": "Buffers",
    "cached": "Cached",
    "shmem": "Shmem",
    "slab_reclaimable": "SReclaimable",
    "swap_total": "SwapTotal",
    "swap_free": "SwapFree",
    "cma_total": "CmaTotal",
    "cma_free": "CmaFree",
    "mlocked": "Mlocked",
    "unevictable": "Unevictable",
}
# One process for the interpreter and the clock: adjtimex (5: not synchronized) is what timedatectl asks too, without D-Bus.
_PYTHON = """
import ctypes, importlib.util, json, sys, time
state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(512))
print(json.dumps({
    "version": "%d.%d.%d" % sys.version_info[:3],
    "executable": sys.executable,
    "requests": importlib.util.find_spec("requests") is not None,
    "epoch": time.time(),
    "synchronized": None if state < 0 else state != 5,
}))
"""


def probes() -> tuple[Probe, ...]:
    return (
        probe("hostname", "identity", _hostname),
        probe("resolve", "identity", _resolve),
        probe("dmi", "identity", _dmi),
        probe("dgx_release", "identity", lambda node: parse_dgx_release(node.require("/etc/dgx-release"))),
        probe("os_release", "os", lambda node: parse_os_release(node.require("/etc/os-release"))),
        probe("cpuinfo", "cpu", lambda node: parse_cpuinfo(node.require("/proc/cpuinfo"))),
        probe("meminfo", "memory", lambda node: parse_meminfo(node.require("/proc/meminfo"))),
        probe("swaps", "memory", lambda node: parse_swaps(node.require("/proc/swaps"))),
        probe("shm", "memory", _shm),
        probe("limits", "limits", lambda node: parse_limits(node.require("/proc/self/limits"))),
        probe("python", "python time", _python),
        probe("cuda_toolkit", "python", lambda node: parse_cuda_toolkit(node.require("/usr/local/cuda/version.json"))),
        probe("id", "*", _account),  # `root` stands at the top of the facts, whatever the subset
        probe("host_keys", "ssh", _host_keys),
    )


def _hostname(node: Node) -> str:
    return node.require("/proc/sys/kernel/hostname").strip()


def _resolve(node: Node) -> tuple[str, ...]:
    """What the machine calls itself may lead to loopback, to Wi-Fi or nowhere, and engines ask."""
    result = node.run("getent", "ahostsv4", _hostname(node), at_most=_NAME_SECONDS)
    if result.rc == _UNKNOWN_NAME:
        return ()
    if result.rc != 0:
        raise Failed(f"getent: {complaint(result)}")
    return parse_ahosts(result.stdout)


def _shm(node: Node) -> Filesystem:
    (filesystem,) = parse_df(node.output("df", "--block-size=1", f"--output={OUTPUT}", _SHM))[:1] or (None,)
    if filesystem is None or filesystem.mount != _SHM:
        raise Unavailable(f"{_SHM}: no filesystem of its own")
    return filesystem


def _dmi(node: Node) -> dict[str, str]:
    fields = {}
    for name, file in _DMI.items():
        value = node.read(f"/sys/class/dmi/id/{file}")
        if value is not None and value.strip():
            fields[name] = " ".join(value.split())  # Dell writes "Dell  Inc."
    if not fields:
        raise Unavailable("/sys/class/dmi/id: nothing to read")
    return fields


def _python(node: Node) -> dict[str, Any]:
    text = node.output("python3", "-c", _PYTHON)
    try:
        found = json.loads(text)
        return {name: found[name] for name in ("version", "executable", "requests", "epoch", "synchronized")}
    except (KeyError, TypeError, ValueError) as error:
        raise ParseError("python3", text) from error


def _account(node: Node) -> dict[str, Any]:
    identity = parse_id(node.output("id"))
    home = node.environment().get("HOME")
    if identity.user is not None:
        result = node.run("getent", "passwd", identity.user)
        home = parse_passwd_home(result.stdout) if result.rc == 0 else home
    return known(  # type: ignore[no-any-return]
        name=identity.user, uid=identity.uid, gid=identity.gid, home=home, groups=list(identity.groups)
    )


def connecting_home(node: Node) -> str:
    """Home of the user who connected: with `become` that is not the user who runs this."""
    environment = node.environment()
    user = environment.get("SUDO_USER")
    if user:
        return parse_passwd_home(node.output("getent", "passwd", user))
    home = environment.get("HOME")
    if not home:
        raise Unavailable("HOME is not set")
    return home


def _host_keys(node: Node) -> list[HostKey]:
    keys = [parse_host_key(text) for path in node.glob("/etc/ssh/ssh_host_*_key.pub") if (text := node.read(path)) is not None]
    if not keys:
        raise Unavailable("/etc/ssh: no public host key")
    return keys


def identity_facts(seen: Seen) -> dict[str, Any]:
    dmi: dict[str, str] = seen.get("dmi") or {}
    dgx, resolved = seen.get("dgx_release"), seen.get("resolve")
    names = [gpu.name or "" for gpu in seen.get("nvidia_smi") or ()]
    names += seen.get("nvidia_proc") or []
    is_gb10: bool | None = dmi.get("family") == "DGX Spark" or any("GB10" in name for name in names)
    if not is_gb10 and not dmi.get("family") and seen.status("nvidia_smi") != "ok":
        is_gb10 = None  # neither question was answered
    return known(  # type: ignore[no-any-return]
        hostname=seen.get("hostname"),
        **dmi,
        dgx_release=dgx and dgx.release,
        ota_version=dgx and dgx.ota_version,
        ota_history=dgx and [known(version=update.version, date=update.date) for update in dgx.ota_history],
        resolves_to=None if resolved is None else list(resolved),
        gb10=is_gb10,
    )


def os_facts(seen: Seen) -> dict[str, Any] | None:
    release = seen.get("os_release")
    return release and known(id=release.id, version=release.version, name=release.name)  # type: ignore[no-any-return]


def cpu_facts(seen: Seen) -> dict[str, Any] | None:
    cpus = seen.get("cpuinfo")
    return cpus and {"count": cpus.count, "models": list(cpus.models)}


def memory_facts(seen: Seen) -> dict[str, Any]:
    fields: dict[str, int] = seen.get("meminfo") or {}
    swaps: tuple[Swap, ...] | None = seen.get("swaps")
    shm: Filesystem | None = seen.get("shm")
    return known(  # type: ignore[no-any-return]
        **{name: fields[field] for name, field in _MEMORY.items() if field in fields},
        shm_total=shm and shm.total,
        shm_used=None if shm is None or shm.total is None or shm.free is None else shm.total - shm.free,
        swaps=None if swaps is None else [asdict(swap) for swap in swaps],
    )


def limits_facts(seen: Seen) -> dict[str, int] | None:
    limits = seen.get("limits")
    return limits and known(memlock=limits.get("Max locked memory"), nofile=limits.get("Max open files"))  # type: ignore[no-any-return]


def python_facts(seen: Seen) -> dict[str, Any]:
    found = seen.get("python") or {}
    facts = {name: found[name] for name in ("version", "executable", "requests") if name in found}
    return known(**facts, cuda_toolkit=seen.get("cuda_toolkit"))  # type: ignore[no-any-return]


def time_facts(seen: Seen) -> dict[str, Any]:
    found = seen.get("python") or {}
    return known(epoch=found.get("epoch"), synchronized=found.get("synchronized"))  # type: ignore[no-any-return]


def ssh_facts(seen: Seen) -> dict[str, Any] | None:
    keys = seen.get("host_keys")
    return None if keys is None else {"host_keys": [{"type": key.type, "key": key.key} for key in keys]}
