#!/usr/bin/python
"""Converge the models of a host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_model_store
short_description: Keep immutable model versions
description:
  - V(source), on the controller, looks at sources. It refuses a model that is not whole, and returns files and digests.
  - V(checked), on the host, verifies what is there and says what has to be copied, and whether there is room for it.
    It makes the directories to copy to, so it reports a change when something is to be copied.
  - V(present), on the host, verifies what was copied and gives it its name in one step.
  - A version never changes. Another content under the same version is an error.
options:
  state:
    description: Which step.
    type: str
    choices: [source, checked, present]
    required: true
  models:
    description: For V(source), a list of C(source), C(manifest) and C(path). For the others, what V(source) returned.
    type: list
    elements: dict
    required: true
  cache:
    description: Directory for digests of sources that did not change. For V(source).
    type: path
  verify:
    description: V(quick) compares sizes and times with the record, V(full) reads every file.
    type: str
    choices: [quick, full]
    default: quick
attributes:
  check_mode: {support: full, description: Changes nothing and says what would change.}
  diff_mode: {support: full, description: Shows versions before and after.}
  idempotent: {support: full, description: A second run changes nothing.}
author: [vllm-fleet]
"""

EXAMPLES = r"""
- name: Look at the sources
  fleet_model_store:
    state: source
    models:
      - {source: "file:///srv/models/tiny/1", path: /var/lib/vllm-fleet/models/tiny/1/default}
    cache: /var/cache/manifests
  delegate_to: localhost
"""

RETURN = r"""
models:
  description: For V(source), each model with its files, digests and manifest.
  returned: success
  type: list
  elements: dict
rsync:
  description: Whether rsync is there.
  returned: success
  type: bool
missing:
  description: For V(checked), the models to copy, each with C(from), C(list) and C(to).
  returned: success
  type: list
  elements: dict
"""

import os
import shutil

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fleet.target import models as ms
from ansible.module_utils.fleet.target.files import make_folders
from ansible.module_utils.fleet.target.trouble import Trouble


def source(module):
    if not module.params["cache"]:
        raise Trouble("no cache is given", "give one; it is needed for sources")
    models = []
    for model in module.params["models"]:
        seen = ms.read_source(model["source"], model.get("manifest"), module.params["cache"])
        models.append({**{key: seen[key] for key in ("list", "manifest", "bytes", "files")}, "source": seen["path"]})
        models[-1]["path"] = model["path"]
    return {"changed": False, "models": models, "rsync": shutil.which("rsync") is not None}


def looked(module):
    """(wanted, state) of each model. All that is wrong is told at once."""
    full = module.params["verify"] == "full"
    result, wrong = [], []
    for model in module.params["models"]:
        wanted = ms.Wanted(model["path"], model["files"])
        try:
            result.append((wanted, ms.status(wanted, full)))
        except Trouble as trouble:
            wrong.append(trouble)
        closed = ms.closed_parent(model["path"])
        if closed:
            wrong.append(Trouble(f"users may not pass {closed}, above {model['path']}", f"chmod o+x {closed}"))
    if len(wrong) == 1:
        raise wrong[0]
    if wrong:
        raise Trouble("; ".join(trouble.what for trouble in wrong), "; ".join(sorted({t.remedy for t in wrong})))
    return result


def describe(wanted, state):
    words = {"absent": "absent", "unrecorded": "there, not recorded", "present": wanted.manifest}
    return f"{wanted.path}: {words[state]}"


def converge(module):
    pairs = looked(module)
    absent = [wanted for wanted, state in pairs if state == "absent"]
    unrecorded = [wanted for wanted, state in pairs if state == "unrecorded"]
    modes = [wanted for wanted, state in pairs if state != "absent" and ms.wrong_modes(wanted)]
    ms.check_space(absent)
    before = [describe(wanted, state) for wanted, state in pairs]
    after = [describe(wanted, "present") for wanted, _ in pairs]
    for wanted in modes:
        before.append(f"{wanted.path}: other modes: {', '.join(ms.wrong_modes(wanted)[:5])}")
        after.append(f"{wanted.path}: files 0644, directories 0755")
    by_path = {model["path"]: model for model in module.params["models"]}
    missing = [
        {
            "from": by_path[wanted.path]["source"],
            "list": by_path[wanted.path]["list"],
            "to": wanted.stage,
            "path": wanted.path,
        }
        for wanted in absent
    ]
    result = {
        "changed": bool(absent or unrecorded or modes),
        "missing": missing,
        "rsync": shutil.which("rsync") is not None,
        "diff": {"before": "\n".join(before) + "\n", "after": "\n".join(after) + "\n"},
    }
    if module.check_mode or not result["changed"]:
        return result
    for wanted in modes:
        ms.set_modes(wanted.path)
    for wanted in unrecorded:
        ms.record(wanted, wanted.path)
    for wanted in absent:
        make_folders(os.path.dirname(wanted.path))
        if module.params["state"] == "checked":
            ms.open_stage(wanted)
        else:
            ms.commit(wanted)
    return result


def main():
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["source", "checked", "present"], "required": True},
            "models": {"type": "list", "elements": "dict", "required": True},
            "cache": {"type": "path"},
            "verify": {"type": "str", "choices": ["quick", "full"], "default": "quick"},
        },
        supports_check_mode=True,
    )
    try:
        module.exit_json(**(source(module) if module.params["state"] == "source" else converge(module)))
    except Trouble as trouble:
        module.fail_json(msg=str(trouble))


if __name__ == "__main__":
    main()
