#!/usr/bin/env bash
# All tests, in two lanes at once: what runs on the lab, before your eyes, and what does not need it, into a log that is shown when it is
# through. The last line counts both.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"; [ -z "$(jobs -p)" ] || kill $(jobs -p) 2>/dev/null' EXIT

# The lab comes first where both want the processor: there, time decides whether somebody gave up waiting.
nice -n 10 make --no-print-directory lint unit browser transaction >"$folder/beside" 2>&1 &
beside=$!
failed=""
make --no-print-directory scenarios both-ends 2>&1 | tee "$folder/lab" || failed="on the lab"
wait "$beside" || failed="${failed:+$failed and }beside the lab"
printf '\n━━ beside the lab: linters, units, the page in a browser, transactions\n'
cat "$folder/beside"

count() { grep -hoE "[0-9]+ $1" "$folder/lab" "$folder/beside" | awk '{ sum += $1 } END { print sum + 0 }'; }
if [ -n "$failed" ]; then
  broken=$(count failed)
  printf '\nSomething failed %s: look above.\n%d passed, %d failed\n' "$failed" "$(count passed)" "$((broken > 0 ? broken : 1))"
  exit 1
fi
printf '\n%d passed, 0 failed\n' "$(count passed)"
