#!/usr/bin/env bash
# The reference story, told by the product itself against the lab: an occupied head, a refusal, consent, a served model, an answer.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
started=$SECONDS

chapter() { printf '\n\033[1m━━ %s\033[0m\n\n' "$*"; }
type_it() { printf '\033[2m$ %s\033[0m\n' "$*"; }

chapter "0. Two Sparks as their owner left them"
python3 molecule/lab/lab.py reset --head spark-used --worker spark
python3 molecule/lab/lab.py status

chapter "1. Survey: what is there, who holds the memory, what would block"
type_it "ansible-playbook recon.yml --check"
ansible-playbook recon.yml --check

chapter "2. Without your consent nothing of yours is stopped: site.yml refuses and names the word"
type_it "ansible-playbook site.yml"
if ansible-playbook site.yml; then
  echo "site.yml was expected to refuse, since the head's memory is held: look at the output above." >&2
  exit 1
fi

chapter "3. With consent: stop exactly that container, fetch, share over the cable, form the cluster, serve, prove"
consent='{"gb10_reclaim": ["vllm_node"]}'
type_it "ansible-playbook site.yml -e '$consent'"
ansible-playbook site.yml -e "$consent"

chapter "4. A question, through the openai client"
url=$(python3 -c 'import json; print(json.load(open("reports/report.json"))["plan"]["endpoint"]["url"])')
type_it "OpenAI(base_url=\"$url\").chat.completions.create(…)"
.venv/bin/python tools/ask.py "$url" "What is a unified memory?"

chapter "Done in $((SECONDS - started)) s. The lab is yours now:"
cat <<'END'
  ansible-playbook site.yml                      a second run changes nothing
  ansible-playbook gb10.cluster.status           one screen
  ansible-playbook gb10.cluster.verify           the fabric, proved from the wire upwards
  python3 molecule/lab/lab.py cable pull enp1s0f1np1     pull a cable, then look again
  reports/report.html                            the report, for a browser
  ansible-playbook gb10.cluster.teardown         take it away, start again what was stopped
  make lab-down                                  remove the lab
For your own machines: fill in inventories/twin/hosts.yml, then
  ansible-playbook -i inventories/twin/hosts.yml recon.yml --check
END
