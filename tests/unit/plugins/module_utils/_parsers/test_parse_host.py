# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""df, ss, systemctl, id, getent, SSH_CONNECTION, host keys, the cache's listing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._errors import ParseError
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.account import (
    HostKey,
    Identity,
    Session,
    parse_ahosts,
    parse_group,
    parse_host_key,
    parse_id,
    parse_passwd_home,
    parse_session,
)
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.df import Filesystem, parse_df
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.hf_cache import Entry, parse_index, parse_listing, reduce_index
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.hf_downloads import Download, parse_downloads
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.ss import Listener, parse_listeners
from ansible_collections.gb10.cluster.plugins.module_utils._parsers.systemctl import Unit, parse_units

HEAD = "Type 1B-blocks Avail IFree Mounted on File\n"


def test_df(sample: Callable[[str], str]) -> None:
    filesystems = parse_df(sample("df/lab_head.txt"))
    assert filesystems[1] == Filesystem("/var/lib/docker", "/var/lib/docker", "ext4", 270553174016, 75419746304, 16093407)
    assert [entry.path for entry in filesystems][2:] == ["/home/aurora/.cache/huggingface", "/home/aurora/.cache", "/home/aurora", "/home"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("btrfs 100 50 - / /", Filesystem("/", "/", "btrfs", 100, 50, None)),
        ("ext4 100 50 7 /mnt/my disk /mnt/my disk/hf", Filesystem("/mnt/my disk/hf", "/mnt/my disk", "ext4", 100, 50, 7)),
    ],
)
def test_df_forms(line: str, expected: Filesystem) -> None:
    assert parse_df(HEAD + line + "\n") == (expected,)


def test_ss_of_a_stock_spark(sample: Callable[[str], str]) -> None:
    assert parse_listeners(sample("ss/spark_default.txt")) == (
        Listener("127.0.0.1", 11000, None, None),
        Listener("0.0.0.0", 22, None, None),
        Listener("127.0.0.1", 631, None, None),
        Listener("127.0.0.54", 53, None, None),
        Listener("127.0.0.53", 53, None, None),
        Listener("::1", 631, None, None),
        Listener("::", 22, None, None),
    )


def test_ss_with_processes() -> None:
    line = 'LISTEN 0 128 *:8000 *:* users:(("vllm serve",pid=4711,fd=3),("vllm",pid=4712,fd=3))\n'
    assert parse_listeners(line) == (Listener("::", 8000, 4711, "vllm serve"),)
    with pytest.raises(ParseError):
        parse_listeners("LISTEN 0 128 nowhere *:*\n")


def test_units_once_under_all_their_names(sample: Callable[[str], str]) -> None:
    units = parse_units(sample("systemctl/lab_head.txt"))
    assert [unit.name for unit in units] == ["docker.service", "containerd.service", "ssh.service"]
    assert units[0] == Unit("docker.service", "active", "running", "enabled")


def test_units_that_do_not_exist() -> None:
    assert parse_units("Id=sshd.service\nLoadState=not-found\nActiveState=inactive\nSubState=dead\nUnitFileState=\n") == ()
    with pytest.raises(ParseError):
        parse_units("Failed to connect to bus: No such file or directory\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("uid=0(root) gid=0(root) groups=0(root)\n", Identity(0, 0, "root", ("root",))),
        ("uid=1000 gid=1000 groups=1000,999(docker)", Identity(1000, 1000, None, ("docker",))),
        (
            "uid=1(a b) gid=1(domain users) groups=1(domain users),5(x) context=unconfined_u:unconfined_r",
            Identity(1, 1, "a b", ("domain users", "x")),
        ),
    ],
)
def test_id(text: str, expected: Identity) -> None:
    assert parse_id(text) == expected


def test_id_of_the_lab(sample: Callable[[str], str]) -> None:
    assert parse_id(sample("account/id_lab.txt")) == Identity(1000, 1000, "aurora", ("aurora", "docker", "sudo"))


def test_passwd_home() -> None:
    assert parse_passwd_home("aurora:x:1000:1000:Aurora,,,:/home/aurora:/bin/bash\n") == "/home/aurora"
    with pytest.raises(ParseError):
        parse_passwd_home("")


@pytest.mark.parametrize(
    ("text", "expected"), [("docker:x:988:aurora,deploy\n", ("aurora", "deploy")), ("docker:x:988:\n", ()), ("docker:*:988:a", ("a",))]
)
def test_group(text: str, expected: tuple[str, ...]) -> None:
    assert parse_group(text) == expected


@pytest.mark.parametrize("text", ["", "docker", "docker:x:many:aurora"])
def test_no_group(text: str) -> None:
    with pytest.raises(ParseError):
        parse_group(text)


def test_addresses_of_a_name() -> None:
    text = "127.0.1.1       STREAM spark-1\n127.0.1.1       DGRAM  \n127.0.1.1       RAW    \n192.168.1.10    STREAM \n"
    assert parse_ahosts(text) == ("127.0.1.1", "192.168.1.10")
    assert parse_ahosts("") == ()
    with pytest.raises(ParseError):
        parse_ahosts("spark-1 127.0.1.1\n")


def test_downloads() -> None:
    text = "1796062168.5673295950\t12\t\n1796061000.1\t34\tmodels--o--m/blobs/a b.incomplete\n"
    assert parse_downloads(text) == (Download(1796062168.567329595, 12, ""), Download(1796061000.1, 34, "models--o--m/blobs/a b.incomplete"))
    for broken in ("1.0\t2\tx", "x\t2\tx\n", "1.0\tx\tx\n", "find: no\n"):
        with pytest.raises(ParseError):
            parse_downloads(broken)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("192.168.1.2 51234 192.168.1.10 22", Session("192.168.1.2", "192.168.1.10")),
        ("fe80::1%enP7s7 51234 fe80::2%enP7s7 22", Session("fe80::1", "fe80::2")),
        ("::ffff:10.0.0.1 51234 ::ffff:10.0.0.2 22", Session("10.0.0.1", "10.0.0.2")),
    ],
)
def test_session(text: str, expected: Session) -> None:
    assert parse_session(text) == expected


def test_host_key() -> None:
    assert parse_host_key("ssh-ed25519 AAAAC3Nza root@spark\n") == HostKey("ssh-ed25519", "AAAAC3Nza")
    with pytest.raises(ParseError):
        parse_host_key("-----BEGIN OPENSSH PRIVATE KEY-----")


def test_listing(sample: Callable[[str], str]) -> None:
    entries = parse_listing(sample("hf_cache/listing_partial.txt"))
    assert entries[0].path == "" and entries[0].owner == "aurora"
    assert sum(entry.path.endswith(".incomplete") for entry in entries) == 1
    assert parse_listing("l\t76\t12\troot\thub/a b\n") == (Entry("l", 76, 12, "root", "hub/a b"),)


@pytest.mark.parametrize("text", ["f\t1\t2\troot\thub/mod", "f\tx\t2\troot\thub\n", "find: no\n"])
def test_a_listing_cut_off(text: str) -> None:
    with pytest.raises(ParseError):
        parse_listing(text)


def test_an_index_keeps_its_shards_when_reduced() -> None:
    text = '{"metadata":{"total_size":1},"weight_map":{"a":"m-2.safetensors","b":"m-1.safetensors","query_key":"m-2.safetensors"}}'
    assert parse_index(text) == ("m-1.safetensors", "m-2.safetensors")
    assert parse_index(reduce_index(text)) == parse_index(text)
    with pytest.raises(ParseError):
        parse_index(reduce_index('{"weight_map": {}}'))
