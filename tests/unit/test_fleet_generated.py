"""Generated files are up to date, and the table that they come from is whole."""

from __future__ import annotations

import importlib.util
import re
import string
from pathlib import Path
from types import ModuleType

import jsonschema
import pytest
from fleet.problems import RULES
from fleet_samples import VARIABLES

ROOT = Path(__file__).resolve().parents[2]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_error_page_is_up_to_date() -> None:
    assert (ROOT / "docs/errors.md").read_text() == script("gen_errors").page(), "run make docs"


def test_page_of_variables_is_up_to_date() -> None:
    assert (ROOT / "docs/variables.md").read_text() == script("gen_variables").page(), "run make docs"


def test_schemas_are_up_to_date() -> None:
    for name, text in script("gen_schemas").texts().items():
        assert (ROOT / "schemas" / name).read_text() == text, "run make docs"


def test_schema_accepts_the_sample_and_refuses_unknown_keys() -> None:
    schema = script("gen_schemas").schemas()["group_vars"]
    jsonschema.validate(VARIABLES, schema)
    wrong = {"fleet_gateway": {**VARIABLES["fleet_gateway"], "vip": []}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema)


@pytest.mark.parametrize("code", sorted(RULES))
def test_texts_are_in_both_languages(code: str) -> None:
    row = RULES[code]
    assert re.fullmatch(r"(INV|FILE|SVC|CAP|GW|MOD|NET|STO|HOST|SET|REL)-[0-9]{3}", code)
    for text in (row.rule, row.remedy):
        assert text
        assert text.isascii()
    for text in (row.rule_zh, row.remedy_zh):
        assert re.search(r"[\u4e00-\u9fff]", text) or text.startswith("{")

    def fields(text: str) -> set[str]:
        return {name.removesuffix("_zh") for _, name, _, _ in string.Formatter().parse(text) if name}

    assert fields(row.rule) == fields(row.rule_zh)
    assert fields(row.remedy) >= fields(row.remedy_zh)
