"""Life of a host: seeded, started, waited for, stopped, killed, removed."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox import cgroups, network, paths
from sandbox.config import Fleet, Host
from sandbox.images import Image
from sandbox.report import Problem, SandboxError, fail, stage
from sandbox.system import boot_id, read_json, remove, run, start_time, write_atomic

BOOT_LIMIT = 180.0
POWER_OFF_LIMIT = 30.0
# systemd-nspawn's signal for a clean power-off of a systemd inside (SIGRTMIN+4).
_POWER_OFF = signal.SIGRTMIN + 4

# In a mount namespace of its own: the overlay vanishes with the host, however that ends. nspawn says with code 133 that
# the host wants to be started again, which is a reboot from within.
_LAUNCH = """\
set -eu
mount -t overlay overlay -o "$OVERLAY" "$ROOT"
if [ "$PRIVATE_CGROUP" = 1 ]; then mount -t cgroup2 none /sys/fs/cgroup; fi
mkdir -p "$GROUP/launcher"
echo $$ > "$GROUP/launcher/cgroup.procs"
code=133
while [ $code = 133 ]; do
    if [ -d "$GROUP/run" ]; then find "$GROUP/run" -depth -type d -exec rmdir {} +; fi
    mkdir -p "$GROUP/run"
    n=0
    while [ -e "/sys/class/net/$INTERFACE" ] && [ $n -lt 100 ]; do n=$((n + 1)); sleep 0.05; done
    code=0
    sh -c 'echo $$ > "$GROUP/run/cgroup.procs"; exec systemd-nspawn "$@"' sandbox-host "$@" || code=$?
done
exit $code
"""


@dataclass(frozen=True)
class Node:
    """A host of a fleet, and where its traces are."""

    fleet: Fleet
    host: Host

    @property
    def bridge(self) -> str:
        return self.fleet.network.bridge

    @property
    def directory(self) -> Path:
        return paths.FleetPaths(self.bridge).host(self.host.name)

    @property
    def group(self) -> Path:
        return cgroups.of_host(self.bridge, self.host.name)


def supervisor(directory: Path) -> int | None:
    """Process id of the host's launcher, if it is still that process."""
    about = read_json(directory / "run.json")
    if not about or about.get("boot_id") != boot_id():
        return None
    pid = about.get("pid")
    if isinstance(pid, int) and start_time(pid) == about.get("start_time"):
        return pid
    return None


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text(encoding="ascii").split())
    return found


def leader(directory: Path) -> int | None:
    """Process 1 of the host, as the machine numbers it. It changes when the host reboots itself."""
    pid = supervisor(directory)
    if pid is None:
        return None
    nspawns = _children(pid)
    for candidate in [*nspawns, *(child for nspawn in nspawns for child in _children(nspawn))]:
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{candidate}/status").read_text(encoding="utf-8", errors="replace")
            for line in text.splitlines():
                # Its number in its own namespace, which is not the machine's.
                if line.startswith("NSpid:") and len(line.split()) > 2 and line.split()[-1] == "1":
                    return candidate
    return None


def up_seconds(directory: Path) -> int | None:
    pid = leader(directory)
    begin = None if pid is None else start_time(pid)
    if begin is None:
        return None
    uptime = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    return max(0, round(uptime - begin / os.sysconf("SC_CLK_TCK")))


def enter(pid: int, command: Sequence[str]) -> list[str]:
    environment = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"]
    terminal = os.environ.get("TERM", "dumb")
    return ["nsenter", "-t", str(pid), "-a", "--", "/usr/bin/env", "-i", *environment, f"TERM={terminal}", *command]


