# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""identity, os, kernel, cpu, memory, limits, time, python, user, ssh"""

from __future__ import annotations

import json
from typing import Any

from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError, Unavailable
from ansible_collections.gb10.cluster.plugins.module_utils._facts.probe import Node, Probe, Seen, probe
from ansible_collections.gb10.cluster.plugins.module_utils._facts.schema import known
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.account import HostKey, parse_host_key, parse_id, parse_passwd_home
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.cpuinfo import parse_cpuinfo
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.meminfo import parse_meminfo
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.process import parse_limits
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.release import parse_dgx_release, parse_os_release

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
        probe("hostname", "identity", lambda node: node.require("/proc/sys/kernel/hostname").strip()),
        probe("dmi", "identity", _dmi),
        probe("dgx_release", "identity", lambda node: parse_dgx_release(node.require("/etc/dgx-release"))),
        probe("os_release", "os", lambda node: parse_os_release(node.require("/etc/os-release"))),
        probe("kernel", "kernel", _kernel),
        probe("cpuinfo", "cpu", lambda node: parse_cpuinfo(node.require("/proc/cpuinfo"))),
        probe("meminfo", "memory", lambda node: parse_meminfo(node.require("/proc/meminfo"))),
        probe("limits", "limits", lambda node: parse_limits(node.require("/proc/self/limits"))),
        probe("python", "python time", _python),
        probe("id", "*", _account),  # `root` stands at the top of the facts, whatever the subset
        probe("host_keys", "ssh", _host_keys),
    )


def _dmi(node: Node) -> dict[str, str]:
    fields = {}
    for name, file in _DMI.items():
        value = node.read(f"/sys/class/dmi/id/{file}")
        if value is not None and value.strip():
            fields[name] = " ".join(value.split())  # Dell writes "Dell  Inc."
    if not fields:
        raise Unavailable("/sys/class/dmi/id: nothing to read")
    return fields


def _kernel(node: Node) -> dict[str, str]:
    release = node.require("/proc/sys/kernel/osrelease").strip()
    cmdline = node.read("/proc/cmdline")
    machine = node.output("uname", "-m").strip()
    return known(release=release, machine=machine or None, cmdline=None if cmdline is None else cmdline.strip())  # type: ignore[no-any-return]


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
    dgx = seen.get("dgx_release")
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
        gb10=is_gb10,
    )


def os_facts(seen: Seen) -> dict[str, Any] | None:
    release = seen.get("os_release")
    return release and known(id=release.id, version=release.version, name=release.name)  # type: ignore[no-any-return]


def cpu_facts(seen: Seen) -> dict[str, Any] | None:
    cpus = seen.get("cpuinfo")
    return cpus and {"count": cpus.count, "models": list(cpus.models)}


def memory_facts(seen: Seen) -> dict[str, int] | None:
    fields = seen.get("meminfo")
    return fields and {name: fields[field] for name, field in _MEMORY.items() if field in fields}


def limits_facts(seen: Seen) -> dict[str, int] | None:
    limits = seen.get("limits")
    return limits and known(memlock=limits.get("Max locked memory"), nofile=limits.get("Max open files"))  # type: ignore[no-any-return]


def python_facts(seen: Seen) -> dict[str, Any] | None:
    found = seen.get("python")
    return found and {name: found[name] for name in ("version", "executable", "requests")}


def time_facts(seen: Seen) -> dict[str, Any]:
    found = seen.get("python") or {}
    return known(epoch=found.get("epoch"), synchronized=found.get("synchronized"))  # type: ignore[no-any-return]


def ssh_facts(seen: Seen) -> dict[str, Any] | None:
    keys = seen.get("host_keys")
    return None if keys is None else {"host_keys": [{"type": key.type, "key": key.key} for key in keys]}
