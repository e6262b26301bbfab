#!/bin/sh
# Builds one test if necessary, runs it, and shows its output.
# usage: test_one.sh BUILD_DIR 'TEST [CASE...]'    a program (see `meson test -C BUILD_DIR --list`), or cases of it
#        test_one.sh BUILD_DIR FILE.py[::NAME]     a file of Python tests, or one test of it
#        test_one.sh BUILD_DIR EXPRESSION          the Python tests that `pytest -k EXPRESSION` selects
set -u
build=$1
wanted=${2:-}
here=$(cd "$(dirname "$0")" && pwd)

is_program() { meson test -C "$build" --list 2>/dev/null | grep -qE "(^|/ |:)$1\$"; }

run_python() {
    "$here/venv.sh" "$build"
    GD_PYTEST_MARKS='' GD_PYTEST_WORKERS=0 PYTEST_ADDOPTS=$1 meson test -C "$build" --verbose python
}

case $wanted in
'') echo "usage: make test-one T=NAME. \`meson test -C $build --list\` lists the names" >&2 && exit 2 ;;
*.py | *.py::*) run_python "$wanted" ;;
*)
    program=${wanted%% *} cases=${wanted#"${wanted%% *}"}
    if is_program "$program"; then
        meson test -C "$build" --verbose "$program" --test-args "$cases"
    else
        run_python "-k '$wanted'"
    fi
    ;;
esac
