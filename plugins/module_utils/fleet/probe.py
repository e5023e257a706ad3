"""The probe in plain shell: is there a Python that Ansible can use, and what is the host if there is none.

Source of the limit: ansible-core 2.21, ``module_utils/basic.py`` ``_PY_MIN`` is 3.9.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

from .target.discover import cpu, family, memory
from .target.host import Host

OWN_PYTHON = "/opt/vllm-fleet/python/bin/python3"
#: The system's own first: package managers' Python bindings are for it. Ours last: it is there for hosts without.
CANDIDATES = (
    "/usr/bin/python3",
    *(f"/usr/bin/python3.{minor}" for minor in range(14, 8, -1)),
    "/usr/local/bin/python3",
    OWN_PYTHON,
)
MARK = "@@fleet@@"

_SCRIPT = r"""
for python in @CANDIDATES@; do
  if [ -x "$python" ] && "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
    echo "@MARK@ python $python"; exit 0
  fi
done
echo "@MARK@ kernel $(uname -r)"
echo "@MARK@ arch $(uname -m)"
echo "@MARK@ glibc $(getconf GNU_LIBC_VERSION 2>/dev/null)"
echo "@MARK@ page_size $(getconf PAGESIZE 2>/dev/null)"
ip -o addr 2>/dev/null | awk '{print "@MARK@ address", $2, $4}'
for file in /etc/os-release /proc/meminfo /proc/cpuinfo; do echo "@MARK@ file $file"; cat "$file" 2>/dev/null; done
exit 0
"""


def script(named: str = "") -> str:
    """The shell script; ``named`` is the interpreter that the inventory asks for, which is then the only candidate."""
    candidates = (named,) if named else CANDIDATES
    return _SCRIPT.replace("@CANDIDATES@", " ".join(shlex.quote(c) for c in candidates)).replace("@MARK@", MARK)


class _Files(Host):
    """A host of which only some files are known."""

    def __init__(self, files: dict[str, str]) -> None:
        super().__init__("/nonexistent")
        self.files = files

    def text(self, name: str, default: str | None = None) -> str | None:
        return self.files.get(name, default)


def parse(output: str) -> tuple[str | None, dict[str, Any]]:
    """The usable interpreter, or None and partial facts in the shape of ``fleet_discover``."""
    values: dict[str, str] = {}
    addresses: dict[str, list[str]] = {}
    files: dict[str, list[str]] = {}
    current: str | None = None
    for line in output.splitlines():
        if not line.startswith(MARK):
            if current is not None:
                files[current].append(line)
            continue
        key, _, rest = line[len(MARK) + 1 :].strip().partition(" ")
        current = None
        if key == "file":
            current = rest
            files[rest] = []
        elif key == "address":
            name, _, address = rest.partition(" ")
            addresses.setdefault(name.split("@")[0], []).append(address)
        else:
            values[key] = rest.strip()
    if "python" in values:
        return values["python"], {}
    host = _Files({name: "\n".join(lines) for name, lines in files.items()})
    os_ = operating(host)
    page_size = values.get("page_size", "")
    return None, {
        "usable_python": False,
        "python": None,
        "os": os_,
        "kernel": values.get("kernel", ""),
        "arch": values.get("arch", ""),
        "glibc": re.sub(r"^glibc\s*", "", values.get("glibc", "")),
        "page_size": int(page_size) if page_size.isdigit() else None,
        "cpu": cpu(host),
        "memory": memory(host),
        "interfaces": [{"name": name, "addresses": texts} for name, texts in sorted(addresses.items())],
        "os_family": family(os_),
        "findings": ["no usable Python: only what a shell can tell is known"],
    }


def operating(host: Host) -> dict[str, str]:
    """The operating system from the files that the probe sent."""
    from .target.discover import operating_system

    found: dict[str, str] = operating_system(host)
    return found
