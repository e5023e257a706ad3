"""Small files put in place together."""

from __future__ import annotations

from pathlib import Path

import pytest
from fleet.target.placing import Placed, converge
from fleet.target.trouble import Trouble


def test_files_are_made_with_their_directories_and_modes(tmp_path: Path) -> None:
    target = tmp_path / "a/b/file"
    wanted = [Placed(str(target), "text\n", 0o600)]
    assert converge(wanted, check=True)[0] == [str(target)]
    assert not target.exists()
    paths, diffs = converge(wanted, check=False)
    assert paths == [str(target)]
    assert (diffs[0]["before"], diffs[0]["after"]) == ("", "text\n")
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("text\n", 0o600)
    assert converge(wanted, check=False) == ([], [])


def test_a_mode_alone_is_a_difference(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("text\n")
    target.chmod(0o666)
    paths, diffs = converge([Placed(str(target), "text\n", 0o644)], check=False)
    assert paths == [str(target)]
    assert "(0666)" in diffs[0]["before_header"]
    assert "(0644)" in diffs[0]["after_header"]
    assert target.stat().st_mode & 0o777 == 0o644


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("text\n")
    link = tmp_path / "file"
    link.symlink_to(elsewhere)
    converge([Placed(str(link), "text\n")], check=False)
    assert not link.is_symlink()
    assert elsewhere.read_text() == "text\n"


def test_absent(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_text("text\n")
    assert converge([Placed(str(target), None)], check=True)[0] == [str(target)]
    assert target.exists()
    converge([Placed(str(target), None)], check=False)
    assert not target.exists()
    assert converge([Placed(str(target), None)], check=False) == ([], [])


def test_secrets_show_only_that_they_differ(tmp_path: Path) -> None:
    target = tmp_path / "key"
    target.write_text("old-secret")
    _, diffs = converge([Placed(str(target), "new-secret", 0o600, secret=True)], check=False)
    assert "old-secret" not in str(diffs)
    assert "new-secret" not in str(diffs)
    assert diffs[0]["before"] != diffs[0]["after"]
    assert target.read_text() == "new-secret"


def test_what_its_program_refuses_is_not_written(tmp_path: Path) -> None:
    target = tmp_path / "config"
    target.write_text("good\n")
    validator = '/bin/sh -c \'grep -q good "$0" || { echo "line 1 of $0 is bad" >&2; exit 1; }\' %s'
    with pytest.raises(
        Trouble, match=rf"{target} is not valid, and the old one stays(?s:.*)line 1 of {target} is bad"
    ) as caught:
        converge([Placed(str(target), "wrong\n", validate=validator)], check=False)
    assert ".check-" not in str(caught.value)
    assert target.read_text() == "good\n"
    assert list(tmp_path.iterdir()) == [target]
    with pytest.raises(Trouble):
        converge([Placed(str(target), "wrong\n", validate=validator)], check=True)
    converge([Placed(str(target), "good too\n", validate=validator)], check=False)
    assert target.read_text() == "good too\n"


def test_files_without_a_validator_are_there_for_the_others(tmp_path: Path) -> None:
    config, key = tmp_path / "config", tmp_path / "key"
    wanted = [
        Placed(str(config), "text\n", validate=f"/usr/bin/test -s {key} -a -s %s"),
        Placed(str(key), "secret\n", 0o600, secret=True),
    ]
    converge(wanted, check=False)
    assert config.exists()


def test_a_check_of_a_bare_host_needs_no_validator(tmp_path: Path) -> None:
    wanted = [Placed(str(tmp_path / "config"), "text\n", validate="/no/such/program %s")]
    assert converge(wanted, check=True)[0] == [str(tmp_path / "config")]
    with pytest.raises(Trouble, match="there is no /no/such/program"):
        converge(wanted, check=False)
