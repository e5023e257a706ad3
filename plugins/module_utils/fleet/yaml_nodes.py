"""YAML as an editor sees it: a tree with positions, and every fault of a text at once.

Ansible's own reader stops at the first fault. This one works on the events of the parser, without recursion, and goes
on after a fault: past a syntax error with the next top-level key. It constructs values only to see whether that works.
"""

# Chinese punctuation in Chinese texts.
# ruff: noqa: RUF001
from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import yaml
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

#: Deeper nesting than this is a missing bracket, and would end in a RecursionError elsewhere.
MAX_DEPTH = 100
#: Values of one file with its aliases written out.
MAX_VALUES = 1_000_000
#: From this length on a text is worth a word.
LONG_TEXT = 10_000
#: Further faults of one kind in one file are left out: the file as a whole is wrong then.
MAX_EACH = 10

VAULT_HEADER = re.compile(r"\$ANSIBLE_VAULT;1\.[12];AES256(?:;[^\n;]*)?\r?\n")
CORE = "tag:yaml.org,2002:"
STR, NULL, MERGE, VALUE = (CORE + name for name in ("str", "null", "merge", "value"))
VAULT_TAGS = frozenset({"!vault", "!vault-encrypted"})
#: Tags that Ansible's loader constructs, and the kind of node that each needs.
TAGS: dict[str, str | None] = {
    **dict.fromkeys([CORE + t for t in ("null", "bool", "int", "float", "binary", "timestamp", "str")], "scalar"),
    **dict.fromkeys([CORE + t for t in ("map", "set", "python/dict")], "mapping"),
    **dict.fromkeys([CORE + t for t in ("seq", "omap", "pairs")], "sequence"),
    f"{CORE}python/unicode": "scalar",
    **dict.fromkeys(VAULT_TAGS, "scalar"),
    "!unsafe": None,
    MERGE: "scalar",
}
KINDS = {
    "scalar": ("a single value", "单个值"),
    "mapping": ("a mapping", "映射"),
    "sequence": ("a list", "列表"),
    "nothing": ("empty", "空值"),
}

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RESOLVER = Resolver()
_UNPRINTABLE = re.compile("[^\x09\x0a\x0d\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TAB = re.compile(r" *\t\s*(?:- |[^\s#'\"]|['\"][^'\"]*['\"]\s*:)")
_BLOCK = re.compile(r"[^\s#]")
_UNCLOSED = re.compile(r"unexpected end of stream|expected ',' or|got '<stream end>'")

_REMEDIES: tuple[tuple[str, str, str], ...] = (
    (
        r"mapping values are not allowed",
        "look at the indentation of this line and the one above; a text with a colon and a space in it needs quotes",
        "请检查本行与上一行的缩进；含有冒号加空格的文本需要加引号",
    ),
    (
        _UNCLOSED.pattern,
        "close the quote or bracket that begins here",
        "请补全从此处开始的引号或括号",
    ),
    (
        r"expected node content",
        "close the bracket that was opened here or above",
        "请补全此处或上方打开的括号",
    ),
    (
        r"cannot start any token",
        "put the value into quotes",
        "请为该值加引号",
    ),
    (
        r"character U\+",
        "remove the character, or write it as an escape in double quotes",
        "请删除该字符，或在双引号中用转义书写",
    ),
)
_REMEDY = (
    "look at the indentation and the quotes of this line and the one above; a value with {{ }} needs quotes",
    "请检查本行与上一行的缩进和引号；含有 {{ }} 的值需要加引号",
)

Kind = Literal["scalar", "mapping", "sequence", "alias"]


@dataclass(slots=True)
class Node:
    """One node, with its place counted from 1. A mapping's ``items`` are key, value, key, value."""

    kind: Kind
    line: int
    column: int
    tag: str | None = None
    value: str = ""
    plain: bool = False
    items: list[Node] = field(default_factory=list)
    target: Node | None = None
    size: int = 0

    def real(self) -> Node:
        """What an alias stands for; itself otherwise."""
        return self.target if self.kind == "alias" and self.target is not None else self

    def pairs(self) -> Iterator[tuple[Node, Node]]:
        """Keys and values of a mapping."""
        if self.kind == "mapping":
            yield from zip(self.items[::2], self.items[1::2], strict=False)

    def type_tag(self) -> str:
        """The tag of a scalar, resolved as YAML 1.1 resolves it."""
        if self.tag not in (None, "!", "!unsafe"):
            return str(self.tag)
        resolve: Any = _RESOLVER.resolve
        plain = self.plain or self.tag == "!unsafe"  # which Ansible resolves once more
        return str(resolve(yaml.ScalarNode, self.value, (plain, not plain)))

    def is_null(self) -> bool:
        """Whether nothing stands here."""
        return self.kind == "scalar" and self.type_tag() == NULL

    def find(self, key: str) -> tuple[Node, Node] | None:
        """The last pair of a mapping with this key, those that it merges included."""
        found = None
        for name, value in self.pairs():
            if name.kind != "scalar":
                continue
            if name.type_tag() == MERGE and found is None:
                for merged in _merged(value):
                    found = found or merged.find(key)
            elif name.value == key:
                found = (name, value)
        return found


@dataclass(frozen=True)
class Fault:
    """A fault of a text: a code of the family FILE, its place, and what the texts of the rule need."""

    code: str
    line: int
    column: int
    value: str | None = None
    params: dict[str, object] = field(default_factory=dict)


@dataclass
class Text:
    """What a text says, as far as it can be read. ``vault`` is whether it holds encrypted values."""

    root: Node | None
    faults: list[Fault]
    vault: bool = False


class _Reading:
    """One pass over the events of a text."""

    def __init__(self) -> None:
        self.roots: list[Node] = []
        self.faults: list[Fault] = []
        self.error: tuple[int, int, str] | None = None
        self.vault = False
        #: What is open, and whether in brackets.
        self.stack: list[tuple[Node, bool]] = []
        self.anchors: dict[str, Node] = {}
        self.open: set[int] = set()
        self.documents = 0
        self.unfolds = False

    def fault(self, code: str, node: Node, value: str | None = None, **params: object) -> None:
        self.faults.append(Fault(code, node.line, node.column, value, params))

    def read(self, text: str) -> None:
        try:
            for event in yaml.parse(text, Loader=_LOADER):
                if not self.take(event):
                    return
        except yaml.MarkedYAMLError as error:
            reason = str(error.problem or error.context or "cannot be read")
            marks: list[Any] = [error.problem_mark, error.context_mark]
            if _UNCLOSED.search(reason):
                marks.reverse()
            mark: Any = marks[0] or marks[1]
            if "nesting depth" in reason and mark is not None:
                self.faults.append(Fault("FILE-029", mark.line + 1, mark.column + 1, None, {"limit": MAX_DEPTH}))
                return
            self.error = (mark.line + 1, mark.column + 1, reason) if mark else (1, 1, reason)
            opened, in_brackets = self.stack[-1] if self.stack else (None, False)
            if opened is not None and in_brackets and "node content" in reason and self.error[0] > opened.line:
                self.error = (opened.line, opened.column, reason)
        except (yaml.YAMLError, ValueError, OverflowError) as error:
            self.error = (1, 1, " ".join(str(error).split())[:120] or "cannot be read")

    def take(self, event: yaml.Event) -> bool:
        """Handle one event; False where reading must end."""
        mark: Any = event.start_mark
        line, column = mark.line + 1, mark.column + 1
        if isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            self.anchors = {}
            if self.documents > 1:
                self.faults.append(Fault("FILE-005", line, column))
            return self.documents <= MAX_EACH
        if isinstance(event, yaml.ScalarEvent):
            node = Node("scalar", line, column, event.tag, event.value, bool(event.implicit[0]), size=1)
            self.anchor(event.anchor, node)
            self.scalar(node)
            self.add(node)
        elif isinstance(event, yaml.AliasEvent):
            self.alias(str(event.anchor), Node("alias", line, column, size=1))
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            kind: Kind = "mapping" if isinstance(event, yaml.MappingStartEvent) else "sequence"
            node = Node(kind, line, column, event.tag, size=1)
            self.tag(node)
            if len(self.stack) >= MAX_DEPTH:
                self.fault("FILE-029", node, limit=MAX_DEPTH)
                return False
            self.anchor(event.anchor, node)
            self.stack.append((node, bool(event.flow_style)))
            self.open.add(id(node))
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            node, _ = self.stack.pop()
            self.open.discard(id(node))
            if node.kind == "mapping":
                self.keys(node)
            self.add(node)
        return True

    def anchor(self, name: str | None, node: Node) -> None:
        if name is None:
            return
        if name in self.anchors:
            self.fault("FILE-013", node, name=f"&{name}", fault="is defined twice", fault_zh="被定义了两次")
        self.anchors[name] = node

    def alias(self, name: str, node: Node) -> None:
        target = self.anchors.get(name)
        if target is None:
            self.fault("FILE-013", node, name=f"*{name}", fault="has no anchor above it", fault_zh="之前没有对应的锚点")
        elif id(target) in self.open:
            self.fault(
                "FILE-013",
                node,
                name=f"*{name}",
                fault="stands inside what it names",
                fault_zh="位于其自身所指内容之中",
            )
        else:
            node.target, node.size = target, target.size
        self.add(node)

    def add(self, node: Node) -> None:
        if not self.stack:
            self.roots.append(node)
            return
        parent = self.stack[-1][0]
        parent.items.append(node)
        parent.size = min(parent.size + node.size, MAX_VALUES + 1)
        if parent.size > MAX_VALUES and not self.unfolds:
            self.unfolds = True
            self.fault("FILE-012", node, limit=MAX_VALUES)

    def tag(self, node: Node) -> None:
        tag = node.tag
        if tag is None or tag == "!":
            return
        if tag not in TAGS:
            shown = tag.replace(CORE, "!!")
            self.fault("FILE-007", node, None, tag=shown[:72])
        elif TAGS[tag] not in (None, node.kind):
            self.fault("FILE-008", node, None, kind=tag.replace(CORE, "!!"))

    def scalar(self, node: Node) -> None:
        self.tag(node)
        if node.tag in VAULT_TAGS:
            self.vault = True
            fault = vault_fault(node.value)
            if fault:
                self.fault("FILE-019", node, None, reason=fault[0], reason_zh=fault[1])
            return
        if len(node.value) >= LONG_TEXT:
            self.fault("FILE-011", node, None, length=len(node.value))
        tag = node.type_tag()
        kind = tag.removeprefix(CORE)
        if tag in (VALUE, MERGE):
            self.fault("FILE-008", node, None, kind="a value")
        elif kind in ("int", "float", "timestamp", "binary", "bool"):
            try:
                _construct(tag, node.value)
            except Exception:  # whatever PyYAML raises here, Ansible would too
                self.fault("FILE-008", node, None, kind=kind)

    def keys(self, node: Node) -> None:
        """Faults of the keys of one mapping."""
        seen: dict[object, int] = {}
        merged: dict[object, int] = {}
        for name, value in node.pairs():
            key = name.real()
            if key.kind != "scalar":
                if name.kind != "alias" or name.target is not None:
                    self.fault("FILE-009", name, None, kind=KINDS[key.kind][0], kind_zh=KINDS[key.kind][1])
                continue
            tag = key.type_tag()
            if tag in (VALUE, MERGE):
                # Of these two, which are an error as values, one is text as a key and the other merges.
                self.faults = [
                    f for f in self.faults if (f.line, f.column, f.code) != (key.line, key.column, "FILE-008")
                ]
            if tag == MERGE:
                self.merge(name, value, merged)
                continue
            if tag == NULL or not key.value.strip():
                self.fault("FILE-010", name)
                continue
            identity = _identity(tag, key.value)
            if identity in seen:
                self.fault("FILE-004", name, key.value, first=seen[identity])
            seen.setdefault(identity, name.line)
        # Ansible counts a key that replaces a merged one as written twice.
        for name, _ in node.pairs():
            key = name.real()
            if merged and key.kind == "scalar":
                first = merged.get(_identity(key.type_tag(), key.value))
                if first is not None:
                    self.fault("FILE-004", name, key.value, first=first)

    def merge(self, name: Node, value: Node, merged: dict[object, int]) -> None:
        sources = list(_merged(value))
        if not sources and not (value.real().kind == "sequence" and not value.real().items):
            self.fault("FILE-008", name, None, kind="mappings to merge")
        for source in sources:
            for key, line in _effective(source).items():
                if key in merged:
                    self.fault("FILE-004", name, str(key[1]) if isinstance(key, tuple) else None, first=merged[key])
                merged.setdefault(key, line)


def _merged(value: Node) -> Iterator[Node]:
    """The mappings that ``<<: value`` merges; nothing where one of them is none."""
    real = value.real()
    if real.kind == "mapping":
        yield real
    elif real.kind == "sequence" and all(item.real().kind == "mapping" for item in real.items):
        yield from (item.real() for item in real.items)


def _effective(node: Node) -> dict[object, int]:
    """The keys of a mapping with the line of each, those that it merges itself included."""
    found: dict[object, int] = {}
    todo, done = [node], set()
    while todo:
        current = todo.pop()
        if id(current) in done:
            continue
        done.add(id(current))
        for name, value in current.pairs():
            key = name.real()
            if key.kind == "scalar" and key.type_tag() == MERGE:
                todo += _merged(value)
            elif key.kind == "scalar":
                found.setdefault(_identity(key.type_tag(), key.value), name.line)
    return found


def _construct(tag: str, value: str) -> Any:
    return SafeConstructor().construct_object(yaml.ScalarNode(tag, value), deep=True)


def _identity(tag: str, value: str) -> object:
    """Equal for keys that are one key to Python: 1 and 0x1, yes and true."""
    kind = tag.removeprefix(CORE)
    if kind in ("int", "float", "bool", "timestamp"):
        try:
            return ("", _construct(tag, value))
        except Exception:  # reported elsewhere
            return (kind, value)
    return ("", value)


def vault_fault(text: str) -> tuple[str, str] | None:
    """What is wrong with an encrypted block, seen from outside; None where nothing is."""
    header = VAULT_HEADER.match(text.lstrip() + "\n")
    if header is None:
        return "it does not begin with $ANSIBLE_VAULT;1.1;AES256", "开头不是 $ANSIBLE_VAULT;1.1;AES256"
    body = re.sub(r"\s+", "", text.lstrip()[header.end() :])
    if not body or len(body) % 2 or re.search(r"[^0-9a-fA-F]", body):
        return "its lines are cut or damaged", "其内容被截断或损坏"
    return None


def decode(data: bytes) -> tuple[str, list[Fault]]:
    """Text of UTF-8 bytes, and a fault for each line that is none; such bytes become U+FFFD."""
    text = None
    with contextlib.suppress(UnicodeDecodeError):
        text = data.decode()
    start = data[:1024]
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or (0 in start and (text is None or start.count(0) > len(start) // 4)):
        return "", [Fault("FILE-001", 1, 1, None, {"reason": "it looks like UTF-16, or no text", "encoding": "UTF-16"})]
    if text is not None:
        return text, []
    try:
        data.decode("gb18030")
        encoding = "GB18030"
    except UnicodeDecodeError:
        encoding = "ISO-8859-1"
    faults = []
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            column = len(line[: error.start].decode()) + 1
            reason = f"byte 0x{line[error.start]:02x}"
            faults.append(Fault("FILE-001", number, column, None, {"reason": reason, "encoding": encoding}))
            if len(faults) == MAX_EACH:
                break
    return data.decode(errors="replace"), faults


def read(data: bytes, *, hosts: bool = False) -> Text:
    """Everything that is wrong with the bytes of one file, and the tree of what could be read.

    ``hosts``: the file lists hosts and groups, so it must not be empty.
    """
    text, faults = decode(data)
    if faults and not text:
        return Text(None, faults)
    text, more = _unprintable(_json(text))
    reading, syntax = _recover(text)
    faults += more + syntax
    faults += reading.faults
    root = next((r for r in reading.roots if r.real().kind == "mapping"), None)
    broken = any(f.code in ("FILE-001", "FILE-002", "FILE-003", "FILE-029") for f in faults)
    if root is None and not broken:
        first = next((r for r in reading.roots if not r.is_null()), None)
        if first is not None or hosts:
            kind = first.real().kind if first is not None else "nothing"
            line, column = (first.line, first.column) if first is not None else (1, 1)
            kinds = KINDS.get(kind, KINDS["scalar"])
            faults.append(Fault("FILE-006", line, column, None, {"kind": kinds[0], "kind_zh": kinds[1]}))
    # A value that begins with a template ends in one of the two faults or in both.
    templates = {f.line for f in faults if f.code == "FILE-009"}
    faults = [f for f in faults if f.code != "FILE-002" or f.line not in templates]
    return Text(root, _limited(faults), reading.vault)


def _limited(faults: list[Fault]) -> list[Fault]:
    """In the order of the text, without repetitions, at most ``MAX_EACH`` of a kind."""
    counts: dict[str, int] = {}
    found: list[Fault] = []
    places: set[tuple[str, int, int]] = set()
    for fault in sorted(faults, key=lambda f: (f.line, f.column, f.code)):
        place = (fault.code, fault.line, fault.column)
        counts[fault.code] = counts.get(fault.code, 0) + (place not in places)
        if place not in places and counts[fault.code] <= MAX_EACH:
            found.append(fault)
        places.add(place)
    return found


def _json(text: str) -> str:
    """Ansible reads JSON as JSON, where tabs may indent. Positions stay."""
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text
    # YAML has no surrogate pairs; a text is only looked at here, so any other character of that length will do.
    return re.sub(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}", r"\\u0078", text.replace("\t", " "))


def _unprintable(text: str) -> tuple[str, list[Fault]]:
    faults: list[Fault] = []
    for match in _UNPRINTABLE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        column = match.start() - (text.rfind("\n", 0, match.start()) + 1) + 1
        if not faults or faults[-1].line != line:
            faults.append(_syntax(line, column, f"the character U+{ord(match.group()):04X} is not allowed"))
        if len(faults) == MAX_EACH:
            break
    return (_UNPRINTABLE.sub(" ", text), faults) if faults else (text, faults)


def _syntax(line: int, column: int, reason: str) -> Fault:
    found = next(((en, zh) for pattern, en, zh in _REMEDIES if re.search(pattern, reason)), _REMEDY)
    return Fault("FILE-002", line, column, None, {"reason": reason, "instead": found[0], "instead_zh": found[1]})


def _recover(text: str) -> tuple[_Reading, list[Fault]]:
    """Read a text past its syntax errors: each takes its top-level block out, and the rest is read again.

    An error before the last one shows that the last was made up, by a quote that was never closed: it is withdrawn.
    """
    lines = text.split("\n")
    errors: list[tuple[Fault, list[Fault], int, list[str]]] = []
    kept: list[Fault] = []
    while True:
        reading = _Reading()
        reading.read("\n".join(lines))
        if reading.error is None or len(errors) >= MAX_EACH:
            break
        line, column, reason = reading.error
        tabs = [n for n, content in enumerate(lines) if n + 1 >= line and _TAB.match(content)]
        if tabs and tabs[0] == line - 1:
            kept += [Fault("FILE-003", n + 1, lines[n].index("\t") + 1) for n in tabs]
            for n in tabs:
                indent = lines[n][: len(lines[n]) - len(lines[n].lstrip())]
                lines[n] = indent.replace("\t", "  ") + lines[n].lstrip()
            continue
        if kept and not errors:
            # How a tab was meant nobody knows, so what follows from our reading of it is not reported.
            break
        if errors and (line, column) < (errors[-1][0].line, errors[-1][0].column):
            _, _, start, saved = errors.pop()
            lines[start : start + len(saved)] = saved
        start, end = _block(lines, line - 1)
        errors.append((_syntax(line, column, reason), reading.faults, start, lines[start:end]))
        lines[start:end] = [""] * (end - start)
    found = kept + [fault for error in errors for fault in (error[0], *error[1])]
    if errors:
        # The anchor of an alias may have been in a block that is gone.
        reading.faults = [f for f in reading.faults if f.code != "FILE-013"]
    return reading, found


def _block(lines: list[str], index: int) -> tuple[int, int]:
    """The lines of the top-level entry that ``index`` is in."""
    index = min(index, len(lines) - 1)
    start = index
    while start > 0 and not _BLOCK.match(lines[start]):
        start -= 1
    end = index + 1
    while end < len(lines) and not _BLOCK.match(lines[end]):
        end += 1
    return start, end
