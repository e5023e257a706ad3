"""The console script: whole inventories with Ansible behind it, its formats and exit codes, and bytes of any kind."""

# Chinese punctuation in Chinese texts.
# ruff: noqa: RUF001
from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from fleet import console, inventory_load
from fleet_samples import ADDRESSES, SECRET, VARIABLES
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "bin/vllm-fleet"
VAULT = str(Path(sys.executable).parent / "ansible-vault")
PROGRAM = "import sys; from fleet.console import main; sys.exit(main())"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in os.environ if n.startswith("ANSIBLE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ANSIBLE_CONFIG", str(ROOT / "ansible.cfg"))
    monkeypatch.setenv("ANSIBLE_DUPLICATE_YAML_DICT_KEY", "ignore")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A valid inventory in files."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}" + b"x" * 4096)
    variables = json.loads(json.dumps(VARIABLES))
    artifacts = variables["fleet_models"]["tiny-chat"]["versions"]["2026.01"]["artifacts"]
    artifacts["default"]["source"] = f"file://{model}"
    root = tmp_path / "inv"
    put(root, "group_vars/all/fleet.yml", yaml.safe_dump(variables, sort_keys=True))
    put(root, "group_vars/all/secrets.yml", "fleet_engine_api_key: '{{ vault_key }}'\n")
    put(root, "group_vars/all/vault.yml", "vault_key: \"{{ lookup('ansible.builtin.env', 'FLEET_TEST_KEY') }}\"\n")
    groups: dict[str, dict[str, Any]] = {"gateways": {}, "cpu_hosts": {}}
    for host, address in ADDRESSES.items():
        groups["gateways" if host.startswith("gateway") else "cpu_hosts"][host] = {"ansible_host": address}
    children = {group: {"hosts": members} for group, members in groups.items()}
    put(root, "hosts.yml", yaml.safe_dump({"all": {"children": children}}))
    monkeypatch.setenv("FLEET_TEST_KEY", SECRET)
    return root


def put(root: Path, name: str, content: str | bytes) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def line_of(path: Path, text: str) -> int:
    return path.read_text().split("\n").index(text) + 1


def lines(root: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[tuple[str, str]]]:
    """Exit status, and the place and code of each finding, sorted."""
    status = console.main(["validate", "-i", str(root), "--format", "lines", *arguments])
    said = capsys.readouterr()
    assert said.err == ""
    found = []
    for line in said.out.splitlines():
        match = re.fullmatch(r"(\S+?:[0-9]+:[0-9]+): (error|warning) ([A-Z]+-[0-9]{3}) .+", line)
        assert match, line
        found.append((match[1].removeprefix(f"{root}/").replace(str(root), "."), match[3]))
    return status, sorted(found)


