# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pseudonyms: the same thing has the same one wherever it appears, and nothing leads back."""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path

import pytest
from ansible_collections.gb10.cluster.plugins.module_utils._facts.collect import gather, select
from ansible_collections.gb10.cluster.plugins.module_utils._pseudonyms import Pseudonyms
from ansible_collections.gb10.cluster.plugins.module_utils._runner import RecordedRunner, Recorder, load_recording
from hypothesis import assume, given, settings
from hypothesis import strategies as st

RECORDINGS = sorted((Path(__file__).resolve().parents[2] / "fixtures" / "recordings").glob("*.json"))
MACS = st.binary(min_size=6, max_size=6).filter(lambda mac: not mac[0] & 1 and any(mac))
HIDE = Pseudonyms("swordfish")


def eui(mac: bytes) -> bytes:
    return bytes([mac[0] ^ 2]) + mac[1:3] + b"\xff\xfe" + mac[3:]


@given(mac=MACS)
def test_a_mac_address_stays_itself_in_all_its_forms(mac: bytes) -> None:
    hidden = bytes.fromhex(HIDE.text(mac.hex(":")).replace(":", ""))
    assert hidden != mac
    assert hidden[0] & 3 == 2  # locally administered, and no multicast
    local = ipaddress.IPv6Address(b"\xfe\x80" + bytes(6) + eui(mac))
    expected = ipaddress.IPv6Address(b"\xfe\x80" + bytes(6) + eui(hidden))
    assert HIDE.text(f"{local}/64") == f"{expected}/64"
    assert HIDE.text(local.exploded) == expected.exploded
    for middle in (b"\x03\x00", b"\xff\xfe"):
        guid, other = ((m[:3] if middle[0] == 3 else eui(m)[:3]) + middle + m[3:] for m in (mac, hidden))
        assert HIDE.text(f"Node GUID: 0x{guid.hex()}") == f"Node GUID: 0x{other.hex()}"
        assert HIDE.text(f"node_guid:\t{guid.hex(':', 2)}") == f"node_guid:\t{other.hex(':', 2)}"
    assert HIDE.text(f"/sys/class/net/enx{mac.hex()}/speed") == f"/sys/class/net/enx{hidden.hex()}/speed"


@given(first=MACS, second=MACS)
def test_two_machines_stay_two(first: bytes, second: bytes) -> None:
    assume(first != second)
    assert HIDE.text(first.hex(":")) != HIDE.text(second.hex(":"))
    assert HIDE.text(first.hex(":")) == Pseudonyms("swordfish").text(first.hex(":").upper())
    assert HIDE.text(first.hex(":")) != Pseudonyms("another salt").text(first.hex(":"))


def is_public(address: ipaddress.IPv4Address) -> bool:
    """Decided for a /24 as a whole."""
    first = ipaddress.IPv4Address(int(address) & ~0xFF)
    return first.is_global and not first.is_multicast


@given(address=st.ip_addresses(v=4).filter(is_public))
def test_public_addresses(address: ipaddress.IPv4Address) -> None:
    hidden = ipaddress.IPv4Address(HIDE.text(str(address)))
    assert not hidden.is_global
    assert HIDE.text(f"to {address}:443,") == f"to {hidden}:443,"
    assert HIDE.text(f"::ffff:{address}") == f"::ffff:{int(hidden) >> 16:x}:{int(hidden) & 0xFFFF:x}"
    network = ipaddress.ip_network(f"{address}/24", strict=False)
    assert ipaddress.ip_network(HIDE.text(str(network))) == ipaddress.ip_network(f"{hidden}/24", strict=False)
    neighbours = {HIDE.text(str(network[number])) for number in range(256)}
    assert len(neighbours) == 256
    assert HIDE.text(str(hidden)) == str(hidden)  # a recording of a recording


@given(address=st.ip_addresses(v=4).filter(lambda address: not is_public(address)))
def test_other_addresses_stay(address: ipaddress.IPv4Address) -> None:
    assert HIDE.text(f"{address}/16") == f"{address}/16"


