"""The files of an inventory: which ones Ansible would read, what is wrong with each, and where a variable stands.

Pure but for reading the files. Hosts and groups are read from hosts files too, as far as files alone show them.
"""

# Chinese punctuation in Chinese texts.
# ruff: noqa: RUF001
from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from .problems import CUT, Problem, hints, nearest, problem
from .yaml_nodes import KINDS, STR, Fault, Node, decode, read, vault_fault

EXTENSIONS = (".yml", ".yaml", ".json")
#: What Ansible passes over in a directory of hosts files.
IGNORED = re.compile(
    r"^\.|^host_vars$|^group_vars$|^vars_plugins$"
    r"|(?:\.pyc|\.pyo|\.swp|\.bak|~|\.rpm|\.md|\.txt|\.rst|\.orig|\.cfg|\.retry)$"
)
#: What the project's ansible.cfg passes over besides, such as the config.json of models.
BESIDE = re.compile(r"^files$|^README")
HOSTS_FILE = re.compile(r"(?:hosts|inventory)(?:\.(?:ya?ml|json|ini))?$")
MAX_BYTES = 32 << 20
VAULT = b"$ANSIBLE_VAULT;"
_YAML_START = re.compile(r"---|\{|(?:[\w.\-]+|\"[^\"]*\"|'[^']*'):(?:\s|$)")
_SECTION = re.compile(r"\[([^:\]\s]+)(?::(\w+))?\]\s*(?:#.*)?$")
_RANGE = re.compile(r"\[([0-9]*|[A-Za-z]):([0-9]+|[A-Za-z])(?::([0-9]+))?\]")
_TOP_NAME = re.compile(r"^[\"']?([A-Za-z_]\w*)[\"']?\s*:", re.MULTILINE)
_STEP = re.compile(r"\.?([A-Za-z_][\w\-]*)|\[([0-9]+)\]|\[(\"(?:[^\"\\]|\\.)*\")\]")

