"""What hosts find below /srv/vllm-fleet-share besides packages: what a site has on its mirror."""

from __future__ import annotations

from pathlib import Path


def ensure(base: Path, *, wheels: bool) -> None:
    del base, wheels
