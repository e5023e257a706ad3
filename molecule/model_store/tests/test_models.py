"""A host after model_store, after it was given models that cannot be, and after a copy was damaged and made again."""

from __future__ import annotations

import json

ROOT = "/var/lib/vllm-fleet/models"
PATHS = (f"{ROOT}/tiny-chat/2026.01/default", f"{ROOT}/mine/1/default")


def test_record_is_what_sha256sum_says(host):
    for path in PATHS:
        record = json.loads(host.file(f"{path}.manifest.json").content_string)
        sums = f"cd {path} && find . -type f -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 sha256sum"
        assert host.check_output(f"({sums}) | sha256sum").split()[0] == record["manifest"]


def test_everybody_reads_and_only_root_writes(host):
    for path in PATHS:
        assert host.check_output(f"find {path} -type f ! -perm 0644 -o -type d ! -perm 0755 -o ! -user root") == ""
        assert host.run(f"setpriv --reuid=65534 --clear-groups cat {path}/model.safetensors > /dev/null").rc == 0


def test_nothing_refused_became_visible(host):
    assert set(host.check_output(f"find {ROOT} -mindepth 3 -maxdepth 3 -type d").split()) == set(PATHS)


def test_nothing_is_left_of_copies(host):
    assert host.check_output(f"find {ROOT} -name '.*.staging' -o -name stray") == ""