@given(address=st.ip_addresses(v=6))
def test_ipv6(address: ipaddress.IPv6Address) -> None:
    hidden = ipaddress.IPv6Address(HIDE.text(str(address)))
    assert HIDE.text(address.exploded) == hidden.exploded
    if address.is_global and not address.is_multicast and address.ipv4_mapped is None:
        assert hidden in ipaddress.ip_network("2001:db8::/32")


@pytest.mark.parametrize(
    "text",
    [
        "0000:01:00.1 000f:01:00.0 0000000F:01:00.0 PCI:000f:01:00:",
        "2026-09-16T17:08:05 18:08:06",
        "192.168.200.12/24 10.0.0.1 127.0.1.1 169.254.1.2 100.64.1.2 0.0.0.0:8000 224.0.0.251",
        "ff:ff:ff:ff:ff:ff 00:00:00:00:00:00 01:00:5e:00:00:fb 33:33:00:00:00:01",
        "::1 :: [::]:22 fe80::1 fd00::1 ff02::1",
        "VLLM::EngineCore ray::IDLE std::vector",
        "NCCL_VERSION=2.28.3.1 cudnn version 9.13.0.50 libnccl2-2.28.3.1 28.45.4028 7.0.0-1019.19 1.2.3.4.5",
        "sha256:5f55c2af45936fd3e2ace1b779a19a972b469f750048c8ff58ddea48633ed1f8",
        "0-4,10-14 31fdeeec-dd12-4b95-7b73-abb2428ed2e7",
        "",
    ],
)
def test_what_tells_no_machine_apart_stays(text: str) -> None:
    assert HIDE.text(text) == text


def test_host_keys_that_are_the_same_stay_the_same() -> None:
    key = "AAAAC3NzaC1lZDI1NTE5AAAAINaBp7XMamQ0pEiKngLsj0fBsPHEgSy4sNaBp7XMamQ0"
    hidden = HIDE.text(f"ssh-ed25519 {key} root@spark\n")
    assert hidden.startswith("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI") and hidden.endswith(" root@spark\n")
    assert key not in hidden and len(hidden) == len(f"ssh-ed25519 {key} root@spark\n")
    assert HIDE.text(f"ssh-ed25519 {key}") == hidden.rpartition(" ")[0]
    assert HIDE.text("ssh-rsa AAAAB3Nz=x") != "ssh-rsa AAAAB3Nz=x"


def test_the_gpus_own_number() -> None:
    text = "GPU-5a07599a-ddaf-4ee9-25b7-b43faf54c65f"
    assert HIDE.text(text) != text
    assert len(HIDE.text(text)) == len(text)


@settings(deadline=None)
@given(text=st.text(st.sampled_from("0123456789abcdef:.xX- \n\"',/%Gug")) | st.text())
def test_any_text(text: str) -> None:
    assert isinstance(HIDE.text(text), str)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_facts_of_a_recorded_machine_are_the_same_but_for_pseudonyms(path: Path) -> None:
    recorder = Recorder(load_recording(str(path)), "swordfish")
    facts = gather(recorder, select(["all"]), 10)
    recording = json.loads(json.dumps(recorder.recording("x")))
    again = gather(RecordedRunner(recording), select(["all"]), 10)
    for one in (facts, again):
        one.pop("seconds")
        for probe in one["probes"].values():
            probe.pop("seconds")
    keys = facts.get("ssh", {}).pop("host_keys", []), again.get("ssh", {}).pop("host_keys", [])
    assert json.loads(json.dumps(again)) == json.loads(HIDE.text(json.dumps(facts)))
    assert [HIDE.host_key(f"{key['type']} {key['key']}") for key in keys[0]] == [f"{key['type']} {key['key']}" for key in keys[1]]


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_no_address_of_an_adapter_is_left(path: Path) -> None:
    recorder = Recorder(load_recording(str(path)), "swordfish")
    facts = gather(recorder, select(["all"]), 10)
    text = json.dumps(recorder.recording("x"))
    macs = {entry["mac"] for entry in facts["fabric"]["interfaces"] if "mac" in entry}
    assert macs
    tails = {mac[9:] for mac in macs} | {f"fe{mac[9:11]}:{mac[12:14]}{mac[15:]}" for mac in macs}  # as in a MAC address, as in a GID
    assert {tail for tail in tails if tail in text} == set()
