"""Engines of a host as files: what each one's directory and drop-in contain, and what differs from the disk.

Pure apart from reading: the module writes. The digest of an engine covers everything that it reads when it starts, so
that it is restarted when, and only when, something in it changed since it last came up.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass
from typing import Any

from .files import link_target, mode_of, read_text
from .trouble import Trouble

HEAD = "# Written by vllm-fleet; changes by hand are undone.\n"
NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?")
# What no settings or environment may hold: they are readable, and shown in diffs.
SECRET_SETTINGS = {"api-key", "hf-token", "ssl-keyfile-password"}
SECRET_ENVIRONMENT = re.compile(r"(^|_)(API_KEY|TOKEN|SECRET|PASSWORD)$")


@dataclass(frozen=True)
class Places:
    """Directories of a host; other ones in tests."""

    engines: str = "/etc/vllm-fleet/engines"
    runtimes: str = "/opt/vllm-fleet/runtimes"
    units: str = "/etc/systemd/system"
    ready: str = "/opt/vllm-fleet/libexec/engine-ready"


@dataclass(frozen=True)
class Limits:
    """How often systemd may start an engine again."""

    restart_seconds: int = 5
    restart_limit: int = 6


@dataclass(frozen=True)
class File:
    """One file that should be there. A secret's text is never shown."""

    path: str
    text: str
    mode: int
    secret: bool = False


@dataclass(frozen=True)
class Files:
    """All that makes one engine."""

    name: str
    files: tuple[File, ...]
    runtime_link: str
    runtime: str
    applied: str

    def digest(self, template: str) -> str:
        """Over everything the engine reads when it starts."""
        parts = [self.runtime, template, *(f"{file.path}\n{file.text}" for file in self.files)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def unit_of(name: str) -> str:
    return f"vllm-engine@{name}.service"


def name_of(unit: str) -> str | None:
    found = re.fullmatch(r"vllm-engine@(.+)\.service(\.d)?", unit)
    return found.group(1) if found else None


def backend_of(runtime: str) -> str:
    """The backend in a runtime's id, such as cpu in vllm-0.32.0-cpu-x86_64-cp311."""
    found = re.match(r"vllm-\d[\w.+]*-([a-z]+)", runtime)
    return found.group(1) if found else ""


# --- settings ---------------------------------------------------------------------------------------------------------


def complete_settings(engine: dict[str, Any]) -> dict[str, Any]:
    """The plan's settings with those that other fields of the engine decide; two different words on one are refused."""
    name = engine["name"]
    settings = {str(key).lstrip("-").replace("_", "-"): value for key, value in engine["settings"].items()}
    secrets = sorted(SECRET_SETTINGS & set(settings))
    if secrets:
        raise Trouble(
            f"engine {name}: the settings hold {', '.join(secrets)}", "leave it out: the role's own variable carries it"
        )
    decided = {
        "model": engine["model_path"],
        "served-model-name": engine["served_model_name"],
        "host": engine["address"],
        "port": engine["port"],
        "shutdown-timeout": engine["shutdown_timeout_seconds"],
    }
    for key, value in decided.items():
        given = settings.setdefault(key, value)
        first = given[0] if isinstance(given, list) and given else given
        if first != value:
            raise Trouble(
                f"engine {name}: the settings say {key}: {given}, and the engine's own field says {value}",
                f"leave {key} out of the settings",
            )
    return settings


def render_settings(settings: dict[str, Any]) -> str:
    """YAML with JSON values, which every YAML reader takes, one setting a line."""
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in sorted(settings.items())]
    return HEAD + "\n".join(lines) + "\n"


def quote(value: str) -> str:
    """A value for an environment file of systemd."""
    if any(ord(char) < 32 for char in value):
        raise Trouble("a value of the environment has a line break or control character", "write it without")
    escaped = re.sub(r'([\\"$`])', r"\\\1", value)
    return f'"{escaped}"'


def render_environment(environment: dict[str, Any]) -> str:
    lines = []
    for key, value in sorted(environment.items()):
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
            raise Trouble(f"{key!r} cannot name an environment variable", "use letters, digits and underscores")
        if SECRET_ENVIRONMENT.search(key):
            raise Trouble(f"the environment holds the secret {key}", "leave it out: the role's own variable carries it")
        lines.append(f"{key}={quote(str(value))}")
    return HEAD + "".join(line + "\n" for line in lines)


# --- the drop-in ------------------------------------------------------------------------------------------------------


