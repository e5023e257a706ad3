"""The matrix.

Every row has a source, files that are wrong say where, and what it says of models and versions.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest
from fleet.version_sets import models
from fleet.version_sets.compare import at_least, matches_vendor, python_range, vendor_version, within
from fleet.version_sets.links import judge_hdk
from fleet.version_sets.matrix import DATA, MatrixError, known_vllm, load_matrix

ROOT = Path(__file__).resolve().parents[3]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_every_row_has_a_source_and_a_confidence() -> None:
    rows = load_matrix().rows()
    assert len(rows) > 700
    for row in rows:
        assert row.source.strip()
        assert row.confidence in ("high", "medium", "low")


def test_rows_agree_with_each_other() -> None:
    matrix = load_matrix()
    for release in matrix.releases:
        assert matrix.on_index("vllm", release.vllm), release.vllm
        assert matrix.on_index("torch", release.torch), release.torch
    for row in matrix.ascend_releases:
        assert matrix.on_index("vllm-ascend", row.vllm_ascend), row.vllm_ascend
        if row.cann:
            assert matrix.cann_hdk_row(row.cann), row.cann
    for pairing in matrix.cann_hdk:
        assert judge_hdk(pairing.paired, pairing) == "listed", pairing.cann
    for model in matrix.ascend_models:
        assert model.architecture in matrix.architectures.architectures, model.architecture


def test_0_20_needs_a_newer_glibc_than_its_neighbours() -> None:
    matrix = load_matrix()
    floors = {}
    for version in ("0.19.1", "0.20.2", "0.21.0", "0.33.0"):
        release = matrix.on_index("vllm", version)
        wheel = release.wheel("x86_64", "cp312") if release else None
        floors[version] = wheel.glibc if wheel else None
    assert floors == {"0.19.1": "2.31", "0.20.2": "2.35", "0.21.0": "2.24", "0.33.0": "2.28"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("schema_version: 1", "schema_version: 2", "schema_version"),
        ('dtk: "25.04"', "dtk: 25.04", r"dcu.yml: images\[0\]: dtk has the wrong type"),
        ("gfx:", "gfxx:", "unknown field 'gfxx'"),
        ('confidence: "high"', 'confidence: "sure"', "a row needs a source"),
        ("images:", "picture:", "unknown section 'picture'"),
        ("cards:", "cards: [", "dcu.yml"),
    ],
)
def test_a_wrong_file_says_where(tmp_path: Path, old: str, new: str, message: str) -> None:
    folder = tmp_path / "compat"
    shutil.copytree(DATA / "compat", folder)
    path = folder / "dcu.yml"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(MatrixError, match=message):
        load_matrix(folder)


def test_vendor_versions() -> None:
    order = [
        "24.1.RC2",
        "25.0.RC1",
        "25.2.0",
        "25.3.rc1.2",
        "25.5.1",
        "26.0.RC1",
        "26.0.RC3",
        "26.0.0",
        "26.1.1",
    ]
    keys = [vendor_version(v) or () for v in order]
    assert keys == sorted(keys)
    assert vendor_version("unknown") is None
    assert matches_vendor("25.5.1", "25.5.X")
    assert matches_vendor("26.0.rc1.1", "26.0.RC1")
    assert not matches_vendor("25.50.1", "25.5.X")


def test_other_versions() -> None:
    assert at_least("2.28", "2.5") is True
    assert at_least("580", "580.65.06") is False
    assert at_least("none", "1") is None
    assert within("2.13.0+cpu", "2.13.0")
    assert not within("strange", "1.0")
    assert python_range(">=3.10,<3.12") == ("3.11", "3.10")
    assert known_vllm(load_matrix(), "ascend")[0] == "0.7.3"


class TestModels:
    def test_in_the_registry(self) -> None:
        assert models.supported_by_vllm("Qwen2ForCausalLM", "0.32.0", load_matrix()).level == "supported"

    def test_dropped(self) -> None:
        matrix = load_matrix()
        assert models.supported_by_vllm("QWenLMHeadModel", "0.23.0", matrix).level == "supported"
        answer = models.supported_by_vllm("QWenLMHeadModel", "0.24.0", matrix)
        assert (answer.level, "after 0.23.0" in answer.reason) == ("unsupported", True)

    def test_before_it_came(self) -> None:
        answer = models.supported_by_vllm("DeepseekV4ForCausalLM", "0.11.0", load_matrix())
        assert answer.level == "unsupported"

    def test_between_recorded_versions(self) -> None:
        matrix = load_matrix()
        assert models.supported_by_vllm("Qwen2ForCausalLM", "0.24.0", matrix).level == "supported"
        assert models.supported_by_vllm("Qwen2ForCausalLM", "0.40.0", matrix).level == "uncertain"
        assert models.supported_by_vllm("Qwen2ForCausalLM", "x", matrix).level == "uncertain"

    def test_unknown_names_the_nearest(self) -> None:
        answer = models.supported_by_vllm("Qwen2ForCasualLM", "0.32.0", load_matrix())
        assert answer.level == "uncertain"
        assert "Qwen2ForCausalLM" in answer.nearest

    def test_vllm_ascend(self) -> None:
        matrix = load_matrix()
        ask = models.supported_by_vllm_ascend
        assert ask("Qwen3ForCausalLM", "0.23.0", "A2", matrix).level == "supported"
        assert ask("Qwen3ForCausalLM", "0.23.0", "310P-pro", matrix).level == "supported"
        assert ask("LlamaForCausalLM", "0.23.0", "A2", matrix).level == "uncertain"
        assert ask("LlamaForCausalLM", "0.23.0", "310P", matrix).level == "uncertain"
        assert ask("Llama4ForConditionalGeneration", "0.23.0", "A2", matrix).level == "unsupported"
        assert ask("Qwen3ForCausalLM", "0.9.1", "A2", matrix).level == "uncertain"


class TestRefresh:
    def test_what_an_index_says(self) -> None:
        refresh = script("refresh_matrix")
        file = refresh.IndexFile
        files = [
            file("vllm-0.33.0-cp38-abi3-manylinux_2_28_x86_64.whl", "", "<3.15,>=3.11", 1, False),
            file("vllm-0.33.0.tar.gz", "", "<3.15,>=3.11", 1, False),
            file("vllm-0.9.1-cp38-abi3-manylinux1_x86_64.whl", "", ">=3.9", 1, False),
            file("vllm-0.8.0-cp312-cp312-manylinux_2_17_aarch64.manylinux2014_aarch64.whl", "", None, 1, False),
            file("vllm-0.34.0rc1.tar.gz", "", None, 1, False),
            file("vllm-0.2.0.tar.gz", "", None, 1, False),
            file("vllm-0.33.1.tar.gz", "", None, 1, True),
            file("nonsense.whl", "", None, 1, False),
        ]
        rows = [r.row() for r in refresh.releases("vllm", files)]
        assert [r["version"] for r in rows] == ["0.33.0", "0.9.1", "0.8.0"]
        assert rows[0]["sdist"]
        assert rows[0]["wheels"] == [{"arch": "x86_64", "glibc": "2.28", "python": ["abi3"]}]
        assert rows[1]["wheels"][0]["glibc"] == "2.5"
        assert rows[2]["wheels"] == [{"arch": "aarch64", "glibc": "2.17", "python": ["cp312"]}]

    def test_difference(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        refresh = script("refresh_matrix")
        row = {"version": "1.0", "python": ">=3.10", "sdist": True, "wheels": []}
        path = tmp_path / "package_index.yml"
        refresh.write_index({"vllm": [row]}, path)
        assert refresh.show_difference({"vllm": [row]}, path) == 0
        changed = [{**row, "python": ">=3.11"}, {**row, "version": "1.1"}]
        assert refresh.show_difference({"vllm": changed}, path) == 2
        assert "vllm 1.0 python" in capsys.readouterr().out

    def test_html_index(self) -> None:
        refresh = script("refresh_matrix")
        parser = refresh._Anchors("https://index.example/simple/vllm/")
        parser.feed('<a href="../../f/vllm-1.0.tar.gz#sha256=0" data-requires-python="&gt;=3.10">vllm</a>')
        assert parser.files == [
            refresh.IndexFile(
                "vllm-1.0.tar.gz", "https://index.example/f/vllm-1.0.tar.gz#sha256=0", ">=3.10", None, False
            )
        ]

    def test_registry(self, tmp_path: Path) -> None:
        refresh = script("refresh_matrix")
        text = '_TEXT_GENERATION_MODELS = {"A": ("a", "A")}\n_PREVIOUSLY_SUPPORTED_MODELS = {"B": "0.1.0"}\n'
        text += '_SPECULATIVE_DECODING_MODELS = {"C": 1}\n_VLLM_MODELS = {**_TEXT_GENERATION_MODELS}\n'
        assert refresh.registry_architectures(text) == ({"A"}, {"B": "0.1.0"})
        path = tmp_path / "architectures.json"
        refresh.merge_architectures("0.2.0", text, path)
        refresh.merge_architectures("0.1.0", text, path)
        assert '"versions": ["0.1.0", "0.2.0"]' in path.read_text()


def test_the_page_of_legal_sets_is_current() -> None:
    writer = script("write_version_sets")
    text = writer.PAGE.read_text(encoding="utf-8")
    assert writer.page_with(text, writer.generated()) == text, "run scripts/write_version_sets.py"
