"""What the verification of every scenario shares: a test that fails shows what the host's journal says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

# Without what the tests themselves leave there.
JOURNAL = (
    "journalctl --no-pager --lines=150 --output=short | grep -v -E ' (ansible-|sshd|systemd-logind)'"
    " | cut -c 1-300 | tail -60"
)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome: Any = yield
    report = outcome.get_result()
    host = getattr(item, "funcargs", {}).get("host")
    if report.failed and host is not None:
        try:
            report.sections.append((f"journal of {host.backend.get_hostname()}", host.run(JOURNAL).stdout))
        except Exception as error:
            report.sections.append(("journal", f"cannot be read: {error}"))
