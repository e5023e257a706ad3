"""Engines as files: what is written, what is refused, and when an engine is to be restarted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from fleet.target import engines
from fleet.target.engines import Limits, Places
from fleet.target.trouble import Trouble


def engine(**changes: Any) -> dict[str, Any]:
    return {
        "name": "chat-0",
        "service": "chat",
        "model": "tiny-chat",
        "version": "2026.01",
        "served_model_name": "tiny-chat",
        "model_path": "/var/lib/vllm-fleet/models/tiny-chat/2026.01/default",
        "runtime": "vllm-0.32.0-cpu-x86_64-cp311",
        "address": "10.0.0.1",
        "port": 8000,
        "settings": {"max-model-len": 512, "dtype": "float32", "enforce-eager": True},
        "environment": {"OMP_NUM_THREADS": "1"},
        "cpus": None,
        "numa_nodes": None,
        "memory_max_bytes": None,
        "start_timeout_seconds": 900,
        "shutdown_timeout_seconds": 60,
        "stop_timeout_seconds": 90,
        "max_request_seconds": 600,
        **changes,
    }


def files(places: Places | None = None, key: str = "the-key", **changes: Any) -> engines.Files:
    return engines.files_of(engine(**changes), key, Limits(), places or Places())


def text(found: engines.Files, name: str) -> str:
    return next(file.text for file in found.files if file.path.endswith(name))


def test_settings_are_yaml_that_says_everything(tmp_path: Path) -> None:
    settings = yaml.safe_load(
        text(files(settings={"a": ["x", 1], "b": {"c": None}, "d": False, "e": "0x1: #"}), "settings.yaml")
    )
    assert settings == {
        "a": ["x", 1],
        "b": {"c": None},
        "d": False,
        "e": "0x1: #",
        "model": "/var/lib/vllm-fleet/models/tiny-chat/2026.01/default",
        "served-model-name": "tiny-chat",
        "host": "10.0.0.1",
        "port": 8000,
        "shutdown-timeout": 60,
    }


def test_settings_that_the_plan_already_completed_are_taken() -> None:
    complete = {
        "model": engine()["model_path"],
        "served_model_name": ["tiny-chat", "alias"],
        "host": "10.0.0.1",
        "port": 8000,
    }
    settings = yaml.safe_load(text(files(settings=complete), "settings.yaml"))
    assert settings["served-model-name"] == ["tiny-chat", "alias"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"settings": {"port": 9000}}, "settings say port: 9000, and the engine's own field says 8000"),
        ({"settings": {"api_key": "x"}}, "settings hold api-key"),
        ({"environment": {"VLLM_API_KEY": "x"}}, "environment holds the secret VLLM_API_KEY"),
        ({"environment": {"HF_TOKEN": "x"}}, "environment holds the secret HF_TOKEN"),
        ({"environment": {"A B": "x"}}, "cannot name an environment variable"),
        ({"environment": {"A": "x\ny"}}, "line break"),
        ({"name": "../x"}, "cannot name an engine"),
        ({"stop_timeout_seconds": 60}, "it may take 60 s to finish its requests"),
    ],
)
def test_what_cannot_be_right_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(Trouble, match=said):
        files(**changes)


def test_environment_survives_the_rules_of_systemd() -> None:
    assert 'A="say \\"hi\\" for \\$5 \\\\ \\`x\\`"\n' in text(
        files(environment={"A": 'say "hi" for $5 \\ `x`'}), "/environment"
    )


def test_the_key_is_in_one_file_for_root_alone() -> None:
    found = files(key="s3cret-key")
    holders = [file for file in found.files if "s3cret-key" in file.text]
    assert [(Path(file.path).name, file.mode, file.secret) for file in holders] == [("secrets", 0o600, True)]
    assert "s3cret-key" not in engines.shown(holders[0], holders[0].text)


def test_the_drop_in_carries_what_the_plan_decides() -> None:
    plan = text(files(cpus="0-15", numa_nodes="0", memory_max_bytes=1 << 30), "50-plan.conf").splitlines()
    for line in ("TimeoutStartSec=900", "TimeoutStopSec=90", "CPUAffinity=0-15", "NUMAPolicy=bind", "NUMAMask=0"):
        assert line in plan
    assert "MemoryMax=1073741824" in plan
    # Six starts that all took their whole time still count together.
    assert "StartLimitBurst=6" in plan
    assert "StartLimitIntervalSec=5430" in plan


def test_what_the_plan_leaves_open_is_not_written() -> None:
    plan = text(files(), "50-plan.conf")
    assert not [word for word in ("CPUAffinity", "NUMA", "MemoryMax") if word in plan]


@pytest.mark.parametrize(
    ("runtime", "private"),
    [("vllm-0.32.0-cpu-x86_64-cp311", "yes"), ("vllm-0.32.0-nvidia-x86_64-cp312", "no"), ("something", "no")],
)
def test_only_engines_without_accelerator_lose_the_devices(runtime: str, private: str) -> None:
    assert f"PrivateDevices={private}" in text(files(runtime=runtime), "50-plan.conf").splitlines()


@pytest.mark.parametrize(
    "changes",
    [
        {"settings": {"dtype": "auto"}},
        {"environment": {}},
        {"runtime": "vllm-0.33.0-cpu-x86_64-cp311"},
        {"start_timeout_seconds": 901},
        {"key": "another"},
    ],
)
def test_every_change_that_an_engine_reads_restarts_it(changes: dict[str, Any]) -> None:
    assert files(**changes).digest("unit") != files().digest("unit")


def test_nothing_else_restarts_it() -> None:
    assert files().digest("unit") == files(settings=dict(reversed(engine()["settings"].items()))).digest("unit")
    assert files().digest("unit") != files().digest("another unit")


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"port": 8001}, "have the name chat-0 in common"), ({"name": "chat-1"}, r"have address and port .* in common")],
)
def test_engines_of_a_host_are_apart(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(Trouble, match=said):
        engines.check_together([engine(), engine(**changes)])
    engines.check_together([engine(), engine(name="chat-1", port=8001)])


def test_engines_that_were_converged_before_are_found(tmp_path: Path) -> None:
    places = Places(engines=str(tmp_path / "engines"), units=str(tmp_path / "units"))
    assert engines.found_on_host(places) == set()
    (tmp_path / "engines" / "old").mkdir(parents=True)
    (tmp_path / "units" / "vllm-engine@older.service.d").mkdir(parents=True)
    (tmp_path / "units" / "vllm-engine@older.service.d" / "50-plan.conf").write_text("")
    (tmp_path / "units" / "vllm-engine@someones.service.d").mkdir()
    assert engines.found_on_host(places) == {"old", "older"}


def test_differences_are_seen(tmp_path: Path) -> None:
    file = engines.File(str(tmp_path / "x"), "a\n", 0o600)
    assert engines.differs(file)
    (tmp_path / "x").write_text("a\n")
    (tmp_path / "x").chmod(0o644)
    assert engines.differs(file)
    (tmp_path / "x").chmod(0o600)
    assert not engines.differs(file)


def test_systemctl_show_is_read_by_unit() -> None:
    shown = engines.parse_show("Id=a.service\nActiveState=active\n\nId=b.service\nActiveState=failed\nResult=x=y\n")
    assert shown["b.service"] == {"Id": "b.service", "ActiveState": "failed", "Result": "x=y"}


def test_only_faults_of_our_unit_count() -> None:
    said = """/lib/systemd/system/other.service:3: Unit bad, refusing.
/tmp/v/vllm-engine@chat-0.service:9: Unknown key name 'ProtectProc' in section 'Service', ignoring.
/tmp/v/vllm-engine@chat-0.service:12: Failed to parse service restart specifier: sometimes
"""
    assert engines.real_complaints(said) == [
        "/tmp/v/vllm-engine@chat-0.service:12: Failed to parse service restart specifier: sometimes"
    ]
