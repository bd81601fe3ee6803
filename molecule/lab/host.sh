#!/usr/bin/env bash
# Make this host able to run the lab (Debian 12 / Ubuntu 24.04, root or sudo).
#
# Idempotent and quiet: when everything is there it answers in well under a second.
# It never touches an engine that already answers, and it needs no systemctl: where
# service start is denied (containers, CI) it starts dockerd itself.
set -euo pipefail

cache="${GB10_LAB_CACHE:-$HOME/.cache/gb10-cluster}"
log="$cache/log/dockerd.log"
wait_seconds=60

say() { printf 'lab host: %s\n' "$*"; }
die() { printf 'lab host: %s\n' "$*" >&2; exit 1; }

if [ "$(id -u)" -eq 0 ]; then
    as_root() { "$@"; }
elif command -v sudo >/dev/null 2>&1; then
    as_root() { sudo -n "$@" || die "sudo asks for a password: run this script as root once"; }
else
    die "root or sudo is needed to run the lab, and neither is at hand"
fi

# A tool and the package that brings it; a tool that is already on PATH counts, whoever installed it.
need=()
want() {
    local package="$1" tool
    shift
    for tool in "$@"; do
        PATH="$PATH:/usr/sbin:/sbin" command -v "$tool" >/dev/null 2>&1 || { need+=("$package"); return; }
    done
}
engine_answers() { docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }
engine_answers_root() { as_root docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

engine=no
if engine_answers || engine_answers_root; then
    engine=yes
else
    want docker.io docker dockerd
fi
want iptables iptables
want debootstrap debootstrap
want iproute2 ip nsenter
want rsync rsync
want openssh-client ssh ssh-keygen
want procps pgrep
want kmod modprobe
want ca-certificates update-ca-certificates
if ! command -v python3 >/dev/null 2>&1; then
    need+=(python3 python3-venv)
elif ! python3 -c 'import ensurepip, venv' >/dev/null 2>&1; then
    need+=(python3-venv)
fi

if [ "${#need[@]}" -gt 0 ]; then
    command -v apt-get >/dev/null 2>&1 || die "these packages are missing and there is no apt-get: ${need[*]}"
    say "installing ${need[*]}"
    mkdir -p "$cache/log"
    as_root apt-get -q update >"$cache/log/apt.log" 2>&1 \
        || say "apt-get update had trouble (see $cache/log/apt.log), trying the install all the same"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "${need[@]}" \
        >>"$cache/log/apt.log" 2>&1 || { tail -n 15 "$cache/log/apt.log" >&2; die "the packages could not be installed"; }
fi

[ "$engine" = yes ] && exit 0
engine_answers_root && exit 0

# A pid file left by a killed engine or by a reboot makes dockerd refuse to start if another process got its number.
for pidfile in /var/run/docker.pid /run/docker.pid; do
    [ -e "$pidfile" ] || continue
    pid="$(cat "$pidfile" 2>/dev/null || true)"
    if [ -n "$pid" ] && [ "$(cat "/proc/$pid/comm" 2>/dev/null || true)" = dockerd ]; then
        say "an engine (pid $pid) is already starting"
        break
    fi
    say "removing the stale $pidfile"
    as_root rm -f "$pidfile"
done

if ! pgrep -x dockerd >/dev/null 2>&1; then
    # /run/systemd/system exists only where systemd is really the init of this host.
    if [ -d /run/systemd/system ] && as_root systemctl start docker >/dev/null 2>&1; then
        say "started docker.service"
    else
        mkdir -p "$cache/log"
        say "starting dockerd (log: $log)"
        # A new session, so that the engine outlives this shell and its terminal.
        # shellcheck disable=SC2016  # the inner shell expands it
        as_root sh -c 'setsid dockerd >>"$1" 2>&1 </dev/null &' sh "$log"
    fi
fi

for ((i = 0; i < wait_seconds * 5; i++)); do
    engine_answers_root && { say "the docker engine answers"; exit 0; }
    sleep 0.2
done
[ -e "$log" ] && tail -n 15 "$log" >&2
die "the docker engine did not answer within $wait_seconds s"
