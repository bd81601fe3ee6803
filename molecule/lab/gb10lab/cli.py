"""The commands of the lab."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from . import cables, config, fence, images, keys, nodes, outside, profiles, seeds
from .docker import docker, docker_argv, labelled
from .fingerprint import fingerprint
from .shell import LabError, passthrough, run, say, step
from .status import info, status


@contextmanager
def exclusive() -> Iterator[None]:
    """One change at a time: several checkouts and test runs share the lab."""
    config.STATE.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(config.STATE / "lock", "w", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another run is changing the lab, waiting for it ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _sweep() -> None:
    """Remove what an aborted run may have left behind on the engine."""
    leftovers = [
        name
        for name in docker("ps", "-a", "--filter", f"label={config.LABEL}", "--format", "{{.Names}}").stdout.split()
        if name.startswith("gb10-lab-build-") and not Path("/proc", name.rpartition("-")[2]).exists()
    ]
    if leftovers:
        docker("rm", "-f", *leftovers, check=False)
    nodes.discard_volumes()


#: By the node's name the profile that was asked for.
Wanted = dict[str, str | None]


def up(wanted: Wanted, *, engine: bool = True) -> None:
    """Bring the lab up, whatever state it is in."""
    started = time.monotonic()
    for name in filter(None, wanted.values()):
        profiles.load(name)
    _sweep()
    if not outside.free_space_ok():
        say(f"Less than 12 GB are free under {config.CACHE}: an engine image may not find room on both nodes.")
    keys.ensure_keys()
    images.ensure_node_image()
    if engine:
        outside.ensure_engine_built()
    done = fence.ensure()
    done += nodes.ensure_network()
    done += outside.ensure_outside()
    done += _up_nodes(wanted)
    if engine:
        done += outside.ensure_engine_pushed()
    for line in done:
        say(f"  {line}")
    seconds = time.monotonic() - started
    say(f"The lab is up ({'nothing to do' if not done else 'ready'}, {seconds:.1f} s). See it: python3 molecule/lab/lab.py status")


def _up_nodes(wanted: Wanted) -> list[str]:
    """The nodes, the cables between them, what their owner has on them."""
    done: list[str] = []
    there = nodes.members()
    members = [node for node in config.NODES if node in there or wanted.get(node.name)]
    chosen: dict[str, profiles.Profile] = {}
    with step("Starting the nodes", quiet_below=1.0):
        for node in members:
            words, chosen[node.name] = nodes.ensure_node(node, wanted.get(node.name))
            done += words
        plugged = set.intersection(*(profile.cables for profile in chosen.values()))
        done += cables.ensure(nodes.pids(), plugged, chosen)
        boots = {node.name: nodes.wait_booted(node) for node in members}
        for node in members:
            done += nodes.ensure_hardware(node, chosen[node.name], boots[node.name].digest)
    for node in members:
        if not boots[node.name].seeded:
            with step(f"Seeding {node.name} with the profile {chosen[node.name].name}", quiet_below=1.0):
                seeds.seed(node, chosen[node.name])
            done.append(f"{node.name} was seeded with the profile {chosen[node.name].name}")
    if "enp1s0f1np1" in plugged and done and not chosen[config.WORKER.name].settings["management"]:
        nodes.wait_rails()
    return done


def _remove_tree(folder: Path) -> None:
    """Remove a folder that may hold files of root, as a container wrote them."""
    if folder.exists():
        run(["rm", "-rf", "--one-file-system", str(folder)], root=True, timeout=300)


def down(*, with_images: bool) -> None:
    """Remove everything the lab has on this host."""
    with step("Removing the lab", quiet_below=2.0):
        for node in config.NODES:
            nodes.remove_node(node)
        outside.remove_outside(with_data=with_images, remove_tree=_remove_tree)
        cables.remove()
        fence.remove()
        for name in labelled("container"):
            docker("rm", "-f", "-v", name, check=False)
        for name in labelled("volume"):
            docker("volume", "rm", "-f", name, check=False, timeout=300)
        docker("network", "rm", config.NETWORK, check=False)
        nodes.clean_cgroup_root()
    if with_images:
        images.remove_images()
        for folder in (config.CACHE / "tmp", config.CACHE / "debs", config.CACHE / "engine", config.STATE):
            _remove_tree(folder)
    say("The lab is down" + (", its images and cached files are gone." if with_images else "; its images and keys stay for the next time."))


def reset(wanted: Wanted) -> None:
    """Throw the machines away and seed new ones: the same keys, addresses and profiles, nothing of the product.

    The twin keeps its profiles where none are asked for; further machines are there again only if they are asked for.
    """
    again = {node.name: wanted.get(node.name) or nodes.current_profile(node) for node in config.TWIN}
    for node in config.NODES:
        nodes.remove_node(node)
    up({**wanted, **again})


def node_exec(name: str, command: Sequence[str]) -> int:
    """Run a command on a node with the user's terminal."""
    if name not in (*config.NODE_BY_NAME, config.OUTSIDE):
        raise LabError(f"there is no node {name}: choose one of {', '.join((*config.NODE_BY_NAME, config.OUTSIDE))}")
    words = list(command[1:] if command[:1] == ["--"] else command) or ["bash", "-l"]
    tty = ["-it"] if sys.stdin.isatty() and sys.stdout.isatty() else ["-i"]
    return passthrough(docker_argv("exec", *tty, name, *words), root=os.geteuid() != 0)


