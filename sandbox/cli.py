"""python -m sandbox: real systemd hosts on this machine."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sandbox import cgroups, config, hosts, images, limits, network, paths, preflight, share, system
from sandbox.config import Fleet
from sandbox.hosts import Node
from sandbox.report import SandboxError, print_error, stage


def _fleet(arguments: argparse.Namespace) -> Fleet:
    return config.load(arguments.inventory)


def _chosen(fleet: Fleet, arguments: argparse.Namespace) -> list[Node]:
    names = None if arguments.limit is None else [name for name in arguments.limit.split(",") if name]
    return [Node(fleet, host) for host in fleet.select(names)]


def _prepare(kinds: set[str], hosts_wanted: int, *, wheels: bool) -> images.Prepared:
    preflight.programs()
    preflight.disk(hosts_wanted, cold=not paths.IMAGES.exists())
    with system.lock("cache"), cgroups.builder():
        for directory in (paths.SHARE, paths.RUNTIMES):
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(0o755)
        _drop_unfinished()
        made = images.prepare(kinds)
        share.ensure(made.base, wheels=wheels)
    return made


def _drop_unfinished() -> None:
    """What an interrupted command left: under the lock nobody else is at work there."""
    if paths.WORK.exists():
        system.remove(paths.WORK)


def prepare(arguments: argparse.Namespace) -> int:
    preflight.root()
    kinds = set(config.KINDS) if arguments.inventory is None else {host.kind for host in _fleet(arguments).hosts}
    system.private_mounts()
    made = _prepare(kinds, 0, wheels=not arguments.no_wheels)
    _raise_failed(made)
    stage("prepared")
    return 0


def up(arguments: argparse.Namespace) -> int:
    fleet = _fleet(arguments)
    nodes = _chosen(fleet, arguments)
    preflight.root()
    preflight.programs()
    preflight.network(fleet)
    system.private_mounts()
    made = _prepare({node.host.kind for node in nodes}, len(nodes), wheels=not arguments.no_wheels)
    with system.lock(f"fleet-{fleet.network.bridge}"):
        started = _start(fleet, nodes, made, renew=arguments.fresh)
    stage(f"fleet {fleet.network.bridge}: {started} of {len(nodes)} hosts up")
    _raise_failed(made)
    return 0


def _raise_failed(made: images.Prepared) -> None:
    """A kind that this machine cannot have fails alone, after the others are done."""
    if made.failed:
        raise SandboxError([problem for error in made.failed.values() for problem in error.problems])


def _start(fleet: Fleet, chosen: Sequence[Node], made: images.Prepared, *, renew: bool) -> int:
    nodes = [node for node in chosen if node.host.kind in made.images]
    place = paths.FleetPaths(fleet.network.bridge)
    authorized = hosts.ensure_fleet_key(place)
    if renew:
        hosts.stop(nodes)
    with system.lock("machine", limit=120):
        if network.ensure_bridge(fleet.network):
            stage(f"bridge {fleet.network.bridge}: {fleet.network.controller}/{fleet.network.subnet.prefixlen}")
        others = set(hosts.running_anywhere()) | {(node.bridge, node.host.name) for node in nodes}
        limits.raise_for(len(others))
        # While the lock is held no other command takes the setting back, and then these hosts are there to be counted.
        waiting = []
        for node in nodes:
            image = made.images[node.host.kind]
            if hosts.supervisor(node.directory) is not None:
                old = system.read_json(node.directory / "spec.json")
                note = (
                    "" if old == hosts.wanted_spec(node, image) else "; it is of an older image or address, see `reset`"
                )
                stage(f"host {node.host.name}: runs already{note}")
                if network.link_state(node.bridge, node.host.name) == "down":
                    network.set_link(node.bridge, node.host.name, "up")
                    stage(f"host {node.host.name}: its link was down, plugged in")
            else:
                done = hosts.seed(node, image, authorized, renew=renew)
                hosts.start(node, image)
                stage(f"host {node.host.name}: starting as {node.host.kind}, {done}")
            waiting.append(node)
    hosts.write_known_hosts(fleet)
    hosts.wait_ready(waiting)
    return len(waiting)


def down(arguments: argparse.Namespace) -> int:
    fleet = _fleet(arguments)
    preflight.root()
    nodes = _chosen(fleet, arguments)
    with system.lock(f"fleet-{fleet.network.bridge}"):
        if arguments.limit is None:
            _stop_fleet(fleet.network.bridge, nodes, wipe=arguments.wipe)
        else:
            hosts.stop(nodes)
            if arguments.wipe:
                for node in nodes:
                    hosts.remove_disk(node.directory)
    _settle_machine()
    return 0


def _stop_fleet(bridge: str, nodes: Sequence[Node], *, wipe: bool) -> None:
    hosts.stop(nodes)
    # Hosts that the inventory no longer names.
    for other, name, group in cgroups.all_hosts():
        if other == bridge:
            cgroups.kill(group)
            cgroups.remove(group)
            network.wait_gone(bridge, name)
            stage(f"host {name}: ended")
    cgroups.remove(cgroups.mount_point()[0] / cgroups.PARENT / bridge)
    if network.remove_bridge(bridge):
        stage(f"bridge {bridge}: removed")
    if wipe:
        system.remove(paths.FleetPaths(bridge).root)
        stage(f"fleet {bridge}: disks and keys removed")


def _settle_machine() -> None:
    """The last host takes the machine's setting with it."""
    with system.lock("machine", limit=120):
        if not hosts.running_anywhere():
            limits.put_back()
            # Stays where images are being built.
            cgroups.remove(cgroups.mount_point()[0] / cgroups.PARENT, limit=0)


