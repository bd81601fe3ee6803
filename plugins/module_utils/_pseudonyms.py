# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tells machines apart and must not leave them: MAC addresses, GUIDs made of them, public addresses, host keys.

Each gets a pseudonym that is the same wherever the thing appears, in the recordings of all nodes of one run, so that a neighbour's
MAC address still leads to the neighbour's port. A plain hash would not do: there are only 2^24 MAC addresses of one maker to try.
Hence a salt, which the caller makes up for the run and forgets.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import re
from functools import partial

_TOKEN = re.compile(
    r"(?P<host_key>(?:ssh|ecdsa|sk)-[\w@.-]+ AAAA[A-Za-z0-9+/]+={0,3})"
    r"|(?P<gpu>\bGPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b)"
    r"|(?P<enx>\benx[0-9a-f]{12}\b)"
    r"|(?P<guid>(?<=\bGUID: )0x[0-9a-fA-F]{16}\b)"
    # MAC and IPv6 addresses, GUIDs; also times and PCI devices, which are left alone.
    r"|(?P<colons>(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?:(?<=:)(?:[0-9]{1,3}\.){3}[0-9]{1,3})?(?![\w:]|\.\d))"
    r"|(?P<ipv4>(?<![\w.+~-])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![\w~+-]|\.\d))"
)
_MAC = re.compile(r"^[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}$")
_GUID = re.compile(r"^[0-9A-Fa-f]{4}(?::[0-9A-Fa-f]{4}){3}$")
# Four numbers between dots are a version, if the words in front say so.
_VERSION = re.compile(r"version|release|firmware|fw_ver|bios|driver", re.IGNORECASE)
_WORDS = 32  # characters in front of them on the same line
_RESERVED = int(ipaddress.IPv4Address("240.0.0.0"))  # to 255.255.255.255: nobody's
_DOCUMENTATION = int(ipaddress.IPv6Address("2001:db8::"))
_EUI = b"\xff\xfe"  # what a MAC address has in its middle as half of an IPv6 address
_MELLANOX = b"\x03\x00"  # and as an adapter's GUID
_LOCAL, _MULTICAST = 0x02, 0x01  # bits of a MAC address' first byte


class Pseudonyms:
    """The same salt gives the same pseudonyms."""

    def __init__(self, salt: str) -> None:
        self._salt = salt.encode("utf-8", "surrogateescape")
        self._hosts: dict[int, list[int]] = {}

    def text(self, text: str) -> str:
        """Any tool's output, a path, a word of a command."""
        return _TOKEN.sub(self._replace, text)

    def _replace(self, match: re.Match[str]) -> str:
        found = match.group()
        if match.lastgroup == "host_key":
            return self.host_key(found)
        if match.lastgroup == "gpu":
            digest = self._digest("gpu", found.encode()).hex()
            return f"GPU-{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"
        if match.lastgroup == "enx":
            return f"enx{self._mac(bytes.fromhex(found[3:])).hex()}"
        if match.lastgroup == "guid":
            return f"0x{self._guid(bytes.fromhex(found[2:])).hex()}"
        if match.lastgroup == "ipv4":
            line = match.string[max(match.start() - _WORDS, 0) : match.start()].rpartition("\n")[2]
            return found if _VERSION.search(line) else self._address(found)
        if _MAC.match(found):
            return self._mac(bytes.fromhex(found.replace(":", ""))).hex(":")
        if _GUID.match(found):
            return ":".join(_groups(self._guid(bytes.fromhex(found.replace(":", "")))))
        return self._address(found)

    def _digest(self, kind: str, value: bytes) -> bytes:
        return hmac.new(self._salt, kind.encode() + b"\0" + value, hashlib.sha256).digest()

    def _mac(self, mac: bytes) -> bytes:
        """A locally administered one. Those that stand for no machine stay: broadcast, multicast, none."""
        if mac[0] & _MULTICAST or not any(mac):
            return mac
        digest = self._digest("mac", mac)[:6]
        return bytes([(digest[0] | _LOCAL) & ~_MULTICAST]) + digest[1:]

    def _guid(self, guid: bytes) -> bytes:
        if guid[3:5] == _MELLANOX:
            mac = self._mac(guid[:3] + guid[5:])
            return mac[:3] + _MELLANOX + mac[3:]
        if guid[3:5] == _EUI:
            return self._eui(guid)
        return self._digest("guid", guid)[:8] if any(guid) else guid

    def _eui(self, half: bytes) -> bytes:
        """The MAC address within, with one bit turned over."""
        mac = self._mac(bytes([half[0] ^ _LOCAL]) + half[1:3] + half[5:])
        return bytes([mac[0] ^ _LOCAL]) + mac[1:3] + _EUI + mac[3:]

    def _address(self, text: str) -> str:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return text  # a time, a PCI device, a version
        if isinstance(address, ipaddress.IPv4Address):
            return str(self._ipv4(address))
        mapped = address.ipv4_mapped
        hidden = self._ipv6(address) if mapped is None else ipaddress.IPv6Address(int(address) - int(mapped) + int(self._ipv4(mapped)))
        if hidden == address:
            return text
        return hidden.exploded if text.lower() == address.exploded else str(hidden)

    def _ipv4(self, address: ipaddress.IPv4Address) -> ipaddress.IPv4Address:
        """Public ones only. Those of one /24 stay together, and its first and last address stay what they are."""
        network, host = int(address) >> 8, int(address) & 0xFF
        first = ipaddress.IPv4Address(network << 8)
        if not first.is_global or first.is_multicast:
            return address
        digest = self._digest("ipv4", network.to_bytes(3, "big"))
        if network not in self._hosts:
            self._hosts[network] = sorted(range(1, 255), key=lambda number: self._digest("host", digest + bytes([number])))
        hidden = host if host in (0, 255) else self._hosts[network][host - 1]
        return ipaddress.IPv4Address(_RESERVED | (int.from_bytes(digest[:3], "big") >> 4 << 8) | hidden)

    def _ipv6(self, address: ipaddress.IPv6Address) -> ipaddress.IPv6Address:
        """The network's half where it is public; the interface's half where it holds a MAC address, or is public and no small number."""
        if address.is_multicast or address.is_loopback or address.is_unspecified:
            return address
        network, interface = address.packed[:8], address.packed[8:]
        public = address.is_global
        if interface[3:5] == _EUI:
            interface = self._eui(interface)
        elif public and any(interface[:6]):
            interface = self._digest("interface", interface)[:8]
        if public:
            network = (_DOCUMENTATION >> 64 | int.from_bytes(self._digest("ipv6", network)[:4], "big")).to_bytes(8, "big")
        return ipaddress.IPv6Address(network + interface)

    def host_key(self, text: str) -> str:
        """`TYPE KEY`: another key of the same form. Machines that share one still share one."""
        kind, _separator, key = text.partition(" ")
        try:
            blob = base64.b64decode(key, validate=True)
        except (binascii.Error, ValueError):
            return f"{kind} {base64.b64encode(self._digest('key', key.encode())).decode()}"
        head = blob[: 8 + int.from_bytes(blob[:4], "big")]  # its type, and the length of what follows
        stream = b"".join(map(partial(self._stream, blob), range((len(blob) - len(head)) // 32 + 1)))
        return f"{kind} {base64.b64encode(head + stream[: len(blob) - len(head)]).decode()}"

    def _stream(self, blob: bytes, number: int) -> bytes:
        return self._digest(f"key{number}", blob)


def _groups(value: bytes) -> list[str]:
    return [value[start : start + 2].hex() for start in range(0, len(value), 2)]