def test_a_valid_inventory_says_so(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(site, capsys) == (0, [])
    assert console.main(["validate", "-i", str(site)]) == 0
    assert capsys.readouterr().out == f"{site}: valid, 4 files, 4 hosts / 有效，4 个文件，4 台主机\n"


def test_rules_have_the_place_of_what_they_are_about(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fleet = site / "group_vars/all/fleet.yml"
    text = fleet.read_text().replace("group: cpu_hosts", "group: cpu_host").replace("port: 8000", "port: '8000'")
    fleet.write_text(text + "fleet_servces: {}\n")
    put(site, "host_vars/engine-1.yml", "ansible_host: engine-1.example\n")
    status, found = lines(site, capsys)
    group = next(n for n, line in enumerate(text.split("\n"), 1) if line.strip() == "group: cpu_host")
    assert status == 1
    assert found == sorted(
        [
            (f"group_vars/all/fleet.yml:{text.count(chr(10)) + 1}:1", "INV-001"),
            (f"group_vars/all/fleet.yml:{line_of(fleet, "    port: '8000'")}:5", "INV-004"),
            (f"group_vars/all/fleet.yml:{group}:7", "SVC-001"),
            ("host_vars/engine-1.yml:1:1", "INV-009"),
        ]
    )


def test_a_broken_file_hides_no_other_and_makes_nothing_up(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fleet = site / "group_vars/all/fleet.yml"
    count = fleet.read_text().count("\n")
    fleet.write_text(fleet.read_text() + "x: {{ y }}\n")
    put(site, "group_vars/all/more.yml", "fleet_servces: {}\nz: 1\nz: 2\n")
    put(site, "group_vars/gateways.yml", b"a: \xff\n")
    status, found = lines(site, capsys)
    assert (status, found) == (
        1,
        [
            (".:1:1", "FILE-027"),
            (f"group_vars/all/fleet.yml:{count + 1}:5", "FILE-009"),
            ("group_vars/all/more.yml:1:1", "INV-001"),
            ("group_vars/all/more.yml:3:1", "FILE-004"),
            ("group_vars/gateways.yml:1:4", "FILE-001"),
        ],
    )


def test_a_value_written_twice_is_checked_as_its_last(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fleet = site / "group_vars/all/fleet.yml"
    text = fleet.read_text()
    fleet.write_text(text + "fleet_state_dir: /srv/a\nfleet_state_dir: [1]\n")
    line = text.count("\n") + 2
    assert lines(site, capsys)[1] == [
        (f"group_vars/all/fleet.yml:{line}:1", "FILE-004"),
        (f"group_vars/all/fleet.yml:{line}:1", "INV-004"),
    ]


@pytest.mark.parametrize(
    ("hosts", "codes"),
    [
        ("all: {children: {a: {children: {b: {children: {a: {}}}}}}}\n", ["FILE-022", "FILE-027"]),
        ("all: {}\n", ["FILE-023", "FILE-027"]),
        ("", ["FILE-006", "FILE-027"]),
        ("all: [\n", ["FILE-002", "FILE-027"]),
        ("all: {hosts: {1: {}}}\n", ["FILE-025", "FILE-027"]),
        ("all: {hosts: [a]}\n", ["FILE-021", "FILE-027"]),
        ("plugin: constructed\n", ["FILE-021", "FILE-027"]),
    ],
)
def test_hosts_files_that_ansible_refuses(
    hosts: str, codes: list[str], site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(site, "hosts.yml", hosts)
    status, found = lines(site, capsys)
    assert (status, sorted(code for _, code in found)) == (1, codes)


@pytest.mark.parametrize(
    ("line", "codes"),
    [("engine-1 ansible_host=10.0.0.1 hunter2", ["FILE-026", "FILE-027"]), ("engine-1: hunter2=1", ["FILE-026"])],
)
def test_what_ansible_refuses_in_an_ini_file(
    line: str, codes: list[str], site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (site / "hosts.yml").unlink()
    put(site, "hosts.ini", f"[cpu_hosts]\n{line}\n")
    assert console.main(["validate", "-i", str(site), "--format", "json"]) == 1
    said = capsys.readouterr()
    found = json.loads(said.out)["problems"]
    assert sorted(p["code"] for p in found) == codes
    assert found[0]["file"] == str(site / "hosts.ini")
    assert "hunter2" not in said.out + said.err


def test_templates_that_fail(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(site, "group_vars/all/z.yml", "fleet_gateway: '{{ fleet_gateway }}'\nfleet_state_dir: '{{ nothing + 1 }}'\n")
    put(site, "host_vars/engine-1.yml", "ansible_host: \"{{ lookup('ansible.builtin.file', '/nonexistent') }}\"\n")
    status, found = lines(site, capsys)
    assert status == 1
    assert {(place, code) for place, code in found if code != "INV-008"} == {
        ("group_vars/all/z.yml:1:1", "INV-015"),
        ("group_vars/all/z.yml:2:1", "INV-015"),
        ("host_vars/engine-1.yml:1:1", "INV-015"),
    }


def test_a_long_text_is_one_problem(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fleet = site / "group_vars/all/fleet.yml"
    fleet.write_text(fleet.read_text().replace("group: gateways", f"group: {'x' * 10_000}"))
    assert [code for _, code in lines(site, capsys)[1]] == ["GW-001"]
    put(site, "group_vars/all/other.yml", f"other: {'x' * 10_000}\n")
    assert sorted(code for _, code in lines(site, capsys)[1]) == ["FILE-011", "GW-001"]


def test_an_empty_group_is_one_problem(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hosts = site / "hosts.yml"
    hosts.write_text(hosts.read_text().replace("gateways:", "gateway:") + "    gateways: {}\n    spare: {}\n")
    status, found = lines(site, capsys)
    assert (status, [code for _, code in found]) == (1, ["GW-002", "FILE-024"])


def test_vaults_with_and_without_their_password(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    good, wrong = put(tmp_path, "good", "for-this-test-only\n"), put(tmp_path, "wrong", "another\n")
    vault = put(site, "group_vars/all/vault.yml", f"vault_key: {SECRET}\n")
    arguments = [VAULT, "encrypt", "--vault-password-file", str(good), str(vault)]
    subprocess.run(arguments, check=True, capture_output=True, timeout=60)
    closed = [(".:1:1", "FILE-027"), ("group_vars/all/vault.yml:1:1", "FILE-018")]
    assert lines(site, capsys) == (0, closed)
    assert lines(site, capsys, "--strict") == (1, closed)
    assert lines(site, capsys, "--vault-password-file", str(good)) == (0, [])
    assert lines(site, capsys, "--vault-id", f"prod@{good}") == (0, [])
    status, found = lines(site, capsys, "--vault-password-file", str(wrong))
    assert (status, found[-1]) == (1, ("group_vars/all/vault.yml:1:1", "FILE-019"))
    assert lines(site, capsys, "--vault-password-file", str(good), "--offline-vault") == (0, closed)
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(good))
    assert lines(site, capsys) == (0, [])
    assert console.main(["validate", "-i", str(site), "--vault-password-file", str(tmp_path / "none")]) == 2
    assert "vault password cannot be read" in capsys.readouterr().err


def test_an_encrypted_value_is_not_an_error_without_its_password(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = put(tmp_path, "good", "for-this-test-only\n")
    arguments = [VAULT, "encrypt_string", "--vault-password-file", str(good), "--name", "vault_key", SECRET]
    done = subprocess.run(arguments, check=True, capture_output=True, timeout=60, text=True)
    put(site, "group_vars/all/vault.yml", done.stdout)
    assert lines(site, capsys) == (0, [("group_vars/all/secrets.yml:1:1", "FILE-018")])
    assert lines(site, capsys, "--vault-password-file", str(good)) == (0, [])


def test_the_json_report_has_places(site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fleet = site / "group_vars/all/fleet.yml"
    fleet.write_text(fleet.read_text().replace("fleet_gateway:", "fleet_gatewy:") + "b: 1\nb: 2\n")
    report = tmp_path / "out/report.json"
    assert console.main(["validate", "-i", str(site), "--format", "json", "--report", str(report)]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data == json.loads(report.read_text())
    assert data["valid"] is False
    place = {"file": str(fleet), "line": line_of(fleet, "b: 2"), "column": 1}
    by_code = {p["code"]: p for p in data["problems"]}
    assert by_code["FILE-004"].items() >= {**place, "severity": "error", "value": "b"}.items()
    assert (
        by_code["INV-001"].items() >= {**place, "line": line_of(fleet, "fleet_gatewy:"), "path": "fleet_gatewy"}.items()
    )
    assert by_code["INV-002"].items() >= {"file": None, "line": None, "column": None, "path": "fleet_gateway"}.items()
    assert set(by_code["INV-002"]) >= {"rule", "remedy", "rule_zh", "remedy_zh"}


def test_text_shows_the_place(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fleet = site / "group_vars/all/fleet.yml"
    fleet.write_text(fleet.read_text().replace("group: gateways", "group: gatewys"))
    assert console.main(["validate", "-i", str(site)]) == 1
    said = capsys.readouterr().out
    place = f"{fleet}:{line_of(fleet, '  group: gatewys')}:3"
    assert said.startswith("1 error(s), 0 warning(s) / 1 个错误，0 个警告\n\nGW-001 error: fleet_gateway.group\n")
    assert f"\n  place:  {place}\n  value:  gatewys\n" in said
    assert "是否想写 gateways?" in said


def test_files_of_a_commit_lead_to_their_inventories(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = site.parent / "other"
    shutil.copytree(site, other)
    put(other, "group_vars/all/a.yml", "a: 1\na: 2\n")
    files = [str(site / "hosts.yml"), str(site / "group_vars/all/fleet.yml"), str(other / "group_vars/all/gone.yml")]
    assert console.main(["validate", "--format", "lines", *files]) == 1
    assert [line.split(": ")[0] for line in capsys.readouterr().out.splitlines()] == [
        f"{other}/group_vars/all/a.yml:2:1"
    ]
    assert console.main(["validate", *files[:2]]) == 0


@pytest.mark.parametrize(
    "arguments",
    [[], ["-i", "nowhere"], ["/nonexistent/file.yml"], ["-i", ".", "--report", "/dev/null/x"]],
)
def test_what_cannot_be_run_is_said_in_one_line(
    arguments: list[str], site: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(site)
    assert console.main(["validate", *arguments]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)


def test_several_sources_are_one_inventory(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = put(site.parent / "more", "hosts.ini", "[cpu_hosts]\nengine-3 ansible_host=10.77.0.13\n")
    assert console.main(["validate", "-i", str(site), "-i", str(more)]) == 0
    assert "5 hosts" in capsys.readouterr().out


#: What can be read of ordinary texts, and pieces that a fuzzer seldom hits upon.
CONTENTS = st.binary(max_size=120) | st.lists(
    st.sampled_from(
        ["fleet_gateway", "fleet_services", "fleet_models", "ansible_host", ": ", "{", "}", "[", "]", ", ", "\n", "  ",
         "- ", '"', "{{ ", " }}", "{% ", "lookup('ansible.builtin.file', '/x')", "&a ", "*a", "!vault ", "!unsafe ",
         "$ANSIBLE_VAULT;1.1;AES256\n61", "\x00", "chat", "port", "1", "x" * 500, "\ud7ff", "é", "null", "~"]
    ),
    max_size=16,
).map(lambda parts: "".join(parts).encode())  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CONTENTS)
@example(b"fleet_gateway: {port: \xff}")
@example(b"? {a: 1}\n: fleet_models\nfleet_services: &a [*a]")
@example(b'fleet_gateway: "\\ud800"\nfleet_models: {"\\U0010ffff": "{{ 1 / 0 }}"}')
@example(b"fleet_services: {? !vault x : 1}\n")
@example(b"fleet_models: !unsafe {a: '{{ b }}'}\nansible_host: [1]\nfleet_engine_api_key: {a: 1}\n")
@example(b"fleet_state_dir: 2026-01-01\nfleet_shared_runtimes: !!binary aGk=\nfleet_gateway: !!set {a}\n")
@example(b"[")
def test_any_bytes_in_a_vars_file_end_in_a_report(
    site: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    put(site, "group_vars/all/zz.yml", content)
    assert console.main(["validate", "-i", str(site), "--format", "json"]) in (0, 1)
    said = capsys.readouterr()
    assert said.err == ""
    assert isinstance(json.loads(said.out)["problems"], list)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CONTENTS, st.sampled_from(["hosts.yml", "hosts", "more.ini", "host_vars/engine-1"]))
def test_any_bytes_in_a_hosts_file_end_in_a_report(
    site: Path, capsys: pytest.CaptureFixture[str], content: bytes, name: str
) -> None:
    for other in ("hosts", "more.ini", "host_vars/engine-1"):
        (site / other).unlink(missing_ok=True)
    put(site, name, content)
    assert console.main(["validate", "-i", str(site), "--format", "json"]) in (0, 1)
    said = capsys.readouterr()
    assert said.err == ""
    assert isinstance(json.loads(said.out)["problems"], list)


# As a process


def run(*command: str, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ANSIBLE_")}
    environment |= {"FLEET_TEST_KEY": SECRET, "PYTHONPATH": str(ROOT / "plugins/module_utils"), **variables}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=cwd, env=environment)


def test_the_script_of_a_checkout(site: Path, tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    (checkout / "bin").mkdir(parents=True)
    shutil.copy(SCRIPT, checkout / "bin/vllm-fleet")
    script = str(checkout / "bin/vllm-fleet")
    done = run(script, "validate", "-i", str(site))
    assert (done.returncode, done.stdout, "make setup" in done.stderr) == (2, "", True)
    (checkout / ".venv/bin").mkdir(parents=True)
    # Not a link: Python would look for its packages beside it.
    put(checkout, ".venv/bin/python", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n').chmod(0o755)
    (checkout / "plugins").symlink_to(ROOT / "plugins")
    link = tmp_path / "vllm-fleet"
    link.symlink_to(script)
    put(site, "group_vars/all/a.yml", "fleet_servces: {}\n")
    # A module of the working directory must not take the place of one that the command needs.
    put(site, "yaml.py", "raise SystemExit('imported from the working directory')\n")
    (site / "yaml.py").rename(tmp_path / "yaml.py")
    done = run(str(link), "validate", "-i", "inv", "--format", "lines", cwd=tmp_path, PYTHONPATH="")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("inv/group_vars/all/a.yml:1:1: error INV-001 fleet_servces: ")
    assert done.stdout.count("\n") == 1


def test_noise_of_ansible_is_in_no_format(site: Path) -> None:
    put(site, "hosts", "[bad-name!]\nengine-1\n[cpu_hosts]\nengine-1\n")
    put(site, "group_vars/all/zz.yml", "a: !vault-encrypted |\n  $ANSIBLE_VAULT;1.1;AES256\n  6162\n")
    done = run(sys.executable, "-c", PROGRAM, "validate", "-i", str(site), "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"problems": [], "valid": True}


def test_a_fault_of_a_file_is_reported_without_ansible(site: Path) -> None:
    put(site, "hosts.yml", "all: [\n")
    program = PROGRAM.replace("sys.exit(main())", "main(); print(sorted({m.split('.')[0] for m in sys.modules}))")
    done = run(sys.executable, "-c", program, "validate", "-i", str(site), "--format", "lines")
    *found, modules = done.stdout.splitlines()
    assert len(found) == 2
    assert "'yaml'" in modules
    assert not re.search("'(ansible|pydantic|jinja2)'", modules)


def test_the_hook_is_called_as_pre_commit_would(site: Path) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    program, *arguments = hook["entry"].split()
    assert program == "vllm-fleet"
    pattern = re.compile(hook["files"])
    files = [str(p.relative_to(site.parent)) for p in sorted(site.rglob("*")) if p.is_file()]
    chosen = [f for f in [*files, "README.md", "roles/x/tasks/main.yml"] if pattern.search(f)]
    assert chosen == files
    command = [sys.executable, "-c", PROGRAM, *arguments, *hook.get("args", []), *chosen]
    assert run(*command, cwd=site.parent).returncode == 0
    put(site, "group_vars/all/a.yml", "a: 1\na: 2\n")
    done = run(*command, cwd=site.parent)
    assert (done.returncode, done.stdout.split(": ")[0]) == (1, "inv/group_vars/all/a.yml:2:1")


def test_the_package_holds_what_the_script_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["scripts"] == {"vllm-fleet": "fleet.console:main"}
    core = ROOT / project["tool"]["setuptools"]["packages"]["find"]["where"][0] / "fleet"
    files = {p.relative_to(core) for p in core.rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    assert project["tool"]["setuptools"]["package-data"] == {"fleet": ["data/**/*"]}
    for file in files:
        assert file.suffix == ".py" or file.parts[0] == "data", file
        assert file.parts[0] == "data" or (core / file.parent / "__init__.py").is_file(), file


def test_settings_for_where_there_is_no_ansible_cfg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANSIBLE_CONFIG")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(inventory_load, "PROJECT", tmp_path)
    for name in inventory_load.SETTINGS:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    inventory_load.prepare()
    assert {name: os.environ[name] for name in inventory_load.SETTINGS} == inventory_load.SETTINGS


def test_a_value_of_a_group_is_found_in_the_file_of_that_group(tmp_path: Path) -> None:
    import test_planted_faults

    inventory = test_planted_faults.write(tmp_path / "bad")
    done = run(str(SCRIPT), "validate", "-i", str(inventory), "--format", "json")
    report = json.loads(done.stdout)
    places = {(p["code"], p["path"]): (p["file"] or "", p["line"]) for p in report["problems"]}
    file, line = places["INV-004", "hosts.a100-1.fleet_host.memory_gib"]
    assert file.endswith("group_vars/a100_hosts.yml")
    assert "memory_gib" in Path(file).read_text().splitlines()[line - 1]
    file, line = places["STO-003", "hosts.ascend-1.fleet_storage.mounts[1].source"]
    assert file.endswith("group_vars/ascend_hosts.yml")
    assert "/srv/cache" in Path(file).read_text().splitlines()[line - 1]
    assert set(places) >= test_planted_faults.PLANTED


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("fleet_models: {}\n".encode("utf-16"), "FILE-001"),
        (b"- fleet_models\n", "FILE-006"),
        (b"fleet\n", "FILE-006"),
        (b"\x80\x81\n", "FILE-001"),
    ],
    ids=["utf-16", "list", "text", "bytes"],
)
def test_a_file_of_which_nothing_can_be_read_is_one_problem(site: Path, content: bytes, code: str) -> None:
    (site / "group_vars/all/fleet.yml").write_bytes(content)
    checked, _ = console.check([str(site)])
    assert sorted(p.code for p in checked.problems) == sorted([code, "FILE-027"])
