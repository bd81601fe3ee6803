#!/usr/bin/env bash
# The molecule scenarios, one after the other, on one lab. The last leaves its deployment up for what follows (playbook output, both ends).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
passed=0
for scenario in recon site; do
  printf '\n━━ scenario %s\n' "$scenario"
  molecule test --scenario-name "$scenario" --destroy never
  passed=$((passed + 1))
done
printf '\nscenarios: %d passed, 0 failed\n' "$passed"
