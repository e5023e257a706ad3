"""Where the sandbox keeps what it makes. Nothing else on the machine is written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

CACHE = Path("/var/cache/vllm-fleet-sandbox")
STATE = Path("/var/lib/vllm-fleet-sandbox")

IMAGES = CACHE / "images"
SHARE = CACHE / "share"
RUNTIMES = CACHE / "runtimes"
DOWNLOADS = CACHE / "downloads"
WORK = CACHE / "work"

SHARE_IN_HOST = "/srv/vllm-fleet-share"
RUNTIMES_IN_HOST = "/opt/vllm-fleet/runtimes"


@dataclass(frozen=True)
class FleetPaths:
    """State of the fleet of one bridge."""

    bridge: str

    @property
    def root(self) -> Path:
        return STATE / self.bridge

    @property
    def ssh(self) -> Path:
        return self.root / "ssh"

    @property
    def ssh_key(self) -> Path:
        return self.ssh / "id_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.ssh / "known_hosts"

    @property
    def hosts(self) -> Path:
        return self.root / "hosts"

    def host(self, name: str) -> Path:
        return self.hosts / name
