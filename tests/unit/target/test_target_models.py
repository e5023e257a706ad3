"""Models: what is whole, what a manifest is, and that a version never changes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from fleet.target import models
from fleet.target.models import Wanted
from fleet.target.trouble import Trouble


def safetensors(data_bytes: int, claimed: int | None = None) -> bytes:
    header = json.dumps({"w": {"dtype": "U8", "shape": [1], "data_offsets": [0, claimed or data_bytes]}}).encode()
    return len(header).to_bytes(8, "little") + header + b"\1" * data_bytes


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    (root / "sub").mkdir(parents=True)
    (root / "config.json").write_text("{}")
    (root / "model.safetensors").write_bytes(safetensors(100))
    (root / "sub" / "tokenizer.json").write_text("{}")
    return root


def read(source: Path, manifest: str | None = None) -> dict[str, Any]:
    return models.read_source(f"file://{source}", manifest, str(source.parent / "cache"))


def copied(source: Path, path: Path) -> Wanted:
    """A model as the role copies it: into the stage, then committed."""
    wanted = Wanted(str(path), read(source)["files"])
    models.open_stage(wanted)
    subprocess.run(["cp", "-rLp", f"{source}/.", wanted.stage], check=True)
    models.commit(wanted)
    return wanted


def refusal(source: Path) -> str:
    with pytest.raises(Trouble) as caught:
        read(source)
    return str(caught.value)


def test_manifest_is_what_sha256sum_writes(source: Path) -> None:
    command = "find . -type f -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum"
    answer = subprocess.run(command, shell=True, cwd=source, capture_output=True, text=True, check=True)
    digest = answer.stdout.split()[0]
    assert read(source)["manifest"] == digest
    assert read(source, digest.upper())["manifest"] == digest


def test_another_manifest_is_refused_with_both_digests(source: Path) -> None:
    with pytest.raises(Trouble, match=r"has the manifest [0-9a-f]{64}, and the inventory says 0000"):
        read(source, "0" * 64)


def test_what_tools_leave_is_no_part_of_a_model(source: Path) -> None:
    before = read(source)["manifest"]
    (source / ".git").mkdir()
    (source / ".git" / "config").write_text("x")
    (source / ".gitattributes").write_text("x")
    assert read(source)["manifest"] == before


def test_links_of_a_download_cache_are_followed(source: Path) -> None:
    before = read(source)["manifest"]
    blob = source.parent / "blob"
    (source / "config.json").rename(blob)
    (source / "config.json").symlink_to(blob)
    assert read(source)["manifest"] == before
    blob.unlink()
    assert "config.json is a link to nothing" in refusal(source)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "model.safetensors",
            safetensors(100)[:-1],
            r"model.safetensors is cut off: it has \d+ bytes, its header says \d+",
        ),
        ("model.safetensors", b"\xff" * 20, "is cut off or no safetensors file"),
        ("model.safetensors", b"1234", "is cut off or no safetensors file"),
        ("model.safetensors", (2).to_bytes(8, "little") + b"[]", "has no readable safetensors header"),
        (
            "model.safetensors",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
            "is a Git LFS pointer",
        ),
        ("config.json", b"{", "config.json is no JSON"),
        (
            "model.safetensors.index.json",
            json.dumps({"weight_map": {"a": "x-2.safetensors", "b": "model.safetensors"}}).encode(),
            "names 1 files that are missing: x-2.safetensors",
        ),
        ("model.safetensors.index.json", b"{}", "is no index of weights"),
    ],
)
def test_what_is_not_whole_is_refused(source: Path, name: str, content: bytes, said: str) -> None:
    (source / name).write_bytes(content)
    with pytest.raises(Trouble, match=said):
        read(source)


def test_all_faults_are_told_at_once(source: Path) -> None:
    (source / "config.json").unlink()
    (source / "model.safetensors").write_bytes(b"x")
    said = refusal(source)
    assert "config.json is missing" in said
    assert "model.safetensors" in said


def test_a_model_without_weights_is_refused(source: Path) -> None:
    (source / "model.safetensors").unlink()
    assert "there are no weights" in refusal(source)


def test_other_kinds_of_sources_are_refused() -> None:
    with pytest.raises(Trouble, match="of no kind that this release fetches"):
        models.source_path("hf://org/model")


def test_digests_come_from_the_cache_until_a_file_changes(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = read(source)
    asked: list[str] = []
    real = models.digest_file
    monkeypatch.setattr(models, "digest_file", lambda path: asked.append(path) or real(path))
    assert read(source)["manifest"] == first["manifest"]
    assert asked == []
    (source / "config.json").write_text('{"a": 1}')
    assert read(source)["manifest"] != first["manifest"]
    assert [Path(path).name for path in asked] == ["config.json"]


def test_a_copy_becomes_visible_whole_and_readable(source: Path, tmp_path: Path) -> None:
    (source / "model.safetensors").chmod(0o600)
    wanted = copied(source, tmp_path / "host" / "m" / "1" / "default")
    assert models.status(wanted, full=False) == models.status(wanted, full=True) == "present"
    assert models.wrong_modes(wanted) == []
    assert not Path(wanted.stage).exists()


def test_a_copy_that_is_not_whole_stays_hidden_and_keeps_what_is_right(source: Path, tmp_path: Path) -> None:
    wanted = Wanted(str(tmp_path / "m" / "1" / "default"), read(source)["files"])
    models.open_stage(wanted)
    stage = Path(wanted.stage)
    (stage / "config.json").write_text("{}")
    (stage / "model.safetensors").write_bytes(b"half")
    with pytest.raises(Trouble, match=r"model\.safetensors, sub/tokenizer\.json"):
        models.commit(wanted)
    assert not Path(wanted.path).exists()
    assert sorted(path.name for path in stage.iterdir()) == ["config.json"]


def test_strays_in_a_stage_do_not_come_along(source: Path, tmp_path: Path) -> None:
    wanted = Wanted(str(tmp_path / "m" / "1" / "default"), read(source)["files"])
    models.open_stage(wanted)
    subprocess.run(["cp", "-rp", f"{source}/.", wanted.stage], check=True)
    for stray in (".git/config", "old/file", ".recipe"):
        path = Path(wanted.stage, stray)
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    models.commit(wanted)
    assert sorted(path.name for path in Path(wanted.path).iterdir()) == ["config.json", "model.safetensors", "sub"]


def test_another_content_under_the_same_version_is_refused(source: Path, tmp_path: Path) -> None:
    wanted = copied(source, tmp_path / "m" / "1" / "default")
    (source / "config.json").write_text('{"new": 1}')
    with pytest.raises(Trouble, match=r"config.json differ at the source now.*declare a new version"):
        models.status(Wanted(wanted.path, read(source)["files"]), full=False)


def test_a_damaged_file_is_named(source: Path, tmp_path: Path) -> None:
    wanted = copied(source, tmp_path / "m" / "1" / "default")
    Path(wanted.path, "config.json").write_text("[]")
    with pytest.raises(Trouble, match=r"config.json differ, are missing.*remove the directory"):
        models.status(wanted, full=False)


def test_damage_that_keeps_size_and_time_is_found_by_full_only(source: Path, tmp_path: Path) -> None:
    wanted = copied(source, tmp_path / "m" / "1" / "default")
    path = Path(wanted.path, "config.json")
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    path.write_text("[]")
    os.utime(path, ns=times)
    assert models.status(wanted, full=False) == "present"
    with pytest.raises(Trouble, match=r"config\.json"):
        models.status(wanted, full=True)


def test_the_same_content_put_there_by_other_means_is_taken_over(source: Path, tmp_path: Path) -> None:
    wanted = Wanted(str(tmp_path / "m" / "1" / "default"), read(source)["files"])
    Path(wanted.path).parent.mkdir(parents=True)
    subprocess.run(["cp", "-r", str(source), wanted.path], check=True)
    assert models.status(wanted, full=False) == "unrecorded"
    models.record(wanted, wanted.path)
    assert models.status(wanted, full=False) == "present"


def test_space_is_checked_before_the_first_byte(source: Path, tmp_path: Path) -> None:
    files = {"big": {"size": 1 << 60, "sha256": "0" * 64}}
    with pytest.raises(Trouble, match=r"1048576\.0 TiB of models are to be copied"):
        models.check_space([Wanted(str(tmp_path / "m" / "1"), files)])
    models.check_space([Wanted(str(tmp_path / "m" / "1"), read(source)["files"])])


def test_wrong_modes_are_seen(source: Path, tmp_path: Path) -> None:
    wanted = copied(source, tmp_path / "m" / "1" / "default")
    Path(wanted.path, "config.json").chmod(0o600)
    Path(wanted.path, "sub").chmod(0o700)
    assert models.wrong_modes(wanted) == ["sub", "config.json"]
