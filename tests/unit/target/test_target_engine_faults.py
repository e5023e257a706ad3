"""Why an engine did not come up. The journals are of vLLM 0.32 under our unit, each fault made on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest
from fleet.target.engine_faults import FAULTS, diagnose, telling_lines

JOURNALS = Path(__file__).parent / "journals"


@pytest.mark.parametrize(
    ("journal", "code", "cause", "line"),
    [
        ("port", "ENG-PORT", "its port is in use by another program", "Address already in use"),
        ("model", "ENG-MODEL", "or is not whole /var/lib/vllm-fleet/models/none", "HFValidationError"),
        ("length", "ENG-LENGTH", "max_model_len 9999999 is more than the model can", "derived max_model_len"),
        ("option", "ENG-OPTION", "does not take the option --swap-space", "unrecognized arguments: --swap-space"),
    ],
)
def test_real_journals(journal: str, code: str, cause: str, line: str) -> None:
    text = (JOURNALS / f"{journal}.txt").read_text()
    found = diagnose(text)
    assert found is not None
    assert found[0].code == code
    assert cause in found[1]
    lines = telling_lines(text, found[0])
    assert 1 <= len(lines) <= 3
    assert line in lines[0]


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("vllm-engine@a.service: Main process exited, code=killed, status=4/ILL", "ENG-SIGILL"),
        ("vllm-engine@a.service: A process of this unit has been killed by the OOM killer.", "ENG-MEMORY"),
        ("vllm-engine@a.service: Failed at step EXEC spawning /x/python: No such file or directory", "ENG-RUNTIME"),
        ("vllm-engine@a.service: Main process exited, code=exited, status=203/EXEC", "ENG-RUNTIME"),
        (
            "python: Error while finding module specification for 'vllm' (ModuleNotFoundError: No module named 'vllm')",
            "ENG-RUNTIME",
        ),
        (
            "Failed to import from vllm._C: ImportError('libnuma.so.1: cannot open shared object file: No such file')",
            "ENG-IMPORT",
        ),
        ("PermissionError: [Errno 13] Permission denied: '/srv/models/x/config.json'", "ENG-MODEL-PERMISSION"),
        ("safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata", "ENG-WEIGHTS"),
        ("vllm-engine@a.service: start-post operation timed out. Terminating.", "ENG-TIMEOUT"),
        ("engine-ready: gave up after 590 s: it does not listen on port 8000 yet", "ENG-TIMEOUT"),
        ("engine-ready: it answers 401 to a request for one token of m", "ENG-KEY"),
    ],
)
def test_words_of_systemd_and_of_libraries(said: str, code: str) -> None:
    found = diagnose(f"Starting…\n{said}\nmore\n")
    assert found is not None
    assert found[0].code == code


def test_a_good_start_has_no_fault() -> None:
    assert (
        diagnose(
            "engine-ready: waiting: it does not listen on port 8000 yet\nengine-ready: ready: a token after 26 s\n"
        )
        is None
    )


def test_unknown_causes_show_the_last_lines_that_are_no_noise() -> None:
    journal = '(APIServer pid=1) INFO 12-01 starting\nTraceback\n  File "x"\n    code\n    ^^^^\nValueError: odd\n\n'
    assert telling_lines(journal, None) == ["Traceback", "ValueError: odd"]


def test_codes_are_unique() -> None:
    codes = [fault.code for fault in FAULTS]
    assert len(codes) == len(set(codes))
