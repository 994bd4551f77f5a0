#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# wheel.sh WHEEL [PYTHON]: installs a wheel into a new virtual environment with NumPy and nanobind-backend
# alone (not even Rich), and has it run what smoke.py says.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
wheel=$(realpath "$1") python=${2:-python3}
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
"$python" -m venv "$room/venv"
"$room/venv/bin/python" -m pip install -q --disable-pip-version-check --only-binary :all: numpy 'nanobind-backend>=1,<2'
"$room/venv/bin/python" -m pip install -q --disable-pip-version-check --no-deps "$wheel"
cd "$room"
env -u PYTHONPATH PATH="$room/venv/bin:/usr/bin:/bin" "$room/venv/bin/python" -I "$here/smoke.py" "$wheel"
