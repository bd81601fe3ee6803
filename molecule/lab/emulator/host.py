"""lspci, ethtool, dmidecode and nvidia-ctk: the hardware that the container does not have, and what comes with it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from .common import NET, REAL, Port, output, ports, read

CLASS_OF = {"0200": "Ethernet controller", "0108": "Non-Volatile memory controller", "0280": "Network controller"}


def _really(tool: str, argv: list[str]) -> int:
    """Hand over to the distribution's own program."""
    real = REAL / tool
    if not real.exists():
        sys.stderr.write(f"{tool}: not found\n")
        return 127
    return os.execv(real, [tool, *argv])


def nvidia_ctk(settings: dict[str, Any], argv: list[str]) -> int:
    """The version, which is all that is asked of it."""
    if argv != ["--version"]:
        sys.stderr.write(f"nvidia-ctk: the lab has nothing to say to {argv}\n")
        return 1
    sys.stdout.write(output("nvidia-ctk-version.txt"))
    return 0


def lspci(settings: dict[str, Any], argv: list[str]) -> int:
    """The recorded list with -s, -d, -n, -nn and the link lines of -v; slots always with their domain, as on a Spark."""
    ids: dict[str, str] = settings["pci_ids"]
    slot = device = ""
    verbose = numeric = 0
    words = iter(argv)
    for word in words:
        if word.startswith("-s"):
            slot = word[2:] or next(words, "")
        elif word.startswith("-d"):
            device = word[2:] or next(words, "")
        elif re.fullmatch(r"-[vnDkq]+", word):
            verbose += word.count("v")
            numeric += word.count("n")
        else:
            return _really("lspci", argv)
    for line in output("lspci.txt").splitlines():
        address, _, rest = line.partition(" ")
        known = ids.get(address, "")
        if slot and not address.startswith(slot) and address.split(":", 1)[1] != slot:
            continue
        if device and not re.match(device.replace("::", ":.*:").rstrip(":").lower(), known[5:]):
            continue
        if numeric and known:
            code, pair = known.split()
            if numeric == 1:
                line = f"{address} {code}: {pair}"
            else:
                kind, _, name = rest.partition(": ")
                body, revision = re.fullmatch(r"(.*?)( \(rev \w+\))?", name).groups()  # type: ignore[union-attr]
                line = f"{address} {kind} [{code}]: {body} [{pair}]{revision or ''}"
        print(line)
        if verbose:
            if "ConnectX-7" in rest:
                print("\tLnkCap:\tPort #0, Speed 32GT/s, Width x4, ASPM not supported\n\tLnkSta:\tSpeed 32GT/s, Width x4")
                print("\tKernel driver in use: mlx5_core")
            print()
    return 0


def ethtool(settings: dict[str, Any], argv: list[str]) -> int:
    """Link settings and driver of the ConnectX-7 ports; everything else is answered by the real program."""
    by_name = {port.netdev: port for port in ports(settings)}
    if len(argv) == 1 and argv[0] in by_name:
        return _link_settings(by_name[argv[0]])
    if len(argv) == 2 and argv[0] in ("-i", "--driver") and argv[1] in by_name:
        text = output("ethtool-i.txt")
        print(text.rstrip("\n") + f"\nexpansion-rom-version: \nbus-info: {by_name[argv[1]].pci}")
        for feature in ("statistics", "test", "eeprom-access"):
            print(f"supports-{feature}: {'no' if feature == 'eeprom-access' else 'yes'}")
        print("supports-register-dump: no\nsupports-priv-flags: yes")
        return 0
    return _really("ethtool", argv)


def _link_settings(port: Port) -> int:
    speed = read(NET / port.netdev / "speed", "-1")
    known = speed not in ("-1", "")
    modes = "\n\t                        ".join(("40000baseCR4/Full", "100000baseCR4/Full", "200000baseCR4/Full", "200000baseCR2/Full"))
    print(f"Settings for {port.netdev}:")
    print("\tSupported ports: [ Backplane ]")
    print(f"\tSupported link modes:   {modes}")
    print("\tSupported pause frame use: Symmetric\n\tSupports auto-negotiation: Yes\n\tSupported FEC modes: RS")
    print(f"\tAdvertised link modes:  {modes}")
    print("\tAdvertised pause frame use: Symmetric\n\tAdvertised auto-negotiation: Yes\n\tAdvertised FEC modes: RS")
    print(f"\tSpeed: {speed}Mb/s" if known else "\tSpeed: Unknown!")
    if known:
        print("\tLanes: 2")
    print("\tDuplex: Full" if known else "\tDuplex: Unknown! (255)")
    print("\tAuto-negotiation: on\n\tPort: Direct Attach Copper\n\tPHYAD: 0\n\tTransceiver: internal")
    if os.geteuid() == 0:
        print("\tSupports Wake-on: d\n\tWake-on: d\n\tLink detected: " + ("yes" if port.up else "no"))
    else:
        print("\tLink detected: " + ("yes" if port.up else "no"))
        sys.stdout.flush()
        sys.stderr.write("netlink error: Operation not permitted\n")
    return 0


def dmidecode(settings: dict[str, Any], argv: list[str]) -> int:
    """``-s KEYWORD`` only: what scripts ask for."""
    if os.geteuid() != 0:
        sys.stderr.write("/sys/firmware/dmi/tables/smbios_entry_point: Permission denied\nCan't read memory from /dev/mem\n")
        return 1
    names = {
        "system-manufacturer": "sys_vendor",
        "system-product-name": "product_name",
        "system-version": "product_version",
        "system-family": "product_family",
        "system-serial-number": "product_serial",
        "system-uuid": "product_uuid",
        "baseboard-manufacturer": "board_vendor",
        "baseboard-product-name": "board_name",
        "chassis-manufacturer": "chassis_vendor",
        "bios-vendor": "bios_vendor",
        "bios-version": "bios_version",
        "bios-release-date": "bios_date",
    }
    if len(argv) == 2 and argv[0] in ("-s", "--string") and argv[1] in names:
        print(read(Path("/sys/class/dmi/id") / names[argv[1]], "Unknown"))
        return 0
    sys.stderr.write("Invalid parameter for --string or unsupported request. Valid string keywords are:\n")
    sys.stderr.write("".join(f"  {name}\n" for name in sorted(names)))
    return 2