def render_plan(engine: dict[str, Any], limits: Limits, places: Places) -> str:
    """The drop-in with what the plan decides for this engine."""
    name, start, stop = engine["name"], engine["start_timeout_seconds"], engine["stop_timeout_seconds"]
    if stop <= engine["shutdown_timeout_seconds"]:
        raise Trouble(
            f"engine {name}: systemd would end it after {stop} s, and it may take "
            f"{engine['shutdown_timeout_seconds']} s to finish its requests",
            "plan a stop_timeout_seconds above shutdown_timeout_seconds",
        )
    backend = engine.get("backend") or backend_of(engine["runtime"])
    cache = f"{engine['runtime']}/{engine['model']}-{engine['version']}"
    if not re.fullmatch(r"[\w.+/-]+", cache):
        cache = hashlib.sha256(cache.encode()).hexdigest()[:16]
    unit = [
        f"Description=vLLM engine {name}: {engine['model']} {engine['version']} for {engine['service']}".replace(
            "%", "%%"
        )
    ]
    # Starts are counted over a time in which all of them can have failed as slowly as they may.
    unit += [f"StartLimitIntervalSec={limits.restart_limit * (start + limits.restart_seconds)}"]
    unit += [f"StartLimitBurst={limits.restart_limit}"]
    python = f"{places.engines}/{name}/runtime/bin/python"
    probe = (
        f"--address {engine['address']} --port {engine['port']} --model {quote_argument(engine['served_model_name'])}"
    )
    service = [
        f"TimeoutStartSec={start}",
        f"TimeoutStopSec={stop}",
        f"RestartSec={limits.restart_seconds}",
        # Compiled code depends on the model and on vLLM; a cache of another pair is never read.
        f"Environment=VLLM_CACHE_ROOT=/var/cache/vllm-fleet/{name}/{cache}",
        f"ExecStartPost={python} -I {places.ready} {probe} --seconds {max(start - 10, 1)}",
    ]
    # An accelerator's device files are needed where there is one.
    service += [f"PrivateDevices={'yes' if backend == 'cpu' else 'no'}"]
    if engine.get("cpus"):
        service += [f"CPUAffinity={engine['cpus']}"]
    if engine.get("numa_nodes"):
        service += ["NUMAPolicy=bind", f"NUMAMask={engine['numa_nodes']}"]
    if engine.get("memory_max_bytes"):
        service += [f"MemoryMax={engine['memory_max_bytes']}"]
    return HEAD + "[Unit]\n" + "\n".join(unit) + "\n\n[Service]\n" + "\n".join(service) + "\n"


def quote_argument(value: str) -> str:
    """An argument on a command line of a unit."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


# --- the whole --------------------------------------------------------------------------------------------------------


def files_of(engine: dict[str, Any], api_key: str, limits: Limits, places: Places) -> Files:
    name = engine["name"]
    if not NAME.fullmatch(name):
        raise Trouble(f"{name!r} cannot name an engine", "use lower-case letters, digits, dots and dashes")
    folder = os.path.join(places.engines, name)
    secrets = HEAD + f"VLLM_API_KEY={quote(api_key)}\n"
    files = (
        File(os.path.join(folder, "settings.yaml"), render_settings(complete_settings(engine)), 0o644),
        File(os.path.join(folder, "environment"), render_environment(engine["environment"]), 0o644),
        File(os.path.join(folder, "secrets"), secrets, 0o600, secret=True),
        File(
            os.path.join(places.units, unit_of(name) + ".d", "50-plan.conf"), render_plan(engine, limits, places), 0o644
        ),
    )
    return Files(
        name=name,
        files=files,
        runtime_link=os.path.join(folder, "runtime"),
        runtime=os.path.join(places.runtimes, engine["runtime"]),
        applied=os.path.join(folder, ".applied"),
    )


def check_together(engines: list[dict[str, Any]]) -> None:
    """Engines of one host must not share a name, or an address and port."""
    seen: dict[Any, str] = {}
    for engine in engines:
        for key, what in ((engine["name"], "the name"), ((engine["address"], engine["port"]), "address and port")):
            if key in seen:
                raise Trouble(
                    f"engines {seen[key]} and {engine['name']} have {what} {key} in common", "plan different ones"
                )
            seen[key] = engine["name"]


def differs(file: File) -> bool:
    return read_text(file.path) != file.text or mode_of(file.path) != file.mode


def shown(file: File, text: str | None) -> str:
    if text is None:
        return ""
    if file.secret:
        return "(a secret)\n" if text == read_text(file.path) else "(another secret)\n"
    return text


def runtime_differs(files: Files) -> bool:
    return link_target(files.runtime_link) != files.runtime


def found_on_host(places: Places) -> set[str]:
    """Engines that were converged here before: they have a directory or a drop-in of ours."""
    names: set[str] = set()
    if os.path.isdir(places.engines):
        names |= {name for name in os.listdir(places.engines) if os.path.isdir(os.path.join(places.engines, name))}
    if os.path.isdir(places.units):
        for entry in os.listdir(places.units):
            name = name_of(entry) if entry.endswith(".service.d") else None
            if name and os.path.exists(os.path.join(places.units, entry, "50-plan.conf")):
                names.add(name)
    return names


# --- what systemctl says ----------------------------------------------------------------------------------------------


def parse_show(text: str) -> dict[str, dict[str, str]]:
    """Answers of `systemctl show UNIT…` by unit."""
    units = {}
    for block in text.split("\n\n"):
        pairs = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if "Id" in pairs:
            units[pairs["Id"]] = pairs
    return units


def real_complaints(text: str) -> list[str]:
    """Lines of `systemd-analyze verify` about our unit that are faults.

    An older systemd does not know every directive, says so and passes over it: no fault.
    """
    lines = [line.strip() for line in text.splitlines() if "vllm-engine@" in line]
    return [line for line in lines if not re.search(r"Unknown (key|lvalue|section)|ignoring", line)]
