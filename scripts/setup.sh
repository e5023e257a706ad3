#!/usr/bin/env bash
# Makes .venv with everything the playbooks, the sandbox and the tests need. Safe to run again at any time: what is
# already right is left alone, what was interrupted is done again.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/stage.sh

python_wanted='>=3.12,<3.15' # ansible-core 2.21 runs on 3.12 and newer; its tested range ends at 3.14
need_mb=3000

[ "$(id -u)" = 0 ] || die "not root (uid $(id -u)): the sandbox makes network bridges, mounts and systemd hosts" \
  "run it as root, on a machine you may use for that"
for tool in python3 git; do
  command -v "$tool" >/dev/null || die "$tool is not installed" "install it (Debian, Ubuntu: apt-get install $tool)"
done
free_mb=$(df -Pm . | awk 'NR==2 {print $4}')
[ -x .venv/bin/ansible-playbook ] || [ "$free_mb" -ge $need_mb ] ||
  die "$free_mb MB free under $PWD, $need_mb MB are needed for the Python environment" "free some space or move the checkout"

digest() { cat requirements/*.txt scripts/setup.sh | sha256sum | cut -d' ' -f1; }

# uv: brings the other packages and finds, or fetches, the Python that the controller needs.
if ! .tools/bin/uv --version >/dev/null 2>&1 || ! cmp -s requirements/uv.txt .tools/uv.txt; then
  say "uv: installing"
  if ! python3 -c 'import venv, ensurepip' >/dev/null 2>&1; then
    command -v apt-get >/dev/null || die "python3 has no venv module" "install the distribution's package for it (python3-venv)"
    say "python3-venv: installing from the distribution"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv; } >/dev/null ||
      die "apt-get cannot install python3-venv" "make a package mirror reachable (apt-get update) or install python3-venv by hand"
  fi
  rm -rf .tools
  python3 -m venv .tools
  .tools/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt ||
    die "uv cannot be installed from the Python package index" "make an index reachable (pip config set global.index-url …) and run it again"
  cp requirements/uv.txt .tools/uv.txt
fi
uv=.tools/bin/uv

# A Python that uv does not look for: pyenv keeps its versions out of PATH.
from_pyenv() {
  local p
  for p in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[234]*/bin/python3; do
    [ -x "$p" ] && "$p" -c 'import ssl, sqlite3, ctypes' 2>/dev/null && { echo "$p"; return 0; }
  done
  return 1
}
from_distribution() {
  local v
  command -v apt-get >/dev/null || return 1
  for v in 3.12 3.13 3.14; do
    if apt-cache policy "python$v" 2>/dev/null | grep -q 'Candidate: [0-9]'; then
      DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "python$v" >/dev/null && { echo "/usr/bin/python$v"; return 0; }
    fi
  done
  return 1
}
find_python() {
  $uv python find --system --no-python-downloads "$python_wanted" 2>/dev/null && return 0
  from_pyenv && return 0
  $uv python install --quiet 3.12 >/dev/null 2>&1 && $uv python find --system --no-python-downloads "$python_wanted" 2>/dev/null && return 0
  from_distribution
}

if [ "$(cat .venv/.complete 2>/dev/null)" != "$(digest)" ]; then
  python=$(find_python) || die "no CPython 3.12, 3.13 or 3.14 here, and none could be fetched; ansible-core 2.21 needs one on the controller" \
    "give uv a way to fetch one (network, or UV_PYTHON_INSTALL_MIRROR), or install one so that it is on PATH"
  say "controller Python: $($python --version 2>&1)"
  say "Python environment: installing (pinned, with hashes)"
  $uv venv --quiet --clear --python "$python" .venv
  $uv pip install --quiet --python .venv --require-hashes -r requirements/dev.txt -r requirements/uv.txt ||
    die "the Python packages cannot be installed" "the line above names the package; check that the index is reachable, then run it again"
  digest >.venv/.complete
fi
say "Python environment: ready ($(.venv/bin/python -c 'import ansible.release as r; print("ansible-core", r.__version__)'))"
