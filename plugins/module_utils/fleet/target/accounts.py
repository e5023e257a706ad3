"""The system user that engines run as."""

from __future__ import annotations

import os
import pwd
import subprocess

from .trouble import Trouble

HOME = "/var/lib/vllm-fleet"


def find(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def ensure(name: str) -> bool:
    """Make the user if it does not exist; True if it was made. An existing one is left as the site made it."""
    if find(name) is not None:
        return False
    shell = next((path for path in ("/usr/sbin/nologin", "/sbin/nologin") if os.path.exists(path)), "/bin/false")
    command = ["useradd", "--system", "--user-group", "--no-create-home", "--home-dir", HOME, "--shell", shell]
    answer = subprocess.run([*command, name], capture_output=True, text=True, check=False)
    if answer.returncode != 0 and find(name) is None:
        raise Trouble(
            f"the system user {name} cannot be made: {answer.stderr.strip() or answer.returncode}",
            "make it by hand, or through the site's directory service, and run this again",
        )
    return True


def groups_of(user: pwd.struct_passwd) -> list[int]:
    return os.getgrouplist(user.pw_name, user.pw_gid)