def system_state(directory: Path) -> str:
    """stopped, starting, or what systemd says of itself in the host."""
    pid = leader(directory)
    if pid is None:
        return "stopped" if supervisor(directory) is None else "starting"
    try:
        done = subprocess.run(
            enter(pid, ["systemctl", "is-system-running"]),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "starting"
    word = done.stdout.strip()
    return word if word in ("running", "degraded", "maintenance", "stopping") else "starting"


def banner(address: str, limit: float = 2.0) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((address, 22), timeout=limit) as connection:
        connection.settimeout(limit)
        return connection.recv(4) == b"SSH-"
    return False


# Seeding


def ensure_fleet_key(fleet: paths.FleetPaths) -> str:
    fleet.ssh.mkdir(parents=True, exist_ok=True)
    fleet.ssh.chmod(0o700)
    public = fleet.ssh_key.with_suffix(".pub")
    if not (fleet.ssh_key.exists() and public.exists()):
        _keygen(fleet.ssh_key, f"vllm-fleet-sandbox {fleet.bridge}")
    return public.read_text(encoding="ascii")


def _keygen(key: Path, comment: str) -> None:
    for file in (key, key.with_suffix(".pub")):
        remove(file)
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", key], limit=20, purpose=f"ssh key {key}")


def write_known_hosts(fleet: Fleet) -> None:
    lines = []
    for host in fleet.hosts:
        public = Node(fleet, host).directory / "keys/ssh_host_ed25519_key.pub"
        if public.exists():
            kind, key, *_ = public.read_text(encoding="ascii").split()
            lines.append(f"{host.name},{host.address} {kind} {key}\n")
    write_atomic(paths.FleetPaths(fleet.network.bridge).known_hosts, "".join(lines))


def wanted_spec(node: Node, image: Image) -> dict[str, Any]:
    """What a host's disk was made for. Where it differs, the disk is not that host's any more."""
    return {
        "kind": node.host.kind,
        "image": image.hash,
        "lower": [str(layer) for layer in image.layers],
        "address": f"{node.host.address}/{node.fleet.network.subnet.prefixlen}",
    }


def seed(node: Node, image: Image, authorized: str, *, renew: bool) -> str:
    """A disk for the host. Returns what was done: kept, or why it is new."""
    directory, spec = node.directory, wanted_spec(node, image)
    keys = directory / "keys"
    keys.mkdir(parents=True, exist_ok=True)
    key = keys / "ssh_host_ed25519_key"
    if not (key.exists() and key.with_suffix(".pub").exists()):
        # Kept over a reset: a reinstalled server of a site gets its keys back, and known_hosts stays true.
        _keygen(key, node.host.name)
    old = read_json(directory / "spec.json")
    if old == spec and not renew:
        return "disk kept"
    reason = "new disk" if old is None or renew else "new disk, for its image or address changed"
    remove(directory / "spec.json")
    for name in ("upper", "work"):
        remove(directory / name)
    upper = directory / "upper"
    for name in ("upper", "work", "root"):
        (directory / name).mkdir(exist_ok=True)
    _put(upper, "etc/hostname", f"{node.host.name}\n")
    names = "".join(f"{host.address} {host.name}\n" for host in node.fleet.hosts)
    _put(upper, "etc/hosts", f"127.0.0.1 localhost\n::1 localhost\n{names}")
    unit = (
        f"[Match]\nName=host0\n[Network]\nAddress={spec['address']}\nGateway={node.fleet.network.controller}\n"
        "LinkLocalAddressing=no\nIPv6AcceptRA=no\n"
    )
    _put(upper, "etc/systemd/network/10-host0.network", unit)
    _put(upper, "root/.ssh/authorized_keys", authorized, 0o600)
    (upper / "root").chmod(0o700)
    (upper / "root/.ssh").chmod(0o700)
    for file in (key, key.with_suffix(".pub")):
        _put(upper, f"etc/ssh/{file.name}", file.read_text(encoding="ascii"), file.stat().st_mode & 0o777)
    write_atomic(directory / "spec.json", json.dumps(spec, indent=1) + "\n")
    return reason


def _put(root: Path, name: str, text: str, mode: int = 0o644) -> None:
    file = root / name
    for parent in reversed(file.relative_to(root).parents[:-1]):
        (root / parent).mkdir(mode=0o755, exist_ok=True)
        (root / parent).chmod(0o755)
    file.write_text(text, encoding="utf-8")
    file.chmod(mode)


# Starting


def start(node: Node, image: Image) -> None:
    directory, group = node.directory, node.group
    # Left over from a host that was killed.
    cgroups.kill(group)
    cgroups.remove(group)
    network.wait_gone(node.bridge, node.host.name)
    group.mkdir(parents=True)
    _, only_v2 = cgroups.mount_point()
    machine = network.machine_name(node.bridge, node.host.name)
    remove(Path("/run/systemd/nspawn/propagate") / machine)
    (directory / "root").mkdir(exist_ok=True)
    command = [
        f"--directory={directory / 'root'}",
        f"--machine={machine}",
        f"--hostname={node.host.name}",
        "--boot",
        "--register=no",
        "--keep-unit",
        "--settings=no",
        f"--network-bridge={node.bridge}",
        f"--kill-signal={int(_POWER_OFF)}",
        "--link-journal=no",
        "--resolv-conf=off",
        "--timezone=off",
        "--console=read-only",
        f"--bind-ro={paths.SHARE}:{paths.SHARE_IN_HOST}",
    ]
    if node.host.share_runtimes:
        paths.RUNTIMES.mkdir(parents=True, exist_ok=True)
        command.append(f"--bind={paths.RUNTIMES}:{paths.RUNTIMES_IN_HOST}")
    lower = ":".join(str(layer) for layer in image.layers)
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        # Where the launcher sees it: there version 2 is mounted at the usual place.
        "GROUP": f"/sys/fs/cgroup/{cgroups.PARENT}/{node.bridge}/{node.host.name}",
        "INTERFACE": network.outer_interface(node.bridge, node.host.name),
        "ROOT": str(directory / "root"),
        "OVERLAY": f"lowerdir={lower},upperdir={directory / 'upper'},workdir={directory / 'work'}",
        "PRIVATE_CGROUP": "0" if only_v2 else "1",
    }
    with (directory / "console.log").open("wb") as console:
        process = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "slave", "sh", "-c", _LAUNCH, "sandbox-host", *command],
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd="/",
            start_new_session=True,
        )
    about = {"pid": process.pid, "start_time": start_time(process.pid), "boot_id": boot_id()}
    write_atomic(directory / "run.json", json.dumps(about) + "\n")


