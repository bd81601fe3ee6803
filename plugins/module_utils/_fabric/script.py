# Copyright (c) 2026 the gb10.cluster authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way back, as a shell script that stands alone on the node: for the timer, for the next boot, and for the module. Pure.

A shell has no part that could be missing early in a boot, or when the interpreter that Ansible uses is in somebody's home.
Everything that is known now is written into it; the script itself only decides whether there still is a change to take back.
"""

from __future__ import annotations

import shlex

from ansible_collections.gb10.cluster.plugins.module_utils._fabric.options import TIMER, Paths
from ansible_collections.gb10.cluster.plugins.module_utils._fabric.plan import NETWORK_MANAGER, NETWORKD, Change, State, return_profile

_COMMAND_SECONDS = 20
_LOCK_SECONDS = 30  # longer than the module holds the lock, and short enough for a revert that nobody can wait for
_SETTLE_TENTHS = 50  # tenths of a second that a manager has to bring its own addresses back


def revert_script(paths: Paths, change: Change, token: str) -> str:
    """`sh revert.sh timer|boot|now WHY`: puts our file and our links back as they were before the change of this token."""
    q = shlex.quote
    lines = [
        "#!/bin/sh",
        "# Written by gb10.cluster. Takes back one change of the fabric's addresses, unless it was confirmed: then the journal is gone.",
        "# Usage: revert.sh timer|boot|now WHY",
        "PATH=${PATH:-/usr/bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C",
        "export PATH LC_ALL",
        "umask 077",
        "when=$1 why=$2 failed=",
        f"mkdir -p -m 755 {q(paths.run)}",
        "# Who says `now` holds the lock already. Without it after this time the change is taken back all the same.",
        f'if [ "$when" != now ]; then exec 9>>{q(paths.lock)}; flock -w {_LOCK_SECONDS} 9; fi',
        "",
        f'try() {{ timeout -k 1 {_COMMAND_SECONDS} "$@" >/dev/null 2>&1 9>&- || failed="$failed; $*"; }}',
        f"tidy() {{ rm -rf {q(paths.boot_link)} {q(paths.boot_unit)} {q(paths.old)} {q(paths.new)} {q(paths.kept)}; }}",
        'has() { case "$(ip -o address show dev "$1" 2>/dev/null)" in *" $2 "*) return 0 ;; esac; return 1; }',
        "# A manager that has been told to go back may be quicker by a hair: what is gone then is no failure.",
        "drop() {",
        '  if has "$1" "$2" && ! ip address del "$2" dev "$1" 2>/dev/null && has "$1" "$2"; then failed="$failed; ip address del $2 dev $1"; fi',
        "}",
        'add() { if ! has "$1" "$2"; then try ip address add "$2" dev "$1"; fi; }',
        f'await() {{ n=0; until has "$1" "$2" || [ $n -ge {_SETTLE_TENTHS} ]; do sleep 0.1; n=$((n + 1)); done; }}',
        'mtu() { if [ "$(cat "/sys/class/net/$1/mtu" 2>/dev/null)" != "$2" ]; then try ip link set dev "$1" mtu "$2"; fi; }',
        'mode() { file=/proc/sys/net/ipv6/conf/$1/addr_gen_mode; if [ "$(cat "$file" 2>/dev/null)" != "$2" ]; then echo "$2" > "$file"; fi; }',
        "",
        f"if [ ! -e {q(paths.journal)} ]; then tidy; exit 0; fi",
        "# A timer that comes late must not take back the next change.",
        f"grep -qF {q(token)} {q(paths.journal)} || exit 0",
        "",
        *_file(paths, change),
        "",
        *_keeping(paths),
        'if [ "$when" != boot ]; then',
        *(f"  {line}" for line in [*_managers(change), *_links(change)]),
        "else",
        *(f"  if [ -e /sys/class/net/{name} ]; then mtu {name} {change.before[name].mtu}; fi" for name in change.links),
        "fi",
        "",
        f'printf "%s %s%s\\n" "$(date +%s)" "$why" "${{failed:+ (failed: ${{failed#; }})}}" > {q(paths.reason)}',
        "# This is the end of the change, in one step. What follows can be done again.",
        f"mv -f {q(paths.journal)} {q(paths.reverted)} || exit 1",
        f"sync {q(paths.state)}",
        "tidy",
        f'if [ "$when" = now ]; then systemctl stop {TIMER}.timer >/dev/null 2>&1; fi',
        "exit 0",
    ]
    return "\n".join(lines) + "\n"


def _file(paths: Paths, change: Change) -> list[str]:
    """Our file as it was. A rename or an unlink: neither needs space on a full disk."""
    q = shlex.quote
    if change.old is None:
        step = f"rm -f {q(paths.file)} || exit 1"
    else:
        # Before the change both names are the same file, which mv would refuse.
        step = f"if [ -e {q(paths.old)} ] && ! [ {q(paths.old)} -ef {q(paths.file)} ]; then mv -f {q(paths.old)} {q(paths.file)} || exit 1; fi"
    return [step, f"sync {q(paths.etc)}"]


def _keeping(paths: Paths) -> list[str]:
    """`netplan generate`, with the files of links that do not change kept as they are.

    It writes all of them anew, and on a reload networkd configures every link anew whose file is another one, whatever stands in it:
    the way of the session would lose its address for a moment.
    """
    q = shlex.quote
    kept, live = q(paths.kept), q(paths.networkd)
    return [
        f"rm -rf {kept}; mkdir -p {kept}; ln {live}/10-netplan-* {kept}/ 2>/dev/null",
        "try netplan generate",
        f"for file in {kept}/*; do",
        f'  if cmp -s "$file" {live}/"${{file##*/}}"; then mv -f "$file" {live}/"${{file##*/}}"; fi',
        "done",
    ]


def _managers(change: Change) -> list[str]:
    commands: list[list[str]] = []
    networkd = [name for name in change.links if NETWORKD in (change.owners.get(name), change.before[name].manager)]
    if networkd:
        commands += [["networkctl", "reload"], ["networkctl", "reconfigure", *networkd]]
    profiles = [name for name in change.links if NETWORK_MANAGER in (change.owners.get(name), change.before[name].manager)]
    if profiles:
        commands.append(["nmcli", "connection", "reload"])
    commands += [return_profile(name, profile) for name in profiles for profile in [change.before[name].profile] if profile]
    return [f"try {shlex.join(command)}" for command in commands]


def _links(change: Change) -> list[str]:
    lines = []
    given = {rail.netdev: rail.address for rail in change.rails}
    for name in change.links:
        was = change.before[name]
        if name in given and given[name] not in was.addresses:
            lines.append(f"drop {name} {given[name]}")
        lines += [f"await {name} {address}" for address in was.addresses]
        lines += [f"add {name} {address}" for address in was.by_hand]
        lines.append(f"mtu {name} {was.mtu}")
        if was.addr_gen_mode is not None:
            lines.append(f"mode {name} {was.addr_gen_mode}")
        if not was.up:
            lines.append(f"try ip link set dev {name} down")
    return lines


def boot_unit(paths: Paths) -> str:
    """The unit that takes the change back at the next boot, before anybody gives a link an address."""
    return f"""# Written by gb10.cluster for the time of one change of the fabric's addresses.
[Unit]
Description=Take back a change of the fabric's addresses that nobody confirmed (gb10.cluster)
DefaultDependencies=no
ConditionPathExists={paths.journal}
RequiresMountsFor={paths.state} {paths.etc}
After=local-fs.target systemd-remount-fs.service
Wants=network-pre.target
Before=network-pre.target systemd-networkd.service NetworkManager.service netplan-configure.service

[Service]
Type=oneshot
ExecStart=/bin/sh {paths.script} boot "the node was restarted before anybody confirmed it"
TimeoutStartSec=90
"""


def undone(before: State, now: State | None) -> str:
    """What of a link is not yet as it was, as a clause; empty if nothing."""
    if now is None:
        return f"there is no interface {before.name}"
    missing = [address for address in before.by_hand if address not in now.addresses]
    if missing:
        return f"{before.name} lacks {', '.join(missing)}"
    return f"{before.name} has the MTU {now.mtu} instead of {before.mtu}" if now.mtu != before.mtu else ""
