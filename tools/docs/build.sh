#!/bin/sh
# Builds the documentation into BUILD_DIR/site with MkDocs, which the first call installs into BUILD_DIR/docs-venv. Open
# BUILD_DIR/site/index.html, or serve the directory if you also want its search.
# usage: build.sh BUILD_DIR
set -eu
build=${1:?usage: build.sh BUILD_DIR}
root=$(cd "$(dirname "$0")/../.." && pwd)
wanted="mkdocs-material>=9.5,<10"

mkdir -p "$build"
build=$(cd "$build" && pwd)
venv=$build/docs-venv
if [ "$(cat "$venv/made" 2>/dev/null)" != "$wanted" ]; then
    echo "docs: installing $wanted from PyPI into $venv"
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/python" -m pip install -q --disable-pip-version-check "$wanted" </dev/null
    echo "$wanted" >"$venv/made"
fi
NO_MKDOCS_2_WARNING=1 "$venv/bin/python" -m mkdocs build -q -f "$root/mkdocs.yml" -d "$build/site"
echo "docs: $build/site/index.html"
