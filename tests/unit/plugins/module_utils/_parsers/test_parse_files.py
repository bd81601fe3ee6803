# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""/proc and /etc: meminfo, cpuinfo, limits, cgroups, memory.stat, os-release, dgx-release."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.cpuinfo import Cpus, parse_cpuinfo
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.meminfo import Swap, parse_meminfo, parse_swaps
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.process import (
    Cgroup,
    container_ids,
    parse_cgroups,
    parse_limits,
    parse_locks,
    parse_memory_stat,
    parse_ps,
)
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.release import OsRelease, Update, parse_dgx_release, parse_os_release

INNER, OUTER = "20730dc2d507be3ae8923b2aa36733511a9b62813e7291b1052572bdc92262f6", "9" * 64


def test_meminfo(sample: Callable[[str], str]) -> None:
    fields = parse_meminfo(sample("meminfo/asus_gx10.txt"))
    assert fields["MemTotal"] == 127535084 * 1024
    assert fields["CmaFree"] == 69320 * 1024
    assert parse_meminfo("MemTotal: 1 kB\nHugePages_Total:       2\nActive(anon): 3 kB\n") == {
        "MemTotal": 1024,
        "HugePages_Total": 2,
        "Active(anon)": 3072,
    }


@pytest.mark.parametrize("text", ["", "MemFree: 1 kB\n", "MemTotal: many kB\n", "               total        used\n"])
def test_no_meminfo(text: str) -> None:
    with pytest.raises(ParseError):
        parse_meminfo(text)


def test_swaps(sample: Callable[[str], str]) -> None:
    assert parse_swaps(sample("meminfo/swaps_dell.txt")) == (Swap("/swap.img", 16777212 * 1024, 512 * 1024),)
    assert parse_swaps("Filename\tType\tSize\tUsed\tPriority\n") == ()
    head = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
    assert parse_swaps(f"{head}/my\\040swap file 4 0 -2\n/dev/dm-1 partition 8 8 100\n") == (Swap("/my swap", 4096, 0), Swap("/dev/dm-1", 8192, 8192))
    with pytest.raises(ParseError):
        parse_swaps("")


def test_locks() -> None:
    text = (
        "1: OFDLCK ADVISORY  READ -1 00:45:5 0 EOF\n2: FLOCK  ADVISORY  WRITE 19393 00:3f:4366695 0 EOF\n"
        "2: -> FLOCK  ADVISORY  WRITE 19394 00:3f:77 0 EOF\n3: POSIX  ADVISORY  WRITE 9 fe:00:1467430 128 1152\n"
        "4: LEASE  ACTIVE    READ  2 <none>:0 0 EOF\n"
    )
    assert parse_locks(text) == {5, 4366695, 1467430, 0}
    with pytest.raises(ParseError):
        parse_locks("none\n")


def test_cpuinfo(sample: Callable[[str], str]) -> None:
    assert parse_cpuinfo(sample("cpuinfo/gx10_first_core.txt")) == Cpus(1, ("Cortex-A725",))
    assert parse_cpuinfo("processor\t: 0\nmodel name\t: AMD EPYC\n\nprocessor\t: 1\nmodel name\t: AMD EPYC\n") == Cpus(2, ("AMD EPYC",))
    assert parse_cpuinfo("processor : 0\nCPU implementer : 0x41\nCPU part : 0xd99\n") == Cpus(1, ("0x41/0xd99",))
    with pytest.raises(ParseError):
        parse_cpuinfo("Architecture: aarch64\n")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("dgx_asus_ota_history", ("DGX Spark", "7.2.3", "7.6.0", "GX10")),
        ("dgx_hp_unquoted", ("DGX Spark", "7.2.3", "7.5.0", "HP ZGX Nano G1n AI Station")),
        ("dgx_spark", ("DGX Spark", "7.2.3", "7.3.1", "DGX Server for KVM")),
    ],
)
def test_dgx_release(sample: Callable[[str], str], name: str, expected: tuple[str, ...]) -> None:
    release = parse_dgx_release(sample(f"release/{name}.txt"))
    assert (release.name, release.release, release.ota_version, release.platform) == expected
    assert release.ota_history[-1].version == release.ota_version


