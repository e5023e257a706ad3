"""Read an Ansible inventory into the planner's own types. Controller only; only here Ansible's values are known."""

# Chinese punctuation in Chinese texts.
# ruff: noqa: RUF001
from __future__ import annotations

import contextlib
import json
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from errno import ENOTDIR
from pathlib import Path
from typing import Any

from .inventory import BY_HOST, FLEET_VARIABLES, FLEET_WIDE, Inventory, ModelSeen, SecretState
from .model_source import look
from .problems import Problem, path_of, problem, shorten
from .rules import source_path
from .state import fault_of, state_root

SECRET = "fleet_engine_api_key"
PLACEHOLDER = re.compile(
    r"change.?me|replace.?me|placeholder|your.?(?:key|secret)|\Aexample|\A(?:password|secret|test|demo)|\A(.)\1*\Z|\s",
    re.IGNORECASE,
)
ONE_VARIABLE = re.compile(r"\s*\{\{\s*(\w+)\s*\}\}\s*\Z")

#: ``read(host)`` gives a host's variables without resolving templates; ``resolve(host, name)`` one resolved value.
Read = Callable[[str], Mapping[str, Any]]
Resolve = Callable[[str, str], Any]


def to_plain(value: Any) -> Any:
    """Ansible's lazy and tagged containers as plain data. Raises what resolving a template raises."""
    return json.loads(json.dumps(value, default=str))


def read_inventory(
    hosts: list[str],
    groups: Mapping[str, list[str]],
    read: Read,
    resolve: Resolve,
    sources: Iterable[Any] = (),
) -> Inventory:
    """The whole inventory. A value that cannot be resolved becomes a problem, and reading goes on.

    ``sources`` are the inventory's files and directories: relative paths in it start there.
    """
    found: list[Problem] = []
    variables: dict[str, Any] = {}
    first_raw: dict[str, Any] = {}
    owner: dict[str, str] = {}
    addresses: dict[str, Any] = {}
    unknown: dict[str, str] = {}
    by_host: dict[str, dict[str, Any]] = {}
    own = _OwnValues(resolve, found)
    for host in sorted(hosts):
        raw = read(host)
        if values := {name: own.value(host, name, raw[name]) for name in BY_HOST if name in raw}:
            by_host[host] = values
        addresses[host] = _resolve_or_report(host, "ansible_host", raw, resolve, found)
        for name in raw:
            if name.startswith("fleet_") and name not in FLEET_VARIABLES:
                unknown.setdefault(str(name), host)
        for name in (*FLEET_WIDE, SECRET):
            if name not in raw:
                continue
            if name not in owner:
                owner[name], first_raw[name] = host, raw[name]
                if name != SECRET:
                    variables[name] = _resolve_or_report(host, name, raw, resolve, found)
            elif not _same(name, raw[name], first_raw[name], host, variables, resolve):
                found.append(problem("INV-007", name, None, first=owner[name], second=host))
    secret = _secret(owner.get(SECRET), first_raw.get(SECRET), read, resolve, found)
    models = variables.get("fleet_models")
    places = [Path(str(source)) for source in sources if "," not in str(source)]
    configs = read_configs(models, [place if place.is_dir() else place.parent for place in places])
    found += _check_state_dir(variables.get("fleet_state_dir"), places)
    return Inventory(
        variables=variables,
        addresses=addresses,
        groups={str(name): tuple(str(h) for h in members) for name, members in groups.items()},
        secret=secret,
        by_host=by_host,
        unknown=unknown,
        configs=configs,
        models_seen=look_at_models(models),
        found=tuple({(p.code, p.path, p.rule): p for p in found}.values()),
    )


def _same(name: str, raw: Any, first: Any, host: str, variables: Mapping[str, Any], resolve: Resolve) -> bool:
    """Whether a fleet-wide variable is the same here. Equal sources are not resolved again: fleets have many hosts."""
    if raw is first or raw == first:
        return True
    if name == SECRET:
        return False
    try:
        return bool(to_plain(resolve(host, name)) == variables.get(name))
    except Exception:
        return False


class _OwnValues:
    """Values that may differ from host to host. Most come from a group and are the same object on all its hosts: such a
    value is looked through for templates once, and made plain once."""

    def __init__(self, resolve: Resolve, found: list[Problem]) -> None:
        self._resolve, self._found = resolve, found
        self._plain: dict[int, tuple[Any, Any]] = {}

    def value(self, host: str, name: str, raw: Any) -> Any:
        """The plain value. The raw one is kept with it, so that its identity stays taken."""
        if id(raw) in self._plain:
            return self._plain[id(raw)][1]
        if not has_template(raw):
            try:
                self._plain[id(raw)] = (raw, to_plain(raw))
                return self._plain[id(raw)][1]
            except Exception as error:
                self._found.append(problem("INV-015", path_of(("hosts", host, name)), None, reason=_reason(error)))
                return None
        try:
            return to_plain(self._resolve(host, name))
        except Exception as error:
            self._found.append(problem("INV-015", path_of(("hosts", host, name)), None, reason=_reason(error)))
            return None


