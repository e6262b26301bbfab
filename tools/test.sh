#!/bin/sh
# Runs the tests of a build directory. The last line is their total, `N passed, N failed`.
# usage: test.sh BUILD_DIR [arguments of meson test]
set -u
build=$1
shift
rm -f "$build"/meson-logs/testlog*.json
# Twice as many programs as processors: most of them wait most of the time.
MESON_TESTTHREADS=${MESON_TESTTHREADS:-$(($(nproc) * 2))}
export MESON_TESTTHREADS
meson test -C "$build" --print-errorlogs "$@" </dev/null
status=$?
"$(dirname "$0")/totals.py" "$build"/meson-logs/testlog*.json || status=1
exit "$status"
