"""Model directories: what is in one, whether it is whole, and whether a copy of it is what it should be.

A manifest is the text that `sha256sum` writes for all files of a model, sorted by path: one line a file, digest, two
spaces, path. Its own sha256 names the content of a model version.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import stat
from dataclasses import dataclass
from typing import Any

from .files import make_folders, mode_of, read_json, write_json, write_text
from .trouble import Trouble

# What version control and download tools leave in a directory is no part of a model.
IGNORED = {".git", ".gitattributes", ".gitignore", ".cache", ".huggingface", ".recipe", ".DS_Store"}
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".npcache")
LFS = b"version https://git-lfs.github.com/spec/"
# A longer header than this is refused by the format's own library.
MAX_HEADER = 100_000_000


@dataclass(frozen=True)
class Wanted:
    """One model version that a host should have."""

    path: str
    files: dict[str, dict[str, Any]]  # relative path -> {sha256, size}

    @property
    def manifest(self) -> str:
        return manifest_digest({name: entry["sha256"] for name, entry in self.files.items()})

    @property
    def stage(self) -> str:
        return os.path.join(os.path.dirname(self.path), f".{os.path.basename(self.path)}.staging")

    @property
    def record(self) -> str:
        """Beside the model: what it is, and the sizes and times that its files had when it was verified."""
        return self.path + ".manifest.json"


def manifest_text(digests: dict[str, str]) -> str:
    return "".join(f"{digests[name]}  {name}\n" for name in sorted(digests))


def manifest_digest(digests: dict[str, str]) -> str:
    return hashlib.sha256(manifest_text(digests).encode()).hexdigest()


def digest_file(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while True:
            block = file.read(1 << 22)
            if not block:
                return digest.hexdigest()
            digest.update(block)


def list_files(root: str) -> dict[str, os.stat_result]:
    """All files of a model by relative path, links followed. Anything that is neither file nor directory is refused."""
    found: dict[str, os.stat_result] = {}
    for folder, folders, files in os.walk(root, followlinks=True):
        folders[:] = sorted(name for name in folders if name not in IGNORED)
        for name in files:
            if name in IGNORED:
                continue
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, root)
            try:
                info = os.stat(path)
            except FileNotFoundError as error:
                raise Trouble(f"{path} is a link to nothing", "fetch the file that it should link to") from error
            if not stat.S_ISREG(info.st_mode):
                raise Trouble(f"{path} is no file", "leave only files in a model's directory")
            if any(ord(char) < 32 for char in relative):
                raise Trouble(f"{relative!r} has a control character in its name", "rename it")
            found[relative] = info
    return found


# --- whether a model is whole -----------------------------------------------------------------------------------------


def safetensors_fault(path: str, size: int) -> str | None:
    """What is wrong with a safetensors file by its own header, or None."""
    with open(path, "rb") as file:
        head = file.read(8)
        length = int.from_bytes(head, "little")
        if len(head) < 8 or length > MAX_HEADER or 8 + length > size:
            return f"is cut off or no safetensors file: {size} bytes are too few for its header"
        try:
            header = json.loads(file.read(length))
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            return "has no readable safetensors header"
    needed = 8 + length + max(ends, default=0)
    if size < needed:
        return f"is cut off: it has {size} bytes, its header says {needed}"
    return None


def _is_pointer(path: str, size: int) -> bool:
    if size > 1024:
        return False
    with open(path, "rb") as file:
        return file.read(len(LFS)) == LFS


def faults(root: str, files: dict[str, os.stat_result]) -> list[str]:
    """Everything that keeps a directory from being a model that can be served, each with its remedy."""
    found = []
    for name in sorted(files):
        path, size = os.path.join(root, name), files[name].st_size
        if _is_pointer(path, size):
            found.append(f"{name} is a Git LFS pointer, not the file (fetch it: git lfs pull)")
        elif name.endswith(".safetensors"):
            fault = safetensors_fault(path, size)
            if fault:
                found.append(f"{name} {fault} (fetch it again)")
    if "config.json" not in files:
        found.append("config.json is missing (point the source at the directory that has it)")
    else:
        try:
            with open(os.path.join(root, "config.json"), encoding="utf-8") as file:
                json.load(file)
        except ValueError as error:
            found.append(f"config.json is no JSON: {error} (fetch it again)")
    for index in sorted(name for name in files if name.endswith(".index.json")):
        try:
            with open(os.path.join(root, index), encoding="utf-8") as file:
                shards = set(json.load(file)["weight_map"].values())
        except (ValueError, KeyError, TypeError, AttributeError):
            found.append(f"{index} is no index of weights (fetch it again)")
            continue
        missing = sorted(
            str(shard) for shard in shards if os.path.join(os.path.dirname(index), str(shard)) not in files
        )
        if missing:
            found.append(f"{index} names {len(missing)} files that are missing: {', '.join(missing[:5])} (fetch them)")
    if not any(name.endswith(WEIGHTS) for name in files):
        found.append(f"there are no weights, no file that ends with {', '.join(WEIGHTS)} (fetch them)")
    return found


# --- on the controller ------------------------------------------------------------------------------------------------


def source_path(source: str) -> str:
    """The directory in a file:// address."""
    if not source.startswith("file:///"):
        raise Trouble(f"source {source} is of no kind that this release fetches", "use file:///path/on/the/controller")
    return source[len("file://") :].rstrip("/") or "/"


