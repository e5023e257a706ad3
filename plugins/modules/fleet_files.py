#!/usr/bin/python
"""Small files of a role, in one call."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_files
short_description: Put the small files of a role in place, in one call
description:
  - Compares, validates and writes files, each in one step, owned by root. Missing directories are made.
  - Files without a validator are written first, as the validators of others may read them.
options:
  files:
    description: The files.
    type: list
    elements: dict
    required: true
    options:
      path: {description: Where it goes., type: path, required: true}
      content: {description: Its text., type: str}
      secret: {description: Whether its text is in O(secrets)., type: bool, default: false}
      mode: {description: "Permissions, octal.", type: str, default: "0644"}
      validate: {description: "Command that judges the new file, with %s in its place.", type: str, default: ""}
      state: {description: Whether it should be there., type: str, choices: [present, absent], default: present}
  secrets:
    description:
      - Texts of files that are secret, by path. Never shown and never logged.
      - Apart from O(files), because a secret inside a list can come into the host's journal, escaped past recognition.
    type: dict
    default: {}
attributes:
  check_mode: {support: full, description: Changes nothing and says what would change.}
  diff_mode: {support: full, description: Shows content and permissions; of secrets only that they differ.}
  idempotent: {support: full, description: A second run changes nothing.}
author: [vllm-fleet]
"""

EXAMPLES = r"""
- name: Configure the gateway
  fleet_files:
    files:
      - {path: /etc/example/key, secret: true, mode: "0600"}
      - {path: /etc/example/example.cfg, content: "{{ text }}", validate: example --check %s}
    secrets:
      /etc/example/key: "{{ key }}"
"""

RETURN = r"""
paths:
  description: Files that differed.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fleet.target import placing
from ansible.module_utils.fleet.target.trouble import Trouble


def wanted(item, secrets):
    content = secrets.get(item["path"]) if item["secret"] else item["content"]
    if item["state"] == "absent":
        content = None
    elif content is None:
        raise Trouble(f"{item['path']} has no content", "give it content, or state absent")
    return placing.Placed(item["path"], content, int(item["mode"], 8), item["secret"], item["validate"])


def main():
    options = {
        "path": {"type": "path", "required": True},
        "content": {"type": "str"},
        "secret": {"type": "bool", "default": False, "no_log": False},
        "mode": {"type": "str", "default": "0644"},
        "validate": {"type": "str", "default": ""},
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    }
    module = AnsibleModule(
        argument_spec={
            "files": {"type": "list", "elements": "dict", "required": True, "options": options},
            "secrets": {"type": "dict", "default": {}, "no_log": True},
        },
        supports_check_mode=True,
        # Otherwise whole files go to the journal on each run.
        no_log=True,
    )
    try:
        files = [wanted(item, module.params["secrets"]) for item in module.params["files"]]
        paths, diffs = placing.converge(files, module.check_mode)
    except Trouble as trouble:
        module.fail_json(msg=str(trouble))
    module.exit_json(changed=bool(paths), paths=paths, diff=diffs)


if __name__ == "__main__":
    main()