def has_template(value: Any) -> bool:
    """Whether any text in it is a template, or a vaulted value that has to be opened."""
    if isinstance(value, Mapping):
        return any(has_template(key) or has_template(inner) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return any(has_template(inner) for inner in value)
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    return type(value).__name__ == "EncryptedString"


def _resolve_or_report(host: str, name: str, raw: Mapping[str, Any], resolve: Resolve, found: list[Problem]) -> Any:
    if name not in raw:
        return None
    value = raw[name]
    if isinstance(value, str) and "{{" not in value and "{%" not in value:
        return str(value)
    try:
        return to_plain(resolve(host, name))
    except Exception as error:
        path = path_of(("hosts", host, name)) if name == "ansible_host" else name
        found.append(problem("INV-015", path, None, reason=_reason(error)))
        return None


def _reason(error: Exception) -> str:
    """The cause in one line, without the value."""
    return " ".join(str(error).split())[:200]


def _secret(host: str | None, raw: Any, read: Read, resolve: Resolve, found: list[Problem]) -> SecretState:
    if host is None:
        return SecretState()
    try:
        value = resolve(host, SECRET)
    except Exception as error:
        # The message may quote the expression, which names variables and files, never the value.
        found.append(problem("INV-015", SECRET, None, reason=_reason(error)))
        return SecretState(defined=True, length=1 << 16)
    if not isinstance(value, str):
        # A number loses its leading zeros, and `yes` becomes true: what the engine gets is not what was written.
        found.append(problem("INV-004", SECRET, None, expected="text, in quotes", expected_zh="文本，请加引号"))
        return SecretState(defined=True, length=1 << 16)
    value = str(value)
    return SecretState(
        defined=bool(value),
        length=len(value),
        placeholder=PLACEHOLDER.search(value) is not None,
        plain_file=_plain_file(raw, read(host)),
    )


def _plain_file(raw: Any, variables: Mapping[str, Any]) -> str | None:
    """The file in which a secret stands unencrypted, or None where it does not or nobody can say."""
    for _ in range(8):
        link = ONE_VARIABLE.match(raw) if isinstance(raw, str) else None
        if link is None or link.group(1) not in variables:
            break
        raw = variables[link.group(1)]
    if not isinstance(raw, str) or "{{" in raw or type(raw).__name__ == "EncryptedString":
        return None
    origin = _origin(raw)
    if origin is None:
        return None
    try:
        with origin.open("rb") as file:
            return None if file.read(14) == b"$ANSIBLE_VAULT" else origin.name
    except OSError:
        return None


def _origin(value: str) -> Path | None:
    """The file that a value was read from. Ansible keeps it as a tag; its place in the API is not promised."""
    try:
        from ansible._internal._datatag._tags import Origin
    except ImportError:
        return None
    tag = Origin.get_tag(value)
    return Path(tag.path) if tag is not None and tag.path else None


def _check_state_dir(value: Any, places: Iterable[Path]) -> list[Problem]:
    """Ansible reads every file of an inventory's directory as inventory: state must not lie in it."""
    if not isinstance(value, str) or not value:
        return []
    try:
        state = state_root((), value).absolute()
        # A place that is not there yet can be made. One that can never be is found before anything is planned.
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISDIR(state.stat().st_mode):
                raise OSError(ENOTDIR, "it is no directory", value)
    except (OSError, ValueError) as error:
        return [problem("INV-020", "fleet_state_dir", value, directory=shorten(value), fault=fault_of(error))]
    inside = [p for p in (place.absolute() for place in places) if p.is_dir() and (p == state or p in state.parents)]
    return [problem("INV-018", "fleet_state_dir", value)] if inside else []


def read_configs(models: Any, directories: Iterable[Path]) -> dict[str, Mapping[str, Any] | str]:
    """By path, the config.json files that artifacts name: their content, or what is wrong with them."""
    found: dict[str, Mapping[str, Any] | str] = {}
    for artifact in _artifacts(models):
        path = artifact.get("config")
        if isinstance(path, str) and path not in found:
            found[path] = _config(path, directories)
    return found


def _config(path: str, directories: Iterable[Path]) -> Mapping[str, Any] | str:
    fault = "there is no such file"
    for candidate in (directory / path for directory in directories):
        try:
            data = json.loads(candidate.read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue
        except OSError as error:
            fault = f"cannot be read: {error.strerror}"
        except (ValueError, RecursionError) as error:
            fault = f"is not JSON: {error}"
        else:
            return data if isinstance(data, dict) else "is no JSON object"
    return fault


def look_at_models(models: Any) -> dict[str, ModelSeen]:
    """What is at each ``file://`` source of ``fleet_models``, whatever else is wrong with it."""
    seen: dict[str, ModelSeen] = {}
    for source in _sources(models):
        path = source_path(source)
        if path is not None and source not in seen:
            seen[source] = look(path)
    return seen


def _sources(models: Any) -> list[str]:
    return [s for artifact in _artifacts(models) if isinstance(s := artifact.get("source"), str)]


def _artifacts(models: Any) -> list[Mapping[str, Any]]:
    found = []
    for model in models.values() if isinstance(models, Mapping) else ():
        versions = model.get("versions") if isinstance(model, Mapping) else None
        for version in versions.values() if isinstance(versions, Mapping) else ():
            artifacts = version.get("artifacts") if isinstance(version, Mapping) else None
            for artifact in artifacts.values() if isinstance(artifacts, Mapping) else ():
                if isinstance(artifact, Mapping):
                    found.append(artifact)
    return found