def cable(action: str, netdev: str) -> None:
    """Pull or plug one cable."""
    if not cables.tray_exists():
        raise LabError("the lab is down: run `python3 molecule/lab/lab.py up` first")
    cables.set_plugged(netdev, action == "plug")
    say(f"The cable of {netdev} is {'plugged in' if action == 'plug' else 'out'} at both ends.")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lab.py", description="The emulated twin: two NVIDIA DGX Sparks on this machine, or up to four.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in (("up", "bring the lab up or mend it"), ("reset", "back to the freshly seeded state, quickly")):
        command = commands.add_parser(name, help=text)
        command.add_argument("--head", metavar="PROFILE", help=f"profile of the head (default: as it is, else {config.HEAD.default_profile})")
        command.add_argument("--worker", metavar="PROFILE", help=f"profile of the worker (default: as it is, else {config.WORKER.default_profile})")
        command.add_argument("--third", metavar="PROFILE", help="a third machine of that profile")
        command.add_argument("--fourth", metavar="PROFILE", help="a fourth one")
        if name == "up":
            command.add_argument("--without-engine", action="store_true", help="do not build or push the engine image")
    command = commands.add_parser("down", help="remove containers, networks, volumes and cables")
    command.add_argument("--images", action="store_true", help="remove the images and the cached files too")
    command = commands.add_parser("status", help="nodes, cables, memory on one screen")
    command = commands.add_parser("info", help="addresses, paths and names")
    command.add_argument("--json", action="store_true")
    command = commands.add_parser("cable", help="pull or plug a cable at all its ends")
    command.add_argument("action", choices=("pull", "plug"))
    command.add_argument("netdev", choices=[port.netdev for port in config.PORTS])
    command = commands.add_parser("exec", help="run a command on a node as root")
    command.add_argument("node")
    command.add_argument("argv", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    command = commands.add_parser("fingerprint", help="one JSON of everything a read-only run must leave alone")
    command.add_argument("node", choices=list(config.NODE_BY_NAME))
    return parser


def _wanted(arguments: argparse.Namespace) -> Wanted:
    return {
        config.HEAD.name: arguments.head,
        config.WORKER.name: arguments.worker,
        config.THIRD.name: arguments.third,
        config.FOURTH.name: arguments.fourth,
    }


def _dispatch(arguments: argparse.Namespace) -> int:
    if arguments.command == "exec":
        return node_exec(arguments.node, arguments.argv)
    if arguments.command == "status":
        return status()
    if arguments.command == "info":
        info(as_json=arguments.json)
    elif arguments.command == "fingerprint":
        print(json.dumps(fingerprint(config.NODE_BY_NAME[arguments.node]), indent=1, sort_keys=True))
    elif arguments.command == "cable":
        cable(arguments.action, arguments.netdev)
    else:
        with exclusive():
            if arguments.command == "up":
                up(_wanted(arguments), engine=not arguments.without_engine)
            elif arguments.command == "reset":
                reset(_wanted(arguments))
            else:
                down(with_images=arguments.images)
    return 0


def main() -> int:
    """Parse, do, and turn every expected failure into one sentence."""
    # `lab.py status | head` ends quietly.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    arguments = _parser().parse_args()
    if shutil.which("docker") is None:
        say("docker is not installed: run molecule/lab/host.sh first")
        return 1
    try:
        return _dispatch(arguments)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("lab: stopped; `lab.py up` mends what is half done", file=sys.stderr)
        return 130
