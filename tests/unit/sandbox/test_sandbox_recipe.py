from __future__ import annotations

import types
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox import images, system
from sandbox.system import fresh, recipe_hash


def load(tmp_path: Path, name: str, text: str) -> Callable[[], int]:
    file = tmp_path / f"{name}.py"
    file.write_text(text)
    module = types.ModuleType(name)
    exec(compile(text, str(file), "exec"), module.__dict__)
    return module.__dict__["f"]  # type: ignore[no-any-return]


def test_a_recipe_follows_data_and_code_but_not_layout(tmp_path: Path) -> None:
    plain = load(tmp_path, "plain", "def f():\n    return 1\n")
    laid_out = load(tmp_path, "laid_out", "def f():\n    # why\n    return (\n        1\n    )\n")
    other = load(tmp_path, "other", "def f():\n    return 2\n")
    assert recipe_hash("x", plain) == recipe_hash("x", laid_out)
    assert recipe_hash("x", plain) != recipe_hash("x", other)
    assert recipe_hash("x", plain) != recipe_hash("y", plain)
    assert recipe_hash({"a": 1, "b": 2}) == recipe_hash({"b": 2, "a": 1})


def test_a_half_built_thing_never_appears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "WORK", tmp_path / "work")
    target = tmp_path / "thing"
    with pytest.raises(ZeroDivisionError), fresh(target) as building:
        (building / "file").write_text("half")
        raise ZeroDivisionError
    assert not target.exists()
    with fresh(target) as building:
        (building / "file").write_text("whole")
    with fresh(target) as building:
        (building / "other").write_text("new")
    assert [f.name for f in target.iterdir()] == ["other"]
    assert not list((tmp_path / "work").iterdir())


def etc(tmp_path: Path, release: str, sources: str = "", list_text: str = "") -> Path:
    (tmp_path / "apt/sources.list.d").mkdir(parents=True)
    (tmp_path / "os-release").write_text(release)
    (tmp_path / "apt/sources.list.d/debian.sources").write_text(sources)
    (tmp_path / "apt/sources.list").write_text(list_text)
    return tmp_path


BOOKWORM = "NAME=x\nVERSION_CODENAME=bookworm\nID=debian\n"


def test_the_machines_own_sources_are_used_where_it_is_the_same_debian(tmp_path: Path) -> None:
    sources = (
        "# comment\nTypes: deb deb-src\nURIs: http://mirror.example/debian\nSuites: bookworm bookworm-updates\n"
        "Components: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n"
        "Types: deb\nURIs: http://off.example/\nSuites: bookworm\nComponents: main\nEnabled: no\n\n"
        "Types: deb\nURIs: http://vendor.example/\nSuites: bookworm\nComponents: main\nSigned-By: /etc/vendor.gpg\n"
    )
    lines = images.machine_sources(
        etc(
            tmp_path, BOOKWORM, sources, "deb http://one.example/debian bookworm-security main\n# deb x bookworm main\n"
        )
    )
    key = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] "
    assert lines == [
        "deb http://one.example/debian bookworm-security main",
        f"deb {key}http://mirror.example/debian bookworm main",
        f"deb {key}http://mirror.example/debian bookworm-updates main",
    ]


@pytest.mark.parametrize(
    "release", ["ID=ubuntu\nVERSION_CODENAME=bookworm\n", "ID=debian\nVERSION_CODENAME=trixie\n", ""]
)
def test_another_systems_sources_are_not(tmp_path: Path, release: str) -> None:
    assert images.machine_sources(etc(tmp_path, release, "", "deb http://one.example/debian bookworm main\n")) == []


def test_assets_are_programs() -> None:
    assert set(images.assets()) == {"private-kernel", "private-kernel-brackets"}
    assert all(text.startswith("#!/bin/sh\n") for text in images.assets().values())
