"""An inventory read by Ansible's own loader, in this process: templates, lookups and vaults work as in a playbook.

Everything of Ansible is imported only when it is used: a fault of a file is reported without it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .inventory import Inventory

PROJECT = Path(__file__).resolve().parents[3]
#: What ``ansible.cfg`` of the project says about inventories, for where there is no such file.
SETTINGS = {"ANSIBLE_INVENTORY_ENABLED": "ini,yaml,host_list", "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true"}


class PasswordError(Exception):
    """A vault password that was asked for cannot be had."""


class LoadError(Exception):
    """Ansible cannot read the inventory. ``file`` and ``line`` are where, if it says so."""

    def __init__(
        self, reason: str, file: str | None = None, line: int | None = None, column: int | None = None
    ) -> None:
        super().__init__(reason)
        self.reason, self.file, self.line, self.column = reason, file, line, column


@dataclass
class Vaults:
    """Passwords for vaults: files or scripts, each perhaps with a label in front (``label@file``)."""

    password_files: Sequence[str] = ()
    enabled: bool = True
    secrets: list[tuple[str, Any]] = field(default_factory=list)

    def load(self) -> bool:
        """Read the passwords that the command line, the environment and ansible.cfg name. Whether there are any."""
        if not self.enabled:
            return False
        with _quiet():
            from ansible import constants as C
            from ansible.errors import AnsibleError
            from ansible.parsing.dataloader import DataLoader
            from ansible.parsing.vault import get_file_vault_secret

            configured = C.config.get_config_value("DEFAULT_VAULT_PASSWORD_FILE")
            identities = C.config.get_config_value("DEFAULT_VAULT_IDENTITY_LIST") or ()
            wanted = [*self.password_files, *identities, *([configured] if configured else [])]
            loader = DataLoader()
            for entry in wanted:
                label, at, name = str(entry).rpartition("@")
                if name in ("prompt", "prompt_ask_vault_pass"):
                    continue
                try:
                    secret = get_file_vault_secret(filename=name, vault_id=label or None, loader=loader)
                    secret.load()
                except (AnsibleError, OSError) as error:
                    raise PasswordError(f"the vault password cannot be read from {name}: {_text(error)}") from error
                self.secrets.append((label if at else C.DEFAULT_VAULT_IDENTITY, secret))
                loader.set_vault_secrets(self.secrets)
        return bool(self.secrets)

    def decrypt(self, data: bytes) -> bytes:
        """The contents of an encrypted file. Raises ValueError where no password opens it."""
        with _quiet():
            from ansible.errors import AnsibleError
            from ansible.parsing.vault import VaultLib

            try:
                return bytes(VaultLib(self.secrets).decrypt(data))
            except AnsibleError as error:
                raise ValueError("no password opens it") from error


def prepare() -> None:
    """Settings that Ansible takes from the environment when it is imported. Those of the caller stay."""
    config = PROJECT / "ansible.cfg"
    if "ANSIBLE_CONFIG" not in os.environ and not Path("ansible.cfg").exists():
        if config.is_file():
            os.environ["ANSIBLE_CONFIG"] = str(config)
        else:
            for name, value in SETTINGS.items():
                os.environ.setdefault(name, value)
    # Keys written twice have been reported with their places; the rest of such a file can still be checked.
    os.environ["ANSIBLE_DUPLICATE_YAML_DICT_KEY"] = "ignore"


def load(sources: Sequence[str], unread: Collection[str], vaults: Vaults) -> Inventory:
    """The inventory as the planner wants it. ``unread`` are real paths of vars files to leave out. Raises LoadError."""
    with _quiet():
        try:
            return _load([_absolute(s) for s in sources], frozenset(unread), vaults)
        except LoadError:
            raise
        except RecursionError as error:
            raise LoadError("its values refer to one another without end") from error
        except Exception as error:  # a plugin may raise anything, and all of it is a fault of what was read
            raise _load_error(error) from error


def _load(sources: list[str], unread: frozenset[str], vaults: Vaults) -> Inventory:
    from ansible import context
    from ansible.inventory.manager import InventoryManager
    from ansible.parsing.dataloader import DataLoader
    from ansible.parsing.vault import VaultSecretsContext
    from ansible.plugins.loader import init_plugin_loader
    from ansible.release import __version__
    from ansible.utils.collection_loader import AnsibleCollectionConfig
    from ansible.utils.context_objects import CLIArgs
    from ansible.utils.display import Display
    from ansible.vars.hostvars import HostVars
    from ansible.vars.manager import VariableManager

    from .action import read

    real: dict[str, bool] = {}

    class Loader(DataLoader):  # type: ignore[misc]
        """Takes files that cannot be read for empty ones."""

        def load_from_file(self, file_name: str, *args: Any, **kwargs: Any) -> Any:
            if file_name not in real:
                real[file_name] = os.path.realpath(file_name) in unread
            return {} if real[file_name] else super().load_from_file(file_name, *args, **kwargs)

    context.CLIARGS = CLIArgs({"inventory": sources, "extra_vars": (), "tags": ("all",), "skip_tags": ()})
    if AnsibleCollectionConfig.collection_finder is None:  # else this process has read an inventory before
        init_plugin_loader()
    loader = Loader()
    loader.set_vault_secrets(vaults.secrets)
    VaultSecretsContext._current = None  # of an inventory that this process read before
    VaultSecretsContext.initialize(VaultSecretsContext(vaults.secrets))
    playbooks = PROJECT / "playbooks"
    if playbooks.is_dir():
        loader.set_basedir(str(playbooks))
    failures: list[BaseException] = []
    display = Display()
    display.error_as_warning = lambda *_, exception=None, **__: failures.append(exception)
    try:
        manager = InventoryManager(loader=loader, sources=sources)
    except Exception as error:
        raise _load_error(_likeliest(failures, sources) or error) from error
    finally:
        del display.error_as_warning
    parts = [*__version__.split("."), "0", "0"][:3]
    version = {"full": __version__, "string": __version__} | dict(
        zip(("major", "minor", "revision"), parts, strict=True)
    )
    variables = VariableManager(loader=loader, inventory=manager, version_info=version)
    variables.extra_vars["playbook_dir"] = loader.get_basedir()
    hostvars = HostVars(inventory=manager, variable_manager=variables, loader=loader)
    return read({"hostvars": hostvars, "groups": manager.get_groups_dict(), "ansible_inventory_sources": sources})


def _absolute(source: str) -> str:
    return source if "," in source and not Path(source).exists() else str(Path(source).absolute())


def _likeliest(failures: list[BaseException], sources: list[str]) -> BaseException | None:
    """Each plugin that may read a file says why it does not. The first is of the INI plugin, the second of YAML's."""
    found = [f for f in failures if f is not None]
    if not found:
        return None
    file = str(_where(found[0])[0] or "")
    is_yaml = file.endswith((".yml", ".yaml", ".json")) or any(s.endswith((".yml", ".yaml", ".json")) for s in sources)
    return found[-1] if is_yaml else found[0]