#: Opens the bytes of an encrypted file. Raises ValueError with the reason where the password is wrong.
Decrypt = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Place:
    """A place in a file, counted from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass
class VarsFile:
    """A file of ``group_vars`` or ``host_vars``; ``read`` is whether Ansible takes it for its name."""

    path: Path
    kind: Literal["group", "host"]
    name: str
    shown: str


class HostRange:
    """Host names as Ansible expands them: ``engine-[1:8]``, ``rack-[a:c]-[01:10:2]``."""

    def __init__(self, text: str) -> None:
        self.ranges = [match.groups() for match in _RANGE.finditer(text)]
        fixed = _RANGE.sub("\0", text).split("\0")
        self.pattern = re.compile("([0-9]+|[A-Za-z])".join(re.escape(part) for part in fixed))

    def has(self, host: str) -> bool:
        """Whether the host is one of them."""
        match = self.pattern.fullmatch(host)
        return match is not None and all(map(self._within, match.groups(), self.ranges))

    @staticmethod
    def _within(text: str, limits: tuple[str | None, ...]) -> bool:
        first, last, step = limits[0] or "0", limits[1] or "", int(limits[2] or 1) or 1
        if first.isdigit() and last.isdigit() and text.isdigit():
            return int(first) <= int(text) <= int(last) and (int(text) - int(first)) % step == 0
        return len(text) == len(first) == len(last) == 1 and first <= text <= last


@dataclass
class Hosts:
    """Hosts and groups, as hosts files alone show them. ``ranges`` are host names like ``engine-[1:8]``."""

    hosts: dict[str, Place] = field(default_factory=dict)
    ranges: list[tuple[HostRange, Place]] = field(default_factory=list)
    groups: dict[str, Place] = field(default_factory=dict)
    children: dict[tuple[str, str], Place] = field(default_factory=dict)
    filled: set[str] = field(default_factory=set)
    host_vars: dict[str, list[tuple[str, Node]]] = field(default_factory=dict)
    group_vars: dict[str, list[tuple[str, Node]]] = field(default_factory=dict)
    files: int = 0

    def add_host(self, name: str, place: Place) -> None:
        """A host, or a range of them."""
        name = re.sub(r":[0-9]+$", "", name)
        if _RANGE.search(name):
            self.ranges.append((HostRange(name), place))
        else:
            self.hosts.setdefault(name, place)

    def place_of(self, host: str) -> Place | None:
        """Where a host is named."""
        return self.hosts.get(host) or next((p for r, p in self.ranges if r.has(host)), None)

    def __bool__(self) -> bool:
        return bool(self.hosts or self.ranges)


@dataclass
class Checked:
    """The findings of all files of an inventory.

    ``unread`` are the real paths of vars files that must be left out, each with the names that it seems to define, or
    None where nobody can say. ``usable``: hosts files are good enough to be given to Ansible. ``by_group`` has,
    by variable, the groups whose files define it; ``members`` the hosts of each group, once Ansible has told.
    """

    problems: list[Problem] = field(default_factory=list)
    places: dict[Problem, Place] = field(default_factory=dict)
    hosts: Hosts = field(default_factory=Hosts)
    defined: dict[str, tuple[str, Node, Node]] = field(default_factory=dict)
    by_group: dict[str, list[tuple[str, str, Node, Node]]] = field(default_factory=dict)
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unread: dict[str, set[str] | None] = field(default_factory=dict)
    encrypted: list[str] = field(default_factory=list)
    vault: bool = False
    usable: bool = True
    files: int = 0

    def add(self, code: str, place: Place, value: object = None, /, **params: object) -> None:
        """One problem, at its place."""
        found = problem(code, str(place), value, **params)
        self.problems.append(found)
        self.places.setdefault(found, place)

    def locate(self, path: str) -> Place | None:
        """Where the path of a problem of the inventory stands, or the nearest thing above it; None where nowhere."""
        steps = split_path(path)
        if not steps:
            return None
        if steps[0] == "hosts" and len(steps) > 1:
            host, rest = str(steps[1]), [str(s) for s in steps[2:]]
            for file, node in reversed(self.hosts.host_vars.get(host, [])):
                pair = node.find(rest[0]) if rest else None
                if pair is not None:
                    return _deeper(file, *pair, steps[3:])
            for group, file, key, value in reversed(self.by_group.get(rest[0], []) if rest else []):
                if group == "all" or host in self.members.get(group, ()):
                    return _deeper(file, key, value, steps[3:])
            return self.hosts.place_of(host)
        found = self.defined.get(str(steps[0]))
        return None if found is None else _deeper(*found, steps[1:])


def _deeper(file: str, place: Node, node: Node, steps: Sequence[str | int]) -> Place:
    """Where the last of the steps stands that is there at all."""
    for step in steps:
        node = node.real()
        if isinstance(step, int):
            if node.kind != "sequence" or step >= len(node.items):
                break
            place = node = node.items[step]
        else:
            pair = node.find(step) or _cut(node, step)
            if pair is None:
                break
            place, node = pair
    return Place(file, place.line, place.column)


def _cut(node: Node, step: str) -> tuple[Node, Node] | None:
    """What a name stands before that was too long for a path."""
    if not step.endswith(CUT):
        return None
    return next((pair for pair in node.pairs() if pair[0].real().value.startswith(step.removesuffix(CUT))), None)


def split_path(path: str) -> list[str | int]:
    """The parts of what ``problems.path_of`` wrote, without what follows `` on ``."""
    steps: list[str | int] = []
    position = 0
    while match := _STEP.match(path, position):
        name, index, quoted = match.groups()
        if name is not None:
            steps.append(name)
        elif index is not None:
            steps.append(int(index) if len(index) < 9 else 0)
        else:
            steps.append(_unquote(quoted))
        position = match.end()
    return steps


def _unquote(text: str) -> str:
    try:
        return str(json.loads(text))
    except ValueError:
        return text[1:-1]


def shown(path: Path) -> str:
    """A path as people write it: relative where it is below the working directory, escaped where it is no text."""
    with contextlib.suppress(ValueError, OSError):
        path = path.absolute().relative_to(Path.cwd())
    return os.fsencode(path).decode(errors="backslashreplace")


def _names(folder: Path) -> list[str]:
    """What is in a directory. Raises OSError."""
    return sorted(path.name for path in folder.iterdir())


def inventory_of(file: Path) -> Path | None:
    """The inventory that a file belongs to: the nearest directory above it with a hosts file, or else with vars."""
    fallback = None
    for folder in file.absolute().parents:
        try:
            names = _names(folder)
        except OSError:
            continue
        hosts = [n for n in names if HOSTS_FILE.match(n) and (folder / n).is_file()]
        if hosts:
            return folder
        if fallback is None and any(n in ("group_vars", "host_vars") for n in names):
            fallback = folder
    return fallback


def check(sources: Iterable[str], decrypt: Decrypt | None = None) -> Checked:
    """Everything that is wrong with the files of these inventory sources, as ``-i`` names them."""
    checked = Checked()
    bases: list[Path] = []
    inline = False
    for source in sources:
        path = Path(source)
        if "," in source and not path.exists():
            inline = True
            for host in filter(None, (n.strip() for n in source.split(","))):
                checked.hosts.add_host(host, Place(source, 1, 1))
            continue
        for file in _hosts_files(path, checked, ()):
            _check_hosts_file(file, checked, decrypt)
        base = path if path.is_dir() else path.parent
        if os.path.realpath(base) not in {os.path.realpath(b) for b in bases}:
            bases.append(base)
    _check_groups(checked, str(bases[0]) if bases else "", any_inline=inline)
    found: list[VarsFile] = []
    for base in bases:
        found += _vars_files(base, checked)
    # Ansible's order: all, then other groups, then hosts; the last that defines a variable counts.
    for item in sorted(found, key=lambda f: (f.kind == "host", f.name != "all")):
        _check_vars_file(item, checked, decrypt)
    for group in ("all", *(g for g in checked.hosts.group_vars if g != "all")):
        for shown_as, variables in checked.hosts.group_vars.get(group, []):
            for name, value in variables.pairs():
                checked.defined.setdefault(name.real().value, (shown_as, name, value))
    return checked


def _read(path: Path, checked: Checked) -> bytes | None:
    """The bytes of a regular file; None, and a problem, where there are none."""
    place = Place(shown(path), 1, 1)
    try:
        mode = path.stat()
        if not stat.S_ISREG(mode.st_mode):
            checked.add("FILE-014", place, None, reason="it is no regular file", reason_zh="不是普通文件")
            return None
        if mode.st_size > MAX_BYTES:
            size = f"{MAX_BYTES >> 20} MiB"
            checked.add("FILE-014", place, None, reason=f"it is larger than {size}", reason_zh=f"大于 {size}")
            return None
        data = path.read_bytes()
    except OSError as error:
        reason = reason_zh = error.strerror or "unreadable"
        if path.is_symlink() and not path.exists():
            reason, reason_zh = f"the symbolic link leads nowhere ({reason})", f"符号链接失效（{reason}）"
        checked.add("FILE-014", place, None, reason=reason, reason_zh=reason_zh)
        return None
    checked.files += 1
    return data


def _unreadable(folder: Path, error: OSError, checked: Checked) -> None:
    reason = error.strerror or "unreadable"
    checked.add("FILE-014", Place(shown(folder), 1, 1), None, reason=reason, reason_zh=reason)


def _open(path: Path, data: bytes, checked: Checked, decrypt: Decrypt | None) -> bytes | None:
    """The bytes in an encrypted file; None where they stay closed, with a problem that says so."""
    place = Place(shown(path), 1, 1)
    checked.vault = True
    fault = vault_fault(data.decode("ascii", errors="replace"))
    if fault is None and decrypt is None:
        checked.encrypted.append(place.file)
        checked.add("FILE-018", place, None, reason="no password was given", reason_zh="未提供密码")
        return None
    if fault is None and decrypt is not None:
        try:
            return decrypt(data)
        except ValueError:
            fault = "no password that was given opens it", "所提供的密码均无法打开"
    assert fault is not None
    checked.add("FILE-019", place, None, reason=fault[0], reason_zh=fault[1])
    return None


def _report(faults: Iterable[Fault], file: str, checked: Checked, *, encrypted: bool) -> bool:
    """Report the faults of a file. Whether Ansible can read it all the same: of keys written twice the last counts."""
    good = True
    for fault in faults:
        value = None if encrypted else fault.value
        checked.add(fault.code, Place(file, fault.line, fault.column), value, **fault.params)
        good = good and fault.code in ("FILE-004", "FILE-011")
    return good


# Hosts files


def _hosts_files(path: Path, checked: Checked, above: tuple[str, ...]) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    real = os.path.realpath(path)
    if real in above:
        checked.add("FILE-015", Place(shown(path), 1, 1))
        checked.usable = False
        return
    try:
        names = _names(path)
    except OSError as error:
        _unreadable(path, error, checked)
        checked.usable = False
        return
    for name in names:
        if not IGNORED.search(name) and not BESIDE.search(name):
            yield from _hosts_files(path / name, checked, (*above, real))


def _check_hosts_file(path: Path, checked: Checked, decrypt: Decrypt | None) -> None:
    checked.hosts.files += 1
    data = _read(path, checked)
    if data is None:
        checked.usable = False
        return
    file = shown(path)
    encrypted = data.startswith(VAULT)
    if encrypted:
        opened = _open(path, data, checked, decrypt)
        if opened is None:
            checked.usable = False
            return
        data = opened
    if not _is_yaml(path, data):
        text, faults = decode(data)
        checked.usable &= _report(faults, file, checked, encrypted=encrypted)
        _Ini(file, checked).read(text)
        return
    result = read(data, hosts=True)
    checked.vault |= result.vault
    checked.usable &= _report(result.faults, file, checked, encrypted=encrypted)
    if result.root is not None:
        before = len(checked.problems)
        _Tree(file, checked).groups(result.root.real())
        checked.usable &= all(p.severity != "error" for p in checked.problems[before:])


def _is_yaml(path: Path, data: bytes) -> bool:
    if path.suffix in EXTENSIONS:
        return True
    if path.suffix:
        return False
    lines = (line.strip() for line in data[:4096].decode(errors="replace").splitlines())
    first = next((line for line in lines if line and line[0] not in "#;"), "")
    return _YAML_START.match(first) is not None


class _Tree:
    """Hosts and groups of a YAML hosts file."""

    def __init__(self, file: str, checked: Checked) -> None:
        self.file, self.checked, self.hosts = file, checked, checked.hosts

    def place(self, node: Node) -> Place:
        return Place(self.file, node.line, node.column)

    def kind(self, node: Node, what: str, what_zh: str) -> None:
        kind = KINDS.get(node.real().kind, KINDS["scalar"])
        self.checked.add("FILE-021", self.place(node), None, what=what, what_zh=what_zh, kind=kind[0], kind_zh=kind[1])

    def name(self, node: Node, what: str, what_zh: str) -> str | None:
        """A name that is text; None, and a problem, where it is not."""
        real = node.real()
        if real.kind != "scalar" or not real.value.strip():
            return None
        tag = real.type_tag()
        if tag != STR:
            kind = tag.rpartition(":")[2]
            self.checked.add("FILE-025", self.place(node), real.value, what=what, what_zh=what_zh, kind=kind)
            return None
        return real.value

    def groups(self, root: Node, parent: str | None = None) -> None:
        for key, value in root.pairs():
            name = self.name(key, "the name of a group", "组名")
            if name is None:
                continue
            self.hosts.groups.setdefault(name, self.place(key))
            if parent is not None:
                self.hosts.children.setdefault((parent, name), self.place(key))
            self.group(name, value.real())

    def group(self, name: str, node: Node) -> None:
        if node.is_null():
            return
        if node.kind != "mapping":
            self.kind(node, "a group", "组")
            return
        for key, value in node.pairs():
            section, real = key.real().value, value.real()
            if section not in ("hosts", "vars", "children"):
                if key.real().kind == "scalar" and section.strip():
                    like = hints(section, ("hosts", "vars", "children"))
                    if nearest(section, ("hosts", "vars", "children")) is None:
                        like = {
                            "hint": "put variables below vars, hosts below hosts, groups below children",
                            "hint_zh": "变量写在 vars 下，主机写在 hosts 下，组写在 children 下",
                        }
                    self.checked.add("FILE-020", self.place(key), section, **like)
                continue
            if real.is_null():
                continue
            if real.kind == "scalar" and real.type_tag() == STR and section != "vars" and real.value.strip():
                if section == "hosts":
                    self.hosts.add_host(real.value, self.place(real))
                    self.hosts.filled.add(name)
                else:
                    self.hosts.groups.setdefault(real.value, self.place(real))
                    self.hosts.children.setdefault((name, real.value), self.place(real))
                continue
            if real.kind != "mapping":
                self.kind(value, f"the section {section} of a group", f"组的 {section} 部分")
                continue
            if section == "vars":
                self.hosts.group_vars.setdefault(name, []).append((self.file, real))
                for variable, _ in real.pairs():
                    self.name(variable, "the name of a variable", "变量名")
            elif section == "hosts":
                self.members(name, real)
            else:
                self.groups(real, name)

    def members(self, group: str, node: Node) -> None:
        for key, value in node.pairs():
            host = self.name(key, "the name of a host", "主机名")
            if host is None:
                continue
            self.hosts.add_host(host, self.place(key))
            self.hosts.filled.add(group)
            real = value.real()
            if real.is_null():
                continue
            if real.kind != "mapping":
                self.kind(value, "what belongs to a host", "主机的内容")
                continue
            self.hosts.host_vars.setdefault(host, []).append((self.file, real))


class _Ini:
    """Hosts and groups of an INI hosts file, and its commonest faults; what else is wrong is left to Ansible."""

    def __init__(self, file: str, checked: Checked) -> None:
        self.file, self.checked, self.hosts = file, checked, checked.hosts

    def fault(self, place: Place, reason: str, reason_zh: str) -> None:
        self.checked.add("FILE-026", place, None, reason=reason, reason_zh=reason_zh)
        self.checked.usable = False

    def read(self, text: str) -> None:
        group, state = "ungrouped", "hosts"
        with_vars: dict[str, Place] = {}
        for number, raw in enumerate(text.splitlines(), 1):
            line = raw.strip()
            if not line or line[0] in "#;":
                continue
            place = Place(self.file, number, len(raw) - len(raw.lstrip()) + 1)
            section = _SECTION.match(line)
            if section and (section[2] or "hosts") in ("hosts", "children", "vars"):
                group, state = section[1], section[2] or "hosts"
                if state == "vars":
                    with_vars.setdefault(group, place)
                else:
                    self.hosts.groups.setdefault(group, place)
            elif section or (line.startswith("[") and line.endswith("]")):
                sections = "[group], [group:children], [group:vars]"
                self.fault(place, f"a section is one of {sections}", f"段落只能是 {sections}")
                state = "skip"
            elif state == "children":
                self.hosts.children.setdefault((group, line.split()[0]), place)
            elif state == "hosts":
                self.host(group, line, place)
            elif state == "vars":
                name, equals, value = line.partition("=")
                if equals:
                    self.hosts.group_vars.setdefault(group, []).append((self.file, _pair(name.strip(), value, place)))
                else:
                    self.fault(place, "a variable is written name=value", "变量应写成 name=value")
        for group, place in with_vars.items():
            if group not in self.hosts.groups and group not in ("all", "ungrouped"):
                self.fault(
                    place, f"the group {group} has variables but is defined nowhere", f"组 {group} 有变量但未定义"
                )

    def host(self, group: str, line: str, place: Place) -> None:
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            self.fault(place, "a quote of this line is not closed", "该行的引号未闭合")
            return
        self.hosts.add_host(words[0], place)
        self.hosts.filled.add(group)
        name_of = re.sub(r":[0-9]+$", "", words[0])
        for word in words[1:]:
            name, equals, value = word.partition("=")
            if equals:
                self.hosts.host_vars.setdefault(name_of, []).append((self.file, _pair(name, value, place)))
            else:
                what = "after its name a host has name=value only; a value with spaces needs quotes"
                self.fault(place, what, "主机名之后只能是 name=value; 含空格的值需要加引号")
                break


def _pair(name: str, value: str, place: Place) -> Node:
    node = Node("mapping", place.line, place.column)
    node.items = [Node("scalar", place.line, place.column, value=text) for text in (name, value.strip())]
    return node


# Groups


def _check_groups(checked: Checked, source: str, *, any_inline: bool) -> None:
    hosts = checked.hosts
    if not checked.usable:
        return
    for (parent, child), place in hosts.children.items():
        if child not in hosts.groups and child not in ("all", "ungrouped"):
            known = [g for g in hosts.groups if g != parent]
            checked.add("FILE-028", place, child, parent=parent, child=child, **hints(child, known))
            checked.usable = False
    if _check_circles(checked):
        checked.usable = False
        return
    if not hosts and not any_inline:
        checked.add("FILE-023", Place(shown(Path(source)) if source else "-", 1, 1))
        checked.usable = False
        return
    parents: dict[str, list[str]] = {}
    for parent, child in hosts.children:
        parents.setdefault(child, []).append(parent)
    filled, todo = set(hosts.filled), list(hosts.filled)
    while todo:
        for parent in parents.get(todo.pop(), ()):
            if parent not in filled:
                filled.add(parent)
                todo.append(parent)
    above = {parent for parent, _ in hosts.children}
    for group, place in hosts.groups.items():
        if group in filled or group in above or group in ("all", "ungrouped"):
            continue
        like = nearest(group, filled - {"all", "ungrouped"})
        if like is not None:
            hint = {"hint": f"add hosts to it, or did you mean {like}?", "hint_zh": f"请添加主机，或者是否想写 {like}?"}
        else:
            hint = {"hint": "add hosts to it, or remove it", "hint_zh": "请向该组添加主机，或将其删除"}
        checked.add("FILE-024", place, group, **hint)


def _check_circles(checked: Checked) -> bool:
    """Report each edge that closes a circle."""
    edges: dict[str, list[str]] = {}
    for above, below in checked.hosts.children:
        edges.setdefault(above, []).append(below)
    done: set[str] = set()
    found = False
    for start in list(edges):
        if start in done:
            continue
        path, on_path = [start], {start}
        iterators = [iter(edges[start])]
        while iterators:
            child = next(iterators[-1], None)
            if child is None:
                iterators.pop()
                last = path.pop()
                on_path.discard(last)
                done.add(last)
            elif child in on_path or child == "all":
                found = True
                parent = path[-1]
                circle = [*path[path.index(child) if child in on_path else 0 :], child]
                if child == "all" and circle[0] != "all":
                    circle.insert(0, "all")
                text = " > ".join(circle[:4] + (["…", circle[-1]] if len(circle) > 5 else circle[4:]))
                place = checked.hosts.children[(parent, child)]
                checked.add("FILE-022", place, child, circle=text, parent=parent, child=child)
            elif child not in done:
                path.append(child)
                on_path.add(child)
                iterators.append(iter(edges.get(child, ())))
    return found


# group_vars and host_vars


def _vars_files(base: Path, checked: Checked) -> list[VarsFile]:
    found: list[VarsFile] = []
    kinds: tuple[tuple[Literal["group", "host"], str], ...] = (("group", "group_vars"), ("host", "host_vars"))
    for kind, folder in kinds:
        root = base / folder
        if not root.is_dir():
            if root.is_symlink() or root.exists():
                checked.add(
                    "FILE-014", Place(shown(root), 1, 1), None, reason="it is no directory", reason_zh="不是目录"
                )
            continue
        try:
            names = _names(root)
        except OSError as error:
            _unreadable(root, error, checked)
            continue
        for name, entries in _by_name(names).items():
            _check_owner(kind, name, root / entries[0], checked)
            first, *others = entries
            for other in others:
                checked.add("FILE-017", Place(shown(root / other), 1, 1), None, other=first)
            for path in _files_below(root / first, checked, (), top=True):
                found.append(VarsFile(path, kind, name, shown(path)))
    return found


def _by_name(names: list[str]) -> dict[str, list[str]]:
    """Entries by the group or host that they are for, in the order in which Ansible looks: the first is taken."""
    found: dict[str, list[str]] = {}
    for entry in names:
        if entry.startswith(".") or IGNORED.search(entry):
            continue
        extension = Path(entry).suffix
        found.setdefault(entry.removesuffix(extension) if extension in EXTENSIONS else entry, []).append(entry)
    order = ("", *EXTENSIONS)
    return {
        name: sorted(entries, key=lambda e, n=name: order.index(e.removeprefix(n)))  # type: ignore[misc]
        for name, entries in found.items()
    }


def _check_owner(kind: str, name: str, path: Path, checked: Checked) -> None:
    """A warning where no group or host of this name exists; nothing where hosts files do not tell."""
    hosts = checked.hosts
    if not checked.usable:
        return
    if kind == "group":
        known, exists = [*hosts.groups, "all", "ungrouped"], name in hosts.groups or name in ("all", "ungrouped")
    else:
        known, exists = list(hosts.hosts), hosts.place_of(name) is not None or name == "localhost"
    if exists:
        return
    kind_zh = "组" if kind == "group" else "主机"
    like = nearest(name, known)
    other = [*hosts.hosts] if kind == "group" else [*hosts.groups]
    if like is None and name in other:
        folder = "host_vars" if kind == "group" else "group_vars"
        hint = {"hint": f"move it to {folder}", "hint_zh": f"请移至 {folder}"}
    elif like is not None:
        hint = {"hint": f"rename it to {like}, or remove it", "hint_zh": f"请重命名为 {like}，或将其删除"}
    else:
        hint = {
            "hint": f"add the {kind} to a hosts file, or remove it",
            "hint_zh": f"请在主机文件中添加该{kind_zh}，或删除该文件",
        }
    checked.add("FILE-016", Place(shown(path), 1, 1), name, kind=kind, kind_zh=kind_zh, name=name, **hint)


def _files_below(path: Path, checked: Checked, above: tuple[str, ...], *, top: bool = False) -> Iterator[Path]:
    """The files that Ansible reads for one entry. Links that lead nowhere and the like come too, to be reported."""
    if not path.is_dir():
        yield path
        return
    if not top and path.suffix:
        return
    real = os.path.realpath(path)
    if real in above:
        checked.add("FILE-015", Place(shown(path), 1, 1))
        checked.usable = False
        return
    try:
        names = _names(path)
    except OSError as error:
        _unreadable(path, error, checked)
        return
    for name in names:
        if name.startswith(".") or name.endswith("~"):
            continue
        extension = Path(name).suffix
        if (path / name).is_dir() or extension in ("", *EXTENSIONS):
            yield from _files_below(path / name, checked, (*above, real))


def _check_vars_file(item: VarsFile, checked: Checked, decrypt: Decrypt | None) -> None:
    real = os.path.realpath(item.path)
    data = _read(item.path, checked)
    if data is None:
        checked.unread[real] = None
        return
    encrypted = data.startswith(VAULT)
    if encrypted:
        opened = _open(item.path, data, checked, decrypt)
        if opened is None:
            checked.unread[real] = None
            return
        data = opened
    result = read(data)
    checked.vault |= result.vault
    good = _report(result.faults, item.shown, checked, encrypted=encrypted)
    root = result.root.real() if result.root is not None else None
    names: list[str] = []
    for key, value in root.pairs() if root is not None else ():
        name = key.real()
        if name.kind != "scalar":
            continue
        if name.type_tag() != STR and name.value.strip() and not name.type_tag().endswith((":merge", ":null")):
            kind = name.type_tag().rpartition(":")[2]
            what = {"what": "the name of a variable", "what_zh": "变量名"}
            checked.add("FILE-025", Place(item.shown, key.line, key.column), name.value, kind=kind, **what)
            good = False
        names.append(name.value)
        checked.defined[name.value] = (item.shown, key, value)
        if item.kind == "group":
            checked.by_group.setdefault(name.value, []).append((item.name, item.shown, key, value))
        if item.kind == "host":
            pair = Node("mapping", key.line, key.column, items=[key, value])
            checked.hosts.host_vars.setdefault(item.name, []).append((item.shown, pair))
    if not good:
        # Where no name can be made out, any may stand there.
        checked.unread[real] = {*names, *_TOP_NAME.findall(data.decode(errors="replace"))} or None