def read_source(source: str, manifest: str | None, cache: str) -> dict[str, Any]:
    """Look at a model's source: refuse one that is not whole, and return its files with sizes and digests.

    Digests of files that did not change since the last look come from the cache: reading a large model takes minutes.
    """
    root = source_path(source)
    if not os.path.isdir(root):
        raise Trouble(f"model source {root} is no directory on the controller", "correct the source in fleet_models")
    files = list_files(root)
    found = faults(root, files)
    if found:
        raise Trouble(f"model source {root} is not a whole model: " + "; ".join(found), "mend each of these")
    make_folders(cache, 0o700)
    key = hashlib.sha256(os.path.realpath(root).encode()).hexdigest()[:32]
    with open(os.path.join(cache, f"{key}.lock"), "w", encoding="utf-8") as lock:
        # Forks of one play ask for the same source at the same time; one of them reads it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = (read_json(os.path.join(cache, f"{key}.json")) or {}).get("files", {})
        entries: dict[str, dict[str, Any]] = {}
        for name in sorted(files):
            info = files[name]
            entry = {"size": info.st_size, "mtime_ns": info.st_mtime_ns, "inode": info.st_ino}
            old = known.get(name, {})
            same = all(old.get(field) == value for field, value in entry.items())
            entries[name] = {**entry, "sha256": old["sha256"] if same else digest_file(os.path.join(root, name))}
        if entries != known:
            write_json(os.path.join(cache, f"{key}.json"), {"source": root, "files": entries}, 0o600)
        list_path = os.path.join(cache, f"{key}.files")
        listing = "".join(name + "\n" for name in sorted(files))
        write_text(list_path, listing, 0o600)
    digest = manifest_digest({name: entry["sha256"] for name, entry in entries.items()})
    if manifest and manifest.lower() != digest:
        raise Trouble(
            f"model source {root} has the manifest {digest}, and the inventory says {manifest}",
            "fetch the model again, or, if this content is meant, declare a new version with this manifest",
        )
    return {
        "path": root,
        "manifest": digest,
        "bytes": sum(entry["size"] for entry in entries.values()),
        "files": {name: {"size": entry["size"], "sha256": entry["sha256"]} for name, entry in entries.items()},
        "list": list_path,
    }


# --- on the host ------------------------------------------------------------------------------------------------------


def status(wanted: Wanted, full: bool) -> str:
    """absent, present, or unrecorded (there, and right, but without our record). Content that differs is a Trouble."""
    if not os.path.isdir(wanted.path):
        return "absent"
    record = read_json(wanted.record) or {}
    if record and record.get("manifest") != wanted.manifest:
        old = record.get("files", {})
        names = sorted(
            name
            for name in {*old, *wanted.files}
            if old.get(name, {}).get("sha256") != wanted.files.get(name, {}).get("sha256")
        )
        raise Trouble(
            f"{wanted.path} was copied from another content of this version: {_some(names)} differ at the source now",
            "declare a new version of the model; a version never changes",
        )
    here = list_files(wanted.path)
    recorded = record.get("files", {})
    suspect = [
        name
        for name in sorted({*here, *wanted.files})
        if full
        or name not in here
        or name not in wanted.files
        or here[name].st_size != wanted.files[name]["size"]
        or here[name].st_mtime_ns != recorded.get(name, {}).get("mtime_ns")
    ]
    wrong = [
        name
        for name in suspect
        if name not in here
        or name not in wanted.files
        or here[name].st_size != wanted.files[name]["size"]
        or digest_file(os.path.join(wanted.path, name)) != wanted.files[name]["sha256"]
    ]
    if wrong:
        raise Trouble(
            f"{wanted.path} is not what version and source say: {_some(wrong)} differ, are missing or do not belong",
            "declare a new version of the model if this was meant; if files were damaged, remove the directory and run "
            "this again, which copies it anew",
        )
    return "present" if record and not [name for name in suspect if not full] else "unrecorded"


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def wrong_modes(wanted: Wanted) -> list[str]:
    """Paths of a model that are not 0644 (files) or 0755 (directories)."""
    wrong = []
    folders = {os.path.dirname(name) for name in wanted.files} | {""}
    for folder in sorted(folders):
        if mode_of(os.path.join(wanted.path, folder).rstrip("/")) != 0o755:
            wrong.append(folder or ".")
    wrong += [name for name in sorted(wanted.files) if mode_of(os.path.join(wanted.path, name)) != 0o644]
    return wrong


