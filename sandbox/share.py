"""What hosts find below /srv/vllm-fleet-share besides packages: what a site has on its mirror."""

from __future__ import annotations

from pathlib import Path

from sandbox import paths, python_archive, tiny_model, wheelhouse
from sandbox.report import stage
from sandbox.system import fresh, recipe_hash, sha256_file


def ensure(base: Path, *, wheels: bool) -> None:
    python_archive.ensure(base)
    _models(base)
    if wheels:
        wheelhouse.ensure()


def _models(base: Path) -> None:
    target = paths.SHARE / "models" / tiny_model.NAME
    mark = recipe_hash(Path(tiny_model.__file__).read_text(encoding="utf-8"), base.name)
    stamp = target / ".recipe"
    if stamp.exists() and stamp.read_text(encoding="ascii") == mark:
        stage(f"model {tiny_model.NAME}: from cache")
        return
    # The base's licence texts, not the machine's: the same model on every machine.
    tokenizer = tiny_model.train_tokenizer(tiny_model.read_corpus(base / "root/usr/share/common-licenses"))
    with fresh(target) as building:
        building.chmod(0o755)
        for version, seed in tiny_model.VERSIONS.items():
            parameters = tiny_model.write(building / version, tokenizer, seed)
            sums = _digests(building / version)
            (building / f"{version}.sha256").write_text(sums, encoding="ascii")
        (building / ".recipe").write_text(mark, encoding="ascii")
    target.parent.chmod(0o755)
    stage(f"model {tiny_model.NAME}: versions {', '.join(tiny_model.VERSIONS)}, {parameters} parameters each")


def _digests(directory: Path) -> str:
    """In sha256sum's format."""
    return "".join(f"{sha256_file(file)}  {file.name}\n" for file in sorted(directory.iterdir()))
