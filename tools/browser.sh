#!/usr/bin/env bash
# Makes sure that there is a Chromium and its driver for `pytest tests/browser` (Debian, Ubuntu; root or sudo -n). Idempotent, and quick
# when they are there. Prints what will be used. Nothing is downloaded but by apt.
set -euo pipefail

browsers=(chromium chromium-browser google-chrome google-chrome-stable)
drivers=(chromedriver chromium.chromedriver)

say() { printf 'browser: %s\n' "$*"; }
die() { printf 'browser: %s\n' "$*" >&2; exit 1; }

# The first of these programs that answers: on Ubuntu the package chromium-browser is a script that only asks for a snap.
first() {
    local name
    for name in "$@"; do
        if command -v "$name" >/dev/null 2>&1 && timeout 60 "$name" --version >/dev/null 2>&1; then
            command -v "$name"
            return 0
        fi
    done
    return 1
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        sudo -n "$@"
    else
        die "chromium and its driver are missing, and installing them needs root or sudo without a password. As root: apt-get install chromium chromium-driver"
    fi
}

install() {
    command -v apt-get >/dev/null 2>&1 ||
        die "there is no Chromium or Chrome with its driver here, and no apt-get to install them. Install one of ${browsers[*]} and one of ${drivers[*]}"
    say "installing chromium and chromium-driver (a minute or two, once)"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq >/dev/null || die "apt-get update failed: is a mirror within reach?"
    # Ubuntu has no such packages (its Chromium is a snap): what is found afterwards decides.
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium chromium-driver fonts-dejavu-core >/dev/null ||
        say "apt-get could not install chromium and chromium-driver: looking for another"
}

if ! first "${browsers[@]}" >/dev/null || ! first "${drivers[@]}" >/dev/null; then
    install
fi
browser=$(first "${browsers[@]}") ||
    die "none of ${browsers[*]} runs here. On Ubuntu: install Google's package of Chrome, or \`snap install chromium\`"
driver=$(first "${drivers[@]}") ||
    die "$browser is there, but no chromedriver for it (looked for ${drivers[*]}). On Ubuntu it comes with \`snap install chromium\`"

# A driver drives only the browser of its own major version.
major() { timeout 60 "$1" --version 2>/dev/null | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -1 | cut -d. -f1; }
[ "$(major "$browser")" = "$(major "$driver")" ] ||
    die "$browser is version $(major "$browser"), and $driver is for version $(major "$driver"): install a driver of the browser's version"
say "$browser ($(major "$browser")) with $driver"
