"""Files of an inventory: each fault by a file that has exactly it, many at once, and Ansible as the judge."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from fleet import inventory_files, yaml_nodes
from fleet.inventory_files import check, inventory_of, split_path
from fleet.problems import RULES, Problem, path_of
from hypothesis import example, given, settings
from hypothesis import strategies as st

HOSTS = """\
all:
  children:
    gateways:
      hosts:
        gateway-1: {ansible_host: 10.77.0.21}
    cpu_hosts:
      hosts:
        engine-[1:2]: {}
"""
BLOB = "$ANSIBLE_VAULT;1.1;AES256\n" + "61626364" * 10 + "\n"
Files = dict[str, str | bytes]
Found = list[tuple[str, str]]


def write(root: Path, files: Files) -> Path:
    for name, content in {"hosts.yml": HOSTS, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def found(root: Path) -> Found:
    checked = check([str(root)])
    return sorted((p.code, p.path.replace(f"{root}/", "").replace(str(root), ".")) for p in checked.problems)


#: For each code: the files, and what must be found. A plain value is the content of group_vars/all/fleet.yml.
CASES: dict[str, list[tuple[Files | str | bytes, list[str]]]] = {
    "FILE-001": [
        (b"a: \xff\nb: 1\nc: '\xe4\xb8'\n", ["1:4", "3:5"]),
        ("名: 值\n".encode("gb18030"), ["1:1"]),
        ("a: 1\n".encode("utf-16"), ["1:1"]),
        ("a: 1\nb: 2\n".encode("utf-16-le"), ["1:1"]),
        ({"hosts.yml": b"all: {hosts: {a: {x: \xff}}}\n"}, ["hosts.yml:1:22"]),
    ],
    "FILE-002": [
        ('a: "abc\nb: "def"\nc: 1\n', ["1:4"]),
        ("a: [1,\nb: 2\n", ["1:4"]),
        ("b: 2\na: [\n", ["2:4"]),
        ("b: [1,,2]\na: {\n", ["1:7", "2:4"]),
        ("a: 1\n  b: 2\n", ["2:4"]),
        ('a: b: c\nd: "x\ne: [1\nf: 1\n', ["1:5", "2:4", "3:4"]),
        ("a: @x\nb: %x\n", ["1:4", "2:4"]),
        ("a: x\x01y\nb: \x00\n", ["1:5", "2:4"]),
        ('{"a": 1,}}', ["1:10"]),
        ("%YAML 3.0\n---\na: 1\n", ["1:1"]),
    ],
    "FILE-003": [("a:\n\tb: 1\n\tc: 2\nd: 1\n", ["2:1", "3:1"]), ("a:\n  b:\n  \t- 1\n", ["3:3"])],
    "FILE-004": [
        ("a: 1\na: 2\nb: {c: 1, d: 2, c: 3}\n", ["2:1", "3:17"]),
        ("a:\n  - b: 1\n    b: 2\n", ["3:5"]),
        ("a: {2: x, 0x2: y, yes: z, true: z}\n", ["1:11", "1:27"]),
        ("a: &a {x: 1}\nb: {<<: *a, x: 2}\n", ["2:13"]),
        ("a: &a {x: 1}\nb: &b {x: 2}\nc: {<<: [*a, *b]}\n", ["3:5"]),
        ({"group_vars/all.json": '{"a": 1,\n\t"b": "\\ud83d\\ude00", "a": 2}'}, ["group_vars/all.json:2:23"]),
        ({"hosts.yml": HOSTS + "    gateways: {}\n"}, ["hosts.yml:9:5"]),
    ],
    "FILE-005": [("a: 1\n---\nb: 1\n---\nc: 1\n", ["2:1", "4:1"])],
    "FILE-006": [("- a\n", ["1:1"]), ("text\n", ["1:1"]), ("[]\n", ["1:1"])],
    "FILE-007": [("a: !secret x\nb: [!x {}]\nc: !!python/object:os.x {}\n", ["1:4", "2:5", "3:4"])],
    "FILE-008": [
        ("a: 2026-13-45\nb: !!int x\nc: !!map []\nd: !vault {}\n", ["1:4", "2:4", "3:4", "4:4"]),
        (f"a: {'9' * 5000}\n", ["1:4"]),
        ("a: {<<: [1]}\n", ["1:5"]),
        ("a: =\n", ["1:4"]),
    ],
    "FILE-009": [("a: {{ b }}\nc:\n  ? [1]\n  : 2\n", ["1:5", "3:5"]), ("a: {{ b }}/c\nd: 1\n", ["1:5"])],
    "FILE-010": [('"": 1\na: {" ": 2}\nb:\n  ~: 3\n', ["1:1", "2:5", "4:3"])],
    "FILE-011": [(f"a: {'x' * 10_000}\nb: [{'y' * 9_999}]\n", ["1:4"])],
    "FILE-012": [
        (
            "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
            + "".join(f"{k}: &{k} [{', '.join([f'*{chr(ord(k) - 1)}'] * 10)}]\n" for k in "bcdefgh"),
            ["6:44"],
        )
    ],
    "FILE-013": [("a: &a [*a]\nb: *c\n", ["1:8", "2:4"])],
    "FILE-016": [
        ({"group_vars/gateway.yml": "a: 1\n"}, ["group_vars/gateway.yml:1:1"]),
        ({"host_vars/engine-3": "a: 1\n", "host_vars/engine-2.yaml": "a: 1\n"}, ["host_vars/engine-3:1:1"]),
        ({"group_vars/cpu_hosts.ymal": "a: 1\n"}, ["group_vars/cpu_hosts.ymal:1:1"]),
    ],
    "FILE-017": [
        ({"group_vars/all.yml": "a: 1\n", "group_vars/all/x": "a: 1\n"}, ["group_vars/all.yml:1:1"]),
        (
            {"group_vars/gateways.yaml": "", "group_vars/gateways.yml": "", "group_vars/gateways.json": ""},
            ["group_vars/gateways.json:1:1", "group_vars/gateways.yaml:1:1"],
        ),
    ],
    "FILE-018": [(BLOB, ["1:1"])],
    "FILE-019": [
        ("a: !vault plain\n", ["1:4"]),
        (BLOB.replace("61", "6z"), ["1:1"]),
        ("$ANSIBLE_VAULT;9.9;AES256\n61\n", ["1:1"]),
    ],
    "FILE-020": [({"hosts.yml": HOSTS + "    more: {host: {a: {}}, hosts: {b: {}}}\n"}, ["hosts.yml:9:12"])],
    "FILE-021": [
        ({"hosts.yml": HOSTS + "    more: [b]\n"}, ["hosts.yml:9:11"]),
        ({"hosts.yml": HOSTS + "    more: {hosts: [b]}\n"}, ["hosts.yml:9:19"]),
        ({"hosts.yml": HOSTS + "    more: {hosts: {b: 10.0.0.1}}\n"}, ["hosts.yml:9:23"]),
        ({"hosts.yml": HOSTS + "  vars: x\n"}, ["hosts.yml:9:9"]),
    ],
    "FILE-022": [
        (
            {"hosts.yml": HOSTS + "    a:\n      children: {b: {children: {a: {}}, hosts: {x: {}}}}\n"},
            ["hosts.yml:10:33"],
        ),
        ({"hosts.yml": HOSTS + "    a: {children: {all: {}}}\n"}, ["hosts.yml:9:20"]),
        ({"hosts": "[a:children]\nb\n[b:children]\na\n[c]\nx\n"}, ["hosts:4:1"]),
        ({"hosts.yml": HOSTS + "    a: {children: {a: {}}}\n"}, ["hosts.yml:9:20"]),
    ],
    "FILE-023": [
        ({"hosts.yml": "all: {}\n"}, [".:1:1"]),
        ({"hosts.yml": "all: {children: {a: {}, b: {}}}\n"}, [".:1:1"]),
    ],
    "FILE-024": [
        ({"hosts.yml": HOSTS + "    gatewys:\n    spare: {hosts: {}}\n"}, ["hosts.yml:10:5", "hosts.yml:9:5"])
    ],
    "FILE-025": [
        ("12: a\nyes: b\n", ["1:1", "2:1"]),
        ({"hosts.yml": HOSTS + "    more: {hosts: {12: {}, no: {}}}\n"}, ["hosts.yml:9:20", "hosts.yml:9:28"]),
    ],
    "FILE-026": [
        (
            {"hosts": "[a]\nx b=1 hunter2\ny b='1\n\n[c:group]\nz\n[d e]\n[a:vars]\nv\nw=1\n[gone:vars]\nw=1\n"},
            ["hosts:11:1", "hosts:2:1", "hosts:3:1", "hosts:5:1", "hosts:7:1", "hosts:9:1"],
        )
    ],
    "FILE-028": [({"hosts": "[a]\nx\n[b:children]\nc\na\n"}, ["hosts:4:1"])],
    "FILE-029": [(f"a: {'[' * 300}", ["1:103"]), (f"a: {'[' * 5000}{']' * 5000}", ["1:1003"])],
}
#: Codes that need a link or a device, or Ansible: their tests are below and in test_console.py.
ELSEWHERE = {"FILE-014", "FILE-015", "FILE-027"}


def test_every_rule_of_the_family_has_a_case() -> None:
    assert sorted({*CASES, *ELSEWHERE}) == sorted(c for c in RULES if c.startswith("FILE-"))


@pytest.mark.parametrize(
    ("code", "content", "places"), [(code, c, p) for code, cases in CASES.items() for c, p in cases]
)
def test_fault(code: str, content: Files | str | bytes, places: list[str], tmp_path: Path) -> None:
    files: Files = content if isinstance(content, dict) else {"group_vars/all/fleet.yml": content}
    wanted = [p if not p[0].isdigit() else f"group_vars/all/fleet.yml:{p}" for p in places]
    assert found(write(tmp_path, files)) == [(code, place) for place in sorted(wanted)]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "---\n# nothing\n",
        "---\na: 1\n...\n",
        "\ufeffa: 1\n",
        "a: {b: &x [1], c: *x, d: {<<: {e: 1}}}\n",
        "a: !unsafe '{{ x }}'\nb: !unsafe {c: 1}\nc: ! 5\n",
        f"a: !vault |\n  {BLOB.strip().replace(chr(10), chr(10) + '  ')}\n",
        "a: 2026-01-31\nb: 1:30\nc: 0o17\nd: .inf\ne: !!binary aGk=\nf: !!set {x}\n",
        '{"a": 1,\n\t"b": "\\ud83d\\ude00"}',
        "a: |\n  x\n  \ttab in a text\nb: 'x'\t\n",
        "a: 1\r\nb: 2\r\n",
    ],
)
def test_nothing_is_wrong_with(content: str, tmp_path: Path) -> None:
    assert found(write(tmp_path, {"group_vars/all/fleet.yml": content})) == []


def test_files_that_ansible_does_not_read_are_not_read(tmp_path: Path) -> None:
    bad = "a: [\n"
    names = ["all/.hidden.yml", "all/copy.yml~", "all/notes.txt", "all/old.d/x.yml", "README.md", "all/x.bak"]
    assert found(write(tmp_path, {f"group_vars/{name}": bad for name in names})) == []


def test_faults_of_all_files_at_once(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "group_vars/all/a.yml": "a: 1\na: 2\n",
            "group_vars/all/b": b"b: \xff\n",
            "group_vars/all/deep/c.yaml": "c:\n\td: 1\n",
            "group_vars/gateways.json": '{"e": 1,, "f": 2}',
            "host_vars/engine-1.yml": "g: !x 1\nh: {{ i }}\n",
            "host_vars/engine-9.yml": "- 1\n",
        },
    )
    assert found(root) == [
        ("FILE-001", "group_vars/all/b:1:4"),
        ("FILE-002", "group_vars/gateways.json:1:9"),
        ("FILE-003", "group_vars/all/deep/c.yaml:2:1"),
        ("FILE-004", "group_vars/all/a.yml:2:1"),
        ("FILE-006", "host_vars/engine-9.yml:1:1"),
        ("FILE-007", "host_vars/engine-1.yml:1:4"),
        ("FILE-009", "host_vars/engine-1.yml:2:5"),
        ("FILE-016", "host_vars/engine-9.yml:1:1"),
    ]


def test_links_devices_and_circles_of_links(tmp_path: Path) -> None:
    root = write(tmp_path, {"group_vars/all/fine.yml": "a: 1\n"})
    folder = root / "group_vars/all"
    (folder / "nowhere.yml").symlink_to("gone.yml")
    (folder / "itself.yml").symlink_to("itself.yml")
    (folder / "up").symlink_to(folder)
    os.mkfifo(folder / "pipe.yml")
    assert found(root) == [
        ("FILE-014", "group_vars/all/itself.yml:1:1"),
        ("FILE-014", "group_vars/all/nowhere.yml:1:1"),
        ("FILE-014", "group_vars/all/pipe.yml:1:1"),
        ("FILE-015", "group_vars/all/up:1:1"),
    ]


def test_a_file_without_rights_and_one_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write(tmp_path, {"group_vars/all/a.yml": "a: 1\n"})
    monkeypatch.setattr(inventory_files, "MAX_BYTES", len(HOSTS))
    (root / "group_vars/all/b.yml").write_text("b: " + "x" * len(HOSTS))
    read_bytes = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path.name == "a.yml":
            raise PermissionError(13, "Permission denied")
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert found(root) == [("FILE-014", "group_vars/all/a.yml:1:1"), ("FILE-014", "group_vars/all/b.yml:1:1")]


def test_an_encrypted_file_is_opened_with_a_password_only(tmp_path: Path) -> None:
    root = write(tmp_path, {"group_vars/all/vault.yml": BLOB})
    seen: list[bytes] = []

    def opens(data: bytes) -> bytes:
        seen.append(data)
        return b"key: hunter2\nhunter2: 1\nhunter2: 2\n"

    def refuses(_: bytes) -> bytes:
        raise ValueError

    (twice,) = check([str(root)], opens).problems
    assert (twice.code, seen) == ("FILE-004", [BLOB.encode()])
    assert "hunter2" not in str(twice)
    assert [p.code for p in check([str(root)], refuses).problems] == ["FILE-019"]


def test_no_finding_shows_a_value(tmp_path: Path) -> None:
    secret = "hunter2-hunter2"
    lines = ["a: '{s}", "b: [{s}", "c: {{ {s} }}", "d: !x {s}", "e: !vault {s}", "f: @{s}", "\tg: {s}", "h: !!int {s}"]
    for line in lines:
        root = write(tmp_path, {"group_vars/all/fleet.yml": line.replace("{s}", secret) + "\n"})
        problems = check([str(root)]).problems
        assert problems
        assert secret not in str(problems), line


def test_places_of_paths(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "group_vars/all/a.yml": "fleet_services: {old: 1}\n",
            "group_vars/all/b.yml": (
                'fleet_models:\n  "tiny chat":\n    versions: &v\n      "2026.01": {x: 1}\n'
                "fleet_services:\n  chat:\n    deployments:\n      - {group: a}\n      - group: b\n  alias: *v\n"
            ),
            "host_vars/gateway-1.yml": "ansible_port: 22\n",
        },
    )
    checked = check([str(root)])

    def place(*parts: str | int) -> str:
        return str(checked.locate(path_of(parts))).replace(f"{root}/", "")

    assert place("fleet_services", "chat", "deployments", 1, "group") == "group_vars/all/b.yml:9:9"
    assert place("fleet_services", "chat", "deployments", 0, "nothing") == "group_vars/all/b.yml:8:9"
    assert place("fleet_services", "chat", "port") == "group_vars/all/b.yml:6:3"
    assert place("fleet_services", "alias", "2026.01", "x") == "group_vars/all/b.yml:4:19"
    assert place("fleet_models", "tiny chat", "versions", "2026.01") == "group_vars/all/b.yml:4:7"
    assert place("hosts", "gateway-1", "ansible_host") == "hosts.yml:5:21"
    assert place("hosts", "gateway-1", "ansible_port") == "host_vars/gateway-1.yml:1:1"
    assert place("hosts", "engine-2", "ansible_host") == "hosts.yml:8:9"
    assert place("fleet_gateway") == "None"


@given(st.lists(st.text(min_size=1) | st.integers(0, 99), min_size=1, max_size=5))
def test_split_path_is_the_inverse_of_path_of(parts: list[str | int]) -> None:
    assert split_path(path_of(["a", *parts])) == ["a", *parts]


@pytest.mark.parametrize("name", ["hosts.yml", "hosts.ini", "hosts", "inventory.yaml"])
def test_the_inventory_of_a_file(name: str, tmp_path: Path) -> None:
    file = tmp_path / "inv/group_vars/all/x/y.yml"
    file.parent.mkdir(parents=True)
    file.touch()
    assert inventory_of(file) == tmp_path / "inv"
    (tmp_path / name).touch()
    assert inventory_of(file) == tmp_path


def verdict_of_ansible(data: bytes) -> str | None:
    """Why Ansible refuses a vars file, or None where it reads it."""
    from ansible.parsing.utils.yaml import from_yaml

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ANSIBLE_DUPLICATE_YAML_DICT_KEY", "error")
            loaded = from_yaml(data.decode())
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None if loaded is None or isinstance(loaded, dict) else f"not a mapping: {type(loaded).__name__}"


#: What is reported although Ansible reads it: it would do harm later.
STRICTER = {"FILE-009", "FILE-010", "FILE-011", "FILE-012", "FILE-013", "FILE-016", "FILE-018", "FILE-019", "FILE-029"}
WORDS = st.sampled_from(
    ["a", "b", ": ", ":", "- ", "\n", "\n  ", "\n    ", "{", "}", "[", "]", ", ", '"', "'", "&x ", "*x", "<<", "1",
     "!vault ", "!unsafe ", "!y ", "!!int ", "!!map ", "|\n", "#", "\t", "0x1", "yes", "true", "~", "---\n", "...\n",
     "? ", "%", "@", "2026-02-30", "é", "=", "\\"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(WORDS, max_size=14).map("".join))
@example("a: 1\na: 2\n")
@example("&x a: &x b\nc: *x")
def test_whatever_ansible_refuses_is_reported_and_the_rest_is_not(text: str) -> None:
    data = text.encode()
    codes = {f.code for f in yaml_nodes.read(data).faults}
    verdict = verdict_of_ansible(data)
    if verdict is not None:
        assert codes, verdict
    else:
        assert codes <= STRICTER, text


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_an_exception(data: bytes) -> None:
    assert isinstance(yaml_nodes.read(data, hosts=True), yaml_nodes.Text)


def test_the_python_parser_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    import yaml

    texts: list[Any] = [
        c for code, cases in CASES.items() for c, _ in cases if code != "FILE-002" and isinstance(c, str)
    ]
    with_c = [[(f.code, f.line) for f in yaml_nodes.read(t.encode()).faults] for t in texts]
    monkeypatch.setattr(yaml_nodes, "_LOADER", yaml.SafeLoader)
    assert [[(f.code, f.line) for f in yaml_nodes.read(t.encode()).faults] for t in texts] == with_c


def test_texts_of_problems_have_no_gaps(tmp_path: Path) -> None:
    everything: list[Problem] = []
    for number, (content, _) in enumerate(case for cases in CASES.values() for case in cases):
        files: Files = content if isinstance(content, dict) else {"group_vars/all/fleet.yml": content}
        everything += check([str(write(tmp_path / str(number), files))]).problems
    for item in everything:
        assert all([item.rule, item.remedy, item.rule_zh, item.remedy_zh]), item
        assert "{hint" not in str(item)
