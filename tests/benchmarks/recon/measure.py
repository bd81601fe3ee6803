"""How fast recon is, in ratios, each measured within one run on one machine; written to docs/benchmarks.md.

    make bench          the lab has to be up (make lab)

Ratios and not seconds, because the lab's machines share the host's cores; the seconds beside them say what the ratio is made of.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
RECORDINGS = ROOT / "tests" / "unit" / "fixtures" / "recordings"
KEY = Path("~/.cache/gb10-cluster/lab/id_ed25519").expanduser()
KNOWN_HOSTS = KEY.with_name("known_hosts")
HEAD, WORKER = "172.30.180.10", "192.168.200.13"
RUNS = 5
HEADLINE = "| what | measured | wanted | made of |\n| --- | --- | --- | --- |\n"


@dataclass(frozen=True)
class Row:
    """One line of the table; ``met`` is the verdict of this run."""

    what: str
    measured: str
    wanted: str
    made_of: str
    met: bool

    def text(self) -> str:
        return f"| {self.what} | {self.measured}{'' if self.met else ' (missed)'} | {self.wanted} | {self.made_of} |"


def ansible(*arguments: str, inventory: str | None = None) -> str:
    where = ["-i", inventory] if inventory else []
    run = subprocess.run([*arguments[:1], *where, *arguments[1:]], cwd=ROOT, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    if run.returncode != 0:
        sys.exit(f"{shlex.join(arguments)} failed:\n{run.stdout}{run.stderr}")
    return run.stdout


def median_seconds(work: Callable[[], object], runs: int = RUNS) -> float:
    seconds = []
    for _run in range(runs):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def facts_of_nodes(folder: Path) -> dict[str, Any]:
    """`gb10` facts of the lab's nodes, by ansible's own tree of results."""
    ansible("ansible", "gb10", "-m", "gb10.cluster.gb10_facts", "--tree", str(folder))
    return {path.name: json.loads(path.read_text())["ansible_facts"]["gb10"] for path in folder.iterdir()}


def node_side() -> Row:
    """What the module takes on a node, above its slowest probe."""
    over, slowest = [], []
    for _run in range(RUNS):
        with tempfile.TemporaryDirectory() as folder:
            for facts in facts_of_nodes(Path(folder)).values():
                longest = max(probe["seconds"] for probe in facts["probes"].values())
                slowest.append(longest)
                over.append(facts["seconds"] - longest)
    median = statistics.median(over)
    made_of = f"slowest probe {statistics.median(slowest):.2f} s, {len(over)} node runs, both nodes at once on {os.cpu_count()} cores"
    return Row("time on a node beyond its slowest probe", f"{median:.2f} s", "≤ 0.3 s", made_of, median <= 0.3)


def commands_of(node: str, folder: Path) -> list[list[str]]:
    """The commands that a survey runs on a node, as it records them."""
    remote = "~/.gb10-benchmark.json"
    ansible("ansible", node, "-m", "gb10.cluster.gb10_facts", "-a", f"record={remote}")
    ansible("ansible", node, "-m", "ansible.builtin.fetch", "-a", f"src={remote} dest={folder}/{node}.json flat=yes")
    ansible("ansible", node, "-m", "ansible.builtin.file", "-a", f"path={remote} state=absent")
    recording = json.loads((folder / f"{node}.json").read_text())
    return [entry["argv"] for entry in recording["entries"] if entry["kind"] == "command"]


def one_after_the_other() -> tuple[float, int]:
    """Seconds that the same commands take with an ssh each, as scripts do it: the head directly, the worker through it. Files are left out."""
    trust = ["-i", str(KEY), "-o", f"UserKnownHostsFile={KNOWN_HOSTS}", "-o", "StrictHostKeyChecking=accept-new", "-o", "BatchMode=yes"]
    jump = ["-o", f"ProxyCommand={shlex.join(['ssh', *trust, '-W', '%h:%p', f'aurora@{HEAD}'])}"]
    with tempfile.TemporaryDirectory() as folder:
        todo = [(trust, HEAD, argv) for argv in commands_of("spark-head", Path(folder))]
        todo += [([*trust, *jump], WORKER, argv) for argv in commands_of("spark-worker", Path(folder))]
    started = time.perf_counter()
    for options, address, argv in todo:
        subprocess.run(["ssh", *options, f"aurora@{address}", shlex.join(argv)], capture_output=True, timeout=60, check=False)
    return time.perf_counter() - started, len(todo)


def against_ssh() -> Row:
    recon = median_seconds(lambda: ansible("ansible-playbook", "recon.yml"))
    script, count = one_after_the_other()
    ratio = script / recon
    made_of = f"recon.yml {recon:.1f} s (all of it, with plan and report), {count} commands with an ssh each {script:.1f} s"
    return Row("the same commands one ssh after the other, against recon.yml", f"{ratio:.1f} times", "≥ 3 times", made_of, ratio >= 3)


def inventory_of(count: int, folder: Path) -> str:
    """The lab's two machines under many names: every second one is the worker. Its CPU is the lab's, so this is the worst case."""
    hosts: dict[str, dict[str, str]] = {}
    for number in range(count):
        worker = number % 2 == 1
        hosts[f"spark-{number}"] = {"ansible_host": WORKER, "gb10_jump": "spark-0"} if worker else {"ansible_host": HEAD}
    text = (ROOT / "inventories" / "lab" / "group_vars" / "gb10.yml").read_text()
    recipe = ROOT / "inventories" / "lab" / "recipes" / "lab-tiny-qwen3.yml"
    (folder / "group_vars").mkdir(exist_ok=True)
    (folder / "group_vars" / "gb10.yml").write_text(text.replace("gb10_recipe: lab-tiny-qwen3\n", f"gb10_recipe: {recipe}\n"))
    path = folder / "hosts.yml"
    path.write_text(json.dumps({"gb10": {"hosts": hosts}}))
    return str(path)


def many_nodes() -> Row:
    with tempfile.TemporaryDirectory() as folder:
        seconds = {}
        for count in (2, 8):
            inventory = inventory_of(count, Path(folder))
            overrides = json.dumps({"gb10_recipe_overrides": {"nodes": count, "tensor_parallel": count}, "gb10_report_dir": folder})
            seconds[count] = median_seconds(lambda i=inventory, o=overrides: ansible("ansible-playbook", "recon.yml", "-e", o, inventory=i))
    ratio = seconds[8] / seconds[2]
    made_of = f"2 nodes {seconds[2]:.1f} s, 8 nodes {seconds[8]:.1f} s; the 8 are 4 names each of the lab's two, on {os.cpu_count()} cores"
    return Row("recon.yml of 8 nodes against 2", f"{ratio:.2f} times", "≤ 2.5 times", made_of, ratio <= 2.5)


def plan_of_many() -> Row:
    """The pure plan of 64 nodes, from recordings of real machines, their addresses made different."""
    # The collection as ansible.cfg finds it.
    sys.path.insert(0, str(ROOT / ".ansible" / "collections"))
    from ansible_collections.gb10.cluster.plugins.module_utils._facts.collect import gather, select
    from ansible_collections.gb10.cluster.plugins.module_utils._runner import load_recording
    from ansible_collections.gb10.cluster.plugins.plugin_utils._plan import make_plan, read_settings
    from ansible_collections.gb10.cluster.plugins.plugin_utils._recipes import load_recipe

    recorded = [json.loads(json.dumps(gather(load_recording(str(path)), select(["all"]), 10))) for path in sorted(RECORDINGS.glob("*.json"))]
    facts = {}
    for number in range(64):
        one = deepcopy(recorded[number % len(recorded)])
        for port in one["fabric"]["ports"]:
            for twin, entry in enumerate(port["addresses"]):
                entry["address"] = f"10.{port.get('twin', 0)}.{twin}.{number + 1}"
        facts[f"spark-{number}"] = one
    recipe = load_recipe("qwen3.5-122b-a10b-fp8", [], {"nodes": 64, "tensor_parallel": 64})
    settings = read_settings({}, recipe)
    seconds = median_seconds(lambda: make_plan(facts, recipe, settings))
    findings = len(make_plan(facts, recipe, settings)["findings"])
    made_of = f"64 nodes from {len(recorded)} recordings, {findings} findings"
    return Row("plan of 64 recorded nodes", f"{seconds:.2f} s", "< 2 s", made_of, seconds < 2)


def main() -> int:
    rows = []
    for measure in (plan_of_many, node_side, against_ssh, many_nodes):
        rows.append(measure())
        print(rows[-1].text(), flush=True)
    page = ROOT / "docs" / "benchmarks.md"
    machine = f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, the lab on the same machine"
    page.write_text(
        "# Benchmarks\n\nWritten by `make bench` (tests/benchmarks). Medians of "
        f"{RUNS} runs; what compares two things was measured in one run. Machine: {machine}; {time.strftime('%Y-%m-%d')}.\n\n"
        "## Recon\n\n" + HEADLINE + "\n".join(row.text() for row in rows) + "\n"
    )
    print(f"written to {page.relative_to(ROOT)}")
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
