"""nvidia-smi as a GB10 answers it: no memory numbers for the GPU, only for the processes."""

from __future__ import annotations

import json
import re
import sys
import time
from typing import Any

from .common import output
from .memory import PROCESSES

PROCESS_FIELDS = {
    "pid": "pid",
    "process_name": "process_name",
    "name": "process_name",
    "used_memory": "used_gpu_memory",
    "used_gpu_memory": "used_gpu_memory",
    "gpu_uuid": "gpu_uuid",
    "gpu_name": "gpu_name",
    "gpu_bus_id": "gpu_bus_id",
    "timestamp": "timestamp",
}


def processes() -> list[dict[str, Any]]:
    """The compute processes that the service has found."""
    try:
        found: list[dict[str, Any]] = json.loads(PROCESSES.read_text())
    except (OSError, ValueError):
        return []
    return found


def _fields(settings: dict[str, Any]) -> dict[str, list[str]]:
    gpu = settings["gpu"]
    fields: dict[str, list[str]] = {**gpu["fields"], **(gpu["loaded"] if processes() else {})}
    fields["uuid"] = [settings["gpu_uuid"], ""]
    fields["timestamp"] = [time.strftime("%Y/%m/%d %H:%M:%S.000"), ""]
    return fields


def table(settings: dict[str, Any]) -> str:
    """The plain table: the recorded one with the processes, the temperature and the power of now."""
    fields = _fields(settings)
    text = output("nvidia-smi.txt")
    text = re.sub(r"^.* \d{4} *$", f"{time.strftime('%a %b %e %H:%M:%S %Y'):<31}", text, count=1, flags=re.MULTILINE)
    watts = round(float(fields["power.draw"][0]))
    cell = f"| N/A   {fields['temperature.gpu'][0]}C    {fields['pstate'][0]}            {watts:>3}W /  N/A  |"
    text = re.sub(r"^\| N/A +\d+C +P\d +\d+W /  N/A  \|", cell, text, flags=re.MULTILINE)
    rows = "".join(_row(one) for one in processes())
    if not rows:
        rows = f"|  {'No running processes found':<87}|\n"
    head, border, tail = text.rpartition("+--")
    return head + rows + border + tail


def _row(one: dict[str, Any]) -> str:
    name = one["name"]
    if len(name) > 36:
        name = "..." + name[-33:]
    return f"|    0   N/A  N/A{one['pid']:>16}      C   {name:<37}{one['mib']:>6}MiB |\n"


def _csv(header: list[str], rows: list[list[str]], options: str) -> str:
    lines = [] if "noheader" in options else [", ".join(header)]
    return "".join(line + "\n" for line in lines + [", ".join(row) for row in rows])


def _query_gpu(settings: dict[str, Any], names: str, options: str) -> tuple[str, int]:
    fields = _fields(settings)
    aliases = settings["gpu"]["field_aliases"]
    header, row = [], []
    for asked in names.split(","):
        name = asked.strip()
        known = fields.get(aliases.get(name, name))
        if known is None:
            return f'Field "{name}" is not a valid field to query.\n\n', 2
        value, unit = known
        header.append(f"{name} [{unit}]" if unit else name)
        bare = "nounits" in options or not unit or value == "[N/A]"
        row.append(value if bare else f"{value} {unit}")
    return _csv(header, [row], options), 0


def _query_processes(settings: dict[str, Any], names: str, options: str) -> tuple[str, int]:
    header = []
    wanted = []
    for asked in names.split(","):
        name = PROCESS_FIELDS.get(asked.strip())
        if name is None:
            return f'Field "{asked.strip()}" is not a valid field to query.\n\n', 2
        wanted.append(name)
        header.append("used_gpu_memory [MiB]" if name == "used_gpu_memory" else name)
    rows = []
    for one in processes():
        values = {
            "pid": str(one["pid"]),
            "process_name": one["name"],
            "used_gpu_memory": str(one["mib"]) if "nounits" in options else f"{one['mib']} MiB",
            "gpu_uuid": settings["gpu_uuid"],
            "gpu_name": settings["gpu"]["name"],
            "gpu_bus_id": settings["gpu"]["bus_id"],
            "timestamp": time.strftime("%Y/%m/%d %H:%M:%S.000"),
        }
        rows.append([values[name] for name in wanted])
    return _csv(header, rows, options), 0


def _long(settings: dict[str, Any]) -> str:
    """``-q``: the lines that were recorded, then those that ground truth lists, then the processes."""
    fields = _fields(settings)
    lines = output("nvidia-smi-q.txt").rstrip("\n").splitlines()
    stamp = f"{'Timestamp':<55}: {time.strftime('%a %b %e %H:%M:%S %Y')}"
    text = "\n" + lines[0] + "\n\n" + stamp + "\n" + "\n".join(lines[1:3]) + "\n\nAttached GPUs" + " " * 42 + ": 1\n"
    text += "\n".join(lines[3:]) + "\n"

    def row(depth: int, name: str, value: str) -> str:
        indent = "    " * depth
        return f"{indent}{name:<{51 - len(indent) + 4}}: {value}\n"

    text += row(1, "Product Brand", "NVIDIA RTX") + row(1, "Addressing Mode", "ATS") + row(1, "Persistence Mode", "Enabled")
    text += row(1, "GPU UUID", settings["gpu_uuid"]) + row(1, "Performance State", fields["pstate"][0])
    for section in ("FB Memory Usage", "BAR1 Memory Usage"):
        text += f"    {section}\n" + "".join(row(2, name, "N/A") for name in ("Total", "Used", "Free"))
    text += "    Temperature\n" + row(2, "GPU Current Temp", fields["temperature.gpu"][0] + " C")
    found = processes()
    text += "    Processes" if found else row(1, "Processes", "None")
    for one in found:
        text += "\n" + row(2, "Process ID", str(one["pid"])) + row(3, "Type", "C") + row(3, "Name", one["name"])
        text += row(3, "Used GPU Memory", f"{one['mib']} MiB").rstrip("\n")
    return text.rstrip("\n") + "\n"


def main(settings: dict[str, Any], argv: list[str]) -> int:
    """Answer the usual questions; anything else is refused in nvidia-smi's words."""
    options = {name: value for name, _, value in (item.partition("=") for item in argv)}
    query = options.get("--query-gpu")
    apps = options.get("--query-compute-apps")
    style = options.get("--format", "")
    status = 0
    if query is not None or apps is not None:
        if not style.startswith("csv"):
            text, status = "Missing --format option or its value is not csv. Run 'nvidia-smi -h' for more info.\n", 2
        elif query is not None:
            text, status = _query_gpu(settings, query, style)
        else:
            text, status = _query_processes(settings, apps or "", style)
    elif argv[:2] == ["topo", "-m"]:
        text = output("nvidia-smi-topo.txt")
    elif argv and argv[0] in ("-L", "--list-gpus"):
        text = f"GPU 0: {settings['gpu']['name']} (UUID: {settings['gpu_uuid']})\n"
    elif "--version" in options:
        text = output("nvidia-smi-version.txt")
    elif "-q" in options or "--query" in options:
        text = _long(settings)
    elif not argv or argv[0] in ("-i", "--id=0"):
        text = table(settings)
    else:
        text, status = f"Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n{argv[0]}\n", 1
    sys.stdout.write(text)
    return status
