#!/usr/bin/env bash
# What a user sees, with the oldest and the newest ansible-core at hand: a second run of site.yml changes nothing and warns of nothing, bad
# input ends in one clear error. Works on the deployment that the scenario `site` left in the lab.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
environments=$(readlink -f .venv)
default=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
installed=$(compgen -G "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.1[2-4]*/bin/python3" | sort -rV || true)
for candidate in python3.14 python3.13 python3.12 $installed; do
  path=$(command -v "$candidate") || continue
  version=$("$path" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
  [ "$version" != "$default" ] && [ "$(printf '%s\n' 3.12 "$version" | sort -V | head -1)" = 3.12 ] || continue
  environments=$environments:$(tools/setup.sh "$path" | tail -1)
  break
done
case $environments in
  *:*) ;;
  *) echo "· Only $default is here: the other end of the supported ansible-core versions is not tested on this machine" ;;
esac
export GB10_TEST_ENVIRONMENTS=$environments
# Runs that only look, two at once; then those that change something.
.venv/bin/pytest --numprocesses 2 tests/testinfra/looking
.venv/bin/pytest tests/testinfra/life
