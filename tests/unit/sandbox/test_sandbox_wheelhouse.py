"""Where a wheel is fetched from: only one with a locked hash counts."""

from __future__ import annotations

from sandbox.wheelhouse import read_lock, wheel_url

PYLOCK = """
lock-version = "1.0"
[[packages]]
name = "torch"
version = "2.13.0+cpu"
wheels = [
  { url = "https://index.invalid/torch-2.13.0%2Bcpu-cp310.whl", hashes = { sha256 = "aa" } },
  { url = "https://index.invalid/torch-2.13.0%2Bcpu-cp311.whl", hashes = { sha256 = "bb" } },
]
"""


def test_the_wheel_with_a_locked_hash_is_chosen() -> None:
    url = wheel_url(PYLOCK, frozenset({"bb", "cc"}))
    assert url is not None
    assert url.endswith("cp311.whl")


def test_no_wheel_without_a_locked_hash() -> None:
    assert wheel_url(PYLOCK, frozenset({"cc"})) is None
    assert wheel_url('lock-version = "1.0"\n', frozenset({"bb"})) is None


def test_a_lock_says_what_is_missing() -> None:
    lock = read_lock(
        f"# python: 3.11\na==1 \\\n    --hash=sha256:{'a' * 64}\nb==2+cpu \\\n    --hash=sha256:{'b' * 64}\n"
    )
    assert lock.head == {"python": "3.11"}
    assert set(lock.missing({"a" * 64})) == {"b==2+cpu"}