def status(arguments: argparse.Namespace) -> int:
    fleet = _fleet(arguments)
    preflight.root()
    rows: list[dict[str, Any]] = []
    for node in [Node(fleet, host) for host in fleet.hosts]:
        state = hosts.system_state(node.directory)
        runs = state != "stopped"
        rows.append(
            {
                "host": node.host.name,
                "kind": node.host.kind,
                "address": str(node.host.address),
                "state": state,
                "ssh": runs and hosts.banner(str(node.host.address)),
                "link": network.link_state(node.bridge, node.host.name),
                "failed_units": hosts.failed_units(node) if state == "degraded" else [],
                "up_seconds": hosts.up_seconds(node.directory),
                "memory_bytes": cgroups.memory_bytes(node.group) if runs else None,
                "pid": hosts.leader(node.directory),
            }
        )
    place = paths.FleetPaths(fleet.network.bridge)
    if arguments.json:
        print(
            json.dumps(
                {
                    "bridge": fleet.network.bridge,
                    "bridge_up": preflight.bridge_owner(fleet.network.bridge) == "sandbox",
                    "controller": str(fleet.network.controller),
                    "ssh_key": str(place.ssh_key),
                    "known_hosts": str(place.known_hosts),
                    "hosts": rows,
                },
                indent=2,
            )
        )
    else:
        line = "{:<16} {:<10} {:<16} {:<10} {:<5} {:<5} {:>8} {:>8}"
        print(line.format("HOST", "KIND", "ADDRESS", "STATE", "SSH", "LINK", "UP", "MEMORY"))
        for row in rows:
            seconds, memory = row["up_seconds"], row["memory_bytes"]
            print(
                line.format(
                    row["host"], row["kind"], row["address"], row["state"], "yes" if row["ssh"] else "no", row["link"],
                    "-" if seconds is None else f"{seconds} s", "-" if memory is None else f"{memory / 1e6:.0f} MB",
                ),
                *(["failed: " + ", ".join(row["failed_units"])] if row["failed_units"] else []),
            )  # fmt: skip
    return 0 if all(row["state"] == "running" and row["ssh"] for row in rows) else 1


def execute(arguments: argparse.Namespace) -> int:
    fleet = _fleet(arguments)
    node = Node(fleet, fleet.one(arguments.host))
    preflight.root()
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    return hosts.execute(node, command or ["/bin/bash", "-l"])


def reset(arguments: argparse.Namespace) -> int:
    fleet = _fleet(arguments)
    nodes = [Node(fleet, fleet.one(name)) for name in arguments.hosts]
    preflight.root()
    preflight.network(fleet)
    system.private_mounts()
    made = _prepare({node.host.kind for node in nodes}, len(nodes), wheels=False)
    with system.lock(f"fleet-{fleet.network.bridge}"):
        _start(fleet, nodes, made, renew=True)
    _raise_failed(made)
    return 0