def wait_ready(nodes: Sequence[Node], limit: float = BOOT_LIMIT) -> None:
    """Until systemd has settled and sshd answers in each; all that do not get there are named."""
    begin = time.monotonic()
    waiting = {node.host.name: node for node in nodes}
    problems: list[Problem] = []
    while waiting:
        for name, node in list(waiting.items()):
            state = system_state(node.directory)
            if state in ("running", "degraded") and banner(str(node.host.address)):
                del waiting[name]
                extra = "" if state == "running" else f" ({state}: {', '.join(failed_units(node))})"
                stage(f"host {name}: up at {node.host.address}{extra}")
            elif state in ("stopped", "maintenance") or time.monotonic() - begin > limit:
                del waiting[name]
                problems.append(_not_up(node, state, time.monotonic() - begin))
        time.sleep(0.1)
    if problems:
        raise SandboxError(problems)


def failed_units(node: Node) -> list[str]:
    pid = leader(node.directory)
    if pid is None:
        return []
    listing = run(
        enter(pid, ["systemctl", "list-units", "--failed", "--plain", "--no-legend"]),
        limit=10, purpose=f"failed units of {node.host.name}", check=False,
    ).stdout  # fmt: skip
    return [line.split()[0] for line in listing.splitlines() if line.split()]


def _not_up(node: Node, state: str, seconds: float) -> Problem:
    log = node.directory / "console.log"
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    last = "\n        ".join(text.strip().splitlines()[-8:])
    if state in ("running", "degraded"):
        cause = f"systemd is {state}, but sshd does not answer at {node.host.address}:22"
    else:
        cause = f"systemd is {state} after {seconds:.0f} s"
    return Problem(
        f"host {node.host.name}",
        f"{cause}; end of {log}:\n        {last}",
        f"is up and answers ssh within {BOOT_LIMIT:.0f} s",
        f"look with `exec`, or start it anew with `reset {node.host.name}`; a firewall of the machine may hold bridged "
        "packets",
    )


# Stopping


def stop(nodes: Sequence[Node], limit: float = POWER_OFF_LIMIT) -> None:
    """A clean power-off of all, at the same time; what does not end in time is killed."""
    running = {node.host.name: node for node in nodes if supervisor(node.directory) is not None}
    for node in running.values():
        if (pid := leader(node.directory)) is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, _POWER_OFF)
    begin = time.monotonic()
    while running and time.monotonic() - begin < limit:
        for name, node in list(running.items()):
            if supervisor(node.directory) is None:
                del running[name]
                stage(f"host {name}: off")
        time.sleep(0.05)
    for name in running:
        stage(f"host {name}: did not end within {limit:.0f} s, killed")
    for node in nodes:
        kill(node)


def kill(node: Node) -> None:
    """End all of a host at once, and remove what only a running host has. The disk stays."""
    cgroups.kill(node.group)
    cgroups.remove(node.group)
    network.wait_gone(node.bridge, node.host.name)
    remove(node.directory / "run.json")
    remove(Path("/run/systemd/nspawn/propagate") / network.machine_name(node.bridge, node.host.name))


def remove_disk(directory: Path) -> None:
    if supervisor(directory) is not None:
        raise fail(str(directory), "its host runs", "a disk in use is not removed", "stop the host first")
    remove(directory)


def execute(node: Node, command: Sequence[str]) -> int:
    """Become a command in the host, in its cgroup: it ends with the host. Returns only where that is not possible."""
    pid = leader(node.directory)
    if pid is None:
        raise fail(f"host {node.host.name}", system_state(node.directory), "runs", "start it with `up`")
    # A group of the host's, entered from within: a process of the machine's there would confuse its systemd.
    join = 'g=/sys/fs/cgroup/sandbox-exec; mkdir -p $g && echo $$ > $g/cgroup.procs; exec "$@"'
    words = enter(pid, ["/bin/sh", "-c", join, "sandbox-exec", *command])
    program = shutil.which(words[0])
    if program is None:
        raise fail("program", words[0], "is on PATH", "install util-linux")
    os.execv(program, words)
    return 127


def running_anywhere() -> list[tuple[str, str]]:
    """(bridge, host) of every running host of every fleet."""
    return [(bridge, host) for bridge, host, group in cgroups.all_hosts() if cgroups.populated(group)]


def forget_locks(place: Path = Path("/run/systemd/nspawn")) -> None:
    """nspawn leaves its lock files when it is killed. Those that nobody holds are nobody's."""
    for file in (place / "locks").glob("inode-*"):
        with contextlib.suppress(OSError), file.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.unlink()
    for directory in (place / "locks", place / "propagate", place):
        with contextlib.suppress(OSError):
            directory.rmdir()
