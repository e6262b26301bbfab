#!/bin/sh
# Makes BUILD_DIR/venv, the environment of the Python tests, unless it exists. It has the packages that pyproject.toml
# lists under `dev`, installed with pip. It does not have our own package, which is used from BUILD_DIR/python. If the
# environment cannot be made, the script prints the reason and removes the incomplete environment. This is not an error:
# the tests are then skipped.
# usage: venv.sh BUILD_DIR
set -u
build=$1
root=$(cd "$(dirname "$0")/.." && pwd)
venv=$build/venv
wanted=$(sed -n 's/^dev = \[\(.*\)\]$/\1/p' "$root/pyproject.toml" | tr -d '",')

without() {
    echo "venv: no Python tests: $*"
    rm -rf "$venv"
    exit 0
}

[ -f "$build/python/interpreter" ] || without "this build has no Python package (Python 3.10 or later with headers)"
python=$(cat "$build/python/interpreter")
[ "$(cat "$venv/made" 2>/dev/null)" = "$python $wanted" ] && exit 0

echo "venv: making $venv: $wanted"
rm -rf "$venv"
"$python" -m venv "$venv" || without "python3 -m venv failed (Debian: python3-venv)"
# shellcheck disable=SC2086 # a list
"$venv/bin/python" -m pip install -q --disable-pip-version-check $wanted </dev/null ||
    without "pip could not install: $wanted"
echo "$python $wanted" >"$venv/made"