def power_off(arguments: argparse.Namespace) -> int:
    return _each(arguments, lambda nodes: hosts.stop(nodes))


def kill(arguments: argparse.Namespace) -> int:
    def end(nodes: Sequence[Node]) -> None:
        for node in nodes:
            hosts.kill(node)
            stage(f"host {node.host.name}: killed")

    return _each(arguments, end)


def _each(arguments: argparse.Namespace, act: Callable[[Sequence[Node]], None]) -> int:
    fleet = _fleet(arguments)
    nodes = [Node(fleet, fleet.one(name)) for name in arguments.hosts]
    preflight.root()
    with system.lock(f"fleet-{fleet.network.bridge}"):
        act(nodes)
    return 0


def link(arguments: argparse.Namespace) -> int:
    fleet = _fleet(arguments)
    host = fleet.one(arguments.host)
    preflight.root()
    network.set_link(fleet.network.bridge, host.name, arguments.state)
    stage(f"host {host.name}: link {arguments.state}")
    return 0


def clean(_arguments: argparse.Namespace) -> int:
    preflight.root()
    with system.lock("cache"):
        cgroups.kill(cgroups.mount_point()[0] / cgroups.PARENT / cgroups.BUILDER)
        for bridge in sorted({*network.our_bridges(), *(item[0] for item in cgroups.all_hosts())}):
            with system.lock(f"fleet-{bridge}"):
                _stop_fleet(bridge, [], wipe=False)
        _settle_machine()
        for directory in (paths.CACHE, paths.STATE):
            if directory.exists():
                size = sum(file.lstat().st_size for file in directory.rglob("*") if file.is_file())
                system.remove(directory)
                stage(f"{directory}: removed, {size / 1e9:.1f} GB")
    hosts.forget_locks()
    stage("no trace of the sandbox is left; programs that it installed on the machine stay")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sandbox", description=__doc__)
    commands = parser.add_subparsers(dest="name", required=True, metavar="COMMAND")

    def command(
        name: str, act: Callable[[argparse.Namespace], int], text: str, *, inventory: bool = True
    ) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(act=act)
        if inventory:
            sub.add_argument("-i", "--inventory", type=Path, required=True, help="directory with hosts.yml")
        return sub

    def limited(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("--limit", metavar="NAMES", help="hosts or groups, with commas between")

    sub = command("up", up, "start the hosts of an inventory; what runs is left alone")
    limited(sub)
    sub.add_argument("--fresh", action="store_true", help="with new disks")
    sub.add_argument("--no-wheels", action="store_true", help="do not fetch the wheels of engines")
    sub = command("down", down, "power hosts off; disks stay")
    limited(sub)
    sub.add_argument("--wipe", action="store_true", help="remove disks and keys as well")
    sub = command("status", status, "what runs; code 1 unless all hosts are up")
    sub.add_argument("--json", action="store_true")
    sub = command("exec", execute, "run a command in a host, without ssh")
    sub.add_argument("host")
    sub.add_argument("command", nargs=argparse.REMAINDER, help="-- command and arguments")
    sub = command("reset", reset, "give hosts new disks and start them")
    sub.add_argument("hosts", nargs="+")
    sub = command("power-off", power_off, "shut hosts down cleanly")
    sub.add_argument("hosts", nargs="+")
    sub = command("kill", kill, "end hosts at once, as a power failure does; `up` starts them with their disks")
    sub.add_argument("hosts", nargs="+")
    sub = command("link", link, "pull or plug a host's network cable")
    sub.add_argument("host")
    sub.add_argument("state", choices=("down", "up"))
    sub = command("prepare", prepare, "make images, repositories, wheels and models only", inventory=False)
    sub.add_argument("-i", "--inventory", type=Path, help="only the kinds of this inventory")
    sub.add_argument("--no-wheels", action="store_true", help="do not fetch the wheels of engines")
    command("clean", clean, "remove every trace of the sandbox: all fleets, caches, settings", inventory=False)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    # A polite end is an interruption like Ctrl-C: programs that were started are ended too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        code = arguments.act(arguments)
    except SandboxError as error:
        print_error(error)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command continues where it stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return int(code)