def test_updates_in_the_order_they_came(sample: Callable[[str], str]) -> None:
    history = parse_dgx_release(sample("release/dgx_asus_ota_history.txt")).ota_history
    assert [update.version for update in history] == ["7.3.1", "7.4.0", "7.5.0", "7.6.0"]
    assert history[0] == Update("7.3.1", "Thu Jan 15 19:07:36 CET 2026")
    assert history[-1] == Update("7.6.0", "mer. 16 sept. 2026 17:08:05 CEST")


def test_an_update_without_a_date() -> None:
    text = 'DGX_NAME="x"\nDGX_OTA_VERSION="7.3.1"\nDGX_OTA_VERSION="7.4.0"\nDGX_OTA_DATE="today"\nDGX_OTA_VERSION="7.5.0"\n'
    assert parse_dgx_release(text).ota_history == (Update("7.3.1", None), Update("7.4.0", "today"), Update("7.5.0", None))


def test_a_factory_fresh_machine_has_no_update() -> None:
    release = parse_dgx_release('DGX_NAME="DGX Spark"\nDGX_SWBUILD_VERSION="7.5.0"\n')
    assert (release.ota_version, release.ota_history) == (None, ())


def test_os_release(sample: Callable[[str], str]) -> None:
    assert parse_os_release(sample("release/os_ubuntu_24.04.4.txt")) == OsRelease("ubuntu", "24.04", "Ubuntu 24.04.4 LTS")
    assert parse_os_release("ID=debian\n") == OsRelease("debian", None, None)
    with pytest.raises(ParseError):
        parse_os_release("NAME=Linux\n")


def test_limits(sample: Callable[[str], str]) -> None:
    limits = parse_limits(sample("process/limits_lab.txt"))
    assert limits["Max locked memory"] == 8388608
    assert limits["Max open files"] == 1024
    assert limits["Max cpu time"] == -1


@pytest.mark.parametrize(
    ("cgroup", "expected"),
    [
        (f"0::/system.slice/docker-{INNER}.scope", (INNER,)),
        (f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{INNER}.scope", (INNER,)),  # rootless
        (f"12:memory:/docker/{INNER}", (INNER,)),
        (f"12:memory:/docker/{OUTER}/docker/{INNER}", (INNER, OUTER)),
        (f"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{INNER}.scope", (INNER,)),
        ("0::/user.slice/user-1000.slice/session-2.scope", ()),
        (f"0::/x-{INNER}0", ()),  # 65 digits are no container's id
        ("-", ()),
    ],
)
def test_container_ids(cgroup: str, expected: tuple[str, ...]) -> None:
    assert container_ids(cgroup) == expected


def test_cgroups() -> None:
    assert parse_cgroups(f"3:cpu,cpuacct:/docker/{INNER}\n1:name=systemd:/\n0::/init.scope\n") == (
        Cgroup(("cpu", "cpuacct"), f"/docker/{INNER}"),
        Cgroup(("name=systemd",), "/"),
        Cgroup((), "/init.scope"),
    )


def test_ps_with_cgroup_version_1(sample: Callable[[str], str]) -> None:
    processes = {process.pid: process for process in parse_ps(sample("process/ps_cgroup_v1_lab.txt"))}
    first = processes[374]
    assert (first.name, first.ppid, first.rss) == ("httpd", 352, 1524 * 1024)
    assert first.containers == ("2b6f657d90f7621a5e3a74a6063e8836d2ee579681ddc24a3e2707abf4337cb3",)


def test_ps_names_with_blanks() -> None:
    (process,) = parse_ps("  577729  577541 4100000 ray::IDLE x      0::/system.slice/docker-" + INNER + ".scope\n")
    assert (process.name, process.containers) == ("ray::IDLE x", (INNER,))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("anon 100\nfile 5000\nshmem 20\n", 120),
        ("cache 9\nrss 1\ntotal_cache 900\ntotal_rss 70\ntotal_shmem 5\n", 75),
        ("anon 100\n", 100),
    ],
)
def test_memory_stat_leaves_the_page_cache_out(text: str, expected: int) -> None:
    assert parse_memory_stat(text) == expected