def set_modes(root: str) -> None:
    for folder, _, files in os.walk(root):
        os.chmod(folder, 0o755)
        os.chown(folder, os.geteuid(), os.getegid())
        for name in files:
            os.chmod(os.path.join(folder, name), 0o644)
            os.chown(os.path.join(folder, name), os.geteuid(), os.getegid())


def existing_parent(path: str) -> str:
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def closed_parent(path: str) -> str | None:
    """The first existing directory above a path that other users may not pass."""
    path = existing_parent(os.path.dirname(path))
    while path != "/":
        if not os.stat(path).st_mode & 0o001:
            return path
        path = os.path.dirname(path)
    return None


def check_space(missing: list[Wanted]) -> None:
    """Refuse before the first byte is copied what has no room, with 2 % to spare, on the file system it goes to."""
    need: dict[int, int] = {}
    free: dict[int, tuple[int, str]] = {}
    for wanted in missing:
        parent = existing_parent(os.path.dirname(wanted.path))
        device = os.stat(parent).st_dev
        staged = 0
        for name, entry in wanted.files.items():
            try:
                staged += min(os.stat(os.path.join(wanted.stage, name)).st_size, entry["size"])
            except OSError:
                continue
        total = sum(entry["size"] for entry in wanted.files.values())
        need[device] = need.get(device, 0) + max(total - staged, 0)
        space = os.statvfs(parent)
        free[device] = (space.f_bavail * space.f_frsize, parent)
    for device, wanted_bytes in need.items():
        have, parent = free[device]
        if wanted_bytes * 1.02 > have:
            raise Trouble(
                f"{size_text(wanted_bytes)} of models are to be copied to {parent}, which has {size_text(have)} free",
                "remove model versions that no engine uses, or put models on a larger file system",
            )


def size_text(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def open_stage(wanted: Wanted) -> None:
    make_folders(wanted.stage)


def commit(wanted: Wanted) -> None:
    """Verify a staged copy and give it its name. What is wrong in it is removed: the next run copies only that."""
    here = list_files(wanted.stage) if os.path.isdir(wanted.stage) else {}
    for name in sorted(set(here) - set(wanted.files)):
        os.unlink(os.path.join(wanted.stage, name))
    drop_ignored(wanted.stage)
    wrong = []
    for name, entry in sorted(wanted.files.items()):
        path = os.path.join(wanted.stage, name)
        if name not in here:
            wrong.append(name)
        elif here[name].st_size != entry["size"] or digest_file(path) != entry["sha256"]:
            wrong.append(name)
            os.unlink(path)
    if wrong:
        raise Trouble(
            f"the copy in {wanted.stage} is not whole: {_some(wrong)}", "run this again; what is right is kept"
        )
    set_modes(wanted.stage)
    record(wanted, wanted.stage)
    try:
        os.rename(wanted.stage, wanted.path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        raise Trouble(
            f"{wanted.path} appeared while its copy was made", "see who writes there besides this role"
        ) from error


def record(wanted: Wanted, root: str) -> None:
    files = {
        name: {**entry, "mtime_ns": os.stat(os.path.join(root, name)).st_mtime_ns}
        for name, entry in sorted(wanted.files.items())
    }
    write_json(wanted.record, {"manifest": wanted.manifest, "files": files})


def drop_ignored(root: str) -> None:
    """Remove what is no part of a model, and directories that hold nothing."""
    for folder, folders, files in os.walk(root, topdown=False):
        for name in IGNORED.intersection(files):
            os.unlink(os.path.join(folder, name))
        for name in folders:
            path = os.path.join(folder, name)
            if name in IGNORED:
                shutil.rmtree(path)
            elif not os.listdir(path):
                os.rmdir(path)
