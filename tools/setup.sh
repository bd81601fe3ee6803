#!/usr/bin/env bash
# Makes a checkout ready: the Python environment (kept outside the checkout, keyed by its requirements) and the path under which
# Ansible finds this very folder as the collection gb10.cluster. Idempotent; a second call takes a fraction of a second.
#   tools/setup.sh              with python3: Ansible, and all that the tests need
#   tools/setup.sh PYTHON       with another interpreter: a second environment with Ansible alone, for the other end of the supported versions
# Prints the environment's path as its last line.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${1:-python3}
cache=${GB10_LAB_CACHE:-$HOME/.cache/gb10-cluster}
sudo=""; [ "$(id -u)" = 0 ] || sudo=sudo

say() { printf '· %s\n' "$*" >&2; }

command -v "$python" >/dev/null || { echo "There is no $python on the PATH: gb10.cluster needs Python 3.11 or newer." >&2; exit 1; }
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "$python is $("$python" --version 2>&1): gb10.cluster needs Python 3.11 or newer on the controller." >&2; exit 1; }

wanted=$(mktemp)
trap 'rm -f "$wanted"' EXIT
if [ $# -eq 0 ]; then cat tests/requirements.txt; else grep '^ansible>=' tests/requirements.txt; fi >"$wanted"
key=$({ "$python" -c 'import sys, platform; print(sys.version, platform.machine())'; cat "$wanted"; } | sha256sum | cut -c1-12)
venv=$cache/venv-$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-$key
mkdir -p "$cache"
exec 9>"$venv.lock"
flock 9
if [ ! -e "$venv/complete" ]; then
  say "Making the Python environment $venv (about two minutes, once)"
  rm -rf "$venv"
  if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    say "Installing python3-venv"
    $sudo apt-get update -qq
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null
  fi
  "$python" -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$wanted"
  touch "$venv/complete"
fi
if [ $# -eq 0 ]; then
  ln -sfn "$venv" .venv
  # `ansible-playbook site.yml` should work as the README says it: offer the commands where the PATH has none of its own. The user's PATH:
  # that of make has the environment in it.
  PATH=${PATH//"$PWD/.venv/bin:"/}
  for name in ansible ansible-inventory ansible-playbook ansible-galaxy ansible-doc; do
    link=/usr/local/bin/$name
    if [ -L "$link" ] && [[ $(readlink "$link") == "$cache"/venv-* ]] && [ "$(readlink "$link")" != "$venv/bin/$name" ] \
       || ! command -v "$name" >/dev/null; then
      $sudo ln -sfn "$venv/bin/$name" "$link" && echo "  $name was not on the PATH: linked $link to the environment"
    fi
  done
fi
mkdir -p .ansible/collections/ansible_collections/gb10
ln -sfn ../../../.. .ansible/collections/ansible_collections/gb10/cluster
echo "$venv"