def _load_error(error: BaseException) -> LoadError:
    return LoadError(_text(error), *_where(error))


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    for _ in range(16):
        if seen is None:
            return
        yield seen
        seen = seen.__cause__


def _text(error: BaseException) -> str:
    """The innermost reason in one line. What was found instead may be a secret, so it is cut off."""
    inner = list(_chain(error))[-1]
    text = " ".join(str(inner).split()) or type(inner).__name__
    text = re.split(r",? (?:got|found):? ", text)[0]
    text = re.sub(r"(?i)(definition) '.*?': ", r"\1: ", text)
    return text[:200]


def _where(error: BaseException) -> tuple[str | None, int | None, int | None]:
    for item in reversed(list(_chain(error))):
        origin = getattr(item, "obj", None)
        if type(origin).__name__ != "Origin":
            origin = _origin(origin)
        path = getattr(origin, "path", None)
        if path:
            return str(path), getattr(origin, "line_num", None), getattr(origin, "col_num", None)
    return None, None, None


def _origin(value: Any) -> Any:
    """The tag that says where a value was read. Its place in the API is not promised."""
    try:
        from ansible._internal._datatag._tags import Origin

        return Origin.get_tag(value)
    except (ImportError, AttributeError, TypeError):
        return None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What Ansible and lookups print is not part of the report."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield
