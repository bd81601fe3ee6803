#!/usr/bin/env bash
# The molecule scenarios, one after the other, on one lab. The last leaves its deployment up for what follows (playbook output, both ends).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
passed=0
# Molecule keeps "created" and "prepared" by the checkout's name, outside of it: what an earlier run left there says nothing about this lab.
molecule reset --scenario-name default
for scenario in recon site; do
  printf '\n━━ scenario %s\n' "$scenario"
  molecule reset --scenario-name "$scenario"
  molecule test --scenario-name "$scenario" --destroy never
  if [ "$scenario" = recon ]; then
    printf '\n━━ machines with one fault each\n'
    pytest tests/testinfra/degraded
    printf '\n━━ the fabric\n'
    pytest tests/testinfra/fabric
  fi
  passed=$((passed + 1))
done
printf '\nscenarios: %d passed, 0 failed\n' "$passed"
